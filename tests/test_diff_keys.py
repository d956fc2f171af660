"""`turnout diff`, key by key: another meaning is told, another way of writing the same one is not."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from turnout.engine import deployment
from turnout.engine.cli import main
from turnout.engine.deployment import Deployment, HttpSettings, MemorySettings, examine
from turnout.engine.deployment.comparing import Changed, changes
from turnout.engine.deployment.meaning import LEFT_OUT
from turnout.engine.route import Route
from turnout.engine.selection import Options
from turnout.engine.targets import Client, Target

Level = Mapping[str, str]
UNSET = ""

BASE: Mapping[str, Level] = {
    "memory": {},
    "http": {},
    "llm_clients.house": {"base_url": '"https://llm.example/v1"'},
    "targets.small": {"llm_client": '"house"'},
    "targets.large": {"llm_client": '"house"'},
    "routes.chat": {"ladder": '["small"]'},
    "routes.more": {"ladder": '["large"]'},
}
TARGETS = ("targets.small", "targets.large")
SQLITE, CHAT = '"sqlite:turnout.db"', '"openai_chat"'
ALIKE = """[
    { kind = "capability", status = 400, code = "E-77", contains = "No  pictures" },
    { kind = "unavailable", status = 422 },
]"""
WRITTEN_OTHERWISE = """[
    { kind = "capability", status = 400, code = "e77", contains = "no Pictures", features = ["other"] },
    { kind = "unavailable", status = 422 },
    { kind = "auth", status = 422, contains = "it never decides" },
]"""

OTHER: Mapping[str, Mapping[str, list[tuple[str, str]]]] = {
    "memory": {
        "url": [
            (SQLITE, '"sqlite:other.db"'),
            (SQLITE, '"memory:"'),
            ('"redis://cache:6379/0"', '"redis://cache:6379/1"'),
            ('"redis://cache"', '"rediss://cache"'),
            ('"unix:///run/r.sock?db=0"', '"unix:///run/r.sock?db=1"'),
            ('"env:ONE_URL"', '"env:OTHER_URL"'),
        ],
        "namespace": [(UNSET, '"tenant"'), ('"a"', '"A"')],
        "ttl_secs": [(UNSET, "3600")],
        "max_sessions": [(UNSET, "10")],
        "on_memory_error": [(UNSET, '"raise"')],
        "memory_timeout_ms": [(UNSET, "101")],
        "durability": [(UNSET, '"full"')],
    },
    "http": {"library": [(UNSET, '"httpx"'), ('"aiohttp"', '"httpx"')]},
    "client": {
        "format": [(CHAT, '"openai_responses"')],
        "base_url": [
            ('"https://llm.example/v1"', '"https://other.example/v1"'),
            ('"https://llm.example/v1?region=a"', '"https://llm.example/v1?region=b"'),
        ],
        "api_key_env": [(UNSET, '"HOUSE_KEY"'), ('"HOUSE_KEY"', '"OTHER_KEY"')],
        "auth_header": [(UNSET, '"x-auth-here"')],
        "forward_auth": [(UNSET, "true")],
        "forward_headers": [(UNSET, "[]"), ('["x-one"]', '["x-two"]')],
        "extra_headers": [
            (UNSET, '{ x-title = "ours" }'),
            ('{ x-title = "ours" }', '{ x-title = "Ours" }'),
            ('{ x-one = "ours" }', '{ x-two = "ours" }'),
        ],
        "extra_query": [
            (UNSET, '{ a = "1" }'),
            ('{ a = "1" }', '{ a = "2" }'),
            ('{ a = "1" }', '{ A = "1" }'),
        ],
        "extra_body": [
            (UNSET, "{ logprobs = 1 }"),
            ("{ logprobs = 1 }", "{ logprobs = true }"),
            ("{ logprobs = 0 }", "{ logprobs = false }"),
            ("{ logprobs = 1 }", "{ logprobs = 1.0 }"),
            ("{ a = [{ b = [0, 1] }] }", "{ a = [{ b = [0, true] }] }"),
            ("{ a = { b = 1 } }", "{ a = { b = 1.0 } }"),
            ("{ a = [1, 2] }", "{ a = [2, 1] }"),
        ],
        "on_parameter_reject": [(UNSET, '"report"')],
        "max_retries": [(UNSET, "3")],
        "retry_timeouts": [(UNSET, "true")],
        "max_retry_after_secs": [(UNSET, "60.5"), (UNSET, "0")],
        "connect_timeout_secs": [(UNSET, "0"), (UNSET, "11")],
        "first_output_timeout_secs": [(UNSET, "5"), ("5", "5.0000001")],
        "idle_timeout_secs": [(UNSET, "5")],
        "timeout_secs": [(UNSET, "-1"), (UNSET, "601"), ("1000000", "1000001")],
        "ca_file": [(UNSET, '"ca.pem"'), ('"ca.pem"', '"other.pem"')],
        "max_body_bytes": [(UNSET, "1024")],
        "errors": [
            (UNSET, ALIKE),
            ('[{ kind = "auth", contains = "x y" }]', '[{ kind = "auth", contains = "xy" }]'),
            ('[{ kind = "auth", code = "E-77" }]', '[{ kind = "auth", code = "E-78" }]'),
            ('[{ kind = "auth", status = 400 }]', '[{ kind = "unavailable", status = 400 }]'),
            (
                '[{ kind = "auth", code = "a" }, { kind = "unavailable", code = "b" }]',
                '[{ kind = "unavailable", code = "b" }, { kind = "auth", code = "a" }]',
            ),
            (
                '[{ kind = "auth", code = "a", field = "error.code" }]',
                '[{ kind = "auth", code = "a", field = "error.type" }]',
            ),
            (
                '[{ kind = "capability", code = "a", features = ["image"] }]',
                '[{ kind = "capability", code = "a", features = ["image", "tools"] }]',
            ),
        ],
        "breaker": [(UNSET, "{}"), ("{}", "{ failures = 4 }"), ("{}", "{ cool_secs = 29.5 }")],
    },
    "target": {
        "id": [(UNSET, '"small-2"')],
        "context_window": [(UNSET, "16000"), ("16000", "16001")],
        "input": [(UNSET, "[]"), ('["image"]', '["image", "file"]')],
        "tools": [(UNSET, "true"), ("true", "false")],
        "structured_output": [(UNSET, "true")],
        "streaming": [(UNSET, "true")],
    },
    "route": {
        "id": [(UNSET, '"talk"')],
        "ladder": [('["small", "large"]', '["large", "small"]'), ('["small", "large"]', '["small"]')],
        "on": [(UNSET, '{ capability = "skip" }'), (UNSET, '{ auth = "surface" }')],
        "deadline_secs": [(UNSET, "60"), ("1000000", "1000000.5")],
        "capability_scope": [(UNSET, '"feature"')],
        "affinity": [(UNSET, '"home"')],
        "readmit_below": [(UNSET, "1"), ("0.5", "0.5000000001")],
    },
}
"""By level and key: pairs of values that mean two things."""

SAME: Mapping[str, Mapping[str, list[tuple[str, str]]]] = {
    "memory": {
        "url": [
            (UNSET, SQLITE),
            (SQLITE, '"sqlite:./turnout.db"'),
            ('"redis://Cache"', '"redis://cache:6379/0"'),
            ('"redis://[::1]/1"', '"redis://[::1]?db=1"'),
            ('"unix:///run/r.sock"', '"unix:///run/r.sock?db=0"'),
            (
                '"rediss://c?ssl_cert_reqs=none&ssl_ca_certs=/a.pem"',
                '"rediss://c/0?ssl_ca_certs=%2Fa.pem&ssl_cert_reqs=none"',
            ),
        ],
        "namespace": [(UNSET, '""')],
        "ttl_secs": [(UNSET, "8.64e4")],
        "max_sessions": [(UNSET, "1_000_000")],
        "on_memory_error": [(UNSET, '"serve"')],
        "memory_timeout_ms": [(UNSET, "100.0")],
        "durability": [(UNSET, '"process"')],
    },
    "http": {"library": []},
    "client": {
        "format": [(UNSET, CHAT)],
        "base_url": [],
        "api_key_env": [],
        "auth_header": [(UNSET, '"authorization"'), ('"x-Here"', '"X-here"')],
        "forward_auth": [(UNSET, "false")],
        "forward_headers": [
            (UNSET, '["x-request-id", "Tracestate", "traceparent", "traceparent"]'),
            ('["x-one", "x-two"]', '["X-Two", "x-one"]'),
        ],
        "extra_headers": [
            (UNSET, "{}"),
            ('{ x-one = "1", X-Two = "2" }', '{ x-two = "2", X-One = "1" }'),
        ],
        "extra_query": [(UNSET, "{}"), ('{ a = "1", b = "2" }', '{ b = "2", a = "1" }')],
        "extra_body": [
            (UNSET, "{}"),
            ("{ a = { b = 1, c = [1e2] } }", "{ a = { c = [100.0], b = 1 } }"),
            ("{ a = 2026-01-02T03:04:05Z }", '{ a = "2026-01-02T03:04:05Z" }'),
        ],
        "on_parameter_reject": [(UNSET, '"strip_once"')],
        "max_retries": [(UNSET, "2")],
        "retry_timeouts": [(UNSET, "false")],
        "max_retry_after_secs": [(UNSET, "60.0")],
        "connect_timeout_secs": [(UNSET, "10.0"), ("0", "nan")],
        "first_output_timeout_secs": [(UNSET, "0"), ("-1", "inf")],
        "idle_timeout_secs": [(UNSET, "nan"), ("1e9", "-inf")],
        "timeout_secs": [(UNSET, "600"), ("0", "-1"), ("inf", "nan"), ("nan", "nan")],
        "ca_file": [('"certs/ca.pem"', '"./certs//ca.pem"')],
        "max_body_bytes": [(UNSET, "33_554_432")],
        "errors": [
            (UNSET, "[]"),
            (ALIKE, WRITTEN_OTHERWISE),
            (
                '[{ kind = "capability", code = "a", features = ["tools", "image"] }]',
                '[{ kind = "capability", code = "A", features = ["image", "tools", "image"] }]',
            ),
            ('[{ kind = "auth", code = "a" }]', '[{ kind = "auth", code = "a", features = [] }]'),
        ],
        "breaker": [("{}", "{ failures = 3, cool_secs = 30, max_cool_secs = 300.0 }")],
    },
    "target": {
        "id": [(UNSET, '"small"')],
        "context_window": [("16000", "16_000")],
        "input": [("[]", '["text"]'), ('["image", "file"]', '["file", "text", "image"]')],
        "tools": [],
        "structured_output": [],
        "streaming": [],
    },
    "route": {
        "id": [(UNSET, '"chat"')],
        "ladder": [],
        "on": [
            (UNSET, "{}"),
            (UNSET, '{ capability = "evict" }'),
            ('{ auth = "skip", capability = "skip" }', '{ capability = "skip", auth = "skip" }'),
        ],
        "deadline_secs": [(UNSET, "0"), (UNSET, "nan"), ("60", "60.0")],
        "capability_scope": [(UNSET, '"target"')],
        "affinity": [],
        "readmit_below": [("0.5", "5e-1")],
    },
}
"""By level and key: pairs of values that mean one thing; none where there is one way only to write it."""

TABLES = {
    "memory": ["memory"],
    "http": ["http"],
    "client": ["llm_clients.house", "targets.small"],
    "target": ["targets.small"],
    "route": ["routes.chat"],
}
"""Where the keys of a level may stand."""


def pairs(examples: Mapping[str, Mapping[str, list[tuple[str, str]]]]) -> list[tuple[str, str, str, str]]:
    return [
        (table, key, *pair)
        for level, keys in examples.items()
        for table in TABLES[level]
        for key, given in keys.items()
        for pair in given
    ]


def text(tables: Mapping[str, Level]) -> str:
    lines = []
    for name, values in tables.items():
        lines.append(f"[{name}]")
        lines += [f"{key} = {value.replace(chr(10), '')}" for key, value in values.items() if value]
    return "\n".join(lines)


def built(file: str, tables: Mapping[str, Level]) -> Deployment:
    Path(file).write_text(text(tables))
    examination = examine(file)
    assert examination.deployment is not None, examination.findings
    return examination.deployment


def found(table: str, key: str, *values: str) -> tuple[Target, Target, list[Changed]]:
    """The first target before and after, and what is told."""
    before, after = (
        built(f"{name}.toml", {**BASE, table: {**BASE[table], key: value}})
        for name, value in zip(("old", "new"), values, strict=True)
    )
    was, now = (next(iter(side.routes.values())).ladder[0] for side in (before, after))
    return was, now, list(changes(before, after))


def diff() -> Result:
    return CliRunner().invoke(main, ["diff", "old.toml", "new.toml"])


@pytest.fixture(autouse=True)
def somewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_every_key_has_examples_or_is_left_out() -> None:
    of_client = {field.name for field in fields(Client)}
    own = {field.name for field in fields(Target)} - of_client
    left_out = LEFT_OUT[Target]
    assert set(OTHER["client"]) == of_client - left_out
    assert set(OTHER["target"]) == own - left_out - {"model"} | {"id"}
    own = {field.name for field in fields(Route)} - LEFT_OUT[Route] - {"policy", "options"}
    assert set(OTHER["route"]) == own | {"id", "on", *Options.__struct_fields__}
    assert set(OTHER["memory"]) == {field.name for field in fields(MemorySettings)} - LEFT_OUT[MemorySettings]
    assert set(OTHER["http"]) == {field.name for field in fields(HttpSettings)} - LEFT_OUT[HttpSettings]
    assert {field.name for field in fields(Deployment)} - LEFT_OUT[Deployment] == {"memory", "http", "routes"}
    assert {level: set(keys) for level, keys in SAME.items()} == {k: set(keys) for k, keys in OTHER.items()}


def test_every_key_of_a_file_is_one_of_them() -> None:
    levels = {
        "memory": deployment.MEMORY,
        "http": deployment.HTTP,
        "client": deployment.CLIENT,
        "target": deployment.TARGET.keys() - deployment.CLIENT.keys() - {"llm_client"} - LEFT_OUT[Target],
        "route": deployment.ROUTE,
    }
    assert {level: set(keys) for level, keys in levels.items()} == {k: set(keys) for k, keys in OTHER.items()}


@pytest.mark.parametrize(("table", "key", "one", "other"), pairs(OTHER))
def test_another_meaning_is_told(table: str, key: str, one: str, other: str) -> None:
    was, now, told = found(table, key, one, other)
    assert told
    for change in told:
        assert change.before
        assert change.after
        assert change.before != change.after or change.note == "its values differ, and are not shown"
    if table not in ("memory", "http", "routes.chat"):
        assert {change.what for change in told} >= {key}
        assert {change.where for change in told} <= {"target small", "target large"}
        noted = any(change.note == "evictions of before no longer count" for change in told)
        assert noted == (was.fingerprint != now.fingerprint)
    ran = diff()
    assert (ran.exit_code, len(ran.stdout.splitlines())) == (1, len(told))


@pytest.mark.parametrize(
    ("table", "key", "one", "other"),
    [*pairs(SAME), *((table, key, given, given) for table, key, _, given in pairs(OTHER))],
)
def test_the_same_meaning_is_not_told(table: str, key: str, one: str, other: str) -> None:
    was, now, told = found(table, key, one, other)
    assert told == []
    assert (was.fingerprint, was.configuration) == (now.fingerprint, now.configuration)
    ran = diff()
    assert (ran.exit_code, ran.stdout) == (0, "")


@pytest.mark.parametrize(
    ("key", "given"), [(key, given) for key, pairs in OTHER["client"].items() for _, given in pairs]
)
def test_a_client_is_the_same_by_another_name_and_as_its_targets_own_keys(key: str, given: str) -> None:
    client = {**BASE["llm_clients.house"], key: given}
    routes = {name: BASE[name] for name in ("routes.chat", "routes.more")}
    before = built("old.toml", {"llm_clients.house": client, **{t: BASE[t] for t in TARGETS}, **routes})
    named = {target: {"llm_client": '"home"'} for target in TARGETS}
    renamed = built("new.toml", {"llm_clients.home": client, **named, **routes})
    copied = built("new.toml", {**dict.fromkeys(TARGETS, client), **routes})
    assert list(changes(before, renamed)) == list(changes(before, copied)) == []
