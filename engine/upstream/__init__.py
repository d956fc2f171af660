"""Asking an upstream over HTTP: one attempt at a time.

- `sending`: what goes out, and what of it must never be told again
- `bounds`: how long an attempt may take, kept on the injected clock
- `bodies`: a reply's body as it comes, unpacked and bounded
- `streaming`: a stream from its head to its end, and when it commits
- `attempt`: one attempt, made of these
"""

from turnout.engine.upstream.attempt import ANSWERED, CONNECTING, SENDING, SENT, HttpUpstream
from turnout.engine.upstream.sending import NEVER_FORWARDED, carries, forwarded, url

__all__ = [
    "ANSWERED",
    "CONNECTING",
    "NEVER_FORWARDED",
    "SENDING",
    "SENT",
    "HttpUpstream",
    "carries",
    "forwarded",
    "url",
]
