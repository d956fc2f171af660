"""From what a failed attempt brought back to a verdict. Pure, and total: no reply makes it raise.

- `decoding`: from bytes to values, whatever shape they came in
- `objects`: the fields of a body that are read; `answers`: whether a 200 is an answer at all
- `unwrap` finds the diagnostic fields of a body, as deep as proxies wrap them
- `text` makes a diagnostic message safe to match: no URLs, no names, no quoted request; its words
- `operator`: the rules that a deployment gives, which are asked first
- `codes`: what structured codes say; `providers`: those that are one provider's own
- `case`: a reply made ready: its findings, and what each sentence of them speaks of
- `naming`: which field of the request a sentence names; `fields`: what that says
- `features`: what a capability reject refused
- `settings`: the optional settings of a request, and what it means that a field is refused
- `concepts`: what diagnostic sentences speak of, and what they say of it; `lexicon` finds it
- `rules`: what the two mean together
- `statuses`: what a status says where nothing else does
- `retry_after`: how long the upstream asks to wait
- `transport`: failures that brought no reply
- `reading`: the order in which these are asked
"""

from turnout.engine.classify.answers import carries_error
from turnout.engine.classify.reading import classify, unreadable
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.transport import (
    idle,
    no_connection,
    no_output,
    too_slow,
    transport_failure,
    unfinished,
)
from turnout.engine.classify.verdict import UNREADABLE, UNRECOGNISED, Evidence, Feature, Verdict

__all__ = [
    "UNREADABLE",
    "UNRECOGNISED",
    "Evidence",
    "Feature",
    "Reply",
    "Verdict",
    "carries_error",
    "classify",
    "idle",
    "no_connection",
    "no_output",
    "too_slow",
    "transport_failure",
    "unfinished",
    "unreadable",
]
