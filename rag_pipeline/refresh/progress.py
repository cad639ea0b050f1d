"""How a stage says how far it is. A terminal shows it, logs get a line now and then; without a listener nothing happens."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from rag_pipeline.contracts import Contract


class Reporter(Protocol):
    """Hears of the progress of a refresh. Stages come one after the other."""

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None:
        """A stage starts; ``total`` is None when nobody knows how much there is, ``total_bytes`` when nobody counts them."""
        ...

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None:
        """So many units more are done, and so many bytes.

        Args:
            note: names what is at work.
            failures: how many there were so far.
        """
        ...

    def end(self, summary: str) -> None:
        """The stage is done."""
        ...

    def record(self, corpus: str, stage: str, report: Contract) -> None:
        """What the stage did, as it was reported."""
        ...


class Silent:
    """A reporter that hears everything and says nothing."""

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None: ...

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None: ...

    def end(self, summary: str) -> None: ...

    def record(self, corpus: str, stage: str, report: Contract) -> None: ...


class Several:
    """Passes what it hears on to each of its reporters."""

    def __init__(self, reporters: Sequence[Reporter]) -> None:
        self._reporters = tuple(reporters)

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None:
        for reporter in self._reporters:
            reporter.begin(corpus, stage, total, unit, total_bytes)

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None:
        for reporter in self._reporters:
            reporter.advance(amount, note, size, failures)

    def end(self, summary: str) -> None:
        for reporter in self._reporters:
            reporter.end(summary)

    def record(self, corpus: str, stage: str, report: Contract) -> None:
        for reporter in self._reporters:
            reporter.record(corpus, stage, report)


@dataclass
class Meter:
    """How far a stage is: units and bytes done, their rate, the time left, what is at work, and the failures so far."""

    name: str
    total: int | None
    unit: str
    total_bytes: int | None = None
    clock: Callable[[], float] = time.monotonic
    done: int = 0
    done_bytes: int = 0
    note: str = ""
    failures: int = 0
    started: float = field(init=False)

    def __post_init__(self) -> None:
        self.started = self.clock()

    def advance(self, amount: int, note: str, size: int, failures: int) -> None:
        self.done += amount
        self.done_bytes += size
        self.note = note
        self.failures = failures

    @property
    def seconds(self) -> float:
        return self.clock() - self.started

    @property
    def rate(self) -> float:
        """Units a second."""
        return self.done / self.seconds if self.seconds > 0 else 0.0

    @property
    def readable_rate(self) -> str:
        """The rate for people: 1,200, or 0.4."""
        return f"{self.rate:,.{0 if self.rate >= 1 else 1}f}"

    @property
    def seconds_left(self) -> float | None:
        """By the part of the bytes that is done, where they are counted, or else of the units. None while unknown."""
        done, total = (self.done_bytes, self.total_bytes) if self.total_bytes else (self.done, self.total)
        if not done or total is None:
            return None
        return max(self.seconds * (total / done - 1), 0.0)

    def line(self) -> str:
        """One line for a log."""
        of = f" of {self.total:,}" if self.total is not None else ""
        parts = [f"{self.done:,}{of} {self.unit}"]
        if self.total_bytes:
            parts.append(f"{readable_bytes(self.done_bytes)} of {readable_bytes(self.total_bytes)}")
        parts.append(f"{self.readable_rate} {self.unit}/s")
        if self.seconds_left is not None:
            parts.append(f"{readable_seconds(self.seconds_left)} left")
        if self.failures:
            parts.append(f"{self.failures:,} failed")
        if self.note:
            parts.append(f"at {readable_note(self.note)}")
        return f"{self.name}: {', '.join(parts)}"


class Lines:
    """Says a line when a stage goes on for long, and one at its end if it had said any, or always.

    Args:
        say: takes each line.
        every: seconds between lines; a stage that is quicker says nothing on its way.
        always_end: whether quick stages say their summary.
    """

    def __init__(
        self,
        say: Callable[[str], None],
        every: float = 30.0,
        always_end: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._say = say
        self._every = every
        self._always_end = always_end
        self._clock = clock
        self._meter: Meter | None = None
        self._next = 0.0
        self._said = False

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None:
        self._meter = Meter(f"{corpus}/{stage}", total, unit, total_bytes, self._clock)
        self._next = self._meter.started + self._every
        self._said = False

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None:
        if self._meter is None:
            return
        self._meter.advance(amount, note, size, failures)
        if self._clock() >= self._next:
            self._say(self._meter.line())
            self._next = self._clock() + self._every
            self._said = True

    def end(self, summary: str) -> None:
        if self._meter is not None and (self._said or self._always_end):
            self._say(f"{self._meter.name}: {summary} ({self._meter.seconds:.1f} s)")
        self._meter = None

    def record(self, corpus: str, stage: str, report: Contract) -> None: ...


def readable_bytes(count: int) -> str:
    """A number of bytes for people: 512 B, 3.4 MB."""
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1000:
            return f"{amount:.0f} B" if unit == "B" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} TB"


def readable_seconds(seconds: float) -> str:
    """A span of time for people: 45 s, 3 min 20 s, 2 h 5 min."""
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"


def readable_note(note: str, longest: int = 60) -> str:
    """The end of a note, without what would move a cursor or end a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in note)[-longest:]
