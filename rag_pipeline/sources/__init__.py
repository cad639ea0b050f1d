"""List the items of a source and read them: folders and buckets, files, JSON Lines and Parquet."""

from rag_pipeline.sources.listing import list_items
from rag_pipeline.sources.reading import ItemReader, ReadItem, read_item, read_rows
from rag_pipeline.sources.rows import BadRow, Row
from rag_pipeline.sources.store import Store, open_store

__all__ = ["BadRow", "ItemReader", "ReadItem", "Row", "Store", "list_items", "open_store", "read_item", "read_rows"]
