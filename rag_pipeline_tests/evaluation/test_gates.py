"""A candidate is measured before it is published; one that answers worse is refused, unless somebody says it is meant."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline.errors import ConfigError, GateError, StoreError
from rag_pipeline.evaluation.results import read_results
from rag_pipeline.index.snapshot import read_manifest, release, rollback
from rag_pipeline.refresh import STAGES, refresh_snapshot
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.evaluation.worse import BASE, LENIENT, QUERY_SET, VERBS, corpus, lose_half


def versions(workspace: Workspace) -> dict[str, int]:
    store = workspace.context().store
    tables = {name: store.table(name) for name in ("evaluations", "query_vectors", "vectors", "documents")}
    return {name: table.version for name, table in tables.items() if table is not None}


def test_a_first_publication_is_measured_and_has_nothing_to_fall_behind(workspace: Workspace) -> None:
    corpus(workspace)
    report = workspace.refresh()["evaluation"]
    assert (report.kind, report.queries, report.searches) == ("queries", len(VERBS), 3 * len(VERBS))
    record = workspace.index().manifest.evaluation
    assert record is not None
    assert record.figures["bm25"]["ndcg@10"] == report.figures["bm25"]["ndcg@10"] == 1.0
    assert set(record.figures) == {"bm25", "vector", "hybrid"}
    assert record.accepted == ()


def test_figures_do_not_change_what_a_snapshot_is(workspace: Workspace) -> None:
    corpus(workspace)
    workspace.refresh()
    measured = workspace.index().manifest.hash
    workspace.corpus(yaml=BASE + LENIENT)
    workspace.refresh(full=True)
    assert (workspace.index().snapshot, workspace.index().manifest.hash) == (2, measured)


def test_with_nothing_changed_nothing_is_asked_or_written(workspace: Workspace) -> None:
    corpus(workspace)
    workspace.refresh()
    before = versions(workspace)
    report = workspace.refresh()["evaluation"]
    assert (report.searches, report.queries_embedded, report.queries) == (0, 0, len(VERBS))
    assert versions(workspace) == before


@pytest.mark.parametrize("harm", ["half of the documents", "stemmer"])
def test_a_worse_candidate_is_refused_and_the_queries_that_fell_are_named(workspace: Workspace, harm: str) -> None:
    folder = corpus(workspace)
    workspace.refresh()
    if harm == "stemmer":
        workspace.corpus(yaml=BASE + LENIENT + QUERY_SET + "lexical: {language: german}\n")
    else:
        lose_half(folder)
    for _ in range(2):  # the second refresh finds the figures in the store
        with pytest.raises(GateError, match=r"against snapshot 1: ndcg@10 1\.000 -> 0\.") as caught:
            workspace.refresh()
        assert "'installing' ndcg@10 1.00 -> 0.00" in str(caught.value)
        assert str(caught.value).count("ndcg@10 1.00 -> 0.00") == 5
        assert "--accept-drop" in str(caught.value)
        assert ("missing, so that nothing finds them: " in str(caught.value)) == (harm != "stemmer")
        assert workspace.index().snapshot == 1
        assert max(map(len, str(caught.value).splitlines())) < 150
    reports = workspace.refresh(accept_drop=True)
    assert reports["snapshot"].snapshot == 2
    assert reports["evaluation"].accepted
    (warning,) = reports["evaluation"].warnings
    assert warning.endswith("\n  Accepted: this refresh was started with --accept-drop.")
    assert "publishes it" not in warning, "no advice to do what was done"
    record = workspace.index().manifest.evaluation
    assert record is not None
    assert record.accepted[0] == warning.rpartition("\n")[0]
    assert "ndcg@10 1.000 -> 0." in record.accepted[0]


def test_what_was_accepted_once_is_no_reason_to_refuse_the_next_refresh(workspace: Workspace) -> None:
    folder = corpus(workspace, BASE + LENIENT + QUERY_SET.replace("mode", "gates: {ndcg@10: 0.9}, mode"))
    workspace.refresh()
    lose_half(folder)
    with pytest.raises(GateError, match=r"ndcg@10 0\.500 \(below 0\.9\)"):
        workspace.refresh()
    workspace.refresh(accept_drop=True)
    reports = workspace.refresh()
    assert not reports["snapshot"].published
    assert "Refuses nothing" in reports["evaluation"].warnings[0]


def test_an_absolute_gate_holds_for_the_first_publication_too(workspace: Workspace) -> None:
    folder = corpus(workspace, BASE + LENIENT + QUERY_SET.replace("mode", "gates: {recall@5: 0.6, mrr@3: 0.1}, mode"))
    lose_half(folder)
    with pytest.raises(GateError, match=r"recall@5 0\.500 \(below 0\.6\), mrr@3 0\.500 \(at least 0\.1\)"):
        workspace.refresh()
    with pytest.raises(StoreError, match="has no snapshot"):
        workspace.index()


def test_max_drop_says_how_far_figures_may_fall(workspace: Workspace) -> None:
    folder = corpus(workspace, BASE + LENIENT + QUERY_SET.replace("mode", "max_drop: 0.6, mode"))
    workspace.refresh()
    lose_half(folder)
    assert workspace.refresh()["snapshot"].published


def test_another_query_set_is_not_compared(workspace: Workspace) -> None:
    folder = corpus(workspace)
    workspace.refresh()
    lose_half(folder)
    (folder / "q.jsonl").write_text((folder / "q.jsonl").read_text().replace("installing", "installed"))
    assert workspace.refresh()["snapshot"].published


def test_the_snapshot_stage_refuses_by_itself(workspace: Workspace) -> None:
    """Somebody may materialise the asset alone, past the checks of another run."""
    folder = corpus(workspace)
    workspace.refresh()
    lose_half(folder)
    context = workspace.context()
    for name, run in STAGES.items():
        if name not in ("evaluation", "snapshot"):
            run(context)
    with pytest.raises(StoreError, match="was not evaluated"):
        refresh_snapshot(context)
    with pytest.raises(GateError):
        STAGES["evaluation"](context)
    with pytest.raises(GateError):
        refresh_snapshot(context)
    assert workspace.index().snapshot == 1


def test_while_a_rollback_holds_nothing_is_refused_and_after_release_it_is(workspace: Workspace) -> None:
    folder = corpus(workspace)
    workspace.refresh()
    rollback(workspace.context().store, 1)
    lose_half(folder)
    reports = workspace.refresh()
    assert reports["snapshot"].held
    assert "a rollback holds" in reports["evaluation"].warnings[0]
    release(workspace.context().store)
    with pytest.raises(GateError):
        workspace.refresh()


def test_results_of_dropped_snapshots_go(workspace: Workspace) -> None:
    corpus(workspace, BASE + LENIENT + QUERY_SET + "keep_snapshots: 2\n")
    hashes = []
    for number in range(4):
        workspace.write("extra.md", f"# Extra\n\nState {number}.\n")
        workspace.refresh()
        hashes.append(workspace.index().manifest.hash)
    store = workspace.context().store
    query_set = read_manifest(store).evaluation
    assert query_set is not None
    kept = [read_results(store, content, "queries", query_set.query_set) is not None for content in hashes]
    assert kept == [False, False, True, True]


KNOWN = BASE + LENIENT


def cut_texts(folder: Path, part: slice) -> None:
    """What a parser that fails on half of the pages would leave."""
    for file in sorted((folder / "files").iterdir())[part]:
        file.write_text("Nothing could be read here.\n")


def test_without_a_query_set_titles_and_headings_are_asked(workspace: Workspace) -> None:
    corpus(workspace, KNOWN)
    report = workspace.refresh()["evaluation"]
    assert (report.kind, report.queries) == ("known_items", len(VERBS))
    assert report.figures["hybrid"]["ndcg@10"] > 0.9
    assert workspace.refresh()["evaluation"].searches == 0


def test_known_items_refuse_what_loses_half_of_its_text(workspace: Workspace) -> None:
    folder = corpus(workspace, KNOWN)
    workspace.refresh()
    cut_texts(folder, slice(None, None, 2))
    with pytest.raises(GateError, match="24 known items, against snapshot 1"):
        workspace.refresh()
    assert workspace.index().snapshot == 1
    assert workspace.refresh(accept_drop=True)["snapshot"].published


def test_ordinary_edits_pass_the_known_items(workspace: Workspace) -> None:
    folder = corpus(workspace, KNOWN)
    workspace.refresh()
    workspace.write("p01.md", "# Account of what went public\n\nOther words, and another heading.\n")
    assert workspace.refresh()["snapshot"].snapshot == 2
    (folder / "files").rename(folder / "moved")
    (folder / "files").mkdir()
    (folder / "moved").rename(folder / "files" / "moved")
    report = workspace.refresh()["evaluation"]
    assert report.warnings == ()
    assert workspace.index().snapshot == 3


def test_documents_that_came_a_second_time_are_no_step_back(workspace: Workspace) -> None:
    folder = corpus(workspace, KNOWN)
    workspace.refresh()
    shutil.copytree(folder / "files", folder / "files" / "again")
    report = workspace.refresh()["evaluation"]
    assert (report.warnings, workspace.index().snapshot) == ((), 2)
    assert {figures["recall@10"] for figures in report.figures.values()} == {1.0}


def test_known_items_are_asked_again_when_a_twentieth_has_changed_since(workspace: Workspace) -> None:
    """One page of 24 is less, two are more, be they edited in one refresh or in two."""
    corpus(workspace, KNOWN)
    first = workspace.refresh()["evaluation"]
    workspace.write("p01.md", "# Account number 1 of the published things\n\nOther words.\n")
    second = workspace.refresh()["evaluation"]
    assert (second.searches, second.figures) == (0, first.figures)
    assert second.drift == pytest.approx(1 / 24, abs=1e-6)
    index = workspace.index()
    assert index.snapshot == 2
    assert index.manifest.evaluation is not None
    assert index.manifest.evaluation.content == read_manifest(workspace.context().store, 1).hash
    workspace.write("p02.md", "# Account number 2 of the restored things\n\nOther words.\n")
    third = workspace.refresh()["evaluation"]
    assert third.searches > 0
    assert third.drift == 0


def test_known_items_are_asked_again_when_a_setting_changed(workspace: Workspace) -> None:
    folder = corpus(workspace, KNOWN)
    workspace.refresh()
    (folder / "corpus.yaml").write_text(KNOWN + "lexical: {language: german}\n")
    assert workspace.refresh()["evaluation"].searches > 0


def test_figures_taken_over_outlive_the_snapshot_they_were_measured_on(workspace: Workspace) -> None:
    corpus(workspace, KNOWN + "keep_snapshots: 1\n")
    workspace.refresh()
    workspace.write("p01.md", "# Account number 1 of the published things\n\nOther words.\n")
    workspace.refresh()
    assert workspace.refresh()["evaluation"].searches == 0


@pytest.mark.parametrize(("allowed", "refused"), [("1.0", False), ("0.3", True)])
def test_known_items_of_removed_documents_count_when_more_went_than_the_limit_on_deletions(
    workspace: Workspace, allowed: str, refused: bool
) -> None:
    folder = corpus(workspace, BASE + f"safety: {{max_delete_fraction: {allowed}}}\n")
    workspace.refresh()
    lose_half(folder)

    def again() -> Any:
        return workspace.refresh(allow_deletes=True)

    if refused:
        with pytest.raises(GateError, match="12 of their 24 documents removed"):
            again()
    else:
        assert again()["snapshot"].published


def test_few_known_items_refuse_nothing(workspace: Workspace) -> None:
    files = {name: f"# Heading {name}\n\nText of {name}.\n" for name in ("alpha", "beta", "gamma")}
    workspace.corpus(yaml=KNOWN + "evaluation: {max_drop: 0.01}\n", files={f"{name}.md": files[name] for name in files})
    workspace.refresh()
    for name in files:
        workspace.write(f"{name}.md", f"Nothing {len(name)}.\n")
    reports = workspace.refresh()
    assert reports["snapshot"].published
    assert "too few" in reports["evaluation"].warnings[0]


def test_a_corpus_without_titles_has_nothing_to_ask_and_is_published(workspace: Workspace) -> None:
    workspace.corpus(yaml=KNOWN, files={"a.txt": "One plain text.\n"})
    assert workspace.refresh()["evaluation"].queries == 0
    before = versions(workspace)
    workspace.refresh()
    assert versions(workspace) == before


@pytest.mark.parametrize(
    ("evaluation", "words"),
    [
        ("{queries: q.jsonl}", ["evaluation", "expected qrels beside queries"]),
        ("{gates: {ndcg@10: 0.5}}", ["gates need a query set", "max_drop works without"]),
        ("{queries: a, qrels: b, gates: {ndgc@10: 0.5}}", ["ndgc@10", "ndcg@K, recall@K, precision@K, mrr@K, map@K"]),
        ("{queries: a, qrels: b, gates: {recall@1000: 0.5}}", ["recall@1000", "K from 1 to 100"]),
        ("{queries: a, qrels: b, gates: {ndcg@10: 60}}", ["gates", "less than or equal to 1", "60"]),
        ("{max_drop: -1}", ["max_drop", "greater than or equal to 0"]),
        ("{mode: rerank}", ["mode", "bm25"]),
    ],
)
def test_bad_gates_are_refused_with_what_was_expected(workspace: Workspace, evaluation: str, words: list[str]) -> None:
    workspace.corpus(yaml=f"source: {{path: files}}\nevaluation: {evaluation}\n")
    with pytest.raises(ConfigError) as caught:
        workspace.config()
    assert all(word in str(caught.value) for word in words), str(caught.value)
