"""The commands that look at snapshots, move between them, and keep house."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from rag_pipeline_tests.cli.test_command_line import run, run_json
from rag_pipeline_tests.conftest import Workspace

YAML = "source: {path: files}\nembedding: {provider: hash}\nevaluation: {queries: q.jsonl, qrels: q.tsv}\n"


@pytest.fixture(scope="module")
def twice(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    """A corpus with two snapshots."""
    workspace = Workspace(tmp_path_factory.mktemp("snapshots"))
    folder = workspace.corpus(yaml=YAML, files={"a.txt": "The lighthouse.", "b.txt": "The mill."})
    (folder / "q.jsonl").write_text('{"_id": "1", "text": "lighthouse"}\n')
    (folder / "q.tsv").write_text("query-id\tcorpus-id\tscore\n1\ta.txt\t1\n")
    run(workspace, "refresh", "docs")
    workspace.write("c.txt", "A second lighthouse.")
    run(workspace, "refresh", "docs")
    return workspace


def test_diff_shows_what_came_and_what_moved(twice: Workspace) -> None:
    found = run_json(twice, "diff", "docs", "1", "2")
    assert (found["documents_added"], found["chunks_added"], found["chunks_removed"]) == (["c.txt"], 1, 0)
    assert found["moved"][0]["query_id"] == "1"
    shown = run(twice, "diff", "docs", "1", "2").stdout
    assert "+ c.txt" in shown
    assert "ndcg@10" in shown
    assert found["comparisons"]["bm25"]["queries"] == 1
    assert "p is of a paired randomisation test" in shown


def test_diff_across_embedders_names_both(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    for dimensions in (32, 64):
        yaml = f"source: {{path: files}}\nembedding: {{provider: hash, dimensions: {dimensions}}}\n"
        workspace.corpus(yaml=yaml, files={"a.txt": "The lighthouse."})
        run(workspace, "refresh", "docs")
    shown = run(workspace, "diff", "docs", "1", "2").stdout
    assert re.search(r"embedder: before hash/.*\(32 dimensions\), after hash/.*\(64 dimensions\)", shown)
    found = run_json(workspace, "diff", "docs", "1", "2")
    assert "(32 dimensions)" in found["embedder_before"]
    assert "(64 dimensions)" in found["embedder_after"]


def test_evaluate_prints_the_figures_by_mode(twice: Workspace) -> None:
    found = run_json(twice, "evaluate", "docs")
    assert (found["corpus"], found["snapshot"]) == ("docs", 2)
    assert set(found["modes"]) == {"hybrid", "vector", "bm25"}
    assert set(found["modes"]["bm25"]) >= {"ndcg@10", "recall@100", "mrr@10", "queries"}
    assert (found["query_set"]["kind"], found["query_set"]["queries"]) == ("queries", 1)
    shown = run(twice, "evaluate", "docs", "--snapshot", "1").stdout
    assert "recall@100" in shown
    assert "1 query of" in shown
    assert "q.jsonl" in shown


def test_evaluate_asks_titles_and_headings_where_there_is_no_query_set(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.md": "# The lighthouse\n\nText.\n", "b.md": "# The mill\n\nText.\n"})
    run(workspace, "refresh", "docs")
    found = run_json(workspace, "evaluate", "docs")
    assert (found["query_set"]["kind"], found["query_set"]["queries"]) == ("known_items", 2)
    assert "2 known items" in run(workspace, "evaluate", "docs").stdout


def test_a_refused_candidate_fails_the_refresh_until_the_drop_is_accepted(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    folder = workspace.corpus(yaml=YAML, files={"a.txt": "The lighthouse.", "b.txt": "The mill."})
    (folder / "q.jsonl").write_text('{"_id": "1", "text": "lighthouse"}\n')
    (folder / "q.tsv").write_text("1\ta.txt\t1\n")
    run(workspace, "refresh", "docs")
    workspace.write("a.txt", "Another thing.")
    workspace.write("c.txt", "One lighthouse and a second lighthouse.")
    done = run(workspace, "refresh", "docs", check=1)
    head, figures, fell, remedy = done.stderr.splitlines()
    refused = "rag-pipeline: docs: nothing was published, a check failed: evaluation_no_step_back: "
    assert head.startswith(refused + "hybrid, 1 query, against snapshot 1: ndcg@10 1.000 -> 0.")
    assert head.endswith("; max_drop is 0.02.")
    assert figures.startswith("  ndcg@10 -0.")
    assert "1 worse, 0 better" in figures
    assert fell.startswith("  1 'lighthouse' ndcg@10 1.00 -> 0.")
    assert "`refresh --accept-drop` publishes it" in remedy
    shown = run(workspace, "refresh", "docs", "--accept-drop").stdout
    published, *_, evaluation, figures, fell, accepted = shown.splitlines()
    assert "snapshot 2 published" in published
    assert evaluation.startswith("  evaluation: hybrid, 1 query, against snapshot 1")
    assert (figures[:14], fell[:18]) == ("    ndcg@10 -0", "    1 'lighthouse'"), "indented under their line"
    assert accepted == "    Accepted: this refresh was started with --accept-drop."


def test_rollback_holds_until_release(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "First text."})
    run(workspace, "refresh", "docs")
    workspace.write("b.txt", "Second text.")
    run(workspace, "refresh", "docs")
    assert "served and held" in run(workspace, "rollback", "docs", "1").stdout
    workspace.write("c.txt", "Third text.")
    (report,) = run_json(workspace, "refresh", "docs")
    assert (report["status"], report["snapshot"]) == ("held", 1)
    assert len(run_json(workspace, "search", "docs", "text")["hits"]) == 1
    assert run_json(workspace, "release", "docs")["released"] is True
    (report,) = run_json(workspace, "refresh", "docs")
    assert (report["status"], report["snapshot"]) == ("published", 3)


def test_the_cache_is_shown_and_pruned(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    yaml = "source: {path: files}\nembedding: {provider: hash}\nsafety: {max_delete_fraction: 1.0}\n"
    folder = workspace.corpus(yaml=yaml, files={"a.txt": "One text.", "b.txt": "Another text."})
    run(workspace, "refresh", "docs")
    assert [table["vectors"] for table in run_json(workspace, "cache")["tables"]] == [2]
    (folder / "files" / "b.txt").unlink()
    run(workspace, "refresh", "docs")
    pruned = run_json(workspace, "cache", "--prune")
    assert (pruned["dropped"], pruned["tables"][0]["vectors"]) == (1, 1)
    (report,) = run_json(workspace, "refresh", "docs", "--full")
    assert report["embedded"] == 0
    name = pruned["tables"][0]["table"]
    assert run_json(workspace, "cache", "--drop", name)["tables"] == []
    assert "expected one of" in run(workspace, "cache", "--drop", name, check=2).stderr


def test_doctor_fix_deletes_what_a_killed_refresh_left(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "One text."})
    run(workspace, "refresh", "docs")
    (workspace.data / "docs" / "bm25" / ".postings-x.tmp").write_bytes(b"half")
    assert "doctor --fix" in run(workspace, "doctor").stdout
    assert run_json(workspace, "doctor", "--fix")["fixed"] == 1
    assert json.loads(run(workspace, "doctor", "--json").stdout)["findings"] == []


def test_a_second_refresh_at_the_same_time_is_told_to_wait(tmp_path: Path) -> None:
    from rag_pipeline.index.lock import RefreshLock

    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "One text."})
    lock = RefreshLock.acquire(workspace.context().store, "other")
    done = run(workspace, "refresh", "docs", check=1)
    assert "is being refreshed already by process" in done.stderr
    assert "--wait" in done.stderr
    lock.release()
    run(workspace, "refresh", "docs")


def test_evaluate_measures_rerankers_in_rows_of_their_own(twice: Workspace) -> None:
    found = run_json(twice, "evaluate", "docs", "--rerank", "late-interaction")
    assert set(found["modes"]) == {"hybrid", "vector", "bm25", "hybrid+late-interaction"}
    assert set(found["modes"]["hybrid+late-interaction"]) == set(found["modes"]["hybrid"])
    assert (found["fusion"]["method"], found["fusion"]["bm25_weight"], found["fusion"]["tuning"]) == ("auto", 0.85, None)
    done = run(twice, "evaluate", "docs", "--rerankers", "all-local")
    assert "hybrid+late-interaction" in done.stdout
    assert "hybrid: auto, weight of BM25 0.85" in done.stdout
    assert "hybrid+cross-encoder" in done.stdout or "cross-encoder is left out: " in done.stderr
    assert "magic" in run(twice, "evaluate", "docs", "--rerank", "magic", check=2).stderr
