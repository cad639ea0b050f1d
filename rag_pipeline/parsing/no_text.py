"""Why a file has no text although nothing is wrong with it."""

from __future__ import annotations

EMPTY_FILE = "empty file (0 bytes)"
ONLY_NULS = "holds nothing but NUL bytes"
ONLY_WHITE_SPACE = "holds nothing but white space"
ONLY_FRONT_MATTER = "holds front matter, but no text"
ONLY_MARKUP = "holds markup, but no text"

NO_TEXT_REASONS = frozenset({EMPTY_FILE, ONLY_NULS, ONLY_WHITE_SPACE, ONLY_FRONT_MATTER})
"""Reasons that do not count as failures where no earlier version is lost: folders hold empty files."""
