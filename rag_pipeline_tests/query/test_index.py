"""The query module as other jobs use it."""

from __future__ import annotations

import asyncio
import json
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rag_pipeline.errors import IdentityMismatchError, QueryError, SnapshotNotFoundError, StoreError
from rag_pipeline.index.snapshot import manifest_file
from rag_pipeline.query import Index
from rag_pipeline_tests.conftest import Workspace

COPY = "The very same paragraph stands in several files, word for word.\n"
PAGES = {
    "ops/rollback.md": "---\nteam: core\nyear: 2024\n---\n# Rollback\n\nMove the pointer back to an older snapshot.\n",
    "ops/schedule.md": "---\nteam: core\nyear: 2025\n---\n# Schedules\n\nA cron line says when a refresh starts.\n",
    "query/filter.md": "---\nyear: 2025\n---\n# Filters\n\nA condition such as path = 'a' keeps only some hits.\n",
    "zh.txt": "向量数据库支持混合检索。\n",
    "th.txt": "การค้นหาแบบไฮบริด\n",
    "copies/one.txt": COPY,
    "copies/two.txt": COPY,
    "other/three.txt": COPY,
    **{f"filler/{n}.txt": f"Filler page number {n} about topic {n % 7}.\n" for n in range(60)},
}
YAML = "source: {path: files}\nmetadata: {team: string, year: int}\n"


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("query"))
    made.corpus(yaml=YAML, files=PAGES)
    made.refresh()
    return made


@pytest.fixture(scope="module")
def index(workspace: Workspace) -> Index:
    return workspace.index()


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_every_mode_finds_the_page_that_says_it(index: Index, mode: str) -> None:
    hits = index.search("move back to an older snapshot", mode=mode)  # type: ignore[arg-type]
    assert hits[0].source == "ops/rollback.md"
    assert hits[0].title == hits[0].heading_path == "Rollback"
    assert hits[0].metadata == {"team": "core", "year": 2024}
    assert [hit.rank for hit in hits] == list(range(1, len(hits) + 1))
    assert [hit.score for hit in hits] == sorted((hit.score for hit in hits), reverse=True)


def test_a_hit_is_an_exact_span_of_its_document(index: Index) -> None:
    hit = index.search("older snapshot")[0]
    body = PAGES["ops/rollback.md"].split("---\n", 2)[2]
    assert body[hit.start : hit.end] == hit.text


def test_identical_text_is_shown_once_with_all_its_sources(index: Index) -> None:
    hits = index.search("the very same paragraph in several files", k=50)
    same = [hit for hit in hits if hit.text == COPY.strip()]
    assert len(same) == 1
    assert set(same[0].sources) == {"copies/one.txt", "copies/two.txt", "other/three.txt"}
    assert same[0].sources[0] == same[0].source


def test_collapsed_sources_obey_the_filter(index: Index) -> None:
    (hit,) = index.search("the very same paragraph", mode="bm25", where="path LIKE 'copies/%'", k=1)
    assert set(hit.sources) == {"copies/one.txt", "copies/two.txt"}


@pytest.mark.parametrize("mode", ["hybrid", "vector"])
def test_more_hits_than_exist_gives_all_texts(index: Index, mode: str) -> None:
    assert len(index.search("page", k=1000, mode=mode)) == len(PAGES) - 2  # type: ignore[arg-type]


def test_a_chunk_that_holds_no_query_term_is_no_lexical_hit(index: Index) -> None:
    assert index.search("xylophone", mode="bm25") == []
    assert all("filler" in hit.text.lower() for hit in index.search("filler", mode="bm25", k=100))


@pytest.mark.parametrize("query", ["", "   ", "\n\t", "!?…", "​", "\x00"])
@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_a_query_without_words_breaks_nothing(index: Index, query: str, mode: str) -> None:
    assert isinstance(index.search(query, mode=mode), list)  # type: ignore[arg-type]
    assert mode != "bm25" or index.search(query, mode="bm25") == []


def test_an_empty_query_finds_nothing(index: Index) -> None:
    assert index.search("") == index.search("  ") == []


@pytest.mark.parametrize(
    "query",
    ["the of and", "混合检索", "ไฮบริด", "path = 'a'", 'a "quoted" AND (term OR', "snapshot " * 10_000, "🙂", "\ud800 lone"],
)
def test_odd_queries_are_words_and_not_syntax(index: Index, query: str) -> None:
    hits = index.search(query, k=5)
    assert len(hits) <= 5
    assert all(hit.text for hit in hits)


def test_scripts_without_spaces_are_found(index: Index) -> None:
    assert index.search("混合检索", mode="bm25")[0].source == "zh.txt"
    assert index.search("ไฮบริด", mode="bm25")[0].source == "th.txt"


@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(query=st.text(max_size=200), k=st.integers(1, 30))
def test_any_text_is_a_query(index: Index, query: str, k: int) -> None:
    for mode in ("hybrid", "vector", "bm25"):
        hits = index.search(query, k=k, mode=mode)  # type: ignore[arg-type]
        assert len(hits) <= k
        assert len({hit.text for hit in hits}) == len(hits)


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
@pytest.mark.parametrize(
    ("where", "expected"),
    [
        ("team = 'core'", {"ops/rollback.md", "ops/schedule.md"}),
        ("year >= 2025", {"ops/schedule.md", "query/filter.md"}),
        ("team IS NULL AND year IS NOT NULL", {"query/filter.md"}),
        ("path LIKE 'ops/%' AND NOT year = 2024", {"ops/schedule.md"}),
        ("title = 'it''s not there'", set()),
        ("media_type = 'text/markdown' AND heading_path LIKE 'Roll%'", {"ops/rollback.md"}),
        ("modified_at > timestamp '2001-01-01 00:00:00' AND source = 'query/filter.md'", {"query/filter.md"}),
    ],
)
def test_a_filter_holds_in_every_arm(index: Index, mode: str, where: str, expected: set[str]) -> None:
    query = "snapshot refresh cron pointer condition hits"
    assert {hit.source for hit in index.search(query, k=50, mode=mode, where=where)} == expected  # type: ignore[arg-type]


def test_a_filter_comes_before_the_candidates_are_cut(index: Index) -> None:
    hits = index.search("filler page number topic", k=3, where="path = 'ops/rollback.md'")
    assert [hit.source for hit in hits] == ["ops/rollback.md"]


@pytest.mark.parametrize(
    ("where", "words"),
    [
        ("nosuch = 1", ["no column nosuch", "heading_path", "year"]),
        ("path = 'a", ["Unterminated"]),
        ("", ["expected a SQL condition"]),
        ("year = 1; DROP TABLE vectors", ["semicolon"]),
        ("modified_at > '2026-01-01'", ["timestamp '2026-01-31 00:00:00'"]),
        ("path = 3", ["3 is compared with a column of texts, which stand in single quotes"]),
        ("page > 'two'", ['"two" is compared with a column of whole numbers, which stand without quotes']),
        ("page LIKE '3%'", ["LIKE is for columns of text"]),
    ],
)
def test_a_condition_that_cannot_be_understood_is_told(index: Index, where: str, words: list[str]) -> None:
    with pytest.raises(QueryError) as caught:
        index.search("x", where=where)
    assert all(word in str(caught.value) for word in words), str(caught.value)
    assert "/" not in str(caught.value).replace("ops/%", "")


@pytest.mark.parametrize(
    ("arguments", "word"), [({"k": 0}, "k"), ({"k": True}, "k"), ({"mode": "magic"}, "mode"), ({"text": None}, "text")]
)
def test_a_wrong_argument_is_told_by_name(index: Index, arguments: dict[str, object], word: str) -> None:
    with pytest.raises(QueryError, match=f"^{word}: expected"):
        index.search(**{"text": "x", **arguments})  # type: ignore[arg-type]


def test_explain_adds_up(index: Index) -> None:
    explanations = index.explain("cron refresh snapshot", k=5)
    assert [one.hit for one in explanations] == index.search("cron refresh snapshot", k=5)
    for one in explanations:
        assert one.hit.score == pytest.approx(one.vector.contribution + one.bm25.contribution)
        assert (one.bm25.score is None) == (not one.terms)
        if one.bm25.rank is not None:
            assert 0 < one.bm25.contribution <= 0.7
            assert sum(term.contribution for term in one.terms) == pytest.approx(one.bm25.score)


def test_a_query_that_is_one_name_is_all_but_bm25s(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    names = [f"{verb}-{noun}" for verb in ("Get", "Set", "New") for noun in ("Item", "Alias", "Process", "Service", "Job")]
    workspace.corpus(files={f"{name}.md": f"# {name}\n\nThe command {name}, one of {len(names)}.\n" for name in names})
    workspace.refresh()
    index = workspace.index()
    of_name, of_words = (index.explain(text, k=1)[0] for text in ("New-Item", "new item"))
    assert of_name.hit.source == of_words.hit.source == "New-Item.md"
    assert of_name.bm25_weight is not None
    assert of_words.bm25_weight is not None
    assert of_name.bm25_weight > 0.95 > of_words.bm25_weight


def test_reciprocal_ranks_fuse_with_k_60(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(yaml="source: {path: files}\nretrieval: {fusion: rrf}\n", files=PAGES)
    workspace.refresh()
    for one in workspace.index().explain("cron refresh snapshot", k=5):
        for arm in (one.vector, one.bm25):
            assert arm.contribution == pytest.approx(1 / (60 + arm.rank) if arm.rank is not None else 0.0)
        assert one.hit.score == pytest.approx(one.vector.contribution + one.bm25.contribution)


def test_async_searches_do_not_block_the_event_loop(index: Index) -> None:
    async def ask() -> tuple[list[list[str]], int]:
        ticks = 0

        async def tick() -> None:
            nonlocal ticks
            while True:
                ticks += 1
                await asyncio.sleep(0.0005)

        ticking = asyncio.create_task(tick())
        found = await asyncio.gather(*(index.asearch("filler " * 3000) for _ in range(20)))
        ticking.cancel()
        return [[hit.chunk_id for hit in hits] for hits in found], ticks

    found, ticks = asyncio.run(ask())
    assert all(ids == found[0] for ids in found)
    assert ticks > 3


def test_threads_share_an_index(index: Index) -> None:
    expected = [hit.chunk_id for hit in index.search("filler topic 3", k=20)]
    results: list[list[str]] = []

    def ask() -> None:
        for _ in range(20):
            results.append([hit.chunk_id for hit in index.search("filler topic 3", k=20, where="year IS NULL")])

    threads = [threading.Thread(target=ask) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(results) == 160
    assert all(ids == expected for ids in results)


def test_a_store_beyond_the_memory_budget_gives_the_same_answers_from_disk(workspace: Workspace, index: Index) -> None:
    small = workspace.index(memory_budget=0)
    for query in ("older snapshot", "filler topic 3", "the very same paragraph"):
        for where in (None, "path LIKE 'filler/%'"):
            ours = small.search(query, where=where)
            theirs = index.search(query, where=where)
            assert [hit.model_dump() for hit in ours] == [hit.model_dump() for hit in theirs]


def test_an_index_keeps_its_snapshot_until_it_is_told_to_move(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "First state of things."})
    workspace.refresh()
    index, pinned = workspace.index(), workspace.index(snapshot=1)
    assert not index.refresh()
    workspace.write("b.txt", "Second state of things.")
    workspace.refresh()
    assert len(index.search("state of things")) == 1
    assert index.refresh()
    assert (index.snapshot, len(index.search("state of things"))) == (2, 2)
    assert not pinned.refresh()
    assert len(pinned.search("state of things")) == 1


def test_opening_what_is_not_there_says_what_there_is(workspace: Workspace) -> None:
    with pytest.raises(SnapshotNotFoundError, match="'nosuch' has no snapshot"):
        Index.open("nosuch", data=workspace.data)
    with pytest.raises(SnapshotNotFoundError, match=r"no snapshot 7 \(kept: 1\)"):
        workspace.index(snapshot=7)


def test_a_harness_can_insist_on_the_surface_it_knows(workspace: Workspace, index: Index) -> None:
    assert workspace.index(expect=index.manifest.hash).snapshot == 1
    with pytest.raises(StoreError, match="expected hash sha256:00"):
        workspace.index(expect="sha256:00")


def test_vectors_of_another_identity_are_refused_with_both_named(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "Some text."})
    workspace.refresh()
    file = manifest_file(workspace.context().store, 1)
    manifest = json.loads(file.read_text())
    manifest["content"]["embedder"]["revision"] = "of-another-time"
    file.write_text(json.dumps(manifest))
    with pytest.raises(IdentityMismatchError) as caught:
        workspace.index()
    assert "of-another-time" in str(caught.value)
    assert workspace.context().embedder.identity.revision[:12] in str(caught.value)


def test_a_damaged_segment_is_not_served(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "Some text."})
    workspace.refresh()
    for segment in (workspace.data / "docs" / "bm25").glob("*.arrow"):
        segment.chmod(0o644)
        segment.write_bytes(b"")
    with pytest.raises(StoreError, match="bm25"):
        workspace.index()


def test_importing_the_query_module_is_light() -> None:
    code = (
        "import sys, rag_pipeline.query; "
        "print([m for m in ('dagster', 'litellm', 'torch', 'lancedb', 'pyarrow', 'numpy') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "[]"


def test_searching_needs_none_of_the_pipelines_packages(workspace: Workspace) -> None:
    code = (
        "import sys; from rag_pipeline.query import Index; "
        f"hits = Index.open('docs', data={str(workspace.data)!r}).search('older snapshot'); assert hits; "
        "print([m for m in ('dagster', 'litellm', 'torch', 'obstore', 'yaml', 'docutils', 'rich') if m in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], text=True, capture_output=True, check=True)
    assert done.stdout.strip() == "[]"
