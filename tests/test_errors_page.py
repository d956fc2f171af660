"""The page on failed replies says what is so: its sentences are read as it tells, its sessions are real."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

import turnout
from turnout import ErrorRule
from turnout.engine.audit import AuditRecord, ProbeRecord
from turnout.engine.capture import FILE, Capture
from turnout.engine.classify import Feature, Reply, Verdict, classify
from turnout.engine.classify.decoding import MAX_BODY
from turnout.engine.classify.lexicon import listed
from turnout.engine.classify.providers import CODES
from turnout.engine.classify.reading import TABLES
from turnout.engine.cli import main
from turnout.engine.deployment import examine
from turnout.engine.explaining import MEANINGS
from turnout.engine.policy import ALLOWED, DEFAULT, FORBIDDEN
from turnout.engine.recognising import CONCEPTS, RULES
from turnout.engine.redaction import Quotations, Redactor
from turnout.engine.targets import Target
from turnout.machines.vocabulary import ErrorKind as Kind

HOUSE = Path(__file__).parent.parent
PACKAGE = Path(turnout.__file__).parent
"""Where the engine is when the tests run outside a checkout."""
PAGE = (HOUSE / "docs" / "errors.md").read_text(encoding="utf-8")
PROSE = re.sub(r"^```.*?^```$", "", PAGE, flags=re.MULTILINE | re.DOTALL)
CORPUS = HOUSE / "tests" / "corpus"
CORPUS_PAGE = (CORPUS / "README.md").read_text(encoding="utf-8")

CONSOLE = re.findall(r"^```console\n\$ turnout (.+?)\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
DEPLOYMENT, RULE = re.findall(r"^```toml\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
IMAGE, CAPTURED = map(json.loads, re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL))
CAPTURED_CODE = json.loads(CAPTURED["body"])["error"]["code"]

Row = dict[str, str]


def tables(page: str, title: str) -> Iterator[list[Row]]:
    """Each table of a section: its rows, by the heads of the columns."""
    (section,) = re.findall(rf"^##+ {re.escape(title)}\n(.*?)(?=^##|\Z)", page, re.MULTILINE | re.DOTALL)
    for table in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        head, _, *rows = ([cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines())
        yield [dict(zip(head, row, strict=True)) for row in rows]


def table(title: str, page: str = PAGE) -> list[Row]:
    (only,) = tables(page, title)
    return only


def words(cell: str) -> list[str]:
    """What stands in code in a cell or a text."""
    return re.findall(r"`([^`]+)`", cell)


def said(cell: str) -> tuple[int, str]:
    """What a server may say, as the page writes it: `404`: This model ... (`404`, no words)."""
    status, sentence = re.findall(r"^`(\d+)`(?:: (.+)|, no words)$", cell)[0]
    return int(status), sentence


def read(status: int, sentence: str, **fields: str) -> Verdict:
    body = json.dumps({"error": {"message": sentence, **fields}}) if sentence else ""
    return classify(Reply(status=status, body=body.encode()), now=0)


KINDS = table("The nine kinds")
FEATURES = table("What a capability reject names")
SENTENCES = table("Sentences: two things in one")
STEPS = [row for row in table("In which order") if row["a server may say"]]
LIMITS = table("What cannot be told apart")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the files are that the page speaks of."""
    monkeypatch.chdir(tmp_path)
    Path("image.json").write_text(json.dumps(IMAGE))
    Path("reply.json").write_text(CAPTURED["body"])
    Path("deployment.toml").write_text(f"{DEPLOYMENT}\n{RULE}")
    Path("captured").mkdir()
    Path("captured", FILE).write_text(json.dumps(CAPTURED) + "\n")
    return tmp_path


@pytest.fixture
def target(folder: Path) -> Target:
    """The target of the page, with the rule that was written for it."""
    deployment = examine(folder / "deployment.toml").deployment
    assert deployment is not None
    return next(target for target in deployment.routes["chat"].ladder if target.name == "small")


class TestTheNineKinds:
    def test_are_all_there_with_their_meanings(self) -> None:
        assert [row["kind"].strip("`") for row in KINDS] == list(Kind)
        for row in KINDS:
            assert row["it means"] == MEANINGS[row["kind"].strip("`")]

    def test_do_by_default_and_on_request_what_the_page_says(self) -> None:
        for row in KINDS:
            kind = row["kind"].strip("`")
            assert words(row["the router"]) == [DEFAULT[kind]]
            assert words(row["a policy may"]) == list(ALLOWED[kind])

    def test_have_two_cases_that_a_policy_knows_besides(self) -> None:
        besides = [words(row["besides"])[0] for row in table("Two cases of their own")]
        assert besides == ["auth", "unrecognised"]
        forbidden, unrecognised = table("Two cases of their own")
        assert words(forbidden["the router"]) == [DEFAULT[FORBIDDEN]]
        assert words(unrecognised["the router"]) == [DEFAULT["unrecognised"]]
        assert words(unrecognised["a policy may"]) == list(ALLOWED["unrecognised"])

    @pytest.mark.parametrize("row", KINDS, ids=lambda row: row["kind"].strip("`"))
    def test_are_read_in_what_a_server_may_say(self, row: Row) -> None:
        verdict = read(*said(row["a server may say"]))
        assert verdict.kind == row["kind"].strip("`")
        assert not verdict.evidence.rule.startswith(("status_", "unrecognised"))


class TestWhatIsLookedAt:
    SENTENCE = "This model does not support image input."

    def test_is_every_field_of_a_message_and_none_that_echoes_the_caller(self) -> None:
        def seen(field: str) -> bool:
            body = json.dumps({"error": {field: self.SENTENCE}}).encode()
            return classify(Reply(status=400, body=body), now=0).kind is Kind.CAPABILITY

        (spoken,) = re.findall(r"messages \((.+?)\)", PROSE)
        (echoed,) = re.findall(r"Fields such as (.+?) are never", PROSE)
        assert list(map(seen, words(spoken))) == [True] * 4
        assert list(map(seen, words(echoed))) == [False] * 3

    def test_is_no_message_behind_the_point_where_it_quotes_the_request(self) -> None:
        assert "(`messages = [`)" in PROSE
        assert read(400, f"E-77, messages = [{self.SENTENCE!r}]").evidence.rule == "unrecognised"

    @pytest.mark.parametrize(("proxies", "found"), [(5, True), (6, False)])
    def test_is_as_deep_as_the_page_says(self, proxies: int, *, found: bool) -> None:
        assert "five proxies" in PROSE
        body = json.dumps({"error": {"message": self.SENTENCE}})
        for _ in range(proxies):
            body = json.dumps({"error": {"message": f"Upstream said: {body}"}})
        verdict = classify(Reply(status=400, body=body.encode()), now=0)
        assert (verdict.kind is Kind.CAPABILITY) is found

    def test_is_the_innermost_status(self) -> None:
        assert "if a proxy answers 502 and quotes a 400" in PROSE
        body = {"error": {"message": "E-77", "code": 400}}
        assert classify(Reply(status=502, body=json.dumps(body).encode()), now=0).kind is Kind.CALLER_ERROR

    def test_is_the_beginning_of_a_body_only(self) -> None:
        assert f"its first {MAX_BODY // 1024} KiB" in PROSE


class TestTheOrder:
    @pytest.mark.parametrize("row", STEPS, ids=lambda row: words(row["rule"])[0])
    def test_has_a_sentence_for_each_step(self, row: Row) -> None:
        verdict = read(*said(row["a server may say"]))
        assert verdict.evidence.rule == words(row["rule"])[0]
        assert verdict.kind in words(row["read as"])

    def test_is_that_of_the_page(self) -> None:
        """Whoever says two things at once is read by the one that is asked first."""
        for place, first in enumerate(STEPS):
            for later in STEPS[place + 1 :]:
                (status, sentence), (_, behind) = map(
                    said, (first["a server may say"], later["a server may say"])
                )
                decided = read(status, f"{behind} {sentence}").evidence.rule
                assert decided == words(first["rule"])[0], (first["asked"], later["asked"])

    def test_spares_a_target_whose_rate_limit_sounds_like_an_overflow(self) -> None:
        (limited,) = re.findall(r"\"(.+ per minute)\"", PROSE)
        assert read(413, limited).kind is Kind.UNAVAILABLE

    def test_begins_with_the_operators_rules_and_a_providers_own_codes(self, target: Target) -> None:
        own, private, *_ = table("In which order")
        assert own["asked"].startswith("your own rules")
        assert words(private["rule"]) == ["private_code"]
        code = words(private["asked"])[0]
        for row in STEPS:
            body = {"error": {"message": said(row["a server may say"])[1], "code": code}}
            reply = Reply(status=400, body=json.dumps(body).encode(), provider="zai")
            assert classify(reply, now=0).evidence.rule == "private_code"
            assert classify(reply, now=0).kind is CODES["zai"][code].kind
            body["error"]["code"] = CAPTURED_CODE
            reply = Reply(status=400, body=json.dumps(body).encode(), provider="zai")
            assert classify(reply, now=0, rules=target.rules).evidence.rule == "llm_clients.house.errors[0]"

    def test_ends_with_the_words_of_codes_and_the_status(self) -> None:
        (code,) = re.findall(r"words of a code count too: `(\w+)`", PAGE)
        assert read(400, "E-77").evidence.rule == "unrecognised"
        assert read(400, "E-77", code=code).features == ("image",)


class TestSentences:
    @pytest.mark.parametrize("row", SENTENCES, ids=lambda row: row["read as"].strip("`"))
    def test_are_read_by_what_they_speak_of_and_what_they_say(self, row: Row) -> None:
        verdict = read(400, row["a sentence"])
        assert verdict.kind == row["read as"].strip("`")
        assert list(verdict.evidence.matched) == words(row["speaks of"]) + words(row["says of it"])

    def test_that_say_one_of_the_two_only_are_not_recognised(self) -> None:
        (alone,) = re.findall(r"of the two alone\s+tells nothing: (.+?) are unrecognised", PROSE, re.DOTALL)
        sentences = re.findall(r"“([^”]+)”", alone)
        assert len(sentences) == 2
        for sentence in sentences:
            assert read(400, sentence).evidence.rule == "unrecognised", sentence


@pytest.mark.parametrize("row", table("The evidence"), ids=lambda row: row["field"].strip("`"))
def test_the_field_of_the_evidence_is_the_path_that_the_page_shows(row: Row) -> None:
    verdict = classify(Reply(status=400, body=row["a body"].strip("`").encode()), now=0)
    assert verdict.evidence.field == row["field"].strip("`")


def test_a_rule_may_name_the_field_that_the_evidence_shows() -> None:
    assert "The `field` of a rule of your own is such a path." in PAGE
    row = table("The evidence")[0]
    body, path = row["a body"].strip("`").encode(), row["field"].strip("`")
    for field in (None, path):
        rules = (ErrorRule(kind="auth", contains="tools", field=field),)
        assert classify(Reply(status=400, body=body), now=0, rules=rules).evidence.field == path


def test_whatever_a_contributor_is_sent_to_is_there() -> None:
    told = re.findall(r"`(?:pytest |python )?((?:engine|tests|benchmarks)/[\w/.]+)[^`]*`", PAGE + CORPUS_PAGE)
    assert {CONCEPTS, RULES, "tests/corpus/reports.jsonl", "tests/test_corpus.py"} <= set(told)
    for path in told:
        assert any((place / path).exists() for place in (HOUSE, PACKAGE)), path


def test_every_entry_that_is_named_exists() -> None:
    entries = {entry for entry in words(PROSE) if re.fullmatch(r"\w+: [\w. #]+", entry)} - {"table: phrase"}
    assert "load: overloaded" in entries
    for entry in entries:
        name, _, phrase = entry.partition(": ")
        assert phrase in listed(TABLES[name]), entry


class TestFeatures:
    def test_are_all_there(self) -> None:
        assert [row["feature"].strip("`") for row in FEATURES] == list(Feature)

    @pytest.mark.parametrize("row", FEATURES, ids=lambda row: row["feature"].strip("`"))
    def test_are_named_by_what_a_server_may_say(self, row: Row) -> None:
        verdict = read(400, row["a server may say"])
        assert verdict.kind is Kind.CAPABILITY
        assert verdict.features == (row["feature"].strip("`"),)


class TestAMisreadReply:
    def test_is_captured_as_the_page_shows(self, target: Target, tmp_path: Path) -> None:
        reply = Reply(
            status=CAPTURED["status"],
            body=CAPTURED["body"].encode(),
            headers={**CAPTURED["headers"], "set-cookie": "session=1"},
        )
        capture = Capture(tmp_path / "again")
        capture.keep(target, reply, classify(reply, now=0), Redactor((), Quotations({})))
        assert json.loads(capture.path.read_text()) == CAPTURED
        assert f"captured/{FILE}" in PAGE

    def test_is_decided_by_the_rule_of_the_page(self, target: Target) -> None:
        reply = Reply(status=CAPTURED["status"], body=CAPTURED["body"].encode())
        assert classify(reply, now=0).evidence.rule == "unrecognised"
        verdict = classify(reply, now=0, rules=target.rules)
        assert (verdict.kind, verdict.features) == (Kind.CAPABILITY, ("image",))

    @pytest.mark.usefixtures("folder")
    @pytest.mark.parametrize(("command", "output"), CONSOLE, ids=[command for command, _ in CONSOLE])
    def test_is_told_by_the_commands_as_the_page_shows(self, command: str, output: str) -> None:
        asked, _, file = command.partition(" < ")
        body = Path(file).read_text() if file else None
        shown = CliRunner().invoke(main, asked.split(), input=body)
        assert shown.exit_code == 0
        assert shown.output.split() == output.split()


def test_the_record_holds_the_evidence_where_the_page_looks() -> None:
    (query,) = re.findall(r"jq -c '(.+)' records", PAGE)
    asked = ["turn", "probes", "target", "verdict.kind", "verdict.evidence"]
    assert re.findall(r"\.([a-z.]+)", query) == asked
    assert {"turn", "probes"} <= set(AuditRecord.__struct_fields__)
    assert {"target", "verdict"} <= set(ProbeRecord.__struct_fields__)
    assert {"kind", "evidence"} <= set(Verdict.__struct_fields__)


@pytest.mark.parametrize("row", LIMITS, ids=lambda row: words(row["a reply"])[0])
def test_what_cannot_be_told_apart_is_read_as_the_page_says(row: Row) -> None:
    verdict = read(*said(row["a reply"]))
    assert [verdict.kind, verdict.evidence.rule] == words(row["is read as"])


@pytest.mark.parametrize("page", ["README.md", "tests/corpus/README.md"])
def test_whoever_reads_of_failed_replies_is_led_here(page: str) -> None:
    path = HOUSE / page
    links = re.findall(r"\]\((?!https?:)([^)#]+)", path.read_text(encoding="utf-8"))
    assert HOUSE / "docs" / "errors.md" in [(path.parent / link).resolve() for link in links]


LINES = [json.loads(line) for file in CORPUS.glob("*.jsonl") for line in file.read_bytes().splitlines()]


def test_the_tree_of_the_house_names_every_module_that_reads() -> None:
    tree = (HOUSE / "docs" / "architecture.md").read_text(encoding="utf-8")
    (of_classify,) = re.findall(r"^  classify/ .*\n((?:    .*\n)+)", tree, re.MULTILINE)
    told = re.findall(r"\b\w+\.py\b", of_classify)
    there = {path.name for path in (PACKAGE / "engine" / "classify").glob("*.py")}
    assert sorted(told) == sorted(there - {"__init__.py"})


class TestThePageOfTheCorpus:
    """How a reply is added: its fields are those that the lines have."""

    def test_tells_every_field_and_which_have_to_be_there(self) -> None:
        fields = {row["field"].strip("`"): row["needed"] for row in table("A line", CORPUS_PAGE)}
        assert set().union(*LINES) == set(fields)
        assert set.intersection(*map(set, LINES)) == {
            name for name, needed in fields.items() if needed == "yes"
        }

    def test_tells_every_tag(self) -> None:
        _, told = re.findall(r"^\| `tags` \|([^|]*)\|(.*)\|$", CORPUS_PAGE, re.MULTILINE)[0]
        assert set(words(told)) == {tag for line in LINES for tag in line.get("tags", ())}

    def test_asks_for_every_kind_once_and_for_no_other(self) -> None:
        (section,) = re.findall(r"^## Which label\n(.*?)(?=^## )", CORPUS_PAGE, re.MULTILINE | re.DOTALL)
        asked = re.findall(r"^\d\. \*\*`(\w+)`\*\*", section, re.MULTILINE)
        assert sorted(asked) == sorted(Kind)
