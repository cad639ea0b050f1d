"""`source`: where the documents are."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator, model_validator

from rag_pipeline.config.addresses import plain_address
from rag_pipeline.config.strict import Strict
from rag_pipeline.storage import is_address, parse_address

_SECRET_KEY = re.compile(r"secret|token|password|access_?key|account_?key|shared_?key|sas|credential|service_account", re.I)


def _check_glob(pattern: str) -> str:
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("expected a pattern relative to the source's path, such as '**/*.md'")
    return pattern


Glob: TypeAlias = Annotated[str, AfterValidator(_check_glob)]


class FieldMapping(Strict):
    """Which fields of a row are the document's id, title and text. All other fields become its metadata."""

    id: str = "id"
    title: str | None = None
    text: str = "text"


class StorageOptions(Strict):
    """How a bucket is reached, where the environment does not say so already. No secret may stand here.

    ``endpoint`` is the address of an S3-compatible store, or another one of Google's or Azure's. ``profile`` is an AWS
    profile, ``account`` a storage account of Azure. ``anonymous`` sends no credentials. ``virtual_hosted`` puts the bucket's
    name into the host's.
    """

    endpoint: Annotated[str | None, AfterValidator(plain_address)] = None
    region: str | None = Field(default=None, min_length=1)
    profile: str | None = Field(default=None, min_length=1)
    account: str | None = Field(default=None, min_length=1)
    anonymous: bool = False
    virtual_hosted: bool = False

    @model_validator(mode="before")
    @classmethod
    def _no_secrets(cls, values: Any) -> Any:
        for key in values if isinstance(values, dict) else ():
            if _SECRET_KEY.search(str(key)):
                raise ValueError(
                    f"{key} would be a secret in a file: set it in the environment (AWS_ACCESS_KEY_ID and "
                    "AWS_SECRET_ACCESS_KEY, GOOGLE_APPLICATION_CREDENTIALS, AZURE_STORAGE_ACCOUNT_KEY), or name an AWS "
                    "profile with `profile`"
                )
        return values


class SourceConfig(Strict):
    """Where the documents are. ``path`` is relative to the folder of corpus.yaml, or s3://, gs:// or az://.

    ``storage_options`` say how a bucket is reached. ``verify: stat`` takes an item for unchanged when size, time and etag
    are; ``hash`` reads everything each time.
    """

    path: str = Field(min_length=1)
    include: tuple[Glob, ...] = ("**/*",)
    exclude: tuple[Glob, ...] = ()
    hidden: bool = False
    format: Literal["files", "jsonl", "parquet"] = "files"
    verify: Literal["stat", "hash"] = "stat"
    fields: FieldMapping | None = None
    storage_options: StorageOptions | None = None

    @field_validator("path")
    @classmethod
    def _address_can_be_read(cls, path: str) -> str:
        if is_address(path):
            parse_address(path)
        return path

    @field_validator("storage_options")
    @classmethod
    def _options_belong_to_buckets(cls, options: StorageOptions | None, others: ValidationInfo) -> StorageOptions | None:
        if options is not None and not is_address(others.data.get("path", "://")):
            raise ValueError("expected with a path in a bucket only, such as s3://bucket/prefix")
        return options

    @field_validator("fields")
    @classmethod
    def _fields_belong_to_rows(cls, fields: FieldMapping | None, others: ValidationInfo) -> FieldMapping | None:
        if fields is not None and others.data.get("format") == "files":
            raise ValueError("they map the columns of rows: expected with format: jsonl or parquet only")
        return fields
