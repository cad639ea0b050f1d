"""Takes secrets out of what providers answer before it reaches a message, a log or a stored trace."""

from __future__ import annotations

import os
import re

_HIDDEN = "[secret]"
_SECRET_NAMES = re.compile(r"(?:^|_)(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIALS?|WEBHOOK)(?:_|$)", re.IGNORECASE)
_SHORTEST_SECRET = 6
"""Shorter values are placeholders such as `none`, and replacing them would garble messages."""

_SHAPES = re.compile(
    r"""(?ix)
    \bbearer\s+(?!(?:auth\w*|tokens?|schemes?|credentials?|headers?|realm)\b)[^\s'",;]{6,}
    | \bbasic\s+(?-i:(?=[A-Za-z][a-z]*[A-Z0-9+/=])[A-Za-z0-9+/=_\-]{6,})
    | \b(?:sk[-_]|hf_|gsk_|jina_|xai-|nvapi-)[a-z0-9_\-]{12,}
    | \b(?:pk|rk|pa|al|co|key)[-_](?=[a-z_\-]*\d)[a-z0-9_\-]{12,}
    | \bAKIA[0-9A-Z]{16}\b
    | \bAIza[0-9a-z_\-]{30,}
    """
)
_LONGEST_MESSAGE = 300
_LONGEST_READ = 20_000
"""Characters that are searched: an error's page may have millions, and the event loop waits meanwhile."""
_LONGEST_SHAPE = 100
"""Characters at the end of what is searched in which a key that was cut would not be known any more."""


def redact(text: str, longest: int = _LONGEST_MESSAGE, lines: bool = False) -> str:
    """A text without the values of secret environment variables and what looks like a key.

    Args:
        longest: characters after which it is cut.
        lines: whether its lines stay; else it becomes one.
    """
    values = {value for name, value in os.environ.items() if _SECRET_NAMES.search(name) and len(value) >= _SHORTEST_SECRET}
    margin = max((_LONGEST_SHAPE, *map(len, values)))
    cut = len(text) > _LONGEST_READ + margin
    text = text[: _LONGEST_READ + margin]
    for value in sorted(values, key=len, reverse=True):
        text = text.replace(value, _HIDDEN)
    if cut:  # the beginning of a secret may stand at the end
        text = text[:-margin]
    text = _SHAPES.sub(_HIDDEN, text)
    text = text.strip() if lines else " ".join(text.split())
    return text if len(text) <= longest else f"{text[: longest - 1]}…"
