"""Keys stay out of messages, and messages stay readable."""

from __future__ import annotations

import time

import pytest

from rag_pipeline.embedding.hosted.litellm_library import Asked, failure_of
from rag_pipeline.embedding.hosted.secrets import redact

SHAPES = [
    "sk-proj-abcDEF123456_x-yz",
    "sk-abcdefghijklmnop",
    "pa-h1JqWnY2vQ0zZbXg8rT5uLkD",
    "al-9fKe2mVb71QsYtRw",
    "hf_abcDEFghiJKLmnoPQR",
    "gsk_a1b2c3d4e5f6g7h8",
    "jina_0123456789abcdef0123",
    "xai-abcdefGHIJKL0123",
    "key-0123456789abcdef0123456789abcdef",
    "AKIAIOSFODNN7EXAMPLE",
    "AIzaSyA-0123456789abcdefghijklmnopqrstu",
    "Bearer abc.def.ghi",
    "bearer 0123456789",
    "Basic dXNlcjpwYXNzd29yZA==",
]

HARMLESS = [
    "the key of the monkey is in the keyboard",
    "a key-value-storage-engine needs key_management_policies",
    "you must provide a model parameter",
    "jina-embeddings-v3 is not known there",
    "basic authentication is not supported; bearer authentication is",
    "Basic understanding of tokens and token-bucket-algorithms",
    "Bearer token missing",
    "al-Khwarizmi-algorithm, co-authored-by-somebody",
    "task-oriented-dialogue and risk-adjusted-return",
    "text-embedding-3-small answered 3 vectors for 4 texts",
]


@pytest.mark.parametrize(
    "name", ["OPENAI_API_KEY", "VOYAGE_AI_TOKEN", "AWS_SECRET_ACCESS_KEY", "DB_PASSWORD", "my_token", "SECRET"]
)
def test_the_value_of_a_secret_variable_is_hidden_whatever_its_shape(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(name, "correct horse battery")
    assert redact("they said: correct horse battery, no") == "they said: [secret], no"


def test_a_secret_within_another_leaves_nothing_of_the_longer_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("A_KEY", "horse-battery")
    monkeypatch.setenv("B_KEY", "horse-battery-staple")
    assert redact("horse-battery-staple and horse-battery") == "[secret] and [secret]"


def test_short_values_and_other_variables_are_no_secrets(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_API_KEY", "none")
    monkeypatch.setenv("KEYBOARD_LAYOUT", "german")
    monkeypatch.setenv("TOKENIZERS_PARALLELISM", "falsely")
    text = "none of them reads german falsely"
    assert redact(text) == text


@pytest.mark.parametrize("secret", SHAPES)
def test_what_looks_like_a_key_is_hidden_though_nobody_knows_it(secret: str) -> None:
    assert redact(f"Incorrect API key provided: {secret}.").startswith("Incorrect API key provided: [secret]")
    told = redact(f'{{"message": "not \'{secret}\'", "code": 1}}')
    assert told == '{"message": "not \'[secret]\'", "code": 1}'


@pytest.mark.parametrize("text", HARMLESS)
def test_ordinary_words_stay(text: str) -> None:
    assert redact(text) == text


def test_a_message_is_one_line_of_bounded_length() -> None:
    assert redact("first\n\n  second\r\n\tthird ") == "first second third"
    assert redact("first\n  second\n", lines=True) == "first\n  second"
    assert redact("first\n  second", longest=9, lines=True) == "first\n  …"
    told = redact("word " * 1000)
    assert len(told) == 300
    assert told.endswith("…")


def test_a_secret_at_the_cut_is_hidden_before_the_text_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("X_API_KEY", "0123456789" * 4)
    told = redact("a" * 285 + " " + "0123456789" * 4)
    assert "0123" not in told


@pytest.mark.parametrize("spaces", range(19_900, 20_200, 25))
def test_a_secret_where_a_long_text_ceases_to_be_read_is_not_shown_in_part(
    spaces: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """White space shrinks, so that what stands far behind may come into the message."""
    monkeypatch.setenv("X_API_KEY", "0123456789" * 20)
    assert "0123" not in redact("said:" + " " * spaces + "0123456789" * 20 + " and more" * 10_000)


@pytest.mark.parametrize(
    "page",
    [
        "word " * 1_000_000,
        "<p>" * 1_500_000,
        " ssl:<" * 800_000,
        "AnError: " * 500_000,
        "sk-" * 1_500_000,
        "Basic A " * 600_000,
    ],
)
def test_a_page_of_millions_of_characters_takes_no_time(page: str) -> None:
    """The event loop waits while an error is read, and all other requests with it."""

    class PageError(Exception):
        status_code = 500

    started = time.process_time()
    failure = failure_of(Asked("a model", "embedding.", "an embedding API"), PageError(page))
    assert time.process_time() - started < 0.5
    assert failure.kind == "transient"
    assert len(str(failure)) < 400
