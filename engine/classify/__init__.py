"""From what a failed attempt brought back to a verdict. Pure, and total: no reply makes it raise.

unwrap.py       finds the diagnostic fields of a body, as deep as proxies wrap them
text.py         makes a diagnostic message safe to match: no URLs, no quoted request
codes.py        what structured codes say, alone or with the parameter that they name
wordings.py     what diagnostic sentences say: a noun and what is said of it
statuses.py     what a status says where nothing else does
retry_after.py  how long the upstream asks to wait
transport.py    failures that brought no reply
reading.py      the order in which these are asked
"""

from turnout.engine.classify.reading import classify, unreadable
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
