"""corpus.yaml is read strictly, and every fault is told with file, key and what was expected."""

from __future__ import annotations

import pytest

from rag_pipeline.config import corpora_root, data_root
from rag_pipeline.corpus_files import find_corpus, load_corpora, load_corpus
from rag_pipeline.errors import ConfigError
from rag_pipeline_tests.conftest import Workspace


def faults(workspace: Workspace, yaml: str, name: str = "docs") -> str:
    folder = workspace.corpus(name, yaml)
    with pytest.raises(ConfigError) as caught:
        load_corpus(folder)
    return str(caught.value)


def test_a_source_alone_is_a_whole_configuration(workspace: Workspace) -> None:
    config = load_corpus(workspace.corpus(yaml="source: {path: files}\n"))
    assert (config.name, config.embedding.provider, config.lexical.language) == ("docs", "static", "auto")
    assert (config.chunking.size, config.chunking.overlap) == (480, 64)
    assert not config.schedule.enabled
    assert config.source_path == workspace.corpora / "docs" / "files"


@pytest.mark.parametrize(
    ("yaml", "words"),
    [
        ("source: {path: files}\nchunkin: {}\n", ["chunkin", "unknown key", "chunking"]),
        ("source: {path: files, includ: []}\n", ["source.includ", "unknown key", "include"]),
        ("description: x\n", ["source", "required"]),
        ("source: {path: 7}\n", ["source.path", "a valid string", "7"]),
        ("source: {path: files, include: '**'}\n", ["source.include", "a list", "'**'"]),
        ("source: {path: files, include: ['/etc/*']}\n", ["source.include.0", "relative"]),
        ("source: {path: files, include: ['../*']}\n", ["source.include.0", "relative"]),
        ("source: {path: files, format: csv}\n", ["source.format", "files, jsonl or parquet", "'csv'"]),
        ("source: {path: files, fields: {id: a}}\n", ["source.fields", "jsonl or parquet"]),
        ("source: files\n", ["source", "keys and values", "'files'"]),
        ("source: {path: files}\nchunking: {size: big}\n", ["chunking.size", "integer", "'big'"]),
        ("source: {path: files}\nchunking: {size: 64, overlap: 64}\n", ["chunking.overlap", "less than size (64)", "64"]),
        ("source: {path: files}\nchunking: {strategy: magic}\n", ["chunking.strategy", "recursive", "'magic'"]),
        ("source: {path: files}\nembedding: {provider: cohere}\n", ["embedding.provider", "voyage, openai", "'cohere'"]),
        ("source: {path: files}\nembedding: {provider: static, dimensions: 64}\n", ["embedding.dimensions", "256", "64"]),
        ("source: {path: files}\nmetadata: {year: integer}\n", ["metadata.year", "string, int", "'integer'"]),
        ("source: {path: files}\nmetadata: {path: string}\n", ["metadata", "'path'", "already"]),
        ("source: {path: files}\nmetadata: {Vector: string}\n", ["metadata", "'Vector'", "already"]),
        ("source: {path: files}\nmetadata: {a: int, A: int}\n", ["metadata", "'A'", "capitals"]),
        ("source: {path: files}\nmetadata: {'a b': int}\n", ["metadata", "'a b'", "letters"]),
        ("source: {path: files}\nlexical: {language: klingon}\n", ["lexical.language", "english", "'klingon'"]),
        ("source: {path: files}\nlexical: {b: 2}\n", ["lexical.b", "less than or equal to 1", "2"]),
        ("source: {path: files}\nschedule: {cron: '0 25 * * *'}\n", ["schedule.cron", "hour", "'25'"]),
        ("source: {path: files}\nschedule: {cron: '0 3 * abc *'}\n", ["schedule.cron", "month", "'abc'"]),
        ("source: {path: files}\nschedule: {cron: '0 mon * * *'}\n", ["schedule.cron", "hour", "'mon'"]),
        ("source: {path: files}\nschedule: {cron: daily}\n", ["schedule.cron", "five fields", "'daily'"]),
        ("source: {path: files}\nschedule: {timezone: Mars/Base}\n", ["schedule.timezone", "Europe/Berlin", "Mars/Base"]),
        ("source: {path: files}\nfreshness: {max_age_hours: 0}\n", ["freshness.max_age_hours", "greater than 0"]),
        ("source: {path: files}\nowners: [docs]\n", ["owners.0", "team:name", "'docs'"]),
        ("source: {path: files}\nkeep_snapshots: 0\n", ["keep_snapshots", "greater than or equal to 1", "0"]),
        ("source: {path: files}\nkeep_snapshots: true\n", ["keep_snapshots", "integer", "True"]),
        ("source: {path: files}\nsafety: {max_delete_fraction: 30}\n", ["safety.max_delete_fraction", "30"]),
        ("source: {path: files}\nbudget: {usd_per_refresh: .inf}\n", ["budget.usd_per_refresh", "finite"]),
        ("source: {path: files}\nfreshness: {max_age_hours: .inf}\n", ["freshness.max_age_hours", "finite"]),
        ("name: other\nsource: {path: files}\n", ["name", "folder"]),
        ("", ["source", "nothing"]),
        ("- source\n", ["keys", "list"]),
        ("source: {path: files\n", ["not valid YAML"]),
        ("source: {path: a}\nsource: {path: b}\n", ["corpus.yaml:2", "'source'", "twice"]),
    ],
)  # fmt: skip
def test_a_fault_names_the_file_the_key_and_what_was_expected(workspace: Workspace, yaml: str, words: list[str]) -> None:
    message = faults(workspace, yaml)
    for word in ["docs/corpus.yaml", *words]:
        assert word in message


@pytest.mark.parametrize(
    "address",
    ["http://host:abc/v1", "http://host:99999/v1", "http://host:0/v1", "http://a host/v1", "http://host/v1 ",
     "http://[::1/v1", "http://[nonsense]:80/v1", "http://::1:8000/v1", "ftp://host/v1", "host:8000"],
)  # fmt: skip
def test_an_address_that_cannot_be_asked_is_refused_with_the_expected_form(workspace: Workspace, address: str) -> None:
    message = faults(workspace, f"source: {{path: files}}\nembedding: {{provider: openai, api_base: '{address}'}}\n")
    assert "embedding.api_base: expected an address such as 'http://127.0.0.1:8000/v1'" in message


@pytest.mark.parametrize("address", ["http://127.0.0.1:8000/v1", "https://host.example", "http://[::1]:8000/v1"])
def test_an_address_of_any_kind_of_host_is_taken(workspace: Workspace, address: str) -> None:
    folder = workspace.corpus(yaml=f"source: {{path: files}}\nembedding: {{provider: openai, api_base: '{address}'}}\n")
    assert load_corpus(folder).embedding.api_base == address


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ("fallback: [{provider: hash, oops: 1}]", ["fallback.0.oops: unknown key", "dimensions"]),
        ("fallback: [{provider: hash, fallback: []}]", ["fallback.0.fallback: unknown key"]),
        ("retry_seconds: .inf", ["retry_seconds", "finite number, got inf"]),
        ("timeout_seconds: .nan", ["timeout_seconds", "finite number, got nan"]),
        ("usd_per_million_tokens: .nan", ["usd_per_million_tokens", "finite"]),
        ("revision: 2026-12-01", ["revision", "got 2026-12-01; put it in quotes"]),
        ("revision: 7", ["revision", "got 7; put it in quotes"]),
        (r'revision: "a\nb"', ["revision", "control characters"]),
        (r'model: "a\x1bb"', ["model", "control characters"]),
        (r'api_base: "http://a/\x01b"', ["api_base", "control characters"]),
    ],
)
def test_a_fault_of_an_embedder_names_its_key(workspace: Workspace, values: str, words: list[str]) -> None:
    message = faults(workspace, f"source: {{path: files}}\nembedding: {{provider: openai, {values}}}\n")
    assert message.startswith(f"{workspace.corpora}/docs/corpus.yaml: embedding.{words[0]}")
    for word in words:
        assert word in message


def test_all_faults_of_a_file_are_shown_at_once(workspace: Workspace) -> None:
    message = faults(
        workspace,
        "sorce: {path: x}\nchunking: {size: 64, overlap: 64, sise: 1}\nmetadata: {path: string}\nkeep_snapshots: none\n",
    )
    keys = [line.split(": ")[1] for line in message.splitlines()]
    assert sorted(keys) == ["chunking.overlap", "chunking.sise", "keep_snapshots", "metadata.path", "sorce", "source"]


def test_a_small_size_alone_brings_an_overlap_that_fits(workspace: Workspace) -> None:
    config = load_corpus(workspace.corpus(yaml="source: {path: files}\nchunking: {size: 32}\n"))
    assert config.chunking.overlap < config.chunking.size


@pytest.mark.parametrize(
    ("chunking", "expected"),
    [
        ("{}", ("recursive", 480, 64)),
        ("{strategy: semantic}", ("semantic", 480, 0)),
        ("{strategy: parent-child}", ("parent-child", 160, 0, 480)),
        ("{strategy: parent-child, size: 100, overlap: 20}", ("parent-child", 100, 20, 300)),
    ],
)
def test_defaults_of_chunking_follow_from_its_strategy(
    workspace: Workspace, chunking: str, expected: tuple[object, ...]
) -> None:
    config = load_corpus(workspace.corpus(yaml=f"source: {{path: files}}\nchunking: {chunking}\n")).chunking
    assert (config.strategy, config.size, config.overlap, config.parent_size)[: len(expected)] == expected


@pytest.mark.parametrize(
    ("chunking", "message"),
    [
        ("{parent_size: 900}", "chunking.parent_size: expected with strategy: parent-child only, not with recursive"),
        ("{percentile: 90}", "chunking.percentile: expected with strategy: semantic only, not with recursive"),
        ("{strategy: semantic, overlap: 9}", "chunking.overlap: expected 0 or nothing with strategy: semantic"),
        ("{strategy: parent-child, parent_size: 100}", "chunking.parent_size: expected at least size (160), got 100"),
        ("{context: llm}", "chunking: expected context_model with context: llm, such as 'openai/gpt-4o-mini'"),
        ("{context_model: openai/x}", "chunking.context_model: expected with context: llm only"),
        ("{context: llm, context_model: a/b, context_api_base: 'http://u:p@h/'}", "chunking.context_api_base: expected an"),
        ("{strategy: clever}", "chunking.strategy: expected one of recursive, semantic or parent-child, got 'clever'"),
    ],
)
def test_keys_of_chunking_that_do_not_belong_together_are_refused(workspace: Workspace, chunking: str, message: str) -> None:
    (line,) = faults(workspace, f"source: {{path: files}}\nchunking: {chunking}\n").splitlines()
    assert message in line


@pytest.mark.parametrize("name", ["Docs", "1docs", "my-docs", "embeddings"])
def test_a_folder_whose_name_cannot_be_a_corpus_is_refused(workspace: Workspace, name: str) -> None:
    assert "expected [a-z]" in faults(workspace, "source: {path: files}\n", name)


def test_the_faults_of_all_corpora_come_together(workspace: Workspace) -> None:
    workspace.corpus("good")
    workspace.corpus("bad", "sorce: 1\n")
    workspace.corpus("worse", "chunks: 1\n")
    with pytest.raises(ConfigError) as caught:
        load_corpora(workspace.corpora)
    assert "bad/corpus.yaml: sorce" in str(caught.value)
    assert "worse/corpus.yaml: chunks" in str(caught.value)


def test_an_unknown_corpus_is_told_with_those_that_exist(workspace: Workspace) -> None:
    workspace.corpus("good")
    with pytest.raises(ConfigError, match=r"no corpus 'god'.*there: good"):
        find_corpus(workspace.corpora, "god")


def test_a_corpus_name_cannot_leave_the_corpora_root(workspace: Workspace) -> None:
    workspace.corpus("good")
    with pytest.raises(ConfigError, match="no corpus"):
        find_corpus(workspace.corpora / "good", "../good")


def test_the_roots_come_from_the_environment(workspace: Workspace, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PIPELINE_CORPORA", str(workspace.corpora))
    monkeypatch.setenv("RAG_PIPELINE_DATA", str(workspace.data))
    assert (corpora_root(), data_root()) == (workspace.corpora, workspace.data)


def test_a_data_root_in_a_bucket_is_read_with_the_credentials_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PIPELINE_DATA", "s3://bucket/a prefix/")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "key")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "hidden")
    root = data_root()
    assert str(root / "docs") == "s3://bucket/a prefix/docs"
    assert "hidden" not in repr(root) + repr(vars(type(root))) + str(root)


@pytest.mark.parametrize(
    "root", ["ftp://bucket/x", "s3://", "s3://key:hidden@bucket/x", "s3://bucket/a//b", "s3://bucket/../b"]
)
def test_a_data_root_that_is_no_address_is_refused_with_the_variable(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAG_PIPELINE_DATA", root)
    with pytest.raises(ConfigError, match=r"^RAG_PIPELINE_DATA: expected s3://bucket/prefix") as raised:
        data_root()
    assert "hidden" not in str(raised.value)


@pytest.mark.parametrize(
    ("source", "faults"),
    [
        ("path: 's3://key:hidden@bucket/x'", ["source.path", "keys belong into the environment"]),
        ("path: files, storage_options: {region: x}", ["source.storage_options", "a path in a bucket only"]),
        ("path: 's3://b/x', storage_options: {secret_access_key: hidden}", ["AWS_SECRET_ACCESS_KEY", "`profile`"]),
        ("path: 'az://b/x', storage_options: {account_key: hidden}", ["AZURE_STORAGE_ACCOUNT_KEY"]),
        ("path: 's3://b/x', storage_options: {endpoint: 'http://u:hidden@h'}", ["source.storage_options.endpoint"]),
        ("path: 's3://b/x', storage_options: {enpoint: 'http://h'}", ["source.storage_options.enpoint: unknown key"]),
    ],
)
def test_secrets_and_faults_of_a_bucket_are_refused_and_never_shown(
    workspace: Workspace, source: str, faults: list[str]
) -> None:
    workspace.corpus(yaml=f"source: {{{source}}}\n")
    with pytest.raises(ConfigError) as raised:
        workspace.config()
    for fault in faults:
        assert fault in str(raised.value)
    assert "hidden" not in str(raised.value)
