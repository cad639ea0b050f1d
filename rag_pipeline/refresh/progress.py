"""How a stage says how far it is. The command line draws it; without a listener nothing happens."""

from __future__ import annotations

from typing import Protocol

from rag_pipeline.contracts import Contract


class Reporter(Protocol):
    """Hears of the progress of a refresh. Stages come one after the other."""

    def begin(self, corpus: str, stage: str, total: int | None, unit: str) -> None:
        """A stage starts; ``total`` is None when nobody knows how much there is."""
        ...

    def advance(self, amount: int, note: str = "") -> None:
        """So many units more are done; ``note`` names what is at work."""
        ...

    def end(self, summary: str) -> None:
        """The stage is done."""
        ...

    def record(self, corpus: str, stage: str, report: Contract) -> None:
        """What the stage did, as it was reported."""
        ...


class Silent:
    """A reporter that hears everything and says nothing."""

    def begin(self, corpus: str, stage: str, total: int | None, unit: str) -> None: ...

    def advance(self, amount: int, note: str = "") -> None: ...

    def end(self, summary: str) -> None: ...

    def record(self, corpus: str, stage: str, report: Contract) -> None: ...
