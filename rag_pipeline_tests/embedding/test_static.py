"""Provider static: wordllama's vectors, exactly reproducible, without wordllama's code."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.config import EmbeddingConfig
from rag_pipeline.embedding import embedder_for, static
from rag_pipeline.errors import EmbeddingError

EMBEDDER = embedder_for(EmbeddingConfig(provider="static"))

TEXTS = [
    "A snapshot names the tables and the segments that a reader opens, and nothing else.",
    "fn main() {\n    let words: Vec<&str> = text.split(' ').collect();\n    println!(\"{:?}\", words);\n}",
    "- roll back with `rag-pipeline rollback handbook 41`\n- release the hold afterwards\n",
    "Die Straße führt über die Brücke; dahinter liegt das Dorf.",
    "Мы идём по дороге к дому. Το σπίτι είναι εδώ.",
    "我们在这里写一些中文，没有空格。",
    "| name | value |\n|------|-------|\n| a    | 1.25  |",
    "word",
    "The kettle near the window holds a lantern. " * 60,
]


def package() -> Path:
    spec = importlib.util.find_spec("wordllama")
    assert spec is not None
    assert spec.submodule_search_locations is not None
    return Path(spec.submodule_search_locations[0])


def cosines(ours: npt.NDArray[np.float32], theirs: npt.NDArray[np.float32]) -> npt.NDArray[np.float64]:
    products: npt.NDArray[np.float64] = (ours.astype(np.float64) * theirs).sum(axis=1)
    lengths: npt.NDArray[np.float64] = np.linalg.norm(theirs.astype(np.float64), axis=1)
    return np.asarray(products / lengths)


def test_vectors_agree_with_those_of_wordllama() -> None:
    from wordllama import WordLlama

    model: Any = WordLlama.load(cache_dir=package(), disable_download=True)
    agreement = cosines(EMBEDDER.embed_documents(TEXTS), model.embed(TEXTS))
    assert agreement.min() > 0.999999


def test_vectors_are_float32_of_length_one() -> None:
    vectors = EMBEDDER.embed_documents(TEXTS)
    assert vectors.dtype == np.float32
    assert vectors.shape == (len(TEXTS), EMBEDDER.identity.dimensions)
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)


def test_a_query_embeds_as_a_document_of_the_same_text() -> None:
    for text in TEXTS:
        query = EMBEDDER.embed_query(text)
        assert query.shape == (EMBEDDER.identity.dimensions,)
        assert np.array_equal(query, EMBEDDER.embed_documents([text])[0])


@settings(max_examples=60)
@given(batch=st.lists(st.one_of(st.sampled_from(TEXTS), st.text(max_size=50)), max_size=40))
def test_not_a_bit_of_a_vector_depends_on_the_texts_beside_it(batch: list[str]) -> None:
    together = EMBEDDER.embed_documents(batch)
    alone = [EMBEDDER.embed_query(text) for text in batch]
    assert np.isfinite(together).all()
    assert np.array_equal(together, np.array(alone).reshape(together.shape))


def test_threads_that_meet_tokens_at_the_same_time_get_the_same_bits() -> None:
    fresh = static.load()
    batches = [[text[shift:] for text in TEXTS] for shift in range(8)]
    results: dict[int, npt.NDArray[np.float32]] = {}

    def embed(index: int) -> None:
        results[index] = fresh.embed_documents(batches[index])

    threads = [threading.Thread(target=embed, args=(index,)) for index in range(len(batches))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for index, batch in enumerate(batches):
        assert np.array_equal(results[index], EMBEDDER.embed_documents(batch))


def test_weights_that_are_not_finite_numbers_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from safetensors.numpy import save_file

    for name in ("weights", "tokenizers"):
        shutil.copytree(package() / name, tmp_path / name)
    monkeypatch.setattr(static, "_package_folder", lambda: tmp_path)
    for wrong in (np.nan, np.inf, -np.inf):
        weights = np.zeros((10, static.DIMENSIONS), dtype=np.float16)
        weights[3, 4], weights[5, 6] = wrong, -3
        save_file({"embedding.weight": weights}, tmp_path / "weights" / "l2_supercat_256.safetensors")
        with pytest.raises(EmbeddingError, match="finite"):
            static.load()


def test_vectors_are_the_same_bits_on_every_machine() -> None:
    digest = hashlib.sha256(EMBEDDER.embed_documents(TEXTS).astype("<f4").tobytes()).hexdigest()
    assert (EMBEDDER.identity.revision, digest) == (
        "70e229247c31a23b47d55cf6b73691d2b23148823999244ee8cec252f4c11280",
        "803ae45c68c8c1373a252600785248a60b28ba24292e756e2bf0d89f414e3361",
    )


def test_a_text_of_any_length_embeds_to_the_mean_of_its_tokens() -> None:
    from safetensors.numpy import load_file

    weights = load_file(package() / "weights" / "l2_supercat_256.safetensors")["embedding.weight"]
    words = ["kettle", "lantern", "window", "meadow"]
    text = " ".join(words[number * number % 4] + str(number % 7) for number in range(20_000))
    tokenizer = static.load().tokenizer
    expected = weights[tokenizer.tokenise([text]).tokens].astype(np.float64).sum(axis=0, keepdims=True)
    assert tokenizer.count([text])[0] > 40_000
    both = EMBEDDER.embed_documents(["short", text])
    assert cosines(both[1:], expected.astype(np.float32))[0] > 0.999999
    assert np.array_equal(both[0], EMBEDDER.embed_query("short"))


def test_a_text_without_tokens_gives_the_zero_vector() -> None:
    vectors = EMBEDDER.embed_documents(["", "word", ""])
    assert not vectors[[0, 2]].any()
    assert vectors[1].any()
    assert EMBEDDER.embed_documents([]).shape == (0, EMBEDDER.identity.dimensions)


@pytest.mark.parametrize(
    ("capitals", "small"),
    [
        ("THE QUICK BROWN FOX", "the quick brown fox"),
        ("WARNING: 3 TESTS FAILED (SEE BELOW)", "warning: 3 tests failed (see below)"),
        ("ДОРОГА К ДОМУ. ΤΟ ΣΠΊΤΙ", "дорога к дому. το σπίτι"),
        ("LIST OF THE PDFs THAT WE KEEP", "list of the pdfs that we keep"),
        ("A title > A heading\nALL IN CAPITALS\nand not", "A title > A heading\nall in capitals\nand not"),
        ("THE KETTLE NEAR THE WINDOW HOLDS A LANTERN. " * 300, "the kettle near the window holds a lantern. " * 300),
    ],
)
def test_a_line_in_capitals_embeds_as_in_small_letters(capitals: str, small: str) -> None:
    assert np.array_equal(EMBEDDER.embed_query(capitals), EMBEDDER.embed_query(small))


@pytest.mark.parametrize("text", ["The HTTP API", "Use JSON, not YAML or TOML.", "Title\nmostly small, ONE WORD not"])
def test_capitals_in_other_lines_stay_what_they_are(text: str) -> None:
    assert not np.array_equal(EMBEDDER.embed_query(text), EMBEDDER.embed_query(text.lower()))


def test_wordllamas_own_code_is_never_imported() -> None:
    program = (
        "import sys\n"
        "from rag_pipeline.config import EmbeddingConfig\n"
        "from rag_pipeline.embedding import embedder_for\n"
        "heavy = {'tokenizers', 'safetensors'} & set(sys.modules)\n"
        "assert not heavy, heavy\n"
        "assert embedder_for(EmbeddingConfig()).embed_query('a word').any()\n"
        "assert 'wordllama' not in sys.modules\n"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)


def test_a_missing_package_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(static, "_PACKAGE", "a_package_that_is_not_installed")
    with pytest.raises(EmbeddingError, match=r"a_package_that_is_not_installed is not installed; pip install"):
        static.load()


@pytest.mark.parametrize("content", [None, b"not weights"])
def test_a_damaged_package_is_named_with_file_and_remedy(tmp_path: Path, content: bytes | None) -> None:
    folder = tmp_path / "wordllama"
    (folder / "weights").mkdir(parents=True)
    (folder / "tokenizers").mkdir()
    (folder / "__init__.py").write_text("raise AssertionError('executed')")
    (folder / "tokenizers" / "l2_supercat_tokenizer_config.json").write_bytes(b"{}")
    if content is not None:
        (folder / "weights" / "l2_supercat_256.safetensors").write_bytes(content)
    program = (
        "from rag_pipeline.embedding.static import load\n"
        "from rag_pipeline.errors import EmbeddingError\n"
        "try:\n    load()\n"
        "except EmbeddingError as error:\n    print(error)\n"
    )
    root = Path(static.__file__).parents[2]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), str(root)])}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=True, timeout=60
    )
    assert str(folder / "weights" / "l2_supercat_256.safetensors") in done.stdout
    assert "pip install" in done.stdout
