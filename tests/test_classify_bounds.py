"""Whatever an upstream sends has a verdict, and reading it costs no more than its size."""

from __future__ import annotations

import ast
import gc
import importlib
import json
import pkgutil
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from re import _constants as op
from re import _parser
from typing import Any, Final, NamedTuple

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnout.engine import classify as package
from turnout.engine.classify import Feature, Reply, Verdict, carries_error, classify, codes, objects
from turnout.engine.classify.providers import CODES
from turnout.machines.vocabulary import ErrorKind as Kind

NOON: Final = 1_767_268_800.0
"""2026-01-01, 12:00:00 UTC, in seconds since 1970."""
WHOLE: Final = 65_536
"""Bytes of a body that are read."""

# -- whatever comes

OVERFLOW = "This model's maximum context length is 64 tokens."
REFUSAL = "This model does not support image input."
WORDS = st.sampled_from(
    [
        *(OVERFLOW, REFUSAL, "rate limit", "model not found", '{"message": "odd', "{'message': 'odd'}"),
        *("\ud800", "429", "tools[0].function.parameters", "stop"),
        *(*codes.OVERFLOWS, *codes.REFUSALS, *sorted(codes.UNSUPPORTED)),
    ]
)
FIELDS = st.sampled_from([*sorted(objects._READ), "input", "base_resp", "promptFeedback", "finish_reason"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | WORDS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(FIELDS | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=24,
)
HEADERS = st.dictionaries(
    st.sampled_from(["retry-after", "retry-after-ms", "content-type", "x-amzn-errortype"]) | st.text(),
    st.text() | st.sampled_from(["application/json; charset=utf-16", "text/plain; charset=zip", "9" * 400]),
    max_size=4,
)
PROVIDERS = st.sampled_from([*CODES, ""]) | st.text(max_size=12)
EVENTS = st.none() | st.sampled_from(["", "error", "response.failed"]) | st.text(max_size=12)


def check(reply: Reply) -> None:
    """A verdict that is whole, whatever it says."""
    verdict = classify(reply, now=NOON)
    assert verdict.kind in Kind
    assert verdict.evidence.rule
    assert verdict.status == reply.status
    assert bool(verdict.features) is (verdict.kind is Kind.CAPABILITY)
    assert set(verdict.features) <= set(Feature)
    assert list(verdict.features) == sorted(set(verdict.features))
    assert verdict.kind is Kind.UNAVAILABLE or not verdict.retryable
    assert verdict.retry_after is None or verdict.retry_after >= 0
    assert msgspec.json.decode(msgspec.json.encode(verdict), type=Verdict) == verdict


@given(st.integers() | st.integers(100, 599), st.binary(max_size=300), HEADERS, EVENTS, PROVIDERS)
def test_any_bytes_have_a_verdict(
    status: int, body: bytes, headers: dict[str, str], event: str | None, provider: str
) -> None:
    check(Reply(status=status, body=body, headers=headers, event=event, provider=provider))


@given(st.integers(200, 599), JSON, EVENTS, PROVIDERS, st.text(max_size=12))
def test_any_json_has_a_verdict(
    status: int, value: Any, event: str | None, provider: str, wire_format: str
) -> None:
    body = json.dumps(value).encode()
    check(Reply(status=status, body=body, event=event, provider=provider, format=wire_format))
    assert isinstance(carries_error(body), bool)


@given(JSON, st.data())
def test_any_json_that_was_cut_off_has_a_verdict(value: Any, data: st.DataObject) -> None:
    body = json.dumps({"error": value}).encode()
    check(Reply(status=400, body=body[: data.draw(st.integers(0, len(body)))]))


@given(st.sampled_from(["input", "ctx", "request", "failed_generation", "prompt", "user_text"]), JSON)
def test_no_content_of_an_echo_field_changes_the_verdict(name: str, value: Any) -> None:
    def reading(**echo: Any) -> Verdict:
        body = json.dumps({"error": {"message": "Odd.", **echo}}).encode()
        return classify(Reply(status=400, body=body), now=NOON)

    assert reading(**{name: value}) == reading()


HOSTILE: Final = {
    "deep-lists": b"[" * WHOLE,
    "deep-objects": b'{"error":' * 7_000,
    "deep-and-closed": b"[" * 10_000 + b"]" * 10_000,
    "endless-number": b'{"code": ' + b"9" * 60_000 + b"}",
    "not-a-number": b'{"error": {"message": "odd", "code": NaN, "status": Infinity}}',
    "one-key-twice": b'{"error": {"message": "odd"}, "error": {"message": 1, "message": null, "code": []}}',
    "half-a-character": b'{"error": {"message": "\\ud800 odd", "code": "\\udfff", "param": "\\ud800"}}',
    "half-a-mark": b"\xff\xfe",
    "odd-utf-16": b"\xff\xfe{\x00x",
    "nul": b"\x00" * 100,
}


@pytest.mark.parametrize("status", [200, 400, 500])
@pytest.mark.parametrize("body", HOSTILE.values(), ids=HOSTILE)
def test_a_hostile_body_has_a_verdict(body: bytes, status: int) -> None:
    check(Reply(status=status, body=body))


# -- encodings

TOO_LONG = {"error": {"message": "输入长度超过限制"}}


@pytest.mark.parametrize("charset", ["utf-8", "utf-16", "gbk", "gb18030", "UTF-8", '"gbk"'])
def test_a_body_is_read_in_the_charset_that_it_names(charset: str) -> None:
    body = json.dumps(TOO_LONG, ensure_ascii=False).encode(charset.strip('"'))
    reply = Reply(status=400, body=body, headers={"content-type": f"application/json; charset={charset}"})
    assert classify(reply, now=NOON).kind is Kind.CONTEXT_WINDOW


@pytest.mark.parametrize("charset", ["utf-16", "utf-8-sig"])
def test_a_mark_in_front_names_the_charset(charset: str) -> None:
    body = json.dumps(TOO_LONG, ensure_ascii=False).encode(charset)
    assert classify(Reply(status=400, body=body), now=NOON).kind is Kind.CONTEXT_WINDOW


@pytest.mark.parametrize("charset", ["gbk", "utf-16-be", "cp037"])
def test_what_names_no_charset_has_a_verdict(charset: str) -> None:
    check(Reply(status=400, body=json.dumps(TOO_LONG, ensure_ascii=False).encode(charset, "replace")))


@pytest.mark.parametrize("charset", ["latin-1", "no-such", "hex", "rot13", "idna", "undefined"])
def test_a_charset_that_is_wrong_takes_no_plain_word_away(charset: str) -> None:
    body = '{"error": {"message": "le modèle: prompt is too long"}}'.encode("latin-1")
    headers = {"content-type": f"application/json; charset={charset}"}
    assert classify(Reply(status=400, body=body, headers=headers), now=NOON).kind is Kind.CONTEXT_WINDOW


# -- what it costs

UNITS: Final = {
    "quotes": "'",
    "double-quotes": '"',
    "backslashes": "\\",
    "brackets": "[",
    "braces": "{",
    "negations": "not ",
    "one-letter": "a",
    "capitals": "A",
    "digits": "9",
    "numbers": "9.",
    "chinese": "超",
    "spaces": " ",
    "lines": "odd\n",
    "sentences": "odd. ",
    "openings": "{'",
    "double-openings": '{"',
    "escaped-openings": '{\\"',
    "listed-openings": "[{",
    "names": "a-1/",
    "paths": "a.b[0].",
    "joints": "a_",
    "classes": "xError:",
    "addresses": "https://",
    "events": "data: {\n",
    "values": "{} ",
    "titles": "<title>",
    "phrases": "does not maximum context prompt is image too tool ",
    "escaped-quotes": "\\'",
    "escaped-double-quotes": '\\"',
    "quotes-in-quotes": "'\\\"",
}
PLACES: Final = {
    "plain": lambda text: text.encode(),
    "message": lambda text: json.dumps({"error": {"message": text}}).encode(),
    "behind-an-opening": lambda text: json.dumps({"error": {"message": "odd {'a': '" + text}}).encode(),
    "raw": lambda text: json.dumps({"error": {"message": "odd", "metadata": {"raw": text}}}).encode(),
    "cut-off": lambda text: b'{"error": {"message": "' + text.encode(),
    "everywhere": lambda text: json.dumps(
        {"errors": [{"message": text[:4000], "code": text[:4000], "type": text[:4000]}] * 5}
    ).encode(),
    "page": lambda text: b"<html>" + text.encode(),
}


def nasty(unit: str, place: str, size: int) -> Reply:
    text = UNITS[unit] * (size // len(UNITS[unit].encode()))
    return Reply(status=400, body=PLACES[place](text))


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_64_kib_of_one_thing_have_a_verdict(unit: str) -> None:
    for place in PLACES:
        check(nasty(unit, place, WHOLE))


def steps(reply: Reply) -> int:
    """How many calls one reading makes: what grows with the body grows in them."""
    calls = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal calls
        calls += event in ("call", "c_call")

    classify(reply, now=NOON)  # what is kept of words that were met does not count
    before = sys.getprofile()
    gc.disable()  # others may be called when it runs
    sys.setprofile(count)
    try:
        classify(reply, now=NOON)
    finally:
        sys.setprofile(before)
        gc.enable()
    return calls


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_twice_the_body_costs_at_most_twice_the_steps(unit: str) -> None:
    for place in PLACES:
        small, middle, large = (steps(nasty(unit, place, size)) for size in (4_096, 8_192, 16_384))
        assert middle <= 2.3 * small, place
        assert large <= 2.3 * middle, place


@pytest.mark.parametrize("unit", sorted(UNITS))
def test_beyond_64_kib_nothing_costs_more(unit: str) -> None:
    for place in PLACES:
        body = nasty(unit, place, 4 * WHOLE).body
        whole, more = Reply(status=400, body=body[:WHOLE]), Reply(status=400, body=body)
        assert steps(more) == steps(whole), place


# -- regular expressions

ALPHABET: Final = frozenset(map(chr, range(128))) | frozenset("éßſ\u2019\u3000超。≤\uff01\U0001f600")
"""What stands for all characters: two sets that share any share one of these."""


class Regex(NamedTuple):
    """A regular expression of the package."""

    name: str
    pattern: str
    flags: int
    restarts: bool
    """Whether it is looked for, and so tried from every place."""


def sources() -> dict[str, str]:
    names = [module.name for module in pkgutil.iter_modules(package.__path__)]
    return {name: (Path(package.__path__[0]) / f"{name}.py").read_text() for name in names}


def compiled() -> Iterator[Regex]:
    """What modules hold under a name."""
    everything = "\n".join(sources().values())
    for module in sources():
        for name, value in vars(importlib.import_module(f"{package.__name__}.{module}")).items():
            if isinstance(value, re.Pattern):
                used = set(re.findall(rf"\b{name}\.(\w+)\(", everything))
                yield Regex(name, value.pattern, value.flags, not used <= {"match", "fullmatch"})


def inline() -> Iterator[Regex]:
    """What is used where it is written."""
    for name, source in sources().items():
        for node in ast.walk(ast.parse(source)):
            match node:
                case ast.Call(
                    func=ast.Attribute(value=ast.Name(id="re"), attr=used), args=[ast.Constant(pattern), *_]
                ) if used != "compile":
                    yield Regex(f"{name}:{pattern}", pattern, 0, used not in ("match", "fullmatch"))


REGEXES: Final = {f"{each.name} {each.pattern[:24]}": each for each in (*compiled(), *inline())}

Item = tuple[Any, Any]
_REPEATS: Final = (op.MAX_REPEAT, op.MIN_REPEAT)
_ZERO_WIDTH: Final = (op.AT, op.ASSERT, op.ASSERT_NOT)


class Checker:
    """Refuses what may cost more than the length of a text, and some of what may not: it is simple.

    A repeat is endless if nothing bounds it. Refused are: one within another, unless a character
    that it cannot match leads in each round; a round that may begin in two ways; two that may share
    a text between them; and, where a regex is looked for, one that may run and fail from any place
    that it has run over.
    """

    def __init__(self, regex: Regex) -> None:
        self.regex = regex
        self.ignores_case = bool(regex.flags & re.IGNORECASE)
        self.faults: list[str] = []
        tree = list(_parser.parse(regex.pattern, regex.flags & ~re.UNICODE))
        self.sequence(tree)
        if regex.restarts:
            for alternative in self.alternatives(tree):
                self.restart(alternative)

    def alternatives(self, tree: Sequence[Item]) -> Iterator[list[Item]]:
        if len(tree) == 1 and tree[0][0] is op.BRANCH:
            for branch in tree[0][1][1]:
                yield from self.alternatives(list(branch))
        else:
            yield list(tree)

    # -- what an item is

    def parts(self, item: Item) -> list[list[Item]]:
        """The sequences within an item."""
        kind, argument = item
        if kind is op.BRANCH:
            return [list(branch) for branch in argument[1]]
        if kind is op.SUBPATTERN:
            return [list(argument[3])]
        if kind in (*_REPEATS, op.POSSESSIVE_REPEAT):
            return [list(argument[2])]
        if kind in (op.ASSERT, op.ASSERT_NOT):
            return [list(argument[1])]
        return [list(argument)] if kind is op.ATOMIC_GROUP else []

    def endless(self, item: Item) -> bool:
        return item[0] in _REPEATS and item[1][1] is op.MAXREPEAT

    def all_endless(self, items: Sequence[Item]) -> Iterator[Item]:
        for item in items:
            if self.endless(item):
                yield item
            for part in self.parts(item):
                yield from self.all_endless(part)

    def nullable(self, item: Item) -> bool:
        kind, argument = item
        if kind in _ZERO_WIDTH:
            return True
        if kind in (*_REPEATS, op.POSSESSIVE_REPEAT) and argument[0] == 0:
            return True
        parts = self.parts(item)
        return bool(parts) and any(all(map(self.nullable, part)) for part in parts)

    def one(self, item: Item) -> frozenset[str]:
        """What an item for one character matches."""
        kind, argument = item
        if kind is op.LITERAL:
            same = {chr(argument), chr(argument).lower(), chr(argument).upper()}
            return ALPHABET & (same if self.ignores_case else {chr(argument)})
        if kind is op.NOT_LITERAL:
            return ALPHABET - self.one((op.LITERAL, argument))
        if kind is op.RANGE:
            within = {char for char in ALPHABET if argument[0] <= ord(char) <= argument[1]}
            return frozenset(within | {c for w in within for c in (w.lower(), w.upper())} & ALPHABET)
        if kind is op.CATEGORY:
            said = {op.CATEGORY_SPACE: r"\s", op.CATEGORY_DIGIT: r"\d", op.CATEGORY_WORD: r"\w"}
            said |= {op.CATEGORY_NOT_SPACE: r"\S", op.CATEGORY_NOT_DIGIT: r"\D", op.CATEGORY_NOT_WORD: r"\W"}
            return frozenset(char for char in ALPHABET if re.match(said[argument], char))
        if kind is op.IN:
            negated = argument[0][0] is op.NEGATE
            union = frozenset().union(*(self.one(each) for each in argument if each[0] is not op.NEGATE))
            return ALPHABET - union if negated else union
        return ALPHABET if self.regex.flags & re.DOTALL else ALPHABET - {"\n"}

    def chars(self, item: Item) -> frozenset[str]:
        """All that an item may run over."""
        if item[0] in _ZERO_WIDTH:
            return frozenset()
        if not (parts := self.parts(item)):
            return self.one(item)
        return frozenset().union(*(self.chars(inner) for part in parts for inner in part))

    def first(self, items: Sequence[Item]) -> frozenset[str]:
        """What a sequence may begin with."""
        begins: frozenset[str] = frozenset()
        if items[:1] == [(op.AT, op.AT_BEGINNING)]:
            return frozenset("\n") if self.regex.flags & re.MULTILINE else begins
        for item in items:
            if item[0] not in _ZERO_WIDTH:
                parts = self.parts(item)
                begins |= (
                    frozenset().union(*(self.first(part) for part in parts)) if parts else self.one(item)
                )
            if not self.nullable(item):
                break
        return begins

    # -- what is refused

    def sequence(self, items: Sequence[Item]) -> None:
        for at, item in enumerate(items):
            if self.endless(item):
                self.nested(item)
                self.adjacent(item, items[at + 1 :])
            for part in self.parts(item):
                self.sequence(part)

    def nested(self, item: Item) -> None:
        (body,) = self.parts(item)
        for inner in self.all_endless(body):
            if self.nullable(body[0]) or self.one(body[0]) & self.chars(inner):
                self.faults.append("a repeat within a repeat")
        for alternative in body:
            if alternative[0] is op.BRANCH:
                begins = [self.first(list(branch)) for branch in alternative[1][1]]
                if sum(map(len, begins)) > len(frozenset().union(*begins)):
                    self.faults.append("a round that may begin in two ways")

    def adjacent(self, item: Item, after: Sequence[Item]) -> None:
        mine = self.chars(item)
        for following in after:
            begins_apart = not self.first([following]) & mine
            if not begins_apart and any(self.chars(e) & mine for e in self.all_endless([following])):
                self.faults.append("two repeats that share a text")
            if not self.nullable(following) and not self.chars(following) & mine:
                break

    def restart(self, items: Sequence[Item]) -> None:
        begins = self.first(items)
        for at, item in enumerate(items):
            may_fail = any(not self.nullable(after) or after[0] in _ZERO_WIDTH for after in items[at + 1 :])
            if may_fail and any(self.chars(other) & begins for other in self.all_endless([item])):
                self.faults.append("a run that may fail from every place")


GOOD: Final = {
    "one-repeat": "a+",
    "apart": r"\d+(?:[.,]\d+)*",
    "escapes": r"(?:[^'\\]|\\.)*",
    "anchored": "^data:(.*)$",
    "bounded": r"[^<]{0,200}</",
}
BAD: Final = {
    "within-another": "(?:a+)+b",
    "within-another-behind-what-may-be-absent": "(?:x?a+)*b",
    "two-ways": "(?:a|ab|[a-c])*",
    "side-by-side": "a*[ab]*c",
    "side-by-side-with-something-between": r"a*-?\w*c",
    "run-that-fails": r"\s+$",
    "quotation-that-never-closes": r"'(?:[^'\\]|\\.)*'",
}


def faults(pattern: str) -> list[str]:
    return Checker(Regex("", pattern, re.compile(pattern).flags, restarts=True)).faults


@pytest.mark.parametrize("pattern", GOOD.values(), ids=GOOD)
def test_a_regular_expression_that_is_linear_passes(pattern: str) -> None:
    assert faults(pattern) == []


@pytest.mark.parametrize("pattern", BAD.values(), ids=BAD)
def test_a_regular_expression_that_may_run_away_does_not_pass(pattern: str) -> None:
    assert faults(pattern)


ALLOWED: Final = {
    "_PIECE": "of a run of capitals it gives back one at most",
    "_A_NAME": "it is given one chunk of at most 160 characters",
}


@pytest.mark.parametrize("regex", REGEXES.values(), ids=REGEXES)
def test_no_regular_expression_runs_away(regex: Regex) -> None:
    assert bool(Checker(regex).faults) is (regex.name in ALLOWED)
