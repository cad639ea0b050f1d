"""What a refresh needs from outside of its store is looked at before anything is read, embedded or paid for."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from rag_pipeline.errors import ConfigError
from rag_pipeline.refresh import refresh_documents
from rag_pipeline.refresh.inputs import examine_inputs
from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.refresh.test_refresh import HASHED, PAGES

JUDGED = HASHED + "evaluation: {queries: queries.jsonl, qrels: qrels.tsv}\n"


def no_queries(folder: Path) -> str:
    (folder / "queries.jsonl").unlink()
    return "queries.jsonl: cannot be read: No such file"


def no_qrels(folder: Path) -> str:
    (folder / "qrels.tsv").unlink()
    return "qrels.tsv: cannot be read: No such file"


def broken_line(folder: Path) -> str:
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "apples"}\n{"_id": 2')
    return 'queries.jsonl:2: expected {"_id"'


def nothing_judged(folder: Path) -> str:
    (folder / "qrels.tsv").write_text("other\ta.md\t1\n")
    return "no query of queries has a relevant document in qrels"


@pytest.fixture
def judged(workspace: Workspace) -> Workspace:
    folder = workspace.corpus(yaml=JUDGED, files=PAGES)
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "red apples"}\n')
    (folder / "qrels.tsv").write_text("1\ta.md\t1\n")
    return workspace


@pytest.mark.parametrize("damage", [no_queries, no_qrels, broken_line, nothing_judged])
def test_a_faulty_query_set_stops_a_refresh_before_an_item_is_read(judged: Workspace, damage: Callable[[Path], str]) -> None:
    fault = damage(judged.corpora / "docs")
    with pytest.raises(ConfigError) as raised:
        refresh_documents(judged.context())
    assert fault in str(raised.value)
    assert not judged.data.exists()


@pytest.mark.parametrize("damage", [no_queries, no_qrels, broken_line, nothing_judged])
def test_a_dry_run_and_doctor_tell_of_a_faulty_query_set(judged: Workspace, damage: Callable[[Path], str]) -> None:
    fault = damage(judged.corpora / "docs")
    stops = plan_refresh(judged.context(dry_run=True)).stops
    assert stops is not None
    assert fault in stops
    (finding,) = examine_inputs(judged.config())
    assert (finding.corpus, finding.severity, fault in finding.message) == ("docs", "error", True)


def test_a_sound_source_and_query_set_give_no_finding(judged: Workspace) -> None:
    assert examine_inputs(judged.config()) == []
    assert plan_refresh(judged.context(dry_run=True)).stops is None


@pytest.mark.parametrize(
    ("source", "fault"),
    [
        ("{path: nowhere}", "does not exist"),
        ("{path: files, include: ['*.rst']}", "lists no item; check path, include and exclude"),
        ("{path: files, exclude: ['**']}", "lists no item; check path, include and exclude"),
    ],
)
def test_doctor_tells_of_a_source_that_cannot_be_listed_or_is_empty(workspace: Workspace, source: str, fault: str) -> None:
    workspace.corpus(yaml=f"source: {source}\n", files=PAGES)
    (finding,) = examine_inputs(workspace.config())
    assert (finding.severity, fault in finding.message) == ("error", True)
    assert "source.path" in finding.message


def test_a_source_and_a_query_set_are_both_reported(workspace: Workspace) -> None:
    workspace.corpus(yaml=JUDGED.replace("path: files", "path: nowhere"))
    assert len(examine_inputs(workspace.config())) == 2
