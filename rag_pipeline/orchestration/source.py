"""The source of a corpus as an external asset: Dagster does not make it, but is told what refreshes see of it."""

from __future__ import annotations

import dagster as dg

from rag_pipeline.config import CorpusConfig
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.keys import CorpusKeys
from rag_pipeline.refresh.reports import SourceListing

DATA_VERSION_TAG = "dagster/data_version"
_CONSUMED_VERSION = "dagster/input_data_version/{}"


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


def source_observation(keys: CorpusKeys, listing: SourceListing) -> dg.AssetObservation:
    """What a listing of the source showed, with its hash as the data version."""
    changed = {"last_change": dg.MetadataValue.timestamp(listing.modified_at)} if listing.modified_at is not None else {}
    return dg.AssetObservation(
        keys.key(names.SOURCE),
        metadata={"items": listing.items, "bytes": listing.bytes, **changed},
        tags={DATA_VERSION_TAG: listing.hash},
    )


def consumed_source(keys: CorpusKeys, listing: SourceListing) -> dict[str, str]:
    """The tag that says which state of the source a materialization is of.

    Dagster looks up what a step consumes when the step begins, which is before the source is listed.
    """
    return {_CONSUMED_VERSION.format(keys.key(names.SOURCE).to_user_string()): listing.hash}


def observed_hash(instance: dg.DagsterInstance, keys: CorpusKeys) -> str | None:
    """The hash of the listing that the last refresh saw, or None when there was none yet."""
    records = instance.fetch_observations(keys.key(names.SOURCE), limit=1).records
    observation = records[0].asset_observation if records else None
    return observation.tags.get(DATA_VERSION_TAG) if observation is not None else None
