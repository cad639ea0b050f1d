"""What README tells a newcomer to type works, in a copy of the repository."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
PREFIX = Path(sys.prefix)


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(block: str) -> list[str]:
    return [line.split("#")[0].strip() for line in block.splitlines() if line.split("#")[0].strip()]


@pytest.fixture(scope="module")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What is not ignored by git, as somebody has it who has just cloned it."""
    copy = tmp_path_factory.mktemp("checkout")
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    listed = subprocess.run(command, cwd=ROOT, capture_output=True, check=True).stdout.decode()
    for name in filter(None, listed.split("\0")):
        if (ROOT / name).is_file():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, copy / name)
    return copy


def run(command: str, checkout: Path, **variables: str) -> str:
    environment = {**os.environ, "PATH": f"{PREFIX / 'bin'}{os.pathsep}{os.environ['PATH']}", **variables}
    for name in ("RAG_PIPELINE_CORPORA", "RAG_PIPELINE_DATA", "DAGSTER_HOME"):
        if name not in variables:
            environment.pop(name, None)
    done = subprocess.run(command, shell=True, cwd=checkout, env=environment, text=True, capture_output=True, check=False)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def demo(checkout: Path) -> str:
    """`make demo` with the environment that the tests run in, which saves installing another."""
    return run(f"make demo VENV={PREFIX} READY={ROOT / 'pyproject.toml'}", checkout)


def test_make_demo_refreshes_the_samples_and_answers_three_questions(demo: str) -> None:
    assert "handbook: snapshot 1 published" in demo
    assert "faq: snapshot 1 published" in demo
    assert demo.count("\n  1  ") == 3
    assert "start/add-a-corpus.md" in demo


def test_make_demo_again_says_that_nothing_changed(demo: str, checkout: Path) -> None:
    again = run(f"make demo VENV={PREFIX} READY={ROOT / 'pyproject.toml'}", checkout)
    assert again.count("nothing changed; snapshot 1 stays") == 2


def test_the_demos_runs_are_in_the_instance_that_make_dev_opens(demo: str, checkout: Path) -> None:
    code = (
        "import dagster as dg\n"
        "with dg.DagsterInstance.get() as instance:\n"
        "    print(sorted({run.job_name for run in instance.get_runs()}))\n"
    )
    shown = run(f"{sys.executable} -c '{code}'", checkout, DAGSTER_HOME=str(checkout))
    assert shown.strip() == "['refresh_faq', 'refresh_handbook']"


def test_the_commands_for_a_corpus_of_ones_own_work(checkout: Path, tmp_path: Path) -> None:
    runbooks = tmp_path / "runbooks"
    runbooks.mkdir(parents=True)
    (runbooks / "gateway.md").write_text("# Gateway\n\nRestart the gateway with systemctl.\n")
    (block,) = [block for block in blocks("console") if "rag-pipeline new" in block]
    shown = [run(command, checkout, HOME=str(tmp_path)) for command in commands(block)]
    assert "gateway.md" in shown[-1]


def test_the_corpus_yaml_shown_is_valid(tmp_path: Path) -> None:
    from rag_pipeline.corpus_files import load_corpus

    for number, block in enumerate(blocks("yaml")):
        folder = tmp_path / f"c{number}"
        folder.mkdir()
        (folder / "corpus.yaml").write_text(block)
        load_corpus(folder)


def test_the_python_snippet_runs(demo: str, checkout: Path) -> None:
    (snippet,) = blocks("python")
    (checkout / "snippet.py").write_text(snippet)
    shown = run(f"{sys.executable} snippet.py", checkout)
    assert "query/filters.md" in shown


def test_every_link_leads_somewhere() -> None:
    links = re.findall(r"\]\((?!https?://)([^)#]+)", README)
    assert links
    assert all((ROOT / link).exists() for link in links)


def test_every_make_target_named_is_there() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for target in set(re.findall(r"make (\w+)", README)) - {"sets"}:
        assert re.search(rf"^{target}:", makefile, re.MULTILINE), target
