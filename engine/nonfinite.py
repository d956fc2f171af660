"""Numbers that JSON has no word for: NaN and the infinities."""

from __future__ import annotations

import math
from collections.abc import Iterable

from turnout.engine.printable import printable, shortened


def nonfinite(value: object, within: str = "") -> str:
    """Where a value holds such a number, as a path like `logit_bias.50256`; empty where nowhere.

    Args:
        value: something that has been encoded as JSON, so that it has an end.
        within: the path of the value itself.
    """
    return _place(value, within) if _anywhere(value) else ""  # a path is made where there is one to tell


def _anywhere(value: object) -> bool:
    stack = [value]
    while stack:
        inner = stack.pop()
        if isinstance(inner, float):
            if not math.isfinite(inner):
                return True
        elif isinstance(inner, dict):
            stack += inner.values()
        elif isinstance(inner, list | tuple):
            stack += inner
    return False


def _place(value: object, within: str) -> str:
    stack = [(within, value)]
    while stack:
        path, inner = stack.pop()
        items: Iterable[tuple[str, object]] = ()
        if isinstance(inner, float) and not math.isfinite(inner):
            return printable(shortened(path))
        if isinstance(inner, dict):
            items = ((f".{key}" if path else str(key), item) for key, item in inner.items())
        elif isinstance(inner, list | tuple):
            items = ((f"[{place}]", item) for place, item in enumerate(inner))
        stack += ((path + step, item) for step, item in items)
    return ""
