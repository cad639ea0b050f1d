"""Provider ``static``: a text's vector is the mean of its tokens' vectors, which lie in the wheel of wordllama.

Only the weights and the tokenizer of that package are read. Its own code is never imported: it sets up logging for the
whole process, and looks for its files on the network where it does not find them.
"""

from __future__ import annotations

import hashlib
import importlib.util
import threading
from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import isfinite
from pathlib import Path

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.base import unit_vectors
from rag_pipeline.embedding.capitals import lower_capital_lines
from rag_pipeline.embedding.pieces import BytePairTokenizer, TokenisedTexts
from rag_pipeline.errors import EmbeddingError

PROVIDER = "static"
DIMENSIONS = 256
_PACKAGE = "wordllama"
_MODEL = "wordllama/l2_supercat_256"
_WEIGHTS = "weights/l2_supercat_256.safetensors"
_TENSOR = "embedding.weight"
_TOKENIZER = "tokenizers/l2_supercat_tokenizer_config.json"
_REMEDY = "pip install --force-reinstall 'wordllama>=0.4.0.post1,<0.5' brings it"

_ALGORITHM = "1"
"""Part of the identity: to be raised when the same weights give other vectors, as by another rule for capitals."""

# The weights become whole numbers of 2**-11, which moves no vector by more than a cosine of 1e-7. Sums of whole numbers
# below 2**24 are exact in float32, whatever the order of the additions, so that neither the machine's matrix library
# nor the texts that share a batch change a single bit of a vector.
_FRACTION_BITS = 11
_EXACT_BELOW = 1 << 24

# OpenBLAS wakes its threads for a product of more than 2**18 multiplications, and they then spin: measured, that costs
# more than the products. 16 rows by 64 tokens by 256 dimensions stay just within.
_ROWS_PER_PRODUCT = 16
_TOKENS_PER_SLICE = 64

_TEXTS_PER_BLOCK = 256
_CHARACTERS_PER_BLOCK = 1 << 20


class StaticEmbedder:
    """Embeds with wordllama's weights, see `load`. Safe to use from several threads."""

    batch_size = 4096
    max_tokens = None

    def __init__(self, weights: npt.NDArray[np.float16], tokenizer: BytePairTokenizer, revision: str) -> None:
        self._tokens_per_row = int(_EXACT_BELOW // max(np.rint(_largest(weights) * (1 << _FRACTION_BITS)), 1))
        self._stored = weights
        # Rows are filled in the order in which tokens are met, so that a small refresh touches little of this memory.
        self._weights: npt.NDArray[np.float32] = np.empty(weights.shape, dtype=np.float32)
        self._row_of_token = np.full(len(weights), -1, dtype=np.int64)
        self._rows_filled = 0
        self._lock = threading.Lock()
        self._rows_of(np.zeros(1, dtype=np.int64))
        self._tokenizer = tokenizer
        self._identity = EmbedderIdentity(provider=PROVIDER, model=_MODEL, revision=revision, dimensions=weights.shape[1])

    @property
    def identity(self) -> EmbedderIdentity:
        return self._identity

    @property
    def tokenizer(self) -> BytePairTokenizer:
        """The model's tokenizer. It counts text as it is written, capitals included."""
        return self._tokenizer

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self.embed_and_count(texts)[0]

    def embed_and_count(self, texts: Sequence[str]) -> tuple[npt.NDArray[np.float32], int]:
        vectors = np.zeros((len(texts), DIMENSIONS), dtype=np.float32)
        done = tokens = 0
        for block in _blocks(texts):
            tokenised = self._tokenizer.tokenise(lower_capital_lines(block))
            vectors[done : done + len(block)] = unit_vectors(self._sums(tokenised))
            done += len(block)
            tokens += len(tokenised.tokens)
        return vectors, tokens

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.asarray(self.embed_documents([text])[0])

    def tokens_of(self, texts: Sequence[str]) -> TokenisedTexts:
        """The tokens whose vectors are a text's. Takes memory for all texts at once."""
        return self._tokenizer.tokenise(lower_capital_lines(texts))

    @property
    def vocabulary_size(self) -> int:
        """How many tokens there are; they are numbered from 0."""
        return len(self._stored)

    def token_vectors(self, tokens: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]:
        """The model's vector of each token, shape ``(len(tokens), dimensions)``, of any length."""
        return self._stored[tokens].astype(np.float32)

    def _sums(self, tokenised: TokenisedTexts) -> npt.NDArray[np.int64]:
        """The sum of each text's token vectors in units of ``2**-_FRACTION_BITS``, exactly, shape ``(n, dimensions)``."""
        bounds, row_starts = _rows(tokenised.offsets, self._tokens_per_row)
        sums = np.empty((len(bounds) - 1, self._weights.shape[1]), dtype=np.int64)
        for first in range(0, len(sums), _ROWS_PER_PRODUCT):
            rows = bounds[first : first + _ROWS_PER_PRODUCT + 1]
            sums[first : first + len(rows) - 1] = self._product(tokenised.tokens[rows[0] : rows[-1]], np.diff(rows))
        return sums if len(sums) == len(tokenised.offsets) - 1 else np.add.reduceat(sums, row_starts)

    def _rows_of(self, tokens: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
        """The rows of ``_weights`` that hold the weights of these distinct tokens as whole numbers."""
        with self._lock:
            new = tokens[self._row_of_token[tokens] < 0]
            if len(new):
                rows = np.arange(self._rows_filled, self._rows_filled + len(new))
                scaled = np.multiply(self._stored[new], 1 << _FRACTION_BITS, dtype=np.float32)
                self._weights[rows] = np.rint(scaled, out=scaled)
                self._row_of_token[new] = rows
                self._rows_filled += len(new)
            return self._row_of_token[tokens]

    def _product(self, tokens: npt.NDArray[np.int32], lengths: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        """The sums of consecutive rows of tokens, which are short enough to be exact.

        Neighbouring texts share much of their vocabulary. So this is one product of two dense matrices, how often each
        row holds each distinct token and those tokens' vectors, cut into slices along the tokens.
        """
        present = np.zeros(len(self._weights), dtype=np.bool_)
        present[tokens] = True
        distinct = np.flatnonzero(present)
        slices = max(-(-len(distinct) // _TOKENS_PER_SLICE), 1)
        columns = slices * _TOKENS_PER_SLICE
        column_of = np.empty(len(self._weights), dtype=np.int64)
        column_of[distinct] = np.arange(len(distinct))
        cells = np.repeat(np.arange(len(lengths)) * columns, lengths) + column_of[tokens]
        counts = np.bincount(cells, minlength=_ROWS_PER_PRODUCT * columns).astype(np.float32)
        frequencies = counts.reshape(_ROWS_PER_PRODUCT, slices, _TOKENS_PER_SLICE).transpose(1, 0, 2)
        vectors = self._weights[np.append(self._rows_of(distinct), np.zeros(columns - len(distinct), dtype=np.int64))]
        vectors = vectors.reshape(slices, _TOKENS_PER_SLICE, -1)
        return np.asarray(np.matmul(frequencies, vectors).sum(axis=0)[: len(lengths)])


def _rows(offsets: npt.NDArray[np.int64], most: int) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Deal the tokens of texts into rows of at most ``most`` tokens, at least one row a text.

    Returns:
        Where each row begins and the last ends, in tokens, and which row is the first of each text.
    """
    rows_per_text = np.maximum(-(-np.diff(offsets) // most), 1)
    row_starts = np.cumsum(rows_per_text) - rows_per_text
    nth_of_text = np.arange(rows_per_text.sum()) - np.repeat(row_starts, rows_per_text)
    return np.append(np.repeat(offsets[:-1], rows_per_text) + most * nth_of_text, offsets[-1]), row_starts


def _blocks(texts: Sequence[str]) -> Iterator[Sequence[str]]:
    """Runs of texts of bounded number and length; a longer text stands alone."""
    first, length = 0, 0
    for index, text in enumerate(texts):
        if index > first and (index - first >= _TEXTS_PER_BLOCK or length + len(text) > _CHARACTERS_PER_BLOCK):
            yield texts[first:index]
            first, length = index, 0
        length += len(text)
    if first < len(texts):
        yield texts[first:]


def load() -> StaticEmbedder:
    """Read the model from the installed package; takes about a tenth of a second.

    Raises:
        EmbeddingError: the package or one of its files is missing or is not what it should be.
    """
    folder = _package_folder()
    revision = hashlib.sha256(f"static {_ALGORITHM}\0".encode())
    for file in (folder / _WEIGHTS, folder / _TOKENIZER):
        revision.update(_file_digest(file))
    return StaticEmbedder(_weights_of(folder / _WEIGHTS), load_tokenizer(), revision.hexdigest())


@lru_cache(maxsize=1)
def load_tokenizer() -> BytePairTokenizer:
    """The static model's tokenizer alone. It stands in where a model's own is not public: it counts a little more.

    Raises:
        EmbeddingError: the package or its tokenizer is missing or is not what it should be.
    """
    file = _package_folder() / _TOKENIZER
    try:
        data = file.read_bytes()
    except OSError as error:
        raise EmbeddingError(f"embedding.provider static: {file}: {error.strerror}; {_REMEDY}") from None
    return BytePairTokenizer(data, str(file))


def _package_folder() -> Path:
    spec = importlib.util.find_spec(_PACKAGE)
    if spec is None or not spec.submodule_search_locations:
        raise EmbeddingError(f"embedding.provider static: the package {_PACKAGE} is not installed; {_REMEDY}")
    return Path(next(iter(spec.submodule_search_locations)))


def _file_digest(file: Path) -> bytes:
    digest = hashlib.sha256()
    try:
        with file.open("rb") as opened:
            while block := opened.read(1 << 20):
                digest.update(block)
        return digest.digest()
    except OSError as error:
        raise EmbeddingError(f"embedding.provider static: {file}: {error.strerror}; {_REMEDY}") from None


def _largest(weights: npt.NDArray[np.float16]) -> float:
    """The largest magnitude; NaN or infinity when one of them is not finite.

    The bits of two such numbers of one sign compare as the magnitudes do, and faster by far than the numbers.
    """
    positive = max(weights.view(np.int16).max(), np.int16(0))
    negative = weights.view(np.uint16).max() & 0x7FFF
    return float(np.array(max(positive, negative), dtype=np.uint16).view(np.float16))


def _weights_of(file: Path) -> npt.NDArray[np.float16]:
    """The weights, mapped into memory: processes share them, and what is never asked for is never read."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(file, framework="numpy") as tensors:
            tensor = tensors.get_slice(_TENSOR)
            shape, kind, alone = tuple(tensor.get_shape()), tensor.get_dtype(), len(tensors.keys()) == 1
    except SafetensorError as error:
        raise EmbeddingError(f"embedding.provider static: {file} holds no {_TENSOR} ({error}); {_REMEDY}") from None
    if kind == "F16" and alone and len(shape) == 2 and shape[0] > 0 and shape[1] == DIMENSIONS:
        # The format leaves no holes: the only tensor of a file is the end of the file.
        offset = file.stat().st_size - 2 * shape[0] * shape[1]
        weights: npt.NDArray[np.float16] = np.asarray(np.memmap(file, dtype="<f2", mode="r", offset=offset, shape=shape))
        if isfinite(_largest(weights)):
            return weights
    expected = f"{DIMENSIONS} finite dimensions in half precision, and nothing else"
    raise EmbeddingError(f"embedding.provider static: {file}: expected {expected}; {_REMEDY}")
