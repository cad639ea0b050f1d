"""What the source shows without being read: enough to tell that something may have changed."""

from __future__ import annotations

from collections.abc import Sequence

from rag_pipeline.config import CorpusConfig
from rag_pipeline.contracts import SourceItem
from rag_pipeline.errors import SourceError
from rag_pipeline.refresh.reports import SourceListing
from rag_pipeline.sources import list_items, listing_hash
from rag_pipeline.wording import counted


def look_at_source(corpus: CorpusConfig) -> SourceListing:
    """List the source of a corpus. No item is read.

    Raises:
        SourceError: it is not there or cannot be listed.
    """
    return listing_of(list_items(corpus))


def listing_of(items: Sequence[SourceItem]) -> SourceListing:
    return SourceListing(
        items=len(items),
        bytes=sum(item.size for item in items),
        modified_at=max((item.modified_at for item in items), default=None),
        hash=listing_hash(items),
    )


def nothing_listed(corpus: CorpusConfig, served: int = 0) -> SourceError:
    """The error that stops a refresh whose source is empty.

    Args:
        served: how many documents the index keeps.
    """
    kept = f", the index of {counted(served, 'document')} stays as it is" if served else ""
    remedy = ", or refresh with --allow-deletes if the source is meant to be empty" if served else ""
    return SourceError(
        f"{corpus.file}: source.path: {corpus.source_address} lists no item{kept}; check path, include and exclude{remedy}"
    )
