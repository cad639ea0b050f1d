"""The arrows between rooms point one way, and heavy packages stay in the rooms that need them."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "rag_pipeline"

SHARED = {"contracts", "config", "errors", "hashing", "files", "lance", "storage", "wording", "write_points"}
"""Every room may use these; they use nothing but each other."""

ARROWS: dict[str, set[str]] = {
    "contracts": {"hashing"},
    "config": {"errors", "hashing", "storage"},
    "storage": {"errors"},
    "errors": set(),
    "hashing": set(),
    "files": {"storage", "write_points"},
    "lance": {"errors", "storage", "write_points"},
    "wording": set(),
    "write_points": set(),
    "corpus_files": SHARED,
    "index": SHARED,
    "embedding": SHARED,
    "sources": SHARED,
    "parsing": SHARED,
    "chunking": SHARED,
    "reranking": SHARED | {"embedding"},
    "query": SHARED | {"index", "embedding", "reranking"},
    "evaluation": SHARED | {"query", "index", "embedding"},
    "refresh": SHARED | {"evaluation", "index", "embedding", "sources", "parsing", "chunking"},
    "orchestration": SHARED | {"corpus_files", "refresh", "index", "embedding"},
    "cli": SHARED | {"corpus_files", "orchestration", "refresh", "sources", "evaluation", "query", "index", "embedding"},
    "definitions": SHARED | {"corpus_files", "orchestration"},
}

ONLY_IN: dict[str, set[str]] = {
    "dagster": {"orchestration", "definitions"},
    "lancedb": {"lance"},
    "obstore": {"storage"},
    "boto3": {"storage"},
    "botocore": {"storage"},
    "docutils": {"parsing"},
    "selectolax": {"parsing"},
    "chardet": {"parsing"},
    "pypdfium2": {"parsing"},
    "pypdf": {"parsing"},
    "office_oxide": {"parsing"},
    "python_calamine": {"parsing"},
    "oxmsg": {"parsing"},
    "striprtf": {"parsing"},
    "msoffcrypto": {"parsing"},
    "tokenizers": {"embedding"},
    "safetensors": {"embedding"},
    "Stemmer": {"index"},
    "rank_bm25": {"index"},
    "rich": {"cli"},
    "yaml": {"corpus_files", "parsing"},
    "litellm": {"embedding"},
    "fastembed": {"embedding", "reranking"},
    "sentence_transformers": {"embedding", "reranking"},
    "onnxruntime": {"embedding", "reranking"},
    "huggingface_hub": {"embedding"},
    "transformers": {"embedding"},
    "ragas": {"evaluation"},
    "torch": set(),
}


def modules() -> list[Path]:
    return sorted(PACKAGE.rglob("*.py"))


def room(module: Path) -> str:
    return module.relative_to(PACKAGE).parts[0].removesuffix(".py")


def imports(module: Path) -> set[str]:
    """Full names of the modules that a module imports, anywhere in it."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(module.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found.update(name.name for name in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}: relative imports hide which room they reach into"
            found.add(node.module or "")
            if node.module == "rag_pipeline":
                found.update(f"rag_pipeline.{name.name}" for name in node.names)
    return found


def test_every_room_is_in_the_map() -> None:
    assert {room(module) for module in modules()} - {"__init__"} == set(ARROWS)


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative_to(PACKAGE)))
def test_a_module_uses_only_rooms_below_its_own(module: Path) -> None:
    own = room(module)
    used = {name.split(".")[1] for name in imports(module) if name.startswith("rag_pipeline.")}
    wrong = used - ARROWS.get(own, set()) - {own}
    assert not wrong, f"{module}: {wrong} is not below {own}"


@pytest.mark.parametrize("module", modules(), ids=lambda module: str(module.relative_to(PACKAGE)))
def test_a_heavy_package_is_used_only_in_its_room(module: Path) -> None:
    used = {name.split(".")[0] for name in imports(module)}
    wrong = {package for package in used & set(ONLY_IN) if room(module) not in ONLY_IN[package]}
    assert not wrong, f"{module} imports {wrong}"


def test_the_entry_point_stays_small() -> None:
    assert len((PACKAGE / "definitions.py").read_text().splitlines()) < 50
