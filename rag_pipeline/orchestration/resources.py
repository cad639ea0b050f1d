"""What a deployment sets for all corpora, in one place, and what one run may ask for."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

import dagster as dg
from pydantic import PrivateAttr

from rag_pipeline.config import CorpusConfig, Deployment, data_root
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.orchestration import names
from rag_pipeline.orchestration.dead_runs import mark_process
from rag_pipeline.orchestration.pool_watch import PoolWatch
from rag_pipeline.refresh import Lines, RefreshContext, Reporter, Several, Silent, check_apart
from rag_pipeline.storage import StorePath

listener: ContextVar[Reporter] = ContextVar("listener", default=Silent())  # noqa: B039 (it holds no state)
"""Who hears of the progress of a run in this process: Dagster makes resources anew for each run, so none can carry it."""

_SECONDS_BETWEEN_EVENTS = 15.0
"""How often a stage at work writes its progress into the run's events, which Dagster keeps."""


class CorpusStores(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Where the stores of all corpora lie. ``data`` is the data root; None takes RAG_PIPELINE_DATA."""

    data: str | None = None

    def root(self) -> StorePath:
        """
        Raises:
            ConfigError: the data root is none that can be.
        """
        return data_root(self.data)


class Embedders(dg.ConfigurableResource):  # type: ignore[type-arg]
    """Which models may be asked in this deployment, and how much; see :class:`rag_pipeline.config.Deployment`.

    What is None leaves corpus.yaml as it is. Limits only ever lower what a corpus allows itself.
    """

    provider: str | None = None
    usd_per_refresh: float | None = None
    tokens_per_refresh: int | None = None
    concurrency: int | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None

    def applied(self, corpus: CorpusConfig) -> CorpusConfig:
        """The corpus as it is refreshed in this deployment.

        Raises:
            ConfigError: a value cannot be; the message names the field.
        """
        values = {name: getattr(self, name) for name in Deployment.model_fields}
        called = {name: f"{type(self).__name__}.{name}" for name in values}
        return Deployment.of(values, called).applied(corpus)


class RefreshSettings(dg.ConfigurableResource):  # type: ignore[type-arg]
    """How the corpora of this deployment are refreshed; the launchpad can change it for one run.

    ``stores`` and ``embedders`` are the deployment's. ``data`` moves the data root of one run. ``full`` reads and rebuilds
    everything. ``allow_deletes`` lifts the limit on how many documents may vanish; ``removed`` are paths that were taken out
    of the source on purpose, and do not count. ``accept_drop`` publishes what the gates of the corpus refuse.
    ``wait_seconds`` is how long a run waits for another one of the same corpus before it fails. ``retries`` is how often a
    stage that failed for a passing reason is tried again, ``retry_seconds`` later.
    """

    stores: CorpusStores
    embedders: Embedders
    data: str | None = None
    full: bool = False
    allow_deletes: bool = False
    accept_drop: bool = False
    removed: list[str] = []  # noqa: RUF012 (pydantic copies defaults)
    wait_seconds: float = 0
    retries: int = 1
    retry_seconds: float = 30

    _locks: dict[str, RefreshLock] = PrivateAttr(default_factory=dict)
    _contexts: dict[str, RefreshContext] = PrivateAttr(default_factory=dict)
    _watches: list[PoolWatch] = PrivateAttr(default_factory=list)
    _instance: dg.DagsterInstance | None = PrivateAttr(default=None)
    _run: dg.DagsterRun | None = PrivateAttr(default=None)
    _log: dg.DagsterLogManager | None = PrivateAttr(default=None)

    def __init__(self, **values: Any) -> None:
        # Dagster 1.13 puts None in the place of a nested resource that is not given, whatever default the field has.
        super().__init__(**{"stores": CorpusStores(), "embedders": Embedders(), **values})

    def setup_for_execution(self, context: dg.InitResourceContext) -> None:
        """Dagster calls this at the start of a run."""
        self._instance, self._run = context.instance, context.run
        mark_process(context)

    def context(self, corpus: CorpusConfig, run_id: str, log: dg.DagsterLogManager | None = None) -> RefreshContext:
        """What a stage works with, the same for all stages of a run that share a process.

        The first stage takes the corpus's lock, which the run then keeps.

        Args:
            log: of the step that asks; its progress goes there.

        Raises:
            ConfigError: the deployment's settings cannot be, or source and data root overlap.
            LockedError: another refresh of the corpus is at work.
        """
        self._log = log
        if corpus.name not in self._contexts:
            refresh = self._unlocked(corpus, run_id)
            self._tag_run(corpus)
            self._locks[corpus.name] = RefreshLock.acquire(refresh.store, run_id, self.wait_seconds)
            self._contexts[corpus.name] = refresh
            pool = names.pool_name(corpus.embedding.provider)
            if pool is not None and self._instance is not None and not self._instance.is_ephemeral:
                self._watches.append(PoolWatch(self._instance, corpus.name, pool, run_id))
        return self._contexts[corpus.name]

    def reading_context(self, corpus: CorpusConfig, run_id: str) -> RefreshContext:
        """What a look at the store works with, which takes no lock and may so be had while a refresh is at work.

        Raises:
            ConfigError: the deployment's settings cannot be, or source and data root overlap.
        """
        return self._contexts.get(corpus.name) or self._unlocked(corpus, run_id)

    def _unlocked(self, corpus: CorpusConfig, run_id: str) -> RefreshContext:
        root = data_root(self.data) if self.data else self.stores.root()
        check_apart(corpus, root)
        return RefreshContext(
            corpus=self.embedders.applied(corpus),
            data_root=root,
            full=self.full,
            allow_deletes=self.allow_deletes,
            accept_drop=self.accept_drop,
            removed=frozenset(self.removed),
            run_id=run_id,
            reporter=Several((listener.get(), Lines(self._say, _SECONDS_BETWEEN_EVENTS, always_end=True))),
        )

    def _tag_run(self, corpus: CorpusConfig) -> None:
        """Note on a run of this corpus's assets alone that it is one, when no job of the corpus has.

        The queue lets in no other run of the corpus then, and people find the run under the corpus.
        """
        run, instance = self._run, self._instance
        if run is None or instance is None or instance.is_ephemeral or names.CORPUS_TAG in run.tags:
            return
        if run.asset_selection and all(key.path[-2:-1] == [corpus.name] for key in run.asset_selection):
            instance.add_run_tags(run.run_id, names.run_tags(corpus.name, corpus.group))

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
