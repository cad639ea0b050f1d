"""The source of a corpus as an external asset: Dagster does not make it, but is told what refreshes see of it."""

from __future__ import annotations

from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.refresh.reports import SourceListing

DATA_VERSION_TAG = "dagster/data_version"


def source_spec(corpus: CorpusConfig, keys: CorpusKeys) -> dg.AssetSpec:
    """The external asset before `documents`."""
    path = corpus.source.path
    scheme = path.partition("://")[0] if "://" in path else "file"
    kinds = {scheme} | ({corpus.source.format} if corpus.source.format != "files" else set())
    return dg.AssetSpec(
        keys.key(names.SOURCE),
        group_name=corpus.name,
        description=(
            f"Where the documents of `{corpus.name}` come from. Not made here: refreshes record what they saw of it. "
            "Its data version is a hash over the listing, without the contents. Read by `documents`."
        ),
        kinds=kinds,
        owners=list(corpus.owners),
        tags=names.run_tags(corpus.name, corpus.group),
        metadata={
            "dagster/uri": path if "://" in path else str(corpus.source_path),
            "include": list(corpus.source.include),
            "exclude": list(corpus.source.exclude),
            "format": corpus.source.format,
        },
    )


def source_events(
    instance: dg.DagsterInstance, keys: CorpusKeys, listing: SourceListing
) -> list[dg.AssetMaterialization | dg.AssetObservation]:
    """What to record of a listing: that somebody looked, and when it differs from the last one, a new version.

    Of external assets Dagster takes materializations alone for versions when it tells what is out of date.
    """
    key = keys.key(names.SOURCE)
    changed = {"last_change": dg.MetadataValue.timestamp(listing.modified_at)} if listing.modified_at is not None else {}
    metadata: dict[str, Any] = {"items": listing.items, "bytes": listing.bytes, **changed}
    tags = {DATA_VERSION_TAG: listing.hash}
    events: list[dg.AssetMaterialization | dg.AssetObservation] = [dg.AssetObservation(key, metadata=metadata, tags=tags)]
    if _tag(instance, key, DATA_VERSION_TAG) != listing.hash:
        events.append(dg.AssetMaterialization(key, metadata=metadata, tags=tags))
    return events


def consumed_source(keys: CorpusKeys, listing: SourceListing) -> dict[str, str]:
    """The tag that says which state of the source a materialization is of.

    Dagster looks up what a step consumes when the step begins, which is before the source is listed.
    """
    return {_consumed_tag(keys): listing.hash}


def consumed_hash(instance: dg.DagsterInstance, keys: CorpusKeys) -> str | None:
    """The hash of the listing that the last refresh has loaded, or None when there was none yet."""
    return _tag(instance, keys.key(names.DOCUMENTS), _consumed_tag(keys))


def _consumed_tag(keys: CorpusKeys) -> str:
    return f"dagster/input_data_version/{keys.key(names.SOURCE).to_user_string()}"


def _tag(instance: dg.DagsterInstance, key: dg.AssetKey, tag: str) -> str | None:
    """A tag of the newest materialization of an asset."""
    event = instance.get_latest_materialization_event(key)
    materialization = event.asset_materialization if event is not None else None
    return (materialization.tags or {}).get(tag) if materialization is not None else None
