"""`rag-pipeline evaluate --generation`: how good the answers are that a chat model gives from a snapshot."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from rag_pipeline.cli.output import money, print_json, print_line, print_table
from rag_pipeline.cli.warnings import warnings_on_stderr
from rag_pipeline.errors import ConfigError
from rag_pipeline.query import Index
from rag_pipeline.wording import counted

if TYPE_CHECKING:
    from rag_pipeline.config import CorpusConfig
    from rag_pipeline.evaluation import GenerationEvaluation

_SETTINGS = {
    "model": "the chat model that answers, by LiteLLM's name, such as openai/gpt-4o-mini",
    "api_base": "its address, where it is not the provider's own",
    "judge_model": "the chat model that judges; by default the one that answers",
    "judge_api_base": "its address; by default --api-base for a model of the same provider",
}
_FAILURES_SHOWN = 10
_TEXT_SHOWN = 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--generation", action="store_true", help="have a chat model answer the queries, and judge the answers"
    )
    group = parser.add_argument_group("with --generation", "what is not given is taken from evaluation.generation")
    for name, what in _SETTINGS.items():
        metavar = "ADDRESS" if name.endswith("base") else "MODEL"
        group.add_argument(f"--{name.replace('_', '-')}", metavar=metavar, help=what)
    group.add_argument("-k", type=int, dest="top_k", metavar="N", help="chunks that it answers from (default 5)")
    group.add_argument("--limit", type=int, metavar="N", help="ask only N queries, chosen by hash")
    group.add_argument("--per-query", action="store_true", help="show the scores of each query too")


def check_arguments(arguments: argparse.Namespace) -> None:
    """
    Raises:
        ConfigError: options stand there that need another one, or a number cannot be.
    """
    given = [name for name in (*_SETTINGS, "top_k", "limit") if getattr(arguments, name) is not None]
    given += ["per_query"] if arguments.per_query else []
    if given and not arguments.generation:
        option = "-k" if given[0] == "top_k" else f"--{given[0].replace('_', '-')}"
        raise ConfigError(f"evaluate: {option}: expected with --generation only")
    if arguments.limit is not None and arguments.limit < 1:
        raise ConfigError(f"evaluate: --limit: expected a whole number of at least 1, got {arguments.limit}")


def run(arguments: argparse.Namespace, corpus: CorpusConfig) -> int:
    from rag_pipeline.evaluation import chosen_settings, evaluate_generation, load_query_set

    given = {name: getattr(arguments, name) for name in (*_SETTINGS, "top_k")}
    settings = chosen_settings(corpus.evaluation.generation, **given)
    queries = load_query_set(corpus)
    index = Index.open(arguments.corpus, snapshot=arguments.snapshot)
    count = min(arguments.limit or len(queries.queries), len(queries.queries))
    with warnings_on_stderr(), _progress(arguments, index.corpus, count) as advance:
        evaluation = evaluate_generation(index, queries, settings, limit=arguments.limit, advance=advance)
    if arguments.json:
        print_json(_as_json(evaluation))
    else:
        _print(evaluation, arguments.per_query)
    return 0


@contextmanager
def _progress(arguments: argparse.Namespace, corpus: str, count: int) -> Iterator[Callable[[int], None] | None]:
    if arguments.json or not sys.stderr.isatty():
        yield None
        return
    from rag_pipeline.cli.progress import TerminalProgress

    with TerminalProgress() as progress:
        progress.begin(corpus, "generation", count, "queries")
        yield progress.advance


def _as_json(evaluation: GenerationEvaluation) -> dict[str, Any]:
    values = evaluation.model_dump(mode="json", exclude={"results"})
    means = {name: mean.model_dump(mode="json") for name, mean in evaluation.means().items()}
    counts = {"queries": len(evaluation.results), "failed": len(evaluation.failed)}
    results = [result.model_dump(mode="json") for result in evaluation.results]
    return {**values, **counts, "metrics": means, "results": results}


def _print(evaluation: GenerationEvaluation, per_query: bool) -> None:
    asked, available = len(evaluation.results), evaluation.queries_available
    count = counted(asked, "query") if asked == available else f"{asked} of {counted(available, 'query')}"
    print_line(
        f"{evaluation.corpus}, snapshot {evaluation.snapshot}: {count}, answered by {evaluation.model} from "
        f"{counted(evaluation.top_k, 'chunk')}, judged by {evaluation.judge_model}"
    )
    means = evaluation.means()
    print_table(("metric", "mean", "queries"), [[name, _figure(mean.mean), mean.queries] for name, mean in means.items()])
    if per_query:
        print_line()
        rows = [
            [result.query_id, *(_figure(result.scores.get(name)) for name in means), _shortened(result.text)]
            for result in evaluation.results
        ]
        print_table(("query", *means, "text"), rows)
    for used in evaluation.usage:
        print_line(
            f"{used.model}: {counted(used.requests, 'request')}, {counted(used.prompt_tokens, 'token')} read "
            f"and {used.completion_tokens} written, {money(used.cost_usd)}"
        )
    failures = [
        f"  {result.query_id}: {step}: {reason}" for result in evaluation.failed for step, reason in result.failures.items()
    ]
    if failures:
        print_line(f"{len(evaluation.failed)} of {counted(asked, 'query')} without a figure:")
    for line in failures[:_FAILURES_SHOWN]:
        print_line(line)
    if len(failures) > _FAILURES_SHOWN:
        print_line(f"  … and {len(failures) - _FAILURES_SHOWN} more; --json lists all")


def _figure(value: float | None) -> str | None:
    return f"{value:.3f}" if value is not None else None


def _shortened(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= _TEXT_SHOWN else f"{line[: _TEXT_SHOWN - 1]}…"
