"""How long the upstream asks to wait."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import UTC
from email.utils import parsedate_to_datetime
from typing import Final

_NUMBER: Final = re.compile(r"[0-9]{1,300}(?:\.[0-9]{0,12})?")
_UNITS: Final = (("retry-after-ms", 0.001), ("retry-after", 1.0))
"""The finer one wins where both are sent. The unit in seconds."""


def retry_after(headers: Mapping[str, str], *, now: float) -> float | None:
    """Seconds to wait, or None where no header tells. What cannot be read, or has passed, is ignored.

    Args:
        headers: names in lower case.
        now: seconds since 1970, against which a date is read.
    """
    for name, unit in _UNITS:
        if _NUMBER.fullmatch(value := headers.get(name, "").strip()):
            return float(value) * unit
    return _until(headers.get("retry-after", "")[:64], now)


def _until(date: str, now: float) -> float | None:
    try:
        at = parsedate_to_datetime(date)
        wait = at.replace(tzinfo=at.tzinfo or UTC).timestamp() - now
    except (ValueError, TypeError, IndexError, OverflowError):
        return None
    return wait if wait >= 0 else None
