"""Cross-encoders of sentence-transformers and of fastembed, on small models that are made here."""

from __future__ import annotations

import importlib.util
import json
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rag_pipeline.config import RetrievalConfig
from rag_pipeline.errors import MissingExtraError, RerankingError
from rag_pipeline.reranking import reranker_for
from rag_pipeline.reranking.base import Reranker
from rag_pipeline_tests.conftest import Workspace

WORDS = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "red", "green", "blue", "cat", "dog", "sat", "on", "the", "mat"]
TEXTS = ["red cat", "the dog sat on the mat", "green", "blue blue blue dog", "red", "", "the cat " * 40]
QUERY = "red dog"
LIMIT = 32


def torch_model(folder: Path, labels: int = 1) -> Path:
    """A BERT of one layer with random weights, as transformers saves it."""
    from transformers import BertConfig, BertForSequenceClassification, BertTokenizerFast, set_seed

    set_seed(7)
    folder.mkdir()
    (folder / "vocab.txt").write_text("\n".join(WORDS), encoding="utf-8")
    config = BertConfig(
        vocab_size=len(WORDS), hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32,
        max_position_embeddings=LIMIT, num_labels=labels, initializer_range=1.0,
    )  # fmt: skip
    BertForSequenceClassification(config).eval().save_pretrained(folder)
    BertTokenizerFast(str(folder / "vocab.txt"), model_max_length=LIMIT).save_pretrained(folder)
    return folder


def onnx_model(folder: Path, labels: int = 1) -> Path:
    """A model whose score is the sum of its tokens' values, the query's included; [SEP] and [CLS] are worth nothing."""
    from onnx import TensorProto, helper, numpy_helper, save
    from tokenizers import Tokenizer, models, normalizers, pre_tokenizers, processors

    folder.mkdir()
    values = np.arange(len(WORDS), dtype=np.float32)[:, None].repeat(labels, axis=1)
    values[:5] = 0
    nodes = [
        helper.make_node("Gather", ["table", "input_ids"], ["gathered"]),
        helper.make_node("ReduceSum", ["gathered", "middle"], ["logits"], keepdims=0),
    ]
    inputs = [
        helper.make_tensor_value_info(name, TensorProto.INT64, ["batch", "length"])
        for name in ("input_ids", "attention_mask")
    ]
    output = helper.make_tensor_value_info("logits", TensorProto.FLOAT, ["batch", labels])
    constants = [numpy_helper.from_array(values, "table"), numpy_helper.from_array(np.array([1]), "middle")]
    graph = helper.make_graph(nodes, "scores", inputs, [output], constants)
    save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9), folder / "model.onnx")

    tokenizer = Tokenizer(models.WordLevel({word: index for index, word in enumerate(WORDS)}, unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer()
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.add_special_tokens(WORDS[:4])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", pair="[CLS] $A [SEP] $B [SEP]", special_tokens=[("[CLS]", 2), ("[SEP]", 3)]
    )
    tokenizer.save(str(folder / "tokenizer.json"))
    settings = {"model_max_length": LIMIT, "pad_token": "[PAD]"}
    (folder / "tokenizer_config.json").write_text(json.dumps(settings), encoding="utf-8")
    return folder


def load(provider: str, folder: Path, **values: Any) -> Reranker:
    return reranker_for(
        RetrievalConfig.model_validate(
            {"rerank": "cross-encoder", "rerank_provider": provider, "rerank_model": str(folder), **values}
        )
    )


MAKERS = {"sentence-transformers": torch_model, "local": onnx_model}


@pytest.mark.models
def test_scores_are_the_logits_of_the_library(tmp_path: Path) -> None:
    from sentence_transformers import CrossEncoder
    from torch.nn import Identity

    folder = torch_model(tmp_path / "tiny")
    reranker = load("sentence-transformers", folder)
    assert reranker.name == "cross-encoder/tiny"
    scores = reranker.scores(QUERY, TEXTS)
    library = CrossEncoder(str(folder), local_files_only=True)
    expected = [float(library.predict([(QUERY, text)], activation_fn=Identity())[0]) for text in TEXTS]
    np.testing.assert_allclose(scores, expected, atol=1e-5)
    assert len(set(np.round(scores, 4))) == len(TEXTS)


@pytest.mark.models
def test_scores_of_an_onnx_model_are_those_of_its_definition(tmp_path: Path) -> None:
    scores = load("local", onnx_model(tmp_path / "sums")).scores(QUERY, TEXTS[:6])
    worth = {word: index for index, word in enumerate(WORDS)}
    assert scores.tolist() == [sum(worth[word] for word in f"{QUERY} {text}".split()) for text in TEXTS[:6]]


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_a_score_does_not_depend_on_the_texts_beside_it_nor_on_the_batch(tmp_path: Path, provider: str) -> None:
    folder = MAKERS[provider](tmp_path / "tiny")
    together = load(provider, folder).scores(QUERY, TEXTS)
    alone = load(provider, folder, rerank_batch_size=1).scores(QUERY, TEXTS)
    np.testing.assert_allclose(together, alone, atol=1e-5)
    assert load(provider, folder).scores(QUERY, []).shape == (0,)


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_odd_texts_are_scored(tmp_path: Path, provider: str) -> None:
    reranker = load(provider, MAKERS[provider](tmp_path / "tiny"))
    assert np.isfinite(reranker.scores("\ud800 lone", ["\ud800", "\x00", "言葉", "a\n" * 500])).all()


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_a_model_of_several_classes_is_no_reranker(tmp_path: Path, provider: str) -> None:
    with pytest.raises(RerankingError, match="a reranker has one output"):
        load(provider, MAKERS[provider](tmp_path / "classes", labels=3))


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_what_is_no_model_is_refused_in_one_line_that_names_it(tmp_path: Path, provider: str) -> None:
    with pytest.raises(RerankingError, match=r"retrieval\.rerank_model .*none: there is no such folder"):
        load(provider, tmp_path / "none")
    (tmp_path / "empty").mkdir()
    with pytest.raises(RerankingError, match=r"retrieval\.rerank_model .*empty.*expected"):
        load(provider, tmp_path / "empty")
    folder = MAKERS[provider](tmp_path / "broken")
    weights = "model.safetensors" if provider == "sentence-transformers" else "model.onnx"
    (folder / weights).write_bytes(b"no weights")
    with pytest.raises(RerankingError, match=r"broken cannot be loaded") as raised:
        load(provider, folder)
    assert "\n" not in str(raised.value)


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_threads_share_a_reranker(tmp_path: Path, provider: str) -> None:
    reranker = load(provider, MAKERS[provider](tmp_path / "tiny"))
    expected = reranker.scores(QUERY, TEXTS)
    results: list[Any] = []
    threads = [threading.Thread(target=lambda: results.append(reranker.scores(QUERY, TEXTS))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 4
    for result in results:
        np.testing.assert_allclose(result, expected, atol=1e-5)


@pytest.mark.models
@pytest.mark.parametrize("provider", MAKERS)
def test_a_search_ranks_by_the_cross_encoder(tmp_path: Path, provider: str) -> None:
    folder = MAKERS[provider](tmp_path / "tiny")
    workspace = Workspace(tmp_path)
    texts = ["red cat", "the dog sat", "green mat", "blue dog", "red mat"]
    workspace.corpus(
        yaml=f"source: {{path: files}}\nretrieval: {{rerank: cross-encoder, rerank_provider: {provider}, "
        f"rerank_model: {json.dumps(str(folder))}}}\n",
        files={f"{number}.txt": text for number, text in enumerate(texts)},
    )
    workspace.refresh()
    scores = load(provider, folder).scores(QUERY, texts)
    hits = workspace.index().search(QUERY)
    assert [hit.text for hit in hits] == [texts[place] for place in np.argsort(-scores)]
    assert [hit.score for hit in hits] == pytest.approx(np.sort(scores)[::-1].tolist(), abs=1e-5)


@pytest.mark.parametrize(
    ("provider", "package"), [("sentence-transformers", "sentence_transformers"), ("local", "fastembed")]
)
def test_a_missing_extra_is_told_with_its_name(provider: str, package: str) -> None:
    if importlib.util.find_spec(package) is not None:
        pytest.skip(f"{package} is installed")
    with pytest.raises(MissingExtraError, match=rf"retrieval\.rerank cross-encoder.*\[{provider}\]"):
        load(provider, Path("any/model"))
