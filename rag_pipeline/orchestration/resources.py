"""What a deployment sets for all corpora, and what one run may ask for."""

from __future__ import annotations

from contextvars import ContextVar

import dagster as dg
from pydantic import PrivateAttr

from rag_pipeline.config import CorpusConfig, data_root
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.dead_runs import mark_process
from rag_pipeline.orchestration.pool_watch import PoolWatch
from rag_pipeline.refresh import Lines, RefreshContext, Reporter, Several, Silent

listener: ContextVar[Reporter] = ContextVar("listener", default=Silent())  # noqa: B039 (it holds no state)
"""Who hears of the progress of a run in this process: Dagster makes resources anew for each run, so none can carry it."""


_SECONDS_BETWEEN_EVENTS = 15.0
"""How often a stage at work writes its progress into the run's events, which Dagster keeps."""


class RefreshSettings(dg.ConfigurableResource):  # type: ignore[type-arg]
    """How the corpora of this deployment are refreshed; the launchpad can change it for one run.

    ``data`` moves the data root (by default RAG_PIPELINE_DATA). ``full`` reads and rebuilds everything.
    ``allow_deletes`` lifts the limit on how many documents may vanish; ``removed`` are paths that were taken out of the
    source on purpose, and do not count. ``accept_drop`` publishes what the gates of the corpus refuse. ``wait_seconds`` is
    how long a run waits for another one of the same corpus before it fails.
    """

    data: str | None = None
    full: bool = False
    allow_deletes: bool = False
    accept_drop: bool = False
    removed: list[str] = []  # noqa: RUF012 (pydantic copies defaults)
    wait_seconds: float = 0

    _locks: dict[str, RefreshLock] = PrivateAttr(default_factory=dict)
    _contexts: dict[str, RefreshContext] = PrivateAttr(default_factory=dict)
    _watches: list[PoolWatch] = PrivateAttr(default_factory=list)
    _instance: dg.DagsterInstance | None = PrivateAttr(default=None)
    _log: dg.DagsterLogManager | None = PrivateAttr(default=None)

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Dagster calls this at the start of a run."""
        self._instance = context.instance
        mark_process(context)

    def context(self, corpus: CorpusConfig, run_id: str, log: dg.DagsterLogManager | None = None) -> RefreshContext:
        """What a stage works with, the same for all stages of a run that share a process.

        The first stage takes the corpus's lock, which the run then keeps.

        Args:
            log: of the step that asks; its progress goes there.

        Raises:
            LockedError: another refresh of the corpus is at work.
        """
        self._log = log
        if corpus.name not in self._contexts:
            root = data_root(self.data)
            self._locks[corpus.name] = RefreshLock.acquire(CorpusStore(root, corpus.name), run_id, self.wait_seconds)
            self._contexts[corpus.name] = RefreshContext(
                corpus=corpus,
                data_root=root,
                full=self.full,
                allow_deletes=self.allow_deletes,
                accept_drop=self.accept_drop,
                removed=frozenset(self.removed),
                run_id=run_id,
                reporter=Several((listener.get(), Lines(self._say, _SECONDS_BETWEEN_EVENTS, always_end=True))),
            )
            pool = names.pool_name(corpus.embedding.provider)
            if pool is not None and self._instance is not None and not self._instance.is_ephemeral:
                self._watches.append(PoolWatch(self._instance, corpus.name, pool, run_id))
        return self._contexts[corpus.name]

    def _say(self, line: str) -> None:
        if self._log is not None:
            self._log.info(line)

    def teardown_after_execution(self, context: dg.InitResourceContext) -> None:
        """Dagster calls this at the end of a run, or of a step where steps are processes of their own."""
        self._contexts.clear()
        while self._watches:
            self._watches.pop().stop()
        while self._locks:
            self._locks.popitem()[1].release()
