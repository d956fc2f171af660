"""The real Router, over HTTP that is scripted, against the rules written down a second time.

Hypothesis makes up sessions: ladders, agents, what each target answers in each turn, callers
who leave. The model knows outcomes alone. What really went out is counted at the transport.
"""

import asyncio
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from hypothesis import given, settings
from hypothesis import strategies as st

from turnout import AuditRecord, InMemory, Router, Target, TurnFailed
from turnout.engine.clock import VirtualClock
from turnout.engine.testing import Hang, Scripted, ScriptedTransport, in_json, model_of, ok, refusal

BODY = {"messages": [{"role": "user", "content": "Good morning"}]}
NAMES = ("a", "b", "c", "d")

SERVES, SURFACES, FOR_THE_TURN, SILENT = "serves", "surfaces", "for this turn", "silent"
ANSWERS: dict[str, tuple[Scripted, str]] = {
    "ok": (ok(), SERVES),
    "overflow": (refusal("context_window"), "context_window"),
    "no such feature": (refusal("capability", "role"), "capability"),
    "no images": (refusal("capability", "image"), "capability (image)"),
    "503": (refusal("unavailable"), FOR_THE_TURN),
    "no quota": (refusal("quota_or_billing"), FOR_THE_TURN),
    "403": (in_json(403, {"error": {"message": "Forbidden", "code": "forbidden"}}), FOR_THE_TURN),
    "no answer": (in_json(200, {"choices": []}), FOR_THE_TURN),
    "401": (refusal("auth"), SURFACES),
    "no model": (refusal("model_not_found"), SURFACES),
    "not allowed": (refusal("content_policy"), SURFACES),
    "no such parameter": (refusal("parameter_reject"), SURFACES),
    "caller's mistake": (refusal("caller_error"), SURFACES),
    "silence": (Hang(), SILENT),
}


class Planned(NamedTuple):
    session: str
    agent: str
    final: bool
    caller_leaves: bool
    answers: tuple[str, ...]
    """What each target of the ladder answers if it is asked."""


@dataclass
class Model:
    """Section 3 of the rules over outcomes: who is out for whom, and who is asked next."""

    ladder: tuple[str, ...]
    out: dict[tuple[str, str], list[tuple[str, str]]] = field(default_factory=dict)
    """By session and agent: what was answered, oldest first cause first."""

    def turn(self, planned: Planned) -> tuple[list[str], str]:
        """Whom the turn asks, and how it ends."""
        out = self.out.setdefault((planned.session, planned.agent), []) if planned.session else []
        asked, state = self._asked(planned, out)
        if planned.final and planned.session:
            for owner in list(self.out):
                if owner[0] == planned.session and planned.agent in ("", owner[1]):
                    del self.out[owner]
        return asked, state

    def _asked(self, planned: Planned, out: list[tuple[str, str]]) -> tuple[list[str], str]:
        asked: list[str] = []
        ruled_out = {target for target, _ in out}
        waiting = [target for target in self.ladder if target not in ruled_out]
        for target in waiting or [self._survivor(out)]:
            asked.append(target)
            outcome = ANSWERS[planned.answers[self.ladder.index(target)]][1]
            if outcome == SERVES:
                if not waiting:  # as last resort: what this turn contradicted goes
                    out[:] = [kept for kept in out if kept[0] != target or kept[1] == "capability (image)"]
                return asked, "served"
            if outcome == SURFACES:
                return asked, "failed"
            if outcome == SILENT:
                return asked, "left" if planned.caller_leaves else "failed"
            if outcome != FOR_THE_TURN and not _known(out, target, outcome):
                out.append((target, outcome))
        return asked, "failed"

    def _survivor(self, out: list[tuple[str, str]]) -> str:
        incapable = {target for target, reason in out if reason.startswith("capability")}
        oldest = list(dict.fromkeys(target for target, _ in out))
        return min(oldest, key=lambda target: (target in incapable, oldest.index(target)))


def _known(out: list[tuple[str, str]], target: str, outcome: str) -> bool:
    """Whether it is remembered already. A feature beside another widens what is remembered."""
    if outcome.startswith("capability"):
        both = {reason for kept, reason in out if kept == target and reason.startswith("capability")}
        if both and outcome not in both:
            place = next(i for i, kept in enumerate(out) if kept[0] == target and kept[1] in both)
            out[place] = (target, "capability")
        return bool(both)
    return (target, outcome) in out


owners = st.sampled_from([("s1", ""), ("s1", "x"), ("s1", "y"), ("s2", ""), ("", "")])
chances = st.integers(0, 5).map(lambda n: n == 0)


@st.composite
def sessions(draw: st.DrawFn) -> tuple[tuple[str, ...], list[Planned]]:
    ladder = NAMES[: draw(st.integers(1, 4))]
    answers = st.tuples(*(st.sampled_from(list(ANSWERS)) for _ in ladder))
    turns = st.builds(lambda owner, *rest: Planned(*owner, *rest), owners, chances, st.booleans(), answers)
    return ladder, draw(st.lists(turns, min_size=1, max_size=8))


@settings(max_examples=300, deadline=None)
@given(sessions())
def test_the_router_asks_whom_the_rules_say_and_remembers_what_they_say(
    made: tuple[tuple[str, ...], list[Planned]],
) -> None:
    names, turns = made
    clock, model = VirtualClock(), Model(names)
    ladder = [Target(name, base_url="http://upstream.example", max_retries=0) for name in names]

    async def play() -> None:
        memory = InMemory()
        for planned in turns:
            records: list[AuditRecord] = []
            transport = ScriptedTransport(
                {name: [ANSWERS[answer][0]] for name, answer in zip(names, planned.answers, strict=True)},
                clock=clock,
            )
            router = Router(
                ladder=ladder,
                memory=memory,
                transport=transport,
                clock=clock,
                deadline_secs=100,
                on_record=records.append,
            )
            await clock.sleep(1)  # causes of the same instant would go by ladder order
            expected, state = model.turn(planned)
            seen = await _state(router, planned)
            await router.close()
            asked = [model_of(request) for request in transport.requests]
            assert (asked, seen) == (expected, state)
            (record,) = records
            assert [probe.target for probe in record.probes] == asked
            told = [t.target for t in (*record.probes, *record.passed_over, *record.not_tried)]
            assert sorted(told) == sorted(names)

    clock.run(play())


async def _state(router: Router, planned: Planned) -> str:
    arguments: dict[str, Any] = {"session": planned.session, "final": planned.final}
    turn = asyncio.create_task(router.turn(BODY, agent=planned.agent, **arguments))
    if planned.caller_leaves:
        asyncio.get_running_loop().call_later(50, turn.cancel)
    await asyncio.wait([turn])
    if turn.cancelled():
        return "left"
    try:
        turn.result()
    except TurnFailed:
        return "failed"
    return "served"
