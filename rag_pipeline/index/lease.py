"""A lock in a bucket: an object that says who holds it, and until when.

It is written only while nobody has changed it, and renewed while it is held. A holder that dies leaves it until it
expires, but where the dead process was one of this very machine. The clocks of the hosts need to agree to half a minute;
when they do not, or a holder sleeps, two refreshes may be at work: CURRENT is swapped by one of them only.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
import uuid
from collections.abc import Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any

from rag_pipeline.errors import RagPipelineError, StoreError
from rag_pipeline.storage import ObjectChangedError, ObjectPath, ObjectVersion

_LOGGER = logging.getLogger(__name__)
_LEASE_SECONDS = 60.0
_RENEWAL_SECONDS = 15.0
_CLOCK_SECONDS = 30.0
_POLL_SECONDS = 1.0


class LeaseHeldError(Exception):
    """Somebody else holds the lease. ``owner`` is what they said of themselves. Internal: the caller knows the words."""

    def __init__(self, owner: Mapping[str, Any]) -> None:
        super().__init__("held")
        self.owner = owner


class Lease:
    """Held from :meth:`acquire` to :meth:`release`."""

    def __init__(self, file: ObjectPath, owner: Mapping[str, Any]) -> None:
        self._file = file
        self._owner = {**owner, "id": uuid.uuid4().hex, "process": _process(os.getpid())}
        self._version: ObjectVersion | None = None
        self._stopped = threading.Event()
        self._renewing = threading.Thread(target=self._renew, name="lease", daemon=True)

    @classmethod
    def acquire(cls, file: ObjectPath, owner: Mapping[str, Any], wait: float) -> Lease:
        """Take the lease.

        Args:
            owner: what others are told of the holder, as JSON values.
            wait: seconds to wait for another holder.

        Raises:
            LeaseHeldError: another one still holds it.
        """
        lease = cls(file, owner)
        end = time.monotonic() + wait
        while True:
            held = lease._try()
            if held is None:
                lease._renewing.start()
                return lease
            left = end - time.monotonic()
            if left <= 0:
                raise LeaseHeldError(held)
            time.sleep(min(_POLL_SECONDS, left))

    def release(self) -> None:
        """Let the next one have it. Releasing twice does no harm."""
        if self._stopped.is_set():
            return
        self._stopped.set()
        self._renewing.join()
        try:
            self._write({**self._owner, "until": None})
        except ObjectChangedError:
            _LOGGER.warning("%s: somebody else took the lease over while it was held", self._file)
        except RagPipelineError as error:
            _LOGGER.warning("the lease could not be given back, and ends by itself: %s", error)

    def _try(self) -> Mapping[str, Any] | None:
        """Take the lease if it is free; else who holds it."""
        try:
            data, self._version = self._file.read_version()
            # The lock of a store on a disk is an empty file, which comes along when the store is copied into a bucket.
            found = json.loads(data) if data else None
            if found is not None and not _is_free(found):
                return dict(found)
        except FileNotFoundError:
            self._version = None
        except (ValueError, KeyError, TypeError):
            raise StoreError(f"{self._file}: damaged; delete it when no refresh is at work") from None
        try:
            self._write({**self._owner, "until": self._until()})
        except ObjectChangedError:
            return {}
        return None

    def _renew(self) -> None:
        while not self._stopped.wait(_RENEWAL_SECONDS):
            try:
                self._write({**self._owner, "until": self._until()})
            except ObjectChangedError:
                _LOGGER.warning("%s: somebody else took the lease over; of two refreshes one will fail", self._file)
                return
            except RagPipelineError as error:
                _LOGGER.warning("the lease cannot be renewed just now: %s", error)

    def _write(self, content: Mapping[str, Any]) -> None:
        data = json.dumps(content).encode()
        try:
            self._put(data)
        except ObjectChangedError:
            # A write whose answer was lost, or that could not be looked at afterwards, is ours all the same.
            version = self._own_version()
            if self._version is None or version is None:
                raise
            self._version = version
            self._put(data)
        written, self._version = self._file.read_version()
        if written != data:
            raise ObjectChangedError(str(self._file))

    def _own_version(self) -> ObjectVersion | None:
        """The version that is there, if this holder wrote it."""
        try:
            data, version = self._file.read_version()
            return version if json.loads(data)["id"] == self._owner["id"] else None
        except (FileNotFoundError, ValueError, KeyError, TypeError):
            return None

    def _put(self, data: bytes) -> None:
        if self._version is None:
            self._file.create(data)
        else:
            self._file.replace(data, self._version)

    def _until(self) -> str:
        return (datetime.now(timezone.utc) + timedelta(seconds=_LEASE_SECONDS)).isoformat()


def _is_free(found: Mapping[str, Any]) -> bool:
    if found["until"] is None:
        return True
    late = datetime.now(timezone.utc) - datetime.fromisoformat(found["until"])
    return late.total_seconds() > _CLOCK_SECONDS or _died_here(found.get("process"))


def _died_here(process: Any) -> bool:
    """Whether a process was one of this machine, and is not there any more."""
    here = _process(os.getpid())
    if here is None or not isinstance(process, dict) or process.get("machine") != here["machine"]:
        return False
    return _process(process["pid"]) != process


def _process(pid: int) -> dict[str, Any] | None:
    """What tells a process from all others: machine, container and start; None where the system does not say.

    Linux's proc(5): boot_id is made anew with each boot, the 22nd field of stat is the time at which a process started.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        machine = f"{boot} {os.readlink('/proc/self/ns/pid')}"
        started = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[19]
    except (OSError, IndexError):
        return None
    return {"machine": machine, "pid": pid, "started": started}
