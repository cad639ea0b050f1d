"""Which paths a pattern of corpus.yaml takes."""

from __future__ import annotations

import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.sources.globs import glob_matcher

NAMES = st.text(st.characters(exclude_characters="/\x00", exclude_categories=["Cs"]), min_size=1, max_size=8).filter(
    lambda name: name not in (".", "..")
)
PATHS = st.lists(NAMES, min_size=1, max_size=4).map("/".join)


@pytest.mark.parametrize(
    ("pattern", "path", "taken"),
    [
        ("**/*.md", "a.md", True),
        ("**/*.md", "x/y/a.md", True),
        ("**/*.md", "a.mdx", False),
        ("*.md", "a.md", True),
        ("*.md", "x/a.md", False),
        ("**/*", "a", True),
        ("**", "x/y/a", True),
        ("private/**", "private/x/a.md", True),
        ("private/**", "private", False),
        ("private/**", "x/private/a.md", False),
        ("private/", "private/x/a.md", True),
        ("**/private/**", "private/a.md", True),
        ("**/private/**", "x/private/y/a.md", True),
        ("a/**/b.md", "a/b.md", True),
        ("a/**/b.md", "a/x/y/b.md", True),
        ("a/**/**/b.md", "a/b.md", True),
        ("./docs/*.md", "docs/a.md", True),
        ("?.md", "ä.md", True),
        ("?.md", "ab.md", False),
        ("?", "/", False),
        ("[ab].md", "b.md", True),
        ("[!ab].md", "c.md", True),
        ("[!ab].md", "a.md", False),
        ("[^ab].md", "a.md", False),
        ("v[0-9].md", "v7.md", True),
        ("v[0-9].md", "vx.md", False),
        ("[]].md", "].md", True),
        ("[!]].md", "].md", False),
        ("[.md", "[.md", True),
        ("x[+-0]y", "x/y", False),
        ("[z-a]", "b", False),
        ("*.MD", "a.md", False),
        ("a.md", "axmd", False),
        ("**/*.md", "line\nend/a\n.md", True),
        ("(x)+.md", "(x)+.md", True),
        ("a*b*c", "aXbYc", True),
        ("a**b", "aXb", True),
        ("a**b", "a/b", False),
    ],
)
def test_a_pattern_takes_a_path(pattern: str, path: str, taken: bool) -> None:
    assert glob_matcher([pattern])(path) is taken


def test_no_pattern_takes_nothing() -> None:
    assert not glob_matcher([])("a")


def test_composed_and_decomposed_names_are_the_same() -> None:
    pattern, path = unicodedata.normalize("NFC", "bücher/**"), unicodedata.normalize("NFD", "bücher/ä.md")
    assert glob_matcher([pattern])(path)
    assert glob_matcher([path])(unicodedata.normalize("NFC", path))


@given(PATHS)
def test_everything_below_the_root_is_taken_by_two_stars(path: str) -> None:
    assert glob_matcher(["**/*"])(path)
    assert glob_matcher(["**"])(path)


@given(PATHS)
def test_a_path_without_special_characters_takes_itself_and_no_longer_one(path: str) -> None:
    literal = "".join(f"[{character}]" if character in "*?[" else character for character in path)
    assert glob_matcher([literal])(path)
    assert not glob_matcher([literal])(path + "x")


@given(st.text(max_size=12).filter(lambda pattern: pattern.strip("/.")), PATHS)
def test_no_pattern_is_an_error(pattern: str, path: str) -> None:
    assert glob_matcher([pattern])(path) in (True, False)
