"""Named moments around every write to a store. Tests stop the process there, to show that a crash does no harm.

Nothing happens at them in production: the hook is None.
"""

from __future__ import annotations

from collections.abc import Callable

hook: Callable[[str], None] | None = None


def reached(point: str) -> None:
    """Say that the process is about to write, or has just written. Names read `<what>.<operation>.<before or after>`."""
    if hook is not None:
        hook(point)
