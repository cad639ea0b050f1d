"""`search --neighbours`, and hits of a corpus with parents, as people and machines see them."""

from __future__ import annotations

import json

import pytest

from rag_pipeline.cli import main
from rag_pipeline_tests.conftest import Workspace

SENTENCES = [f"Chapter sentence {number} speaks of marble {number} at length." for number in range(40)]
PAGE = "\n\n".join(SENTENCES) + "\n"
YAML = "source: {path: files}\nchunking: "


@pytest.fixture(scope="module")
def workspace(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    made = Workspace(tmp_path_factory.mktemp("cli"))
    for name, chunking in (("plain", "{size: 32, overlap: 0}"), ("parents", "{strategy: parent-child, size: 32}")):
        made.corpus(name, yaml=f"{YAML}{chunking}\n")
        made.write("page.txt", PAGE, name)
        made.refresh(name)
    return made


@pytest.fixture(autouse=True)
def roots(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("RAG_PIPELINE_CORPORA", "RAG_PIPELINE_DATA"):
        monkeypatch.setenv(name, workspace.environment[name])


def test_neighbours_are_shown_before_and_after_the_hit(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "plain", "marble 17", "-k", "1", "--mode", "bm25", "--neighbours", "1"]) == 0
    lines = capfd.readouterr().out.splitlines()
    before = next(number for number, line in enumerate(lines) if line.startswith("  <  "))
    after = next(number for number, line in enumerate(lines) if line.startswith("  >  "))
    shown = next(number for number, line in enumerate(lines) if "marble 17 " in line)
    assert before < shown < after


def test_neighbours_are_in_the_json_when_they_were_asked_for(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "plain", "marble 17", "-k", "1", "--neighbours", "1", "--json"]) == 0
    (hit,) = json.loads(capfd.readouterr().out)["hits"]
    (before,), (after,) = hit["before"], hit["after"]
    assert PAGE[before["start"] : before["end"]] == before["text"]
    assert PAGE[after["start"] : after["end"]] == after["text"]
    assert "matched" not in hit
    assert main(["search", "plain", "marble 17", "-k", "1", "--json"]) == 0
    (hit,) = json.loads(capfd.readouterr().out)["hits"]
    assert not {"before", "after", "matched"} & hit.keys()


def test_a_parent_comes_with_the_chunk_that_was_found_which_is_what_people_see(capfd: pytest.CaptureFixture[str]) -> None:
    command = ["parents", "marble 17", "-k", "1", "--mode", "bm25"]
    assert main(["search", *command, "--json"]) == 0
    (hit,) = json.loads(capfd.readouterr().out)["hits"]
    assert hit["matched"]["text"] in hit["text"]
    assert hit["matched"]["chunk_id"] == hit["chunk_id"]
    assert main(["search", *command]) == 0
    shown = " ".join(capfd.readouterr().out.split())
    assert "marble 17 " in shown
    assert main(["explain", *command, "--json"]) == 0
    assert json.loads(capfd.readouterr().out)["hits"][0]["matched"] == hit["matched"]


def test_a_negative_number_is_refused(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["search", "plain", "marble", "--neighbours", "-1"]) != 0
    assert "neighbours: expected a whole number of at least 0" in capfd.readouterr().err
