"""Documents are cut anew when what cuts them has changed, and only then."""

from __future__ import annotations

import pytest

from rag_pipeline.refresh.plan import plan_refresh
from rag_pipeline_tests.conftest import Workspace

BREAD = "Knead the dough until it is smooth. Let the dough rise in a warm bowl. Bake the loaf in a hot oven. "
STARS = "The telescope gathers light of galaxies. A supernova outshines its galaxy. Planets orbit their star. "
FILES = {"both.txt": BREAD * 4 + STARS * 4, "short.txt": "One sentence.\n"}
SOURCE = "source: {path: files}\n"


def test_a_semantic_corpus_records_what_compares_its_sentences(workspace: Workspace) -> None:
    workspace.corpus(yaml=SOURCE + "chunking: {strategy: semantic, size: 200}\n", files=FILES)
    reports = workspace.refresh()
    assert reports["chunks"].total > 2
    chunking = workspace.index().manifest.content.chunking
    assert (chunking["strategy"], chunking["percentile"]) == ("semantic", 95)
    assert chunking["sentence_embedder"]["provider"] == "static"
    assert workspace.refresh()["chunks"].documents_chunked == 0


def test_another_model_for_sentences_cuts_a_semantic_corpus_anew_and_no_other(workspace: Workspace) -> None:
    """Both embedders count tokens alike, so that nothing else tells them apart."""
    hashed = SOURCE + "embedding: {provider: hash, dimensions: %d}\nchunking: {strategy: %s}\n"
    for strategy, cut in (("semantic", 2), ("recursive", 0)):
        workspace.corpus(yaml=hashed % (64, strategy), files=FILES)
        workspace.refresh()
        workspace.corpus(yaml=hashed % (128, strategy))
        assert workspace.refresh()["chunks"].documents_chunked == cut


def test_a_hosted_corpus_compares_sentences_with_the_static_model(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)  # whoever asks the provider fails
    yaml = SOURCE + "embedding: {provider: openai}\nchunking: {strategy: semantic}\n"
    workspace.corpus(yaml=yaml, files=FILES)
    context = workspace.context()
    assert context.chunking_settings["sentence_embedder"]["provider"] == "static"
    assert context.embedder.identity.provider == "openai"


def test_the_default_configuration_says_what_it_always_said(workspace: Workspace) -> None:
    """Manifests of corpora without the newer keys keep their hashes."""
    workspace.corpus(yaml=SOURCE, files=FILES)
    assert workspace.context().chunking_settings == {"strategy": "recursive", "size": 480, "overlap": 64, "chunker": "1"}


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("{strategy: parent-child, parent_size: 320}", "{strategy: parent-child, parent_size: 400}"),
        ("{strategy: semantic}", "{strategy: semantic, percentile: 80}"),
        ("{}", "{context: title}"),
        ("{}", "{strategy: parent-child}"),
    ],
)
def test_every_setting_that_decides_chunks_cuts_anew_once(workspace: Workspace, before: str, after: str) -> None:
    workspace.corpus(yaml=f"{SOURCE}chunking: {before}\n", files=FILES)
    workspace.refresh()
    workspace.corpus(yaml=f"{SOURCE}chunking: {after}\n")
    plan = plan_refresh(workspace.context(dry_run=True))
    assert plan.documents_to_chunk == 2
    assert plan.reasons == ("chunking or the tokenizer has changed: every document is cut again",)
    assert workspace.refresh()["chunks"].documents_chunked == 2
    reports = workspace.refresh()
    assert (reports["chunks"].documents_chunked, reports["vector_table"].rows_written) == (0, 0)
