"""Provider ``local``: ONNX models run by fastembed.

A name that fastembed knows is looked up in the Hugging Face cache and downloaded once when it is not there; nothing is
asked of the network for a model that is. A folder of one's own holds ``model.onnx`` (or ``onnx/model.onnx``),
``tokenizer.json`` and ``tokenizer_config.json`` with its ``model_max_length``. How the vectors of tokens become one is
decided, in this order, by

1. an output of the model named ``sentence_embedding``, or a first output of one vector a text: taken as it is;
2. ``1_Pooling/config.json`` as sentence-transformers writes it: mean, first or last token.

A folder that says neither is refused: the wrong rule gives vectors that look right and rank badly.
"""

from __future__ import annotations

import difflib
import json
import mmap
import os
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.config import EmbedderConfig
from rag_pipeline.contracts import EmbedderIdentity
from rag_pipeline.embedding.hugging_face_tokens import HuggingFaceTokenizer
from rag_pipeline.embedding.local_models import (
    LocalEmbedder,
    cached_or_downloaded,
    files_digest,
    folder_of,
    named_revision,
    room_for_text,
)
from rag_pipeline.embedding.prompts import documented_prompts
from rag_pipeline.errors import EmbeddingError, MissingExtraError

PROVIDER = "local"
DEFAULT_MODEL = "BAAI/bge-small-en-v1.5"
_FIELD = "embedding.provider local"
MODEL_FILES = ("model.onnx", "onnx/model.onnx", "model_optimized.onnx", "model_quantized.onnx", "onnx/model_quantized.onnx")
TOKENIZER_FILES = ("tokenizer.json", "tokenizer_config.json")
OTHER_FILES = ("config.json", "special_tokens_map.json", "preprocessor_config.json")
FOLDER = "the path of a folder with model.onnx, tokenizer.json and tokenizer_config.json"
REGISTERED = "rag_pipeline"
"""Before the names under which folders are made known to fastembed, which keeps its models by name."""


@dataclass(frozen=True)
class _Model:
    """What is to be loaded. ``name`` is what the identity shows, ``registered`` what fastembed knows it by."""

    name: str
    registered: str
    folder: Path
    files: tuple[str, ...]
    digest: str


class FastembedEmbedder(LocalEmbedder):
    """Embeds with an ONNX model, see `load`. Safe to use from several threads."""

    def __init__(self, model: Any, **options: Any) -> None:
        super().__init__(**options)
        self._model = model

    def _vectors(self, texts: list[str], query: bool) -> npt.NDArray[Any]:
        identity = self.identity
        prompt = identity.query_prompt if query else identity.document_prompt
        embed = self._model.query_embed if query else self._model.passage_embed
        vectors: Iterable[npt.NDArray[Any]] = embed([prompt + text for text in texts], batch_size=len(texts))
        return np.stack(list(vectors))


def load(config: EmbedderConfig) -> FastembedEmbedder:
    """Load a model by fastembed's name for it or from a folder; see the module for what a folder holds.

    Raises:
        MissingExtraError: fastembed is not installed.
        EmbeddingError: the model is not known, is not here and cannot be had, cannot be read, or has another width than
            ``config.dimensions``.
    """
    os.environ.setdefault("HF_HUB_DISABLE_TELEMETRY", "1")
    try:
        from fastembed import TextEmbedding
    except ImportError as error:
        raise MissingExtraError(error.name or "fastembed", "local", _FIELD) from None

    name = config.model or DEFAULT_MODEL
    folder = folder_of(name, _FIELD)
    wanted = _in_folder(folder) if folder is not None else _known_to_fastembed(name, config.revision)
    try:
        model = TextEmbedding(wanted.registered, specific_model_path=str(wanted.folder))
        own_tokenizer = model.model.tokenizer
        width = len(next(iter(model.embed(["a"]))))
    except Exception as error:  # noqa: BLE001 - onnxruntime, tokenizers and fastembed raise errors of no common kind
        reason = str(error).strip().splitlines()
        raise EmbeddingError(f"{_FIELD}: {wanted.folder} cannot be loaded: {reason[0] if reason else error!r}") from None
    if config.dimensions not in (None, width):
        raise EmbeddingError(f"embedding.dimensions {config.dimensions}: {wanted.name} gives {width}; leave dimensions out")
    document_prompt, query_prompt = documented_prompts(wanted.name)
    identity = EmbedderIdentity(
        provider=PROVIDER,
        model=wanted.name,
        revision=named_revision(config.revision, wanted.digest),
        dimensions=width,
        document_prompt=document_prompt if config.document_prompt is None else config.document_prompt,
        query_prompt=query_prompt if config.query_prompt is None else config.query_prompt,
    )
    tokenizer = HuggingFaceTokenizer(own_tokenizer)
    limit = own_tokenizer.truncation["max_length"] if own_tokenizer.truncation else None
    return FastembedEmbedder(
        model,
        identity=identity,
        tokenizer=tokenizer,
        max_tokens=room_for_text(limit, own_tokenizer, tokenizer, identity),
        batch_size=config.batch_size,
        alone=looks_at_the_whole_batch(wanted.folder, wanted.files),
    )


def _known_to_fastembed(name: str, revision: str | None) -> _Model:
    from fastembed import TextEmbedding

    known, folder, files = known_to_fastembed(TextEmbedding, name, revision, DEFAULT_MODEL)
    return _Model(known, known, folder, files, files_digest(folder, (*files, TOKENIZER_FILES[0])))


def known_to_fastembed(
    kind: Any, name: str, revision: str | None, default: str, key: str = "embedding.model"
) -> tuple[str, Path, tuple[str, ...]]:
    """A model that fastembed lists, downloaded once when it is not cached.

    Args:
        kind: fastembed's class for this kind of models.

    Returns:
        Its name, its folder, and the files of its weights, that of the model first.

    Raises:
        EmbeddingError: fastembed does not know it, or it cannot be had.
    """
    models = {
        model["model"].lower(): model
        for model in kind.list_supported_models()
        if model["sources"]["hf"] and not model["model"].startswith(f"{REGISTERED}/")
    }
    if name.lower() not in models:
        near = difflib.get_close_matches(name.lower(), models, n=3) or [default.lower()]
        known = ", ".join(models[match]["model"] for match in near)
        raise EmbeddingError(
            f"{key} {name}: fastembed does not know it; expected its name for a model ({known}), or {FOLDER}"
        )
    model = models[name.lower()]
    source = model["sources"]["hf"]
    files = (model["model_file"], *model["additional_files"])
    folder = cached_or_downloaded(
        source,
        revision,
        cache=os.environ.get("FASTEMBED_CACHE_PATH"),
        patterns=([*files, *TOKENIZER_FILES, *OTHER_FILES],),
        complete=lambda folder: all((folder / file).is_file() for file in (*files, *TOKENIZER_FILES)),
        field=f"{key} {model['model']}",
        remedy=f"give {FOLDER} as {key}, or set FASTEMBED_CACHE_PATH or HF_HOME to a cache that holds {source}",
    )
    return model["model"], folder, files


def model_files(folder: Path, key: str = "embedding.model") -> tuple[str, ...]:
    """The files of an ONNX model in a folder of one's own, ``model.onnx`` or its like first.

    Raises:
        EmbeddingError: it lacks one of the files that fastembed needs.
    """
    model_file = next((file for file in MODEL_FILES if (folder / file).is_file()), None)
    missing = [file for file in TOKENIZER_FILES if not (folder / file).is_file()]
    if model_file is None or missing:
        lacking = ", ".join([*(["model.onnx"] if model_file is None else []), *missing])
        raise EmbeddingError(f"{key} {folder}: has no {lacking}; expected {FOLDER}")
    beside = (folder / model_file).parent.glob(f"{Path(model_file).name}[_.]*")  # weights too large for one file
    return (model_file, *sorted(file.relative_to(folder).as_posix() for file in beside))


def _in_folder(folder: Path) -> _Model:
    files = model_files(folder)
    model_file = files[0]
    pooling, output = _pooling(folder, model_file)
    digest = files_digest(folder, (*files, TOKENIZER_FILES[0]), f"pooling {pooling} of {output or 'the first output'}")
    registered = "/".join([REGISTERED, digest, *files])
    _register(registered, files, pooling, output)
    return _Model(folder.resolve().name, registered, folder, files, digest)


def _register(registered: str, files: tuple[str, ...], pooling: str, output: str | None) -> None:
    from fastembed import TextEmbedding
    from fastembed.common.model_description import ModelSource, PoolingType

    if any(model["model"] == registered for model in TextEmbedding.list_supported_models()):
        return
    TextEmbedding.add_custom_model(
        model=registered,
        pooling=PoolingType[pooling],
        normalization=False,
        sources=ModelSource(url="file://"),  # asked for, and never read: the model's folder is given
        dim=1,  # asked for, and never read: the width is that of the first vector
        model_file=files[0],
        additional_files=list(files[1:]),
        output_name=output,
    )


def _pooling(folder: Path, model_file: str) -> tuple[str, str | None]:
    """How fastembed is to make one vector of a text (the name of its ``PoolingType``), and of which output."""
    outputs = _outputs(folder / model_file)
    if "sentence_embedding" in outputs:
        return "DISABLED", "sentence_embedding"
    first, rank = next(iter(outputs.items()))
    if rank == 2:
        return "DISABLED", first
    file = folder / "1_Pooling" / "config.json"
    expected = "expected pooling_mode_mean_tokens, pooling_mode_cls_token or pooling_mode_lasttoken"
    try:
        settings = json.loads(file.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise EmbeddingError(
            f"embedding.model {folder}: {model_file} gives a vector a token and nothing says how they become one: add "
            f'1_Pooling/config.json such as {{"pooling_mode_mean_tokens": true}} (the model card names the rule)'
        ) from None
    except (OSError, ValueError) as error:
        raise EmbeddingError(f"embedding.model {folder}: {file} cannot be read: {error}") from None
    names = {"mean": "MEAN", "mean_tokens": "MEAN", "cls": "CLS", "cls_token": "CLS", "lasttoken": "LAST_TOKEN"}
    prefix = "pooling_mode_"
    modes = [key.removeprefix(prefix) for key, value in settings.items() if key.startswith(prefix) and value is True]
    modes += [settings["pooling_mode"]] if isinstance(settings.get("pooling_mode"), str) else []
    if len(modes) != 1 or modes[0] not in names:
        raise EmbeddingError(f"embedding.model {folder}: {file} asks for {' and '.join(modes) or 'no pooling'}; {expected}")
    return names[modes[0]], None


def _outputs(file: Path) -> dict[str, int]:
    """The names of a model's outputs, in order, and how many axes each has."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 3
    try:
        session = onnxruntime.InferenceSession(str(file), options, providers=["CPUExecutionProvider"])
    except Exception as error:  # noqa: BLE001 - onnxruntime's errors have no common base
        raise EmbeddingError(
            f"embedding.model {file}: cannot be read as an ONNX model: {str(error).splitlines()[0]}"
        ) from None
    return {output.name: len(output.shape) for output in session.get_outputs()}


def looks_at_the_whole_batch(folder: Path, files: Sequence[str]) -> bool:
    """Whether a model scales its numbers by the largest of all texts that it is given at once.

    Dynamic quantization does, so that a text's vector would depend on the texts beside it.
    https://onnx.ai/onnx/operators/onnx__DynamicQuantizeLinear.html
    """
    if not files[0].endswith(".onnx"):
        return False
    with (folder / files[0]).open("rb") as file, mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as data:
        return data.find(b"DynamicQuantize") >= 0
