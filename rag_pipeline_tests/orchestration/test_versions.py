"""Versions say the truth: "unsynced" means that a refresh would do something, and nothing changed means nothing to do."""

from __future__ import annotations

from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.orchestration import build_definitions, names
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import materialization, observations, refreshed
from rag_pipeline_tests.orchestration.test_dagster import PAGES


def data_versions(instance: dg.DagsterInstance) -> dict[str, str]:
    return {stage: materialization(instance, "docs", stage).tags["dagster/data_version"] for stage in names.STAGES}


def code_versions(workspace: Workspace, yaml: str) -> dict[str, str | None]:
    workspace.corpus(yaml=yaml)
    specs = build_definitions([workspace.config()]).resolve_all_asset_specs()
    return {spec.key.path[-1]: spec.code_version for spec in specs if spec.key.path[-1] != names.SOURCE}


def test_a_refresh_that_finds_nothing_leaves_every_version(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    before = data_versions(instance)
    second = refreshed(workspace)
    assert data_versions(instance) == before
    event = instance.get_latest_materialization_event(dg.AssetKey(["docs", names.SNAPSHOT]))
    assert event is not None
    assert event.run_id == second.run_id, "it has looked, and keeps the corpus fresh"
    assert before[names.SNAPSHOT] == workspace.index().manifest.hash


def test_a_changed_document_gives_all_that_is_made_of_it_another_version(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    before = data_versions(instance)
    workspace.write("guide.md", "# Guide\n\nHow to roll back two snapshots.\n")
    refreshed(workspace)
    after = data_versions(instance)
    changed = {stage for stage in names.STAGES if before[stage] != after[stage]}
    assert changed >= set(names.STAGES) - {names.EVALUATION}


def test_a_full_rebuild_of_the_same_content_has_the_same_versions(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    before = data_versions(instance)
    refreshed(workspace, full=True)
    assert data_versions(instance) == before


def test_two_machines_come_to_the_same_versions(tmp_path: Path, instance: dg.DagsterInstance) -> None:
    found = []
    for machine in ("here", "there"):
        workspace = Workspace(tmp_path / machine)
        for path, content in sorted(PAGES.items(), reverse=machine == "there"):
            workspace.corpus(files={path: content})
        refreshed(workspace)
        found.append(data_versions(instance))
    assert found[0] == found[1]


def test_what_a_stage_consumed_is_what_the_stage_before_it_made(workspace: Workspace, instance: dg.DagsterInstance) -> None:
    workspace.corpus(files=PAGES)
    refreshed(workspace)
    workspace.write("more.md", "# More\n\nAnother page.\n")
    refreshed(workspace)
    (seen, *_) = observations(instance, "docs", names.SOURCE)
    made = {names.SOURCE: seen.tags["dagster/data_version"], **data_versions(instance)}
    for stage in names.STAGES:
        tags = materialization(instance, "docs", stage).tags
        prefix = "dagster/input_data_version/docs/"
        consumed = {name.removeprefix(prefix): value for name, value in tags.items() if name.startswith(prefix)}
        assert consumed
        assert consumed == {before: made[before] for before in consumed}


BASE = "source: {path: files}\n"


@pytest.mark.parametrize(
    ("yaml", "changed"),
    [
        ("description: Other words\nowners: ['team:docs']\nschedule: {cron: '1 1 * * *', on_change: true}\n", set()),
        ("embedding: {provider: static, batch_size: 7}\nkeep_snapshots: 3\n", set()),
        ("chunking: {size: 100}\n", {"chunks"}),
        ("embedding: {provider: hash}\n", {"chunks", "embeddings", "vector_table", "snapshot"}),
        ("metadata: {lang: string}\n", {"vector_table"}),
        ("lexical: {language: german}\n", {"bm25_index", "evaluation", "snapshot"}),
        ("lexical: {k1: 1.2}\n", {"evaluation", "snapshot"}),
        ("retrieval: {fusion: rrf}\n", {"evaluation", "snapshot"}),
        ("evaluation: {max_drop: 0.5}\n", {"evaluation"}),
    ],
)
def test_a_code_version_changes_with_what_decides_the_output_and_nothing_else(
    workspace: Workspace, yaml: str, changed: set[str]
) -> None:
    before, after = code_versions(workspace, BASE), code_versions(workspace, BASE + yaml)
    assert {stage for stage in names.STAGES if before[stage] != after[stage]} == changed


def test_how_sources_are_compared_is_no_part_of_their_code_version(workspace: Workspace) -> None:
    before = code_versions(workspace, BASE)
    assert code_versions(workspace, "source: {path: files, verify: hash}\n") == before
    assert code_versions(workspace, "source: {path: files, include: ['*.md']}\n")["documents"] != before["documents"]
