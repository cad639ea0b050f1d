"""A corpus in somebody else's Dagster project: with their resources, under their prefix, or as a component."""

from __future__ import annotations

import sys
import traceback
from collections.abc import Callable
from pathlib import Path

import dagster as dg
import pytest

from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.orchestration import CorpusStores, RefreshSettings, build_corpus_definitions, build_definitions, names
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.orchestration.instances import QUIET, materialization
from rag_pipeline_tests.orchestration.test_dagster import PAGES


def theirs(workspace: Workspace) -> dg.Definitions:
    """A project with an asset before a corpus's source and one behind its snapshot, and resources of its own."""

    @dg.asset(required_resource_keys={"warehouse"})
    def report() -> None: ...

    @dg.asset(deps=[dg.AssetKey(["search", "prod", "docs", names.SNAPSHOT])])
    def dashboard() -> None: ...

    return dg.Definitions(
        assets=[report, dashboard],
        resources={
            "warehouse": dg.ResourceDefinition.hardcoded_resource("theirs"),
            "refresh_settings": RefreshSettings(stores=CorpusStores(data=str(workspace.data))),
        },
        jobs=[dg.define_asset_job("nightly", selection=dg.AssetSelection.all())],
    )


def test_a_corpus_joins_a_project_under_its_prefix_and_with_its_resources(
    workspace: Workspace, instance: dg.DagsterInstance
) -> None:
    folder = workspace.corpus(yaml="source: {path: files}\nfreshness: {max_age_hours: 26}\n", files=PAGES)
    corpus = build_corpus_definitions(load_corpus(folder), key_prefix=["search", "prod"])
    merged = dg.Definitions.merge(theirs(workspace), corpus)
    dg.Definitions.validate_loadable(merged)
    keys = {key.to_user_string() for key in merged.resolve_all_asset_keys()}
    assert keys == {"report", "dashboard", *(f"search/prod/docs/{stage}" for stage in (names.SOURCE, *names.STAGES))}
    assert merged.resolve_job_def("refresh_docs").execute_in_process(instance=instance, run_config=QUIET).success
    assert workspace.index().snapshot == 1
    assert materialization(instance, "search", "prod", "docs", "source").tags
    consumed = materialization(instance, "search", "prod", "docs", "chunks").tags
    assert "dagster/input_data_version/search/prod/docs/documents" in consumed
    graph = merged.resolve_asset_graph()
    assert graph.get(dg.AssetKey("dashboard")).parent_keys == {dg.AssetKey(["search", "prod", "docs", "snapshot"])}


def test_all_corpora_can_join_under_one_prefix(workspace: Workspace) -> None:
    workspace.corpus("first", yaml="source: {path: files}\nschedule: {on_change: true}\n")
    workspace.corpus("second")
    definitions = build_definitions([workspace.config(name) for name in ("first", "second")], key_prefix=["search"])
    assert {key.path[0] for key in definitions.resolve_all_asset_keys()} == {"search"}


def test_a_prefix_may_be_a_string_as_elsewhere_in_dagster(workspace: Workspace) -> None:
    folder = workspace.corpus()
    keys = build_corpus_definitions(load_corpus(folder), key_prefix="search").assets or ()
    assert {key.path[0] for asset in keys if isinstance(asset, dg.AssetsDefinition) for key in asset.keys} == {"search"}
    keys = build_definitions([workspace.config()], key_prefix="search").resolve_all_asset_keys()
    assert {tuple(key.path[:2]) for key in keys} == {("search", "docs")}


def project(workspace: Workspace, attributes: str) -> Path:
    root = workspace.root / "shop"
    component = root / "shop" / "defs" / "catalogue"
    (component / "files").mkdir(parents=True)
    for name, content in PAGES.items():
        (component / "files" / name).write_text(content)
    (root / "pyproject.toml").write_text(
        '[project]\nname = "shop"\nversion = "1"\n\n[tool.dg]\ndirectory_type = "project"\n\n'
        '[tool.dg.project]\nroot_module = "shop"\n'
    )
    for package in (root / "shop", root / "shop" / "defs"):
        (package / "__init__.py").write_text("")
    (component / "corpus.yaml").write_text("source: {path: files}\n")
    (component / "defs.yaml").write_text(f"type: rag_pipeline.orchestration.RagCorpus\nattributes:\n{attributes}")
    (root / "shop" / "defs" / "resources.py").write_text(
        "import dagster as dg\n\nfrom rag_pipeline.orchestration import CorpusStores, RefreshSettings\n\n\n"
        "@dg.definitions\ndef resources() -> dg.Definitions:\n"
        f"    stores = CorpusStores(data={str(workspace.data)!r})\n"
        "    return dg.Definitions(resources={'refresh_settings': RefreshSettings(stores=stores)})\n"
    )
    return root


@pytest.fixture
def importable(monkeypatch: pytest.MonkeyPatch) -> Callable[[Path], Path]:
    """Puts a project that is written on the path of imports, while the test runs.

    Not before it is written: of a folder that is absent, any import meanwhile (of another thread too) has Python
    remember that nothing can be imported from it.
    """

    def put(root: Path) -> Path:
        for name in [name for name in sys.modules if name.partition(".")[0] == "shop"]:
            monkeypatch.delitem(sys.modules, name)
        monkeypatch.syspath_prepend(str(root))
        return root

    return put


@pytest.mark.parametrize("prefix", ["[search]", "search"])
def test_a_component_of_a_defs_folder_is_a_corpus(
    workspace: Workspace, instance: dg.DagsterInstance, importable: Callable[[Path], Path], prefix: str
) -> None:
    root = importable(project(workspace, f"  folder: .\n  key_prefix: {prefix}\n"))
    definitions = dg.load_from_defs_folder(path_within_project=root / "shop")
    assert dg.AssetKey(["search", "catalogue", "snapshot"]) in definitions.resolve_all_asset_keys()
    job = definitions.resolve_job_def("refresh_catalogue")
    assert job.execute_in_process(instance=instance, run_config=QUIET).success
    assert workspace.index("catalogue").search("roll back")[0].source == "guide.md"


def test_a_component_refuses_a_corpus_with_a_fault(workspace: Workspace, importable: Callable[[Path], Path]) -> None:
    root = importable(project(workspace, "  folder: .\n"))
    (root / "shop" / "defs" / "catalogue" / "corpus.yaml").write_text("source: {path: files}\nsorce: {}\n")
    with pytest.raises(Exception, match=r"defs\.yaml \(RagCorpus\) \(error\)") as raised:
        dg.load_from_defs_folder(path_within_project=root / "shop").resolve_all_asset_keys()
    assert "sorce: unknown key" in "".join(traceback.format_exception(raised.value))
