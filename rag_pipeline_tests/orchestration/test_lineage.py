"""One look at a corpus's assets tells the flow, and one look at a materialization what a refresh did."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from rag_pipeline.orchestration import build_corpus_definitions, build_definitions, names
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import metadata, observations, refreshed
from rag_pipeline_tests.orchestration.test_dagster import PAGES

SECRET_TEXT = "the launch code is swordfish"


def specs(workspace: Workspace) -> dict[str, dg.AssetSpec]:
    found = build_definitions([workspace.config()]).resolve_all_asset_specs()
    return {spec.key.path[-1]: spec for spec in found}


def test_the_source_is_an_external_asset_that_says_where_it_is(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml="source: {path: rows.jsonl, format: jsonl}\ngroup: support\n")
    source = specs(workspace)[names.SOURCE]
    graph = build_definitions([workspace.config()]).resolve_asset_graph()
    assert not graph.get(source.key).is_executable
    assert source.metadata["dagster/uri"] == str(folder / "rows.jsonl")
    assert source.kinds == {"file", "jsonl"}
    assert source.tags["group"] == "support"


def test_a_refresh_records_what_it_saw_of_the_source(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    refreshed(workspace)
    workspace.write("more.md", "# More\n\nAnother page.\n")
    refreshed(workspace)
    seen = observations(instance, "docs", "source")
    assert [found.metadata["items"].value for found in seen] == [3, 2, 2]
    versions = [found.tags["dagster/data_version"] for found in seen]
    assert versions[0] != versions[1] == versions[2]
    assert "last_change" in seen[0].metadata
    made = instance.fetch_materializations(dg.AssetKey(["docs", "source"]), limit=100).records
    assert len(made) == 2, "a new version is recorded only when the listing has changed"


@pytest.mark.parametrize("strategy", ["recursive", "parent-child"])
def test_columns_are_traced_from_the_documents_to_the_vector_table(
    workspace: Workspace, instance: dg.DagsterInstance, strategy: str
) -> None:
    yaml = f"source: {{path: files}}\nmetadata: {{lang: string}}\nchunking: {{strategy: {strategy}}}\n"
    workspace.corpus(yaml=yaml, files=PAGES)
    refreshed(workspace)

    def columns(stage: str) -> dict[str, str]:
        schema = metadata(instance, "docs", stage)["dagster/column_schema"]
        return {column.name: column.type for column in schema.columns}

    def lineage(stage: str) -> dict[str, set[tuple[str, str]]]:
        found = metadata(instance, "docs", stage)["dagster/column_lineage"].deps_by_column
        return {name: {(dep.asset_key.path[-1], dep.column_name) for dep in deps} for name, deps in found.items()}

    tables = {stage: columns(stage) for stage in ("documents", "chunks", "vector_table")}
    assert tables["vector_table"]["vector"] == "fixed_size_list<float>[256]"
    assert tables["vector_table"]["lang"] == "string"
    for stage in ("chunks", "vector_table"):
        traced = lineage(stage)
        assert traced.keys() == tables[stage].keys()
        for deps in traced.values():
            assert all(column in tables[before] for before, column in deps)
    assert lineage("chunks")["text"] == {("documents", "text")}
    assert lineage("vector_table")["text"] == {("chunks", "text")}
    assert lineage("vector_table")["lang"] == {("documents", "metadata")}
    # The columns are those of the table itself.
    vectors = workspace.context().store.table("vectors")
    assert vectors is not None
    assert set(tables["vector_table"]) == set(vectors.schema.names)


def test_tables_say_where_they_lie(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    found = metadata(instance, "docs", "vector_table")
    assert found["dagster/uri"] == str(workspace.data / "docs" / "lancedb" / "vectors.lance")
    assert (found["dagster/table_name"], found["dagster/row_count"]) == ("docs.vectors", 2)


def test_code_references_lead_to_the_stage_and_to_the_corpus_file(workspace: Workspace) -> None:
    folder = workspace.corpus()
    for stage in names.STAGES:
        references = specs(workspace)[stage].metadata["dagster/code_references"].code_references
        function, file = references
        line = Path(function.file_path).read_text(encoding="utf-8").splitlines()[function.line_number :]
        assert any(found.startswith(f"def {function.label}(") for found in line[:2])
        assert file.file_path == str(folder / "corpus.yaml")


def test_code_references_can_become_links_to_a_repository(workspace: Workspace) -> None:
    workspace.corpus()
    found = dg.link_code_references_to_git(
        build_corpus_definitions(workspace.config()).assets or (),
        git_url="https://github.com/acme/search",
        git_branch="main",
        file_path_mapping=dg.AnchorBasedFilePathMapping(Path("/"), "."),
    )
    (documents,) = [
        asset
        for asset in found
        if isinstance(asset, dg.AssetsDefinition) and asset.keys == {dg.AssetKey(["docs", "documents"])}
    ]
    (references,) = [values["dagster/code_references"] for values in documents.metadata_by_key.values()]
    assert [reference.label for reference in references.code_references] == ["refresh_documents", "corpus.yaml"]
    assert "/refresh/documents.py#L" in references.code_references[0].url


def test_the_snapshot_tells_in_one_place_what_the_refresh_did(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    yaml = "source: {path: files}\nsafety: {max_delete_fraction: 1, max_failed_fraction: 0.9}\n"
    workspace.corpus(yaml=yaml, files={**PAGES, "old.md": "# Old\n\nTo be removed.\n"})
    refreshed(workspace)
    (workspace.corpora / "docs" / "files" / "old.md").unlink()
    workspace.write("guide.md", "# Guide\n\nHow to roll back two snapshots.\n")
    workspace.write("new.md", "# New | page\n\nSomething new.\n")
    workspace.write("bad.md", b"\x89PNG\r\n\x1a\n" + bytes(range(256)) * 20)
    refreshed(workspace)
    found = metadata(instance, "docs", "snapshot")
    counted = ("documents_added", "documents_changed", "documents_removed", "documents_unchanged", "documents_failed")
    assert [found[name] for name in counted] == [1, 1, 1, 1, 1]
    assert (found["chunks_added"], found["chunks_removed"]) == (2, 2)
    assert (found["embedded"], found["cached"], found["cost_usd"]) == (2, 0, 0.0)
    seconds = [metadata(instance, "docs", stage)["seconds"] for stage in names.STAGES]
    assert found["refresh_seconds"] == round(sum(seconds), 3) > 0
    documents = metadata(instance, "docs", "documents")
    assert "| added | new.md | New \\| page |" in documents["changes"]
    assert "| changed | guide.md | Guide |" in documents["changes"]
    assert "| removed | old.md |  |" in documents["changes"]
    assert "bad.md" in documents["failures"]


def test_metadata_holds_names_titles_and_headings_but_never_text(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    title = "A title that goes on " + "and on " * 30
    workspace.corpus(files={"page.md": f"# {title}\n\n{SECRET_TEXT}.\n"})
    outcome = refreshed(workspace)
    logged = "".join(str(entry) for entry in instance.all_logs(outcome.run_id))
    assert SECRET_TEXT not in logged
    sample: Any = metadata(instance, "docs", "vector_table")["sample"]
    assert "page.md" in sample
    assert max(len(cell) for line in sample.splitlines() for cell in line.split("|")) <= 82


def test_a_sample_is_shown_only_when_something_was_written(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    refreshed(workspace)
    assert "sample" not in metadata(instance, "docs", "vector_table")
    assert "changes" not in metadata(instance, "docs", "documents")
