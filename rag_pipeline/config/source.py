"""`source`: where the documents are."""

from __future__ import annotations

from typing import Annotated, Literal, TypeAlias

from pydantic import AfterValidator, Field, ValidationInfo, field_validator

from rag_pipeline.config.strict import Strict


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


class SourceConfig(Strict):
    """Where the documents are. ``path`` is relative to the folder of corpus.yaml.

    ``verify: stat`` takes an item for unchanged when size, time and etag are; ``hash`` reads everything each time.
    """

    path: str = Field(min_length=1)
    include: tuple[Glob, ...] = ("**/*",)
    exclude: tuple[Glob, ...] = ()
    hidden: bool = False
    format: Literal["files", "jsonl", "parquet"] = "files"
    verify: Literal["stat", "hash"] = "stat"
    fields: FieldMapping | None = None

    @field_validator("fields")
    @classmethod
    def _fields_belong_to_rows(cls, fields: FieldMapping | None, others: ValidationInfo) -> FieldMapping | None:
        if fields is not None and others.data.get("format") == "files":
            raise ValueError("they map the columns of rows: expected with format: jsonl or parquet only")
        return fields
