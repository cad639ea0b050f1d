"""A hosted model is an embedder like any other."""

from __future__ import annotations

import asyncio
import itertools
import json
import threading
from pathlib import Path

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rag_pipeline.contracts import ModelAccess
from rag_pipeline.embedding.base import unit_rows
from rag_pipeline.embedding.hosted.build import embedder_of_identity
from rag_pipeline.embedding.hosted.embedder import HostedEmbedder, requests_of
from rag_pipeline.embedding.hosted.gate import Gate
from rag_pipeline.errors import CredentialsError, EmbeddingError, ProviderError
from rag_pipeline_tests.embedding.hosted.support import FakeClock, chain_of, client_of, embedder_on, tasks_left
from rag_pipeline_tests.provider_server import ProviderServer, not_finite, refuse_texts, status

pytestmark = pytest.mark.filterwarnings("ignore:Item:UserWarning")

TEXTS = [f"the kettle number {number} boils" for number in range(10)]


def unit(server: ProviderServer, text: str) -> npt.NDArray[np.float32]:
    return np.asarray(unit_rows(np.array([server.vector_of(text)], dtype=np.float32))[0])


@pytest.mark.parametrize("provider", ["openai", "voyage", "litellm"])
def test_documents_and_queries_are_vectors_of_length_one(provider: str) -> None:
    with ProviderServer() as server:
        embedder = embedder_on(server, provider, batch_size=4)
        vectors = embedder.embed_documents(TEXTS)
        query = embedder.embed_query("kettle")
        assert vectors.shape == (10, 64)
        assert vectors.dtype == query.dtype == np.float32
        assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
        assert np.array_equal(vectors, np.array([unit(server, text) for text in TEXTS]))
        assert np.array_equal(query, unit(server, "kettle"))
        assert [len(request.texts) for request in server.requests] == [4, 4, 2, 1]


def test_no_texts_are_no_request() -> None:
    with ProviderServer() as server:
        assert embedder_on(server).embed_documents([]).shape == (0, 64)
        assert server.requests == []


@pytest.mark.parametrize(
    ("provider", "model", "document", "query"),
    [
        ("ollama", "nomic-embed-text:latest", "search_document: ", "search_query: "),
        ("ollama", "jeffh/intfloat-multilingual-e5-large", "passage: ", "query: "),
        ("litellm", "hosted_vllm/intfloat/e5-base-v2", "passage: ", "query: "),
        ("openai", "text-embedding-3-small", "", ""),
        ("voyage", "voyage-4", "", ""),
    ],
)
def test_the_prompts_of_a_model_stand_before_its_texts(provider: str, model: str, document: str, query: str) -> None:
    with ProviderServer() as server:
        embedder = embedder_on(server, provider, model=model)
        embedder.embed_documents(["one", "two"])
        embedder.embed_query("three")
        assert [request.texts for request in server.requests] == [[document + "one", document + "two"], [query + "three"]]
    assert (embedder.identity.document_prompt, embedder.identity.query_prompt) == (document, query)


def test_configured_prompts_take_the_place_of_documented_ones_and_count_as_tokens() -> None:
    with ProviderServer() as server:
        embedder = embedder_on(server, "ollama", document_prompt="read this: ", query_prompt="")
        embedder.embed_documents(["one"])
        embedder.embed_query("two")
        assert [request.texts for request in server.requests] == [["read this: one"], ["two"]]
        more = embedder.count_tokens(["one"]) - embedder.tokenizer.count(["one"])
        assert more.tolist() == embedder.tokenizer.count(["read this: "]).tolist()


def test_the_query_model_is_asked_for_queries_alone() -> None:
    with ProviderServer(faults=[None, None, not_finite()]) as server:
        embedder = embedder_on(server, "voyage", model="voyage-4-large", query_model="voyage-4-lite")
        embedder.embed_documents(["one"])
        embedder.embed_query("two")
        asked = [(request.body["model"], request.body["input_type"]) for request in server.requests]
        assert asked == [("voyage-4-large", "document"), ("voyage-4-lite", "query")]
        with pytest.raises(EmbeddingError, match="voyage/voyage-4-lite answered a vector of zeros, or of something else"):
            embedder.embed_query("three")


def test_a_search_gives_up_after_ten_seconds_where_a_refresh_goes_on() -> None:
    clock = FakeClock()
    with ProviderServer(faults=[status(503, "down")] * 4 + [None]) as server:
        usual = embedder_on(server)
        gate = Gate("openai/text-embedding-3-small", 1, first_wait=4, clock=clock)
        embedder = HostedEmbedder(
            usual.identity,
            client_of("openai", server),
            client_of("openai", server),
            gate,
            usual.tokenizer,
            max_tokens=None,
            usd_per_token=None,
            batch_size=8,
            batch_tokens=1000,
            concurrency=1,
            retry_seconds=300,
        )
        with pytest.raises(ProviderError, match=r"text-embedding-3-small failed: .*down; tried (2|3) times"):
            embedder.embed_query("kettle")
        assert clock.now - 1000 <= 10
        assert 2 <= len(server.requests) <= 3
        assert embedder.embed_documents(["kettle"]).shape == (1, 64)
    assert tasks_left() == []


def test_errors_are_ours_and_carry_nobody_elses() -> None:
    with ProviderServer(key="another") as server, pytest.raises(CredentialsError) as caught:
        embedder_on(server).embed_documents(["one"])
    assert {type(link).__module__.split(".")[0] for link in chain_of(caught.value)} == {"rag_pipeline"}


def test_a_vector_that_is_none_is_an_error() -> None:
    with ProviderServer(faults=[not_finite()]) as server, pytest.raises(EmbeddingError, match="finite"):
        embedder_on(server).embed_documents(["one"])


def test_a_refused_text_is_an_error_of_ours() -> None:
    with (
        ProviderServer(faults=refuse_texts(lambda text: text == "two", message="no twos")) as server,
        pytest.raises(EmbeddingError, match="no twos"),
    ):
        embedder_on(server).embed_documents(["one", "two"])


def test_searches_of_many_threads_and_of_a_running_loop_all_get_their_own_answer() -> None:
    with ProviderServer(delay=0.02) as server:
        embedder = embedder_on(server, concurrency=4)
        found: dict[str, npt.NDArray[np.float32]] = {}
        threads = [
            threading.Thread(target=lambda text=text: found.__setitem__(text, embedder.embed_query(text))) for text in TEXTS
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

        async def notebook() -> npt.NDArray[np.float32]:
            return embedder.embed_query("beside a loop")

        assert np.array_equal(asyncio.run(notebook()), unit(server, "beside a loop"))
        for text in TEXTS:
            assert np.array_equal(found[text], unit(server, text))
        assert server.most_at_once <= 4


def test_a_width_that_nobody_wrote_down_is_asked_for_once_and_remembered(tmp_path: Path) -> None:
    widths = tmp_path / "cache" / "widths.json"
    with ProviderServer(dimensions=48, faults=[status(500)]) as server:
        for _ in range(2):
            embedder = embedder_on(server, "litellm", widths, dimensions=None)
            assert embedder.identity.dimensions == 48
        assert [request.status for request in server.requests] == [500, 200]
        assert not {"dimensions"} & set(server.requests[1].body)
        assert list(json.loads(widths.read_text()).values()) == [48]
        embedder_on(server, "litellm", widths, dimensions=None, revision="2")
        assert len(server.requests) == 3
        assert list(json.loads(widths.read_text()).values()) == [48, 48]


@pytest.mark.parametrize("damage", [b"", b"{", b"\xff\xfe", b"[]", b"48", b'{"%s": "48"}', b'{"%s": -1}', b'{"%s": true}'])
def test_a_damaged_memo_of_widths_is_asked_for_anew_and_rewritten(tmp_path: Path, damage: bytes) -> None:
    widths = tmp_path / "widths.json"
    with ProviderServer(dimensions=48) as server:
        embedder_on(server, "litellm", widths, dimensions=None)
        (key,) = json.loads(widths.read_bytes())
        widths.write_bytes(damage.replace(b"%s", key.encode()))
        assert embedder_on(server, "litellm", widths, dimensions=None).identity.dimensions == 48
        assert json.loads(widths.read_bytes()) == {key: 48}
        assert len(server.requests) == 2


def test_a_width_that_cannot_be_asked_for_is_not_remembered(tmp_path: Path) -> None:
    with ProviderServer(key="another") as server, pytest.raises(CredentialsError):
        embedder_on(server, "litellm", tmp_path / "widths.json", dimensions=None)
    assert not (tmp_path / "widths.json").exists()


def test_known_and_configured_widths_are_not_asked_for(tmp_path: Path) -> None:
    with ProviderServer() as server:
        assert embedder_on(server, "ollama", tmp_path / "w.json", dimensions=None).identity.dimensions == 768
        assert embedder_on(server, "litellm", tmp_path / "w.json", dimensions=12).identity.dimensions == 12
        assert server.requests == []


def test_an_identity_and_where_the_model_is_lead_back_to_its_queries() -> None:
    with ProviderServer() as server:
        embedder = embedder_on(server, "voyage", revision="2026")
        access = ModelAccess(api_base=server.api_base, dimensions=64)
        again = embedder_of_identity(embedder.identity, "voyage-4-lite", access)
        assert again.identity == embedder.identity
        assert np.array_equal(again.embed_query("kettle"), unit(server, "kettle"))
        assert server.requests[0].body["output_dimension"] == 64


def test_prompts_take_their_tokens_from_what_a_text_may_have() -> None:
    with ProviderServer() as server:
        plain = embedder_on(server).max_tokens
        prompted = embedder_on(server, document_prompt="read this: ").max_tokens
    assert plain == 8191
    assert prompted is not None
    assert prompted < plain


@given(tokens=st.lists(st.integers(0, 300), max_size=60), batch_size=st.integers(1, 20), batch_tokens=st.integers(1, 500))
def test_requests_cover_all_texts_in_order_and_keep_to_their_limits(
    tokens: list[int], batch_size: int, batch_tokens: int
) -> None:
    spans = requests_of(np.array(tokens, dtype=np.int64), batch_size, batch_tokens)
    assert [place for first, last in spans for place in range(first, last)] == list(range(len(tokens)))
    for first, last in spans:
        assert 1 <= last - first <= batch_size
        assert sum(tokens[first:last]) <= batch_tokens or last - first == 1
    for (first, last), (_, following) in itertools.pairwise(spans):
        assert last - first == batch_size or sum(tokens[first : last + 1]) > batch_tokens, "no request is needlessly small"
        assert following > last
