"""Documents that are rows: JSON Lines and Parquet."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.config import CorpusConfig, FieldMapping, SourceConfig
from rag_pipeline.errors import SourceError, SourceReadError
from rag_pipeline.sources import BadRow, Row, list_items, read_rows
from rag_pipeline.sources.rows import json_value, make_row

BEIR = FieldMapping(id="_id", title="title", text="text")


def make_corpus(folder: Path, row_format: str, fields: FieldMapping | None = BEIR) -> CorpusConfig:
    path = f"rows.{row_format}"
    return CorpusConfig(
        name="docs",
        folder=folder,
        source=SourceConfig.model_validate({"path": path, "format": row_format, "fields": fields}),
    )


def jsonl(folder: Path, content: bytes, fields: FieldMapping | None = BEIR) -> list[Row | BadRow]:
    (folder / "rows.jsonl").write_bytes(content)
    corpus = make_corpus(folder, "jsonl", fields)
    return [row for item in list_items(corpus) for row in read_rows(corpus, item)]


def parquet(folder: Path, table: pa.Table, fields: FieldMapping | None = BEIR, **options: Any) -> list[Row | BadRow]:
    pq.write_table(table, folder / "rows.parquet", **options)
    corpus = make_corpus(folder, "parquet", fields)
    return [row for item in list_items(corpus) for row in read_rows(corpus, item)]


def one_row(values: dict[str, Any], fields: FieldMapping = BEIR) -> Row | BadRow:
    return make_row(values, 1, make_corpus(Path("/corpora/docs"), "jsonl", fields))


def ids(rows: Iterable[Row | BadRow]) -> list[str | None]:
    return [row.document_id for row in rows]


class TestJsonLines:
    def test_a_row_has_id_title_text_and_the_rest_as_metadata(self, tmp_path: Path) -> None:
        rows = jsonl(tmp_path, b'{"_id": "a", "title": "T", "text": "x y", "year": 2020, "tags": ["p", null]}\n')
        assert rows == [Row(1, "a", "T", "x y", {"year": 2020, "tags": ["p", None]})]

    def test_without_a_mapping_the_fields_are_id_and_text(self, tmp_path: Path) -> None:
        rows = jsonl(tmp_path, b'{"id": 7, "text": "x", "title": "T"}', fields=None)
        assert rows == [Row(1, "7", None, "x", {"title": "T"})]

    @pytest.mark.parametrize("separator", ["\u2028", "\u2029", "\u0085", "\x0b", "\x0c", "\x1c", "\x1e"])
    def test_records_end_at_a_line_feed_only(self, tmp_path: Path, separator: str) -> None:
        text = f"before{separator}after"
        # JSON lets these stand in a string as they are, except for control characters.
        written = json.dumps(text, ensure_ascii=ord(separator) < 0x20)
        record = f'{{"_id": "one", "text": {written}}}\n{{"_id": "two", "text": "x"}}\n'
        rows = jsonl(tmp_path, record.encode())
        assert ids(rows) == ["one", "two"]
        assert isinstance(rows[0], Row)
        assert rows[0].text == text

    def test_a_mark_carriage_returns_blank_lines_and_a_missing_last_line_end_do_no_harm(self, tmp_path: Path) -> None:
        content = b'\xef\xbb\xbf{"_id": "a", "text": "x"}\r\n\r\n  \n{"_id": "b", "text": "y"}'
        assert [(row.number, row.document_id) for row in jsonl(tmp_path, content)] == [(1, "a"), (4, "b")]

    @pytest.mark.parametrize(
        ("line", "reason"),
        [
            (b'{"_id": "x", "text": ', "not valid JSON"),
            (b'{"_id": "x", "text": "caf\xe9"}', "not UTF-8: byte 0xe9"),
            (b'["x"]', "expected a JSON object, got list"),
            (b"null", "expected a JSON object, got NoneType"),
            (b"[" * 100_000, "not readable JSON"),
            (b'{"_id": 1' + b"0" * 5000 + b', "text": "x"}', "not readable JSON"),
            (b'{"text": "x"}', "no id: no field '_id' (source.fields.id in "),
            (b'{"_id": null, "text": "x"}', "no id: field '_id' is null"),
            (b'{"_id": " ", "text": "x"}', "no id: field '_id' is blank"),
            (b'{"_id": true, "text": "x"}', "no id: field '_id' is bool, expected a string or a number"),
            (b'{"_id": ["x"], "text": "x"}', "no id: field '_id' is list"),
            (b'{"_id": NaN, "text": "x"}', "no id: field '_id' is null"),
            (b'{"_id": "x"}', "no text: no field 'text'"),
            (b'{"_id": "x", "text": null}', "no text: field 'text' is null"),
            (b'{"_id": "x", "text": NaN}', "no text: field 'text' is null"),
            (b'{"_id": "x", "text": "  \\n"}', "no text: field 'text' is blank"),
            (b'{"_id": "x", "text": "\\ufeff\\u0000"}', "no text: field 'text' is blank"),
            (b'{"_id": "x", "text": 5}', "no text: field 'text' is int, expected a string"),
        ],
    )
    def test_a_bad_line_is_told_with_its_number_and_the_others_are_kept(
        self, tmp_path: Path, line: bytes, reason: str
    ) -> None:
        rows = jsonl(tmp_path, b'{"_id": "a", "text": "x"}\n' + line + b'\n{"_id": "b", "text": "y"}\n')
        assert ids([rows[0], rows[2]]) == ["a", "b"]
        assert isinstance(rows[1], BadRow)
        assert rows[1].number == 2
        assert reason in rows[1].reason

    def test_a_row_without_text_still_has_its_id(self, tmp_path: Path) -> None:
        (row,) = jsonl(tmp_path, b'{"_id": "x", "text": null}')
        assert row.document_id == "x"

    @pytest.mark.parametrize(
        ("written", "identifier"),
        [
            ('"001"', "001"),
            ("7", "7"),
            ("7.0", "7.0"),
            ("-3", "-3"),
            ('" a b "', " a b "),
            ('"it\'s"', "it's"),
            ('"日本"', "日本"),
        ],
    )
    def test_ids_stay_as_they_are_written(self, tmp_path: Path, written: str, identifier: str) -> None:
        assert ids(jsonl(tmp_path, f'{{"_id": {written}, "text": "x"}}'.encode())) == [identifier]

    @pytest.mark.parametrize(
        ("written", "title"),
        [
            ("null", None), ('""', None), ('" \\t"', None), ("NaN", None), ('"A\\n title"', "A title"), ("1984", "1984"),
            ("true", None), ('{"a": 1}', None),
        ],
    )  # fmt: skip
    def test_a_title_is_a_line_or_nothing(self, tmp_path: Path, written: str, title: str | None) -> None:
        (row,) = jsonl(tmp_path, f'{{"_id": "a", "title": {written}, "text": "x"}}'.encode())
        assert isinstance(row, Row)
        assert row.title == title

    def test_no_surrogate_and_no_nul_is_left_anywhere(self, tmp_path: Path) -> None:
        content = (
            b'{"_id": "a\\ud800", "title": "\\udfff\\u0000T", "text": "x\\ud800y", '
            b'"k\\udc00": ["\\ud83d", "\\ud83d\\ude00"]}'
        )
        assert jsonl(tmp_path, content) == [Row(1, "a\ufffd", "\ufffdT", "x\ufffdy", {"k\ufffd": ["\ufffd", "\U0001f600"]})]

    def test_the_same_id_twice_is_not_judged_here(self, tmp_path: Path) -> None:
        assert ids(jsonl(tmp_path, b'{"_id": "a", "text": "x"}\n{"_id": "a", "text": "y"}\n')) == ["a", "a"]

    def test_a_file_that_vanished_is_a_read_error(self, tmp_path: Path) -> None:
        (tmp_path / "folder").mkdir()
        (tmp_path / "folder/a.jsonl").write_text("{}", encoding="utf-8")
        corpus = CorpusConfig(name="docs", folder=tmp_path, source=SourceConfig(path="folder", format="jsonl"))
        (item,) = list_items(corpus)
        (tmp_path / "folder/a.jsonl").unlink()
        with pytest.raises(SourceReadError, match=r"a\.jsonl: vanished"):
            list(read_rows(corpus, item))

    @given(st.lists(st.binary(max_size=60), max_size=6))
    def test_whatever_the_bytes_every_line_gives_at_most_one_row(
        self, tmp_path_factory: pytest.TempPathFactory, lines: list[bytes]
    ) -> None:
        content = b"\n".join(lines)
        rows = jsonl(tmp_path_factory.mktemp("corpus"), content)
        numbers = [row.number for row in rows]
        assert numbers == sorted(set(numbers))
        assert len(rows) <= content.count(b"\n") + 1


class TestParquet:
    def test_a_row_has_id_title_text_and_the_rest_as_json(self, tmp_path: Path) -> None:
        table = pa.table(
            {
                "_id": ["a"],
                "title": ["T"],
                "text": pa.array(["x"], pa.large_utf8()),
                "day": pa.array([date(2024, 2, 29)]),
                "at": pa.array([datetime(2024, 1, 2, 3, 4, 5, 678)], pa.timestamp("ns")),
                "zoned": pa.array([datetime(2024, 1, 2, tzinfo=timezone.utc)], pa.timestamp("ms", "America/New_York")),
                "price": pa.array([Decimal("1.50")]),
                "count": pa.array([Decimal("3")], pa.decimal128(5, 0)),
                "score": [math.nan],
                "raw": [b"\xff"],
                "nested": [{"a": [1, None], "b": date(2020, 1, 1)}],
                "label": pa.array(["l"]).dictionary_encode(),
            }
        )
        (row,) = parquet(tmp_path, table)
        assert row == Row(
            1, "a", "T", "x",
            {
                "day": "2024-02-29", "at": "2024-01-02T03:04:05.000678", "zoned": "2024-01-02T00:00:00+00:00", "price": 1.5,
                "count": 3, "score": None, "nested": {"a": [1, None], "b": "2020-01-01"}, "label": "l",
            },
        )  # fmt: skip
        assert isinstance(row, Row)
        json.dumps(row.metadata, allow_nan=False)

    def test_bad_rows_stop_nothing(self, tmp_path: Path) -> None:
        table = pa.table({"_id": ["a", None, "c", "d"], "title": [None, "T", None, "T"], "text": ["x", "y", None, "z"]})
        rows = parquet(tmp_path, table)
        assert [(type(row), row.number, row.document_id) for row in rows] == [
            (Row, 1, "a"), (BadRow, 2, None), (BadRow, 3, "c"), (Row, 4, "d"),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        ("column", "identifiers"),
        [
            (pa.array([7, 8]), ["7", "8"]),
            (pa.array([7.0, math.nan]), ["7.0", None]),
            (pa.array([b"a", b"\xff"]), ["a", None]),
            (pa.array([True, False]), [None, None]),
            (pa.array(["001", ""]), ["001", None]),
        ],
    )
    def test_ids_of_any_column_type(self, tmp_path: Path, column: pa.Array, identifiers: list[str | None]) -> None:
        table = pa.table({"_id": column, "title": ["", ""], "text": ["x", "y"]})
        assert ids(parquet(tmp_path, table)) == identifiers

    def test_text_that_is_not_utf8_loses_its_own_row_only(self, tmp_path: Path) -> None:
        broken = pa.array([b"x", b"\xff\xfe", b"z"]).view(pa.utf8())
        rows = parquet(tmp_path, pa.table({"_id": ["a", "b", "c"], "title": ["", "", ""], "text": broken}))
        assert [type(row) for row in rows] == [Row, BadRow, Row]
        assert isinstance(rows[1], BadRow)
        assert "not UTF-8" in rows[1].reason

    def test_times_that_python_cannot_hold_lose_their_own_row_only(self, tmp_path: Path) -> None:
        far = pa.array([0, 2**60], pa.timestamp("us"))
        rows = parquet(tmp_path, pa.table({"_id": ["a", "b"], "title": ["", ""], "text": ["x", "y"], "at": far}))
        assert [type(row) for row in rows] == [Row, BadRow]

    def test_many_row_groups_are_counted_through(self, tmp_path: Path) -> None:
        count = 1500
        table = pa.table({"_id": list(range(count)), "title": [""] * count, "text": ["x"] * count})
        rows = parquet(tmp_path, table, row_group_size=400)
        assert [row.number for row in rows] == list(range(1, count + 1))
        assert ids(rows) == [str(number) for number in range(count)]

    @pytest.mark.parametrize(("missing", "role"), [("_id", "id"), ("title", "title"), ("text", "text")])
    def test_a_missing_column_names_file_key_and_the_columns_there_are(
        self, tmp_path: Path, missing: str, role: str
    ) -> None:
        table = pa.table({name: ["x"] for name in ("_id", "title", "text") if name != missing} | {"other": [1]})
        with pytest.raises(SourceError) as error:
            parquet(tmp_path, table)
        for part in ("corpus.yaml", f"source.fields.{role}", "rows.parquet", repr(missing), "'other'"):
            assert part in str(error.value)

    @pytest.mark.parametrize("content", [b"", b"PAR1", b"plain text that is no table", b"PAR1" + b"\x00" * 100 + b"PAR1"])
    def test_a_damaged_file_is_a_read_error(self, tmp_path: Path, content: bytes) -> None:
        (tmp_path / "rows.parquet").write_bytes(content)
        corpus = make_corpus(tmp_path, "parquet")
        (item,) = list_items(corpus)
        with pytest.raises(SourceReadError, match=r"rows\.parquet: damaged, or not a Parquet file"):
            list(read_rows(corpus, item))

    def test_a_table_without_rows_gives_none(self, tmp_path: Path) -> None:
        empty = pa.table({name: pa.array([], pa.utf8()) for name in ("_id", "title", "text")})
        assert parquet(tmp_path, empty) == []


class TestValues:
    @pytest.mark.parametrize(
        ("value", "expected"),
        [
            (np.float64("nan"), None), (np.int64(3), 3), (np.array([1.5, np.inf]), [1.5, None]), (np.bool_(True), True),
            (time(1, 2), "01:02:00"), (timedelta(minutes=2), 120.0), ((1, b"x", "y"), [1, "y"]), ({"a": b"x"}, {}),
            ({1: "x"}, {"1": "x"}), (Decimal("NaN"), None), (Decimal("2E+3"), 2000),
        ],
    )  # fmt: skip
    def test_values_become_what_json_holds(self, value: Any, expected: Any) -> None:
        assert json_value(value) == expected

    def test_a_field_of_bytes_is_no_metadata(self) -> None:
        row = one_row({"_id": "a", "text": "x", "raw": b"\x00", "kept": 1})
        assert isinstance(row, Row)
        assert row.metadata == {"kept": 1}

    def test_one_column_may_serve_twice(self) -> None:
        assert one_row({"name": "a", "more": 1}, FieldMapping(id="name", text="name")) == Row(1, "a", None, "a", {"more": 1})
