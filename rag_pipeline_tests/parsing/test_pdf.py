"""PDF: pages, reading order, whole words, and what is told of pages that cannot be read."""

from __future__ import annotations

import io

import pytest

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline.parsing.hooks import Hooks
from rag_pipeline_tests.parsing.documents import Pdf, Word
from rag_pipeline_tests.parsing.test_markdown import check_spans

NOISE = "., ;: -- ~ .,:;. !! x ;; :: .. ,, .y; ;. .,; - - ; .. ;, ,; ..,, " * 4
LINE = "this line of the {} column is number {} of many"


def pdf(data: bytes, hooks: Hooks | None = None) -> Parsed:
    parsed = parse(data, "a.pdf", hooks)
    check_spans(parsed)
    return parsed


def reason(data: bytes, hooks: Hooks | None = None) -> str:
    with pytest.raises(ParseError) as error:
        parse(data, "a.pdf", hooks)
    return str(error.value)


def locked(data: bytes, password: str, owner: str = "owner") -> bytes:
    from pypdf import PdfReader, PdfWriter

    writer = PdfWriter(clone_from=PdfReader(io.BytesIO(data)))
    writer.encrypt(password, owner, algorithm="RC4-128")
    buffer = io.BytesIO()
    writer.write(buffer)
    return buffer.getvalue()


class TestStructure:
    def test_each_page_is_a_section_that_knows_its_number(self) -> None:
        parsed = pdf(Pdf().lines("first words").lines("second words").write())
        assert [(parsed.text[s.start : s.end].strip(), s.page) for s in parsed.sections] == [
            ("first words", 1),
            ("second words", 2),
        ]

    def test_headings_of_the_outline_begin_where_they_stand_on_their_page(self) -> None:
        document = Pdf().lines("Preface", "a word before", "Fares", "Adults pay two coins.").lines("still of fares", "Ports")
        parsed = pdf(document.outline(("FARES", 1), ("Ports", 2)).write())
        assert [(parsed.text[s.start : s.end].strip(), s.heading_path, s.page) for s in parsed.sections] == [
            ("Preface\na word before", (), 1),
            ("Fares\nAdults pay two coins.", ("FARES",), 1),
            ("still of fares", ("FARES",), 2),
            ("Ports", ("Ports",), 2),
        ]

    def test_a_heading_that_is_not_found_on_its_page_begins_it(self) -> None:
        parsed = pdf(Pdf().lines("one").lines("two").outline(("Not written so", 2)).write())
        assert [section.heading_path for section in parsed.sections] == [(), ("Not written so",)]

    def test_title_author_and_date_are_those_of_the_file(self) -> None:
        parsed = pdf(Pdf().lines("words").info("The ferry").write())
        assert parsed.title == "The ferry"
        assert parsed.metadata == {"author": "A. Writer", "created": "2024-01-31T12:00:00+00:00"}

    @pytest.mark.parametrize("title", ["", "Untitled", "report.docx", "Microsoft Word - draft", "(anonymous)", "Document1"])
    def test_what_programs_write_for_want_of_a_title_is_none(self, title: str) -> None:
        assert pdf(Pdf().lines("words").info(title).write()).title is None


class TestReadingOrder:
    def test_columns_written_line_by_line_across_are_read_one_after_the_other(self) -> None:
        words: list[Word] = [
            (x, 700 - 12 * n, LINE.format(side, n)) for n in range(8) for x, side in ((50, "left"), (310, "right"))
        ]
        lines = pdf(Pdf().page(words).write()).text.split("\n")
        assert lines == [LINE.format("left", n) for n in range(8)] + [LINE.format("right", n) for n in range(8)]

    def test_columns_written_one_after_the_other_stay_so(self) -> None:
        words: list[Word] = [
            (x, 700 - 12 * n, LINE.format(side, n)) for x, side in ((50, "left"), (310, "right")) for n in range(8)
        ]
        lines = pdf(Pdf().page(words).write()).text.split("\n")
        assert lines == [LINE.format("left", n) for n in range(8)] + [LINE.format("right", n) for n in range(8)]

    @pytest.mark.parametrize("backwards", [False, True])
    def test_rows_of_a_table_without_lines_stay_together(self, backwards: bool) -> None:
        rows = [("Who", "Price", "Seats"), ("Adult", "2 coins", "40"), ("Child", "free", "12"), ("Dog", "1 coin", "3")]
        words: list[Word] = [
            (50 + 130 * column, 700 - 14 * row, text)
            for row, cells in enumerate(rows)
            for column, text in (reversed(list(enumerate(cells))) if backwards else enumerate(cells))
        ]
        assert pdf(Pdf().page(words).write()).text == "\n".join(" | ".join(row) for row in rows)

    def test_a_gap_in_one_line_is_no_column(self) -> None:
        parsed = pdf(Pdf().page([(50, 700, "Chapter 3"), (400, 700, "The ferry"), (50, 686, "It sails at noon.")]).write())
        assert parsed.text == "Chapter 3 The ferry\nIt sails at noon."


class TestWholeWords:
    def test_a_word_divided_at_the_end_of_a_line_is_one(self) -> None:
        assert "navigation" in pdf(Pdf().lines("the navi-", "gation of ships").write()).text

    def test_a_compound_keeps_its_hyphen_where_the_document_shows_that_it_has_one(self) -> None:
        assert "well-known" in pdf(Pdf().lines("a well-known ship", "and a well-", "known port").write()).text
        assert "deep-water" in pdf(Pdf().lines("a deep-", "water port", "deep is the water").write()).text

    def test_a_divided_name_keeps_its_hyphen(self) -> None:
        assert "Baden-Baden" in pdf(Pdf().lines("a spa in Baden-", "Baden there").write()).text


class TestLosses:
    def test_a_damaged_page_costs_that_page_and_says_so(self) -> None:
        damaged = Pdf().lines("first words").raw_page(b"no deflated data", entries="/Filter /FlateDecode")
        parsed = pdf(damaged.lines("third words").write())
        assert [section.page for section in parsed.sections] == [1, 3]
        assert parsed.losses == ("page 2 cannot be read: its content cannot be decoded",)

    def test_pages_that_are_pictures_are_listed(self) -> None:
        parsed = pdf(Pdf().picture().lines("words that can be read").picture().picture().write())
        assert parsed.losses == ("pages 1, 3 to 4: pictures without text (see parsing.ocr)",)

    def test_a_blank_page_is_no_loss(self) -> None:
        assert pdf(Pdf().lines("words").lines().write()).losses == ()

    def test_a_page_of_noise_is_left_out_and_said_so(self) -> None:
        parsed = pdf(Pdf().lines("words that can be read").picture([(20, 400, NOISE)]).write())
        assert ";;" not in parsed.text
        assert parsed.losses == ("page 2: the text layer is noise, not words",)


class TestRefusals:
    def test_a_scan_without_text_is_told_from_a_damaged_file(self) -> None:
        assert "scan without text: its page has no text layer" in reason(Pdf().picture().write())
        assert "none of its 2 pages has a text layer" in reason(Pdf().picture().picture([(50, 800, "2")]).write())

    def test_a_scan_with_a_text_layer_is_read(self) -> None:
        assert "It sails at noon" in pdf(Pdf().picture([(50, 700, "It sails at noon")]).write()).text

    def test_a_text_layer_of_noise_is_none(self) -> None:
        assert "its text layer is noise, not words (1 page)" in reason(Pdf().picture([(20, 400, NOISE)]).write())

    @pytest.mark.parametrize(
        "text", ["x = a1 + b2 - c3; (7, 8, 9) [4.5, 6.7]", "12.5 | 13.7 | 1,000.00 | -4 | 88%", "if (a > b) { c(); } // ok"]
    )
    def test_formulas_numbers_and_code_are_no_noise(self, text: str) -> None:
        assert text[:6] in pdf(Pdf().lines(*[text] * 20).write()).text

    def test_a_file_that_was_cut_off_is_damaged(self) -> None:
        data = Pdf().lines("first words").lines("second words").write()
        assert "damaged or truncated PDF" in reason(data[: len(data) // 2])

    def test_more_pages_than_a_document_has_are_refused_quickly(self) -> None:
        data = (
            Pdf().lines("x").write().replace(b"/Kids [5 0 R] /Count 1", b"/Kids [" + b"5 0 R " * 50_000 + b"] /Count 50000")
        )
        assert "says that it has 50,000 pages" in reason(data)

    def test_a_form_that_its_pages_do_not_show_is_told(self) -> None:
        notice = "If this message is not eventually replaced by the proper contents of the document"
        assert "XFA form" in reason(Pdf().lines("Please wait...", notice).write())

    @pytest.mark.parametrize("content", [b"", b"q Q", b"  \n"])
    def test_a_file_of_blank_pages_says_so(self, content: bytes) -> None:
        assert reason(Pdf().raw_page(content).raw_page(content).write()) == "empty: all of its pages are blank"


class TestPasswords:
    DATA = Pdf().lines("It sails at noon.").write()

    def test_a_password_that_is_wanted_is_the_reason(self) -> None:
        assert "password-protected PDF" in reason(locked(self.DATA, "secret"))

    def test_a_password_that_only_forbids_printing_is_not_wanted(self) -> None:
        assert pdf(locked(self.DATA, "")).text == "It sails at noon."

    def test_passwords_of_the_team_are_tried(self) -> None:
        asked = []

        def passwords(path: str) -> list[str]:
            asked.append(path)
            return ["wrong", "secret"]

        assert pdf(locked(self.DATA, "secret"), Hooks(passwords=passwords)).text == "It sails at noon."
        assert asked == ["a.pdf"]
        assert "none of the passwords" in reason(locked(self.DATA, "other"), Hooks(passwords=passwords))


class TestTextRecognition:
    def test_pictures_are_given_to_the_function_of_the_team_as_png(self) -> None:
        seen: list[tuple[bytes, str, int]] = []

        def ocr(png: bytes, path: str, page: int) -> str:
            seen.append((png[:8], path, page))
            return "It sails at noon."

        parsed = pdf(Pdf().lines("first words on a page").picture().write(), Hooks(ocr=ocr))
        assert seen == [(b"\x89PNG\r\n\x1a\n", "a.pdf", 2)]
        assert [section.page for section in parsed.sections] == [1, 2]
        assert "It sails at noon." in parsed.text

    def test_its_failure_costs_the_page_and_is_told(self) -> None:
        def ocr(png: bytes, path: str, page: int) -> str:
            raise OSError("no engine")

        parsed = pdf(Pdf().lines("first words on a page").picture().write(), Hooks(ocr=ocr))
        assert parsed.losses == ("page 2: text recognition failed: OSError: no engine",)
        assert reason(Pdf().picture().write(), Hooks(ocr=ocr)) == "text recognition (parsing.ocr) failed: OSError: no engine"


class TestPlaces:
    def test_text_boxes_written_from_below_are_read_from_above(self) -> None:
        words: list[Word] = [
            (50, 200, "bottom box"),
            (50, 700, "left box"),
            (320, 700, "right box"),
            (60, 450, "middle box"),
        ]
        assert pdf(Pdf().page(words).write()).text.split("\n") == ["left box right box", "middle box", "bottom box"]

    def test_text_boxes_side_by_side_are_read_one_after_the_other(self) -> None:
        words: list[Word] = [
            (x, 700 - 12 * n, f"{side} line {n}") for x, side in ((50, "left"), (310, "right")) for n in range(3)
        ]
        words.append((50, 760, "A heading above both of them that was written last, as wide as the page is between margins"))
        lines = pdf(Pdf().page(words).write()).text.split("\n")
        assert lines[0].startswith("A heading")
        assert lines[1:] == [f"{side} line {n}" for side in ("left", "right") for n in range(3)]

    def test_a_page_number_written_first_ends_its_page_and_not_its_column(self) -> None:
        columns: list[Word] = [
            (x, 700 - 12 * n, LINE.format(side, n)) for x, side in ((50, "left"), (310, "right")) for n in range(8)
        ]
        lines = pdf(Pdf().page([(150, 60, "79"), *columns]).write()).text.split("\n")
        assert lines[-1] == "79"
        assert lines[7:9] == [LINE.format("left", 7), LINE.format("right", 0)]

    def test_a_page_that_was_written_backwards_is_read_from_the_top(self) -> None:
        words: list[Word] = [(50, 700 - 30 * n, f"Paragraph {n} of the page") for n in reversed(range(6))]
        assert pdf(Pdf().page(words).write()).text.split("\n") == [f"Paragraph {n} of the page" for n in range(6)]

    @pytest.mark.parametrize("turn", ["/Rotate 180", ""])
    def test_a_page_that_is_shown_upside_down_is_read_as_if_it_were_turned(self, turn: str) -> None:
        page = Pdf().lines("first line of it", "second line of it")
        data = page.write().replace(b"/MediaBox [0 0 595 842]", f"/MediaBox [0 0 595 842] {turn}".encode())
        if not turn:
            content = (
                b"q -1 0 0 -1 595 842 cm BT /F1 10 Tf 72 770 Td (first line of it) Tj 0 -14 Td (second line of it) Tj ET Q"
            )
            data = Pdf().raw_page(content).write()
        assert pdf(data).text == "first line of it\nsecond line of it"

    @pytest.mark.parametrize("text_turned", [0, 90, 270])
    @pytest.mark.parametrize("page_turned", [0, 90, 270])
    def test_a_page_on_its_side_is_read_as_if_it_were_turned(self, text_turned: int, page_turned: int) -> None:
        matrix = {0: "1 0 0 1 50 400", 90: "0 1 -1 0 400 50", 270: "0 -1 1 0 200 700"}[text_turned]
        rows = [f"1 0 0 1 {x} {-14 * row} Tm ({word} {row}) Tj" for row in range(4) for x, word in ((0, "name"), (150, "x"))]
        data = Pdf().raw_page(f"q {matrix} cm BT /F1 10 Tf {' '.join(rows)} ET Q".encode()).write()
        data = data.replace(b"/MediaBox [0 0 595 842]", f"/MediaBox [0 0 595 842] /Rotate {page_turned}".encode())
        assert pdf(data).text.split("\n") == [f"name {row} | x {row}" for row in range(4)]

    def test_what_begins_an_item_of_a_list_is_no_cell(self) -> None:
        items: list[Word] = [
            (x, 700 - 14 * row, text)
            for row, label in enumerate(("1.", "2.", "3.", "\u2022", "\u2022"))
            for x, text in ((50, label), (80, f"item {row}"))
        ]
        assert pdf(Pdf().page(items).write()).text.split("\n") == [
            "1. item 0", "2. item 1", "3. item 2", "\u2022 item 3", "\u2022 item 4",
        ]  # fmt: skip

    def test_a_line_that_goes_on_below_itself_is_two(self) -> None:
        words: list[Word] = [(50, 700, "name"), (150, 686, "value"), (150, 672, "x")]  # PDFium: "value x"
        assert pdf(Pdf().page(words).write()).text == "name\nvalue\nx"

    def test_narrow_gaps_part_cells_where_two_rows_near_by_agree(self) -> None:
        table: list[Word] = [
            (x, 700 - 14 * row, text)
            for row, cells in enumerate([("Region no.", "1,000", "a"), ("Region no.", "2,000", "b"), ("Region", "3", "c")])
            for x, text in zip((50, 109, 200), cells, strict=True)
        ]
        assert pdf(Pdf().page(table).write()).text.split("\n") == [
            "Region no. | 1,000 | a", "Region no. | 2,000 | b", "Region | 3 | c",
        ]  # fmt: skip
        pair: list[Word] = [
            (50, 700, "Nulla egestas."),
            (121, 700, "Nam feugiat"),
            (50, 688, "eget nunc."),
            (121, 688, "Ut"),
        ]
        assert "|" not in pdf(Pdf().page(pair).write()).text

    def test_a_line_of_two_words_spread_to_the_margins_of_its_column_is_no_row_of_a_table(self) -> None:
        words: list[Word] = [
            (50, 700, "with representatives of the north"), (50, 688, "transportation"), (151.7, 688, "company"),
            (50, 676, "beforehand."), (134, 676, "extraordinary"),
        ]  # fmt: skip
        assert "|" not in pdf(Pdf().page(words).write()).text
