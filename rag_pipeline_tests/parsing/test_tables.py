"""Tables: spreadsheets, values in text, and how long tables keep their header."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline.parsing.tables import may_be_header, table_parts
from rag_pipeline_tests.parsing.documents import cell, cells, workbook
from rag_pipeline_tests.parsing.test_markdown import check_spans

HEADER = ("Who", "Price", "Season")


def read(data: bytes, path: str) -> Parsed:
    parsed = parse(data, path)
    check_spans(parsed)
    return parsed


class TestLongTables:
    def test_every_part_of_a_long_table_begins_with_the_header(self) -> None:
        rows = [(f"Group {n}", str(n), "summer") for n in range(200)]
        parts = list(table_parts([HEADER, *rows]))
        assert len(parts) > 1
        assert all(part.startswith("Who | Price | Season\n") for part in parts)
        assert [line for part in parts for line in part.split("\n")[1:]] == [" | ".join(row) for row in rows]

    def test_a_long_row_is_written_with_the_name_of_each_value(self) -> None:
        parts = list(table_parts([HEADER, ("Adult", "2", "words " * 300), ("Child", "0", "winter")]))
        assert parts[0].startswith("Who: Adult\nPrice: 2\nSeason: words words")
        assert parts[1] == "Who | Price | Season\nChild | 0 | winter"

    def test_a_first_row_of_numbers_is_no_header(self) -> None:
        parts = list(table_parts([[str(n), str(n * n), "x" * 50] for n in range(100)]))
        assert not any("\n0 | 0" in part for part in parts)
        assert parts[0].startswith("0 | 0 | ")

    @pytest.mark.parametrize(
        ("row", "expected"),
        [(("Name", "Price"), True), (("Name", "2023", "2024"), True), (("Bolt", "2.50 €"), False), (("Fares",), False)],
    )
    def test_names_of_columns_are_told_from_values(self, row: tuple[str, ...], expected: bool) -> None:
        assert may_be_header(row) is expected

    @given(st.lists(st.lists(st.text("ab |\n1", max_size=40), min_size=1, max_size=5), max_size=60))
    def test_no_cell_is_lost(self, rows: list[list[str]]) -> None:
        text = "\n".join(table_parts(rows))
        assert all(word in text for row in rows for value in row for word in value.replace("|", " ").split())


class TestWorkbooks:
    def test_a_sheet_is_a_page_under_its_name(self) -> None:
        data = workbook({"Fares": cells([HEADER, ("Adult", 2, "all")]), "Blank": "", "Ports": cells([("North", "South")])})
        parsed = read(data, "a.xlsx")
        assert parsed.text == "# Fares\n\nWho | Price | Season\nAdult | 2 | all\n\n# Ports\n\nNorth | South"
        assert [(section.page, section.heading_path) for section in parsed.sections] == [(1, ("Fares",)), (3, ("Ports",))]

    def test_values_read_as_people_write_them(self) -> None:
        data = workbook({"S": f'<row r="1">{cell("A1", 3.0)}{cell("B1", 0.25)}<c r="C1" t="b"><v>1</v></c></row>'})
        assert read(data, "a.xlsx").text == "# S\n\n3 | 0.25 | TRUE"

    def test_columns_stay_in_line_where_cells_are_empty(self) -> None:
        data = workbook({"S": cells([HEADER, ("", 2, ""), ("", "", "winter")])})
        assert read(data, "a.xlsx").text == "# S\n\nWho | Price | Season\n| | 2\n| |  | winter"

    def test_a_cell_over_several_rows_stands_in_each_of_them_that_has_others(self) -> None:
        rows = cells([("Fares in coins",), HEADER, ("Adult", 2, "summer"), ("", 3, "winter"), ("", "", "")])
        text = "# S\n\nFares in coins\n\nWho | Price | Season\nAdult | 2 | summer\nAdult | 3 | winter"
        assert read(workbook({"S": rows}, {"S": "A3:A5"}), "a.xlsx").text == text
        blank = cells([("",), ("Who", "Price"), ("", 3)])
        assert read(workbook({"S": blank}, {"S": "A1:A3"}), "a.xlsx").text == "# S\n\nWho | Price\n| | 3"

    def test_empty_rows_part_tables_and_a_caption_is_no_header(self) -> None:
        data = workbook({"S": cells([("Fares in coins",), HEADER, ("Adult", 2, "all"), ("",), ("Child", 0, "all")])})
        assert read(data, "a.xlsx").text == (
            "# S\n\nFares in coins\n\nWho | Price | Season\nAdult | 2 | all\n\nWho | Price | Season\nChild | 0 | all"
        )

    def test_a_cell_far_out_costs_its_sheet_and_says_so(self) -> None:
        far = f'<row r="1048576">{cell("XFD1048576", 1)}</row>'
        parsed = read(workbook({"Far": far, "Near": cells([("words",)])}), "a.xlsx")
        assert [section.heading_path for section in parsed.sections] == [("Near",)]
        assert "sheet 'Far' cannot be read: it reaches to row 1,048,576 and column 16,384" in parsed.losses[0]
        with pytest.raises(ParseError, match="no sheet can be read: it reaches to row 1,048,576"):
            parse(workbook({"Far": far}), "a.xlsx")
        with pytest.raises(ParseError, match="no sheet can be read: it reaches to row 1,048,576"):
            parse(workbook({"Far": far.replace('"', "'")}), "a.xlsx")

    def test_a_workbook_without_cells_says_so(self) -> None:
        with pytest.raises(ParseError, match="its sheets hold no cells"):
            parse(workbook({"S": ""}), "a.xlsx")


class TestValuesInText:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            ("Who,Price\nAdult,2\n", "Who | Price\nAdult | 2"),
            ("Who;Price\nAdult;2,50\nChild;0,00\n", "Who | Price\nAdult | 2,50\nChild | 0,00"),
            ("Who\tPrice\nAdult, young\t2\n", "Who | Price\nAdult, young | 2"),
            ('Who,Note\nAdult,"a, b\nc ""d"""\n', 'Who | Note\nAdult | a, b c "d"'),
            ("a,b\n1,2,3,4\n5\n", "a | b\n1 | 2 | 3 | 4\n5"),
            ('\ufeff"Who",Price\nAdult,2', "Who | Price\nAdult | 2"),
            ("only\none\n", "only\none"),
            ('Who, Note\nAdult, "a, b"\n', "Who | Note\nAdult | a, b"),
        ],
    )
    def test_rows_are_read_whatever_the_delimiter(self, text: str, expected: str) -> None:
        assert read(text.encode(), "a.csv").text == expected

    def test_a_quotation_mark_that_is_never_closed_swallows_nothing(self) -> None:
        rows = "".join(f"Adult {n},{n}\n" for n in range(100))
        text = read(f'Who,Price\nThe 5" gauge,"7\n{rows}'.encode(), "a.csv").text
        assert "Adult 3 | 3\n" in text
        assert "Adult 99 | 99" in text

    def test_a_field_may_be_very_long(self) -> None:
        assert len(read(f"a,b\n1,{'word ' * 60_000}\n".encode(), "a.csv").text) > 250_000

    def test_a_table_without_a_word_says_so(self) -> None:
        with pytest.raises(ParseError, match="all of its cells are empty"):
            parse(b",,\n,,\n", "a.csv")

    def test_tabs_are_the_delimiter_by_name(self) -> None:
        parsed = read(b"a b\tc\n", "a.tsv")
        assert (parsed.text, parsed.media_type) == ("a b | c", "text/tab-separated-values")

    def test_lines_above_the_header_do_not_take_its_place(self) -> None:
        rows = "".join(f"{number},row number {number} of many\n" for number in range(200))
        parsed = read(f"# Exported in 2024\n\nid,description\n{rows}".encode(), "a.csv")
        assert parsed.text.startswith("# Exported in 2024\n\nid | description\n0 | ")
        assert all(parsed.text[atom.start :].startswith("id | description\n") for atom in parsed.atoms)

    def test_a_line_that_says_the_delimiter_is_no_row(self) -> None:
        assert read(b"sep=;\nWho;Price\nAdult;1,50\n", "a.csv").text == "Who | Price\nAdult | 1,50"
