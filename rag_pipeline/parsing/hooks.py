"""Functions of the team's own: text recognition, and passwords."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from rag_pipeline.config import ParsingConfig
from rag_pipeline.errors import ConfigError


class Hooks(NamedTuple):
    """``ocr(png, path, page)`` returns the text of a page's picture, ``passwords(path)`` what may open a document."""

    ocr: Callable[[bytes, str, int], str] | None = None
    passwords: Callable[[str], Iterable[str]] | None = None

    def passwords_for(self, path: str) -> list[str]:
        return list(self.passwords(path)) if self.passwords is not None else []


def load_hooks(config: ParsingConfig) -> Hooks:
    """
    Raises:
        ConfigError: a function cannot be imported; the message names the key.
    """
    return Hooks(_function("ocr", config.ocr), _function("passwords", config.passwords))


def _function(key: str, name: str | None) -> Any:
    if name is None:
        return None
    module, _, attribute = name.partition(":")
    try:
        function = getattr(importlib.import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise ConfigError(
            f"parsing.{key}: {name}: {error}; expected 'package.module:function' that Python finds, such as in a package "
            "that is installed or on PYTHONPATH"
        ) from None
    if not callable(function):
        raise ConfigError(f"parsing.{key}: {name} is no function")
    return function
