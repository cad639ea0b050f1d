"""Refresh one corpus in a process that dies: `refresh_and_die.py CORPUS_FOLDER DATA_ROOT LOG [N]`.

Writes the name of every write point it reaches to LOG, and kills itself with SIGKILL at the N-th. Without N it finishes.
"""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path

from rag_pipeline import write_points
from rag_pipeline.config import data_root
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.index.lock import RefreshLock
from rag_pipeline.refresh import STAGES, RefreshContext


def main() -> None:
    folder, data, log, *rest = sys.argv[1:]
    last = int(rest[0]) if rest else None
    reached = 0
    with open(log, "w", buffering=1, encoding="utf-8") as names:

        def hook(point: str) -> None:
            nonlocal reached
            reached += 1
            names.write(f"{point}\n")
            if reached == last:
                os.kill(os.getpid(), signal.SIGKILL)

        write_points.hook = hook
        context = RefreshContext(load_corpus(Path(folder)), data_root(data))
        lock = RefreshLock.acquire(context.store, run_id=None)
        for run in STAGES.values():
            run(context)
        lock.release()


if __name__ == "__main__":
    main()
