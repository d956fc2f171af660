"""What is kept of an upstream's message: never a credential, never what the caller wrote."""

import base64
import json
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from turnout.engine.classify.verdict import Evidence, Verdict
from turnout.engine.redaction import LONGEST, RUN, Quotations, Redactor
from turnout.machines.vocabulary import ErrorKind

KEY = 'sk-Ab/1"23+xyz=9_Q7'
PROMPT = 'My landlord, Mr Otis Quill, wrote: "the rent is due on the 3rd"\nand I cannot pay it.'
BODY = {"messages": [{"role": "user", "content": PROMPT}]}


def redactor(secrets: Iterable[str], request: Mapping[str, Any]) -> Redactor:
    return Redactor(secrets, Quotations(request))


FORMS = {
    "as it is": KEY,
    "in upper case": KEY.upper(),
    "JSON-escaped": json.dumps(KEY)[1:-1],
    "JSON-escaped with slashes": json.dumps(KEY)[1:-1].replace("/", "\\/"),
    "JSON-escaped by number": "".join(f"\\u{ord(c):04X}" for c in KEY),
    "percent-encoded": quote(KEY, safe=""),
    "percent-encoded in part": quote(KEY),
    "percent-encoded wholly": "".join(f"%{ord(c):02x}" for c in KEY),
    "in base64": base64.b64encode(KEY.encode()).decode(),
    "in base64 with its scheme": base64.b64encode(f"Bearer {KEY}".encode()).decode(),
    "in base64 after a user": base64.b64encode(f"me:{KEY}".encode()).decode(),
    "in base64 for URLs": base64.urlsafe_b64encode(f"x:{KEY}!".encode()).decode(),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_credential_is_found_in_every_form_that_an_upstream_may_echo(form: str) -> None:
    echoed = FORMS[form]
    cleaned = redactor([KEY], {}).clean(f"Incorrect key: {echoed}. Get one at our site.")
    # base64 is not aligned to the credential: a few characters at its ends hold a neighbour's bits
    assert not any(echoed[i : i + 9] in cleaned for i in range(len(echoed) - 8)), cleaned
    assert "[credential]" in cleaned
    assert cleaned.startswith("Incorrect key: ")


@example("000000%\\f0")
@given(st.text(st.characters(codec="ascii", exclude_categories=["Cc", "Zs"]), min_size=8, max_size=60))
def test_no_credential_survives_whatever_it_is_made_of(key: str) -> None:
    assume(sum(map(str.isalnum, key)) >= 8 and key not in "[credential]")
    cleaned = redactor([key], {}).clean(f"(( {quote(key, safe='')} )) (( {key} ))")
    assert key not in cleaned
    assert quote(key, safe="") not in cleaned
    assert cleaned.count("[credential]") == 2


def test_a_credential_in_a_url_goes_with_the_query_and_the_user_info() -> None:
    cleaned = redactor([], {}).clean("GET https://me:secret@api.example/v1/chat?key=abc123#top failed")
    assert cleaned == "GET https://api.example/v1/chat failed"


def test_a_quotation_of_the_request_is_replaced_and_the_diagnosis_stays() -> None:
    cleaned = redactor([], BODY).clean(f"content filter: {PROMPT!s} was flagged (code 7)")
    assert cleaned == "content filter: [request text] was flagged (code 7)"


def test_a_quotation_is_found_when_the_upstream_quotes_it_as_json() -> None:
    cleaned = redactor([], BODY).clean(f"cannot parse {json.dumps(BODY)}")
    assert "Quill" not in cleaned
    assert "rent" not in cleaned


def test_a_run_shorter_than_a_quotation_stays_since_it_may_be_chance() -> None:
    body = {"messages": [{"content": "x" * 10 + "maximum context length" + "y" * 10}]}
    assert len("maximum context length") < RUN
    cleaned = redactor([], body).clean("This model's maximum context length is 8192")
    assert cleaned == "This model's maximum context length is 8192"


@given(st.text(min_size=RUN, max_size=200), st.integers(0, 176), st.text(max_size=30), st.text(max_size=30))
def test_any_run_of_24_characters_of_the_request_is_found_wherever_it_stands(
    prompt: str, at: int, before: str, after: str
) -> None:
    run = prompt[at % (len(prompt) - RUN + 1) :][:RUN]
    cleaned = redactor([], {"messages": [{"content": prompt}]}).clean(before + run + after)
    assert run not in cleaned


def test_control_characters_and_reordering_marks_are_removed() -> None:
    assert redactor([], {}).clean("a\x00b\x1b[31mc\u202ed\r\n e") == "ab[31mcd e"


def test_a_long_message_is_cut_after_it_was_cleaned() -> None:
    message = "e" * (LONGEST - 10) + KEY + "tail" * 5000
    cleaned = redactor([KEY], {}).clean(message)
    assert len(cleaned) == LONGEST
    assert KEY[:6] not in cleaned


@pytest.mark.parametrize("parted", ["\r", "\x00", "\x7f", "\u202a", "\u200b", "\ufeff", "\n", " "], ids=ascii)
def test_what_is_unseen_or_a_fold_of_a_line_does_not_hide_a_credential(parted: str) -> None:
    cleaned = redactor([KEY], {}).clean(f"key {KEY[:9]}{parted}{KEY[9:]} refused")
    assert cleaned == "key [credential] refused"


def test_a_credential_that_was_quoted_twice_is_found() -> None:
    assert redactor([KEY], {}).clean(json.dumps(json.dumps(f"key {KEY} bad"))).count("[credential]") == 1


@pytest.mark.parametrize(
    "quoted",
    [
        "\n  ".join(PROMPT.split()),
        PROMPT.replace(" ", "  "),
        json.dumps(PROMPT),
        json.dumps(json.dumps(PROMPT)),
    ],
    ids=["folded", "spaced", "as JSON", "as JSON, twice"],
)
def test_a_quotation_is_found_however_its_white_space_and_escapes_have_come_out(quoted: str) -> None:
    cleaned = redactor([], BODY).clean(f"flagged: {quoted}")
    assert "Quill" not in cleaned
    assert "landlord" not in cleaned


def test_a_long_credential_in_a_code_is_found_before_anything_is_cut() -> None:
    key = "sk-proj-" + "aB3-" * 60
    verdict = Verdict(kind=ErrorKind.AUTH, evidence=Evidence("x"), code=key, param=f"p.{key}")
    cleaned = redactor([key], {}).verdict(verdict)
    assert (cleaned.code, cleaned.param) == ("[credential]", "p.[credential]")
    long = Verdict(kind=ErrorKind.AUTH, evidence=Evidence("x"), code="c" * 300)
    assert len(redactor([], {}).verdict(long).code) == 128


def test_what_looks_like_a_providers_key_is_taken_for_one_whoevers_it_is() -> None:
    for key in ("sk-proj-abcdef0123456789", "AIzaSyA0123456789abcdef", "ghp_0123456789abcdefghij"):
        assert (
            redactor([], {})
            .clean(f"Incorrect API key provided: {key}.")
            .startswith("Incorrect API key provided: [credential]")
        )
        assert redactor([], {}).name(key, b"") == ""
    assert redactor([], {}).clean("bearer authentication is required") == "bearer authentication is required"


@pytest.mark.parametrize(
    ("sent", "kept"),
    [
        ("req_0123-abc.DEF:7/8", "req_0123-abc.DEF:7/8"),
        ("two words", ""),
        ("x" * 129, ""),
        (KEY, ""),
        (f"id-{'sk-live-0123456789'}", ""),
        ("once-upon-a-midnight-dreary-while-i", ""),
        ("midnight-dreary", "midnight-dreary"),
        ("", ""),
    ],
    ids=[
        "plain",
        "no id",
        "too long",
        "no id either",
        "a credential",
        "a quotation",
        "too short for one",
        "none",
    ],
)
def test_an_upstreams_id_is_kept_only_if_it_is_nothing_else(sent: str, kept: str) -> None:
    body = {"messages": [{"content": "once-upon-a-midnight-dreary-while-i-pondered-weak-and-weary"}]}
    assert redactor([KEY, "sk-live-0123456789"], body).name(sent, json.dumps(body).encode()) == kept


def test_the_cost_grows_with_the_request_and_not_with_what_it_holds() -> None:
    """The places that are looked at closely are as few for a request that repeats itself for ever."""
    request = {"m": ("A" * 13 + "B" * 10 + "C") * 40_000}
    cleaner = redactor([], request)
    assert cleaner.clean("A" * 3000) == "A" * (LONGEST - 1) + "…"
    assert cleaner.clean(request["m"][:3000]) == "[request text]"


@pytest.mark.parametrize(
    ("secret", "message"),
    [("\\" * 10 + "x" * 8, "\\" * 60_000), (" " * 8 + "a" * 8, " " * 60_000), ("k" * 8, "-eyJ" * 16_000)],
    ids=["backslashes", "blanks", "beginnings of tokens"],
)
def test_no_credential_and_no_message_makes_it_slow(secret: str, message: str) -> None:
    """Each of these took minutes when credentials were looked for by one pattern: there is a guard on it."""
    assert len(redactor([secret], {}).clean(message)) <= LONGEST


def test_base64_is_found_folded_and_percent_encoded_too() -> None:
    key = "9f8e7d6c5b4a39281706f5e4d3c2b1a0" * 3
    folded = base64.encodebytes(f"x:{key}".encode()).decode()
    for echoed in (folded, quote(base64.b64encode(key.encode()).decode(), safe=""), json.dumps(folded)):
        assert redactor([key], {}).clean(f"<{echoed}>").strip('<>"\\n =') in (
            "[credential]",
            "[credential]%3D",
        )


def test_a_credential_that_was_folded_by_any_number_of_characters_is_found() -> None:
    for fold in ("\r\n", "\n  ", "\\n    ", "\u034f\u3164"):
        assert redactor([KEY], {}).clean(f"{KEY[:7]}{fold}{KEY[7:]}") == "[credential]"


@pytest.mark.parametrize(
    "prompt",
    [
        "سلام، می\u200cخواهم درباره\u200cی کتاب\u200cهای قدیمی بدانم و بخوانم",
        "A con\xadfi\xadden\xadtial para\xadgraph from a scan\xadned doc\xadu\xadment",
        "my dog 🐕 ate the 🍪 jar, and now the 🐈 is very jealous of him",
        "the pattern is \\u00e9\\u00e8 followed by some more words of mine",
        '{\n    "name": "Ada Lovelace",\n    "iban": "GB33BUKB20201555555555"\n}',
    ],
    ids=["joiners", "soft hyphens", "emoji", "literal escapes", "a JSON document"],
)
@pytest.mark.parametrize("echo", [str, json.dumps, repr, lambda p: json.dumps(json.dumps(p))], ids=range(4))
def test_a_prompt_in_any_script_is_found_however_it_is_echoed(
    prompt: str, echo: Callable[[str], str]
) -> None:
    body = {"messages": [{"role": "user", "content": prompt}]}
    cleaned = redactor([], body).clean(f"bad input: {echo(prompt)}!")
    assert re.sub(r"[\\\"'! ]", "", cleaned) == "badinput:[requesttext]"


def test_every_text_of_a_verdict_is_cleaned() -> None:
    verdict = Verdict(
        kind=ErrorKind.AUTH, evidence=Evidence("x"), message=KEY, code=KEY, param=KEY, request_id=KEY
    )
    assert KEY not in repr(redactor([KEY], {}).verdict(verdict))


@pytest.mark.parametrize(
    "name",
    [
        "pplx-sonar-reasoning-pro",
        "xai-grok-4-fast-reasoning",
        "hf-mistral-large-instruct",
        "fw-llama-v3p1-405b-instruct",
        "hf-internal-testing/tiny-random",
        "sk-learn-compatible-service",
        "rk-3588-vision-large",
    ],
)
def test_the_name_of_a_model_is_no_key(name: str) -> None:
    assert redactor([], {}).clean(f"The model {name} does not exist") == f"The model {name} does not exist"


@pytest.mark.parametrize(
    ("secret", "echoed"),
    [
        ("correct horse battery", "correct+horse+battery"),
        ("pässwörd-käse-42", quote("pässwörd-käse-42")),
        ("Zq9Wm4Rt7LpXx81", " " * 65_525 + "Zq9Wm4Rt7LpXx81"),
    ],
    ids=["a blank in a query", "beyond ASCII", "after many blanks"],
)
def test_a_credential_is_found_as_a_query_or_a_distance_changes_it(secret: str, echoed: str) -> None:
    assert redactor([secret], {}).clean(echoed) == "[credential]"


def test_white_space_of_any_sort_counts_as_one_blank_on_both_sides() -> None:
    prompt = "see log\f\fPage 1\fSSN 123-45-6789\fDOB 1970-01-01\fMRN 00112233\f"
    japanese = "氏名　山田　太郎　住所　東京都千代田区丸の内一丁目　電話　03-1234-5678"
    for text in (
        prompt,
        japanese,
        "IBAN\u00a0FR76\u00a03000\u00a06000\u00a00112\u00a03456\u00a07890\u00a0189",
    ):
        for echo in (str, json.dumps, repr):
            cleaned = redactor([], {"content": text}).clean(f"bad: {echo(text)}")
            assert re.sub(r"[\\\"' ]", "", cleaned) == "bad:[requesttext]", ascii(cleaned)
