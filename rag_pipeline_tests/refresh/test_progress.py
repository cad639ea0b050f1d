"""Progress: what is done, how fast, what is left, what is at work and what failed; quick stages stay quiet."""

from __future__ import annotations

import pytest

from rag_pipeline.refresh.progress import Lines, Meter, Several, readable_bytes, readable_seconds
from rag_pipeline_tests.conftest import Workspace


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


def test_a_line_tells_files_bytes_rate_time_left_failures_and_the_file_at_work() -> None:
    clock = Clock()
    meter = Meter("docs/documents", 4000, "items", 40_000_000, clock)
    clock.now += 10
    meter.advance(1000, "guide/chapter 1.md", 10_000_000, 3)
    assert meter.line() == (
        "docs/documents: 1,000 of 4,000 items, 10.0 MB of 40.0 MB, 100 items/s, 30 s left, 3 failed, at guide/chapter 1.md"
    )


def test_the_time_left_goes_by_bytes_where_they_are_known() -> None:
    clock = Clock()
    meter = Meter("docs/documents", 2, "items", 100, clock)
    clock.now += 10
    meter.advance(1, "large.pdf", 90, 0)
    assert meter.seconds_left == pytest.approx(10 / 9)


def test_with_no_total_nothing_is_foretold() -> None:
    clock = Clock()
    meter = Meter("docs/vector_table", None, "rows", None, clock)
    clock.now += 2
    meter.advance(10, "", 0, 0)
    assert meter.line() == "docs/vector_table: 10 rows, 5 rows/s"


def test_a_slow_rate_is_not_none() -> None:
    clock = Clock()
    meter = Meter("docs/documents", None, "items", None, clock)
    clock.now += 20
    meter.advance(8, "", 0, 0)
    assert meter.line() == "docs/documents: 8 items, 0.4 items/s"


def test_control_characters_of_file_names_do_not_reach_a_log() -> None:
    meter = Meter("docs/documents", 2, "items", None, Clock())
    meter.advance(1, "a\nb\x1b[31m.md", 1, 0)
    assert "at a?b?[31m.md" in meter.line()


def test_lines_come_every_so_many_seconds_and_quick_stages_say_nothing() -> None:
    clock, said = Clock(), list[str]()
    lines = Lines(said.append, every=30, clock=clock)
    lines.begin("docs", "documents", 3, "items")
    lines.advance(1, "a.md")
    lines.end("3 documents")
    assert said == []
    lines.begin("docs", "chunks", 3, "documents")
    for _ in range(3):
        clock.now += 29
        lines.advance(1)
    lines.end("9 chunks")
    assert [line.split(",")[0] for line in said] == ["docs/chunks: 2 of 3 documents", "docs/chunks: 9 chunks (87.0 s)"]


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (3400, "3.4 kB"), (7.2e9, "7.2 GB"), (5e15, "5000.0 TB")]
)
def test_bytes_for_people(count: float, text: str) -> None:
    assert readable_bytes(int(count)) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "0 s"), (59.4, "59 s"), (200, "3 min 20 s"), (7500, "2 h 5 min")])
def test_seconds_for_people(seconds: float, text: str) -> None:
    assert readable_seconds(seconds) == text


def test_a_refresh_tells_bytes_and_failures_of_the_source(workspace: Workspace) -> None:
    workspace.corpus(
        yaml="source: {path: files}\nembedding: {provider: hash}\nsafety: {max_failed_fraction: 1.0}\n",
        files={"a.md": "# A\n\nText.\n", "b.md": "# B\n\nMore text.\n"},
    )
    (workspace.corpora / "docs" / "files" / "c.md").write_bytes(b"\x89PNG\r\n\x1a\n\x00\x00")
    clock, said = Clock(), list[str]()
    lines = Lines(said.append, every=-1, always_end=True, clock=clock)
    workspace.refresh(reporter=Several([lines]))
    read = [line for line in said if line.startswith("docs/documents") and "items" in line]
    assert "3 of 3 items, 37 B of 37 B" in read[-1]
    assert "1 failed" in read[-1]
    assert any(line.startswith("docs/snapshot: snapshot 1 is served") for line in said)
