"""The progress of a refresh on a terminal: a bar a stage while it runs, one line when it is done."""

from __future__ import annotations

import time
from typing import Any

from rag_pipeline.cli.output import console
from rag_pipeline.contracts import Contract


class TerminalProgress:
    """Draws on stderr, so that what a command prints on stdout stays clean."""

    def __init__(self) -> None:
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, SpinnerColumn, TextColumn, TimeRemainingColumn

        self._console = console(stderr=True)
        self._progress = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[unit]}", markup=False),
            TimeRemainingColumn(),
            TextColumn("{task.fields[note]}", style="dim", markup=False),
            console=self._console,
            transient=True,
        )
        self._task: Any = None
        self._name = ""
        self._started = 0.0

    def __enter__(self) -> TerminalProgress:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def begin(self, corpus: str, stage: str, total: int | None, unit: str) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
        self._name = f"{corpus}/{stage}"
        self._started = time.perf_counter()
        self._task = self._progress.add_task(self._name, total=total, unit=unit, note="")

    def advance(self, amount: int, note: str = "") -> None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in note)[-50:]
        self._progress.update(self._task, advance=amount, note=shown)

    def end(self, summary: str) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
        seconds = time.perf_counter() - self._started
        self._progress.console.print(f"{self._name}: {summary} ({seconds:.1f} s)", markup=False)

    def record(self, corpus: str, stage: str, report: Contract) -> None: ...
