"""A deployment file: what it means, and everything that can be wrong with one."""

from __future__ import annotations

import base64
import datetime
import math
import re
import tomllib
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import given
from hypothesis import strategies as st
from syrupy.assertion import SnapshotAssertion

from turnout.engine.deployment import (
    CAPTURE,
    CLIENT,
    FILE,
    HTTP,
    MEMORY,
    ROUTE,
    TARGET,
    Deployment,
    Examination,
    MemorySettings,
    examine,
    examine_document,
    load,
)
from turnout.engine.deployment.breaker import BREAKER
from turnout.engine.deployment.finding import Level
from turnout.engine.deployment.price import PRICE
from turnout.engine.deployment.rules import RULE
from turnout.engine.deployment.tables import words
from turnout.engine.errors import ConfigurationError
from turnout.engine.policy import ALLOWED, Action
from turnout.engine.pricing import Price
from turnout.engine.targets import Client

SECRET = "hunter2-hunter2-hunter2"
MIXED = "9f8e7d6c5b4a39281706"
"""A key of a provider whose keys look like nothing in particular."""
FILE_PATH = Path("deployment.toml")

EXAMPLE = """
schema_version = 1

[memory]
url = "sqlite:evictions.db"

[llm_clients.openrouter]
format = "openai_chat"
base_url = "https://openrouter.ai/api/v1"
api_key_env = "OPENROUTER_API_KEY"
timeout_secs = 60
max_retries = 1

[targets.weak]
id = "openai/gpt-4o-mini"
llm_client = "openrouter"

[targets.strong]
id = "openai/gpt-4o"
llm_client = "openrouter"
timeout_secs = 600

[routes.chat]
id = "chat"
ladder = ["weak", "strong"]

[routes.chat.on]
content_policy = "skip"
"""


def small(
    client: Mapping[str, Any] | None = None,
    target: Mapping[str, Any] | None = None,
    route: Mapping[str, Any] | None = None,
    **top: Any,
) -> dict[str, Any]:
    """A document without a mistake: two targets of one client, one route."""
    return {
        "llm_clients": {"here": {"base_url": "https://llm.example/v1", **(client or {})}},
        "targets": {"a": {"llm_client": "here", **(target or {})}, "b": {"llm_client": "here"}},
        "routes": {"chat": {"ladder": ["a", "b"], **(route or {})}},
        **top,
    }


def examined(document: Mapping[str, Any], **environ: str) -> Examination:
    return examine_document(document, FILE_PATH, environ)


def told(document: Mapping[str, Any], **environ: str) -> list[str]:
    """What is said of a document, as a user reads it, without the file's name."""
    findings = examined(document, **environ).findings
    return [f"{finding.level}: {finding}".replace("deployment.toml: ", "") for finding in findings]


def only(document: Mapping[str, Any], **environ: str) -> str:
    (line,) = told(document, **environ)
    return line


def loads(document: Mapping[str, Any], **environ: str) -> bool:
    return not any(finding.stops for finding in examined(document, **environ).findings)


def written(cell: str) -> Any:
    """A default as the documentation writes it."""
    return None if cell in ("none", "by format") else tomllib.loads(f"default = {cell.strip('`')}")["default"]


def plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "deployment.toml"


class TestLoading:
    def test_the_example_of_the_documentation(self, file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        file.write_text(EXAMPLE)
        monkeypatch.setenv("OPENROUTER_API_KEY", SECRET)

        deployment = load(file)

        assert deployment.source == file
        assert deployment.memory == MemorySettings(url="sqlite:evictions.db")
        assert list(deployment.routes) == ["chat"]
        chat = deployment.routes["chat"]
        weak, strong = chat.ladder
        assert (weak.name, weak.model_id, weak.timeout_secs, weak.max_retries) == (
            "weak",
            "openai/gpt-4o-mini",
            60,
            1,
        )
        assert strong.timeout_secs == 600, "a target's own key wins over its client's"
        assert strong.api_key_env == "OPENROUTER_API_KEY"
        assert chat.policy.table["content_policy"] is Action.SKIP
        assert examine(file).findings == ()

    def test_what_a_short_file_leaves_out_has_itswritten(self) -> None:
        deployment = examined(
            {"targets": {"a": {"base_url": "http://[::1]:8000"}}, "routes": {"chat": {"ladder": ["a"]}}}
        ).deployment
        assert isinstance(deployment, Deployment)
        assert deployment.memory == MemorySettings()
        assert deployment.routes["chat"].id == "chat"
        assert deployment.routes["chat"].ladder[0].model_id == "a"
        assert deployment.routes["chat"].deadline_secs is None

    def test_callers_ask_for_a_route_by_its_id_and_routes_keep_their_order(self) -> None:
        document = small()
        document["routes"] = {
            "z": {"ladder": ["a", "b"]},
            "table": {"id": "gpt-4o", "ladder": ["b", "a"], "deadline_secs": 30},
        }
        deployment = examined(document).deployment
        assert deployment is not None
        assert list(deployment.routes) == ["z", "gpt-4o"]
        assert deployment.routes["gpt-4o"].deadline_secs == 30

    def test_every_key_of_a_client_can_be_given_in_the_file_but_no_callable(self) -> None:
        assert "api_key" not in CLIENT
        assert {"timeout_secs", "extra_body", "forward_headers"} <= CLIENT.keys()
        assert all(
            words(hint)
            for table in (CLIENT, TARGET, ROUTE, MEMORY, CAPTURE, FILE, RULE, PRICE)
            for hint in table.values()
        )

    def test_every_key_and_its_default_are_documented(self) -> None:
        text = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
        documented = dict(re.findall(r"^\| `(\w+)`[^|]* \| (.+?) \|", text, re.MULTILINE))
        tables = (CLIENT, TARGET, ROUTE, MEMORY, HTTP, CAPTURE, RULE, BREAKER, PRICE, ALLOWED)
        assert {key for table in tables for key in table} <= documented.keys()
        for key in CLIENT.keys() - {"base_url"}:
            assert written(documented[key]) == plain(getattr(Client(), key)), key
        for key in MEMORY:
            assert written(documented[key]) == getattr(MemorySettings(), key), key

    def test_the_documented_examples_together(self) -> None:
        text = (Path(__file__).parents[1] / "docs" / "deployment.md").read_text(encoding="utf-8")
        examples = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
        assert told(tomllib.loads("".join(examples)), OPENROUTER_API_KEY=SECRET) == []

    def test_a_target_s_price_is_its_own(self) -> None:
        price = {"input": 3, "output": 15.5, "cached_input": 0}
        deployment = examined(small(target={"price": price, "input": ["image"]})).deployment
        assert deployment is not None
        a, b = deployment.routes["chat"].ladder
        assert a.price == Price(input=3, output=15.5, cached_input=0)
        assert a.input == ("image",), "what it takes is no price"
        assert b.price is None

    def test_a_file_with_mistakes_is_refused_with_all_that_stop_it(self, file: Path) -> None:
        file.write_text(
            '[llm_clients.here]\nbase_url = "https://llm.example"\nmax_retries = 99\ntimeout_secs = 0\n'
            '[targets.a]\nllm_client = "her"\n[routes.chat]\nladder = ["a"]'
        )
        with pytest.raises(ConfigurationError) as refused:
            load(file)
        assert str(refused.value).splitlines() == [
            f"{file}: [llm_clients.here] max_retries: is 99; give 0 to 10",
            f"{file}: [targets.a] llm_client: names 'her', which is none of [llm_clients];"
            " did you mean here?",
        ]

    def test_a_bound_that_cannot_be_used_means_no_bound_and_does_not_stop_loading(self, file: Path) -> None:
        file.write_text(
            '[targets.a]\nbase_url = "https://llm.example"\ntimeout_secs = 0\n[routes.chat]\nladder = ["a"]'
        )
        assert load(file).routes["chat"].ladder[0].timeout_secs == 0
        assert [finding.level for finding in examine(file).findings] == [Level.ERROR, Level.WARNING]

    def test_a_credential_that_is_not_set_stops_loading_and_is_a_warning_where_files_are_checked(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_text(EXAMPLE)
        monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)

        examination = examine(file)
        assert examination.deployment is not None
        assert [finding.level for finding in examination.findings] == [Level.WARNING]
        with pytest.raises(
            ConfigurationError, match=r"api_key_env: names OPENROUTER_API_KEY, which is not set"
        ):
            load(file)

    def test_what_is_missing_where_turnout_runs_is_told_as_that(
        self, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        file.write_text(EXAMPLE.replace("max_retries = 1", 'ca_file = "nowhere.pem"'))
        monkeypatch.delenv("OPENROUTER_API_KEY", raising=False)
        client = f"{file}: [llm_clients.openrouter]"

        assert [str(finding) for finding in examine(file).findings] == [
            f"{client} api_key_env: names OPENROUTER_API_KEY, which is not set here;"
            " it has to be where turnout runs",
            f"{client} ca_file: cannot be read here; it has to be where turnout runs",
        ]
        with pytest.raises(ConfigurationError) as refused:
            load(file)
        assert str(refused.value).splitlines() == [
            f"{client} api_key_env: names OPENROUTER_API_KEY, which is not set; set it to the credential",
            f"{client} ca_file: cannot be read; give a file of certificates in PEM",
        ]


class TestFilesThatCannotBeRead:
    @pytest.mark.parametrize(
        ("content", "why"),
        [
            (b'[memory]\nurl = "memory:', "is no TOML: .*at end of document"),
            (b"a = 1\nb = ]", r"is no TOML: .*\(at line 2, column 5\)"),
            (b"a = 1\nb = '\xff'", r"is no TOML: it is not encoded in UTF-8; save it as that \(at line 2\)"),
            ("a = 1".encode("utf-16"), r"is no TOML: it is not encoded in UTF-8.* \(at line 1\)"),
            ("a = 1".encode("utf-16-le"), r"is no TOML: it is not encoded in UTF-8.* \(at line 1\)"),
            (b"a = " + b"[" * 101 + b"]" * 101, "is nested too deeply to be read; at most 100 levels are"),
            (b"a" + b".a" * 101 + b" = 1", "is nested too deeply to be read"),
            (b"a = " + b"[" * 100_000, "is nested too deeply to be read"),
            (b"a = " + b"9" * 5_000, "is no TOML"),
        ],
    )
    def test_say_where_they_break_in_one_finding(self, file: Path, content: bytes, why: str) -> None:
        file.write_bytes(content)
        examination = examine(file)
        assert not examination.readable
        assert examination.deployment is None
        assert examination.count(Level.ERROR) == 1
        with pytest.raises(ConfigurationError, match=why):
            load(file)

    def test_quote_no_key_in_full(self, file: Path) -> None:
        file.write_text(f"[{'k' * 200_000}]\n" * 2)
        with pytest.raises(ConfigurationError, match=r"kkk….* \(at line 2, column \d+\)$") as refused:
            load(file)
        assert len(str(refused.value)) < 300 + len(str(file))

    def test_may_begin_with_a_byte_order_mark_and_nest_a_hundred_levels(self, file: Path) -> None:
        deep = "[" * 96 + "]" * 96  # within four tables
        file.write_text(EXAMPLE + f"[llm_clients.openrouter.extra_body]\nx = {deep}", encoding="utf-8-sig")
        examination = examine(file)
        assert examination.readable
        assert examination.count(Level.ERROR) == 0

    def test_may_not_be_there(self, file: Path) -> None:
        with pytest.raises(ConfigurationError) as refused:
            load(file)
        assert str(refused.value) == f"{file}: cannot be read: No such file or directory"


def test_a_file_with_many_mistakes_gives_all_of_them_at_once(file: Path, snapshot: SnapshotAssertion) -> None:
    file.write_text(
        f"""
        [memory]
        url = "redis://user:{SECRET}@cache"
        ttl_secs = 0
        on_memory_error = "shrug"

        [llm_clients.one]
        format = "anthropic"
        base_url = "https://llm.example/v1?api_key={SECRET}"
        max_retries = "two"
        timeout_secs = inf
        retires = 3
        breaker = {{ failures = 0, cool_secs = 60, max_cool = 1 }}
        extra_headers = {{ authorization = "{SECRET}", x-title = "caf\u00e9", n = 1 }}

        [llm_clients.two]
        api_key = "{SECRET}"

        [targets.a]
        llm_client = "oen"

        [targets.b]
        llm_client = "two"
        context_window = 0

        [targets.c]

        [routes.chat]
        ladder = ["a", "b", "b", "d"]
        on = {{ unavailable = "evict", overload = "skip" }}

        [routes.other]
        ladder = "a"

        [rotues.typo]
        """
    )
    findings = [f"{f.level}: {f}".replace(str(file), file.name) for f in examine(file).findings]
    assert "\n".join(findings) == snapshot
    assert len(findings) == 24
    assert SECRET not in "".join(findings)
    assert [line.count("\n") for line in findings] == [0] * len(findings), "one line each"


class TestKeys:
    @pytest.mark.parametrize(
        ("document", "line"),
        [
            (small(rotues={}), "error: rotues: is unknown here; did you mean routes?"),
            (
                small({"max_retry": 1}),
                "error: [llm_clients.here] max_retry: is unknown here; did you mean max_retries?",
            ),
            (
                small(route={"fallbackModel": "b"}),
                "error: [routes.chat] fallbackModel: is unknown here;"
                " choose from id, ladder, on, deadline_secs, capability_scope, readmit_below, affinity",
            ),
            (
                small({"breaker": {"failure": 1}}),
                "error: [llm_clients.here.breaker] failure: is unknown here; did you mean failures?",
            ),
            (
                small(target={"breaker": {"failures": 0}}),
                "error: [targets.a.breaker] failures: is 0; give 1 to 1000",
            ),
            (
                small({"breaker": {"cool_secs": 301}}),
                "error: [llm_clients.here.breaker] cool_secs: is 301, more than max_cool_secs (300);"
                " give less",
            ),
            (
                small({"breaker": {"max_cool_secs": 10}}),
                "error: [llm_clients.here.breaker] max_cool_secs: is 10, less than cool_secs (30); give more",
            ),
            (
                small({"breaker": {"cool_secs": math.nan}}),
                "error: [llm_clients.here.breaker] cool_secs: is nan; give seconds above 0, at most 86400",
            ),
            (
                small({"breaker": 3}),
                "error: [llm_clients.here] breaker: is a whole number; give a table",
            ),
            (
                small(target={"price": {"input": 1, "outputs": 2}}),
                "error: [targets.a.price] outputs: is unknown here; did you mean output?",
            ),
            (
                small(target={"price": {"input": 1, "output": 2, "cache_read": 0.1}}),
                "error: [targets.a.price] cache_read: is unknown here; did you mean cached_input?",
            ),
            (
                small(target={"price": {"input": 1}}),
                "error: [targets.a.price] output: is missing; give money per million tokens, 0 to 1000000000",
            ),
            (
                small(target={"price": {"input": -0.1, "output": 2}}),
                "error: [targets.a.price] input: is -0.1; give money per million tokens, 0 to 1000000000",
            ),
            (
                small(target={"price": {"input": 1, "output": math.nan}}),
                "error: [targets.a.price] output: is nan; give money per million tokens, 0 to 1000000000",
            ),
            (
                small(target={"price": {"input": 1, "output": 2, "cached_input": math.inf}}),
                "error: [targets.a.price] cached_input: is inf;"
                " give money per million tokens, 0 to 1000000000",
            ),
            (
                small(target={"price": {"input": 1, "output": 2, "cache_write": 10**400}}),
                "error: [targets.a.price] cache_write: is too large; give a number",
            ),
            (
                small(target={"price": {"input": True, "output": 2}}),
                "error: [targets.a.price] input: is true or false; give a number",
            ),
            (
                small(target={"price": {"input": ["image"], "output": 2}}),
                "error: [targets.a.price] input: is a list; give a number",
            ),
            (
                small(target={"price": {"input": "$3", "output": 2}}),
                "error: [targets.a.price] input: is a string; give a number",
            ),
            (
                small(target={"price": 3}),
                "error: [targets.a] price: is a whole number; give a table",
            ),
            (
                small({"price": {"input": 1, "output": 2}}),
                "error: [llm_clients.here] price: is unknown here; it belongs in [targets.NAME]",
            ),
            (
                small(target={"output": 3}),
                "error: [targets.a] output: is unknown here; it belongs in [targets.NAME.price]",
            ),
            (
                small(target={"affinity": "home"}),
                "error: [targets.a] affinity: is unknown here; it belongs in [routes.NAME]",
            ),
            (
                small(route={"breaker": {}}),
                "error: [routes.chat] breaker: is unknown here;"
                " it belongs in [llm_clients.NAME] or [targets.NAME]",
            ),
            (
                small(memory={"on_memory_error": "sk-abcdefghijklmnop"}),
                "error: [memory] on_memory_error: is a value; give serve or raise",
            ),
            (
                small(route={"affinity": "hime"}),
                "error: [routes.chat] affinity: is 'hime'; give home",
            ),
            (
                small(target={"tools": "no"}),
                "error: [targets.a] tools: is a string; give true or false",
            ),
            (
                small(target={"context_window": 0}),
                "error: [targets.a] context_window: is 0; give 1 to 1000000000",
            ),
            (
                small(target={"input": ["image", "smell"]}),
                "error: [targets.a] input: lists 'smell'; give some of text, image, audio, video, file",
            ),
            (
                small(route={"capability_scope": "session"}),
                "error: [routes.chat] capability_scope: is 'session'; give target or feature",
            ),
            (
                small(route={"readmit_below": 80}),
                "error: [routes.chat] readmit_below: is 80; give a share above 0, at most 1",
            ),
            (
                small({"format": "grpc"}),
                "error: [llm_clients.here] format: is 'grpc';"
                " give openai_chat or openai_responses or anthropic_messages",
            ),
            (
                small(http={"library": "requests"}),
                "error: [http] library: is 'requests'; give aiohttp or httpx",
            ),
            (
                small({"ca_file": "~/house.pem"}),
                "error: [llm_clients.here] ca_file: begins with ~, which is taken as it stands;"
                " write the whole path",
            ),
            (
                small(target={"model": "a-small"}),
                "error: [targets.a] model: is unknown here; did you mean id?",
            ),
            (
                small({"verify": False}),
                "error: [llm_clients.here] verify: is unknown here; did you mean ca_file?",
            ),
            (
                small(route={"on": {"capabilty": "skip"}}),
                "error: [routes.chat.on] capabilty: is no kind of error that a policy can change;"
                " did you mean capability?",
            ),
            (
                small({"ca_file": "a\0b"}),
                "error: [llm_clients.here] ca_file: is no path; give that of a file of certificates in PEM",
            ),
            (
                small({"extra_body": {"model": "m"}}),
                "error: [llm_clients.here.extra_body] model: is the target's model id,"
                " which is sent with every request; take it out",
            ),
            (
                small(target={"extra_body": {"messages": []}}),
                "error: [targets.a.extra_body] messages: is the conversation, which is the caller's;"
                " take it out",
            ),
            (
                small({"extra_body": {"temperature": math.nan}}),
                "error: [llm_clients.here.extra_body] temperature: holds NaN or an infinity,"
                " which JSON cannot say; give a number",
            ),
            (
                small({"ca_file": "nowhere.pem"}),
                "warning: [llm_clients.here] ca_file: cannot be read here; it has to be where turnout runs",
            ),
            (
                small(memory={"on_memory_error": "stop"}),
                "error: [memory] on_memory_error: is 'stop'; give serve or raise",
            ),
        ],
    )
    def test_what_is_unknown_or_of_no_use_is_refused(self, document: dict[str, Any], line: str) -> None:
        assert only(document) == line
        assert not loads(document)

    @pytest.mark.parametrize(
        ("document", "line"),
        [
            (
                small({"max_retries": "2"}),
                "error: [llm_clients.here] max_retries: is a string; give a whole number",
            ),
            (
                small({"max_retries": True}),
                "error: [llm_clients.here] max_retries: is true or false; give a whole number",
            ),
            (
                small({"max_retries": 2.5}),
                "error: [llm_clients.here] max_retries: is a number; give a whole number",
            ),
            (
                small({"retry_timeouts": 1}),
                "error: [llm_clients.here] retry_timeouts: is a whole number; give true or false",
            ),
            (
                small({"timeout_secs": [1]}),
                "error: [llm_clients.here] timeout_secs: is a list; give a number",
            ),
            (
                small({"timeout_secs": 10**400}),
                "error: [llm_clients.here] timeout_secs: is too large; give a number",
            ),
            (
                small({"extra_query": {"n": 1}}),
                "error: [llm_clients.here.extra_query] n: is a whole number; give a string",
            ),
            (
                small({"extra_query": []}),
                "error: [llm_clients.here] extra_query: is a list; give a table of strings",
            ),
            (
                small({"forward_headers": ["a", 1]}),
                "error: [llm_clients.here] forward_headers: holds a whole number; give a list of strings",
            ),
            (small(target={"id": {}}), "error: [targets.a] id: is a table; give a string"),
            (
                small(target={"id": datetime.date(2026, 1, 1)}),
                "error: [targets.a] id: is a date or time; give a string",
            ),
            (small(memory="sqlite:x.db"), "error: memory: is a string; give a table"),
            (small(schema_version="1"), "error: schema_version: is a string; give a whole number"),
        ],
    )
    def test_a_value_of_the_wrong_type(self, document: dict[str, Any], line: str) -> None:
        assert only(document) == line
        assert not loads(document)

    def test_a_string_where_a_ladder_is_needed(self) -> None:
        document = small(route={"ladder": "a"})
        assert only(document) == "error: [routes.chat] ladder: is a string; give a list of strings"

    def test_a_table_without_a_name_of_its_own(self) -> None:
        document = small()
        document["routes"] = {"ladder": ["a", "b"], "deadline_secs": 3}
        assert told(document)[-2:] == [
            "error: [routes] ladder: is a list where a table is needed; begin one with [routes.NAME]",
            "error: [routes] deadline_secs: is a whole number where a table is needed;"
            " begin one with [routes.NAME]",
        ]

    @pytest.mark.parametrize(
        ("document", "line"),
        [
            (small({"max_retries": 11}), "error: [llm_clients.here] max_retries: is 11; give 0 to 10"),
            (
                small({"max_retries": 2**20_000}),
                "error: [llm_clients.here] max_retries: is too large; give 0 to 10",
            ),
            (
                small({"max_retry_after_secs": math.nan}),
                "error: [llm_clients.here] max_retry_after_secs: is nan; give 0 to 31536000",
            ),
            (
                small({"max_body_bytes": 0}),
                "error: [llm_clients.here] max_body_bytes: is 0; give 1 to 1073741824",
            ),
            (small(memory={"ttl_secs": 0.5}), "error: [memory] ttl_secs: is 0.5; give 1 to 31536000"),
            (small(memory={"max_sessions": 0}), "error: [memory] max_sessions: is 0; give 1 to 1000000000"),
            (
                small(memory={"memory_timeout_ms": -1}),
                "error: [memory] memory_timeout_ms: is -1; give 1 to 60000",
            ),
        ],
    )
    def test_a_number_out_of_range(self, document: dict[str, Any], line: str) -> None:
        assert only(document) == line
        assert not loads(document)

    @pytest.mark.parametrize("bound", [0, -1, math.nan, math.inf, -math.inf, 1e9])
    @pytest.mark.parametrize("key", ["connect_timeout_secs", "timeout_secs", "deadline_secs"])
    def test_a_bound_that_means_none_is_an_error_that_loads(self, key: str, bound: float) -> None:
        document = small(route={key: bound}) if key == "deadline_secs" else small({key: bound})
        shown = "1000000000" if bound == 1e9 else str(bound)
        assert f"is {shown}, which means no bound; give seconds above 0, at most 31536000" in only(document)
        assert loads(document)

    def test_the_schema_of_a_later_version_is_the_only_thing_that_is_said(self) -> None:
        later = {"schema_version": 2, "lines": {}}
        assert (
            only(later)
            == "error: schema_version: is not 1, which this version reads; upgrade turnout to read this file"
        )
        assert not loads(later)

    def test_there_was_no_earlier_schema(self) -> None:
        assert (
            only(small(schema_version=0))
            == "error: schema_version: is not 1, which this version reads; give that"
        )

    @pytest.mark.parametrize("name", ["", "two words", "x" * 65, "caf\u00e9", "line\nbreak"])
    @pytest.mark.parametrize("kind", ["llm_clients", "targets", "routes"])
    def test_a_name_that_cannot_be_one(self, kind: str, name: str) -> None:
        document = small()
        document[kind][name] = document[kind].pop(
            {"llm_clients": "here", "targets": "a", "routes": "chat"}[kind]
        )
        lines = told(document)
        assert any("is no name; use 1 to 64 of the characters" in line for line in lines)
        assert not any("\n" in line for line in lines)
        assert not loads(document)

    def test_a_name_that_toml_has_to_quote_is_shown_quoted(self) -> None:
        document = small()
        document["targets"]["x.y"] = {"base_url": "https://llm.example", "max_retries": -1}
        document["routes"]["chat"]["ladder"] = ["a", "b", "x.y"]
        assert only(document) == 'error: [targets."x.y"] max_retries: is -1; give 0 to 10'

    def test_a_key_of_any_length_is_shown_in_brief(self) -> None:
        line = only(small({"k" * 200_000: 1}))
        assert line.startswith(f"error: [llm_clients.here] {'k' * 119}…: is unknown here")
        assert len(line) < 600

    def test_a_name_of_any_length_is_offered_in_brief(self) -> None:
        document = small(target={"llm_client": "nobody"})
        document["llm_clients"]["k" * 200_000] = {}
        assert max(map(len, told(document))) < 600


class TestWhatTheMachineHas:
    @pytest.mark.parametrize(
        ("content", "what"),
        [
            (b"", "holds no certificates in PEM that can be read"),
            (b"no certificate", "holds no certificates in PEM that can be read"),
            (trustme.CA().private_key_pem.bytes(), "holds no certificates in PEM that can be read"),
            (None, "is a directory; give a file of certificates in PEM"),
        ],
        ids=["empty", "something else", "a private key", "a directory"],
    )
    def test_a_file_that_is_there_and_holds_no_certificate(
        self, content: bytes | None, what: str, tmp_path: Path
    ) -> None:
        path = tmp_path / "ca.pem"
        path.mkdir() if content is None else path.write_bytes(content)
        document = small({"ca_file": str(path)})
        assert only(document) == f"error: [llm_clients.here] ca_file: {what}"
        assert not loads(document)

    def test_certificates_are_never_asked_for_over_plain_http(self, tmp_path: Path) -> None:
        path = tmp_path / "ca.pem"
        trustme.CA().cert_pem.write_to_path(path)
        certificates = {"ca_file": str(path)}
        assert told(small(certificates)) == []
        plain = {"base_url": "http://localhost:8000"}
        assert only(small({**certificates, **plain})).startswith(
            "warning: [llm_clients.here] ca_file: is never asked for: over plain http"
        )
        assert only(small(certificates, plain)).startswith(
            "warning: [targets.a] base_url: is plain http, over which ca_file is never asked for"
        )
        assert only(small(plain, certificates)).startswith("warning: [targets.a] ca_file: is never asked for")

    @pytest.mark.parametrize(
        ("version", "found"),
        [(None, "is not installed"), ("3.9.5", "is there as 3.9.5, which is too old or too new")],
        ids=["missing", "old"],
    )
    def test_aiohttp_has_to_be_where_turnout_runs(
        self, version: str | None, found: str, file: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def installed(name: str) -> str:
            if version is None:
                raise PackageNotFoundError(name)
            return version

        monkeypatch.setattr("turnout.engine.deployment.checks.version", installed)
        assert only(small(http={"library": "aiohttp"})) == (
            f"warning: [http] library: is 'aiohttp', which {found} here; it has to be where turnout runs"
        )
        assert told(small(http={"library": "httpx"})) == told(small()) == []
        file.write_text(
            '[http]\nlibrary = "aiohttp"\n[targets.a]\nbase_url = "https://llm.example"\n'
            '[routes.chat]\nladder = ["a"]'
        )
        with pytest.raises(ConfigurationError, match=rf"{found}; pip install 'turnout\[aiohttp\]'"):
            load(file)

    @pytest.mark.parametrize(
        ("secret", "what"),
        [
            ("  short \n", "which holds less than 8 characters: no credential"),
            ("caf\u00e9-caf\u00e9-caf\u00e9", "which holds what no header can carry; give printable ASCII"),
        ],
        ids=["short", "no ASCII"],
    )
    def test_a_credential_that_a_router_would_refuse(self, secret: str, what: str) -> None:
        line = only(small({"api_key_env": "HERE_KEY"}), HERE_KEY=secret)
        assert line == f"error: [llm_clients.here] api_key_env: names HERE_KEY, {what}"


class TestBoundsThatNeverAct:
    @pytest.mark.parametrize(
        "key", ["connect_timeout_secs", "first_output_timeout_secs", "idle_timeout_secs"]
    )
    def test_since_the_whole_attempt_has_less(self, key: str) -> None:
        assert only(small({"timeout_secs": 60, key: 61})) == (
            f"warning: [llm_clients.here] {key}: is 61, and never acts, since timeout_secs = 60 comes first;"
            " give less"
        )
        assert told(small({"timeout_secs": 60, key: 60})) == []
        assert only(small({key: 601})).endswith("since timeout_secs = 600 comes first; give less")

    def test_since_the_turn_has_less(self) -> None:
        assert only(small({"timeout_secs": 61}, route={"deadline_secs": 60})) == (
            "warning: [llm_clients.here] timeout_secs: is 61, and never acts,"
            " since deadline_secs = 60 of its route comes first; give less"
        )
        assert told(small(route={"deadline_secs": 60})) == [], "what nobody wrote is nobody's mistake"

    def test_but_not_where_it_acts_for_one_target_or_one_route(self) -> None:
        client = {"timeout_secs": 60, "idle_timeout_secs": 90}
        assert told(small(client, {"timeout_secs": 120})) == [], "for one target it acts"
        both = {
            "a": {"llm_client": "here", "timeout_secs": 80},
            "b": {"llm_client": "here", "timeout_secs": 70},
        }
        assert "timeout_secs = 80 comes first" in only({**small(client), "targets": both})
        document = small({"timeout_secs": 61}, route={"deadline_secs": 60})
        document["routes"]["patient"] = {"ladder": ["b", "a"]}
        assert told(document) == [], "for one route it acts"

    def test_a_target_of_no_ladder_says_nothing(self) -> None:
        document = small()
        document["targets"]["idle"] = {"llm_client": "here", "timeout_secs": 5, "idle_timeout_secs": 6}
        assert only(document) == "warning: [targets.idle]: is in no ladder"


class TestReferences:
    def test_a_client_that_does_not_exist(self) -> None:
        assert told(small(target={"llm_client": "her"})) == [
            "error: [targets.a] llm_client: names 'her', which is none of [llm_clients]; did you mean here?"
        ]
        assert told({**small(), "llm_clients": {}})[0].endswith(
            "which is none of [llm_clients]; there is none"
        )

    def test_a_target_says_where_it_is_or_who_knows(self) -> None:
        document = small()
        document["targets"]["a"] = {}
        assert only(document) == (
            "error: [targets.a] llm_client: is missing; name one of [llm_clients], or give base_url here"
        )
        document["targets"]["a"] = {"llm_client": 3}
        assert only(document) == "error: [targets.a] llm_client: is a whole number; give a string"
        document["targets"]["a"] = {"base_url": 3}
        assert only(document) == "error: [targets.a] base_url: is a whole number; give a string"

    @pytest.mark.parametrize("key", ["client", "llmclient", "provider"])
    def test_a_key_that_was_meant_for_another_is_one_mistake(self, key: str) -> None:
        document = small()
        document["targets"] = {name: {key: "here"} for name in ("a", "b")}
        assert told(document) == [
            f"error: [targets.{name}] {key}: is unknown here; did you mean llm_client?" for name in ("a", "b")
        ]
        document = small({"url": "https://llm.example"})
        del document["llm_clients"]["here"]["base_url"]
        assert only(document) == "error: [llm_clients.here] url: is unknown here; did you mean base_url?"
        document = small(route={"models": ["a", "b"]})
        del document["routes"]["chat"]["ladder"]
        assert only(document) == "error: [routes.chat] models: is unknown here; did you mean ladder?"

    def test_a_client_without_an_address_is_told_once_unless_its_targets_have_their_own(self) -> None:
        document = small()
        document["llm_clients"]["here"] = {"max_retries": 0}
        assert only(document) == (
            "error: [llm_clients.here] base_url: is missing; give one like https://api.example.com/v1"
        )
        for name in ("a", "b"):
            document["targets"][name]["base_url"] = f"https://{name}.example/v1"
        assert told(document) == []

    def test_what_nothing_uses(self) -> None:
        document = small()
        document["llm_clients"]["spare"] = {"base_url": "https://spare.example", "api_key_env": "NOT_SET"}
        document["targets"]["idle"] = {"llm_client": "here"}
        assert told(document) == [
            "warning: [llm_clients.spare]: is used by no target",
            "warning: [targets.idle]: is in no ladder",
        ]
        assert loads(document), "a credential that no route needs is not asked for"

    @pytest.mark.parametrize("below", [{"errors": [{"kind": "auth", "status": 401}]}, {"max_retries": 1}])
    def test_what_nothing_uses_may_be_a_name_that_was_mistyped(self, below: dict[str, Any]) -> None:
        document = small()
        document["llm_clients"]["hree"] = below
        assert only(document) == "warning: [llm_clients.hree]: is used by no target; did you mean here?"

    def test_a_ladder_names_targets_each_once(self) -> None:
        assert told(small(route={"ladder": ["a", "bb", "chat", "a", "b"]})) == [
            "error: [routes.chat] ladder: names 'a' twice; a target is tried once a turn",
            "error: [routes.chat] ladder: names 'bb', which is none of [targets]; did you mean b?",
            "error: [routes.chat] ladder: names 'chat', which is none of [targets] but a route;"
            " a ladder holds targets, never other routes",
        ]

    def test_a_ladder_that_is_missing_empty_or_short(self) -> None:
        document = small()
        document["routes"]["more"] = {}
        assert only(document) == "error: [routes.more] ladder: is missing; list the targets to try, in order"
        document["routes"]["more"] = {"ladder": []}
        assert only(document) == "error: [routes.more] ladder: its ladder is empty; give at least one target"
        document["routes"]["more"] = {"ladder": ["a"]}
        assert (
            only(document)
            == "warning: [routes.more] ladder: has one target: there is nothing to fall back to"
        )

    def test_one_model_at_one_address_under_two_names(self) -> None:
        same = {"id": "m"}
        document = small(target=same)
        document["targets"]["b"].update(same)
        assert only(document) == (
            "warning: [routes.chat] ladder: holds 'a' and 'b', which are the same model at the same address"
        )
        document["targets"]["b"]["api_key_env"] = "OTHER_ACCOUNT"
        assert told(document, OTHER_ACCOUNT=SECRET) == [], "a second account is worth asking"

    def test_a_deployment_without_routes(self) -> None:
        assert told({}) == ["error: routes: is missing: nothing can be asked for; add [routes.NAME]"]
        assert told({"routes": []}) == ["error: routes: is a list; give a table"]

    def test_two_routes_with_one_id(self) -> None:
        document = small()
        document["routes"]["again"] = {"id": "chat", "ladder": ["b", "a"]}
        assert (
            only(document) == "error: [routes.again] id: is 'chat', as another route's is; give each its own"
        )
        document["routes"]["again"]["id"] = ""
        assert "is no name" in only(document)

    def test_a_policy_that_cannot_be(self) -> None:
        lines = told(small(route={"on": {"unavailable": "evict", "overload": "skip", "capability": 1}}))
        assert lines[0] == "error: [routes.chat.on] unavailable: is 'evict'; give one of skip, surface"
        assert lines[1].startswith(
            "error: [routes.chat.on] overload: is no kind of error that a policy can change"
        )
        assert lines[2] == "error: [routes.chat.on] capability: is a whole number; give a string"


class TestCredentials:
    @pytest.mark.parametrize(
        "client",
        [
            {"api_key": SECRET},
            {"token": SECRET},
            {"password": SECRET},
            {"extra_headers": {"Authorization": f"Bearer {SECRET}"}},
            {"extra_headers": {"x-api-key": SECRET}},
            {"extra_headers": {"Cookie": SECRET}},
            {"extra_headers": {"x-custom": f"Bearer {SECRET}"}},
            {"extra_query": {"key": SECRET}},
            {"extra_query": {"access_token": SECRET}},
            {"base_url": f"https://user:{SECRET}@llm.example/v1"},
            {"base_url": f"https://llm.example/v1?api-key={SECRET}"},
            {"api_key_env": f"sk-{SECRET}"},
            {"api_key_env": "0123456789abcdef0123456789abcdef"},
            {"extra_body": {"nested": [{"deep": f"sk-{SECRET}"}]}},
            {"headers": {"x": f"sk-{SECRET}"}},
            {f"sk-{SECRET}": 1, "api_key": SECRET},
            {"extra_headers": {"x-goog-key": SECRET}},
            {"extra_headers": {"tenant_key": SECRET}},
            {"extra_headers": {"x-note": "Basic " + base64.b64encode(f"me:{SECRET}".encode()).decode()}},
            {"extra_headers": {"x-note": f"sk_live_{SECRET.replace('-', '')}"}},
            {"extra_headers": {"x-note": f"xoxb-{SECRET}"}},
            {"extra_headers": {"http-referer": f"https://me:{SECRET}@app.example"}},
            {"extra_headers": {"my secret": SECRET}},
            {"extra_query": {"code": SECRET}},
            {"extra_body": {"pem": f"-----BEGIN RSA PRIVATE KEY-----\n{SECRET}"}},
            {"base_url": f"https://llm.example/v1?code={SECRET}"},
            {"base_url": f"https://llm.example/v1;api_key={SECRET}"},
            {"base_url": f"https://llm.example/v1?x=1;api%5Fkey={SECRET}"},
            {"base_url": f"https://llm.example/v1#access_token={SECRET}"},
        ],
    )
    def test_have_no_place_in_a_file_and_are_never_shown(self, client: dict[str, Any]) -> None:
        document = small(client)
        lines = told(document)
        assert any("holds a credential, which does not belong in a file" in line for line in lines)
        assert SECRET not in repr(examined(document).findings)
        assert "0123456789" not in repr(examined(document).findings)
        assert not loads(document)

    @pytest.mark.parametrize("value", [SECRET, 12345678, [SECRET], {"env": SECRET}])
    def test_are_expected_in_the_environment_whatever_the_type_of_a_key_that_is_none(
        self, value: Any
    ) -> None:
        assert only(small({"api_key": value})) == (
            "error: [llm_clients.here] api_key: holds a credential, which does not belong in a file:"
            " put it into an environment variable and name that in api_key_env"
        )

    @pytest.mark.parametrize(
        "document",
        [
            small({"auth_header": f"{MIXED} x"}),
            small({"forward_headers": [f"{MIXED} x"]}),
            small({"forward_headers": [f"{MIXED}-token"]}),
            small({"extra_headers": {f"{MIXED} x": "y"}}),
            small({"format": MIXED}),
            small({"format": f"{MIXED} and so on"}),
            small({"api_key_env": MIXED}),
            small({"api_key_env": MIXED.upper()}),
            small(target={"llm_client": MIXED}),
            small(route={"ladder": ["a", "b", MIXED, MIXED]}),
            small(route={"on": {"unavailable": MIXED}}),
            small(memory={"on_memory_error": MIXED}),
            small(memory={"url": f"redis://me:{MIXED}@cache"}),
            small(memory={"url": MIXED}),
        ],
    )
    def test_that_were_put_in_the_place_of_a_name_are_not_shown(self, document: dict[str, Any]) -> None:
        assert told(document)
        assert MIXED not in "\n".join(told(document)).lower()

    def test_a_word_that_is_no_name_here_is_shown_and_anything_else_is_a_value(self) -> None:
        assert "is 'grpc'; give" in only(small({"format": "grpc"}))
        assert "is a value; give" in only(small({"format": "g" * 41}))
        assert "is a value; give" in only(small({"format": "two words"}))

    def test_are_found_once_however_they_show(self) -> None:
        assert len(told(small({"api_key": f"sk-{SECRET}"}))) == 1

    @pytest.mark.parametrize(
        "client",
        [
            {"extra_headers": {"x-title": "my app", "http-referer": "https://app.example", "x-empty": ""}},
            {"extra_headers": {"x-title": "Basic authentication", "anthropic-version": "2023-06-01"}},
            {"extra_headers": {"openai-organization": "org-AbCdEfGh12345678IjKl", "idempotency-key": "a"}},
            {"forward_headers": ["traceparent", "x-request-id", "anthropic-version", "idempotency-key"]},
            {"extra_query": {"api-version": "2024-10-21"}},
            {"base_url": "https://llm.example/v1?api-version=1"},
            {"extra_body": {"stop_token": "<s>", "max_tokens": 5}},
            {"auth_header": "x-api-key"},
            {"forward_headers": ["x-tenant", "traceparent"]},
        ],
    )
    def test_are_not_suspected_where_there_are_none(self, client: dict[str, Any]) -> None:
        assert told(small(client)) == []

    def test_that_are_too_short_to_be_one(self) -> None:
        document = small({"api_key_env": "SHORT_KEY"})
        assert only(document, SHORT_KEY="seven77") == (
            "error: [llm_clients.here] api_key_env: names SHORT_KEY,"
            " which holds less than 8 characters: no credential"
        )
        assert not loads(document, SHORT_KEY="seven77")

    def test_a_target_s_own_variable_is_told_at_the_target(self) -> None:
        document = small({"api_key_env": "SHARED_KEY"}, target={"api_key_env": "OWN_KEY"})
        assert only(document, SHARED_KEY=SECRET).startswith("warning: [targets.a] api_key_env: names OWN_KEY")

    @pytest.mark.parametrize(
        "name", ["hunter2hunter2", "ABCD1234EFGH5678", "abcdefghijklmnop", "KEY_A1B2C3D4E5F6G7H8"]
    )
    def test_a_variable_s_name_is_not_shown_if_it_could_be_the_key(self, name: str) -> None:
        line = only(small({"api_key_env": name}))
        assert line.startswith("warning: [llm_clients.here] api_key_env: names a variable, which is not set")

    @pytest.mark.parametrize("name", ["", "MY-KEY", "1KEY", "$KEY"])
    def test_a_variable_s_name_that_cannot_be_one(self, name: str) -> None:
        assert only(small({"api_key_env": name})) == (
            "error: [llm_clients.here] api_key_env: is no name of an environment variable;"
            " give one like OPENAI_API_KEY"
        )

    def test_the_caller_s_and_ours_do_not_go_together(self) -> None:
        what = (
            "forward_auth: does not go with api_key_env:"
            " one sends the caller's credential, the other ours; keep one"
        )
        assert (
            only(small({"api_key_env": "K", "forward_auth": True}), K=SECRET)
            == f"error: [llm_clients.here] {what}"
        )
        assert (
            only(small({"api_key_env": "K"}, {"forward_auth": True}), K=SECRET)
            == f"error: [targets.a] {what}"
        )

    @pytest.mark.parametrize("client", [{"api_key_env": "K"}, {"forward_auth": True}])
    def test_over_plain_http_are_an_error_that_loads(self, client: dict[str, Any]) -> None:
        document = small({"base_url": "http://llm.example/v1", **client})
        assert only(document, K=SECRET) == (
            "error: [llm_clients.here] base_url:"
            " sends a credential over plain http, where it can be read on its way; use https"
        )
        assert loads(document, K=SECRET)
        assert told(small({"base_url": "http://llm.example/v1"})) == [], "no credential, nothing to read"

    @pytest.mark.parametrize(
        "host", ["localhost:8000", "127.0.0.1", "127.9.9.9:80", "[::1]:1", "llm.localhost"]
    )
    def test_over_plain_http_within_the_machine_are_fine(self, host: str) -> None:
        assert told(small({"base_url": f"http://{host}/v1", "api_key_env": "K"}), K=SECRET) == []

    def test_a_target_that_moves_its_client_s_credential_to_plain_http(self) -> None:
        moved = small({"api_key_env": "K"}, {"base_url": "http://llm.example"})
        assert only(moved, K=SECRET).startswith(
            "error: [targets.a] base_url: sends a credential over plain http"
        )
        added = small({"base_url": "http://llm.example"}, {"api_key_env": "K"})
        assert only(added, K=SECRET).startswith(
            "error: [targets.a] api_key_env: sends a credential over plain http"
        )


class TestAddressesAndHeaders:
    @pytest.mark.parametrize(
        "url",
        [
            "",
            "llm.example/v1",
            "localhost:8000",
            "ftp://llm.example",
            "https://",
            "http://[::1",
            "https://h:99999",
            "https://a b/v1",
            "https://llm.example/v1\n",
            "https://" + "x" * 64 + ".example",
        ],
    )
    def test_no_address_of_an_upstream(self, url: str) -> None:
        document = small({"base_url": url, "forward_auth": True})
        assert only(document) == (
            "error: [llm_clients.here] base_url: is no URL of an upstream; give one like https://api.example.com/v1"
        )
        assert not loads(document)

    def test_a_fragment_is_never_sent(self) -> None:
        assert only(small({"base_url": "https://llm.example/v1#hunter2"})) == (
            "error: [llm_clients.here] base_url: has a fragment, which is never sent;"
            " take out the # and what follows it"
        )

    @pytest.mark.parametrize(
        "url", ["https://llm.example", "HTTP://10.0.0.1:8080/v1/", "https://[2001:db8::1]/v1"]
    )
    def test_an_address(self, url: str) -> None:
        assert told(small({"base_url": url})) == []

    @pytest.mark.parametrize(
        ("client", "line"),
        [
            ({"auth_header": "x api key"}, "auth_header: is no name of a header; give one like x-api-key"),
            ({"auth_header": "Connection"}, "auth_header: is 'Connection', which cannot carry a credential"),
            ({"forward_headers": ["x:y"]}, "forward_headers: holds what is no name of a header; give names"),
            (
                {"forward_headers": ["Authorization"]},
                "forward_headers: holds 'Authorization', which is never forwarded from here",
            ),
            (
                {"forward_headers": ["host"]},
                "forward_headers: holds 'host', which belongs to the caller's connection",
            ),
            ({"extra_headers": {"x\r\ny": "z"}}, "extra_headers] [not shown]: is no name of a header"),
            ({"extra_headers": {"x y": 1}}, "extra_headers] [not shown]: is a whole number; give a string"),
            ({"extra_headers": {"x": "a\tb"}}, "extra_headers] x: cannot be sent"),
            ({"extra_headers": {"x": "a\r\nb: c"}}, "extra_headers] x: cannot be sent"),
            ({"extra_headers": {"x": " a"}}, "extra_headers] x: cannot be sent"),
            (
                {"extra_headers": {"Content-Length": "3"}},
                "extra_headers] Content-Length: belongs to the connection",
            ),
        ],
    )
    def test_a_header_that_cannot_be_sent(self, client: dict[str, Any], line: str) -> None:
        assert line in only(small(client))
        assert not loads(small(client))


NO_PICTURES = {"status": 400, "contains": "no pictures", "kind": "capability", "features": ["image"]}
AUTH = {"kind": "auth"}


class TestErrors:
    """`[[llm_clients.NAME.errors]]`: how replies are read that we would read otherwise."""

    def test_a_rule_is_named_by_the_table_that_it_stands_in(self) -> None:
        deployment = examined(
            small({"errors": [NO_PICTURES, {"code": "E-1", **AUTH}]}, {"errors": [{"code": "E-2", **AUTH}]})
        ).deployment
        assert deployment is not None
        a, b = deployment.routes["chat"].ladder
        assert [(rule.name, rule.code) for rule in a.rules] == [("targets.a.errors[0]", "E-2")]
        assert [rule.name for rule in b.rules] == [
            "llm_clients.here.errors[0]",
            "llm_clients.here.errors[1]",
        ]
        assert b.rules[0].features == ("image",)

    @pytest.mark.parametrize(
        ("rule", "line"),
        [
            ({"status": 400}, "kind: is missing; give one of context_window, capability, unavailable,"),
            ({"status": 400, "kind": "capabilty"}, "kind: is 'capabilty'; did you mean capability?"),
            ({"status": 400, "kind": 4}, "kind: is a whole number; give a string"),
            ({"stauts": 400, "status": 400, **AUTH}, "stauts: is unknown here; did you mean status?"),
            ({"status": 400, "name": "x", **AUTH}, "name: is unknown here; choose from kind, status, code,"),
            ({"status": "400", **AUTH}, "status: is a string; give a whole number"),
            ({"status": 99, **AUTH}, "status: is 99; give 100 to 599"),
            ({"status": 600, **AUTH}, "status: is 600; give 100 to 599"),
            ({"status": 2**20_000, **AUTH}, "status: is a value; give 100 to 599"),
            ({"code": 77, **AUTH}, "code: is a whole number; give a string"),
            ({"code": "", **AUTH}, "code: holds no letter a to z and no digit; give the code as the"),
            ({"contains": " ", **AUTH}, "contains: is empty; give words of the upstream's message"),
            ({"contains": "x", "field": "", **AUTH}, "field: is empty; give a path as the evidence shows it"),
            ({"contains": "x", "field": "$.a", **AUTH}, "field: is no path; give a path as the evidence"),
            ({"message": "x", "status": 400, **AUTH}, "message: is unknown here; did you mean contains?"),
            ({"pattern": "x", "status": 400, **AUTH}, "pattern: is unknown here; did you mean contains?"),
            ({"text": "x", "status": 400, **AUTH}, "text: is unknown here; did you mean contains?"),
            *(
                (
                    {"status": 400, "kind": action},
                    f"kind: is '{action}', an action of [routes.NAME.on]; give here what kind of",
                )
                for action in Action
            ),
            ({"contains": [], **AUTH}, "contains: is a list; give a string"),
            ({"status": 1.5, "field": "error", **AUTH}, ""),
            ({"status": 400, "field": "error", **AUTH}, "field: says where, but not what: give contains or"),
            ({**NO_PICTURES, "features": ["imge"]}, "features: holds 'imge'; did you mean image?"),
            ({**NO_PICTURES, "features": "image"}, "features: is a string; give a list of strings"),
            ({**NO_PICTURES, **AUTH}, 'features: goes with kind = "capability" only'),
            (AUTH, "holds for every reply; give at least one of status, code, contains"),
        ],
    )
    def test_a_rule_that_cannot_be(self, rule: dict[str, Any], line: str) -> None:
        for document, table in (
            (small({"errors": [NO_PICTURES, rule]}), "llm_clients.here"),
            (small(target={"errors": [NO_PICTURES, rule]}), "targets.a"),
        ):
            where = f"error: [{table}.errors[1]]{'' if line.startswith('holds') else ' '}"
            assert told(document)[0].startswith(where + (": " if line.startswith("holds") else "") + line)
            assert len(told(document)) == (2 if not line else 1)
            assert not loads(document)

    def test_every_mistake_of_every_rule_is_told_in_the_order_of_the_file(self) -> None:
        document = small({"errors": [{"status": 0, "kind": "x"}, NO_PICTURES, {"kind": 1, "code": ""}]})
        assert [line.partition(":")[2].split(": is")[0].split(": holds")[0] for line in told(document)] == [
            " [llm_clients.here.errors[0]] status",
            " [llm_clients.here.errors[0]] kind",
            " [llm_clients.here.errors[2]] kind",
            " [llm_clients.here.errors[2]] code",
        ]

    @pytest.mark.parametrize(
        ("errors", "line"),
        [
            (NO_PICTURES, "is a table; give a list of tables, each below its own [[ ]]"),
            ("auth", "is a string; give a list of tables, each below its own [[ ]]"),
            ([NO_PICTURES, "auth"], "holds a string; give a list of tables, each below its own [[ ]]"),
        ],
    )
    def test_what_is_no_list_of_rules(self, errors: Any, line: str) -> None:
        assert only(small({"errors": errors})) == f"error: [llm_clients.here] errors: {line}"

    def test_a_credential_in_a_rule_is_found_and_not_shown(self) -> None:
        rule = {"contains": f"Bearer {SECRET}", **AUTH}
        line = only(small({"errors": [NO_PICTURES, rule]}))
        assert line.startswith("error: [llm_clients.here.errors[1]] contains: holds a credential")
        assert SECRET not in line

    def test_a_rule_behind_one_that_holds_whenever_it_does_never_decides(self) -> None:
        errors = [{"status": 403, **AUTH}, {"status": 400, **AUTH}, NO_PICTURES, {"status": 422, **AUTH}]
        document = small({"errors": errors})
        assert only(document) == (
            "warning: [llm_clients.here.errors[2]]: never decides, since errors[1] holds whenever it does;"
            " put it before that one, or take it out"
        )
        assert loads(document)

    @pytest.mark.parametrize("text", ["no .* here", "no .+ here", r"E-\d", "^no pictures", "no pictures$"])
    def test_words_that_look_like_a_pattern_are_taken_as_they_stand(self, text: str) -> None:
        document = small({"errors": [{"contains": text, **AUTH}]})
        assert only(document) == (
            "warning: [llm_clients.here.errors[0]] contains: is no pattern, but taken literally;"
            " give words of the upstream's message as they stand there"
        )
        assert loads(document)

    @pytest.mark.parametrize("text", ["costs $5 a day", "2^3", "a.b", "why? no", "C:\\models", "[image]"])
    def test_words_that_hold_a_sign_of_a_pattern_are_words(self, text: str) -> None:
        assert told(small({"errors": [{"contains": text, **AUTH}]})) == []

    def test_where_a_rule_for_a_target_belongs_is_told_as_the_file_writes_it(self) -> None:
        document = small({"errors": [NO_PICTURES]}, {"errors": []})
        document["targets"]["own/c"] = {"base_url": "https://c.example"}
        document["routes"]["chat"]["ladder"] = ["a", "b", "own/c"]
        deployment = examined(document).deployment
        assert deployment is not None
        assert deployment.rules_at == {
            "a": "targets.a.errors",
            "b": "llm_clients.here.errors",
            "own/c": 'targets."own/c".errors',
        }

    def test_no_rules_take_away_those_of_the_client(self) -> None:
        deployment = examined(small({"errors": [NO_PICTURES]}, {"errors": []})).deployment
        assert deployment is not None
        assert [len(target.rules) for target in deployment.routes["chat"].ladder] == [0, 1]


class TestMemory:
    @pytest.mark.parametrize(
        "url",
        [
            *("memory:", "sqlite:turnout.db", "sqlite:/var/lib/turnout.db", "sqlite:./a b.db"),
            *("redis://cache", "redis://cache:6379/2", "rediss://cache/0?ssl_ca_certs=ca.pem"),
            *("redis://[::1]:6379", "unix:///run/redis.sock", "unix:///run/redis.sock?db=3"),
        ],
    )
    def test_a_memory(self, url: str) -> None:
        deployment = examined(
            small(memory={"url": url, "durability": "full", "memory_timeout_ms": 50})
        ).deployment
        assert deployment is not None
        assert deployment.memory == MemorySettings(url=url, durability="full", memory_timeout_ms=50.0)

    @pytest.mark.parametrize(
        ("url", "what"),
        [
            ("postgres://db", "is no memory; give sqlite:PATH, redis://HOST:PORT/DB or memory:"),
            ("memory:x", "is no memory; give sqlite:PATH, redis://HOST:PORT/DB or memory:"),
            ("redis:", "names no host; give one like redis://cache:6379/0"),
            ("redis:///0", "names no host"),
            ("redis://cache:0", "names no host"),
            ("redis://cache:x", "is no address of a Redis store"),
            ("redis://[cache", "is no address of a Redis store"),
            ("redis://cache/one", "names a database that is no number"),
            ("redis://cache?db=one", "names a database that is no number"),
            ("redis://cache?decode_responses=1", "has an option that is unknown here behind its ?; give db"),
            ("redis://cache/0#1", "holds what has to be percent-encoded"),
            ("unix://run/redis.sock", "names no socket"),
            ("unix:", "names no socket"),
            ("env:", "is no name of an environment variable; give one like REDIS_URL"),
            ("env:REDIS URL", "is no name of an environment variable; give one like REDIS_URL"),
            ("sqlite:", "names no file"),
            ("sqlite::memory:", "names no file"),
            ("sqlite:///turnout.db", "names no file"),
            ("sqlite:~/turnout.db", "begins with ~, which is taken as it stands; write the whole path"),
            ("sqlite:$HOME/turnout.db", "holds $, which is taken as it stands; write the whole path"),
        ],
    )
    def test_no_memory(self, url: str, what: str) -> None:
        assert only(small(memory={"url": url})).startswith(f"error: [memory] url: {what}")

    @pytest.mark.parametrize(
        "url",
        [
            f"redis://me:{MIXED}@cache",
            f"redis://:{MIXED}@cache/0",
            f"rediss://cache?password={MIXED}",
            f"redis://me:{MIXED}#?/@cache",
            f"unix://me:{MIXED}@/run/redis.sock",
        ],
    )
    def test_a_password_belongs_into_the_environment_with_its_url(self, url: str) -> None:
        (told_of_it,) = told(small(memory={"url": url}))
        assert told_of_it.startswith(
            "error: [memory] url: holds a credential, which does not belong in a file"
        )
        assert told_of_it.endswith("put the whole url into an environment variable, as in env:REDIS_URL")

    @pytest.mark.parametrize(
        "url", ["rediss://me:swordfish@cache", "redis://:swordfish@localhost", "sqlite:x.db", "memory:"]
    )
    def test_a_url_in_the_environment_may_be_any_and_hold_a_password(self, url: str) -> None:
        examination = examined(small(memory={"url": "env:STORE"}), STORE=url)
        assert examination.findings == ()
        assert examination.deployment is not None
        assert examination.deployment.memory.url == "env:STORE"

    @pytest.mark.parametrize(
        ("environ", "level", "what"),
        [
            ({}, "warning", "is not set"),
            ({"STORE": " "}, "warning", "is not set"),
            ({"STORE": "redis://me:swordfish#@cache"}, "error", "holds what has to be percent-encoded"),
            ({"STORE": "swordfish"}, "error", "is no memory; give sqlite:PATH"),
            ({"STORE": "env:swordfish"}, "error", "names another variable; put the url itself there"),
            ({"STORE": "redis://me:swordfish@cache"}, "warning", "sends a password in the clear"),
        ],
    )
    def test_a_url_in_the_environment_is_looked_at_and_never_shown(
        self, environ: dict[str, str], level: str, what: str
    ) -> None:
        (finding,) = examined(small(memory={"url": "env:STORE"}), **environ).findings
        assert f"{finding.level}: {finding}".startswith(
            f"{level}: deployment.toml: [memory] url: names STORE, which {what}"
        )
        assert "swordfish" not in str(finding)
        assert finding.stops is not what.startswith("sends")


KEYS = sorted(
    {*FILE, *MEMORY, *CAPTURE, *TARGET, *ROUTE, *RULE, *BREAKER, *PRICE, "a", "b", "api_key", "unavailable"}
)
SCALARS = (
    st.sampled_from(["a", "b", "skip", "sk-abcdefghijklmnop", "http://[", "sqlite:", "https://llm.example"])
    | st.text(max_size=8)
    | st.integers()
    | st.just(2**10_000)
    | st.floats()
    | st.booleans()
    | st.datetimes()
    | st.dates()
    | st.times()
)
ANYTHING = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(KEYS) | st.text(max_size=8), inner, max_size=4)
    ),
    max_leaves=20,
)
TABLES = st.dictionaries(st.sampled_from(["a", "b", "c d"]), st.dictionaries(st.sampled_from(KEYS), ANYTHING))


@given(
    st.dictionaries(st.text(max_size=8), ANYTHING, max_size=3),
    st.fixed_dictionaries(
        {}, optional={"memory": ANYTHING, "llm_clients": TABLES, "targets": TABLES, "routes": TABLES}
    ),
)
def test_whatever_a_file_holds_it_is_only_found_wanting(rest: dict[str, Any], tables: dict[str, Any]) -> None:
    examination = examined({**rest, **tables})
    stopped = any(finding.stops and finding.level is Level.ERROR for finding in examination.findings)
    assert stopped is (examination.deployment is None)
    assert "sk-abcdefghijklmnop" not in "".join(map(str, examination.findings))
