"""What holds for every file, whatever it is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.errors import ParseError
from rag_pipeline.hashing import canonical_json
from rag_pipeline.parsing import parse
from rag_pipeline_tests.parsing.test_markdown import check_spans

SUFFIXES = [
    "",
    ".txt",
    ".md",
    ".html",
    ".rst",
    ".csv",
    ".json",
    ".pdf",
    ".docx",
    ".eml",
    ".ipynb",
    ".py",
    ".rtf",
    ".xls",
    ".xyz",
]
PIECES = st.sampled_from(
    [
        b"\n", b"\r\n", b"\r", b" ", b"\x00", b"\xef\xbb\xbf", b"\xff\xfe", b"\xc3\xa9", b"\xe9", b"\xe2\x80\xa8",
        b"text", b"# A",
        b"===", b"---\n", b"key: value\n", b"```", b"- ", b"> ", b"| a |", b"|-|", b"<p>", b"</p>", b"<h1>", b"<pre>",
        b"<br>",
        b"<table><tr><td>", b"<!--", b"-->", b"<script>", b"&amp;", b"&#xD800;", b"<a href=x>", b".. note::",
        b".. code-block:: py\n",
        b"   ", b"::\n", b":ref:`x`", b"|x|", b"`x`_", b".. _x:", b"%PDF-1", b"PK\x03\x04", b"{\\rtf", b"\x1b[0m",
        b"\\", b"From: a@b\n", b"Subject: =?utf-8?q?x?=\n", b"\n\n", b"--b\n",
        b"Content-Type: multipart/mixed; boundary=b\n",
        b'{"cells": [', b'{"cell_type": "code", "source": "x"}', b"]}", b"class A:\n", b"def f\n", b"a;b;c\n", b'"',
        b"a\tb\n",
    ]
)  # fmt: skip


def check(data: bytes, path: str) -> None:
    try:
        parsed = parse(data, path)
    except ParseError as error:
        reason = str(error)
        parsed = None
    if parsed is None:
        assert reason
        return
    assert parsed.text.strip()
    parsed.text.encode()
    assert not {"\x00", "\r", "\ufeff"} & set(parsed.text)
    canonical_json(parsed.metadata).encode()
    assert parsed.title is None or (parsed.title and parsed.title == " ".join(parsed.title.split()))
    assert all(title for section in parsed.sections for title in section.heading_path)
    check_spans(parsed)
    assert parse(data, path) == parsed


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=60)
@given(data=st.binary(max_size=200))
def test_random_bytes_are_read_or_refused(suffix: str, data: bytes) -> None:
    check(data, f"file{suffix}")


@pytest.mark.parametrize("suffix", SUFFIXES)
@settings(max_examples=150)
@given(data=st.lists(PIECES, max_size=25).map(b"".join))
def test_pieces_of_markup_are_read_or_refused(suffix: str, data: bytes) -> None:
    check(data, f"file{suffix}")


@settings(max_examples=100)
@given(text=st.text(max_size=200), suffix=st.sampled_from(SUFFIXES))
def test_any_text_is_read_or_refused(text: str, suffix: str) -> None:
    check(text.encode("utf-8", "replace"), f"file{suffix}")
