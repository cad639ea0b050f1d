"""Numbers in sentences."""

from __future__ import annotations

_PLURALS = {"corpus": "corpora", "query": "queries", "search": "searches"}


def counted(number: int, noun: str) -> str:
    """A number with its noun in the singular or the plural: ``1 document``, ``2 documents``."""
    return f"{number} {noun if number == 1 else _PLURALS.get(noun, f'{noun}s')}"
