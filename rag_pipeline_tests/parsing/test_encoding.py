"""Which encoding bytes are in, and what is no text at all."""

from __future__ import annotations

import codecs

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.encoding import clean, decode

GERMAN = "Über den Flüssen fährt die Fähre täglich, größtenteils pünktlich und für wenige Kreuzer.\n" * 3
RUSSIAN = "Паром переправляется через реку каждый день, кроме воскресенья, и стоит недорого.\n" * 3
JAPANESE = "渡し船は毎日川を渡ります。日曜日は休みです。髙橋さんが船長です。\n" * 3
CHINESE = "渡船每天过河，星期天除外，票价便宜，船长是一位老人。\n" * 3
KOREAN = "나룻배는 일요일을 제외하고 매일 강을 건너며 요금이 저렴합니다.\n" * 3
POLISH = "Łódź i prom, który przepływa rzekę każdego dnia, są własnością żeglarza; większość podróżnych śpi.\n" * 3
GREEK = "Το πορθμείο διασχίζει τον ποταμό κάθε μέρα εκτός από την Κυριακή.\n" * 3


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GERMAN, "cp1252"), (GERMAN, "latin-1"), (RUSSIAN, "cp1251"), (RUSSIAN, "koi8-r"), (RUSSIAN, "cp866"),
        (JAPANESE, "cp932"), (JAPANESE.replace("髙", "高"), "euc-jp"), (JAPANESE.replace("髙", "高"), "iso2022_jp"),
        (CHINESE, "gb18030"), (KOREAN, "euc-kr"), (GREEK, "cp1253"), (POLISH, "iso8859-2"), (POLISH, "cp1250"),
        (RUSSIAN, "iso8859-5"), (JAPANESE, "utf-32-le"), (JAPANESE, "utf-16-be"), ("plain\n" * 99 + JAPANESE, "utf-32-be"),
    ],
)  # fmt: skip
def test_legacy_encodings_are_found(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("text", [GERMAN, JAPANESE, "plain ascii\n", "mixed 日本 and 😀\n"])
@pytest.mark.parametrize(
    ("mark", "encoding"),
    [
        (codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"),
        (codecs.BOM_UTF32_LE, "utf-32-le"), (codecs.BOM_UTF32_BE, "utf-32-be"), (b"", "utf-8"),
    ],
)  # fmt: skip
def test_a_byte_order_mark_decides_and_is_no_text(text: str, mark: bytes, encoding: str) -> None:
    assert decode(mark + text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", ["The ferry crosses the river.\n", GERMAN])
def test_utf16_without_a_mark_is_seen_by_its_nuls(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


@pytest.mark.parametrize("encoding", ["utf-16-le", "utf-16-be"])
@pytest.mark.parametrize("text", [JAPANESE, CHINESE, KOREAN])
def test_utf16_without_a_mark_is_found_where_a_script_has_no_nuls(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_stray_nul_does_not_make_utf16_of_a_short_text() -> None:
    assert decode(b"a,b\n1,\x002\n") == "a,b\n1,2\n"


@pytest.mark.parametrize(
    ("text", "encoding"),
    [("“Smart quotes” — and euro € signs", "cp1252"), ("Die Größe der Tür über dem Fluß ist schön.", "cp437"),
     ("Café déjà vu in the town", "cp1252")],
)  # fmt: skip
def test_few_letters_beyond_ascii_are_no_other_script(text: str, encoding: str) -> None:
    assert decode(text.encode(encoding)) == text


def test_a_utf8_file_that_was_cut_within_a_character_stays_utf8() -> None:
    assert decode(JAPANESE.encode()[:-2]) == JAPANESE[:-2] + "\ufffd"


def test_one_damaged_byte_does_not_turn_a_utf8_file_into_mojibake() -> None:
    assert decode(GERMAN.encode() * 20 + b"\xff" + GERMAN.encode()) == GERMAN * 20 + "\ufffd" + GERMAN


def test_detection_looks_at_both_ends_of_a_large_file() -> None:
    text = "plain ascii lines\n" * 20_000 + RUSSIAN
    assert decode(text.encode("cp1251")) == text


@pytest.mark.parametrize(
    "declaration",
    [
        '<meta charset="windows-1251">',
        "<meta charset=windows-1251 />",
        '<META HTTP-EQUIV="Content-Type" CONTENT="text/html; charset=windows-1251">',
        "<?xml version='1.0' encoding='windows-1251'?>",
        "<!-- " + "x" * 6000 + ' --><meta charset="windows-1251">',
    ],
)
def test_an_html_page_may_declare_its_charset(declaration: str) -> None:
    page = f"{declaration}<p>Ё</p>"  # one letter, which nothing could detect
    assert decode(page.encode("cp1251"), html=True) == page


def test_xml_may_declare_its_charset() -> None:
    document = '<?xml version="1.0" encoding="iso-8859-5"?><a>Ё</a>'
    assert decode(document.encode("iso8859-5")) == document


@pytest.mark.parametrize("declared", ["utf-8", "utf-16", "us-ascii", "no-such-charset", "rot13", "hex", "unicode_escape"])
def test_a_wrong_declaration_is_not_believed(declared: str) -> None:
    page = f'<meta charset="{declared}"><p>{RUSSIAN}</p>'
    assert decode(page.encode("cp1251"), html=True) == page


def test_utf8_is_believed_before_a_declaration() -> None:
    page = '<meta charset="windows-1251"><p>ä</p>'
    assert decode(page.encode(), html=True) == page


def test_declared_charsets_are_read_as_their_supersets() -> None:
    page = '<meta charset="iso-8859-1"><p>“quoted”</p>'
    assert decode(page.encode("cp1252"), html=True) == page


def test_line_ends_nuls_and_marks_are_cleaned() -> None:
    assert decode(b"a\r\nb\rc\n\xef\xbb\xbfd\x00e") == "a\nb\nc\nde"


def test_other_line_separators_are_kept() -> None:
    assert decode("a\u2028b\u0085c\x0cd".encode()) == "a\u2028b\u0085c\x0cd"


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "empty file"), (b"\x00" * 9, "NUL"), (b" \r\n\t ", "white space"), (b"\x00 \x00\n", "white space"),
        (b"\xef\xbb\xbf \n", "white space"), (b"\xef\xbb\xbf", "white space"), ("\u2003\u00a0".encode(), "white space"),
        (bytes(range(256)) * 20, "not text"), (b"\x01\x02\x03\x04" * 50, "not text"), (b"\x01", "not text"),
        ("\ufffd".encode() * 50, "not text"),
    ],
)  # fmt: skip
def test_what_is_no_text_is_refused_with_the_reason(data: bytes, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        decode(data)


@pytest.mark.parametrize(
    ("written", "read"),
    [
        (b"\x1b[32mINFO\x1b[0m ready, \x1b[1;38;5;196mdisk\x1b[m \x1b[Kfull\n", "INFO ready, disk full\n"),
        (b"N\bNA\bAM\bME\bE\n  _\bf_\bi_\bl_\be\n", "NAME\n  file\n"),
        (b"see \x1b]8;;https://example.org\x1b\\the page\x1b]8;;\x1b\\\n", "see the page\n"),
    ],
)
def test_what_was_written_for_a_terminal_is_read_without_its_signs(written: bytes, read: str) -> None:
    assert decode(written * 9) == read * 9


def test_a_file_that_ends_with_control_z_is_text() -> None:
    assert decode(b"short\x1a") == "short\x1a"


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"], exclude_characters="\ufeff\ufffd"), min_size=1))
def test_utf8_text_comes_back_as_it_is(text: str) -> None:
    if text.strip():
        assert decode(text.encode()) == text


@given(st.text(st.characters()))
def test_cleaned_text_can_be_stored_and_has_one_kind_of_line_end(text: str) -> None:
    cleaned = clean(text)
    cleaned.encode()
    assert not {"\r", "\x00", "\ufeff"} & set(cleaned)
    assert clean(cleaned) == cleaned


@given(st.binary())
def test_bytes_are_decoded_or_refused(data: bytes) -> None:
    for html in (False, True):
        try:
            text = decode(data, html=html)
        except ParseError:
            continue
        assert text.strip()
        assert text == clean(text)
