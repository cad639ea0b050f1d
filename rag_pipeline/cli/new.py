"""`rag-pipeline new`: write a corpus.yaml for a folder or file of documents, with comments that explain it."""

from __future__ import annotations

import argparse
import json
import os
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

from rag_pipeline.cli.output import print_json, print_line
from rag_pipeline.config import CORPUS_FILE, NAME_PATTERN, RESERVED_NAMES, corpora_root
from rag_pipeline.errors import ConfigError
from rag_pipeline.storage import is_address, parse_address

_READABLE = (
    ".md", ".markdown", ".mdx", ".qmd", ".rmd", ".txt", ".rst", ".rest", ".html", ".htm", ".xhtml", ".xht", ".pdf", ".docx",
    ".docm", ".dotx", ".pptx", ".pptm", ".ppsx", ".xlsx", ".xlsm", ".xlsb", ".xls", ".odt", ".odp", ".ods", ".epub", ".eml",
    ".mbox", ".msg", ".rtf", ".csv", ".tsv", ".ipynb",
)  # fmt: skip
"""What is taken for a document; source code is read too, but seldom meant."""
_FORMATS = {".jsonl": "jsonl", ".ndjson": "jsonl", ".parquet": "parquet"}
_ID_NAMES = ("id", "_id", "doc_id", "docid")
_TITLE_NAMES = ("title", "question", "name")
_TEXT_NAMES = ("text", "body", "content", "answer")

_TEMPLATE = """\
# The corpus {name}. Every key but `source` may be left out; unknown keys are refused.
# `rag-pipeline refresh {name}` reads it; Dagster shows it as the group {name} with the job refresh_{name}.
description: ""                    # one line for the Dagster UI
owners: []                         # ["team:docs", "a.person@example.com"]

{source}

# Columns for filters, from front matter or from the fields of a record: string, int, float, bool or timestamp.
# `rag-pipeline search {name} QUERY --where "year >= 2024"` needs {{year: int}} here.
metadata: {{}}

# What reading one PDF or Office document may cost; ocr and passwords name functions of your own (package.module:function).
# parsing: {{seconds: 10, memory_mb: 768, workers: 2, ocr: "my_team.scans:recognise", passwords: "my_team.vault:find"}}

# chunking: {{size: 480, overlap: 64}}   # tokens of the embedding model; without it 480, or what the model takes

embedding: {{provider: static}}      # static: built in, deterministic, no network
# Or local, sentence-transformers, voyage, openai, ollama, litellm, auto; docs/providers has a page for each. Their keys:
# model, dimensions, revision, document_prompt, query_prompt, batch_size, fallback, and for hosted ones api_base,
# query_model, batch_tokens, concurrency, requests_per_minute, tokens_per_minute, timeout_seconds, retry_seconds,
# usd_per_million_tokens. The key is taken from the environment: VOYAGE_API_KEY, OPENAI_API_KEY.
# embedding: {{provider: voyage, model: voyage-4}}

# What one refresh may spend on embedding; it stops before it spends more, and keeps what it has.
# budget: {{usd_per_refresh: 5, tokens_per_refresh: 20000000}}

lexical: {{language: auto}}          # the stemmer of the lexical index: found in the text, or named; none for no stemming

# When Dagster refreshes it (cron and time zone). Without this block the schedule is there, but stopped.
# schedule: {{cron: "0 3 * * *", timezone: UTC}}

# After how many hours without a refresh the Dagster UI shows the corpus as late.
# freshness: {{max_age_hours: 26}}

# A refresh that would delete or fail more than this part of the documents stops, and what is served stays.
safety: {{max_delete_fraction: 0.3, max_failed_fraction: 0.1}}
"""


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("new", parents=[common], help="make a corpus of a folder or file of documents")
    parser.add_argument("name", help="lower-case letters, digits and underscores; the first is a letter")
    parser.add_argument(
        "--source", required=True, metavar="PATH", help="a folder, a .jsonl or .parquet file, or s3://bucket/prefix"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    name, source = arguments.name, Path(arguments.source).expanduser()
    if not NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        raise ConfigError(f"NAME: expected [a-z][a-z0-9_]* and none of {', '.join(RESERVED_NAMES)}, got {name!r}")
    bucket = is_address(arguments.source)
    if not bucket and not source.exists():
        raise ConfigError(f"--source {source}: there is no such file or folder")
    file = corpora_root() / name / CORPUS_FILE
    if file.exists():
        raise ConfigError(f"{file} exists already; choose another name or edit it")
    endings = Counter[str]() if bucket or source.is_file() else _endings(source)
    block = _bucket_block(arguments.source) if bucket else _source_block(source, file.parent, endings)
    left_out = {ending or "none": count for ending, count in endings.most_common() if not _is_readable(ending)}
    text = _TEMPLATE.format(name=name, source=block)
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    if arguments.json:
        print_json({"corpus": name, "file": str(file), "left_out": left_out})
    else:
        print_line(f"wrote {file}")
        if left_out:
            shown = ", ".join(f"{ending} {count}" for ending, count in list(left_out.items())[:8])
            print_line(f"files left out, by ending: {shown}; source.include decides")
        print_line(f"next: rag-pipeline refresh {name}")
    return 0


def _bucket_block(source: str) -> str:
    """The lines of a source in a bucket, which is not looked into."""
    try:
        address = parse_address(source)
    except ValueError as error:
        raise ConfigError(f"--source: {error}") from None
    path = json.dumps(source, ensure_ascii=False)
    kind = _FORMATS.get(Path(address.key).suffix.lower())
    about = (
        "# Keys come from the environment or an AWS profile; storage_options: {endpoint: ..., region: ..., profile: ...}\n"
    )
    if kind:
        return f"{about}source: {{path: {path}, format: {kind}, fields: {{id: id, text: text}}}}"
    return f'{about}source:\n  path: {path}\n  include: ["**/*"]\n  exclude: []'


def _source_block(source: Path, folder: Path, endings: Counter[str]) -> str:
    path = json.dumps(_written_path(source, folder), ensure_ascii=False)
    kind = _FORMATS.get(source.suffix.lower())
    if source.is_file() and kind:
        fields = ", ".join(f"{key}: {json.dumps(value)}" for key, value in _guess_fields(source, kind).items())
        return (
            "# One document a record. `fields` name the record's id, title and text; the other fields become metadata.\n"
            f"source: {{path: {path}, format: {kind}, fields: {{{fields}}}}}"
        )
    if source.is_file():
        return f"source: {{path: {path}}}"
    patterns = ", ".join(json.dumps(f"**/*{ending}") for ending in _readable(endings))
    lines = textwrap.wrap(patterns, 110, initial_indent="    ", subsequent_indent="    ", break_on_hyphens=False)
    include = "\n".join(["  include: [", *lines, "  ]"])
    return (
        "# Where the documents are: a path relative to this file, or absolute. Hidden files are left out. `include` names\n"
        "# the kinds that this folder has, then all others that are read as documents, so that none is missed later.\n"
        f"source:\n  path: {path}\n{include}\n  exclude: []"
    )


def _written_path(source: Path, folder: Path) -> str:
    """Relative when the source lies in the corpora's neighbourhood, so that a checkout works wherever it is."""
    absolute, base = source.resolve(), folder.parent.parent.resolve()
    return os.path.relpath(absolute, folder.resolve()) if absolute.is_relative_to(base) else str(absolute)


def _endings(folder: Path) -> Counter[str]:
    """How many files of the folder have each ending. Hidden files are not looked at, as a refresh does not."""
    found = Counter[str]()
    for _, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found.update(Path(name).suffix for name in names if not name.startswith("."))
    return found


def _is_readable(ending: str) -> bool:
    return ending.lower() in _READABLE


def _readable(endings: Counter[str]) -> list[str]:
    """The endings of documents: those that were found, most frequent first, then those that may come."""
    found = [ending for ending, _ in endings.most_common() if _is_readable(ending)]
    return list(dict.fromkeys([*found, *_READABLE]))


def _guess_fields(source: Path, kind: str) -> dict[str, str]:
    names: list[str] = []
    if kind == "parquet":
        import pyarrow.parquet as pq

        names = list(pq.read_schema(source).names)
    else:
        with source.open(encoding="utf-8-sig", errors="replace") as lines:
            try:
                record = json.loads(next(lines, "{}"))
            except ValueError:
                record = {}
        names = list(record) if isinstance(record, dict) else []
    fields = {"id": next((name for name in _ID_NAMES if name in names), "id")}
    title = next((name for name in _TITLE_NAMES if name in names), None)
    if title is not None:
        fields["title"] = title
    return {**fields, "text": next((name for name in _TEXT_NAMES if name in names), "text")}
