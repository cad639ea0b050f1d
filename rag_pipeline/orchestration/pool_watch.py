"""Looks after a run that may wait for a place in an embedding pool: says that it waits, and frees what the dead hold."""

from __future__ import annotations

import logging
import threading

import dagster as dg
from sqlalchemy.exc import SQLAlchemyError

from rag_pipeline.orchestration.dead_runs import fail_dead_runs

_INTERVAL_SECONDS = 5.0
_log = logging.getLogger("rag_pipeline.orchestration")


class PoolWatch:
    """Looks at the pool from a thread of its own, with a handle of its own on the instance, until :meth:`stop`."""

    def __init__(self, instance: dg.DagsterInstance, corpus: str, pool: str, run_id: str) -> None:
        self._reference = instance.get_ref()
        self._corpus, self._pool, self._run_id = corpus, pool, run_id
        self._told = False
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, name="pool-watch", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._stopped.set()
        self._thread.join(timeout=2 * _INTERVAL_SECONDS)

    def _watch(self) -> None:
        if self._stopped.wait(_INTERVAL_SECONDS):
            return
        with dg.DagsterInstance.from_ref(self._reference) as instance:
            while True:
                try:
                    self._look(instance)
                except (dg.DagsterError, SQLAlchemyError, OSError) as error:
                    # The next look may succeed; the run itself finds out what a broken instance means.
                    _log.warning("%s: cannot look at the Dagster pool %s: %s", self._corpus, self._pool, error)
                if self._stopped.wait(_INTERVAL_SECONDS):
                    return

    def _look(self, instance: dg.DagsterInstance) -> None:
        if not instance.event_log_storage.supports_global_concurrency_limits:
            return
        info = instance.event_log_storage.get_concurrency_info(self._pool)
        if self._run_id not in info.pending_run_ids:
            return
        fail_dead_runs(instance)
        holders = [slot.run_id for slot in info.claimed_slots]
        if holders and not self._told:
            self._told = True
            waits = "%s: embedding waits for a place in the Dagster pool %s, which run %s holds"
            _log.warning(waits, self._corpus, self._pool, holders[0])
