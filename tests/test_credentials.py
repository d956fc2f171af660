"""What is taken for a credential, by its looks or by the name of what carries it, and what is not."""

import base64

import pytest

from turnout.engine.credentials import hidden, named_like_a_credential, secrets_in, variable_named


@pytest.mark.parametrize(
    "text",
    [
        "sk-proj-abcdef0123456789",
        "sk_live_0123456789",
        "xai-abcdefgh0123456789ab",
        "ghp_0123456789abcdefghij",
        "xoxb-12345678-abc",
        "AKIAABCDEFGH01234567",
        "Bearer abcdefgh12",
        "https://me:pw@h.example",
        f"Basic {base64.b64encode(b'user:password').decode()}",
        "-----BEGIN RSA PRIVATE KEY-----",
    ],
)
def test_what_looks_like_a_credential_is_hidden(text: str) -> None:
    assert "[looks like a key]" in hidden(f"it is {text}")


@pytest.mark.parametrize(
    "text",
    [
        "basic tokenization",
        "basic abcdefghi",
        "basic //////////8=",
        "sk-learn-compatible",
        "task-0123456789abcdefgh",
    ],
)
def test_what_only_begins_like_one_stays(text: str) -> None:
    assert hidden(text) == text


@pytest.mark.parametrize(
    "name",
    [
        "authorization",
        "x-api-key",
        "X-Auth-Token",
        "client_secret",
        "password",
        "sig",
        "key",
        "cookie",
        "token2",
    ],
)
def test_names_of_credentials(name: str) -> None:
    assert named_like_a_credential(name)


@pytest.mark.parametrize(
    "name",
    [
        "X-Token-Type",
        "max_tokens",
        "X-Signature-Version",
        "x-request-id",
        "traceparent",
        "api_key_env",
        "stop_token_ids",
    ],
)
def test_names_of_what_is_said_about_one(name: str) -> None:
    assert not named_like_a_credential(name)


def test_some_names_carry_one_only_where_they_stand() -> None:
    assert named_like_a_credential("code", "extra_query")
    assert not named_like_a_credential("code", "extra_headers")
    assert named_like_a_credential("x-function-key", "extra_headers")
    assert not named_like_a_credential("idempotency-key", "extra_headers")


def test_in_a_url_it_is_found_in_the_query_and_in_the_path() -> None:
    url = "https://h.example/p/abcdef0123456789gh/v1?key=the-key-itself&region=eu&a1b2c3d4#top"
    assert secrets_in(url) == ["the-key-itself", "a1b2c3d4", "abcdef0123456789gh"]
    assert secrets_in("https://h.example/v1?api-version=2024-02-01&streaming") == []


def test_a_variable_is_not_named_by_what_could_be_the_key_itself() -> None:
    assert variable_named("OPENAI_API_KEY") == "OPENAI_API_KEY"
    assert variable_named("ZQ7HUNTER2WM4XPL9TRV") == "a variable"
