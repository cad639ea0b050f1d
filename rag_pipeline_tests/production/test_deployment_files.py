"""Dockerfile, compose.yaml and what belongs to them agree with each other, with the code and with the documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from fnmatch import fnmatch
from importlib.metadata import entry_points
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from rag_pipeline_tests.production.deployment import ROOT, compose

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib  # which pytest brings

DOCKERFILE = (ROOT / "Dockerfile").read_text(encoding="utf-8").replace("\\\n", " ")
OURS = ("code", "webserver", "daemon")


def text(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def copied() -> list[str]:
    """What the image is built from."""
    lines = re.findall(r"^COPY (.+)$", DOCKERFILE, re.MULTILINE)
    return [source for line in lines if "--from=" not in line for source in re.sub(r"--\S+ ", "", line).split()[:-1]]


def variables_of(document: Any) -> set[str]:
    """The variables that an instance or workspace file reads: `{env: NAME}`."""
    if isinstance(document, dict):
        if set(document) == {"env"}:
            return {document["env"]}
        return set().union(*map(variables_of, document.values()), set())
    return set().union(*map(variables_of, document), set()) if isinstance(document, list) else set()


def variables_read() -> set[str]:
    return set().union(*(variables_of(yaml.safe_load(text(f"{name}.prod.yaml"))) for name in ("dagster", "workspace")))


def image_variables() -> set[str]:
    (block,) = re.findall(r"^ENV (PATH=.+)$", DOCKERFILE, re.MULTILINE)
    return set(re.findall(r"(\w+)=", block))


def test_what_the_image_copies_is_there_and_let_through() -> None:
    let_through = [line[1:] for line in text(".dockerignore").splitlines() if line.startswith("!")]
    assert copied()
    for source in copied():
        assert (ROOT / source).exists(), source
        assert any(fnmatch(source, pattern) for pattern in let_through), f".dockerignore keeps {source} out"


def test_nothing_secret_is_let_into_the_image() -> None:
    assert text(".dockerignore").startswith("*\n")
    assert not [name for name in copied() if ".env" in name]
    assert "/.env" in text(".gitignore").splitlines()


def test_the_image_runs_as_an_account_without_privileges() -> None:
    (account,) = re.findall(r"^USER (\S+)$", DOCKERFILE, re.MULTILINE)
    assert re.fullmatch(r"[1-9]\d*:[1-9]\d*", account)


def test_the_extras_that_the_image_installs_exist() -> None:
    (extras,) = re.findall(r"^ARG EXTRAS=(\S+)$", DOCKERFILE, re.MULTILINE)
    assert set(extras.split(",")) <= set(project()["optional-dependencies"])


def project() -> dict[str, Any]:
    loaded: dict[str, Any] = tomllib.loads(text("pyproject.toml"))["project"]
    return loaded


def test_the_constraints_fix_a_version_that_pyproject_allows_for_everything_that_the_image_asks_for() -> None:
    pins = dict(re.findall(r"^([\w.-]+)==(\S+)$", text("constraints.txt"), re.MULTILINE))
    pins = {canonicalize_name(name): version for name, version in pins.items()}
    extras = project()["optional-dependencies"]
    asked = [*project()["dependencies"], *extras["pipeline"], *extras["litellm"], *extras["postgres"]]
    for requirement in map(Requirement, asked):
        pin = pins.get(canonicalize_name(requirement.name))
        assert pin is not None, f"constraints.txt lacks {requirement.name}: make constraints"
        assert requirement.specifier.contains(pin), f"constraints.txt has {requirement.name} {pin}: make constraints"


@pytest.mark.parametrize("service", OURS)
def test_a_service_runs_a_program_that_the_image_has_and_says_when_it_is_well(service: str) -> None:
    definition = compose()["services"][service]
    programs = {script.name for script in entry_points(group="console_scripts")} | {"python"}
    assert definition["command"][0] in programs
    assert definition["healthcheck"]["test"][:1] == ["CMD"]
    assert definition["healthcheck"]["test"][1] in programs
    assert definition["restart"] == "unless-stopped"


@pytest.mark.parametrize("service", OURS)
def test_a_service_has_every_variable_that_instance_and_workspace_read(service: str) -> None:
    read = variables_of(yaml.safe_load(text("dagster.prod.yaml"))) | variables_of(
        yaml.safe_load(text("workspace.prod.yaml"))
    )
    assert read
    assert read <= set(compose()["services"][service]["environment"]) | image_variables()


def test_every_variable_of_a_deployment_is_documented_and_in_the_example() -> None:
    documented = text("docs/operate.md") + text("corpora/handbook/files/reference/environment.md")
    read = variables_of(yaml.safe_load(text("dagster.prod.yaml"))) | variables_of(
        yaml.safe_load(text("workspace.prod.yaml"))
    )
    asked = set(re.findall(r"\$\{(\w+)", text("compose.yaml")))
    assert not {name for name in read | asked if f"`{name}`" not in documented}
    assert asked == set(re.findall(r"^(\w+)=", text(".env.example"), re.MULTILINE))


def test_only_the_password_has_to_be_set() -> None:
    assert set(re.findall(r"\$\{(\w+):\?", text("compose.yaml"))) == {"DAGSTER_POSTGRES_PASSWORD"}


def test_the_web_ui_is_published_to_this_host_alone() -> None:
    services = compose()["services"]
    assert [port for service in services.values() for port in service.get("ports", [])] == ["127.0.0.1:3000:3000"]


def test_dagster_prod_yaml_limits_runs_as_dagster_yaml_does() -> None:
    one_host, deployment = yaml.safe_load(text("dagster.yaml")), yaml.safe_load(text("dagster.prod.yaml"))
    for key in ("concurrency", "run_retries", "retention", "telemetry", "nux"):
        assert one_host[key] == deployment[key], key


@pytest.mark.production
def test_the_dockerfile_has_no_finding_of_hadolint() -> None:
    hadolint = Path(sys.executable).parent / "hadolint"
    done = subprocess.run([hadolint, ROOT / "Dockerfile"], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (0, "")


@pytest.mark.production
@pytest.mark.skipif(sys.version_info < (3, 11), reason="check-jsonschema needs Python 3.11")
def test_compose_yaml_holds_to_the_schema_of_compose_files() -> None:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", ROOT / "compose.yaml"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
