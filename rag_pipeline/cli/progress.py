"""The progress of a refresh on a terminal: a bar a stage while it runs, one line when it is done."""

from __future__ import annotations

from typing import Any

from rag_pipeline.cli.output import console
from rag_pipeline.contracts import Contract
from rag_pipeline.refresh.progress import Meter, readable_bytes, readable_note


class TerminalProgress:
    """Draws on stderr, so that what a command prints on stdout stays clean."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=20),
            MofNCompleteColumn(),
            TextColumn("{task.fields[figures]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[failures]}", style="red", markup=False),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=console(stderr=True),
            transient=True,
        )
        self._task: Any = None
        self._meter: Meter | None = None

    def __enter__(self) -> TerminalProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, corpus: str, stage: str, total: int | None, unit: str, total_bytes: int | None = None) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._meter = Meter(f"{corpus}/{stage}", total, unit, total_bytes)
        self._task = self._progress.add_task(self._meter.name, total=total, figures=unit, failures="", note="")

    def advance(self, amount: int, note: str = "", size: int = 0, failures: int = 0) -> None:
        meter = self._meter
        if meter is None:
            return
        meter.advance(amount, note, size, failures)
        figures = f"{meter.unit}, {meter.readable_rate}/s"
        if meter.total_bytes:
            figures += f", {readable_bytes(meter.done_bytes)} of {readable_bytes(meter.total_bytes)}"
        self._progress.update(
            self._task,
            advance=amount,
            figures=figures,
            failures=f"{failures:,} failed" if failures else "",
            note=readable_note(note, 50),
        )

    def end(self, summary: str) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        if self._meter is not None:
            self._progress.console.print(f"{self._meter.name}: {summary} ({self._meter.seconds:.1f} s)", markup=False)
            self._meter = None

    def record(self, corpus: str, stage: str, report: Contract) -> None: ...
