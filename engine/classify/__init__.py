"""From what a failed attempt brought back to a verdict. Pure, and total: no reply makes it raise.

- `unwrap` finds the diagnostic fields of a body, as deep as proxies wrap them
- `text` makes a diagnostic message safe to match: no URLs, no names, no quoted request
- `codes`: what structured codes say, alone or with the parameter that they name
- `nouns` and `wordings`: what diagnostic sentences speak of, and what they say of it
- `statuses`: what a status says where nothing else does
- `retry_after`: how long the upstream asks to wait
- `transport`: failures that brought no reply
- `reading`: the order in which these are asked
"""

from turnout.engine.classify.reading import Reader, classify, unreadable
from turnout.engine.classify.reply import Reply
from turnout.engine.classify.transport import no_connection, too_slow, transport_failure
from turnout.engine.classify.unwrap import carries_error
from turnout.engine.classify.verdict import UNRECOGNISED, Evidence, Feature, Verdict

__all__ = [
    "UNRECOGNISED",
    "Evidence",
    "Feature",
    "Reply",
    "Verdict",
    "carries_error",
    "classify",
    "no_connection",
    "too_slow",
    "transport_failure",
    "unreadable",
]
