"""A session as an SVG picture, from its audit records: targets down, turns across, a band for each agent.

Each probe is a mark whose shape and colour say what came of it; an eviction is a bar that lasts as long as it
does. The picture needs nothing beside itself, and follows a light or dark scheme. Names come from
callers and files: they are shown as text on one line, never as anything else.
"""

from __future__ import annotations

import math
import unicodedata
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple
from xml.sax.saxutils import escape

from turnout.engine.audit import AuditRecord, PassedOver, ProbeRecord, WhyPassedOver
from turnout.engine.context import Eviction
from turnout.engine.picture import outcomes, targets
from turnout.engine.printable import printable
from turnout.machines.vocabulary import TurnState

# -- what the marks are


class Sign(NamedTuple):
    """A mark: what it says, its shape around its middle, its colour on a light and on a dark ground."""

    words: str
    shape: str
    light: str
    dark: str


_SQUARE: Final = "M-4.2-4.2H4.2V4.2H-4.2Z"
_DIAMOND: Final = "M0-5.6L5.6 0L0 5.6L-5.6 0Z"
QUIET: Final = ("#59636e", "#9198a1")
INK: Final = ("#1f2328", "#e6edf3")
GROUND: Final = ("#ffffff", "#0d1117")
TINT: Final = ("#ffebe9", "#2f1719")
_LINE: Final = ("#d8dee4", "#2a313a")

PROBES: Final[Mapping[str, Sign]] = {
    "served": Sign("served", "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0Z", "#1a7f37", "#3fb950"),
    "context_window": Sign("evicted, context_window", _SQUARE, "#9a6700", "#d29922"),
    "capability": Sign("evicted, capability", _DIAMOND, "#8250df", "#a371f7"),
    "skipped": Sign("skipped", "M-5.5-4.4H5.5L0 5.6Z", "#0969da", "#4493f8"),
    "failed": Sign(
        "failed",
        "M-5-3.2L-3.2-5L0-1.8L3.2-5L5-3.2L1.8 0L5 3.2L3.2 5L0 1.8L-3.2 5L-5 3.2L-1.8 0Z",
        "#cf222e",
        "#f85149",
    ),
    "unanswered": Sign(
        "no answer before the turn ended",
        "M-5 0a5 5 0 1 0 10 0a5 5 0 1 0-10 0ZM-2.8 0a2.8 2.8 0 1 1 5.6 0a2.8 2.8 0 1 1-5.6 0Z",
        *QUIET,
    ),
}
"""What comes of a probe. Of an eviction it is the reason, and the bar is of its colour."""
BESIDE: Final[Mapping[str, Sign]] = {
    "last_resort": Sign(
        "as last resort",
        "M-7 0a7 7 0 1 0 14 0a7 7 0 1 0-14 0ZM-6 0a6 6 0 1 1 12 0a6 6 0 1 1-12 0Z",
        *INK,
    ),
    "trial": Sign("trial of one that had cooled", "M-5 8H5V9.6H-5Z", *INK),
}
"""How a probe came to be, around the mark of it."""
PASSED_OVER: Final[Mapping[str, Sign]] = {
    "gated": Sign("passed over, gated", "M-3-4H-1.2V4H-3ZM1.2-4H3V4H1.2Z", *QUIET),
    "cooling": Sign("passed over, cooling", "M-3.6-4.4H3.6L.6 0L3.6 4.4H-3.6L-.6 0Z", *QUIET),
}
FAILED_TURN: Final = Sign("the turn failed", "M-6-1.5H6V1.5H-6Z", "#cf222e", "#f85149")
SIGNS: Final[Mapping[str, Sign]] = {**PROBES, **BESIDE, **PASSED_OVER, "failed_turn": FAILED_TURN}

_ENDED_BY: Final[Mapping[str, str]] = {
    "advance": "no target was left",
    "rejected": "the error went to the caller",
    "expired": "the deadline had passed",
    "cancelled": "the caller had gone",
}
"""What ended a turn, where that is no word of its own."""
_LANES: Final[Mapping[str, float]] = {"context_window": -3.0, "capability": 3.0}
"""Where the bar of each reason runs beside the middle of its row: a target may be out for both."""


# -- what there is to draw


class Column(NamedTuple):
    """One turn: its place in the picture, and its number in the session."""

    place: int
    number: int
    record: AuditRecord


class Span(NamedTuple):
    """An eviction as long as it lasts, in columns: the mark of a turn is in the middle of its own."""

    target: str
    reason: str
    start: float
    end: float


class Band(NamedTuple):
    """What is of one agent: its rows, its turns, its evictions."""

    agent: str
    targets: list[str]
    columns: list[Column]
    spans: list[Span]


def bands(columns: Sequence[Column]) -> list[Band]:
    """A band for each agent, the root's first, the others as they came."""
    order = targets([column.record for column in columns])
    found = []
    for agent in sorted(dict.fromkeys(column.record.caller.agent for column in columns), key=bool):
        own = [column for column in columns if column.record.caller.agent == agent]
        known = set(targets([column.record for column in own]))
        rows = [target for target in order if target in known]
        found.append(Band(agent, rows, own, list(spans(own, len(columns)))))
    return found


def spans(columns: Sequence[Column], end: int) -> Iterator[Span]:
    """How long each eviction of one agent lasts: from the turn that has it first to one that has it no more.

    Args:
        end: where the picture ends, and all that lasts until then.
    """
    since: dict[tuple[str, str], float] = {}
    for place, _, record in columns:
        for at, standings in ((place, record.standings_before), (place + 0.5, record.standings_after)):
            out = _out(record, standings)
            for key in [key for key in since if key not in out]:
                yield Span(*key, since.pop(key), at)
            for key in out:
                since.setdefault(key, at)
    for key, began in since.items():
        yield Span(*key, began, end)


def _out(record: AuditRecord, standings: Iterable[Eviction]) -> dict[tuple[str, str], None]:
    """Which targets are out, for which reason; what was learnt of one as it was before is inert."""
    now = {rung.target: rung.fingerprint for rung in record.ladder}
    there = [e for e in standings if e.reason in _LANES and now.get(e.target) in (None, e.fingerprint)]
    return {(e.target, str(e.reason)): None for e in there}


def _outcome(probe: ProbeRecord, state: str) -> str:
    """Which mark a probe has."""
    if probe.verdict is None and not probe.answered:
        return "unanswered"
    kind = str(probe.reason) if state == TurnState.EVICTED else state
    return kind if kind in PROBES else "failed"


def _words_of_probe(number: int, probe: ProbeRecord, outcome: str) -> str:
    words = PROBES[outcome].words.split(", ")
    if probe.verdict is not None:
        words += [str(probe.reason)] if probe.reason is not None else []
        words += [str(probe.verdict.kind)]
        words += [f"HTTP {probe.verdict.status}"] if probe.verdict.status else []
    words += [sign.words for name, sign in BESIDE.items() if getattr(probe, name)]
    return f"turn {number}, {probe.target}: {', '.join(dict.fromkeys(words))}"


def _words_of_passed_over(number: int, over: PassedOver) -> str:
    why = over.limit
    if over.cooling is not None and over.cooling.cause is not None:
        why = str(over.cooling.cause.kind)
    return f"turn {number}, {over.target}: passed over, {over.why}" + (f", {why}" if why else "")


# -- the picture

_PAD: Final = 16
_ROW: Final = 24
_HEAD: Final = 26
_AGENT: Final = 28
_GAP: Final = 20
_NARROWEST: Final = 560
_COLUMNS: Final = 840
"""What all columns of a block come to at most."""
_BLOCK: Final = 60
_WIDEST: Final = 36
"""A column, where there are few."""
_TURN: Final = "turn"
_NAME: Final = 180
_WHOSE: Final = 480
"""How wide the name of a target may be, and that of a session or an agent."""
_SIZE: Final = 12
_HEADING: Final = 15
"""Of letters."""
_LETTER: Final = 0.61
"""How wide one is, to its size."""


def session(name: str, records: Sequence[AuditRecord], numbers: Sequence[int] = ()) -> str:
    """An SVG picture of one session's turns, in the order of their records.

    Args:
        numbers: the turns' own, where they are not all of the session's.
    """
    numbered = zip(numbers or range(1, len(records) + 1), records, strict=True)
    columns = [Column(place, number, record) for place, (number, record) in enumerate(numbered)]
    found = bands(columns)
    names = {_cut(target, _NAME) for band in found for target in band.targets} | {_TURN}
    left = _PAD + math.ceil(max(map(_width, names))) + 12
    length = math.ceil(len(columns) / math.ceil(len(columns) / _BLOCK)) if columns else 1
    step = min(_WIDEST, _COLUMNS // length)
    width = max(_NARROWEST, left + length * step + _PAD)
    legend, y = _legend(found, width)
    body: list[str] = []
    for first in range(0, len(columns), length):
        block = _Block(columns[first : first + length], found, columns[-1].number, left, step, y)
        body += block.drawn()
        y = block.bottom + _GAP
    said = _sentence(columns, found)
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" class="turnout" viewBox="0 0 {width} {_n(y)}"'
            f' width="{width}" height="{_n(y)}" role="img" aria-labelledby="turnout-title turnout-desc">',
            f'<title id="turnout-title">{_safe(f"session {name}")}</title>',
            f'<desc id="turnout-desc">{_safe(said)}</desc>',
            f"<style>\n{_STYLE}\n</style>",
            f'<rect class="ground" width="{width}" height="{_n(y)}" rx="6"/>',
            _text(_PAD, 30, f"session {name}", "heading ink", _WHOSE, _HEADING),
            _text(_PAD, 50, _heading(columns), "quiet"),
            *legend,
            *body,
            "</svg>\n",
        ]
    )


class _Block(NamedTuple):
    """As many turns as fit beside each other, with the bands of the agents that had them."""

    columns: Sequence[Column]
    all_bands: Sequence[Band]
    last: int
    """The greatest number that is shown in any of them."""
    left: int
    step: int
    top: float

    @property
    def first(self) -> int:
        return self.columns[0].place

    @property
    def end(self) -> int:
        return self.first + len(self.columns)

    @property
    def bands(self) -> list[Band]:
        agents = {column.record.caller.agent for column in self.columns}
        return [band for band in self.all_bands if band.agent in agents]

    @property
    def named(self) -> bool:
        """Whether it has to be said whose a band is."""
        return any(band.agent for band in self.all_bands)

    @property
    def bottom(self) -> float:
        rows = sum(len(band.targets) for band in self.bands)
        return self.top + _HEAD + rows * _ROW + (len(self.bands) * _AGENT if self.named else 0)

    def x(self, place: float) -> float:
        return self.left + (place - self.first) * self.step

    def drawn(self) -> Iterator[str]:
        yield _text(_PAD, self.top + 12, _TURN, "quiet")
        failed = [column for column in self.columns if column.record.state == TurnState.FAILED]
        for column in failed:
            yield _rect("tint", self.x(column.place), self.top, self.step, self.bottom - self.top)
        y = self.top + _HEAD
        for band in self.bands:
            if self.named:
                whose = f"agent {band.agent}" if band.agent else "root"
                yield _text(_PAD, y + _AGENT - 8, whose, "agent ink", _WHOSE)
                y += _AGENT
            yield from self._band(band, y)
            y += len(band.targets) * _ROW
        yield from self._numbers()
        for column in failed:
            x, low = _n(self.x(column.place)), _n(self.top + 18)
            ended_by = column.record.ended_by
            said = _safe(f"turn {column.number}: failed, {_ENDED_BY.get(ended_by, ended_by)}")
            shape = f'<path d="M{x} {low}h{self.step}v3h-{self.step}Z"/>'
            yield f'<g class="failed_turn"><title>{said}</title>{shape}</g>'

    def _numbers(self) -> Iterator[str]:
        """The turns' numbers, of narrow columns those only that leave room for each other."""
        room = _width(str(self.last)) + 8
        every = next(every for every in (1, 2, 5, 10) if every * self.step >= room or every == 10)
        free = -math.inf
        for place, number, _ in self.columns:
            x = self.x(place + 0.5)
            if x >= free and (number % every == 0 or place == self.first):
                yield _text(x, self.top + 12, str(number), "number quiet")
                free = x + room

    def _band(self, band: Band, top: float) -> Iterator[str]:
        middle = {target: top + (row + 0.5) * _ROW for row, target in enumerate(band.targets)}
        right = self.x(self.end)
        for target, y in middle.items():
            yield f'<path class="line" d="M{_PAD} {_n(y + _ROW / 2)}H{_n(right)}"/>'
            yield _text(_PAD, y + 4, target, "ink", _NAME)
        for span in band.spans:
            start, end = max(span.start, self.first), min(span.end, self.end)
            if start < end and span.target in middle:
                yield self._bar(span, band, start, end, middle[span.target] + _LANES[span.reason])
        for column in (column for column in band.columns if self.first <= column.place < self.end):
            yield from self._marks(column, middle)

    def _bar(self, span: Span, band: Band, start: float, end: float, y: float) -> str:
        numbers = [
            column.number for column in band.columns if math.floor(span.start) <= column.place < span.end
        ]
        when = f"turn {numbers[0]}" if len(numbers) == 1 else f"turns {numbers[0]} to {numbers[-1]}"
        said = _safe(f"{when}, {span.target}: evicted, {span.reason}")
        shape = f'<path d="M{_n(self.x(start))} {_n(y)}H{_n(self.x(end))}"/>'
        return f'<g class="bar {span.reason}"><title>{said}</title>{shape}</g>'

    def _marks(self, column: Column, middle: Mapping[str, float]) -> Iterator[str]:
        x = self.x(column.place + 0.5)
        for over in column.record.passed_over:
            if over.why != WhyPassedOver.EVICTED and over.target in middle:
                said = _words_of_passed_over(column.number, over)
                yield _mark(x, middle[over.target], "passed_over", [str(over.why)], said)
        for probe, state in outcomes(column.record):
            outcome = _outcome(probe, state)
            signs = [outcome, *(name for name in BESIDE if getattr(probe, name))]
            said = _words_of_probe(column.number, probe, outcome)
            yield _mark(x, middle[probe.target], "probe", signs, said)


def _legend(found: Sequence[Band], width: int) -> tuple[list[str], float]:
    """What each sign of the picture means, and where what comes below begins."""
    occurring = set(_occurring(found))
    lines, x, y = [], float(_PAD), 74.0
    for name, sign in SIGNS.items():
        if name not in occurring:
            continue
        reach = 52 if name in _LANES else 22
        taken = reach + _width(sign.words)
        if x + taken > width - _PAD and x > _PAD:
            x, y = float(_PAD), y + 20
        bar = f'<path d="M14 {_n(_LANES[name])}H40"/>' if name in _LANES else ""
        lines.append(
            f'<g class="key {name}" transform="translate({_n(x + 7)} {_n(y)})">'
            + (f'<g class="bar {name}">{bar}</g>' if bar else "")
            + f'<path d="{sign.shape}"/></g>'
        )
        lines.append(_text(x + reach, y + 4, sign.words, "ink"))
        x += taken + 20
    return lines, y + 28


def _occurring(found: Sequence[Band]) -> Iterator[str]:
    for band in found:
        yield from (span.reason for span in band.spans if span.target in band.targets)
        for _, _, record in band.columns:
            yield from ["failed_turn"] if record.state == TurnState.FAILED else []
            yield from (str(over.why) for over in record.passed_over)
            for probe, state in outcomes(record):
                yield _outcome(probe, state)
                yield from (name for name in BESIDE if getattr(probe, name))


def _heading(columns: Sequence[Column], of: str = "") -> str:
    failed = sum(column.record.state == TurnState.FAILED for column in columns)
    return _counted(len(columns), "turn") + of + (f", {failed} failed" if failed else "")


def _sentence(columns: Sequence[Column], found: Sequence[Band]) -> str:
    """The whole picture in words."""
    came = Counter(_outcome(probe, state) for column in columns for probe, state in outcomes(column.record))
    told = "; ".join(f"{came[name]} {sign.words}" for name, sign in PROBES.items() if came[name])
    turns = _heading(columns, f" of {len(found)} agents" if len(found) > 1 else "")
    rows = _counted(len({target for band in found for target in band.targets}), "target")
    return f"{turns}. {_counted(came.total(), 'probe')} of {rows}" + (f": {told}." if told else ".")


def _counted(number: int, what: str) -> str:
    return f"1 {what}" if number == 1 else f"{number} {what}s"


# -- drawing


def _mark(x: float, y: float, kind: str, signs: Sequence[str], said: str) -> str:
    shapes = "".join(f'<path class="{name}" d="{SIGNS[name].shape}"/>' for name in signs)
    return (
        f'<g class="{kind}" transform="translate({_n(x)} {_n(y)})"><title>{_safe(said)}</title>{shapes}</g>'
    )


def _rect(kind: str, x: float, y: float, width: float, height: float) -> str:
    return f'<rect class="{kind}" x="{_n(x)}" y="{_n(y)}" width="{_n(width)}" height="{_n(height)}"/>'


def _text(x: float, y: float, said: str, kind: str, room: float = math.inf, size: int = _SIZE) -> str:
    """A line of text, cut to its room; the whole is told where it is pointed at."""
    shown = _cut(said, room, size)
    whole = f"<title>{_safe(said)}</title>" if shown != printable(said) else ""
    # letters beyond ASCII may be of any width, and are made to fit
    length = f' textLength="{_n(_width(shown, size))}" lengthAdjust="spacingAndGlyphs"'
    fitted = "" if shown.replace("…", "").isascii() else length
    return f'<text class="{kind}" x="{_n(x)}" y="{_n(y)}"{fitted}>{whole}{escape(shown)}</text>'


def _cut(text: str, room: float, size: int = _SIZE) -> str:
    """The text on one line, without its middle where it is too long: names often differ at their ends."""
    shown = _flat(printable(text))
    if _width(shown, size) <= room:
        return shown
    kept = min(len(shown), int(3 * room / (_LETTER * size)))  # letters with all their marks
    while _width(cut := f"{shown[: (kept + 1) // 2]}…{shown[len(shown) - kept // 2 :]}", size) > room:
        kept -= 1
    return cut


def _flat(text: str) -> str:
    """The text with two marks on a letter at most: more of them are no word, and tower over other lines."""
    kept, stacked = "", 0
    for char in text:
        stacked = stacked + 1 if _on_a_letter(char) else 0
        kept += char if stacked <= 2 else ""
    return kept


def _width(text: str, size: int = _SIZE) -> float:
    """How wide a text is in pixels, about: every letter is as wide as another, or twice."""
    return size * sum(
        0.0 if _on_a_letter(char) else 1.0 if unicodedata.east_asian_width(char) in "WF" else _LETTER
        for char in text
    )


def _on_a_letter(char: str) -> bool:
    return unicodedata.category(char) in ("Mn", "Me")


def _safe(text: str) -> str:
    """Text as XML holds it: what no XML may hold, or what reorders a line, is written out."""
    return escape(printable(text))


def _n(value: float) -> str:
    return f"{value:.1f}".removesuffix(".0")


def _rules(scheme: int) -> str:
    """The colours of the light scheme (0) or the dark one (1)."""
    colours = {name: (sign.light, sign.dark) for name, sign in SIGNS.items()} | {"ink": INK, "quiet": QUIET}
    rules = [f".turnout .{name}{{color:{colour[scheme]}}}" for name, colour in colours.items()]
    rules += [f".turnout .ground{{fill:{GROUND[scheme]}}}", f".turnout .tint{{fill:{TINT[scheme]}}}"]
    rules += [f".turnout .line{{stroke:{_LINE[scheme]}}}"]
    return "\n".join([*rules, f".turnout .probe path,.turnout .passed_over path{{stroke:{GROUND[scheme]}}}"])


_STYLE: Final = f"""\
.turnout{{max-width:100%;height:auto;font:{_SIZE}px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}}
.turnout text{{fill:currentColor;unicode-bidi:isolate}}
.turnout .heading{{font-size:{_HEADING}px;font-weight:600}}
.turnout .agent{{font-weight:600}}
.turnout .number{{text-anchor:middle}}
.turnout path{{fill:currentColor}}
.turnout .probe path,.turnout .passed_over path{{stroke-width:2;paint-order:stroke}}
.turnout .probe .last_resort,.turnout .probe .trial{{stroke:none}}
.turnout .bar path{{fill:none;stroke:currentColor;stroke-width:4}}
.turnout .bar.capability path{{stroke-dasharray:4 2}}
{_rules(0)}
@media (prefers-color-scheme:dark){{
{_rules(1)}
}}"""
