"""One writer a corpus: a lock of the operating system, which ends with the process that holds it, however that ends."""

from __future__ import annotations

import json
import os
import socket
from datetime import datetime, timezone
from typing import Any

from rag_pipeline.errors import LockedError
from rag_pipeline.files import write_atomically
from rag_pipeline.index.store import CorpusStore

_LOCK, _OWNER = "refresh.lock", "refresh.owner.json"


class RefreshLock:
    """Held by the one refresh of a corpus that may write. Made by :meth:`acquire`.

    The lock is the operating system's (flock), so that one left by a dead process is none. The owner file beside it only
    tells people who holds it.
    """

    def __init__(self, lock: Any) -> None:
        self._lock = lock

    @classmethod
    def acquire(cls, store: CorpusStore, run_id: str | None, wait: float = 0) -> RefreshLock:
        """Take the lock of a corpus.

        Args:
            wait: seconds to wait for another refresh to finish.

        Raises:
            LockedError: another refresh still holds it; the message says which.
        """
        from filelock import FileLock, Timeout

        store.root.mkdir(parents=True, exist_ok=True)
        lock = FileLock(store.root / _LOCK, timeout=wait, thread_local=False)
        try:
            lock.acquire()
        except Timeout:
            raise LockedError(
                f"corpus {store.corpus!r} is being refreshed already{_described_owner(store)}; "
                f"try again when it is done, or wait for it with --wait SECONDS"
            ) from None
        owner = {
            "host": socket.gethostname(),
            "pid": os.getpid(),
            "run_id": run_id,
            "since": datetime.now(timezone.utc).isoformat(timespec="seconds"),
        }
        write_atomically(store.root / _OWNER, json.dumps(owner).encode(), "owner")
        return cls(lock)

    def release(self) -> None:
        """Let the next refresh begin. Releasing twice does no harm."""
        self._lock.release()


def _described_owner(store: CorpusStore) -> str:
    try:
        owner = json.loads((store.root / _OWNER).read_bytes())
        return f" by process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError):
        # The owner writes its name just after it took the lock.
        return ""
