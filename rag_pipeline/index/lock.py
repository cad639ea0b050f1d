"""One writer a corpus: a lock of the operating system, which ends with the process that holds it, however that ends.

In a bucket it is a lease, which expires when its holder does not renew it.
"""

from __future__ import annotations

import json
import os
import socket
from collections.abc import Mapping
from datetime import datetime, timezone
from typing import Any

from rag_pipeline.errors import LockedError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.lease import Lease, LeaseHeldError
from rag_pipeline.index.store import CorpusStore
from rag_pipeline.storage import ObjectPath

_LOCK, _OWNER = "refresh.lock", "refresh.owner.json"
_TURN_SECONDS = 1.0


class RefreshLock:
    """Held by the one refresh of a corpus that may write. Made by :meth:`acquire`.

    The lock is the operating system's (flock), so that one left by a dead process is none. The owner file beside it only
    tells who holds it.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    @classmethod
    def acquire(cls, store: CorpusStore, run_id: str | None, wait: float = 0) -> RefreshLock:
        """Take the lock of a corpus.

        A process of the same run is waited for, however long it works: where the stages of a run are processes of their
        own and some could work side by side, they take turns.

        Args:
            wait: seconds to wait for another refresh to finish.

        Raises:
            LockedError: another refresh still holds it; the message says which.
        """
        owner = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "run_id": run_id,
            "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        while True:
            try:
                return cls(_take(store, owner, wait))
            except LeaseHeldError as error:
                if not _of_the_same_run(error.owner, owner):
                    raise _locked(store, error.owner) from None
                wait = _TURN_SECONDS

    def release(self) -> None:
        """Let the next refresh begin. Releasing twice does no harm."""
        self._lock.release()


def _take(store: CorpusStore, owner: Mapping[str, Any], wait: float) -> Any:
    """
    Raises:
        LeaseHeldError: somebody else holds it.
    """
    if isinstance(store.root, ObjectPath):
        return Lease.acquire(store.root / _LOCK, owner, wait)
    from filelock import FileLock, Timeout

    store.root.mkdir(parents=True, exist_ok=True)
    lock = FileLock(store.root / _LOCK, timeout=wait, thread_local=False)
    try:
        lock.acquire()
    except Timeout:
        raise LeaseHeldError(_read_owner(store)) from None
    write_atomically(store.root / _OWNER, json.dumps(owner).encode(), "owner")
    return lock


def _of_the_same_run(holder: Mapping[str, Any], owner: Mapping[str, Any]) -> bool:
    """Whether another process of this very run holds the lock. This process would wait for itself for ever."""
    itself = all(holder.get(key) == owner[key] for key in ("host", "pid"))
    return owner["run_id"] is not None and holder.get("run_id") == owner["run_id"] and not itself


def _locked(store: CorpusStore, owner: Mapping[str, Any]) -> LockedError:
    known = all(key in owner for key in ("pid", "host", "since"))
    described = f" by process {owner['pid']} on {owner['host']} since {owner['since']}" if known else ""
    return LockedError(
        f"corpus {store.corpus!r} is being refreshed already{described}; "
        f"try again when it is done, or wait for it with --wait SECONDS"
    )


def _read_owner(store: CorpusStore) -> dict[str, Any]:
    try:
        owner = json.loads((store.root / _OWNER).read_bytes())
    except (OSError, ValueError):
        # The owner writes its name just after it took the lock.
        return {}
    return owner if isinstance(owner, dict) else {}
