"""What LiteLLM does in a process of its own: whom it contacts, what it prints, and what happens without it."""

from __future__ import annotations

import json
import os
from typing import NamedTuple

import pytest

from rag_pipeline_tests.embedding.hosted.support import KEY, KEY_VARIABLES, MODELS, base_of, in_another_process
from rag_pipeline_tests.provider_server import OLLAMA_PATH, OPENAI_PATH, ProviderServer, Request, echo_key, echo_key_429

PROVIDERS = list(MODELS)


def test_without_litellm_the_error_says_what_to_install() -> None:
    program = """
import sys
from importlib.abc import MetaPathFinder

class Missing(MetaPathFinder):
    def find_spec(self, name, path=None, target=None):
        if name == "litellm":
            raise ModuleNotFoundError("No module named 'litellm'", name="litellm")

sys.meta_path.insert(0, Missing())
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient
from rag_pipeline.errors import MissingExtraError

client = LiteLLMClient("voyage", "voyage-4", dimensions=8, ask_dimensions=False, api_base=None, timeout_seconds=1)
try:
    client.check_credentials()
except MissingExtraError as error:
    print(error)
"""
    ended = in_another_process(program)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("embedding.provider voyage needs litellm: install this project with its extra `litellm`")


FRESH_PROCESS = """
import json, logging, os, sys, time

contacted = []

def watch(event, arguments):
    if event in ("socket.connect", "socket.sendto"):
        contacted.append(arguments[1])
    elif event in ("socket.getaddrinfo", "socket.gethostbyname"):
        contacted.append((arguments[0],))
    else:
        return
    host = contacted[-1][0] if isinstance(contacted[-1], tuple) else contacted[-1]
    if host not in ("127.0.0.1", b"127.0.0.1"):
        raise OSError(f"not allowed here: {contacted[-1]}")

sys.addaudithook(watch)
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from rag_pipeline.embedding.hosted.background import run
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.litellm_client import LiteLLMClient

def ask(client):
    return [float(value) for value in run(client.request(["one", "two"], "document")).vectors[1]]

clients = [
    LiteLLMClient(provider, model, dimensions=64, ask_dimensions=True, api_base=base, timeout_seconds=5)
    for provider, model, base in json.loads(sys.argv[1])
]
answers = []
for client in clients:
    client.check_credentials()
    answers.append(ask(client))
    for _ in range(2):
        try:
            ask(client)
        except CallError as failure:
            print(failure.kind, failure)
sys.stdout.flush()
child = os.fork() if hasattr(os, "fork") else None
if child == 0:
    os._exit(0 if [ask(client) for client in clients] == answers else 1)
if child is not None:
    print("forked", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
assert [ask(client) for client in clients] == answers
time.sleep(0.3)
hosts = {address[0] if isinstance(address, tuple) else address for address in contacted}
print(json.dumps(sorted(map(str, hosts))))
"""
"""Every connection and every name looked up is on record, and refused where it is not the server's. Then it forks."""


class Fresh(NamedTuple):
    lines: list[str]
    errors: str
    requests: list[Request]


@pytest.fixture(scope="module")
def fresh() -> Fresh:
    """What a process did that imports LiteLLM itself, which takes it some seconds."""
    with ProviderServer(faults=[None, echo_key(), echo_key_429()] * len(PROVIDERS)) as server:
        asked = [[provider, MODELS[provider], base_of(provider, server)] for provider in PROVIDERS]
        with pytest.MonkeyPatch.context() as environment:
            for name in KEY_VARIABLES:
                environment.setenv(name, KEY)
            environment.delenv("OLLAMA_API_BASE", raising=False)
            ended = in_another_process(FRESH_PROCESS, json.dumps(asked))
        assert ended.returncode == 0, ended.stderr
        return Fresh(ended.stdout.splitlines(), ended.stderr, server.requests)


def test_nothing_is_contacted_but_the_provider(fresh: Fresh) -> None:
    assert json.loads(fresh.lines[-1]) == ["127.0.0.1"]
    assert {request.path for request in fresh.requests} == {OPENAI_PATH, OLLAMA_PATH}


def test_nothing_is_printed_or_logged_that_holds_the_key(fresh: Fresh) -> None:
    assert [line.split()[0] for line in fresh.lines[:8]] == ["terminal", "throttled"] * len(PROVIDERS)
    assert KEY not in "".join(fresh.lines)
    assert "DEBUG" in fresh.errors
    assert KEY not in fresh.errors
    assert "LiteLLM" not in fresh.errors


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there is no fork here")
def test_requests_work_in_a_process_forked_after_requests_and_in_its_parent(fresh: Fresh) -> None:
    assert "forked 0" in fresh.lines
    assert len(fresh.requests) == (3 + 1 + 1) * len(PROVIDERS)
