"""The world around a probe, and what must hold whatever happens in it.

As `world.py` does for a turn: the real `Probe` is stepped along every path, and a witness
that knows the answers, the budget and what was injected says what has to come of each.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum
from typing import Final, NamedTuple

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.probe import Probe
from turnout.engine.targets import Target
from turnout.machines import probe as probe_machine
from turnout.machines.explore import Choose, walk
from turnout.machines.stepping import StepMachine
from turnout.machines.vocabulary import ErrorKind as Kind


class Property(StrEnum):
    """What must hold on every path of a probe."""

    SETTLES = "answered, expired, cancelled and broken settle the probe at once"
    RETRIED = "a refusal that may pass is asked again, after a wait, while budget and time allow"
    CORRECTED = "an injected key that was refused is taken out and asked again at once, once"
    RESENDS = "after the wait, or the correction, the target is asked again"
    PASSED_ON = "every other refusal settles the probe and is what it says"
    FREE = "a kept connection that broke before a byte costs no retry and no wait, once"
    BOUNDED = (
        "a probe sends at most max_retries + 1 attempts, one more for a correction, one for a kept connection"
    )
    ENDS = "every probe is settled"


class Answer(NamedTuple):
    """What an attempt can bring."""

    name: str
    verdict: Verdict | None
    passing: bool = False
    """Whether waiting may help."""
    ours: bool = False
    """Whether it can be what we injected that was refused."""
    stale: bool = False
    """Whether it is a kept connection that broke before any byte of a reply."""
    committed: bool = False
    """Whether a stream had brought content before."""


def _refusal(name: str, kind: Kind, *, passing: bool = False, ours: bool = False, param: str = "") -> Answer:
    verdict = Verdict(kind=kind, evidence=Evidence("told"), status=400, retryable=passing, param=param)
    return Answer(name, verdict, passing, ours)


INJECTED: Final = frozenset({"effort"})
ANSWERED: Final = Answer("answered", None)
STALE: Final = Answer(
    "kept connection broke",
    Verdict(kind=Kind.UNAVAILABLE, evidence=Evidence("told"), retryable=True, stale=True),
    passing=True,
    stale=True,
)
ANSWERS: Final = (
    ANSWERED,
    STALE,
    _refusal("busy", Kind.UNAVAILABLE, passing=True),
    _refusal("down", Kind.UNAVAILABLE),
    _refusal("our key refused", Kind.PARAMETER_REJECT, ours=True, param="effort.level"),
    _refusal("some key refused", Kind.PARAMETER_REJECT, ours=True),
    _refusal("our key is beyond it", Kind.CAPABILITY, ours=True, param="effort"),
    _refusal("something is beyond it", Kind.CAPABILITY),
    _refusal("busy after content", Kind.UNAVAILABLE, passing=True)._replace(committed=True),
    _refusal("our key refused after content", Kind.PARAMETER_REJECT, ours=True)._replace(committed=True),
    _refusal("caller's key refused", Kind.PARAMETER_REJECT, param="top_k"),
    _refusal("caller_error", Kind.CALLER_ERROR),
)
INTERRUPTIONS: Final = ("", "expired", "cancelled", "broken")


class Ending(NamedTuple):
    """One path of one probe."""

    violated: tuple[Property, ...]
    events: tuple[str, ...]

    def __str__(self) -> str:
        return f"{'; '.join(self.violated) or 'all holds'}: {' > '.join(self.events)}"


class _Interrupted(Exception):
    """The turn has ended the probe, as the world decided."""


class _Play:
    def __init__(self, choose: Choose, machine: StepMachine, budgets: Sequence[int]) -> None:
        self.choose = choose
        self.budget = choose(budgets)
        self.injected = choose((frozenset[str](), INJECTED))
        self.strips = choose((True, False)) if self.injected else True
        target = Target(
            "t", max_retries=self.budget, on_parameter_reject="strip_once" if self.strips else "off"
        )
        self.probe = Probe(target, injected=self.injected, machine=machine)
        self.retries = self.corrections = self.freed = self.sent = 0
        self.events = [f"max_retries {self.budget}, injected {sorted(self.injected)}"]
        self.violated: dict[Property, None] = {}

    def play(self) -> Ending:
        try:
            self.run()
        except _Interrupted:
            self.check(Property.SETTLES, self.probe.settled)
        except Exception as error:  # noqa: BLE001  # what a changed machine does is told, not raised
            self.events.append(repr(error))
            self.check(Property.ENDS, False)
        return Ending(tuple(self.violated), tuple(self.events))

    def run(self) -> None:
        while not self.probe.settled:
            self.sent += 1
            if self.sent > self.budget + 3:
                self.check(Property.BOUNDED, False)
                return
            self.interrupt()
            answer = self.choose(ANSWERS)
            self.events.append(answer.name)
            if answer.verdict is None:
                self.probe.answered()
                self.check(Property.SETTLES, self.probe.settled and self.probe.verdict is None)
                return
            self.refuse(answer, answer.verdict)
            if not self.probe.settled:
                self.interrupt()
                self.probe.resend()
                self.check(Property.RESENDS, not self.probe.settled)
        self.check(Property.ENDS, self.probe.settled)

    def refuse(self, answer: Answer, verdict: Verdict) -> None:
        probe, before = self.probe, self.probe.retries
        # a wait is a quarter of a second at least: the deadline leaves none, enough, or is none
        left = self.choose((None, 60.0, 0.2)) if answer.passing else None
        probe.committed = answer.committed
        probe.refused(verdict, left=left)
        if answer.committed:
            self.check(Property.PASSED_ON, probe.settled and probe.verdict is verdict)
        elif answer.ours and self.injected and self.strips and not self.corrections:
            self.corrections += 1
            taken_out = probe.stripped == self.injected and probe.wait == 0.0
            self.check(Property.CORRECTED, not probe.settled and taken_out and probe.retries == before)
        elif answer.stale and not self.freed:
            self.freed += 1
            free = not probe.settled and probe.wait == 0.0 and probe.retries == before
            self.check(Property.FREE, free and probe.fresh)
        elif answer.passing and self.retries < self.budget and left != 0.2:
            self.retries += 1
            self.check(Property.RETRIED, not probe.settled and probe.wait > 0.0)
            self.check(Property.RETRIED, probe.retries == self.retries)
        else:
            self.check(Property.PASSED_ON, probe.settled and probe.verdict is verdict)
        self.check(Property.CORRECTED, bool(probe.stripped) == bool(self.corrections))

    def interrupt(self) -> None:
        event = self.choose(INTERRUPTIONS)
        if event:
            self.events.append(f"{event} in {self.probe.state}")
            self.probe.interrupt(event)
            raise _Interrupted

    def check(self, rule: Property, holds: bool) -> None:
        if not holds:
            self.violated[rule] = None


def probes(machine: StepMachine = probe_machine.MACHINE, budgets: Sequence[int] = (0, 1, 2)) -> list[Ending]:
    """Every path of one probe, for each of these `max_retries`."""
    return list(walk(lambda choose: _Play(choose, machine, budgets).play()))
