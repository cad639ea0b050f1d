"""Looks at sources that do not hold up one another, however long one of them takes."""

from __future__ import annotations

import threading
from concurrent.futures import Future, wait

from rag_pipeline.config import CorpusConfig
from rag_pipeline.refresh.reports import SourceListing
from rag_pipeline.refresh.source import look_at_source


class Looks:
    """Each look is a thread of its own: a store that does not answer, or a large one, may take minutes.

    Dagster ends an evaluation of a sensor after 60 s and forgets what it has found. What takes longer than it is waited for
    goes on meanwhile, and a later evaluation in the same process, which is the code server, has what came of it.
    """

    def __init__(self) -> None:
        self._under_way: dict[str, Future[SourceListing]] = {}

    def look(self, corpus: CorpusConfig, seconds: float) -> SourceListing | None:
        """The listing of the source, or None while it is under way. Only a new look is waited for.

        Raises:
            SourceError: it is not there or cannot be listed.
        """
        found = self._under_way.get(corpus.name)
        if found is None:
            found = self._under_way[corpus.name] = Future()
            # A daemon: one that hangs for good must not keep the process from ending.
            threading.Thread(target=_look, args=(corpus, found), name=f"look-{corpus.name}", daemon=True).start()
            wait([found], seconds)
        if not found.done():
            return None
        self._under_way.pop(corpus.name, None)
        return found.result()


def _look(corpus: CorpusConfig, found: Future[SourceListing]) -> None:
    try:
        found.set_result(look_at_source(corpus))
    except BaseException as error:  # noqa: BLE001 (whoever asks for the result is given it)
        found.set_exception(error)
