"""Index arithmetic on runs of numbers, for the lexical index."""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Integers: TypeAlias = npt.NDArray[np.int64]


def concatenated_ranges(starts: Integers, lengths: Integers) -> Integers:
    """``start, start + 1, ...`` for every start, as many numbers as its length says, one range after the other."""
    ends = np.cumsum(lengths)
    total = int(ends[-1]) if len(ends) else 0
    result: Integers = np.repeat(starts - ends + lengths, lengths) + np.arange(total)
    return result
