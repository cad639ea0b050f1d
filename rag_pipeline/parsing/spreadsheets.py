"""Spreadsheets (.xlsx, .xlsb, .xls, .ods), read by calamine: each sheet a page, its tables row by row."""

from __future__ import annotations

import datetime
import io
import posixpath
import re
from collections.abc import Iterator, Sequence
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.archives import Archive
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.dates import iso_date
from rag_pipeline.parsing.reasons import PASSWORD_OFFICE, first_line
from rag_pipeline.parsing.sniffing import EXCEL, OLD_EXCEL, OPEN_SHEET
from rag_pipeline.parsing.tables import may_be_header, without_captions

MEDIA_TYPES = {
    EXCEL: "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    OLD_EXCEL: "application/vnd.ms-excel",
    OPEN_SHEET: "application/vnd.oasis.opendocument.spreadsheet",
}

_MOST_CELLS = 5_000_000
"""Of the rectangle around a sheet's cells, empty ones included: calamine keeps all of them."""
_CELL = re.compile(rb"""<(?:\w+:)?c\s[^>]*?\br=["']([A-Z]{1,3})(\d+)["'][^>]*(?<!/)>""")

_Cells = list[str]


def parse_spreadsheet(data: bytes, media_type: str) -> Parsed:
    """Parse a workbook. A sheet is a page, its name a heading. Formulas show the values that were stored with them.

    Raises:
        ParseError: it wants a password, is damaged, or no sheet holds cells; the message is the reason.
    """
    try:
        from python_calamine import CalamineError, CalamineWorkbook, PasswordError
    except ImportError:
        raise MissingExtraError("python-calamine", "pipeline", "Reading spreadsheets") from None
    vast = _vast_sheets(Archive(data)) if data.startswith(b"PK") else {}
    try:
        workbook = CalamineWorkbook.from_filelike(io.BytesIO(data))
        names = workbook.sheet_names
    except PasswordError as error:
        raise ParseError(PASSWORD_OFFICE) from error
    except CalamineError as error:
        raise ParseError(f"damaged: {first_line(error)}") from error
    builder = TextBuilder()
    lost: dict[str, str] = {}
    for number, name in enumerate(names, 1):
        builder.page(number)
        if name in vast:
            lost[name] = vast[name]
            continue
        try:
            sheet = workbook.get_sheet_by_name(name)
            rows = [[_shown(value) for value in row] for row in sheet.to_python(skip_empty_area=True)]
        except CalamineError as error:
            reason = first_line(error)
            lost[name] = reason if reason != name else "its part of the workbook is missing"
            continue
        _repeat_tall_cells(rows, sheet)
        _write_sheet(name, rows, builder)
    for name, reason in lost.items():
        builder.loss(f"sheet {name!r} cannot be read: {reason}")
    if not builder.blocks:
        raise ParseError(f"no sheet can be read: {next(iter(lost.values()))}" if lost else "its sheets hold no cells")
    return builder.build(media_type, None, {})


def _vast_sheets(archive: Archive) -> dict[str, str]:
    """Sheets that a cell far out makes larger than what can be held, by their names, and why they are left out."""
    found: dict[str, str] = {}
    for name, part in _sheet_parts(archive).items():
        columns, rows = set(), 0
        for letters, row in _CELL.findall(archive.read(part)):
            columns.add(letters)
            rows = max(rows, int(row))
        width = max(map(_column_number, columns), default=0)
        if rows * width > _MOST_CELLS:
            found[name] = (
                f"it reaches to row {rows:,} and column {width:,}, which is more than {_MOST_CELLS:,} cells, most of them "
                "empty; clear the cells far out, or save it as CSV"
            )
    return found


def _sheet_parts(archive: Archive) -> dict[str, str]:
    """The member that holds each sheet, by the sheet's name. Empty for other formats than .xlsx."""
    workbook = next((name for name in archive.names if name.lower() == "xl/workbook.xml"), None)
    relations = next((name for name in archive.names if name.lower() == "xl/_rels/workbook.xml.rels"), None)
    if workbook is None or relations is None:
        return {}
    targets = {relation.get("Id"): relation.get("Target") or "" for relation in archive.xml(relations)}
    parts: dict[str, str] = {}
    for element in archive.xml(workbook).iter():
        if element.tag.rpartition("}")[2] == "sheet":
            identifier = next((value for key, value in element.items() if key.endswith("}id")), None)
            target = targets.get(identifier, "")
            part = target.lstrip("/") if target.startswith("/") else posixpath.normpath(posixpath.join("xl", target))
            if part in archive:
                parts[element.get("name") or ""] = part
    return parts


def _column_number(letters: bytes) -> int:
    number = 0
    for letter in letters:
        number = 26 * number + letter - ord("A") + 1
    return number


def _shown(value: Any) -> str:
    """A cell as a reader writes it: whole numbers without a point, dates in ISO 8601."""
    match value:
        case bool():
            return "TRUE" if value else "FALSE"
        case float():
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
        case datetime.date():
            return iso_date(value)
        case datetime.time():
            return value.isoformat()
        case datetime.timedelta():
            minutes, seconds = divmod(round(abs(value.total_seconds())), 60)
            sign = "-" if value < datetime.timedelta(0) else ""
            return f"{sign}{minutes // 60}:{minutes % 60:02}:{seconds:02}"
    return " ".join(str(value).split())


def _repeat_tall_cells(rows: list[_Cells], sheet: Any) -> None:
    """Repeat a cell that stands in several rows in each of them that has others."""
    first_row, first_column = sheet.start or (0, 0)
    for (top, left), (bottom, _) in sheet.merged_cell_ranges or ():
        column = left - first_column
        if top < first_row or column < 0:
            continue  # it is empty
        for row in rows[top + 1 - first_row : bottom + 1 - first_row]:
            if column < len(row) and any(row):
                row[column] = rows[top - first_row][column]


def _write_sheet(name: str, rows: list[_Cells], builder: TextBuilder) -> None:
    header: _Cells = []
    tables = list(_tables(rows))
    if tables:
        builder.heading(1, name)
    for table in tables:
        captions, below = without_captions(table)
        for caption in captions:
            builder.block(caption)
        table = [list(row) for row in below]
        if may_be_header(table[0]):
            header = table[0]
        elif header and sum(map(bool, table[0])) > 1:
            table.insert(0, header)  # an empty row parts a table from its header
        builder.rows(table)


def _tables(rows: list[_Cells]) -> Iterator[list[_Cells]]:
    """A sheet cut at its empty rows, without columns that are empty in all of it."""
    used = [
        column for column in range(max(map(len, rows), default=0)) if any(column < len(row) and row[column] for row in rows)
    ]
    table: list[_Cells] = []
    for row in rows:
        if any(row):
            table.append(_chosen(row, used))
        elif table:
            yield table
            table = []
    if table:
        yield table


def _chosen(row: Sequence[str], columns: Sequence[int]) -> _Cells:
    return [row[column] if column < len(row) else "" for column in columns]
