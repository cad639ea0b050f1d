"""What all commands print with: JSON for machines, tables and text for people."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from rag_pipeline.errors import MissingExtraError


def print_json(value: Any) -> None:
    """One JSON value on stdout. Lone surrogates, which UTF-8 cannot hold, become question marks."""
    text = json.dumps(value, ensure_ascii=False, indent=1, default=str)
    sys.stdout.buffer.write(text.encode("utf-8", "replace") + b"\n")
    sys.stdout.buffer.flush()


def print_line(text: str = "", stderr: bool = False) -> None:
    """One line of text, whatever the terminal's encoding can show of it."""
    stream = sys.stderr if stderr else sys.stdout
    encoding = stream.encoding or "utf-8"
    stream.write(text.encode(encoding, "replace").decode(encoding) + "\n")


def print_table(columns: Sequence[str], rows: Sequence[Sequence[Any]]) -> None:
    """A table as wide as its content; on a terminal it is drawn by rich."""
    cells = [[_cell(value) for value in row] for row in rows]
    table = _rich_table(columns) if sys.stdout.isatty() else None
    if table is not None:
        for row in cells:
            table.add_row(*row)
        console().print(table)
        return
    widths = [max(len(text) for text in column) for column in zip(columns, *cells, strict=True)]
    for row in [list(columns), *cells]:
        print_line("  ".join(text.ljust(width) for text, width in zip(row, widths, strict=True)).rstrip())


def console(stderr: bool = False) -> Any:
    """A rich console.

    Raises:
        MissingExtraError: rich is not installed.
    """
    try:
        from rich.console import Console
    except ImportError:
        raise MissingExtraError("rich", "pipeline", "output on a terminal") from None
    return Console(stderr=stderr, highlight=False)


def short_time(moment: datetime) -> str:
    """A time in the zone of this machine, to the minute."""
    return moment.astimezone().strftime("%Y-%m-%d %H:%M")


def money(cost: float | None) -> str:
    """An amount in dollars; None is one that nobody knows."""
    if cost is None:
        return "cost unknown"
    if not cost:
        return "no cost"
    return f"{cost:.4f} USD" if cost >= 0.0001 else "less than 0.0001 USD"


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    if isinstance(value, datetime):
        return short_time(value)
    return str(value)


def _rich_table(columns: Sequence[str]) -> Any:
    try:
        from rich.markup import escape
        from rich.table import Table
    except ImportError:
        return None
    return Table(*map(escape, columns), box=None, pad_edge=False, header_style="bold")
