"""With `language: auto` a refresh finds the language, records it, keeps it while it is plausible and announces another."""

from __future__ import annotations

import json
from collections.abc import Mapping

import pytest

from rag_pipeline.errors import GateError
from rag_pipeline.index.language import SAMPLED_TEXTS
from rag_pipeline.index.store import CHUNKS
from rag_pipeline.lance import read
from rag_pipeline.refresh.bm25_index import sampled_texts
from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.refresh.test_refresh import LENIENT, ROWS, sources

GERMAN = (
    "Die Häuser am Hafen sind alt, und die Boote liegen nicht weit davon.",
    "Der Bäcker hat ein Brot in den Ofen gelegt, das für den Abend ist.",
    "Es wird im Winter früh dunkel, so dass die Lampen auch am Tag an sind.",
    "Das Schiff ist mit dem Wind und von der Insel gekommen.",
    "Wir haben die Straße zu dem Turm nicht mehr gesehen.",
    "Auf dem Berg ist es als im Tal kälter, und der Schnee bleibt.",
)
ENGLISH = (
    "The houses at the harbour are old, and the boats are not far from it.",
    "The baker has put a loaf in the oven that is for the evening.",
    "It is dark early in the winter, and the lamps are on as well by day.",
    "The ship has come with the wind and from the island.",
    "This was the road to the tower that you have not seen.",
    "On the hill it is colder, and the snow will not melt in it.",
)
AUTO = LENIENT


def files(german: int, english: int) -> Mapping[str, str]:
    texts = {f"de{number}.txt": GERMAN[number] for number in range(german)}
    return texts | {f"en{number}.txt": ENGLISH[number] for number in range(english)}


def language(workspace: Workspace) -> object:
    return workspace.index().manifest.content.lexical["language"]


def change(workspace: Workspace, german: int, english: int) -> None:
    wanted = files(german, english)
    for file in (workspace.corpora / "docs" / "files").iterdir():
        if file.name not in wanted:
            file.unlink()
    for path, text in wanted.items():
        workspace.write(path, text)


def test_the_language_is_found_and_queries_use_the_analyzer_that_indexed(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=6, english=0))
    report = workspace.refresh()["bm25_index"]
    assert (report.language, report.language_before, report.rebuilt) == ("german", None, True)
    assert language(workspace) == "german"
    assert sources(workspace, "Haus") == ["de0.txt"]
    assert sources(workspace, "welches Brot ist das?") == ["de1.txt"]


def test_the_same_texts_give_the_same_language_and_hash_in_any_store(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=3, english=3))
    workspace.corpus(name="other", yaml=AUTO)
    for path, text in reversed(files(german=3, english=3).items()):
        workspace.write(path, text, name="other")
    assert workspace.refresh()["snapshot"].hash == workspace.refresh("other")["snapshot"].hash


def test_small_changes_do_not_turn_the_language_over(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=4, english=2))
    workspace.refresh()
    for german, english in ((4, 5), (4, 6), (3, 5), (4, 4)):
        change(workspace, german, english)
        assert plan_refresh(workspace.context()).reasons == ()
        report = workspace.refresh()["bm25_index"]
        assert (report.language, report.language_before, report.rebuilt) == ("german", None, False)


def test_a_corpus_of_two_documents_keeps_its_language_when_one_comes_and_goes(workspace: Workspace) -> None:
    prices = {"prices.txt": "Grüße: Café Müller, Straßenbahnlinie fünf"}
    workspace.corpus(yaml=AUTO, files={**files(german=1, english=0), **prices})
    assert workspace.refresh()["bm25_index"].language == "german"
    (workspace.corpora / "docs" / "files" / "de0.txt").unlink()
    assert not any("language" in reason for reason in plan_refresh(workspace.context()).reasons)
    report = workspace.refresh(accept_drop=True)["bm25_index"]
    assert (report.language, report.rebuilt) == ("german", False)
    workspace.write("de0.txt", GERMAN[0])
    assert not workspace.refresh(accept_drop=True)["bm25_index"].rebuilt


def test_another_language_rebuilds_the_index_and_is_announced(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=4, english=0))
    workspace.refresh()
    change(workspace, german=1, english=6)
    reasons = plan_refresh(workspace.context()).reasons
    assert "the lexical language is now english, before german: the lexical index is built anew" in reasons
    reports = workspace.refresh()
    report = reports["bm25_index"]
    assert (report.language, report.language_before, report.rebuilt) == ("english", "german", True)
    assert (report.added, report.deleted, report.chunks) == (7, 0, 7)
    assert reports["snapshot"].published
    assert sources(workspace, "house") == ["en0.txt"]
    assert plan_refresh(workspace.context()).reasons == ()
    again = workspace.refresh()
    assert (again["bm25_index"].rebuilt, again["snapshot"].published) == (False, False)


def test_what_a_refused_refresh_has_changed_is_announced_by_the_one_that_publishes_it(workspace: Workspace) -> None:
    strict = AUTO + "evaluation: {queries: queries.jsonl, qrels: qrels.tsv, gates: {ndcg@10: 1.0}, mode: bm25}\n"
    workspace.corpus(yaml=AUTO, files=files(german=4, english=0))
    workspace.refresh()
    folder = workspace.corpus(yaml=strict.replace("provider: hash", "provider: static"))
    (folder / "queries.jsonl").write_text('{"_id": "1", "text": "nothing of the kind"}\n')
    (folder / "qrels.tsv").write_text("1\ten0.txt\t1\n")
    change(workspace, german=1, english=6)
    with pytest.raises(GateError):
        workspace.refresh()
    (reason,) = [line for line in plan_refresh(workspace.context()).reasons if "language" in line]
    assert reason == "the lexical language is now english, before german: the lexical index was built anew"
    reports = workspace.refresh(accept_drop=True)
    assert reports["snapshot"].published
    assert not reports["bm25_index"].rebuilt
    assert reports["bm25_index"].language_before == "german"
    assert reports["embeddings"].identity_before.startswith("hash/")
    again = workspace.refresh()
    assert (again["bm25_index"].language_before, again["embeddings"].identity_before) == (None, None)


def test_a_full_refresh_decides_anew(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=4, english=2))
    workspace.refresh()
    change(workspace, german=3, english=5)
    assert workspace.refresh()["bm25_index"].language == "german"
    assert any("is now english, before german" in line for line in plan_refresh(workspace.context(full=True)).reasons)
    report = workspace.refresh(full=True)["bm25_index"]
    assert (report.language, report.language_before) == ("english", "german")
    assert language(workspace) == "english"


def test_a_language_that_is_configured_is_used_whatever_the_text(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO + "lexical: {language: english}\n", files=files(german=6, english=0))
    workspace.refresh()
    assert language(workspace) == "english"


def test_auto_does_not_keep_to_a_language_that_was_named(workspace: Workspace) -> None:
    folder = workspace.corpus(yaml=AUTO, files=files(german=0, english=6))
    workspace.refresh()
    (folder / "corpus.yaml").write_text(AUTO + "lexical: {language: german}\n")
    workspace.refresh(accept_drop=True)
    assert language(workspace) == "german"
    (folder / "corpus.yaml").write_text(AUTO)
    assert any("now english, before german" in reason for reason in plan_refresh(workspace.context(dry_run=True)).reasons)
    workspace.refresh(accept_drop=True)
    assert language(workspace) == "english"


def test_auto_in_place_of_the_language_that_it_finds_changes_nothing(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO + "lexical: {language: german}\n", files=files(german=6, english=0))
    first = workspace.refresh()
    workspace.corpus(yaml=AUTO)
    assert plan_refresh(workspace.context()).reasons == ()
    second = workspace.refresh()
    assert not second["bm25_index"].rebuilt
    assert not second["snapshot"].published
    assert second["snapshot"].hash == first["snapshot"].hash


def test_the_plan_looks_at_the_texts_that_will_be_there(workspace: Workspace) -> None:
    workspace.corpus(yaml=AUTO, files=files(german=1, english=4))
    workspace.refresh()
    change(workspace, german=6, english=1)
    plan = plan_refresh(workspace.context())
    report = workspace.refresh()["bm25_index"]
    assert report.language == "german"
    assert any(f"is now {report.language}, before {report.language_before}" in line for line in plan.reasons)


def test_the_sample_is_those_distinct_texts_whose_hashes_are_the_least(workspace: Workspace) -> None:
    records = [{"_id": f"r{number}", "title": "", "text": f"Record {number % 700}."} for number in range(1000)]
    workspace.corpus(yaml=ROWS, files={"rows.jsonl": "".join(json.dumps(record) + "\n" for record in records)})
    workspace.refresh()
    chunks = workspace.context().store.table(CHUNKS)
    assert chunks is not None
    rows = read(chunks, ["document_id", "content_hash", "text"]).to_pylist()
    texts = {row["content_hash"]: row["text"] for row in rows}
    assert sampled_texts(chunks).items() == sorted(texts.items())[:SAMPLED_TEXTS]
    left_out = frozenset(row["document_id"] for row in rows if row["content_hash"] == min(texts))
    assert sampled_texts(chunks, left_out).items() == sorted(texts.items())[1 : SAMPLED_TEXTS + 1]
