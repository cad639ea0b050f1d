"""A piece of a line of a PDF page."""

from __future__ import annotations

from typing import NamedTuple

_CELL_GAP = 1.1
"""In heights of a line; justified prose has gaps of up to half of one."""


class Segment(NamedTuple):
    """A piece of a line without a wide gap in it. Coordinates are points; all are 0 where its place is not known."""

    text: str
    left: float
    right: float
    bottom: float
    top: float

    @property
    def height(self) -> float:
        return self.top - self.bottom

    def joined(self, other: Segment) -> Segment:
        """This segment with one more word."""
        text = f"{self.text} {other.text}"
        if self.height <= 0 or other.height <= 0:
            return Segment(text, 0, 0, 0, 0)
        left, right = min(self.left, other.left), max(self.right, other.right)
        return Segment(text, left, right, min(self.bottom, other.bottom), max(self.top, other.top))


def is_wide_gap(first: Segment, second: Segment) -> bool:
    """Whether two neighbours of a line stand further apart than words do."""
    height = max(first.height, second.height)
    gap = max(second.left - first.right, first.left - second.right)
    return first.height > 0 and second.height > 0 and gap > _CELL_GAP * height
