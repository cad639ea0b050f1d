"""List the items of a source and read them: folders and files of this machine, JSON Lines and Parquet."""

from rag_pipeline.sources.listing import list_items, listing_hash, read_item
from rag_pipeline.sources.row_files import read_rows
from rag_pipeline.sources.rows import BadRow, Row
from rag_pipeline.sources.store import Store, open_store

__all__ = ["BadRow", "Row", "Store", "list_items", "listing_hash", "open_store", "read_item", "read_rows"]
