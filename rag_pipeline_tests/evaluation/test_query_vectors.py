"""A hosted model is asked for each query of a query set once, and for known items never."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest

from rag_pipeline.index.store import QUERY_VECTORS
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.provider_server import ProviderServer
from rag_pipeline_tests.refresh.test_embedding_providers import ANIMALS, KEY, corpus, hosted

QUERY_SET = "evaluation: {queries: q.jsonl, qrels: q.tsv}\n"


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(dimensions=64, key=KEY) as server:
        yield server


def write_queries(workspace: Workspace, names: list[str]) -> set[str]:
    folder = workspace.corpora / "docs"
    queries = [{"_id": name, "text": f"where lives the {name}"} for name in names]
    (folder / "q.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "q.tsv").write_text("".join(f"{name}\t{name}.md\t1\n" for name in names))
    return {query["text"] for query in queries}


def test_queries_are_embedded_once_whatever_changes(workspace: Workspace, server: ProviderServer) -> None:
    corpus(workspace, hosted(server), QUERY_SET)
    asked = write_queries(workspace, ANIMALS)
    assert workspace.refresh()["evaluation"].queries_embedded == len(asked)
    workspace.write("zebu.md", "# Zebu\n\nThe zebu lives elsewhere.\n")
    report = workspace.refresh()["evaluation"]
    assert (report.searches, report.queries_embedded) == (3 * len(asked), 0)
    assert {server.answered_texts[text] for text in asked} == {1}


def test_the_store_keeps_the_vectors_of_one_query_set(workspace: Workspace, server: ProviderServer) -> None:
    corpus(workspace, hosted(server), QUERY_SET)
    write_queries(workspace, ANIMALS)
    workspace.refresh()
    write_queries(workspace, ANIMALS[:3])
    assert workspace.refresh()["evaluation"].queries_embedded == 0
    write_queries(workspace, [*ANIMALS[:3], "zebu"])
    workspace.write("zebu.md", "# Zebu\n\nThe zebu lives elsewhere.\n")
    assert workspace.refresh()["evaluation"].queries_embedded == 1
    table = workspace.context().store.table(QUERY_VECTORS)
    assert table is not None
    assert table.count_rows() == 4


def test_known_items_ask_a_hosted_model_nothing(workspace: Workspace, server: ProviderServer) -> None:
    corpus(workspace, hosted(server))
    report = workspace.refresh()["evaluation"]
    assert (report.kind, report.queries, set(report.figures)) == ("known_items", len(ANIMALS), {"bm25"})
    assert set(server.answered_texts.values()) == {1}
    assert len(server.answered_texts) == len(ANIMALS)
