"""List the items of a source, read and write them: folders and buckets, files, JSON Lines and Parquet."""

from rag_pipeline.sources.listing import list_items, listing_hash, picked_up
from rag_pipeline.sources.reading import ItemReader, ReadItem, read_item, read_rows
from rag_pipeline.sources.rows import BadRow, Row
from rag_pipeline.sources.store import Store, open_store
from rag_pipeline.sources.writing import WrittenItem, put_item, remove_item

__all__ = [
    "BadRow",
    "ItemReader",
    "ReadItem",
    "Row",
    "Store",
    "WrittenItem",
    "list_items",
    "listing_hash",
    "open_store",
    "picked_up",
    "put_item",
    "read_item",
    "read_rows",
    "remove_item",
]
