"""What a person finds in the Dagster UI after a refresh of the handbook: graph, materialisations, checks.

RAG_PIPELINE_TEST_SCREENSHOTS names a folder for pictures of these pages; those in docs/images are made so.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from rag_pipeline.orchestration import names
from rag_pipeline_tests.browser.chromium import HEIGHT, WIDTH, browser
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.production.dagster_dev import DagsterDev
from rag_pipeline_tests.production.deployment import FINAL, ROOT, eventually

if TYPE_CHECKING:
    from playwright.sync_api import Page

pytestmark = pytest.mark.browser

SCREENSHOTS = os.environ.get("RAG_PIPELINE_TEST_SCREENSHOTS")
CHECKS = {
    names.DOCUMENTS: (names.DOCUMENTS_READABLE,),
    names.VECTOR_TABLE: (names.VECTOR_ROWS_MATCH_CHUNKS, names.VECTORS_ARE_SOUND),
    names.BM25_INDEX: (names.BM25_ROWS_MATCH_CHUNKS,),
    names.EVALUATION: (names.EVALUATION_GATES, names.EVALUATION_NO_STEP_BACK),
}


@pytest.fixture(scope="module")
def dev(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DagsterDev]:
    """`dagster dev` on the repository's corpora; the handbook was refreshed by a run that was launched by GraphQL."""
    workspace = Workspace(tmp_path_factory.mktemp("dev"))
    started = DagsterDev(workspace, {"RAG_PIPELINE_CORPORA": str(ROOT / "corpora")})
    started.start()
    try:
        started.launch("refresh_handbook")
        (run,) = eventually(lambda: [run for run in started.runs("handbook") if run["status"] in FINAL], 180, "it ends")
        assert run["status"] == "SUCCESS", started.log()
        yield started
    finally:
        started.stop()


@pytest.fixture(scope="module")
def page(dev: DagsterDev) -> Iterator[Page]:
    with browser() as opened:
        yield opened


def picture(page: Page, name: str) -> None:
    if SCREENSHOTS:
        page.wait_for_timeout(1500)  # for what fades in
        page.screenshot(path=ROOT / SCREENSHOTS / f"{name}.png")


def shows(page: Page, *texts: str) -> None:
    """Wait until the page shows each text, as the whole text of an element or a part of it."""
    for text in texts:
        page.get_by_text(text).first.wait_for(state="visible")


def test_the_graph_of_the_corpus_shows_every_stage(page: Page, dev: DagsterDev) -> None:
    page.set_viewport_size({"width": 2400, "height": 900})  # wide enough for the whole chain with its details
    page.goto(f"{dev.url}/locations/rag_pipeline/asset-groups/handbook/lineage")
    shows(page, "Materialize all", *names.STAGES)
    assert not page.get_by_text("Join the Dagster community").count()
    picture(page, "asset-graph")
    page.set_viewport_size({"width": WIDTH, "height": HEIGHT})


def test_a_materialisation_tells_what_the_refresh_changed(page: Page, dev: DagsterDev) -> None:
    page.goto(f"{dev.url}/assets/handbook/{names.DOCUMENTS}?view=events")
    shows(page, "Materialized", "added", "changed", "removed", "unchanged", "failed")
    picture(page, "materialisation")


def test_the_snapshot_names_its_hash(page: Page, dev: DagsterDev) -> None:
    page.goto(f"{dev.url}/assets/handbook/{names.SNAPSHOT}?view=events")
    shows(page, "published", "hash", "sha256:")
    picture(page, "snapshot")


@pytest.mark.parametrize("stage", CHECKS)
def test_the_checks_of_a_stage_have_passed_and_say_what_they_promise(stage: str, page: Page, dev: DagsterDev) -> None:
    page.goto(f"{dev.url}/assets/handbook/{stage}?view=checks")
    shows(page, *CHECKS[stage], "Succeeded", "Passed")
    assert not page.get_by_text("Failed", exact=True).count()
    picture(page, f"checks-{stage}")


def test_the_job_the_schedule_and_the_upkeep_are_there(page: Page, dev: DagsterDev) -> None:
    page.goto(f"{dev.url}/jobs")
    shows(page, "refresh_handbook", "refresh_faq", names.PURGE_JOB)
    page.goto(f"{dev.url}/automation")
    shows(page, names.schedule_name("handbook"), names.PURGE_SCHEDULE, names.DEAD_RUNS_SENSOR)
    picture(page, "automation")
