"""Arabic and Hebrew: lines as they are drawn become lines as they are read."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.parsing import parse
from rag_pipeline.parsing.bidi import is_turned_round, ligature, logical_order
from rag_pipeline_tests.parsing.documents import Pdf, Word

HEBREW = "הספינה יוצאת מהנמל בצהריים"
ARABIC = "تبحر العبارة من الميناء ظهرا"


def pdf_text(document: Pdf) -> str:
    return parse(document.write(), "a.pdf").text


def drawn(text: str, right: float, base: float, *, spaces: bool = True) -> list[Word]:
    """A text in one right-to-left script, as a typesetter draws it: from the right margin, a glyph of 6 points each."""
    places = [(right - 6 * (place + 1), base, letter) for place, letter in enumerate(text)]
    return [word for word in places if spaces or word[2] != " "]


class TestOrder:
    @pytest.mark.parametrize(
        ("read", "seen"),
        [
            ("אבג דהו", "והד גבא"),
            ("יש 25 ספרים", "םירפס 25 שי"),
            ("מחיר 45.90 שקלים", "םילקש 45.90 ריחמ"),
            ("ביום 15/03/2024 בבוקר", "רקובב 15/03/2024 םויב"),
            ("בשנים 2020-2021 בלבד", "דבלב 2020-2021 םינשב"),
            ("عام 2020-2021 فقط", "طقف 2021-2020 ماع"),
            ("زيادة 25% سنويا", "ايونس %25 ةدايز"),
            ("עלייה של 25% בשנה", "הנשב 25% לש היילע"),
            ("התוכנה Microsoft Word 7.4 מותקנת", "תנקתומ Microsoft Word 7.4 הנכותה"),
            ("מלים (בסוגריים) כאן", "ןאכ )םיירגוסב( םילמ"),
            ("מלים (בסוגריים) כאן", "ןאכ (םיירגוסב) םילמ"),
            ("השם (Word) כאן", "ןאכ (Word) םשה"),
            ("סוף.", ".ףוס"),
        ],
    )
    def test_a_line_of_a_right_to_left_paragraph(self, read: str, seen: str) -> None:
        assert logical_order(seen, right_to_left=True) == read

    @pytest.mark.parametrize(
        ("read", "seen"),
        [
            ("The word אבג דה means", "The word הד גבא means"),
            ("From אבג 12 דה to", "From הד 12 גבא to"),
            ("No such letters 12, 13.", "No such letters 12, 13."),
            ("He said: אבג,", "He said: ,גבא"),
        ],
    )
    def test_a_line_of_a_left_to_right_paragraph(self, read: str, seen: str) -> None:
        assert logical_order(seen, right_to_left=False) == read

    def test_a_stop_that_was_drawn_at_the_wrong_end_ends_the_line(self) -> None:
        assert logical_order("הב הלודגה.", right_to_left=True) == "הגדולה בה."

    @given(st.text("אבגדה ابت ABC 0123456789 .,-/%()[]", max_size=30), st.booleans())
    def test_no_letter_is_lost(self, seen: str, right_to_left: bool) -> None:
        def letters(text: str) -> list[str]:
            return sorted(character for character in text if character not in "()[]")

        assert letters(logical_order(seen, right_to_left)) == letters(seen)

    @given(st.lists(st.text("אבגדהוז", min_size=1, max_size=5), min_size=1, max_size=6))
    def test_words_of_one_script_come_back_from_their_mirror_image(self, words: list[str]) -> None:
        line = " ".join(words)
        assert logical_order(line[::-1], right_to_left=True) == line

    def test_a_ligature_of_lam_and_alef_is_read_so_whichever_way_it_comes(self) -> None:
        assert ligature("لا") == ligature("ال") == "لا"
        assert ligature("ffi") == "ffi"

    def test_words_the_wrong_way_round_are_known_by_letters_that_only_end_or_begin_words(self) -> None:
        for text in (HEBREW, ARABIC):
            assert not is_turned_round(text)
            assert is_turned_round(text[::-1])
        assert not is_turned_round("words")


class TestPdf:
    @pytest.mark.parametrize("text", [HEBREW, ARABIC])
    @pytest.mark.parametrize("spaces", [True, False])
    @pytest.mark.parametrize("backwards", [True, False])
    def test_the_order_in_which_glyphs_were_written_does_not_matter(self, text: str, spaces: bool, backwards: bool) -> None:
        glyphs = drawn(text, 500, 700, spaces=spaces)
        assert pdf_text(Pdf().letters(glyphs[::-1] if backwards else glyphs)) == text

    def test_marks_written_after_their_line_stand_behind_their_letters(self) -> None:
        letters = drawn("אבג דהו", 500, 700)
        marks: list[Word] = [(letters[1][0], 700, "\u05b8"), (letters[5][0], 700, "\u05b4")]
        assert pdf_text(Pdf().letters(letters + marks)) == "אב\u05b8ג דה\u05b4ו"

    def test_presentation_forms_are_the_letters_themselves(self) -> None:
        glyphs = ["\ufe8d", "\ufedf", "\ufeb4", "\ufefc", "\ufee1"]  # alef, lam, seen, lam-alef, meem
        words: list[Word] = [(500 - 6 * place, 700, glyph) for place, glyph in enumerate(glyphs)]
        assert pdf_text(Pdf().letters(words)) == "السلام"

    def test_a_lam_alef_that_one_glyph_shows_is_in_order(self) -> None:
        words: list[Word] = [(500 - 6 * place, 700, glyph) for place, glyph in enumerate(["س", "لا", "م"])]
        assert pdf_text(Pdf().letters(words)) == "سلام"

    def test_numbers_and_latin_words_keep_their_own_direction(self) -> None:
        line = "בשנת 2024 קנה Word חדש"
        seen = "שדח Word הנק 2024 תנשב"
        assert pdf_text(Pdf().letters([(100 + 6 * place, 700, glyph) for place, glyph in enumerate(seen)])) == line

    def test_a_line_between_english_ones_is_read_from_the_right_if_both_its_ends_are(self) -> None:
        english = "The ship leaves the harbour at noon as it does each day"
        hebrew, seen = "הספינה Ferry יוצאת מהנמל", "למנהמ תאצוי Ferry הניפסה"
        lines = [english, seen, english]
        glyphs: list[Word] = [
            (50 + 6 * place, 700 - 14 * row, letter) for row, line in enumerate(lines) for place, letter in enumerate(line)
        ]
        assert pdf_text(Pdf().letters(glyphs)).split("\n")[1] == hebrew

    def test_a_table_is_read_from_its_right_column(self) -> None:
        rows = [("שם", "גיל", "עיר"), ("משה", "34", "חיפה"), ("רחל", "29", "אילת")]
        glyphs: list[Word] = []
        for row, cells in enumerate(rows):
            for column, text in enumerate(cells):
                right = 500 - 120 * column
                shown = text[::-1] if text.isdecimal() else text
                glyphs += drawn(shown, right, 700 - 14 * row)
        assert pdf_text(Pdf().letters(glyphs)) == "\n".join(" | ".join(cells) for cells in rows)

    def test_columns_are_read_from_the_right_one(self) -> None:
        lines = [f"{ARABIC} {letter}" for letter in "بتثجح"]
        other = [f"{HEBREW} {letter}" for letter in "אבגדה"]
        glyphs = [
            glyph
            for place, pair in enumerate(zip(lines, other, strict=True))
            for right, text in zip((540, 280), pair, strict=True)
            for glyph in drawn(text, right, 700 - 14 * place)
        ]
        assert pdf_text(Pdf().letters(glyphs)).split("\n") == lines + other

    def test_a_page_that_draws_its_letters_the_wrong_way_round_gives_its_words(self) -> None:
        glyphs: list[Word] = [(100 + 6 * place, 700, letter) for place, letter in enumerate(HEBREW)]
        assert pdf_text(Pdf().letters(glyphs)) == HEBREW

    def test_a_quotation_within_an_english_line(self) -> None:
        seen = f"The word {HEBREW[:10][::-1]} means a ferry; most of this line is English, as is its page."
        glyphs: list[Word] = [(20 + 6 * place, 700, letter) for place, letter in enumerate(seen)]
        assert pdf_text(Pdf().letters(glyphs)) == seen.replace(HEBREW[:10][::-1], HEBREW[:10])
