"""Refresh in children of a process that has LiteLLM imported, which takes seconds.

Reads lines `CORPUS_FOLDER<tab>DATA_ROOT`; for each it starts a child that refreshes, prints the child's number, and when
the child has ended its exit code (minus the signal that killed it).
"""

from __future__ import annotations

import os
import sys
import traceback
from pathlib import Path

os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm


def refresh(folder: str, data: str) -> None:
    # LanceDB must not be imported before the fork: its threads would be missing in the child.
    from rag_pipeline.corpus_files import load_corpus
    from rag_pipeline.index.lock import RefreshLock
    from rag_pipeline.refresh import STAGES, RefreshContext

    context = RefreshContext(load_corpus(Path(folder)), Path(data))
    lock = RefreshLock.acquire(context.store, run_id=None)
    for run in STAGES.values():
        run(context)
    lock.release()


def main() -> None:
    assert litellm.aembedding is not None
    for line in sys.stdin:
        folder, data = line.rstrip("\n").split("\t")
        child = os.fork()
        if child == 0:
            try:
                refresh(folder, data)
            except BaseException:  # noqa: BLE001 - a child must not go on with its parent's loop
                traceback.print_exc()
                os._exit(1)
            os._exit(0)
        sys.stdout.write(f"{child}\n")
        sys.stdout.flush()
        _, status = os.waitpid(child, 0)
        sys.stdout.write(f"{os.waitstatus_to_exitcode(status)}\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
