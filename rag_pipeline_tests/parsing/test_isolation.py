"""What a reader does to its process costs one document; nothing is left behind, whatever happens to the parent."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from rag_pipeline.config import ParsingConfig
from rag_pipeline.errors import ConfigError, ParseError
from rag_pipeline.parsing import Parsers, isolation, parse
from rag_pipeline_tests.parsing.documents import Pdf, book, cells, flate_bomb_pdf, paragraph, word, workbook

SCAN = Pdf().picture().write()
GOOD = Pdf().lines("It sails at noon.").write()
PYTHON = [sys.executable]

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="limits and signals are those of POSIX")


def config(function: str = "", **options: int) -> ParsingConfig:
    ocr = f"rag_pipeline_tests.parsing.bad_readers:{function}" if function else None
    return ParsingConfig.model_validate({"ocr": ocr, "workers": 1, "seconds": 1, **options})


def outcome(parsers: Parsers, data: bytes, path: str) -> str:
    try:
        return parsers.submit(data, path).result().text
    except ParseError as error:
        return str(error)


@pytest.mark.parametrize(
    ("path", "data"),
    [
        ("a.pdf", GOOD), ("a.docx", word(paragraph("Fares", "Heading1") + paragraph("Adults pay."), title="T")),
        ("a.xlsx", workbook({"S": cells([("Who", "Price"), ("Adult", 2)])})), ("a.epub", book({"a.xhtml": "<p>x</p>"})),
        ("a.html", b"<html><body><h1>A</h1><p>x</p></body></html>"), ("a.rst", b"A\n=\n\nx\n"), ("a.md", b"# A\n\nx\n"),
    ],
)  # fmt: skip
def test_a_worker_gives_what_parsing_here_gives(path: str, data: bytes) -> None:
    with Parsers(config()) as parsers:
        assert parsers.submit(data, path).result() == parse(data, path)


@pytest.mark.parametrize(
    ("function", "reason"),
    [
        ("hang", "reading it takes more than 1 s of processor time, or hangs"),
        ("crash", "its reader crashed (SIGSEGV)"),
        ("abort", "its reader was ended by SIGABRT, most likely because it wanted too much memory"),
        ("kill", "its reader was ended by SIGKILL, most likely because it wanted too much memory"),
        ("leave", "its reader failed: out of order"),
        ("eat", "reading it needs more than 768 MB of memory"),
    ],
)
def test_a_reader_that_dies_costs_its_document_and_says_how(function: str, reason: str) -> None:
    with Parsers(config(function)) as parsers:
        started = [parsers.submit(data, "a.pdf") for data in (GOOD, SCAN, GOOD)]
        assert started[0].result().text == "It sails at noon."
        with pytest.raises(ParseError) as error:
            started[1].result()
        assert reason in str(error.value)
        assert started[2].result().text == "It sails at noon."


def test_the_kernel_limits_the_processor_time_of_each_document() -> None:
    with Parsers(config("processor_limit")) as parsers:
        told = re.search(r"May compute for (\d+) seconds", outcome(parsers, SCAN, "a.pdf"))
    assert told is not None, "there is no limit"
    assert 2 <= int(told[1]) < 30  # what the worker has used, the second that is configured, and one more


def test_a_reader_that_sleeps_is_ended_by_the_clock() -> None:
    before = time.monotonic()
    with Parsers(config("sleep")) as parsers:
        assert "or hangs" in outcome(parsers, SCAN, "a.pdf")
    assert time.monotonic() - before < 30


def test_what_an_earlier_document_left_behind_does_not_count() -> None:
    with Parsers(config("die_second")) as parsers:
        assert [outcome(parsers, SCAN, path) for path in ("a.pdf", "b.pdf", "c.pdf")] == [
            f"words of {path}" for path in ("a.pdf", "b.pdf", "c.pdf")
        ]


def test_what_a_library_prints_does_not_get_among_the_answers() -> None:
    with Parsers(config("chat")) as parsers:
        assert outcome(parsers, SCAN, "a.pdf") == "words that were recognised"


def test_a_page_that_unpacks_to_more_than_the_memory_is_refused() -> None:
    with Parsers(config(seconds=10, memory_mb=256)) as parsers:
        assert "memory" in outcome(parsers, flate_bomb_pdf(250), "a.pdf")
        assert outcome(parsers, GOOD, "b.pdf") == "It sails at noon."


def test_workers_are_started_for_risky_files_only() -> None:
    wrong = ParsingConfig(ocr="no_such_module:function")
    with Parsers(wrong) as parsers:
        assert parsers.submit(b"# A\n\nx\n", "a.md").result().title == "A"
        with pytest.raises(ConfigError, match=r"parsing\.ocr: no_such_module:function: No module named"):
            parsers.submit(GOOD, "a.pdf").result()


def test_documents_that_fail_do_not_hold_up_the_others() -> None:
    with Parsers(config("hang", workers=2, seconds=60)) as parsers:
        hanging = parsers.submit(SCAN, "a.pdf")
        assert [parsers.submit(GOOD, "b.pdf").result().text for _ in range(5)] == ["It sails at noon."] * 5
        assert not hanging.ready()


def test_leaving_ends_workers_that_are_busy() -> None:
    before = time.monotonic()
    with Parsers(config("hang", seconds=60)) as parsers:
        parsers.submit(SCAN, "a.pdf")
        parsers.submit(SCAN, "b.pdf")
        time.sleep(1)
    assert time.monotonic() - before < 20
    assert workers_of(os.getpid()) == []


BUSY_PARENT = """
import sys, time
from rag_pipeline.config import ParsingConfig
from rag_pipeline.parsing import Parsers
from rag_pipeline_tests.parsing.documents import Pdf
with Parsers(ParsingConfig(workers=2, seconds=60, ocr="rag_pipeline_tests.parsing.bad_readers:hang")) as parsers:
    started = [parsers.submit(Pdf().picture().write(), "a.pdf") for _ in range(2)]
    print("busy", flush=True)
    started[0].result()
"""


def workers_of(parent: int) -> list[int]:
    """Living children that are workers, by /proc."""
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            status = (folder / "stat").read_text().rpartition(")")[2].split()
            if int(status[1]) == parent and b"parsing.worker" in (folder / "cmdline").read_bytes():
                found.append(int(folder.name))
        except OSError:  # it ended while we looked
            continue
    return found


def is_running(process: int) -> bool:
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are looked up in /proc")
@pytest.mark.parametrize("name", ["SIGKILL", "SIGINT", "SIGTERM"])
def test_busy_workers_end_with_their_parent(name: str) -> None:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    with subprocess.Popen(
        [*PYTHON, "-c", BUSY_PARENT], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
    ) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"busy\n"
        deadline = time.monotonic() + 30
        while len(workers := workers_of(parent.pid)) < 2 and time.monotonic() < deadline:
            time.sleep(0.05)
        assert len(workers) == 2
        time.sleep(0.5)
        parent.send_signal(getattr(signal, name))
        parent.wait(30)
        deadline = time.monotonic() + 10
        while any(map(is_running, workers)) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert not any(map(is_running, workers))


def test_a_script_without_a_guard_may_use_it(tmp_path: Path) -> None:
    script = tmp_path / "script.py"
    script.write_text(
        "from rag_pipeline.config import ParsingConfig\nfrom rag_pipeline.parsing import Parsers\n"
        "print('once')\nwith Parsers(ParsingConfig()) as parsers:\n"
        "    print(parsers.submit(b'<html><p>It sails.</p></html>', 'a.html').result().text)\n"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([*PYTHON, str(script)], env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == "once\nIt sails.\n"


def test_a_harmless_reader_that_fails_costs_its_document(monkeypatch: pytest.MonkeyPatch) -> None:
    def failing(data: bytes, path: str) -> None:
        raise ZeroDivisionError("division by zero")

    monkeypatch.setattr(isolation, "parse", failing)
    with Parsers(config()) as parsers:
        assert outcome(parsers, b"text", "a.md") == "its reader failed: ZeroDivisionError: division by zero"
