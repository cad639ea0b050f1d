"""A corpus with a query set that is easily made worse: each query is another form of a verb of its own page."""

from __future__ import annotations

import json
from pathlib import Path

from rag_pipeline_tests.conftest import Workspace

VERBS = (
    "install", "publish", "restor", "archiv", "rotat", "encrypt", "compress", "schedul", "monitor", "migrat", "validat",
    "approv", "cancel", "translat", "deliver", "inspect", "repair", "measur", "filter", "export", "merg", "sort", "paint",
    "harvest",
)  # fmt: skip
BASE = "source: {path: files}\nembedding: {provider: hash}\n"
LENIENT = "safety: {max_delete_fraction: 1.0}\n"
QUERY_SET = "evaluation: {queries: q.jsonl, qrels: q.tsv, mode: bm25}\n"


def pages() -> dict[str, str]:
    return {
        f"p{number:02}.md": f"# Account number {number} of the {verb}ed things\n\nAll of it was {verb}ed by hand.\n"
        for number, verb in enumerate(VERBS)
    }


def corpus(workspace: Workspace, yaml: str = BASE + LENIENT + QUERY_SET) -> Path:
    folder = workspace.corpus(yaml=yaml, files=pages())
    queries = [{"_id": f"q{number:02}", "text": f"{verb}ing"} for number, verb in enumerate(VERBS)]
    (folder / "q.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    rows = "".join(f"q{number:02}\tp{number:02}.md\t1\n" for number in range(len(VERBS)))
    (folder / "q.tsv").write_text(f"query-id\tcorpus-id\tscore\n{rows}")
    return folder


def lose_half(folder: Path) -> None:
    for file in sorted((folder / "files").iterdir())[::2]:
        file.unlink()
