"""A corpus with a query set of which one query has a reference answer, and settings that ask a test's server."""

from __future__ import annotations

import json
from typing import Any

from rag_pipeline.config import GenerationConfig
from rag_pipeline.evaluation import chosen_settings
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.evaluation.chat_server import ChatServer

KEY = "test-4fZ81kQw-77Lp_secret"
YAML = "source: {path: files}\nevaluation: {queries: queries.jsonl, qrels: qrels.tsv}\n"
PAGES = {
    "001.txt": "The lighthouse stands at the cape.",
    "002.txt": "The mill turns by the river.",
    "003.txt": "A quiet harbour lies in the east.",
}
QUERIES: list[dict[str, Any]] = [
    {
        "_id": "q1",
        "text": "where does the lighthouse stand?",
        "metadata": {"answer": "The lighthouse stands at the cape. It was painted red."},
    },
    {"_id": "q2", "text": "what turns by the river?", "metadata": {"source": ["tickets"]}},
    {"_id": "q3", "text": "where is the quiet harbour?"},
]
QRELS = "q1\t001.txt\t1\nq2\t002.txt\t1\nq3\t003.txt\t1\n"


def prepared(workspace: Workspace, yaml: str = YAML) -> Workspace:
    folder = workspace.corpus(yaml=yaml, files=PAGES)
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in QUERIES))
    (folder / "qrels.tsv").write_text(QRELS)
    workspace.refresh()
    return workspace


def settings_for(server: ChatServer, model: str = "grounded", **values: Any) -> GenerationConfig:
    given = {"model": f"openai/{model}", "api_base": server.address, **values}
    return chosen_settings(GenerationConfig(), **given)
