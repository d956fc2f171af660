"""An account of a session as a person reads it. Nothing of it is made fit for a terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from turnout.engine import pricing
from turnout.engine.account import Asked, NotAsked, Reason, Switch, TurnAccount


def lines(told: TurnAccount) -> Iterator[str]:
    """A turn, a line for each thing."""
    by = f"by {told.served_by}" if told.served_by else told.state
    agent = f", agent {told.agent}" if told.agent else ""
    yield f"turn {told.number}  {by} in {told.took:.3g} s on route {told.route}{agent}"
    for one in told.asked:
        yield f"  {one.target}: {_words_of_asked(one)}"
    for other in told.not_asked:
        yield f"  {other.target}: {_words_of_not_asked(other, told.at)}"
    yield from _lines_of_cost(told)
    if told.switch is not None:
        yield f"  {_words_of_switch(told.switch)}"
    if told.home:
        yield f"  the session is at home with {told.home} from now on"
    if told.restored:
        yield f"  restored, since it served: {', '.join(told.restored)}"
    if told.lifted:
        yield f"  evicted, but not for this request: {', '.join(told.lifted)}"
    if told.error:
        yield f"  the caller got: {told.error}"
    for note in told.notes:
        yield f"  note: {note}"


def _lines_of_cost(told: TurnAccount) -> Iterator[str]:
    if told.cost_unknown:
        yield "  cost unknown: the tokens were not reported, or not so that they can be believed"
    elif told.cost is not None:
        yield f"  cost {pricing.shown(told.cost)}"


def _words_of_switch(switch: Switch) -> str:
    more = f", which costs about {pricing.shown(switch.cost)} more" if switch.cost else ""
    lost = f"; {switch.cached} cached tokens are lost{more}" if switch.cached else ""
    return f"switched from {switch.before} to {switch.now}{lost}"


def _words_of_asked(one: Asked) -> str:
    how = [f"asked {one.attempts} times" if one.attempts > 1 else "asked"]
    how += ["as last resort, since all were ruled out"] if one.last_resort else []
    how += ["as the one trial of a target that had cooled"] if one.trial else []
    how[0] += f" ({', '.join(one.failures)})" if one.failures else ""
    how += [f"waited {one.waited:.3g} s"] if one.waited else []
    how += [f"without {', '.join(one.stripped)}"] if one.stripped else []
    billed = "an attempt" if one.possibly_billed == 1 else f"{one.possibly_billed} attempts"
    how += [f"{billed} may be billed all the same"] if one.possibly_billed else []
    said = f": {_words_of_reason(one.reason)}" if one.reason is not None else ""
    return f"{', '.join(how)}, {one.outcome}{said}"


def _words_of_not_asked(one: NotAsked, at: float) -> str:
    if one.why == "gated":
        return f"passed over, gated: {one.limit}"
    if one.why == "cooling":
        if one.trial:
            return f"passed over, cooling while turn {one.trial} tries it{_since(one.reasons)}"
        left = "" if one.until is None else f" for {max(0.0, one.until - at):.3g} s more"
        return f"passed over, cooling{left}{_since(one.reasons)}"
    if one.why == "evicted":
        causes = "; ".join(f"in {_where(r)}: {_words_of_reason(r)}" for r in one.reasons)
        return f"passed over, evicted {causes}"
    return f"not tried: {_NOT_TRIED.get(one.why, one.why)}"


def _since(reasons: tuple[Reason, ...]) -> str:
    return "; ".join(f" since {_where(r)}: {_words_of_reason(r)}" for r in reasons)


_NOT_TRIED: Final[Mapping[str, str]] = {
    "served": "another one had served",
    "surfaced": "the error before it went to the caller",
    "deadline": "the deadline had passed",
    "cancelled": "the caller had gone",
    "broken": "the turn was broken",
}


def _where(reason: Reason) -> str:
    return f"turn {reason.number}" if reason.number is not None else f"turn {reason.turn}, not of these"


def _words_of_reason(reason: Reason) -> str:
    what = f" ({', '.join(reason.features)})" if reason.features else ""
    status = f", HTTP {reason.status}" if reason.status else ""
    code = f", code {reason.code}" if reason.code else ""
    field = f" in {reason.field}" if reason.field else ""
    said = f': "{reason.message}"' if reason.message else ""
    return f"{reason.kind}{what}{status}{code}, known by {reason.rule}{field}{said}"
