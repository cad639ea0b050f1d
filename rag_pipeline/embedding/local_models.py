"""What the embedders have in common that run a model of Hugging Face's kind on this machine: where its files are, what
names their content, and how texts become batches."""

from __future__ import annotations

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.base import unit_rows
from rag_pipeline.embedding.hugging_face_tokens import HuggingFaceTokenizer, Offsets, encodable
from rag_pipeline.errors import EmbeddingError

if TYPE_CHECKING:
    from tokenizers import Tokenizer

_SECONDS_TO_ANSWER = 10
_DEFAULT_BATCH_SIZE = 64
_MOST_TOKENS_AT_ONCE = 4096
"""Padding included. Attention takes memory by the square of a text's length: this keeps a base model under a gigabyte."""


class LocalEmbedder(ABC):
    """Embeds texts with a model on this machine: those of about the same length together, since each is padded to the
    longest beside it.

    A text longer than ``max_tokens`` is embedded by its beginning, as its model does.

    Args:
        batch_size: how many texts a call should hold; None for 64.
        alone: whether the model is to see one text at a time.
    """

    def __init__(
        self,
        identity: EmbedderIdentity,
        tokenizer: HuggingFaceTokenizer,
        max_tokens: int | None,
        batch_size: int | None,
        alone: bool = False,
    ) -> None:
        self.identity = identity
        self.tokenizer = tokenizer
        self.max_tokens = max_tokens
        self.batch_size = batch_size or _DEFAULT_BATCH_SIZE
        self._alone = alone

    def embed_documents(self, texts: Sequence[str]) -> npt.NDArray[np.float32]:
        return self._embed(texts, query=False)

    def embed_query(self, text: str) -> npt.NDArray[np.float32]:
        return np.asarray(self._embed([text], query=True)[0])

    @abstractmethod
    def _vectors(self, texts: list[str], query: bool) -> npt.NDArray[Any]:
        """The model's vectors of texts that are run at once, shape ``(len(texts), dimensions)``, of any length."""

    def _embed(self, texts: Sequence[str], query: bool) -> npt.NDArray[np.float32]:
        vectors = np.zeros((len(texts), self.identity.dimensions), dtype=np.float32)
        tokens = self.tokenizer.count(texts)
        longest_first = np.argsort(-tokens, kind="stable")
        for rows in self._batches(longest_first[tokens[longest_first] > 0], tokens):
            given = self._vectors([encodable(texts[row]) for row in rows], query)
            if given.shape != (len(rows), self.identity.dimensions) or not np.isfinite(given).all():
                raise EmbeddingError(
                    f"{self.identity} gave vectors of shape {given.shape} for {len(rows)} texts, or something else than "
                    f"finite numbers; expected ({len(rows)}, {self.identity.dimensions})"
                )
            vectors[rows] = unit_rows(given)
        return vectors

    def _batches(self, rows: Offsets, tokens: Offsets) -> Iterator[list[int]]:
        """Runs of rows, longest first, of bounded size when all are as long as the first."""
        first = 0
        while first < len(rows):
            longest = min(int(tokens[rows[first]]), self.max_tokens or int(tokens[rows[first]]))
            size = 1 if self._alone else min(max(_MOST_TOKENS_AT_ONCE // max(longest, 1), 1), self.batch_size)
            yield rows[first : first + size].tolist()
            first += size


def room_for_text(
    limit: int | None, own: Tokenizer, tokenizer: HuggingFaceTokenizer, identity: EmbedderIdentity
) -> int | None:
    """How many tokens a text may have: the model's limit without its own marks and the longer of the two prompts.

    Args:
        limit: the model's, marks and prompt included; None where there is none.

    Raises:
        EmbeddingError: nothing is left.
    """
    if limit is None:
        return None
    prompts = int(tokenizer.count([identity.document_prompt, identity.query_prompt]).max())
    room = limit - own.num_special_tokens_to_add(is_pair=False) - prompts
    if room < 1:
        raise EmbeddingError(
            f"embedding.model {identity.model}: reads {limit} tokens, of which its prompts take {prompts}: shorten "
            "embedding.document_prompt or embedding.query_prompt"
        )
    return room


def folder_of(model: str, field: str, key: str = "embedding.model") -> Path | None:
    """The folder that a configured model names, or None when it names none: a folder that exists is one.

    Raises:
        EmbeddingError: it is written as a path (it begins with ``/``, ``.`` or ``~``), and no such folder exists.
    """
    path = Path(model).expanduser()
    if path.is_dir():
        return path
    if path.is_absolute() or model.startswith((".", "~")):
        raise EmbeddingError(f"{field}: {key} {model}: there is no such folder")
    return None


def named_revision(configured: str | None, digest: str) -> str:
    """An identity's revision: what its files hold, behind the revision that the configuration asks for, if any."""
    return f"{configured} {digest}" if configured else digest


def configured_revision(identity: EmbedderIdentity) -> str | None:
    """The revision that the configuration asked for when vectors of this identity were made."""
    return identity.revision.rpartition(" ")[0] or None


def files_digest(folder: Path, files: Iterable[str], *settings: str) -> str:
    """SHA-256 over the content of files, in this order, and over settings that change what they give."""
    digest = hashlib.sha256()
    for file in files:
        content = hashlib.sha256()
        try:
            with (folder / file).open("rb") as stream:
                while block := stream.read(1 << 20):
                    content.update(block)
        except OSError as error:
            raise EmbeddingError(f"embedding.model {folder}: {file} cannot be read: {error.strerror}") from None
        digest.update(content.digest())
    for setting in settings:
        digest.update(hashlib.sha256(setting.encode()).digest())
    return digest.hexdigest()


def cached_or_downloaded(
    repository: str,
    revision: str | None,
    *,
    cache: str | None,
    patterns: Sequence[list[str]],
    complete: Callable[[Path], bool],
    field: str,
    remedy: str,
    ignored: list[str] | None = None,
) -> Path:
    """The folder of a model of Hugging Face. What is cached is taken as it is, and nothing is asked of the network.

    The libraries that run models try again and again where no network is, and for minutes where one swallows what it is
    sent. So this asks once, and downloads only when there was an answer.

    Args:
        revision: branch, tag or commit; None for the default branch.
        cache: where the cache is; None for ``HF_HUB_CACHE`` or ``HF_HOME``.
        patterns: files to download; where ``complete`` misses something after the first, the second, and so on.
        complete: whether a folder holds what the model needs.
        field: the key and the model, as a message begins.
        remedy: how else to come by the model, as a message ends.

    Raises:
        EmbeddingError: it cannot be had.
    """
    from huggingface_hub import HfApi, constants, snapshot_download
    from huggingface_hub.errors import LocalEntryNotFoundError
    from huggingface_hub.utils.tqdm import are_progress_bars_disabled, disable_progress_bars, enable_progress_bars

    try:
        folder = Path(snapshot_download(repository, revision=revision, cache_dir=cache, local_files_only=True))
        if complete(folder):
            return folder
    except (LocalEntryNotFoundError, ValueError):
        pass  # not cached, or no name that a repository can have: the download below says which
    showed_bars = not are_progress_bars_disabled()
    disable_progress_bars()
    try:
        HfApi().model_info(repository, revision=revision, timeout=_SECONDS_TO_ANSWER)
        for allowed in patterns:
            folder = Path(
                snapshot_download(
                    repository, revision=revision, cache_dir=cache, allow_patterns=allowed, ignore_patterns=ignored
                )
            )
            if complete(folder):
                return folder
    except Exception as error:  # noqa: BLE001 - HTTP, files and names fail with errors of no common kind
        lines = str(error).strip().splitlines()
        at = f" at revision {revision}" if revision else ""
        raise EmbeddingError(
            f"{field}: not in the cache {cache or constants.HF_HUB_CACHE}, and {constants.ENDPOINT} does not give "
            f"{repository}{at} ({lines[0] if lines else type(error).__name__}): {remedy}"
        ) from None
    finally:
        if showed_bars:
            enable_progress_bars()
    raise EmbeddingError(f"{field}: {repository} lacks files that the model needs: {remedy}")
