"""corpus.yaml -> CorpusConfig: strict, frozen, every fault of a file reported at once."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal, TypeAlias
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from rag_pipeline.errors import ConfigError, MissingExtraError
from rag_pipeline.hashing import value_hash

CORPUS_FILE = "corpus.yaml"
CORPORA_VARIABLE = "RAG_PIPELINE_CORPORA"
DATA_VARIABLE = "RAG_PIPELINE_DATA"

NAME_PATTERN = re.compile(r"[a-z][a-z0-9_]*")
RESERVED_NAMES = frozenset({"embeddings"})  # the folder of the embedding cache beside the corpora's stores

FILTER_COLUMNS = ("document_id", "path", "source", "title", "heading_path", "media_type", "modified_at", "page")
"""Columns of the vector table that every corpus has and that a filter may name."""
_STORE_COLUMNS = frozenset(
    {
        "chunk_id",
        "text",
        "context",
        "metadata",
        "vector",
        "position",
        "start",
        "end",
        "text_hash",
        "content_hash",
        "row_key",
    }
)

MetadataType: TypeAlias = Literal["string", "int", "float", "bool", "timestamp"]


class _Strict(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    def hash(self) -> str:
        """SHA-256 over all values: what depends on this configuration is redone when it changes."""
        return value_hash(self.model_dump(mode="json"))


def _check_glob(pattern: str) -> str:
    if not pattern or pattern.startswith("/") or ".." in pattern.split("/"):
        raise ValueError("expected a pattern relative to the source's path, such as '**/*.md'")
    return pattern


Glob: TypeAlias = Annotated[str, AfterValidator(_check_glob)]


class FieldMapping(_Strict):
    """Which fields of a row are the document's id, title and text. All other fields become its metadata."""

    id: str = "id"
    title: str | None = None
    text: str = "text"


class SourceConfig(_Strict):
    """Where the documents are. ``path`` is relative to the folder of corpus.yaml."""

    path: str = Field(min_length=1)
    include: tuple[Glob, ...] = ("**/*",)
    exclude: tuple[Glob, ...] = ()
    hidden: bool = False
    format: Literal["files", "jsonl", "parquet"] = "files"
    fields: FieldMapping | None = None

    @model_validator(mode="after")
    def _fields_belong_to_rows(self) -> SourceConfig:
        if self.format == "files" and self.fields is not None:
            raise ValueError("fields map the columns of rows: expected with format: jsonl or parquet only")
        return self


class ChunkingConfig(_Strict):
    """How documents are cut. Sizes are in tokens of the corpus's embedder."""

    strategy: Literal["recursive"] = "recursive"
    size: int = Field(default=480, ge=8, le=100_000)
    overlap: int = Field(default=64, ge=0)

    @model_validator(mode="after")
    def _overlap_below_size(self) -> ChunkingConfig:
        if self.overlap >= self.size:
            raise ValueError(f"overlap: expected less than size ({self.size}), got {self.overlap}")
        return self


class EmbeddingConfig(_Strict):
    """Which model turns text into vectors. ``static`` and ``hash`` need no account, no network and no download."""

    provider: Literal["static", "hash"] = "static"
    dimensions: int | None = Field(default=None, ge=1, le=8192)

    @model_validator(mode="after")
    def _static_width_is_fixed(self) -> EmbeddingConfig:
        if self.provider == "static" and self.dimensions not in (None, 256):
            raise ValueError(f"dimensions: expected 256 or nothing for provider static, got {self.dimensions}")
        return self


class LexicalConfig(_Strict):
    """How text becomes terms, and which BM25 scores them."""

    language: Literal[
        "none", "arabic", "armenian", "basque", "catalan", "danish", "dutch", "english", "esperanto", "estonian", "finnish",
        "french", "german", "greek", "hindi", "hungarian", "indonesian", "irish", "italian", "lithuanian", "nepali",
        "norwegian", "portuguese", "romanian", "russian", "serbian", "spanish", "swedish", "tamil", "turkish", "yiddish",
    ] = "english"  # fmt: skip
    variant: Literal["lucene", "okapi", "l", "plus"] = "lucene"
    k1: float = Field(default=1.5, gt=0, le=10)
    b: float = Field(default=0.75, ge=0, le=1)


class RetrievalConfig(_Strict):
    """How the two arms of a hybrid search become one list. ``rrf_k`` is the constant of Cormack et al., SIGIR 2009."""

    fusion: Literal["rrf"] = "rrf"
    rrf_k: int = Field(default=60, ge=1)


_CRON_RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))


def _check_cron(cron: str) -> str:
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"expected five fields such as '0 3 * * *', got {cron!r}")
    for field, (name, low, high) in zip(fields, _CRON_RANGES, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?|[A-Za-z]{3}(?:-[A-Za-z]{3})?)(?:/(\d+))?", part)
            numbers = [int(n) for n in (match.group(1), match.group(2)) if n] if match else []
            step = match.group(3) if match else None
            if not match or any(not low <= n <= high for n in numbers) or numbers != sorted(numbers) or step == "0":
                raise ValueError(f"expected a {name} of {low} to {high}, *, a range or a step, got {part!r}")
    return cron


def _check_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as 'Europe/Berlin' or 'UTC', got {name!r}") from None
    return name


class ScheduleConfig(_Strict):
    """When Dagster refreshes the corpus. A schedule that is written down runs unless ``enabled`` is false."""

    cron: Annotated[str, AfterValidator(_check_cron)] = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    enabled: bool = True


class FreshnessConfig(_Strict):
    """After how many hours without a refresh the corpus counts as late in the Dagster UI."""

    max_age_hours: float = Field(gt=0)


class EvaluationConfig(_Strict):
    """A query set in BEIR layout. Paths are relative to the folder of corpus.yaml."""

    queries: str
    qrels: str


class SafetyConfig(_Strict):
    """How much a refresh may lose before it stops instead of publishing."""

    max_delete_fraction: float = Field(default=0.3, ge=0, le=1)
    max_failed_fraction: float = Field(default=0.1, ge=0, le=1)


def _check_owner(owner: str) -> str:
    if not re.fullmatch(r"team:[A-Za-z0-9_\-. ]+|[^@\s]+@[^@\s]+\.[^@\s]+", owner):
        raise ValueError(f"expected 'team:name' or an e-mail address, got {owner!r}")
    return owner


class CorpusConfig(_Strict):
    """One corpus. ``name`` and ``folder`` come from where the file lies, everything else from what it says."""

    name: str
    folder: Path
    description: str = ""
    owners: tuple[Annotated[str, AfterValidator(_check_owner)], ...] = ()
    source: SourceConfig
    metadata: dict[str, MetadataType] = Field(default_factory=dict)
    chunking: ChunkingConfig = ChunkingConfig()
    embedding: EmbeddingConfig = EmbeddingConfig()
    lexical: LexicalConfig = LexicalConfig()
    retrieval: RetrievalConfig = RetrievalConfig()
    schedule: ScheduleConfig = ScheduleConfig(enabled=False)
    freshness: FreshnessConfig | None = None
    evaluation: EvaluationConfig | None = None
    safety: SafetyConfig = SafetyConfig()
    keep_snapshots: int = Field(default=10, ge=1)

    @model_validator(mode="after")
    def _metadata_names_are_free(self) -> CorpusConfig:
        taken = {name.lower() for name in (*FILTER_COLUMNS, *_STORE_COLUMNS)}
        seen: set[str] = set()
        for name in self.metadata:
            if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name):
                raise ValueError(f"metadata.{name}: expected a name of letters, digits and underscores")
            if name.lower() in taken:
                raise ValueError(f"metadata.{name}: every corpus has this column already; expected another name")
            if name.lower() in seen:
                raise ValueError(
                    f"metadata.{name}: another name differs only in capitals, which filters cannot tell apart"
                )
            seen.add(name.lower())
        return self

    @property
    def file(self) -> Path:
        return self.folder / CORPUS_FILE

    @property
    def source_path(self) -> Path:
        """The source's root or file, absolute."""
        return (self.folder / self.source.path).resolve()


def corpora_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder that holds one folder a corpus."""
    return Path(override or os.environ.get(CORPORA_VARIABLE) or "corpora").resolve()


def data_root(override: str | os.PathLike[str] | None = None) -> Path:
    """The folder under which every corpus has its store.

    Raises:
        ConfigError: the root is a URI; object stores as data roots are not there yet.
    """
    root = str(override or os.environ.get(DATA_VARIABLE) or "data")
    if "://" in root:
        raise ConfigError(
            f"{DATA_VARIABLE}={root}: expected a path of this machine; object stores are not supported yet"
        )
    return Path(root).resolve()


def load_corpus(folder: Path) -> CorpusConfig:
    """Read the corpus.yaml of one folder.

    Raises:
        ConfigError: with every fault of the file, one a line, each naming file, key and what was expected.
    """
    file = folder / CORPUS_FILE
    name = folder.name
    if not NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        raise ConfigError(f"{file}: the folder's name is the corpus's name; expected [a-z][a-z0-9_]*, got {name!r}")
    values = _read_yaml(file)
    faults = [
        f"{file}: {key}: the folder gives it, expected no such key" for key in ("name", "folder") if key in values
    ]
    known = {key: value for key, value in values.items() if key not in ("name", "folder")}
    try:
        config = CorpusConfig.model_validate({**_tuples(known), "name": name, "folder": folder.resolve()})
    except ValidationError as error:
        raise ConfigError("\n".join([*faults, *(f"{file}: {line}" for line in _fault_lines(error))])) from None
    if faults:
        raise ConfigError("\n".join(faults))
    return config


def corpus_folders(root: Path) -> list[Path]:
    """The folders under the corpora root that hold a corpus.yaml, by name."""
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*/{CORPUS_FILE}"))


def load_corpora(root: Path) -> list[CorpusConfig]:
    """Read every corpus under the corpora root.

    Raises:
        ConfigError: with the faults of all files together.
    """
    configs: list[CorpusConfig] = []
    faults: list[str] = []
    for folder in corpus_folders(root):
        try:
            configs.append(load_corpus(folder))
        except ConfigError as error:
            faults.append(str(error))
    if faults:
        raise ConfigError("\n".join(faults))
    return configs


def find_corpus(root: Path, name: str) -> CorpusConfig:
    """Read the corpus of this name.

    Raises:
        ConfigError: there is none; the message lists those that exist.
    """
    folder = root / name
    if not NAME_PATTERN.fullmatch(name) or not (folder / CORPUS_FILE).is_file():
        names = ", ".join(path.name for path in corpus_folders(root)) or "none"
        raise ConfigError(
            f"no corpus {name!r} under {root} (there: {names}); `rag-pipeline new {name} --source PATH` makes one"
        )
    return load_corpus(folder)


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "pipeline", f"reading {file}") from None

    class StrictLoader(yaml.SafeLoader):
        """A safe loader that refuses a key written twice: YAML itself would drop the first silently."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, (str, int, float, bool)) and key in seen:
                    raise yaml.MarkedYAMLError(
                        problem=f"key {key!r} is written twice", problem_mark=key_node.start_mark
                    )
                seen.add(key if isinstance(key, (str, int, float, bool)) else str(key))
            return super().construct_mapping(node, deep)

    try:
        values = yaml.load(file.read_text(encoding="utf-8-sig"), StrictLoader)
    except yaml.MarkedYAMLError as error:
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}{where}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"{file}: expected keys such as `source:`, got {'nothing' if values is None else type(values).__name__}"
        )
    return {str(key): value for key, value in values.items()}


def _tuples(value: Any) -> Any:
    """Lists of a YAML file as tuples, which the frozen models hold; strict mode takes nothing else for them."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value


def _fault_lines(error: ValidationError) -> Iterator[str]:
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"])
        got = "" if fault["type"] == "missing" else f", got {_shown(fault['input'])}"
        match fault["type"]:
            case "extra_forbidden":
                yield f"{key}: unknown key; expected one of {', '.join(_known_keys(fault['loc']))}"
            case "missing":
                yield f"{key}: required, but not there"
            case "value_error":
                message = str(fault["ctx"]["error"])
                yield f"{key}: {message}" if key else message
            case "tuple_type":
                yield f"{key}: expected a list{got}"
            case "model_type" | "dict_type":
                yield f"{key}: expected keys and values{got}"
            case "literal_error":
                yield f"{key}: expected one of {fault['ctx']['expected'].replace(chr(39), '')}{got}"
            case _:
                yield f"{key}: expected {fault['msg'].removeprefix('Input should be ')}{got}"


def _shown(value: Any) -> str:
    text = repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    model: Any = CorpusConfig
    for part in location[:-1]:
        annotation = model.model_fields[str(part)].annotation
        model = next(
            (arg for arg in (annotation, *getattr(annotation, "__args__", ())) if hasattr(arg, "model_fields")), None
        )
        if model is None:
            return []
    return [key for key in model.model_fields if key not in ("name", "folder")]
