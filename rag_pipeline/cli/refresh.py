"""`rag-pipeline refresh`: reconcile corpora with their sources and publish what changed."""

from __future__ import annotations

import argparse
import math
import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

from rag_pipeline.cli.output import money, print_json, print_line
from rag_pipeline.config import CorpusConfig, corpora_root, data_root
from rag_pipeline.errors import ConfigError, MissingExtraError
from rag_pipeline.wording import counted

if TYPE_CHECKING:
    from rag_pipeline.orchestration import RefreshOutcome
    from rag_pipeline.refresh import Reporter

_FAILURES_SHOWN = 10


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    parser = commands.add_parser("refresh", parents=[common], help="reconcile corpora with their sources and publish")
    parser.add_argument("corpora", nargs="*", metavar="CORPUS", help="by default all")
    parser.add_argument("--dry-run", action="store_true", help="say what would be done, and do nothing")
    parser.add_argument("--full", action="store_true", help="read and rebuild everything, whatever looks unchanged")
    parser.add_argument("--allow-deletes", action="store_true", help="lift the limit on how many documents may vanish")
    parser.add_argument("--accept-drop", action="store_true", help="publish even what the corpus's gates refuse")
    parser.add_argument("--wait", type=seconds, default=0.0, metavar="SECONDS", help="wait for another refresh to finish")
    parser.set_defaults(run=run)


def seconds(text: str) -> float:
    """An argument that is a number of seconds."""
    try:
        number = float(text)
    except ValueError:
        number = math.nan
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"expected a number of seconds such as 60, got {text!r}")
    return number


def run(arguments: argparse.Namespace) -> int:
    corpora = _chosen(arguments.corpora)
    data_root()
    if arguments.dry_run:
        return _dry_run(arguments, corpora)
    outcomes = []
    for corpus in corpora:
        outcome = refresh_corpus(
            corpus,
            arguments,
            full=arguments.full,
            allow_deletes=arguments.allow_deletes,
            accept_drop=arguments.accept_drop,
            wait_seconds=arguments.wait,
            retries=0,  # whoever waits at a terminal is told at once
        )
        outcomes.append(outcome)
        print_outcome(outcome, corpus, arguments)
    if arguments.json:
        print_json([outcome_json(outcome) for outcome in outcomes])
    failed = [outcome for outcome in outcomes if outcome.error is not None]
    if not failed:
        return 0
    return 2 if all(outcome.misconfigured for outcome in failed) else 1


def refresh_corpus(corpus: CorpusConfig, arguments: argparse.Namespace, **settings: Any) -> RefreshOutcome:
    """Refresh one corpus, with the `settings` of a run.

    Raises:
        MissingExtraError: what refreshing takes is not installed.
    """
    try:
        from rag_pipeline.orchestration import RefreshSettings, run_refresh
    except ModuleNotFoundError as error:
        raise MissingExtraError(str(error.name), "pipeline", "refreshing a corpus") from None
    with _progress(arguments) as reporter:
        return run_refresh(corpus, RefreshSettings(**settings), reporter)


def print_outcome(outcome: RefreshOutcome, corpus: CorpusConfig, arguments: argparse.Namespace) -> None:
    """What people should know of a refresh; with --json only why it failed."""
    if outcome.error is not None:
        sys.stderr.write(f"rag-pipeline: {outcome.error}\n")
        _print_paid(outcome)
        if arguments.debug and outcome.trace:
            sys.stderr.write(f"{outcome.trace}\n")
    elif not arguments.json:
        print_line(_summary(outcome))
        for reason in outcome_json(outcome)["reasons"]:
            print_line(f"  {reason}")
        _print_embedder(outcome, automatic=corpus.embedding.provider == "auto")
        _print_context_lines(outcome)
        _print_language(outcome, automatic=corpus.lexical.language == "auto")
        _print_failures(outcome)
        _print_evaluation(outcome)


def _print_paid(outcome: RefreshOutcome) -> None:
    """What a refresh that failed has cost all the same."""
    values, chunks = outcome_json(outcome), outcome.reports.get("chunks")
    lines = chunks.model_dump() if chunks is not None else outcome.at_failure
    tokens = (values["tokens"] or 0) + lines.get("context_tokens", 0)
    if tokens and values["cost_usd"] != 0:
        print_line(
            f"  {tokens} tokens were sent before, {money(values['cost_usd'])}; what came of them is kept", stderr=True
        )


def _chosen(names: list[str]) -> list[CorpusConfig]:
    from rag_pipeline.corpus_files import find_corpus, load_corpora

    root = corpora_root()
    if names:
        return [find_corpus(root, name) for name in dict.fromkeys(names)]
    corpora = load_corpora(root)
    if not corpora:
        raise ConfigError(f"no corpora under {root}; `rag-pipeline new NAME --source PATH` makes one")
    return corpora


def _progress(arguments: argparse.Namespace) -> AbstractContextManager[Reporter]:
    """Bars on a terminal; elsewhere a line on stderr now and then, when a stage goes on for long."""
    from rag_pipeline.refresh import Lines

    if arguments.json or not sys.stderr.isatty():
        return nullcontext(Lines(lambda line: print_line(line, stderr=True)))
    from rag_pipeline.cli.progress import TerminalProgress

    return TerminalProgress()


def _dry_run(arguments: argparse.Namespace, corpora: list[CorpusConfig]) -> int:
    from rag_pipeline.refresh.context import RefreshContext
    from rag_pipeline.refresh.plan import plan_refresh

    plans = [
        plan_refresh(
            RefreshContext(corpus, data_root(), full=arguments.full, allow_deletes=arguments.allow_deletes, dry_run=True)
        )
        for corpus in corpora
    ]
    if arguments.json:
        print_json([plan.model_dump(mode="json") for plan in plans])
        return 1 if any(plan.stops is not None for plan in plans) else 0
    for plan in plans:
        if plan.documents is not None:
            found = plan.documents
            print_line(
                f"{plan.corpus}: {counted(found.added, 'document')} added, {found.changed} changed, "
                f"{found.removed} removed, {found.unchanged} unchanged, {found.failed} failed"
            )
            print_line(
                f"  {counted(plan.documents_to_chunk, 'document')} to cut, {counted(plan.chunks_to_add, 'new chunk')}, "
                f"{counted(plan.texts_to_embed, 'text')} to embed with {plan.embedder} "
                f"({counted(plan.tokens_to_embed, 'token')}, {money(plan.cost_usd)})"
            )
        if plan.context_lines_to_write:
            print_line(
                f"  {counted(plan.context_lines_to_write, 'context line')} to be written, whose tokens are not counted here"
            )
        for reason in plan.reasons:
            print_line(f"  {reason}")
        if plan.stops is not None:
            head = "the refresh" if plan.stops.startswith("would stop") else "the refresh would stop:"
            print_line(f"{plan.corpus}: {head} {plan.stops}")
    return 1 if any(plan.stops is not None for plan in plans) else 0


def _print_embedder(outcome: RefreshOutcome, automatic: bool) -> None:
    """What people should know of the embedder: which one was chosen, another one than before, what it cost."""
    report = outcome.reports.get("embeddings")
    if report is None:
        return
    values = report.model_dump()
    for reason in values["turned_from"]:
        print_line(f"  could not be had: {reason}")
    if automatic and values["identity_before"] is None:
        print_line(f"  provider auto chose {values['identity']}")
    if values["identity_before"] is not None:
        print_line(f"  the embedder is now {values['identity']}, before {values['identity_before']}")
    if values["cost_usd"] != 0:
        print_line(f"  {values['tokens']} tokens sent to {values['identity']}, {money(values['cost_usd'])}")


def _print_context_lines(outcome: RefreshOutcome) -> None:
    """What a chat model wrote, and what it cost."""
    report = outcome.reports.get("chunks")
    values = report.model_dump() if report is not None else {}
    if values.get("context_lines_written"):
        cost = money(values["context_cost_usd"])
        print_line(f"  {values['context_lines_written']} context lines written, {values['context_tokens']} tokens, {cost}")
    if values.get("context_lines_missing"):
        print_line(f"  {values['context_lines_missing']} context lines are missing; the next refresh asks for them again")


def _cost(embeddings: dict[str, Any], chunks: dict[str, Any] | None) -> float | None:
    """What embedding and context lines cost together; None where one is not known."""
    costs = (embeddings["cost_usd"], chunks["context_cost_usd"] if chunks else 0.0)
    return None if None in costs else sum(costs)


def _print_language(outcome: RefreshOutcome, automatic: bool) -> None:
    """The language of the lexical index where it was found, when the index was built for it."""
    report = outcome.reports.get("bm25_index")
    if report is None:
        return
    values = report.model_dump()
    if values["language_before"] is not None:
        print_line(f"  the lexical language is now {values['language']}, before {values['language_before']}")
    elif automatic and values["rebuilt"]:
        print_line(f"  lexical language auto found {values['language']}")


def _print_failures(outcome: RefreshOutcome) -> None:
    failures = outcome_json(outcome)["failures"]
    for failure in failures[:_FAILURES_SHOWN]:
        kept = " (its last good version stays)" if failure["kept"] else ""
        print_line(f"  not read: {failure['source']}: {failure['reason']}{kept}")
    if len(failures) > _FAILURES_SHOWN:
        print_line(f"  … and {len(failures) - _FAILURES_SHOWN} more; --json lists all")
    incomplete = outcome_json(outcome)["incomplete"]
    for document in incomplete[:_FAILURES_SHOWN]:
        print_line(f"  read in part: {document['source']}: {document['reason']}")
    if len(incomplete) > _FAILURES_SHOWN:
        print_line(f"  … and {len(incomplete) - _FAILURES_SHOWN} more; --json lists all")


def _print_evaluation(outcome: RefreshOutcome) -> None:
    """What the gates let pass and people should know of."""
    report = outcome.reports.get("evaluation")
    for warning in report.model_dump()["warnings"] if report is not None else ():
        for line in f"evaluation: {warning}".splitlines():
            print_line(f"  {line}")


def _summary(outcome: RefreshOutcome) -> str:
    values = outcome_json(outcome)
    documents, chunks = values["documents"], values["chunks"]
    if values["status"] == "held":
        head = f"{outcome.corpus}: snapshot {values['snapshot']} is held by a rollback, nothing was published"
    elif values["status"] == "unchanged":
        head = f"{outcome.corpus}: nothing changed; snapshot {values['snapshot']} stays"
    else:
        head = f"{outcome.corpus}: snapshot {values['snapshot']} published"
    failed = f", {documents['failed']} failed" if documents["failed"] else ""
    return (
        f"{head}: {counted(documents['total'], 'document')} ({documents['added']} added, {documents['changed']} changed, "
        f"{documents['removed']} removed{failed}), {counted(chunks['total'], 'chunk')}, "
        f"{counted(values['embedded'], 'text')} embedded, {outcome.seconds:.1f} s"
    )


def outcome_json(outcome: RefreshOutcome) -> dict[str, Any]:
    """A refresh as `refresh --json` prints it; what a failed run did not get to is null."""
    reports = {stage: report.model_dump(mode="json") for stage, report in outcome.reports.items()}
    documents, chunks = reports.get("documents"), reports.get("chunks")
    embeddings, snapshot = reports.get("embeddings"), reports.get("snapshot")
    status = "failed" if outcome.error is not None else "unchanged"
    if outcome.error is None and snapshot is not None and snapshot["published"]:
        status = "published"
    elif outcome.error is None and snapshot is not None and snapshot["held"]:
        status = "held"
    named = ("total", "added", "changed", "removed", "unchanged", "failed")
    counts = {name: documents[name] for name in named} if documents else None
    if counts is not None and snapshot is not None and not snapshot["held"]:
        # What people ask for is how the answers may differ, so that a refresh that was killed before counts as well.
        counts |= {name: snapshot[f"documents_{name}"] for name in ("added", "changed", "removed")}
        counts["unchanged"] = counts["total"] - counts["added"] - counts["changed"]
    return {
        "corpus": outcome.corpus,
        "status": status,
        "snapshot": snapshot["snapshot"] if snapshot else None,
        "documents": counts,
        "reasons": snapshot["reasons"] if snapshot else [],
        "failures": documents["failures"] if documents else outcome.at_failure.get("failures", []),
        "incomplete": documents["incomplete"] if documents else [],
        "chunks": {name: chunks[name] for name in ("total", "added", "removed")} if chunks else None,
        "embedded": embeddings["embedded"] if embeddings else outcome.at_failure.get("embedded"),
        "cached": embeddings["cached"] if embeddings else None,
        "cost_usd": _cost(embeddings, chunks) if embeddings else outcome.at_failure.get("cost_usd"),
        "tokens": embeddings["tokens"] if embeddings else outcome.at_failure.get("tokens"),
        "embedder": embeddings["identity"] if embeddings else None,
        "language": reports["bm25_index"]["language"] if "bm25_index" in reports else None,
        "evaluation": reports.get("evaluation"),
        "seconds": outcome.seconds,
        "run_id": outcome.run_id,
        "error": outcome.error,
    }
