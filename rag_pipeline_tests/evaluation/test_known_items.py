"""Known items are the same from refresh to refresh, bounded, and follow documents that move."""

from __future__ import annotations

from rag_pipeline.evaluation.known_items import SAMPLE, known_items
from rag_pipeline.evaluation.query_set import QuerySet
from rag_pipeline_tests.conftest import Workspace

YAML = "source: {path: files}\nembedding: {provider: hash}\nsafety: {max_delete_fraction: 1.0}\n"


def items(workspace: Workspace) -> QuerySet:
    workspace.refresh()
    return known_items(workspace.context().store.table("vectors"))


def answers(found: QuerySet) -> dict[str, set[str]]:
    return {text: set(found.qrels[name]) for name, text in found.queries.items()}


def test_titles_and_headings_are_queries_and_their_documents_answers(workspace: Workspace) -> None:
    text = "# Apples in autumn\n\nText.\n\n## How to store them\n\nCold.\n"
    workspace.corpus(yaml=YAML, files={"a.md": text, "b.md": "# Bread\n\nText.\n\n## How to store them\n\nDry.\n"})
    assert answers(items(workspace)) == {
        "Apples in autumn": {"a.md"},
        "Bread": {"b.md"},
        "How to store them": {"a.md", "b.md"},
    }


def test_headings_of_many_documents_and_those_without_words_are_no_queries(workspace: Workspace) -> None:
    pages = {f"{n}.md": f"# Number {n} of all\n\nText.\n\n## Examples\n\nOne.\n\n## 1.2.{n}\n\nTwo.\n" for n in range(4)}
    workspace.corpus(yaml=YAML, files=pages)
    assert set(answers(items(workspace))) == {f"Number {n} of all" for n in range(4)}


def test_the_sample_is_bounded_and_an_added_page_changes_little_of_it(workspace: Workspace) -> None:
    sections = "".join(f"## Section number {n}\n\nText {n}.\n\n" for n in range(3 * SAMPLE))
    workspace.corpus(yaml=YAML, files={"a.md": f"# Title\n\n{sections}"})
    before = items(workspace)
    assert len(before.queries) == SAMPLE
    assert items(workspace) == before
    workspace.write("b.md", "# Another title\n\nText.\n\n## Another section\n\nText.\n")
    assert len(before.queries.keys() & items(workspace).queries.keys()) >= SAMPLE - 2
