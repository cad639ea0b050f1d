"""Refreshes with hosted embedding models, against a real server that speaks the providers' formats."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from rag_pipeline.errors import (
    BudgetError,
    ConfigError,
    CredentialsError,
    IdentityMismatchError,
    ProviderError,
    RefusedTextError,
    SnapshotNotFoundError,
)
from rag_pipeline.index.snapshot import read_manifest
from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace
from rag_pipeline_tests.provider_server import ProviderServer, not_finite, refuse_texts, wrong_width

KEY = "sk-test-0123456789abcdef0123"
ANIMALS = ["aardwolf", "bobolink", "caracal", "dormouse", "echidna", "fulmar", "gharial", "hoopoe", "ibex", "jackdaw"]


@pytest.fixture(autouse=True)
def _key(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)


@pytest.fixture
def server() -> Iterator[ProviderServer]:
    with ProviderServer(dimensions=64, key=KEY) as server:
        yield server


def hosted(server: ProviderServer, **more: object) -> str:
    """The line of corpus.yaml that asks the server."""
    values = {"provider": "openai", "model": "stub", "dimensions": 64, "api_base": server.api_base, "retry_seconds": 0.5}
    inner = ", ".join(f"{name}: {value if value is not None else 'null'}" for name, value in {**values, **more}.items())
    return f"embedding: {{{inner}}}\n"


def corpus(workspace: Workspace, embedding: str, more: str = "") -> None:
    """Write the configuration, and the files where there are none yet."""
    files = {f"{name}.md": f"# {name.title()}\n\nThe {name} lives near the river.\n" for name in ANIMALS}
    there = (workspace.corpora / "docs" / "files").is_dir()
    workspace.corpus(yaml=f"source: {{path: files}}\n{embedding}{more}", files=None if there else files)


def test_every_text_is_asked_for_once_and_searches_ask_the_same_server(workspace: Workspace, server: ProviderServer) -> None:
    corpus(workspace, hosted(server))
    reports = workspace.refresh()
    assert (reports["embeddings"].embedded, set(server.answered_texts.values())) == (10, {1})
    hits = workspace.index().search("caracal", mode="vector")
    assert hits[0].source == "caracal.md"
    assert server.requests[-1].texts == ["caracal"]


def test_nothing_changed_asks_nothing_and_needs_no_key(
    workspace: Workspace, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus(workspace, hosted(server))
    workspace.refresh()
    monkeypatch.delenv("OPENAI_API_KEY")
    asked = len(server.requests)
    assert workspace.refresh()["snapshot"].published is False
    assert len(server.requests) == asked


def test_a_missing_key_is_named_before_anything_is_asked(
    workspace: Workspace, server: ProviderServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY")
    corpus(workspace, hosted(server))
    with pytest.raises(CredentialsError, match="OPENAI_API_KEY"):
        workspace.refresh()
    assert not server.requests


class TestSwitching:
    """From one provider to another by one line."""

    def test_says_beforehand_what_it_will_redo_and_does_only_that(
        self, workspace: Workspace, server: ProviderServer
    ) -> None:
        lines = ["embedding: {provider: static}\n", "embedding: {provider: hash}\n", hosted(server)]
        before = None
        for line in lines:
            corpus(workspace, line)
            plan = plan_refresh(workspace.context())
            reports = workspace.refresh()
            embeddings = reports["embeddings"]
            assert (plan.texts_to_embed, embeddings.embedded, reports["vector_table"].rebuilt) == (10, 10, True)
            assert plan.embedder == embeddings.identity
            if before is not None:
                assert embeddings.identity_before == before
                assert any(plan.embedder in reason for reason in plan.reasons)
            assert reports["documents"].items_read == (0 if before else 10)
            before = embeddings.identity

    def test_back_to_where_it_was_costs_nothing(self, workspace: Workspace, server: ProviderServer) -> None:
        for line in ("embedding: {provider: static}\n", hosted(server), "embedding: {provider: static}\n"):
            corpus(workspace, line)
            reports = workspace.refresh()
        assert reports["embeddings"].embedded == 0
        assert reports["embeddings"].cached == 10
        assert reports["snapshot"].published

    def test_to_a_provider_with_the_same_tokenizer_cuts_nothing_again(
        self, workspace: Workspace, server: ProviderServer
    ) -> None:
        corpus(workspace, "embedding: {provider: static}\n")
        workspace.refresh()
        corpus(workspace, hosted(server, usd_per_million_tokens=1.0))
        plan = plan_refresh(workspace.context())
        assert (plan.documents_to_chunk, plan.texts_to_embed) == (0, 10)
        assert plan.cost_usd == pytest.approx(plan.tokens_to_embed * 1e-6)
        reports = workspace.refresh()
        assert (reports["chunks"].documents_chunked, reports["embeddings"].embedded) == (0, 10)
        assert reports["embeddings"].tokens <= plan.tokens_to_embed


class TestCost:
    def test_is_in_report_and_manifest_and_estimated_beforehand(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server, usd_per_million_tokens=2.0))
        plan = plan_refresh(workspace.context())
        report = workspace.refresh()["embeddings"]
        words = sum(len(text.split()) for request in server.requests for text in request.texts)
        assert report.tokens == words
        assert report.cost_usd == pytest.approx(words * 2e-6)
        assert plan.cost_usd == pytest.approx(plan.tokens_to_embed * 2e-6)
        assert plan.tokens_to_embed >= report.tokens
        spent = read_manifest(workspace.context().store).embedding
        assert spent is not None
        assert (spent.texts, spent.tokens, spent.cost_usd) == (10, words, pytest.approx(words * 2e-6))

    def test_of_a_known_model_comes_from_litellms_list(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server, model="text-embedding-3-small"))
        report = workspace.refresh()["embeddings"]
        assert report.cost_usd == pytest.approx(report.tokens * 2e-8)

    def test_is_null_where_no_price_is_known(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server))
        assert plan_refresh(workspace.context()).cost_usd is None
        assert workspace.refresh()["embeddings"].cost_usd is None

    def test_of_refreshes_that_failed_is_counted_in_the_next_snapshot(
        self, workspace: Workspace, server: ProviderServer
    ) -> None:
        corpus(workspace, hosted(server, usd_per_million_tokens=1.0, batch_size=2), "budget: {tokens_per_refresh: 60}\n")
        with pytest.raises(BudgetError):
            workspace.refresh()
        corpus(workspace, hosted(server, usd_per_million_tokens=1.0, batch_size=2))
        workspace.refresh()
        spent = read_manifest(workspace.context().store).embedding
        words = sum(len(text.split()) for text in server.answered_texts.elements())
        assert spent is not None
        assert (spent.texts, spent.tokens) == (10, words)


class TestBudget:
    def test_stops_before_spending_more_and_keeps_what_it_has(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server, concurrency=1), "budget: {tokens_per_refresh: 40}\n")
        rounds = 0
        while True:
            asked = len(server.requests)
            try:
                workspace.refresh()
            except BudgetError:
                rounds += 1
            else:
                break
            spent = sum(len(text.split()) for request in server.requests[asked:] for text in request.texts)
            assert 0 < spent <= 40
        assert rounds >= 2
        assert set(server.answered_texts.values()) == {1}

    def test_in_money_needs_a_price(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server), "budget: {usd_per_refresh: 1.0}\n")
        with pytest.raises(ConfigError, match="usd_per_million_tokens"):
            workspace.refresh()
        assert not server.requests

    def test_in_money_holds(self, workspace: Workspace, server: ProviderServer) -> None:
        yaml = hosted(server, usd_per_million_tokens=1.0, batch_size=1)
        corpus(workspace, yaml, "budget: {usd_per_refresh: 0.00006}\n")
        with pytest.raises(BudgetError, match=r"budget\.usd_per_refresh"):
            workspace.refresh()
        assert 0 < sum(len(text.split()) for text in server.answered_texts) <= 60


class TestBadTexts:
    def test_are_named_while_all_others_are_kept(self, workspace: Workspace) -> None:
        faults = refuse_texts(lambda text: "fulmar" in text, message="no seabirds")
        with ProviderServer(dimensions=64, faults=faults) as server:
            corpus(workspace, hosted(server))
            with pytest.raises(RefusedTextError) as caught:
                workspace.refresh()
            for words in ("fulmar.md", "no seabirds", "1 text was refused"):
                assert words in str(caught.value)
            assert len(server.answered_texts) == 9
            with pytest.raises(SnapshotNotFoundError):
                workspace.index()
            workspace.write("fulmar.md", "# Petrel\n\nA petrel.\n")
            assert workspace.refresh()["embeddings"].embedded == 1

    def test_a_vector_that_is_not_finite_is_refused_with_its_document(self, workspace: Workspace) -> None:
        with ProviderServer(
            dimensions=64, faults=lambda request: not_finite() if "ibex" in str(request.texts) else None
        ) as server:
            corpus(workspace, hosted(server, batch_size=1))
            with pytest.raises(RefusedTextError, match=r"ibex\.md.*finite numbers"):
                workspace.refresh()
            assert len(server.answered_texts) == 9

    def test_vectors_of_another_width_are_refused(self, workspace: Workspace) -> None:
        with ProviderServer(dimensions=64, faults=[wrong_width(32)] * 20) as server:
            corpus(workspace, hosted(server))
            with pytest.raises(Exception, match="32 dimensions; expected 64"):
                workspace.refresh()


class TestFallback:
    """`fallback` is asked when the provider cannot be had; a snapshot has vectors of one embedder only."""

    def test_embeds_the_whole_corpus_and_says_why(self, workspace: Workspace) -> None:
        with ProviderServer(dimensions=64) as server:
            yaml = hosted(server, fallback="[{provider: hash, dimensions: 32}]")
            corpus(workspace, yaml)
            assert workspace.refresh()["embeddings"].identity.startswith("openai/")
            server.close()
            workspace.write("kiwi.md", "# Kiwi\n\nThe kiwi does not fly.\n")
            reports = workspace.refresh()
            assert reports["embeddings"].identity.startswith("hash/")
            assert "openai/stub" in reports["embeddings"].turned_from[0]
            assert reports["vector_table"].rows_written == 11
            manifest = read_manifest(workspace.context().store)
            assert (manifest.content.embedder.provider, manifest.counts.chunks) == ("hash", 11)
            assert workspace.index().search("kiwi", mode="vector")[0].source == "kiwi.md"

    def test_is_left_when_the_provider_is_back(self, workspace: Workspace, server: ProviderServer) -> None:
        dead = "http://127.0.0.1:9/v1"
        fallback = "[{provider: hash, dimensions: 32}]"
        corpus(workspace, hosted(server, api_base=dead, fallback=fallback))
        assert workspace.refresh()["embeddings"].identity.startswith("hash/")
        corpus(workspace, hosted(server, fallback=fallback))
        reports = workspace.refresh()
        assert reports["embeddings"].identity.startswith("openai/")
        assert reports["embeddings"].identity_before.startswith("hash/")
        assert read_manifest(workspace.context().store).content.embedder.provider == "openai"

    def test_is_taken_when_the_first_cannot_be_loaded(self, workspace: Workspace) -> None:
        missing = workspace.root / "no-such-model"
        corpus(workspace, f"embedding: {{provider: local, model: {missing}, fallback: [{{provider: static}}]}}\n")
        report = workspace.refresh()["embeddings"]
        assert report.identity.startswith("static/")
        assert "local" in report.turned_from[0]

    def test_without_one_the_refresh_fails_and_the_old_snapshot_is_served(self, workspace: Workspace) -> None:
        with ProviderServer(dimensions=64) as server:
            corpus(workspace, hosted(server))
            workspace.refresh()
            server.close()
            workspace.write("kiwi.md", "# Kiwi\n\nThe kiwi does not fly.\n")
            with pytest.raises(ProviderError, match="openai/stub"):
                workspace.refresh()
        assert len(workspace.index().chunk_ids()) == 10


class TestLimits:
    def test_a_size_beyond_the_models_limit_is_refused_with_the_limit(
        self, workspace: Workspace, server: ProviderServer
    ) -> None:
        corpus(workspace, hosted(server, model="text-embedding-3-small"), "chunking: {size: 9000}\n")
        with pytest.raises(ConfigError, match=r"chunking\.size: 9000.*8191"):
            workspace.refresh()
        assert not server.requests

    def test_a_chunk_that_its_context_line_makes_too_long_is_named(
        self, workspace: Workspace, server: ProviderServer
    ) -> None:
        workspace.corpus(
            yaml=f"source: {{path: files}}\nchunking: {{size: 8191, overlap: 0}}\n"
            f"{hosted(server, model='text-embedding-3-small')}",
            files={"long.md": f"# A long one\n\n{'word ' * 20000}\n"},
        )
        with pytest.raises(ConfigError, match=r"'long\.md', characters \d+ to \d+.*chunking\.size to at most"):
            workspace.refresh()


class TestIdentity:
    def test_a_query_of_another_model_is_refused_with_both_named(self, workspace: Workspace) -> None:
        corpus(workspace, "embedding: {provider: static}\n")
        workspace.refresh()
        pointer = next((workspace.data / "docs" / "snapshots").glob("0*.json"))
        text = pointer.read_text(encoding="utf-8")
        pointer.write_text(text.replace("l2_supercat_256", "l2_supercat_512"), encoding="utf-8")
        with pytest.raises(IdentityMismatchError) as caught:
            workspace.index()
        assert "l2_supercat_256" in str(caught.value)
        assert "l2_supercat_512" in str(caught.value)

    def test_queries_go_to_the_query_model_of_the_same_space(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server, query_model="stub-lite"))
        workspace.refresh()
        assert {request.body["model"] for request in server.requests} == {"stub"}
        assert workspace.index().search("hoopoe", mode="vector")[0].source == "hoopoe.md"
        assert server.requests[-1].body["model"] == "stub-lite"
        content = read_manifest(workspace.context().store).content
        assert (content.embedder.model, content.query_model) == ("stub", "stub-lite")

    def test_another_revision_embeds_anew(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server))
        workspace.refresh()
        corpus(workspace, hosted(server, revision="'2026-11'"))
        assert workspace.refresh()["embeddings"].embedded == 10

    def test_another_address_embeds_nothing(self, workspace: Workspace, server: ProviderServer) -> None:
        corpus(workspace, hosted(server))
        workspace.refresh()
        with ProviderServer(dimensions=64) as moved:
            corpus(workspace, hosted(moved))
            assert workspace.refresh()["embeddings"].embedded == 0


class TestAuto:
    def test_is_what_can_be_had_and_a_change_is_announced(
        self, workspace: Workspace, monkeypatch: pytest.MonkeyPatch, server: ProviderServer
    ) -> None:
        monkeypatch.delenv("VOYAGE_API_KEY", raising=False)
        monkeypatch.setattr("importlib.util.find_spec", _without_fastembed())
        corpus(workspace, "embedding: {provider: auto}\n")
        assert workspace.refresh()["embeddings"].identity.startswith("static/")
        monkeypatch.setenv("VOYAGE_API_KEY", "pa-0123456789abcdef")
        monkeypatch.setenv("VOYAGE_API_BASE", server.api_base)
        plan = plan_refresh(workspace.context())
        assert plan.embedder.startswith("voyage/voyage-4")
        assert any("the embedder is now voyage/" in reason for reason in plan.reasons)


def _without_fastembed() -> object:
    import importlib.util

    real = importlib.util.find_spec
    return lambda name, *more: None if name == "fastembed" else real(name, *more)


def test_a_search_imports_no_litellm_until_it_must_embed_its_query(workspace: Workspace, server: ProviderServer) -> None:
    corpus(workspace, hosted(server))
    workspace.refresh()
    script = (
        "import sys\nfrom rag_pipeline.query import Index\nindex = Index.open('docs')\n"
        "index.search('caracal', mode='bm25')\nassert 'litellm' not in sys.modules\n"
        "print(index.search('caracal', mode='vector')[0].source)\nassert 'litellm' in sys.modules\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], env=workspace.environment, capture_output=True, text=True, timeout=120
    )
    assert (done.stdout.strip(), done.returncode) == ("caracal.md", 0), done.stderr
