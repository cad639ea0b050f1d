"""Finding and reading corpus.yaml files: strict YAML, and faults in words that name file, key and what was expected."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import date
from pathlib import Path
from typing import Any, NamedTuple

from pydantic import ValidationError

from rag_pipeline.config import CORPUS_FILE, NAME_PATTERN, RESERVED_NAMES, CorpusConfig, Deployment
from rag_pipeline.errors import ConfigError, MissingExtraError


class FaultyCorpus(NamedTuple):
    """A folder whose corpus.yaml cannot be used, and every fault of it, one a line."""

    folder: Path
    reason: str


def load_corpus(folder: Path) -> CorpusConfig:
    """Read the corpus.yaml of one folder.

    Raises:
        ConfigError: with every fault of the file, one a line, each naming file, key and what was expected.
    """
    file = folder / CORPUS_FILE
    name = folder.name
    if not NAME_PATTERN.fullmatch(name) or name in RESERVED_NAMES:
        raise ConfigError(f"{file}: the folder's name is the corpus's name; expected [a-z][a-z0-9_]*, got {name!r}")
    values = _read_yaml(file)
    faults = [f"{file}: {key}: the folder gives it, expected no such key" for key in ("name", "folder") if key in values]
    known = {key: value for key, value in values.items() if key not in ("name", "folder")}
    try:
        config = CorpusConfig.model_validate({**_tuples(known), "name": name, "folder": folder.resolve()})
    except ValidationError as error:
        raise ConfigError("\n".join([*faults, *(f"{file}: {line}" for line in _fault_lines(error))])) from None
    if faults:
        raise ConfigError("\n".join(faults))
    return Deployment.of_environment().applied(config)


def corpus_folders(root: Path) -> list[Path]:
    """The folders under the corpora root that hold a corpus.yaml, by name."""
    if not root.is_dir():
        return []
    return sorted(path.parent for path in root.glob(f"*/{CORPUS_FILE}"))


def load_corpora(root: Path) -> list[CorpusConfig]:
    """Read every corpus under the corpora root.

    Raises:
        ConfigError: with the faults of all files together.
    """
    configs, faulty = load_sound_corpora(root)
    if faulty:
        raise ConfigError("\n".join(corpus.reason for corpus in faulty))
    return configs


def load_sound_corpora(root: Path) -> tuple[list[CorpusConfig], list[FaultyCorpus]]:
    """Read every corpus under the corpora root; those whose file has a fault come with the reason.

    Raises:
        ConfigError: an environment variable is wrong, which concerns all of them.
    """
    Deployment.of_environment()
    configs: list[CorpusConfig] = []
    faulty: list[FaultyCorpus] = []
    for folder in corpus_folders(root):
        try:
            configs.append(load_corpus(folder))
        except ConfigError as error:
            faulty.append(FaultyCorpus(folder, str(error)))
    return configs, faulty


def find_corpus(root: Path, name: str) -> CorpusConfig:
    """Read the corpus of this name.

    Raises:
        ConfigError: there is none; the message lists those that exist.
    """
    folder = root / name
    if not NAME_PATTERN.fullmatch(name) or not (folder / CORPUS_FILE).is_file():
        names = ", ".join(path.name for path in corpus_folders(root)) or "none"
        raise ConfigError(
            f"no corpus {name!r} under {root} (there: {names}); `rag-pipeline new {name} --source PATH` makes one"
        )
    return load_corpus(folder)


def _read_yaml(file: Path) -> dict[str, Any]:
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "pipeline", f"reading {file}") from None

    class StrictLoader(yaml.SafeLoader):
        """A safe loader that refuses a key written twice: YAML itself would drop the first silently."""

        def construct_mapping(self, node: Any, deep: bool = False) -> dict[Any, Any]:
            seen: set[Any] = set()
            for key_node, _ in node.value:
                key = self.construct_object(key_node, deep=True)
                if isinstance(key, (str, int, float, bool)) and key in seen:
                    raise yaml.MarkedYAMLError(problem=f"key {key!r} is written twice", problem_mark=key_node.start_mark)
                seen.add(key if isinstance(key, (str, int, float, bool)) else str(key))
            return super().construct_mapping(node, deep)

    try:
        values = yaml.load(file.read_text(encoding="utf-8-sig"), StrictLoader)
    except yaml.MarkedYAMLError as error:
        where = f":{error.problem_mark.line + 1}" if error.problem_mark else ""
        raise ConfigError(f"{file}{where}: not valid YAML: {error.problem}") from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError(f"{file}: not valid YAML: {' '.join(str(error).split())}") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read: {error.strerror}") from None
    if not isinstance(values, dict):
        raise ConfigError(
            f"{file}: expected keys such as `source:`, got {'nothing' if values is None else type(values).__name__}"
        )
    return {str(key): value for key, value in values.items()}


def _tuples(value: Any) -> Any:
    """Lists of a YAML file as tuples, which the frozen models hold; strict mode takes nothing else for them."""
    if isinstance(value, dict):
        return {key: _tuples(inner) for key, inner in value.items()}
    return tuple(_tuples(inner) for inner in value) if isinstance(value, list) else value


def _fault_lines(error: ValidationError) -> Iterator[str]:
    for fault in error.errors():
        key = ".".join(str(part) for part in fault["loc"] if part != "[key]")
        got = "" if fault["type"] == "missing" else f", got {_shown(fault['input'])}"
        match fault["type"]:
            case "extra_forbidden":
                yield f"{key}: unknown key; expected one of {', '.join(_known_keys(fault['loc']))}"
            case "default_factory_not_called":
                pass  # a default that follows from another key, which has its own line
            case "missing":
                yield f"{key}: required, but not there"
            case "value_error":
                message = str(fault["ctx"]["error"])
                yield f"{key}: {message}" if key else message
            case "string_type" if isinstance(fault["input"], (int, float, date)):
                # YAML reads 2026-12-01 as a date, 7 as a number, on as true.
                yield f"{key}: expected a valid string{got}; put it in quotes"
            case "tuple_type":
                yield f"{key}: expected a list{got}"
            case "model_type" | "dict_type":
                yield f"{key}: expected keys and values{got}"
            case "literal_error":
                yield f"{key}: expected one of {fault['ctx']['expected'].replace(chr(39), '')}{got}"
            case _:
                yield f"{key}: expected {fault['msg'].removeprefix('Input should be ')}{got}"


def _shown(value: Any) -> str:
    text = str(value) if isinstance(value, date) else repr(list(value) if isinstance(value, tuple) else value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _known_keys(location: tuple[int | str, ...]) -> list[str]:
    model: Any = CorpusConfig
    for part in location[:-1]:
        if isinstance(part, int):
            continue  # an entry of a list: the type of the list says which model it is
        annotation = model.model_fields[part].annotation
        model = next(
            (arg for arg in (annotation, *getattr(annotation, "__args__", ())) if hasattr(arg, "model_fields")), None
        )
        if model is None:
            return []
    return [key for key in model.model_fields if key not in ("name", "folder")]
