"""Assets of other people react to a new snapshot, and to nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import dagster as dg
import pytest

from rag_pipeline.orchestration import on_new_snapshot
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import metadata, refreshed
from rag_pipeline_tests.orchestration.test_dagster import PAGES

EXAMPLE = Path(__file__).resolve().parents[2] / "docs" / "examples" / "react_to_a_snapshot.py"


class Location:
    """Another code location, whose automation is evaluated as its sensor does it."""

    def __init__(self, definitions: dg.Definitions, instance: dg.DagsterInstance) -> None:
        self.definitions, self.instance = definitions, instance
        self.cursor = None

    def requested(self) -> set[str]:
        found = dg.evaluate_automation_conditions(self.definitions, self.instance, cursor=self.cursor)
        self.cursor = found.cursor
        keys = {key.to_user_string() for key in self.definitions.resolve_all_asset_keys()}
        return {key for key in keys if found.get_num_requested(dg.AssetKey(key.split("/")))}

    def make(self, key: str) -> None:
        job = dg.Definitions.merge(
            self.definitions,
            dg.Definitions(jobs=[dg.define_asset_job("make", key, executor_def=dg.in_process_executor)]),
        ).resolve_job_def("make")
        assert job.execute_in_process(instance=self.instance).success


def example() -> ModuleType:
    spec = importlib.util.spec_from_file_location("react_to_a_snapshot", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_example_of_the_documentation_reacts_to_a_new_snapshot_and_queries_it(
    workspace: Workspace, instance: dg.DagsterInstance, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RAG_PIPELINE_DATA", str(workspace.data))
    workspace.corpus("handbook", files=PAGES)
    location = Location(example().definitions, instance)
    assert location.requested() == set(), "nothing was published yet"
    refreshed(workspace, "handbook")
    assert location.requested() == {"best_pages"}
    assert location.requested() == set(), "it was asked for already"
    location.make("best_pages")
    found = metadata(instance, "best_pages")
    assert (found["snapshot"], found["how do I roll back?"]) == (1, "guide.md")

    refreshed(workspace, "handbook")
    assert location.requested() == set(), "the refresh found nothing changed"
    workspace.write("rollback.md", "# How do I roll back?\n\nHow do I roll back: so.\n", "handbook")
    refreshed(workspace, "handbook")
    assert location.requested() == {"best_pages"}
    location.make("best_pages")
    assert metadata(instance, "best_pages")["how do I roll back?"] == "rollback.md"


@pytest.mark.parametrize(
    ("condition", "after_nothing_changed"),
    [(on_new_snapshot(), set()), (dg.AutomationCondition.eager(), {"reader"})],
    ids=["on_new_snapshot", "eager"],
)
def test_a_refresh_that_found_nothing_starts_only_what_is_eager(
    workspace: Workspace,
    instance: dg.DagsterInstance,
    condition: dg.AutomationCondition,
    after_nothing_changed: set[str],
) -> None:
    """That `eager` answers is Dagster's decision; the documentation says so, and this notices when it changes."""

    @dg.asset(deps=[dg.AssetSpec(["docs", "snapshot"])], automation_condition=condition)
    def reader() -> None: ...

    workspace.corpus(files=PAGES)
    location = Location(dg.Definitions(assets=[reader]), instance)
    location.requested()
    refreshed(workspace)
    assert location.requested() == {"reader"}
    location.make("reader")
    location.requested()
    refreshed(workspace)
    assert location.requested() == after_nothing_changed
