"""Dagster instances of tests, and what they have recorded."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import dagster as dg

from rag_pipeline.orchestration import RefreshOutcome, RefreshSettings, run_refresh
from rag_pipeline.refresh import Silent
from rag_pipeline_tests.conftest import Workspace

QUIET: dict[str, Any] = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}
"""Run configuration that keeps Dagster's log off the terminal."""


def refreshed(workspace: Workspace, name: str = "docs", **options: Any) -> RefreshOutcome:
    """Refresh a corpus as the command line does, and expect that it works."""
    outcome = run_refresh(workspace.config(name), RefreshSettings(data=str(workspace.data), **options), Silent())
    assert outcome.error is None
    return outcome


def materialization(instance: dg.DagsterInstance, *key: str) -> dg.AssetMaterialization:
    """The newest materialization of an asset."""
    event = instance.get_latest_materialization_event(dg.AssetKey(key))
    assert event is not None
    assert event.asset_materialization is not None
    return event.asset_materialization


def metadata(instance: dg.DagsterInstance, *key: str) -> Mapping[str, Any]:
    """The metadata of the newest materialization of an asset, as plain values."""
    return {name: value.value for name, value in materialization(instance, *key).metadata.items()}


def observations(instance: dg.DagsterInstance, *key: str) -> list[dg.AssetObservation]:
    """All observations of an asset, newest first."""
    records = instance.fetch_observations(dg.AssetKey(key), limit=100).records
    return [record.asset_observation for record in records if record.asset_observation is not None]
