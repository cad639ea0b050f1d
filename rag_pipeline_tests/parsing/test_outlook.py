"""Outlook messages: what stands in their head. Whole messages come from Exchange alone, and none is made here."""

from __future__ import annotations

import pytest

from rag_pipeline.parsing.outlook import decoded_words


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("=?UTF-8?B?TS4gS3VydHVsdcWf?= <mk@example.org>", "M. Kurtuluş <mk@example.org>"),
        ("=?iso-8859-1?Q?Andr=E9?= Martin", "André Martin"),
        ("Ana <ana@example.org>", "Ana <ana@example.org>"),
        ("=?no-such-charset?Q?a?=", "=?no-such-charset?Q?a?="),
        ("=?UTF-8?B?/w==?= x", "=?UTF-8?B?/w==?= x"),
    ],
)
def test_encoded_words_are_read_and_what_cannot_be_stays(written: str, read: str) -> None:
    assert decoded_words(written) == read
