"""Folders and files in buckets: addresses, credentials, and paths that read and write as those of this machine do."""

from rag_pipeline.storage.access import Access, resolve_access
from rag_pipeline.storage.address import BucketAddress, is_address, parse_address
from rag_pipeline.storage.cut_answers import PAUSES_SECONDS, is_cut, read_again
from rag_pipeline.storage.failures import Failure, client_errors, failure_of
from rag_pipeline.storage.local_cache import adopt_file, cache_folder, cached_file, writing_to_cache
from rag_pipeline.storage.object_path import ObjectChangedError, ObjectPath, ObjectVersion, StorePath, total_size

__all__ = [
    "PAUSES_SECONDS",
    "Access",
    "BucketAddress",
    "Failure",
    "ObjectChangedError",
    "ObjectPath",
    "ObjectVersion",
    "StorePath",
    "adopt_file",
    "cache_folder",
    "cached_file",
    "client_errors",
    "failure_of",
    "is_address",
    "is_cut",
    "parse_address",
    "read_again",
    "resolve_access",
    "total_size",
    "writing_to_cache",
]
