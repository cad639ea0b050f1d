"""Whether a candidate may be published: absolute gates, and how far it may fall behind the snapshot that is served."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Literal

from pydantic import Field

from rag_pipeline.config import EvaluationConfig
from rag_pipeline.contracts import Contract
from rag_pipeline.evaluation.results import QueryResult, Results
from rag_pipeline.evaluation.significance import Comparison, compare_paired
from rag_pipeline.wording import counted

DEFAULT_METRIC = "ndcg@10"
MAX_DROP = 0.02
"""How far a mean over a query set may fall by default."""
MAX_DROP_OF_KNOWN_ITEMS = 0.2
"""How far the mean of known items may fall by default: ordinary edits move it by up to 0.05, a parser that loses most of the
text of half the documents by 0.28, half the documents missing by 0.39 (docs/adr/0015-gates-and-known-items.md)."""
KNOWN_ITEMS_WARNING = 0.05
"""A fall of known items that is told and refuses nothing."""
FEWEST_KNOWN_ITEMS = 20
"""Fewer refuse nothing: one heading that was reworded would move their mean by more than 0.05."""

_ROUNDING = 1e-9
_FALLS_SHOWN = 5
_TEXT_SHOWN = 80


class Verdict(Contract):
    """One gate's finding: ``refusal`` keeps the candidate from being published, ``warning`` only tells of something.

    ``summary`` is one line, ``details`` are more, ``remedy`` is what to do about a refusal, or why it refuses nothing.
    ``numbers`` are shown beside it and plotted over time.
    """

    severity: Literal["fine", "warning", "refusal"] = "fine"
    summary: str
    details: tuple[str, ...] = ()
    remedy: str = ""
    numbers: dict[str, float] = Field(default_factory=dict)

    @property
    def finding(self) -> str:
        """What was found: a line, and indented ones with details."""
        return "\n  ".join((self.summary, *self.details))

    @property
    def description(self) -> str:
        """What was found and what to do about it."""
        return f"{self.finding}\n  {self.remedy}" if self.remedy else self.finding

    def softened(self, reason: str) -> Verdict:
        """A refusal as a warning, with the reason why it refuses nothing; anything else as it is."""
        if self.severity != "refusal":
            return self
        return self.model_copy(update={"severity": "warning", "remedy": reason})


def gated_mode(config: EvaluationConfig, results: Results) -> str:
    """The mode that gates hold for: the configured one, or BM25 where nothing else was measured."""
    return config.mode if config.mode in results.modes else "bm25"


def judge_gates(config: EvaluationConfig, results: Results) -> Verdict:
    """The absolute gates: each named mean is at least as high as corpus.yaml asks."""
    mode = gated_mode(config, results)
    found = {name: results.mean(mode, name) for name in config.gates}
    below = {name: value for name, value in found.items() if value < config.gates[name] - _ROUNDING}
    if not config.gates:
        return Verdict(summary="evaluation.gates names none.")
    shown = ", ".join(
        f"{name} {value:.3f} ({'below' if name in below else 'at least'} {config.gates[name]:g})"
        for name, value in found.items()
    )
    remedy = (
        "Mend what made it worse, or lower evaluation.gates; `refresh --accept-drop` publishes it once as it is."
        if below
        else ""
    )
    return Verdict(
        severity="refusal" if below else "fine",
        summary=f"{mode}, {counted(results.queries, 'query')}: {shown}.",
        remedy=remedy,
        numbers={name: round(value, 6) for name, value in found.items()},
    )


def judge_step_back(
    config: EvaluationConfig,
    before: Results | None,
    after: Results,
    served: int,
    documents: Collection[str] = (),
    removable: float = 0.0,
) -> Verdict:
    """The gated metrics against those of the snapshot that is served, on the same queries.

    Args:
        before: what the served snapshot found, or None when it was not asked the same queries.
        served: the number of the served snapshot.
        documents: of the candidate; looked at for known items only.
        removable: the part of the documents that answer known items that may be gone. So many are left out, before and
            after: whoever deletes documents does not want them found. When it is more, all of them count.
    """
    mode = gated_mode(config, after)
    pairs = list(paired_results(before, after, mode)) if before is not None else []
    if not pairs:
        return Verdict(summary=f"Snapshot {served} was not asked the same queries: there is nothing to compare.")
    metrics = tuple(config.gates) or (DEFAULT_METRIC,)
    if after.kind == "queries":
        allowed = config.max_drop if config.max_drop is not None else MAX_DROP
        return _verdict(
            f"{mode}, {counted(len(pairs), 'query')}, against snapshot {served}", pairs, metrics, allowed, allowed
        )
    allowed = config.max_drop if config.max_drop is not None else MAX_DROP_OF_KNOWN_ITEMS
    told = allowed if config.max_drop is not None else KNOWN_ITEMS_WARNING
    answers = [document for _, new in pairs for document in new.grades]
    removed = sum(document not in documents for document in answers)
    left_out = removed <= removable * len(answers) + _ROUNDING
    about = f"{mode}, {counted(len(pairs), 'known item')}, against snapshot {served}"
    if removed:
        about += f", {removed} of their {len(answers)} documents removed{', which are left out' if left_out else ''}"
    verdict = _verdict(about, _without_removed(pairs, documents) if left_out else pairs, metrics, allowed, told)
    if len(pairs) < FEWEST_KNOWN_ITEMS:
        return verdict.softened(f"Refuses nothing: too few, with {counted(len(pairs), 'known item')}.")
    return verdict


def _verdict(
    about: str, pairs: list[tuple[QueryResult, QueryResult]], metrics: Iterable[str], allowed: float, told: float
) -> Verdict:
    """A fall by more than ``allowed`` refuses, one by more than ``told`` is told."""
    compared = {name: compare_metric(pairs, name) for name in metrics}
    refused = [name for name, found in compared.items() if -found.difference > allowed + _ROUNDING]
    fallen = [name for name, found in compared.items() if -found.difference > told + _ROUNDING]
    shown = ", ".join(f"{name} {found.before:.3f} -> {found.after:.3f}" for name, found in compared.items())
    details = [
        f"{name} {found.difference:+.3f}: {found.worse} worse, {found.better} better, p = {found.p_value:.3f}"
        for name, found in compared.items()
    ]
    remedy = (
        "Mend what made it worse; if it is meant to be so, `refresh --accept-drop` publishes it, and evaluation.max_drop "
        "allows more."
    )
    return Verdict(
        severity="refusal" if refused else "warning" if fallen else "fine",
        summary=f"{about}: {shown}; max_drop is {allowed:g}.",
        details=(*details, *(_falls(pairs, fallen[0]) if fallen else ())),
        remedy=remedy if refused else "",
        numbers={f"{name} change": round(found.difference, 6) for name, found in compared.items()},
    )


def _without_removed(
    pairs: list[tuple[QueryResult, QueryResult]], documents: Collection[str]
) -> list[tuple[QueryResult, QueryResult]]:
    """The pairs judged by the documents that are still there; those without any are left out."""
    kept = []
    for old, new in pairs:
        gone = {document for document in new.grades if document not in documents}
        if len(gone) < len(new.grades):
            kept.append((old.without(gone), new.without(gone)) if gone else (old, new))
    return kept


def paired_results(before: Results, after: Results, mode: str) -> Iterable[tuple[QueryResult, QueryResult]]:
    """The results of the queries that count before and were asked after as well."""
    later = {result.query_id: result for result in after.modes.get(mode, ())}
    for result in before.modes.get(mode, ()):
        if result.counted and result.query_id in later:
            yield result, later[result.query_id]


def compare_metric(pairs: list[tuple[QueryResult, QueryResult]], metric: str) -> Comparison:
    """One metric of the same queries, before and after."""
    return compare_paired([old.figure(metric) for old, _ in pairs], [new.figure(metric) for _, new in pairs])


def _falls(pairs: list[tuple[QueryResult, QueryResult]], metric: str) -> Iterable[str]:
    """The queries that fell most, a line each."""
    figures = [(old.figure(metric), new.figure(metric), old) for old, new in pairs]
    falls = sorted((new - old, query.query_id, old, new, query.text) for old, new, query in figures if new < old)
    for _, name, old, new, text in falls[:_FALLS_SHOWN]:
        yield f"{name} {text[:_TEXT_SHOWN]!r} {metric} {old:.2f} -> {new:.2f}"
    if len(falls) > _FALLS_SHOWN:
        yield f"… and {len(falls) - _FALLS_SHOWN} more that fell"
