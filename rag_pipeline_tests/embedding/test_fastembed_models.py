"""Provider ``local``: ONNX models in folders, run by fastembed.

The models are made here: a table of word vectors, and their mean, first token or nothing behind it.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pytest
from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.embedding import fastembed_models
from rag_pipeline.errors import EmbeddingError, MissingExtraError

if TYPE_CHECKING:
    from rag_pipeline.embedding.fastembed_models import FastembedEmbedder

WIDTH = 8
LIMIT = 16
WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "nothing", "the", "cat", "sat", "on", "a", "mat", "while", "dogs"]
WORDS += ["ran", "far", "query", ":"]
VECTORS = np.random.default_rng(7).normal(size=(len(WORDS), WIDTH)).astype(np.float32)
VECTORS[[0, 2, 3, 4]] = 0


def write_tokenizer(folder: Path) -> None:
    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(WORDS[:4])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": LIMIT, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")


def write_model(file: Path, output: str, dynamic: bool = False, vectors: Any = VECTORS) -> None:
    """A model whose output is ``tokens`` (a vector a token), or the mean of a text's under any other name."""
    from onnx import TensorProto, helper, numpy_helper, save

    nodes = [helper.make_node("Gather", ["table", "input_ids"], ["gathered"])]
    found = "gathered"
    if dynamic:
        nodes += [
            helper.make_node("DynamicQuantizeLinear", ["gathered"], ["small", "scale", "zero"]),
            helper.make_node("DequantizeLinear", ["small", "scale", "zero"], ["rounded"]),
        ]
        found = "rounded"
    if output == "tokens":
        nodes.append(helper.make_node("Identity", [found], [output]))
    else:
        nodes += [
            helper.make_node("Cast", ["attention_mask"], ["mask"], to=TensorProto.FLOAT),
            helper.make_node("Unsqueeze", ["mask", "last"], ["weights"]),
            helper.make_node("Mul", [found, "weights"], ["kept"]),
            helper.make_node("ReduceSum", ["kept", "middle"], ["sums"], keepdims=0),
            helper.make_node("ReduceSum", ["weights", "middle"], ["lengths"], keepdims=0),
            helper.make_node("Div", ["sums", "lengths"], [output]),
        ]
    shape = ["batch", "length", WIDTH] if output == "tokens" else ["batch", WIDTH]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    constants = [numpy_helper.from_array(vectors, "table")]
    if output != "tokens":
        constants += [numpy_helper.from_array(np.array([axis]), name) for name, axis in (("middle", 1), ("last", 2))]
    outputs = [helper.make_tensor_value_info(output, TensorProto.FLOAT, shape)]
    graph = helper.make_graph(nodes, "words", inputs, outputs, constants)
    file.parent.mkdir(parents=True, exist_ok=True)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), file)


def model_folder(folder: Path, output: str = "vectors", file: str = "model.onnx", **options: Any) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_tokenizer(folder)
    write_model(folder / file, output, **options)
    return folder


def write_pooling(folder: Path, settings: dict[str, Any]) -> None:
    (folder / "1_Pooling").mkdir(exist_ok=True)
    (folder / "1_Pooling" / "config.json").write_text(json.dumps(settings), encoding="utf-8")


def load(folder: Path, **options: Any) -> FastembedEmbedder:
    return fastembed_models.load(EmbedderConfig(provider="local", model=str(folder), **options))


def unit(vector: Any) -> Any:
    return vector / np.linalg.norm(vector)


def mean_of(*words: str) -> Any:
    """What the models give for a text of these words: the two marks around it count as words of no vector."""
    return unit(VECTORS[[WORDS.index(word) for word in words]].sum(axis=0))


@pytest.mark.models
def test_a_folder_with_a_model_embeds_and_every_vector_has_length_one(tmp_path: Path) -> None:
    embedder = load(model_folder(tmp_path / "words"))
    vectors = embedder.embed_documents(["the cat sat", "dogs ran far", "The Cat SAT"])
    assert vectors.dtype == np.float32
    np.testing.assert_allclose(vectors[0], mean_of("the", "cat", "sat"), atol=1e-6)
    np.testing.assert_allclose(vectors[1], mean_of("dogs", "ran", "far"), atol=1e-6)
    np.testing.assert_array_equal(vectors[2], vectors[0])
    np.testing.assert_allclose(embedder.embed_query("the cat sat"), vectors[0], atol=1e-6)


@pytest.mark.models
def test_a_text_without_a_token_and_a_vector_of_zeros_stay_zeros(tmp_path: Path) -> None:
    embedder = load(model_folder(tmp_path / "words"))
    vectors = embedder.embed_documents(["", " \n\t", "nothing", "cat"])
    assert not vectors[:3].any()
    assert np.linalg.norm(vectors[3]) == pytest.approx(1, abs=1e-6)
    assert not embedder.embed_query("").any()
    assert embedder.embed_documents([]).shape == (0, WIDTH)


@pytest.mark.models
@pytest.mark.parametrize("dynamic", [False, True])
def test_a_vector_does_not_depend_on_the_texts_beside_it(tmp_path: Path, dynamic: bool) -> None:
    vectors = VECTORS.copy()
    vectors[WORDS.index("far")] *= 50  # under dynamic quantization it would coarsen all vectors of its batch
    embedder = load(model_folder(tmp_path / "words", dynamic=dynamic, vectors=vectors), batch_size=32)
    texts = ["the cat sat", "", "far", "a mat " * 6, "dogs", "on a mat while dogs ran"]
    together = embedder.embed_documents(texts)
    alone = np.stack([embedder.embed_documents([text])[0] for text in texts])
    np.testing.assert_allclose(together, alone, atol=1e-6)


@pytest.mark.models
def test_prompts_stand_before_the_texts_and_in_the_identity(tmp_path: Path) -> None:
    embedder = load(model_folder(tmp_path / "words"), document_prompt="a ", query_prompt="query : ")
    np.testing.assert_allclose(embedder.embed_documents(["cat"])[0], mean_of("a", "cat"), atol=1e-6)
    np.testing.assert_allclose(embedder.embed_query("cat"), mean_of("query", ":", "cat"), atol=1e-6)
    assert (embedder.identity.document_prompt, embedder.identity.query_prompt) == ("a ", "query : ")
    assert not embedder.embed_query(" ").any()


@pytest.mark.models
def test_a_folder_named_like_a_known_model_gets_that_models_prompts_unless_others_are_given(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "bge-small-en-v1.5")
    assert load(folder).identity.query_prompt == "Represent this sentence for searching relevant passages: "
    assert load(folder, query_prompt="").identity.query_prompt == ""


@pytest.mark.models
def test_the_room_for_a_text_leaves_out_the_marks_and_the_longer_prompt(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "words")
    assert load(folder).max_tokens == LIMIT - 2
    embedder = load(folder, document_prompt="a ", query_prompt="query : ")
    assert embedder.max_tokens == LIMIT - 4
    assert embedder.tokenizer.count(["the cat [SEP]"]).tolist() == [5]
    longest = "cat " * (embedder.max_tokens - 1) + "dogs"
    np.testing.assert_allclose(embedder.embed_query(longest), embedder.embed_query(longest + " far far"), atol=1e-6)
    assert not np.allclose(embedder.embed_query(longest), embedder.embed_query("cat " * embedder.max_tokens), atol=1e-3)


@pytest.mark.models
def test_the_identity_names_the_folder_and_not_its_path_and_what_its_files_hold(tmp_path: Path) -> None:
    here, there = model_folder(tmp_path / "a" / "words"), model_folder(tmp_path / "b" / "words")
    first = load(here).identity
    assert (first.provider, first.model, first.dimensions) == ("local", "words", WIDTH)
    assert first == load(there).identity
    assert str(tmp_path) not in first.model_dump_json()
    write_model(there / "model.onnx", "vectors", vectors=VECTORS + 1)
    second = load(there)
    assert second.identity.revision != first.revision
    assert not np.allclose(second.embed_query("cat"), load(here).embed_query("cat"))


@pytest.mark.models
def test_a_revision_that_is_given_is_part_of_the_identity(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "words")
    plain, named = load(folder).identity, load(folder, revision="2026-11").identity
    assert named.revision == f"2026-11 {plain.revision}"


@pytest.mark.models
@pytest.mark.parametrize("file", ["model.onnx", "onnx/model.onnx", "model_optimized.onnx"])
def test_the_model_is_found_where_exporters_put_it(tmp_path: Path, file: str) -> None:
    embedder = load(model_folder(tmp_path / "words", file=file))
    np.testing.assert_allclose(embedder.embed_query("cat"), mean_of("cat"), atol=1e-6)


@pytest.mark.models
@pytest.mark.parametrize(
    "settings", [{"pooling_mode_mean_tokens": True, "pooling_mode_cls_token": False}, {"pooling_mode": "mean"}]
)
def test_vectors_of_tokens_are_pooled_as_the_folder_says(tmp_path: Path, settings: dict[str, Any]) -> None:
    folder = model_folder(tmp_path / "words", output="tokens")
    write_pooling(folder, settings)
    np.testing.assert_allclose(load(folder).embed_query("the cat"), mean_of("the", "cat"), atol=1e-6)


@pytest.mark.models
def test_another_rule_of_pooling_gives_other_vectors_and_another_identity(tmp_path: Path) -> None:
    vectors = VECTORS + 1
    folder = model_folder(tmp_path / "words", output="tokens", vectors=vectors)
    write_pooling(folder, {"pooling_mode_mean_tokens": True})
    mean = load(folder).identity
    write_pooling(folder, {"pooling_mode_cls_token": True})
    first = load(folder)
    np.testing.assert_allclose(first.embed_query("the cat"), unit(vectors[WORDS.index("[CLS]")]), atol=1e-6)
    write_pooling(folder, {"pooling_mode_lasttoken": True})
    last = load(folder)
    np.testing.assert_allclose(last.embed_query("the cat"), unit(vectors[WORDS.index("[SEP]")]), atol=1e-6)
    assert len({mean.revision, first.identity.revision, last.identity.revision}) == 3


@pytest.mark.models
def test_vectors_of_tokens_without_a_rule_are_refused_with_what_to_add(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "words", output="tokens")
    with pytest.raises(EmbeddingError, match=r"words: model\.onnx gives a vector a token.*add 1_Pooling/config\.json"):
        load(folder)
    write_pooling(folder, {"pooling_mode_max_tokens": True})
    with pytest.raises(EmbeddingError, match=r"config\.json asks for max_tokens; expected pooling_mode_mean_tokens"):
        load(folder)


@pytest.mark.models
def test_another_width_than_the_models_is_refused_and_both_are_named(tmp_path: Path) -> None:
    folder = model_folder(tmp_path / "words")
    assert load(folder, dimensions=WIDTH).identity.dimensions == WIDTH
    with pytest.raises(EmbeddingError, match=r"embedding\.dimensions 4: words gives 8"):
        load(folder, dimensions=4)


@pytest.mark.models
def test_a_folder_that_lacks_a_file_is_refused_with_its_name(tmp_path: Path) -> None:
    with pytest.raises(EmbeddingError, match=r"none: there is no such folder"):
        load(tmp_path / "none")
    folder = tmp_path / "words"
    folder.mkdir()
    with pytest.raises(EmbeddingError, match=r"has no model\.onnx, tokenizer\.json, tokenizer_config\.json; expected"):
        load(folder)
    model_folder(folder)
    (folder / "tokenizer_config.json").unlink()
    with pytest.raises(EmbeddingError, match=r"has no tokenizer_config\.json; expected"):
        load(folder)


@pytest.mark.models
@pytest.mark.parametrize("file", ["model.onnx", "tokenizer.json"])
def test_a_file_that_cannot_be_read_gives_one_line_that_names_the_folder(tmp_path: Path, file: str) -> None:
    folder = model_folder(tmp_path / "words")
    (folder / file).write_bytes(b"neither a model nor a tokenizer")
    with pytest.raises(EmbeddingError, match=r"words.* cannot be (read|loaded)") as raised:
        load(folder)
    assert "\n" not in str(raised.value)


@pytest.mark.models
def test_a_name_that_fastembed_does_not_know_is_refused_with_names_like_it() -> None:
    with pytest.raises(EmbeddingError, match=r"bge-small-en-v1\.5: fastembed does not know it.*BAAI/bge-small-en-v1\.5"):
        fastembed_models.load(EmbedderConfig(provider="local", model="bge-small-en-v1.5"))


@pytest.mark.models
def test_threads_share_an_embedder(tmp_path: Path) -> None:
    embedder = load(model_folder(tmp_path / "words"))
    texts = [f"{word} {other}" for word in WORDS[5:15] for other in WORDS[5:15]]
    expected = embedder.embed_documents(texts)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(embedder.embed_documents(texts))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-6)


def run_alone(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("HF_", "FASTEMBED_"))}
    return subprocess.run(
        [sys.executable, "-c", code], env={**kept, **environment}, capture_output=True, text=True, timeout=120, check=False
    )


LOAD_THE_DEFAULT = """
import sys
from rag_pipeline.config import EmbedderConfig
from rag_pipeline.embedding import fastembed_models
from rag_pipeline.errors import RagPipelineError
try:
    embedder = fastembed_models.load(EmbedderConfig(provider="local"))
except RagPipelineError as error:
    sys.exit(f"{type(error).__name__}: {error}")
print(embedder.identity.model, embedder.identity.query_prompt, embedder.embed_query("cat").tolist())
"""


@pytest.mark.models
@pytest.mark.parametrize("offline", ["0", "1"])
def test_without_a_network_a_model_that_is_not_here_is_soon_one_line_that_says_where_to_put_it(
    tmp_path: Path, offline: str
) -> None:
    # Nothing listens on the discard port.
    begun = time.monotonic()
    done = run_alone(LOAD_THE_DEFAULT, HF_ENDPOINT="http://127.0.0.1:9", HF_HOME=str(tmp_path), HF_HUB_OFFLINE=offline)
    assert time.monotonic() - begun < 30
    assert done.returncode == 1
    assert done.stderr.startswith("EmbeddingError: embedding.model BAAI/bge-small-en-v1.5: not in the cache")
    assert done.stderr.count("\n") == 1
    for part in ("Qdrant/bge-small-en-v1.5-onnx-Q", "FASTEMBED_CACHE_PATH", "model.onnx, tokenizer.json", str(tmp_path)):
        assert part in done.stderr


@pytest.mark.models
def test_a_server_that_never_answers_is_given_up_within_seconds(tmp_path: Path) -> None:
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()
        begun = time.monotonic()
        endpoint = f"http://127.0.0.1:{silent.getsockname()[1]}"
        done = run_alone(LOAD_THE_DEFAULT, HF_ENDPOINT=endpoint, HF_HOME=str(tmp_path))
        assert time.monotonic() - begun < 60
    assert done.stderr.startswith("EmbeddingError: embedding.model BAAI/bge-small-en-v1.5: not in the cache")
    assert done.stderr.count("\n") == 1


@pytest.mark.models
def test_a_model_in_the_cache_is_loaded_without_a_network(tmp_path: Path) -> None:
    repository = tmp_path / "models--Qdrant--bge-small-en-v1.5-onnx-Q"
    folder = repository / "snapshots" / "0123abcd"
    model_folder(folder, output="tokens", file="model_optimized.onnx", vectors=VECTORS + 1)
    (repository / "refs").mkdir()
    (repository / "refs" / "main").write_text("0123abcd", encoding="utf-8")
    done = run_alone(LOAD_THE_DEFAULT, HF_ENDPOINT="http://127.0.0.1:9", FASTEMBED_CACHE_PATH=str(tmp_path))
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    assert done.stdout.startswith("BAAI/bge-small-en-v1.5 Represent this sentence for searching relevant passages: ")


def test_a_missing_fastembed_is_said_with_the_extra_that_brings_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "fastembed", None)  # the import system's own way to forbid an import
    with pytest.raises(MissingExtraError, match=r"embedding\.provider local needs fastembed.*pip install '\.\[local\]'"):
        fastembed_models.load(EmbedderConfig(provider="local"))


def test_importing_the_module_imports_no_model_library() -> None:
    code = "import sys, rag_pipeline.embedding.fastembed_models as m; print({'fastembed', 'onnxruntime'} & set(sys.modules))"
    assert run_alone(code).stdout.strip() == "set()"
