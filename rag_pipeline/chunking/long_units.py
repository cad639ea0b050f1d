"""Units longer than a chunk: a blob without white space, a sentence of a script that has none, a giant table row."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import numpy.typing as npt

from rag_pipeline.chunking.characters import WORD_CHARACTER, code_points, flags_of, grapheme_starts
from rag_pipeline.contracts import Tokenizer

_REACH = 0.1
"""How far a cut may move back to a better place, in parts of a chunk."""


def split_long_unit(text: str, start: int, end: int, size: int, tokenizer: Tokenizer) -> list[tuple[int, int]]:
    """Spans that cover ``text[start:end]`` but for white space, each of at most ``size`` tokens, about equally long.

    Cuts lie between a word and punctuation where one is near, else between two characters that a reader sees; inside
    one only when it is longer than a chunk by itself. A single code point is never cut, whatever it counts.
    """
    done: list[tuple[int, int]] = []
    pending = [stripped(text, start, end)]
    while pending:
        counts = tokenizer.count([text[first:last] for first, last in pending]).tolist()
        longer: list[tuple[int, int]] = []
        for (first, last), count in zip(pending, counts, strict=True):
            if count <= size or last - first < 2:
                done.append((first, last))
                continue
            cuts = _cuts(text[first:last], count, size, tokenizer)
            bounds = [first, *(first + cuts).tolist(), last]
            longer.extend(stripped(text, low, high) for low, high in pairwise(bounds))
        pending = [(first, last) for first, last in longer if first < last]
    return sorted(span for span in done if span[0] < span[1])


def stripped(text: str, start: int, end: int) -> tuple[int, int]:
    """A span without the white space at its ends."""
    span = text[start:end]
    end = start + len(span.rstrip())
    return min(end, start + len(span) - len(span.lstrip())), end


def _cuts(text: str, tokens: int, size: int, tokenizer: Tokenizer) -> npt.NDArray[np.int64]:
    """At least one place to cut a text of two characters or more, ascending, none at its ends."""
    # Each part starts anew, which may cost a token, and may be longer by how far its end's neighbour moved back.
    parts = max(2, int(np.ceil(tokens * (1 + _REACH) / max(size - 1, 1))))
    ends, counts = tokenizer.pieces(text)
    sums = np.append(0, np.cumsum(counts))
    wanted = np.interp(sums[-1] * np.arange(1, parts) / parts, sums, np.append(0, ends)).astype(np.int64)
    codes = code_points(text)
    flags = flags_of(codes)
    characters = np.flatnonzero(grapheme_starts(codes, flags))
    word = (flags[characters] & WORD_CHARACTER) != 0
    seams = characters[1:][word[1:] != word[:-1]]
    near = _last_up_to(seams, wanted)
    cuts = np.where(near > wanted - _REACH * len(text) / parts, near, _last_up_to(characters, wanted))
    cuts = np.unique(cuts[(cuts > 0) & (cuts < len(text))])
    if len(cuts):
        return cuts
    return characters[len(characters) // 2 :][:1] if len(characters) > 1 else np.array([len(text) // 2])


def _last_up_to(places: npt.NDArray[np.int64], wanted: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """For each wanted place, the last one of the ascending places that is not beyond it, or -1."""
    return np.append(-1, places)[np.searchsorted(places, wanted, "right")]
