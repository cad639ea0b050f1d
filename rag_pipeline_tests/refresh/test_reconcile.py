"""What is compared between stages, and when it may be remembered."""

from __future__ import annotations

import gc
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rag_pipeline.index.store import CHUNKS
from rag_pipeline.lance import append, connect, create, delete_keys
from rag_pipeline.refresh import RefreshContext
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reconcile import difference, keys_by_document
from rag_pipeline_tests.conftest import Workspace

SCHEMA = pa.schema([("document_id", pa.string()), ("key", pa.string())])
HASHED = "source: {path: files}\nembedding: {provider: hash}\n"

documents = st.sampled_from(["a", "b", "c", "d"])
keys = st.sampled_from(["1" * 64, "2" * 64, "3" * 64])


def rows(pairs: list[tuple[str, str]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([{"document_id": name, "key": key} for name, key in pairs], schema=SCHEMA)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("reconcile")


@settings(max_examples=40)
@given(pairs=st.lists(st.tuples(documents, keys), max_size=12), wanted=st.dictionaries(documents, keys))
def test_a_document_is_right_only_when_all_its_rows_carry_the_wanted_key(
    folder: Path, pairs: list[tuple[str, str]], wanted: dict[str, str]
) -> None:
    table = create(connect(folder), "pairs", SCHEMA, [rows(pairs[:5])])
    append(table, SCHEMA, [rows(pairs[5:])])
    present = {name: {key for other, key in pairs if other == name} for name, _ in pairs}
    found = difference(wanted, keys_by_document(table, "key"))
    assert sorted(found.missing) == sorted(name for name, key in wanted.items() if present.get(name) != {key})
    assert sorted(found.outdated) == sorted(name for name, held in present.items() if held != {wanted.get(name)})


def test_what_was_found_in_a_table_is_found_again_after_every_commit(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED, files={"a.md": "# Apples\n\nRed apples.\n", "b.md": "# Bread\n\nFlour.\n"})
    workspace.refresh()
    context = workspace.context()
    asked: list[int] = []

    def rows_now(of: RefreshContext = context) -> int:
        def find() -> int:
            asked.append(1)
            return int(of.store.table(CHUNKS).count_rows())  # type: ignore[union-attr]

        return context.found_in("rows", (of.store.table(CHUNKS),), find)

    assert (rows_now(), rows_now(), len(asked)) == (2, 2, 1)
    # Another process has connections and handles of its own.
    delete_keys(workspace.context().store.table(CHUNKS), "document_id", ["a.md"])
    assert (rows_now(), rows_now(), len(asked)) == (1, 1, 2)


def test_a_stage_passes_over_older_objects_and_leaves_the_collector_as_it_was(workspace: Workspace) -> None:
    workspace.corpus(yaml=HASHED)
    frozen: list[int] = []

    @collects_own_garbage
    def stage(context: RefreshContext) -> None:
        frozen.append(gc.get_freeze_count())
        if len(frozen) == 2:
            raise ValueError("stop")

    stage(workspace.context())
    assert gc.get_freeze_count() == 0
    with pytest.raises(ValueError, match="stop"):
        stage(workspace.context())
    assert gc.get_freeze_count() == 0
    gc.freeze()
    try:
        stage(workspace.context())
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()
    assert min(frozen) > 0
