"""A corpus's own queries choose the weight of BM25: half of them choose, the other half tells what it is worth."""

from __future__ import annotations

import json
import random
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import numpy as np
import pytest

from rag_pipeline.evaluation.asking import AskedQuery, WeightedResults
from rag_pipeline.evaluation.tuning import FEWEST_QUERIES, tuned, weights_to_try
from rag_pipeline.index.snapshot import read_manifest
from rag_pipeline.refresh.fusion_record import read_fusion_record
from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace

YAML = "source: {path: files}\nembedding: {provider: hash}\nevaluation: {queries: q.jsonl, qrels: q.tsv}\n"


def answers(count: int, ranks: Any, start: int = 0) -> WeightedResults:
    """Queries with one answer each, at the ranks that a function gives for its number and the weight."""
    weights = weights_to_try(0.65)
    queries = [AskedQuery(f"q{number}", "text", {"answer": 1}, counted=True) for number in range(start, start + count)]
    return WeightedResults(weights, queries, [np.array([[ranks(n, w)] for w in weights.tolist()]) for n in range(count)])


def test_many_queries_move_the_weight_most_of_the_way_to_the_best() -> None:
    found = tuned(answers(2000, lambda _, weight: 1 if weight <= 0.2 else 2), 0.65, "hash")
    assert found is not None
    assert found.bm25_weight == 0.25
    assert found.tuned_on + found.reported_on == 2000
    assert 900 < found.tuned_on < 1100


def test_few_queries_move_it_a_little() -> None:
    found = tuned(answers(60, lambda _, weight: 5 if weight > 0.5 else 1 if weight <= 0.05 else 4), 0.65, "hash")
    assert found is not None
    assert found.bm25_weight in (0.45, 0.5)
    assert found.tuned_figure > found.default_figure


def test_too_few_queries_choose_nothing() -> None:
    assert tuned(answers(2 * FEWEST_QUERIES - 1, lambda _, weight: 1), 0.65, "hash") is None


def test_queries_that_do_not_care_leave_the_default() -> None:
    found = tuned(answers(200, lambda _, weight: 3), 0.65, "hash")
    assert found is not None
    assert found.bm25_weight == found.default_weight == 0.65
    assert found.tuned_figure == found.default_figure == pytest.approx(0.5)


def test_a_choice_that_the_other_half_is_worse_for_is_not_made() -> None:
    alike = answers(400, lambda _, weight: 1)
    assert tuned(alike, 0.65, "hash") is not None
    choosing = {asked.name for asked in alike.queries if _chooses(asked.name)}

    def ranks(number: int, weight: float) -> int:
        low = weight < 0.62
        return 1 if low == (f"q{number}" in choosing) else 2

    found = tuned(answers(400, ranks), 0.65, "hash")
    assert found is not None
    assert (found.bm25_weight, found.tuned_figure) == (0.65, found.default_figure)


def _chooses(name: str) -> bool:
    """Found out from what one query does to the figures: only those that choose move the weight."""
    queries = answers(400, lambda number, weight: 1 if f"q{number}" != name or weight <= 0.05 else 2)
    found = tuned(queries, 0.65, "hash")
    assert found is not None
    return found.bm25_weight < 0.65


def with_queries(workspace: Workspace, count: int = 60, wording: str = "lamp {n} stands") -> Path:
    files = {f"p{n:02}.md": f"# Lamp {n}\n\nThe lamp {n} stands beside house {n + 1}.\n" for n in range(count)}
    folder = workspace.corpus(yaml=YAML, files=files)
    write_queries(folder, count, wording)
    return folder


def write_queries(folder: Path, count: int, wording: str) -> None:
    queries = [{"_id": f"q{n}", "text": wording.format(n=n)} for n in range(count)]
    (folder / "q.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    (folder / "q.tsv").write_text("".join(f"q{n}\tp{n:02}.md\t1\n" for n in range(count)))


def test_the_manifest_records_the_choice_and_searches_use_it(workspace: Workspace) -> None:
    with_queries(workspace)
    report = workspace.refresh()["evaluation"]
    index = workspace.index()
    fusion = index.manifest.fusion
    assert fusion is not None
    assert report.fusion == fusion
    assert fusion.tuned_on + fusion.reported_on == 60
    assert fusion.default_weight == 0.85
    assert (index.fusion.tuned, index.fusion.bm25_weight) == (True, fusion.bm25_weight)
    assert index.explain("lamp 7")[0].fusion == index.fusion


def test_what_is_gated_is_what_searches_find(workspace: Workspace) -> None:
    from rag_pipeline.evaluation import evaluate, load_query_set

    with_queries(workspace, wording="house {n}")
    report = workspace.refresh()["evaluation"]
    searched = evaluate(workspace.index(), load_query_set(workspace.config())).modes
    for mode, figures in searched.items():
        measured = figures.model_dump(by_alias=True, exclude={"queries"})
        assert report.figures[mode] == pytest.approx(measured, abs=1e-6)


def test_the_same_corpus_gives_the_same_hash_and_weight_elsewhere(tmp_path: Path) -> None:
    manifests = []
    for name in ("here", "there"):
        workspace = Workspace(tmp_path / name)
        with_queries(workspace)
        workspace.refresh()
        manifests.append(workspace.index().manifest)
    assert manifests[0].hash == manifests[1].hash
    assert manifests[0].fusion == manifests[1].fusion


def test_with_nothing_changed_nothing_is_asked_or_published(workspace: Workspace) -> None:
    with_queries(workspace)
    workspace.refresh()
    reports = workspace.refresh()
    assert reports["evaluation"].searches == 0
    assert reports["evaluation"].fusion == workspace.index().manifest.fusion
    assert not reports["snapshot"].published


def with_misleading_words(workspace: Workspace) -> Path:
    """A query misspells the name of its page, which vectors see through, and has a word of another page."""
    chance = random.Random(3)
    names = ["".join(chance.choices(ascii_lowercase, k=12)) for _ in range(60)]
    files = {f"p{n:02}.md": f"# {name}\n\n{name} and {name}.\n" for n, name in enumerate(names)}
    folder = workspace.corpus(yaml=YAML, files={**files, "other.md": "# Quokka\n\nA quokka.\n"})
    queries = [{"_id": f"q{n}", "text": f"{name[:-1]}# {name[:-1]}q quokka"} for n, name in enumerate(names)]
    (folder / "all.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    write_queries(folder, 60, "")
    return folder


def ask_first(folder: Path, count: int) -> None:
    (folder / "q.jsonl").write_text("".join((folder / "all.jsonl").read_text().splitlines(keepends=True)[:count]))


def test_an_edited_query_set_that_chooses_another_weight_publishes_the_same_content_again(workspace: Workspace) -> None:
    folder = with_misleading_words(workspace)
    ask_first(folder, 30)
    workspace.refresh()
    before = workspace.index()
    assert (before.manifest.fusion, before.fusion.bm25_weight) == (None, 0.85)
    ask_first(folder, 60)
    announced = "the query set has changed: it is asked anew, and may choose another weight of BM25 in hybrid searches"
    assert plan_refresh(workspace.context()).reasons == (announced,)
    reports = workspace.refresh()
    assert plan_refresh(workspace.context()).reasons == ()
    after = workspace.index()
    assert reports["snapshot"].published
    assert reports["snapshot"].reasons == (
        f"BM25 has another weight in hybrid searches: 0.85 -> {after.fusion.bm25_weight:g}",
    )
    assert (after.snapshot, after.manifest.hash) == (2, before.manifest.hash)
    assert after.fusion.tuned
    assert after.fusion.bm25_weight is not None
    assert after.fusion.bm25_weight < 0.85
    reports = workspace.refresh()
    assert (reports["evaluation"].searches, reports["snapshot"].published) == (0, False)


def test_an_edited_query_set_that_chooses_the_same_weight_publishes_nothing(workspace: Workspace) -> None:
    folder = with_queries(workspace)
    workspace.refresh()
    before = workspace.index().manifest.fusion
    write_queries(folder, 58, "lamp {n} stands")
    reports = workspace.refresh()
    assert before is not None
    assert reports["evaluation"].searches == 3 * 58
    assert reports["evaluation"].fusion.bm25_weight == before.bm25_weight
    assert not reports["snapshot"].published
    assert plan_refresh(workspace.context()).reasons == ()


def test_a_lost_record_is_found_in_the_manifest(workspace: Workspace) -> None:
    with_queries(workspace)
    workspace.refresh()
    store = workspace.context().store
    assert read_fusion_record(store) is not None
    (store.root / "fusion.json").unlink()
    reports = workspace.refresh()
    assert (reports["evaluation"].searches, reports["snapshot"].published) == (0, False)


@pytest.mark.parametrize("fusion", ["{fusion: convex}", "{fusion: rrf}"])
def test_a_fusion_of_ones_own_is_not_tuned(workspace: Workspace, fusion: str) -> None:
    with_queries(workspace)
    (workspace.corpora / "docs" / "corpus.yaml").write_text(YAML + f"retrieval: {fusion}\n")
    workspace.refresh()
    assert read_manifest(workspace.context().store).fusion is None


def test_without_the_query_set_the_default_holds_again(workspace: Workspace) -> None:
    folder = with_queries(workspace, wording="house {n}")
    workspace.refresh()
    chosen = workspace.index().fusion.bm25_weight
    (folder / "corpus.yaml").write_text(YAML.replace("evaluation: {queries: q.jsonl, qrels: q.tsv}\n", ""))
    workspace.refresh()
    index = workspace.index()
    assert index.fusion.bm25_weight == 0.85
    assert (index.snapshot == 1) == (chosen == 0.85)
