"""The command as people and machines use it: real processes, real exit codes, JSON that is JSON."""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from rag_pipeline_tests.conftest import Workspace

PAGES = {
    "ops/rollback.md": "# Rollback\n\nMove the pointer back to an older snapshot.\n",
    "ops/schedule.md": "# Schedules\n\nA cron line in corpus.yaml says when.\n",
    "flags.md": "# Flags\n\nUse --where to filter hits.\n",
}


def run(workspace: Workspace, *arguments: str, check: int | None = 0) -> subprocess.CompletedProcess[str]:
    command = [str(Path(sys.executable).with_name("rag-pipeline")), *arguments]
    done = subprocess.run(
        command, env=workspace.environment, cwd=workspace.root, text=True, capture_output=True, check=False
    )
    assert check is None or done.returncode == check, done.stderr
    return done


def run_json(workspace: Workspace, *arguments: str) -> Any:
    return json.loads(run(workspace, *arguments, "--json").stdout)


@pytest.fixture(scope="module")
def refreshed(tmp_path_factory: pytest.TempPathFactory) -> Workspace:
    workspace = Workspace(tmp_path_factory.mktemp("cli"))
    workspace.corpus(files=PAGES)
    (report,) = run_json(workspace, "refresh", "docs")
    assert report["status"] == "published"
    assert report["documents"] == {"total": 3, "added": 3, "changed": 0, "removed": 0, "unchanged": 0, "failed": 0}
    assert (report["snapshot"], report["embedded"], report["cached"], report["cost_usd"]) == (1, 3, 0, 0.0)
    return workspace


def test_a_second_refresh_says_that_nothing_changed(refreshed: Workspace) -> None:
    assert "nothing changed; snapshot 1 stays" in run(refreshed, "refresh", "docs").stdout


def test_search_prints_what_design_promises(refreshed: Workspace) -> None:
    found = run_json(refreshed, "search", "docs", "older snapshot", "-k", "2")
    assert (found["corpus"], found["snapshot"], found["mode"]) == ("docs", 1, "hybrid")
    first = found["hits"][0]
    assert first["source"] == first["document_id"] == "ops/rollback.md"
    assert first["rank"] == 1
    assert {"score", "chunk_id", "text", "metadata"} <= first.keys()
    assert len(found["hits"]) == 2


def test_search_shows_people_the_source_and_the_text(refreshed: Workspace) -> None:
    shown = run(refreshed, "search", "docs", "older snapshot", "-k", "1").stdout
    assert "ops/rollback.md" in shown
    assert "Move the pointer back" in shown


@pytest.mark.parametrize("mode", ["hybrid", "vector", "bm25"])
def test_a_filter_holds_in_every_mode(refreshed: Workspace, mode: str) -> None:
    found = run_json(refreshed, "search", "docs", "snapshot filter cron", "--mode", mode, "--where", "path LIKE 'ops/%'")
    assert found["hits"]
    assert all(hit["source"].startswith("ops/") for hit in found["hits"])


def test_a_query_may_begin_with_a_dash(refreshed: Workspace) -> None:
    found = json.loads(run(refreshed, "search", "docs", "--mode", "bm25", "--json", "--", "--where").stdout)
    assert found["hits"][0]["source"] == "flags.md"


def test_explain_shows_both_arms_and_their_sum(refreshed: Workspace) -> None:
    found = run_json(refreshed, "explain", "docs", "filter hits")
    first = found["hits"][0]
    assert first["source"] == "flags.md"
    assert first["bm25"]["rank"] == 1
    assert first["vector"]["rank"] is not None
    assert first["score"] == pytest.approx(first["vector"]["contribution"] + first["bm25"]["contribution"])
    assert sum(term["contribution"] for term in first["terms"]) == pytest.approx(first["bm25"]["score"])
    assert "rank 1" in run(refreshed, "explain", "docs", "filter hits").stdout


def test_history_and_corpora_show_what_is_served(refreshed: Workspace) -> None:
    history = run_json(refreshed, "history", "docs")
    assert [(row["snapshot"], row["served"]) for row in history["snapshots"]] == [(1, True)]
    (listed,) = run_json(refreshed, "corpora")
    assert (listed["corpus"], listed["snapshot"], listed["documents"]) == ("docs", 1, 3)


def test_doctor_finds_a_sound_store_sound_and_a_damaged_one_damaged(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files=PAGES)
    run(workspace, "refresh", "docs")
    assert run_json(workspace, "doctor")["findings"] == []
    segment = next((workspace.data / "docs" / "bm25").glob("*.arrow"))
    segment.chmod(0o644)
    segment.write_bytes(segment.read_bytes()[:-9] + b"corrupted")
    done = run(workspace, "doctor", "--json", check=1)
    assert segment.name in json.loads(done.stdout)["findings"][0]["message"]


def test_a_dry_run_says_what_would_be_done_and_does_nothing(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files=PAGES)
    (plan,) = run_json(workspace, "refresh", "docs", "--dry-run")
    assert (plan["documents"]["added"], plan["texts_to_embed"], plan["stops"]) == (3, 3, None)
    assert not workspace.data.exists()


def test_a_refresh_says_which_language_it_found(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={"a.txt": "Die Häuser sind alt, und das Boot ist nicht weit von dem Hafen."})
    assert "lexical language auto found german" in run(workspace, "refresh", "docs").stdout
    assert "lexical language" not in run(workspace, "refresh", "docs").stdout
    workspace.write("a.txt", "The houses are old, and the boat is not far from the harbour.")
    (plan,) = run_json(workspace, "refresh", "docs", "--dry-run")
    assert plan["reasons"] == ["the lexical language is now english, before german: the lexical index is built anew"]
    assert "the lexical language is now english, before german" in run(workspace, "refresh", "docs").stdout
    (report,) = run_json(workspace, "refresh", "docs")
    assert report["language"] == "english"


def test_new_writes_a_corpus_that_refreshes(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    source = tmp_path / "somewhere" / "pages"
    source.mkdir(parents=True)
    (source / "one.md").write_text("# One\n\nThe first page.\n")
    (source / "picture.png").write_bytes(b"\x89PNG")
    (source / "table.CSV").write_text("name,colour\nsky,blue\n")
    done = run(workspace, "new", "pages", "--source", str(source))
    assert "files left out, by ending: .png 1" in done.stdout
    assert "# " in (workspace.corpora / "pages" / "corpus.yaml").read_text()
    (report,) = run_json(workspace, "refresh", "pages")
    assert report["documents"]["total"] == 2
    (source / "later.rst").write_text("Later\n=====\n\nA kind that was not there before.\n")
    (report,) = run_json(workspace, "refresh", "pages")
    assert report["documents"]["total"] == 3
    done = run(workspace, "new", "pages", "--source", str(source), check=2)
    assert "exists already" in done.stderr


def test_a_refresh_that_too_many_failures_stop_lists_them_all(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files={**{f"{number}.md": f"# Page {number}\n" for number in range(3)}, "a.png": b"\x89PNG\r\n\x1a\n"})
    done = run(workspace, "refresh", "docs", check=1)
    assert "docs: 1 of 4 documents cannot be read" in done.stderr
    assert "\n  a.png: " in done.stderr
    (report,) = json.loads(run(workspace, "refresh", "docs", "--json", check=1).stdout)
    assert [(failure["source"], failure["kept"]) for failure in report["failures"]] == [("a.png", False)]


def test_put_says_that_standard_input_is_closed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus()
    command = f"{shlex.quote(str(Path(sys.executable).with_name('rag-pipeline')))} put docs new.md - <&-"
    done = subprocess.run(command, shell=True, env=workspace.environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (2, "rag-pipeline: FILE: - reads standard input, which is closed here\n")


def test_new_maps_the_fields_of_records(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    records = tmp_path / "records.jsonl"
    records.write_text('{"_id": "1", "title": "Tea", "text": "Leaves in water."}\n')
    run(workspace, "new", "records", "--source", str(records))
    run(workspace, "refresh", "records")
    assert run_json(workspace, "search", "records", "tea")["hits"][0]["document_id"] == "1"


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (["search", "nosuch", "x"], 1, ["nosuch", "no snapshot"]),
        (["search", "docs", "x", "--snapshot", "99"], 1, ["no snapshot 99", "kept: 1"]),
        (["search", "docs", "x", "--where", "nosuch = 1"], 2, ["where", "no column nosuch", "heading_path"]),
        (["search", "docs", "x", "--where", "path = 'a"], 2, ["where", "Unterminated"]),
        (["search", "docs", "x", "-k", "0"], 2, ["k", "at least 1"]),
        (["search", "docs"], 2, ["query"]),
        (["search", "docs", ""], 2, ["query: expected words to search for, got an empty text"]),
        (["search", "docs", " \t", "--json"], 2, ["query: expected words to search for, got an empty text"]),
        (["explain", "docs", "\u200b"], 2, ["query: expected words to search for, got an empty text"]),
        (["refresh", "nosuch"], 2, ["no corpus 'nosuch'", "docs"]),
        (["new", "Bad-Name", "--source", "."], 2, ["[a-z]", "Bad-Name"]),
        (["new", "fine", "--source", "nowhere"], 2, ["nowhere"]),
        (["history", "nosuch"], 1, ["nosuch"]),
        (["refresh", "docs", "--wait", "nan"], 2, ["--wait", "seconds", "'nan'"]),
        (["refresh", "docs", "--wait", "inf"], 2, ["--wait", "seconds", "'inf'"]),
        (["frobnicate"], 2, ["frobnicate"]),
    ],
)
def test_a_mistake_is_told_in_one_line_with_the_right_exit_code(
    refreshed: Workspace, arguments: list[str], code: int, words: list[str]
) -> None:
    done = run(refreshed, *arguments, check=code)
    assert "Traceback" not in done.stderr
    assert all(word in done.stderr for word in words), done.stderr


def test_a_failing_corpus_does_not_stop_the_others(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus("empty")
    workspace.corpus("good", files={})
    workspace.write("a.md", "# A\n\nText.\n", "good")
    done = run(workspace, "refresh", "--json", check=1)
    empty, good = json.loads(done.stdout)
    assert (empty["status"], good["status"]) == ("failed", "published")
    assert "lists no item" in done.stderr
    assert "lists no item" in empty["error"]


def test_debug_shows_where_an_error_came_from(refreshed: Workspace) -> None:
    assert "Traceback" in run(refreshed, "search", "nosuch", "x", "--debug", check=1).stderr


@pytest.mark.parametrize(
    "command", ["search docs x", "history docs", "rollback docs 1", "refresh docs --dry-run", "corpora"]
)
def test_a_disk_that_fails_is_told_in_one_line(tmp_path: Path, command: str) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(files=PAGES)
    workspace.data.write_text("a file where a folder is expected")
    done = run(workspace, *command.split(), check=1)
    assert done.stderr == f"rag-pipeline: {workspace.data}/docs/snapshots/CURRENT: Not a directory\n"
    assert "Traceback" in run(workspace, *command.split(), "--debug", check=1).stderr


def test_ctrl_c_while_the_commands_load_prints_no_trace(tmp_path: Path) -> None:
    script = (
        "import os, signal, sys\n"
        "def interrupt(event, args):\n"
        "    if event == 'import' and args[0] == 'rag_pipeline.cli.refresh':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "sys.addaudithook(interrupt)\n"
        "from rag_pipeline.cli import main\n"
        "sys.exit(main(['corpora']))\n"
    )
    environment = Workspace(tmp_path).environment
    done = subprocess.run([sys.executable, "-c", script], env=environment, text=True, capture_output=True, check=False)
    assert (done.returncode, done.stderr.count("\n")) == (130, 1), done.stderr
    assert "stopped" in done.stderr


def test_a_dry_run_that_would_stop_at_the_budget_fails(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(yaml="source: {path: files}\nbudget: {tokens_per_refresh: 3}\n", files=PAGES)
    shown = run(workspace, "refresh", "docs", "--dry-run", check=1).stdout
    assert "docs: the refresh would stop at the budget: about " in shown


def test_doctor_looks_at_sources_too_before_anything_was_refreshed(tmp_path: Path) -> None:
    workspace = Workspace(tmp_path)
    workspace.corpus(yaml="source: {path: nowhere}\n")
    done = run(workspace, "doctor", check=1)
    assert "error: docs: " in done.stdout
    assert "nowhere does not exist" in done.stdout
    assert "warning: docs: nothing was refreshed yet" in done.stdout
