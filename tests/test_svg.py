"""The SVG picture of a session shows what its records say, can be read by anyone, and runs nothing."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple
from xml.etree import ElementTree

import msgspec
import pytest
from house import BODY, House
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from memories import overflow
from random_sessions import session as random_session
from syrupy.assertion import SnapshotAssertion

from turnout import AuditRecord, Breaker, ErrorKind, Router, Target, TurnFailed
from turnout.engine import svg
from turnout.engine.account import in_order
from turnout.engine.audit import Caller, ProbeRecord
from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.printable import printable
from turnout.engine.testing import ok, refusal
from turnout.machines.stepping import Step

SPACE: Final = "{http://www.w3.org/2000/svg}"
ELEMENTS: Final = {"svg", "title", "desc", "style", "rect", "g", "path", "text"}
ATTRIBUTES: Final = {
    *("class", "viewBox", "width", "height", "role", "aria-labelledby", "id", "rx", "x", "y", "d"),
    *("transform", "textLength", "lengthAdjust"),
}
VERDICT: Final = Verdict(kind=ErrorKind.CAPABILITY, evidence=Evidence("test"), status=400)
SEEDS: Final = range(12)
ANYTHING: Final = st.text(st.characters(exclude_categories=()), max_size=80)


@pytest.fixture(scope="module")
def sessions() -> list[list[AuditRecord]]:
    return [in_order(random_session(seed)) for seed in SEEDS]


@pytest.fixture(scope="module")
def story() -> list[AuditRecord]:
    """Four turns in which most things happen."""
    house = House(
        {
            "text-only": [refusal("capability", "image")],
            "small": [ok(), refusal("context_window"), refusal("context_window")],
            "flaky": [refusal("unavailable"), ok()],
            "large": [ok(), refusal("content_policy")],
        },
        ladder=[
            Target("text-only", base_url="http://upstream.example", max_retries=0),
            Target("small", base_url="http://upstream.example", max_retries=0),
            Target(
                "flaky",
                base_url="http://upstream.example",
                max_retries=0,
                breaker=Breaker(failures=1, cool_secs=60),
            ),
            Target("large", base_url="http://upstream.example", max_retries=0),
        ],
    )

    async def told(router: Router) -> None:
        await router.turn(BODY, session="s1")
        await router.turn(BODY, session="s1")
        await house.clock.sleep(70)
        with pytest.raises(TurnFailed):
            await router.turn(BODY, session="s1", pin="large")
        await router.turn(BODY, session="s1", agent="helper", final=True)
        await router.turn(BODY, session="s1")

    house.play(told)
    return house.records


# -- reading a picture


class Mark(NamedTuple):
    signs: tuple[str, ...]
    title: str
    x: float
    y: float


class Picture:
    """What is drawn, by what it is."""

    def __init__(self, records: Sequence[AuditRecord], name: str = "s", numbers: Sequence[int] = ()) -> None:
        self.text = svg.session(name, records, numbers)
        self.root = ElementTree.fromstring(self.text)
        self.labels = [
            (int(found.text or ""), float(found.attrib["x"]), float(found.attrib["y"]))
            for found in self.of("text", "number")
        ]

    def of(self, element: str, kind: str) -> Iterator[ElementTree.Element]:
        for found in self.root.iter(SPACE + element):
            if kind in found.attrib.get("class", "").split():
                yield found

    def marks(self, kind: str) -> list[Mark]:
        marks = []
        for found in self.of("g", kind):
            signs = tuple(path.attrib["class"] for path in found.iter(f"{SPACE}path"))
            x, y = re.findall(r"-?[\d.]+", found.attrib["transform"])
            marks.append(Mark(signs, found.findtext(f"{SPACE}title") or "", float(x), float(y)))
        return marks

    def bars(self, reason: str) -> list[tuple[float, float, float]]:
        """Each bar: from where to where, and how high up."""
        found = []
        for bar in self.of("g", "bar"):
            if bar.attrib["class"] == f"bar {reason}" and (title := bar.find(f"{SPACE}title")) is not None:
                assert f"evicted, {reason}" in str(title.text)
                match = re.fullmatch(r"M([\d.]+) ([\d.]+)H([\d.]+)", bar[1].attrib["d"])
                assert match is not None
                found.append((float(match[1]), float(match[3]), float(match[2]) - svg._LANES[reason]))
        return found

    def column(self, number: int) -> tuple[float, float, float]:
        """The middle of a turn's column, how wide it is, and where its block begins."""
        tops = [y for label, _, y in self.labels if label <= number]
        block = [(label, x) for label, x, y in self.labels if y == max(tops)]
        step = float(svg._WIDEST)
        if len(block) > 1:
            (one, x), (other, further) = block[:2]
            step = (further - x) / (other - one)
        return block[0][1] + (number - block[0][0]) * step, step, max(tops)

    def row(self, target: str, agent: str, number: int) -> float:
        """The middle of a target's row, in the band of its agent, in the block of the turn."""
        top = self.column(number)[2]
        below = [t for t in self.root.iter(f"{SPACE}text") if float(t.attrib["y"]) > top]
        if any(True for _ in self.of("text", "agent")):
            heading = f"agent {agent}" if agent else "root"
            start = next(place for place, text in enumerate(below) if text.text == heading)
            below = below[start:]
        return next(float(text.attrib["y"]) - 4 for text in below if text.text == target)


def wanted_signs(record: AuditRecord) -> Iterator[tuple[str, ...]]:
    """The signs that each probe of a turn has to have, from its steps."""
    led_to = iter(step for step in record.steps if step.source == "classified")
    for probe in record.probes:
        beside = ("last_resort",) * probe.last_resort + ("trial",) * probe.trial
        if not probe.answered and probe.verdict is None:
            yield ("unanswered", *beside)
            continue
        step = next(led_to)
        yield (step.trigger if step.dest == "evicted" else step.dest, *beside)


# -- what is shown is so


def test_a_session_is_drawn_like_this(story: list[AuditRecord], snapshot: SnapshotAssertion) -> None:
    check(Picture(story), story)
    assert svg.session("s1", story) == snapshot


def test_whatever_happens_it_is_shown_as_it_was(sessions: list[list[AuditRecord]]) -> None:
    for records in sessions:
        check(Picture(records), records)


def test_a_long_session_goes_on_in_further_blocks(sessions: list[list[AuditRecord]]) -> None:
    records = [record for one in sessions for record in one][:200]
    drawn = Picture(records)
    check_marks(drawn, records)
    assert len(list(drawn.of("text", "quiet"))) == 1 + 4 + len(drawn.labels), (
        "the heading, a block each 50 turns"
    )
    assert float(drawn.root.attrib["width"]) < 1100
    for (_, x, y), (_, further, same) in pairwise(drawn.labels):
        assert y != same or further - x >= 7.4 * 3


def test_some_turns_alone_have_their_own_numbers(story: list[AuditRecord]) -> None:
    drawn = Picture(story[2:3], numbers=[3])
    assert [label for label, _, _ in drawn.labels] == [3]
    assert [mark.title for mark in drawn.marks("probe")] == [
        "turn 3, large: failed, content_policy, HTTP 400"
    ]
    assert len(drawn.bars("capability")) == 1


def check(drawn: Picture, records: Sequence[AuditRecord]) -> None:
    check_marks(drawn, records)
    check_bars(drawn, records)
    check_passed_over(drawn, records)
    check_words(drawn, records)


def check_marks(drawn: Picture, records: Sequence[AuditRecord]) -> None:
    """Every probe is one mark in its column, and says what came of it; failed turns are marked as such."""
    marks = [
        (round(mark.x), round(mark.y), mark.signs, mark.title.partition(":")[0])
        for mark in drawn.marks("probe")
    ]
    wanted = [
        (
            round(drawn.column(number)[0]),
            round(drawn.row(probe.target, record.caller.agent, number)),
            signs,
            f"turn {number}, {probe.target}",
        )
        for number, record in enumerate(records, 1)
        for probe, signs in zip(record.probes, wanted_signs(record), strict=True)
    ]
    assert sorted(marks) == sorted(wanted)
    failed = [number for number, record in enumerate(records, 1) if record.state == "failed"]
    tints = [(float(t.attrib["x"]), float(t.attrib["width"])) for t in drawn.of("rect", "tint")]
    assert tints == [pytest.approx((x - step / 2, step), abs=0.1) for x, step, _ in map(drawn.column, failed)]
    assert len(list(drawn.of("g", "failed_turn"))) - bool(failed) == len(failed)


def check_bars(drawn: Picture, records: Sequence[AuditRecord]) -> None:
    """On both sides of the middle of its column each turn has the bars of what its record has evicted."""
    for reason in ("context_window", "capability"):
        bars = drawn.bars(reason)
        for number, record in enumerate(records, 1):
            x, step, _ = drawn.column(number)
            for rung in record.ladder:
                y = drawn.row(rung.target, record.caller.agent, number)
                for at, standings in (
                    (x - step / 4, record.standings_before),
                    (x + step / 4, record.standings_after),
                ):
                    out = any(e.target == rung.target and e.reason == reason for e in standings)
                    over = [bar for bar in bars if bar[0] <= at <= bar[1] and abs(bar[2] - y) < 1]
                    assert len(over) == out, (number, rung.target, reason)


def check_passed_over(drawn: Picture, records: Sequence[AuditRecord]) -> None:
    """Who was gated or cooled has a light mark; of who was evicted the bar tells."""
    wanted = [
        (str(over.why), f"turn {number}, {over.target}")
        for number, record in enumerate(records, 1)
        for over in record.passed_over
        if over.why != "evicted"
    ]
    marks = [(mark.signs[0], mark.title.partition(":")[0]) for mark in drawn.marks("passed_over")]
    assert sorted(marks) == sorted(wanted)


def check_words(drawn: Picture, records: Sequence[AuditRecord]) -> None:
    """The legend has what is drawn, and nothing else; the sentence has the right numbers."""
    signs = {sign for kind in ("probe", "passed_over") for mark in drawn.marks(kind) for sign in mark.signs}
    signs |= {reason for reason in svg._LANES if drawn.bars(reason)}
    signs |= {"failed_turn"} if any(record.state == "failed" for record in records) else set()
    keys = [found.attrib["class"].removeprefix("key ") for found in drawn.of("g", "key")]
    assert sorted(keys) == sorted(signs)
    said = drawn.root.findtext(f"{SPACE}desc") or ""
    counts = Counter(signs[0] for record in records for signs in wanted_signs(record))
    assert said.startswith(f"{len(records)} turn")
    assert f". {counts.total()} probe" in said
    for sign, count in counts.items():
        assert f"{count} {svg.PROBES[sign].words}" in said


# -- how long a bar is

RECORD: Final = msgspec.json.decode(
    b"""{"schema": 1, "turn": "1", "route": "", "started": 0, "took": 0, "caller": {}, "policy": {},
    "machines": {}, "ladder": [{"target": "small", "model": "m", "format": "chat", "fingerprint": "f"}],
    "state": "served", "ended_by": "answered"}""",
    type=AuditRecord,
)


def spans(*standings: str, agents: str = "") -> list[tuple[float, float]]:
    """How long the eviction of one target lasts, of what its turns know of it before and after them.

    Args:
        standings: `x` where it is out, `.` where it is not, and `o` where it was out as it was before.
        agents: whose turn each is.
    """
    out = overflow(None, fingerprint="f")
    known = {"x": (out,), ".": (), "o": (msgspec.structs.replace(out, fingerprint="of before"),)}
    columns = [
        svg.Column(
            place,
            place + 1,
            msgspec.structs.replace(
                RECORD,
                caller=Caller(agent=agent.strip()),
                standings_before=known[before],
                standings_after=known[after],
            ),
        )
        for place, ((before, after), agent) in enumerate(zip(standings, agents or " " * 99, strict=False))
    ]
    return [(span.start, span.end) for span in svg.bands(columns)[0].spans]


@pytest.mark.parametrize(
    ("standings", "lasts"),
    [
        ((".x", "xx", "xx"), [(0.5, 3)]),
        ((".x", "x.", ".."), [(0.5, 1.5)]),
        ((".x", "xx", "..", ".x"), [(0.5, 2), (3.5, 4)]),
        (("xx", "xx"), [(0, 2)]),
        (("xx", ".x"), [(0, 1), (1.5, 2)]),
        (("..", ".."), []),
        (("xx", "oo", ".."), [(0, 1)]),
    ],
)
def test_an_eviction_lasts_from_the_turn_that_has_it_first_to_one_that_has_it_no_longer(
    standings: tuple[str, ...], lasts: list[tuple[float, float]]
) -> None:
    assert spans(*standings) == lasts


def test_what_a_subagent_is_told_ends_nothing_of_the_root() -> None:
    assert spans(".x", "..", "xx", "x.", agents=" a  ") == [(0.5, 3.5)]
    assert spans(".x", "..", "..", agents=" a ") == [(0.5, 2)]


def test_a_bar_says_in_which_turns_the_eviction_held(story: list[AuditRecord]) -> None:
    titles = [bar.findtext(f"{SPACE}title") for bar in Picture(story).of("g", "bar")]
    assert list(filter(None, titles)) == [
        "turns 1 to 5, text-only: evicted, capability",
        "turns 2 to 5, small: evicted, context_window",
    ]


def test_a_band_is_the_own_of_each_agent(story: list[AuditRecord]) -> None:
    drawn = Picture(story)
    assert [found.text for found in drawn.of("text", "agent")] == ["root", "agent helper"]
    ladder = [rung.target for rung in story[0].ladder]
    names = [found.text for found in drawn.of("text", "ink") if found.text in ladder]
    assert names == [*ladder, *ladder]


# -- whoever reads it


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return sum(weight * part for weight, part in zip((0.2126, 0.7152, 0.0722), linear, strict=True))


def contrast(one: str, other: str) -> float:
    low, high = sorted(map(luminance, (one, other)))
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("scheme", [0, 1])
def test_words_and_marks_stand_out_on_either_ground(scheme: int) -> None:
    for ground in (svg.GROUND[scheme], svg.TINT[scheme]):
        assert all(contrast(ink[scheme], ground) >= 4.5 for ink in (svg.INK, svg.QUIET))
        assert {
            name for name, sign in svg.SIGNS.items() if contrast((sign.light, sign.dark)[scheme], ground) < 3
        } == set()


def test_no_two_signs_have_the_same_shape() -> None:
    shapes = [sign.shape for sign in svg.SIGNS.values()]
    assert len(set(shapes)) == len(shapes)


def test_it_says_what_it_is(story: list[AuditRecord]) -> None:
    root = Picture(story, "s1").root
    assert root.attrib["role"] == "img"
    said = {found.attrib["id"]: found.text for found in root if "id" in found.attrib}
    assert list(said) == root.attrib["aria-labelledby"].split()
    assert list(said.values()) == [
        "session s1",
        "5 turns of 2 agents, 1 failed. 10 probes of 4 targets: 4 served; 2 evicted, context_window;"
        " 2 evicted, capability; 1 skipped; 1 failed.",
    ]


def test_the_same_records_give_the_same_picture(story: list[AuditRecord]) -> None:
    assert svg.session("s1", story) == svg.session("s1", story)


# -- whatever it holds

HOSTILE: Final = [
    "</svg><script>alert(1)</script>",
    "</title></style></text><style>*{fill:red}</style>",
    '"><image href="https://x.example/y"/>',
    "' onload='alert(1)",
    "]]><!--",
    "&lt;b&gt; &unknown; %xx;",
    "url(https://x.example/y)",
    "javascript:alert(1)",
    "a\x00\x08\x0b\x1b[31m\ufffe\uffff",
    "a\u202eb\u2066c\u200f",
    "\ud800 alone",
    "two\nlines\u2028three\rfour\t",
    "n" * 64,
    "漢字" * 40,
    "\ufdfd" * 30,
    "z" + "\u0300" * 300,
    "",
]


def renamed(records: Sequence[AuditRecord], name: str) -> list[AuditRecord]:
    """The same with a target, an agent and a message of this name, as anyone may write them into a file."""
    changed = []
    for record in records:
        probes = [
            msgspec.structs.replace(
                probe,
                target=name if probe.target == "small" else probe.target,
                verdict=probe.verdict and msgspec.structs.replace(probe.verdict, message=name, code=name),
            )
            for probe in record.probes
        ]
        changed.append(
            msgspec.structs.replace(
                record,
                caller=msgspec.structs.replace(record.caller, agent=record.caller.agent and name),
                ladder=tuple(
                    msgspec.structs.replace(rung, target=name if rung.target == "small" else rung.target)
                    for rung in record.ladder
                ),
                probes=tuple(probes),
                passed_over=tuple(
                    msgspec.structs.replace(over, target=name, limit=name) for over in record.passed_over
                ),
                ended_by=name,
                error=name,
            )
        )
    return changed


def check_harmless(drawn: Picture, name: str) -> None:
    """Only what is ours is drawn, and the whole name can be read somewhere."""
    for found in drawn.root.iter():
        assert found.tag.removeprefix(SPACE) in ELEMENTS
        for key, value in found.attrib.items():
            assert key in ATTRIBUTES
            assert "url" not in value
            assert "//" not in value
            assert ":" not in value
    (style,) = drawn.root.iter(f"{SPACE}style")
    assert style.text == f"\n{svg._STYLE}\n"
    assert all(line.isprintable() for line in drawn.text.splitlines())
    titles = {found.text for found in drawn.root.iter(f"{SPACE}title")}
    assert f"session {printable(name)}" in titles
    assert any(f", {printable(name)}: " in str(title) for title in titles)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_name_breaks_out_of_the_picture(name: str, story: list[AuditRecord]) -> None:
    plain, drawn = Picture(story), Picture(renamed(story, name), name)
    check_harmless(drawn, name)
    assert len(drawn.marks("probe")) == len(plain.marks("probe"))


@examples(max_examples=60)
@given(name=ANYTHING)
def test_whatever_a_name_is_it_is_drawn_as_text(name: str, story: list[AuditRecord]) -> None:
    check_harmless(Picture(renamed(story, name), name), name)


@pytest.mark.parametrize("name", HOSTILE)
def test_no_text_runs_into_another(name: str, story: list[AuditRecord]) -> None:
    """A long name is shortened to its room, and one of strange letters is made to fit it."""
    drawn = Picture(renamed(story, name), name * 5)
    width = float(drawn.root.attrib["width"])
    leftmost = min(mark.x for mark in drawn.marks("probe"))
    for text in drawn.root.iter(f"{SPACE}text"):
        shown = "".join(text.itertext()).removeprefix(text.findtext(f"{SPACE}title") or "")
        x, kind = float(text.attrib["x"]), text.attrib["class"].split()
        needs = float(text.attrib.get("textLength", len(shown) * (9.2 if "heading" in kind else 7.32)))
        assert x + (0 if "number" in kind else needs) <= width
        if kind == ["ink"] and x == svg._PAD and float(text.attrib["y"]) > 130:
            assert x + needs < leftmost - 7
        assert shown.replace("…", "").isascii() or "textLength" in text.attrib
        assert re.search("[\u0300-\u036f]{3}", shown) is None, "no letter towers over another line"


def test_records_that_no_router_left_are_drawn_as_far_as_they_can_be() -> None:
    strange = msgspec.structs.replace(
        RECORD,
        state="elsewhere",
        steps=(Step("probed", "probing", "classified"), Step("</g>", "classified", "</svg>")),
        probes=(ProbeRecord("nobody", verdict=VERDICT),),
        standings_before=(msgspec.structs.replace(overflow(None), reason="unavailable"),),
    )
    drawn = Picture([strange])
    assert [mark.signs for mark in drawn.marks("probe")] == [("failed",)]
    assert list(Picture([]).of("g", "probe")) == []
