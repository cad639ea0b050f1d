"""YAML front matter: the block between ``---`` lines at the very start of a Markdown file."""

from __future__ import annotations

import math
import re
from datetime import date
from functools import cache
from typing import Any, NamedTuple

from rag_pipeline.errors import MissingExtraError
from rag_pipeline.parsing.encoding import clean

_BLOCK = re.compile(r"---[ \t]*\n(?![ \t]*\n)(.*?)^(?:---|\.\.\.)[ \t]*(?:\n|\Z)", re.DOTALL | re.MULTILINE)
_KEY_LINE = re.compile(r"(?:#.*\n)*[\"']?[A-Za-z_][\w .-]*[\"']?:(?:[ \t]|\n)")
_SEXAGESIMAL = re.compile(r"[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?")
_MOST_VALUES = 20_000  # aliases can make a few lines mean billions of values
_DEEPEST_NESTING = 64
_MOST_BITS = 4096  # Python writes no longer integers than of 4,300 digits; YAML reads them, since it knows hexadecimal ones


class FrontMatter(NamedTuple):
    """What precedes a document.

    ``metadata`` are the values as JSON holds them. ``text_start`` is where the document's text begins,
    ``body_start`` where its body does: they differ when a block is kept as text because it is not valid YAML.
    """

    metadata: dict[str, Any]
    text_start: int
    body_start: int


def read_front_matter(text: str) -> FrontMatter:
    """Read the front matter of a document.

    It begins in the first line, has no blank line after that, and holds a mapping (or nothing). Anything else is text:
    a document that opens with a thematic break, and a block that looks like front matter but is not valid YAML; that one
    holds no headings.
    """
    match = _BLOCK.match(text)
    if match is None:
        return FrontMatter({}, 0, 0)
    try:
        values = _load_yaml(match.group(1))
    except ValueError:
        return FrontMatter({}, 0, match.end() if _KEY_LINE.match(match.group(1)) else 0)
    if values is None and not match.group(1).strip():
        return FrontMatter({}, match.end(), match.end())
    if not isinstance(values, dict):
        return FrontMatter({}, 0, 0)
    return FrontMatter(values, match.end(), match.end())


def title_of(metadata: dict[str, Any]) -> str | None:
    """The ``title`` of front matter, if it is text or a number."""
    title = metadata.get("title")
    if isinstance(title, bool) or not isinstance(title, (str, int, float)):
        return None
    return " ".join(str(title).split()) or None


def _load_yaml(block: str) -> Any:
    """The values of a block as JSON holds them.

    Raises:
        ValueError: it is not valid YAML, or means more than a document's metadata can.
    """
    import yaml

    try:
        return _Converter().json_value(yaml.load(block, _loader()), 0)
    except (yaml.YAMLError, RecursionError, OverflowError, TypeError) as error:
        # TypeError: a mapping as the key of a mapping. RecursionError: the loader in Python has no limit of nesting.
        raise ValueError(str(error)) from None


class _Converter:
    """Turns what YAML holds into what JSON holds, within a budget."""

    def __init__(self) -> None:
        self._left = _MOST_VALUES

    def json_value(self, value: Any, depth: int) -> Any:
        self._left -= 1
        if self._left < 0 or depth > _DEEPEST_NESTING:
            raise ValueError("too many values")
        match value:
            case None | bool() | int():
                return value
            case str():
                return clean(value)
            case float():
                return value if math.isfinite(value) else None
            case date():
                return value.isoformat()
            case dict():
                return {_key(key): self.json_value(inner, depth + 1) for key, inner in value.items()}
            case list() | tuple():
                return [self.json_value(inner, depth + 1) for inner in value]
            case set():
                return sorted((self.json_value(inner, depth + 1) for inner in value), key=str)
            case _:
                return None


def _key(key: Any) -> str:
    match key:
        case str():
            return clean(key)
        case date():
            return key.isoformat()
        case None | bool():
            return {None: "null", True: "true", False: "false"}[key]
        case _:
            return str(key)


@cache
def _loader() -> Any:
    """A safe loader that loses no document over one odd value.

    Dates that do not exist, numbers without measure and other values that their tag does not fit stay text, and so do
    those of unknown tags; ``10:15`` is a time of day and no number of base 60.
    """
    try:
        import yaml
    except ImportError:
        raise MissingExtraError("PyYAML", "pipeline", "Reading front matter") from None
    base: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

    class FrontMatterLoader(base):  # type: ignore[misc]
        def construct_lenient(self, node: Any) -> Any:
            if _SEXAGESIMAL.fullmatch(str(node.value)):
                return node.value
            try:
                value = base.yaml_constructors[node.tag](self, node)
                return node.value if isinstance(value, int) and value.bit_length() > _MOST_BITS else value
            except (ValueError, LookupError, AttributeError):  # what PyYAML meets on a value that its tag does not fit
                return node.value

        def construct_unknown(self, node: Any) -> Any:
            match node:
                case yaml.MappingNode():
                    return self.construct_mapping(node, deep=True)
                case yaml.SequenceNode():
                    return self.construct_sequence(node, deep=True)
                case _:
                    return node.value

    for name in ("bool", "int", "float", "timestamp"):
        FrontMatterLoader.add_constructor(f"tag:yaml.org,2002:{name}", FrontMatterLoader.construct_lenient)
    FrontMatterLoader.add_constructor(None, FrontMatterLoader.construct_unknown)
    return FrontMatterLoader
