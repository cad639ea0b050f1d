"""Text in capitals reads like text in small letters, to a person and so to an embedder.

A static model knows ``quick`` as one token and has to spell ``QUICK``, so that the two have little in common. A line
counts as written in capitals when it has capitals and no small letter (``str.isupper``), or when it has ten cased
letters or more and at least nine of ten are capitals (``LIST OF THE PDFs``). The rule looks at one line at a time: the
text of a chunk stands below a context line that is written otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
import numpy.typing as npt

_FEWEST_CASED = 10
_CAPITALS_PER_SMALL_LETTER = 9
_TABLE_SIZE = 0x1E944  # the last capital of Unicode is ADLAM CAPITAL LETTER SHA, U+1E921


@lru_cache(maxsize=1)
def _capital_table() -> npt.NDArray[np.bool_]:
    characters = np.arange(_TABLE_SIZE, dtype=np.uint32).view("U1")
    table = np.char.isupper(characters)
    table[-1] = False
    return np.asarray(table)


def lower_capital_lines(texts: Sequence[str]) -> list[str]:
    """The texts with every line that is written in capitals in small letters; other lines stay as they are."""
    joined = "\n".join(texts)
    lines = joined.split("\n")
    capitals = _capitals_per_line(joined)
    candidates = np.flatnonzero(capitals)
    counts = capitals[candidates].tolist()
    lowered = [
        line
        for line, count in zip(candidates.tolist(), counts, strict=True)
        if lines[line].isupper() or (count >= _CAPITALS_PER_SMALL_LETTER and _mostly_capitals(lines[line], count))
    ]
    if not lowered:
        return list(texts)
    for line in lowered:
        lines[line] = lines[line].lower()
    first_lines = np.cumsum([0, *(text.count("\n") + 1 for text in texts)])
    result = list(texts)
    for index in np.unique(np.searchsorted(first_lines, lowered, "right") - 1).tolist():
        result[index] = "\n".join(lines[first_lines[index] : first_lines[index + 1]])
    return result


def _capitals_per_line(text: str) -> npt.NDArray[np.int64]:
    codes = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
    capitals = np.flatnonzero(_capital_table().take(codes, mode="clip"))
    ends = np.append(np.flatnonzero(codes == ord("\n")), len(codes))
    return np.diff(np.searchsorted(capitals, ends), prepend=0)


def _mostly_capitals(line: str, capitals: int) -> bool:
    small = sum(map(str.islower, line))
    return capitals + small >= _FEWEST_CASED and capitals >= _CAPITALS_PER_SMALL_LETTER * small
