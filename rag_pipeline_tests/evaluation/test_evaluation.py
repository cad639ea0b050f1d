"""Query sets are read strictly, every judged query counts, and two snapshots are compared by what they answer."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rag_pipeline.cli import main
from rag_pipeline.errors import ConfigError, QueryError
from rag_pipeline.evaluation import compare_snapshots, evaluate, load_query_set, measured
from rag_pipeline.evaluation.asking import ask
from rag_pipeline.evaluation.results import read_results
from rag_pipeline_tests.conftest import Workspace

YAML = (
    "source: {path: files}\nembedding: {provider: hash}\nsafety: {max_delete_fraction: 1.0}\n"
    "evaluation: {queries: queries.jsonl, qrels: qrels.tsv}\n"
)
PAGES = {"001.txt": "The lighthouse at the cape.", "002.txt": "The mill by the river.", "003.txt": "A quiet harbour."}
QUERIES = [{"_id": "q1", "text": "lighthouse cape"}, {"_id": "q2", "text": "xylophone"}, {"_id": "q3", "text": "not judged"}]
QRELS = "query-id\tcorpus-id\tscore\nq1\t001.txt\t1\nq2\t002.txt\t1\nq9\t001.txt\t1\n"


def prepared(workspace: Workspace, qrels: str = QRELS, queries: str | None = None) -> Workspace:
    folder = workspace.corpus(yaml=YAML, files=PAGES)
    (folder / "queries.jsonl").write_text(queries or "".join(json.dumps(query) + "\n" for query in QUERIES))
    (folder / "qrels.tsv").write_text(qrels)
    return workspace


def test_only_judged_queries_count_and_each_of_them_does(workspace: Workspace) -> None:
    prepared(workspace).refresh()
    figures = evaluate(workspace.index(), load_query_set(workspace.config())).modes["bm25"]
    assert (figures.queries, figures.ndcg_at_10, figures.mrr_at_10, figures.recall_at_100) == (2, 0.5, 0.5, 0.5)


def test_hits_are_folded_to_documents_by_their_best_chunk(workspace: Workspace) -> None:
    prepared(workspace)
    workspace.write("002.txt", "\n\n".join(f"Paragraph {n} about the mill and the river, number {n}." for n in range(400)))
    workspace.corpus(yaml=YAML + "chunking: {size: 16, overlap: 0}\n")
    workspace.refresh()
    figures = evaluate(workspace.index(), load_query_set(workspace.config())).modes["vector"]
    assert figures.recall_at_100 == 1.0


@pytest.mark.parametrize(
    ("qrels", "queries", "words"),
    [
        ("q1 001.txt 1\n", None, ["qrels.tsv:1", "separated by tabs"]),
        ("q1\t001.txt\tgood\n", None, ["qrels.tsv:1", "whole number"]),
        (QRELS, '{"_id": "q1"}\n', ["queries.jsonl:1", '"text"']),
        (QRELS, "not json\n", ["queries.jsonl:1"]),
        ("q1\t001.txt\t0\n", None, ["no query", "relevant document"]),
    ],
)
def test_a_broken_query_set_is_told_with_file_and_line(
    workspace: Workspace, qrels: str, queries: str | None, words: list[str]
) -> None:
    prepared(workspace, qrels, queries)
    with pytest.raises(ConfigError) as caught:
        load_query_set(workspace.config())
    assert all(word in str(caught.value) for word in words), str(caught.value)


def test_a_missing_query_set_is_told(workspace: Workspace) -> None:
    workspace.corpus()
    with pytest.raises(ConfigError, match="evaluation: no query set"):
        load_query_set(workspace.config())


def test_a_difference_names_documents_chunks_queries_and_figures(workspace: Workspace) -> None:
    prepared(workspace).refresh()
    files = workspace.corpora / "docs" / "files"
    (files / "003.txt").unlink()
    workspace.write("001.txt", "Nothing stands at that place.")
    workspace.write("004.txt", "A lighthouse elsewhere.")
    workspace.refresh(accept_drop=True)
    difference = compare_snapshots(workspace.index(snapshot=1), workspace.index(), load_query_set(workspace.config()))
    assert (difference.documents_added, difference.documents_changed, difference.documents_removed) == (
        ("004.txt",),
        ("001.txt",),
        ("003.txt",),
    )
    assert (difference.chunks_added, difference.chunks_removed) == (2, 2)
    assert {moved.query_id for moved in difference.moved} == {"q1", "q2"}
    assert difference.figures is not None
    before, after = difference.figures
    assert before.modes["bm25"].ndcg_at_10 > after.modes["bm25"].ndcg_at_10


def test_the_handbooks_queries_find_their_pages(tmp_path: Path) -> None:
    """The sample corpus is the documentation: people must find in it what they ask for."""
    from rag_pipeline.corpus_files import load_corpus
    from rag_pipeline.query import Index
    from rag_pipeline.refresh import STAGES, RefreshContext

    folder = Path(__file__).resolve().parents[2] / "corpora" / "handbook"
    context = RefreshContext(load_corpus(folder), tmp_path)
    for run in STAGES.values():
        run(context)
    queries = load_query_set(context.corpus)
    assert len(queries.queries) >= 40
    figures = evaluate(Index.open("handbook", data=tmp_path), queries).modes
    assert figures["hybrid"].ndcg_at_10 >= 0.72
    assert figures["hybrid"].recall_at_100 >= 0.98
    assert figures["hybrid"].ndcg_at_10 >= max(figures["bm25"].ndcg_at_10, figures["vector"].ndcg_at_10) - 0.01


def test_a_reranker_is_a_mode_of_its_own_that_ranks_as_searches_do(workspace: Workspace) -> None:
    prepared(workspace).refresh()
    index, queries = workspace.index(), load_query_set(workspace.config())
    results = ask(index, queries, ("hybrid",), rerankers=("late-interaction",))
    assert set(results.modes) == {"hybrid", "hybrid+late-interaction"}
    for judged in results.modes["hybrid+late-interaction"]:
        hits = index.search(judged.text, k=100, rerank="late-interaction")
        searched = list(dict.fromkeys(hit.document_id for hit in hits))
        assert [searched.index(document) + 1 for document in judged.found] == list(judged.ranks)
    assert "hybrid+late-interaction" in evaluate(index, queries, (), ["late-interaction"]).modes


def test_what_a_reranker_found_is_kept_and_is_not_part_of_the_candidates_figures(workspace: Workspace) -> None:
    prepared(workspace).refresh()
    store, index, queries = workspace.context().store, workspace.index(), load_query_set(workspace.config())
    first = measured(store, index, queries, ["late-interaction"])
    kept = read_results(store, index.manifest.hash, "queries", queries.hash, ["late-interaction"])
    assert kept == first
    version = store.table("evaluations").version
    assert measured(store, index, queries, ["late-interaction"]) == first
    assert store.table("evaluations").version == version
    assert set(workspace.refresh()["evaluation"].figures) == {"hybrid", "vector", "bm25"}


def test_an_unknown_reranker_is_refused(workspace: Workspace) -> None:
    prepared(workspace).refresh()
    with pytest.raises(QueryError, match="magic"):
        measured(workspace.context().store, workspace.index(), load_query_set(workspace.config()), ["magic"])


def test_relevant_documents_that_the_corpus_does_not_have_are_told(
    workspace: Workspace, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in workspace.environment.items():
        monkeypatch.setenv(name, value)
    yaml = "source: {path: files}\nevaluation: {queries: q.jsonl, qrels: r.tsv}\n"
    folder = workspace.corpus(yaml=yaml, files={"a.md": "# Apples\n\nRed.\n"})
    (folder / "q.jsonl").write_text('{"_id": 1, "text": "apples"}\n{"_id": 2, "text": "pears"}\n')
    (folder / "r.tsv").write_text("1\ta.md\t1\n2\tfiles/b.md\t1\n2\tfiles/c.md\t0\n")
    told = "missing, so that nothing finds them: 1 of the 2 relevant documents (files/b.md)"
    assert workspace.refresh()["evaluation"].warnings == (told,)
    assert main(["evaluate", "docs"]) == 0
    assert capsys.readouterr().err == f"{told}\n"
