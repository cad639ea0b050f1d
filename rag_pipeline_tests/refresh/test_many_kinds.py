"""Documents of many kinds in one corpus: pages reach hits and filters, losses and refusals are told, order is kept."""

from __future__ import annotations

import contextlib
import json
import os
import random
import resource
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from rag_pipeline.refresh.checks import check_documents_readable
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.parsing.documents import (
    Pdf,
    archive,
    book,
    cell,
    cells,
    flate_bomb_pdf,
    ole2,
    open_document,
    paragraph,
    shape,
    slides,
    word,
    workbook,
)

YAML = "source: {path: files}\nembedding: {provider: hash}\nsafety: {max_failed_fraction: 0.9}\nparsing: {seconds: 2}\n"

MIXED: dict[str, str | bytes] = {
    "a.md": "# Apples\n\nRed apples are sweet.\n",
    "b.pdf": Pdf().lines("Bread is baked.").lines("Butter is churned.").outline(("Dairy", 2)).write(),
    "c.pptx": slides(shape("Cheese", kind="title"), shape("Dates", kind="title") + shape("Dates grow on palms.")),
    "d.xlsx": workbook({"Eggs": cells([("Size", "Price"), ("Large", 4)])}),
    "e.txt": "Figs are dried.",
    "f.docx": word(paragraph("Grapes", "Heading1") + paragraph("Wine is made of them.")),
    "g.html": "<html><body><h1>Honey</h1><p>Bees make it.</p></body></html>",
}


def test_pages_sheets_and_slides_are_shown_by_hits_and_filtered_by(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML, files=MIXED)
    workspace.refresh()
    index = workspace.index()
    (butter,) = index.search("butter", mode="bm25", where="page = 2 AND path LIKE '%.pdf'")
    assert (butter.source, butter.page, butter.heading_path) == ("b.pdf", 2, "Dairy")
    (dates,) = index.search("palms", mode="bm25", where="page = 2")
    assert (dates.source, dates.page, dates.heading_path) == ("c.pptx", 2, "Dates")
    (eggs,) = index.search("large", mode="bm25", where="heading_path = 'Eggs'")
    assert (eggs.source, eggs.page) == ("d.xlsx", 1)
    assert "Size | Price" in eggs.text
    assert index.search("wine", mode="bm25", where="page IS NULL")[0].source == "f.docx"


def test_what_is_lost_of_a_document_is_told_by_every_refresh_and_the_check(workspace: Workspace) -> None:
    workspace.corpus(yaml=YAML, files={**MIXED, "h.pdf": Pdf().lines("Ice is cold and slippery.").picture().write()})
    for _ in range(2):
        (incomplete,) = workspace.refresh()["documents"].incomplete
        assert (incomplete.source, incomplete.reason) == ("h.pdf", "page 2: pictures without text (see parsing.ocr)")
    outcome = check_documents_readable(workspace.context())
    assert outcome.passed
    assert outcome.numbers == {"unreadable": 0, "incomplete": 1}
    assert "h.pdf: page 2: pictures without text" in outcome.description


def test_another_function_or_limit_reads_documents_anew(workspace: Workspace) -> None:
    files = {**MIXED, "h.pdf": Pdf().lines("Ice is cold and slippery.").picture().write()}
    workspace.corpus(yaml=YAML, files=files)
    workspace.refresh()
    workspace.corpus(yaml=YAML.replace("{seconds: 2}", "{ocr: 'rag_pipeline_tests.parsing.bad_readers:chat'}"))
    report = workspace.refresh()["documents"]
    assert (report.items_read, report.changed, report.incomplete) == (len(files), 1, ())
    assert workspace.index().search("recognised", mode="bm25", where="page = 2")[0].source == "h.pdf"


def test_the_documents_table_is_the_same_whichever_worker_was_first(workspace: Workspace) -> None:
    shuffled = list(MIXED.items())
    random.Random(7).shuffle(shuffled)
    for name, workers, files in (("one", 1, MIXED), ("two", 3, dict(shuffled))):
        workspace.corpus(name, YAML.replace("seconds: 2", f"seconds: 2, workers: {workers}"), files)
        workspace.refresh(name)
    rows = [workspace.context(name).store.table("documents").to_arrow().to_pylist() for name in ("one", "two")]
    assert [row["document_id"] for row in rows[0]] == sorted(MIXED)
    assert [row["document_hash"] for row in rows[0]] == [row["document_hash"] for row in rows[1]]


REFUSED: dict[str, tuple[bytes, str]] = {
    "abort.xlsx": (
        workbook({"S": f'<row r="1048576">{cell("XFD1048576", 1)}</row>'}),
        "it reaches to row 1,048,576",
    ),
    "bomb.docx": (word(paragraph("x"), members={"word/footnotes.xml": " " * 40_000_000}), "zip bomb"),
    "bomb.pdf": (flate_bomb_pdf(600), "memory"),
    "empty.pdf": (b"", "empty file (0 bytes)"),
    "hang.rst": (b"*a " * 200_000, "reading it takes more than"),
    "kids.pdf": (
        Pdf().lines("x").write().replace(b"/Kids [5 0 R] /Count 1", b"/Kids [" + b"5 0 R " * 200_000 + b"] /Count 200000"),
        "says that it has 200,000 pages",
    ),
    "laughs.epub": (
        book(
            {"a.xhtml": "x"},
            members={
                "META-INF/container.xml": "<!DOCTYPE a [<!ENTITY l0 'lol'>"
                + "".join(f"<!ENTITY l{n} '{f'&l{n - 1};' * 10}'>" for n in range(1, 10))
                + "]><a>&l9;</a>"
            },
        ),
        "limit on input amplification",
    ),
    "locked.xlsx": (ole2("EncryptedPackage"), "password-protected"),
    "nested.odt": (
        open_document(f"<office:text><text:p>{'<text:span>' * 50_000}x{'</text:span>' * 50_000}</text:p></office:text>"),
        "nested too deeply",
    ),
    "scan.pdf": (Pdf().picture().write(), "scan without text"),
    "packed.zip": (archive({"a.txt": "words"}), "ZIP archive"),
    "truncated.docx": (word(paragraph("x"))[:500], "damaged or truncated"),
}


def memory_with_workers(pid: int) -> int:
    """Bytes that a process and its children hold just now."""
    total = 0
    with contextlib.suppress(OSError):  # one of them has just ended
        children = [one for task in Path(f"/proc/{pid}/task").iterdir() for one in (task / "children").read_text().split()]
        for one in (str(pid), *children):
            total += int(Path(f"/proc/{one}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    return total


@pytest.mark.slow
def test_hostile_files_among_a_thousand_cost_themselves_and_nothing_else(workspace: Workspace) -> None:
    good = {f"good/{kind[0]}{number:04}{kind[1:]}": data for number in range(143) for kind, data in MIXED.items()}
    folder = workspace.corpus(yaml=YAML, files={**good, **{path: data for path, (data, _) in REFUSED.items()}})
    program = f"""
        import json
        from pathlib import Path
        from rag_pipeline.corpus_files import load_corpus
        from rag_pipeline.refresh import STAGES, RefreshContext
        context = RefreshContext(corpus=load_corpus(Path({str(folder)!r})), data_root=Path({str(workspace.data)!r}))
        reports = {{stage: run(context) for stage, run in STAGES.items()}}
        documents = reports["documents"]
        print(json.dumps([documents.total, {{one.source: one.reason for one in documents.failures}}]))
    """
    output, peak = workspace.root / "output.json", 0
    with output.open("w") as written:
        process = subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=written)
        while process.poll() is None:
            peak = max(peak, memory_with_workers(process.pid))
            time.sleep(0.02)
    assert process.returncode == 0
    total, failures = json.loads(output.read_text())
    assert total == len(good) == 1001
    assert failures.keys() == REFUSED.keys()
    assert all(reason in failures[path] for path, (_, reason) in REFUSED.items())
    assert peak < 2 * 10**9
    assert resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss < 2 * 1024**2
