"""reStructuredText, also as Sphinx writes it."""

from __future__ import annotations

from pathlib import Path

import pytest

from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline.parsing.rst import parse_rst


def text(source: str) -> str:
    return parse_rst(source).text


def test_sections_have_paths_and_the_first_is_the_title() -> None:
    parsed = parse_rst(
        "Before.\n\n=====\nGuide\n=====\n\nInstall *it*\n==========\n\nRun.\n\nDeep\n----\n\nx\n\nUse\n===\n\ny\n"
    )
    assert parsed.text == "Before.\n\n# Guide\n\n## Install it\n\nRun.\n\n### Deep\n\nx\n\n## Use\n\ny"
    assert [section.heading_path for section in parsed.sections] == [
        (), ("Guide", "Install it"), ("Guide", "Install it", "Deep"), ("Guide", "Use"),
    ]  # fmt: skip
    assert (parsed.title, parsed.media_type) == ("Guide", "text/x-rst")


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        (".. warning:: Never unplug it\n   while it spins.", "Never unplug it while it spins."),
        (".. note::\n   Keep the key dry.\n\n   Always.", "Keep the key dry.\n\nAlways."),
        (".. admonition:: Mind this\n\n   It is hot.", "Mind this\n\nIt is hot."),
        (".. versionadded:: 3.5 The *new* way.\n\n   More.", "3.5 The new way.\n\nMore."),
        (".. seealso:: :ref:`other`", "other"),
        (".. function:: open(file, *args)\n   :module: io\n\n   Opens a file.\n\n   :param file: the path",
         "open(file, *args)\n\nOpens a file.\n\nparam file: the path"),
        (".. automodule:: shop.pump\n   :members:\n   :undoc-members:", "shop.pump"),
        (".. only:: html\n\n   Words.\n\n   Sub\n   ---\n\n   x", "Words.\n\n# Sub\n\nx"),
        (".. toctree::\n   :maxdepth: 2\n   :caption: All\n\n   install\n   The guide <guide>\n   sub/*",
        "- install\n- The guide"),
        (".. list-table:: Fares\n   :header-rows: 1\n\n   * - Who\n     - Price\n   * - Child\n     - free",
         "Fares\n\nWho | Price\nChild | free"),
        (".. csv-table::\n\n   a, b\n   1, 2", "a | b\n1 | 2"),
        (
            "+---+---+---+\n| a | b     |\n+===+===+===+\n| x | y | z |\n|   +---+---+\n|   | p | q |\n+---+---+---+",
            "a | b\nx | y | z\nx | p | q",
        ),
        (".. figure:: a.png\n   :alt: A pump\n   :bogus-option: x\n\n   The caption.", "The caption."),
        (".. image:: a.png\n   :alt: A pump", "A pump"),
        (".. table:: Wrong\n   :bogus: 1\n\n   kept anyway", "Wrong\n\nkept anyway"),
        ("====  ====\na     b\n====  ====\n1     2\n====  ====", "a | b\n1 | 2"),
        ("* one\n\n  more\n\n  * nested\n* two", "- one\n  more\n  - nested\n- two"),
        ("#. one\n#. two", "1. one\n2. two"),
        ("4. one\n5. two\n\n   * three", "4. one\n5. two\n  - three"),
        ("Term : kind\n   Meaning.", "Term : kind\n\nMeaning."),
        (":Author: Kim\n:Date: 2020-01-01", "Author: Kim\n\nDate: 2020-01-01"),
        ("-a, --all  Show all.", "-a, --all Show all."),
        ("| one\n|   two", "one\n  two"),
        ("Says [1]_.\n\n.. [1] The proof.", "Says 1.\n\n[1] The proof."),
        ("A `link <http://x.y>`_, ``code``, `default`, **bold**.", "A link, code, default, bold."),
        ("See :doc:`the guide <guide>`, :py:class:`~shop.Pump` and :no-such:`role`.",
        "See the guide, shop.Pump and role."),
        ("In |version| of |name|.\n\n.. |name| replace:: the *pump*", "In |version| of the pump."),
        ("Too short\n==\n\nx", "Too short ==\n\nx"),
        ("*unclosed", "*unclosed"),
    ],
)  # fmt: skip
def test_text_is_kept_and_markup_is_not(source: str, expected: str) -> None:
    assert text(source) == expected


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("Thus::\n\n    a   b\n      c\n\n    d", "Thus:\n\n```\na   b\n  c\n\nd\n```"),
        (".. code-block:: python\n   :linenos:\n   :emphasize-lines: 1,2\n\n   def f():\n\n       pass",
         "```python\ndef f():\n\n    pass\n```"),
        (".. code:: sh\n\n   ls", "```sh\nls\n```"),
        (".. code-block:: bash\n   echo no blank line", "```bash\necho no blank line\n```"),
        (".. sourcecode::\n\n   x", "```\nx\n```"),
        (".. code-block:: c\n   :caption: main.c\n\n   int x;", "main.c\n\n```c\nint x;\n```"),
        (".. prompt:: bash $\n\n   ls -l", "```bash $\nls -l\n```"),
        (">>> 1 + 1\n2", "```\n>>> 1 + 1\n2\n```"),
        (".. math::\n\n   a^2", "```\na^2\n```"),
    ],
)  # fmt: skip
def test_code_keeps_its_lines_in_a_fence(source: str, expected: str) -> None:
    parsed = parse_rst(source)
    assert parsed.text == expected
    assert len(parsed.atoms) == 1


@pytest.mark.parametrize(
    "source",
    [
        ".. a comment\n   :ref:`gone`", ".. _target:", ".. contents:: gone\n   :local:", ".. sectnum::",
        ".. index:: gone",
        ".. highlight:: gone", ".. |gone| replace:: gone", ".. raw:: html\n\n   <b>gone</b>",
        ".. meta::\n   :keywords: gone",
    ],
)  # fmt: skip
def test_what_is_no_text_is_left_out(source: str) -> None:
    assert text(f"{source}\n\nKept.\n") == "Kept."


@pytest.mark.parametrize(
    "directive",
    [
        ".. include:: {}",
        ".. literalinclude:: {}",
        ".. csv-table::\n   :file: {}",
        ".. raw:: html\n   :file: {}",
        ".. code:: {}",
    ],
)
def test_no_other_file_is_read(tmp_path: Path, directive: str) -> None:
    other = tmp_path / "other.txt"
    other.write_text("classified", encoding="utf-8")
    parsed = parse_rst(f"Before.\n\n{directive.format(other)}\n\nAfter.")
    assert parsed.text.startswith("Before.")
    assert parsed.text.endswith("After.")
    assert "classified" not in parsed.text


def test_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    parse_rst("Bad\n=\n\n.. unknown:: x\n\n.. table::\n   :bogus:\n\n:unknown:`x` |undefined| `missing`_ *open")
    assert capfd.readouterr() == ("", "")


def test_a_role_of_one_document_is_unknown_to_the_next() -> None:
    define = ".. role:: strong(raw)\n   :format: html\n\n.. role:: own(emphasis)\n\n:own:`x`"
    before = text(":strong:`a` :own:`b`")
    parse_rst(define)
    assert text(":strong:`a` :own:`b`") == before == "a b"


def test_a_document_is_the_same_on_any_day() -> None:
    assert text("Printed |today|.\n\n.. |today| date::\n") == "Printed |today|."


def test_a_long_line_is_no_reason_to_refuse_a_document() -> None:
    assert text("word " * 5000 + "\n\nend").endswith("end")


@pytest.mark.parametrize("source", [".. only a comment", ".. contents::", ".. raw:: html\n\n   x"])
def test_a_document_without_text_is_refused(source: str) -> None:
    with pytest.raises(ParseError):
        parse_rst(source)


def test_nesting_without_end_is_refused() -> None:
    with pytest.raises(ParseError):
        parse("\n\n".join(" " * depth + "x" for depth in range(1500)).encode(), "a.rst")
