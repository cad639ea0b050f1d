"""Stage `evaluation`: ask the candidate, before anything is published, and say whether the corpus's gates let it pass.

What a content answers to a query set is found out once and kept in the store. A refresh that changed nothing asks nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

from rag_pipeline.contracts import EvaluationRecord, Manifest, TableVersion, TunedFusion
from rag_pipeline.embedding import Embedder
from rag_pipeline.errors import GateError, StoreError
from rag_pipeline.evaluation.asking import ask
from rag_pipeline.evaluation.evaluate import modes_of, open_candidate
from rag_pipeline.evaluation.gates import Verdict, judge_gates, judge_step_back
from rag_pipeline.evaluation.known_items import known_items, renamed
from rag_pipeline.evaluation.query_set import QuerySet, configured_queries
from rag_pipeline.evaluation.query_vectors import remember_queries
from rag_pipeline.evaluation.results import Results, asked_again, read_results, write_results
from rag_pipeline.evaluation.tuning import ask_and_tune
from rag_pipeline.index.retention import drop_evaluations
from rag_pipeline.index.snapshot import is_held, open_vector_table, served_manifest
from rag_pipeline.index.store import EVALUATIONS, VECTORS, CorpusStore
from rag_pipeline.lance import delete_keys
from rag_pipeline.refresh.candidate import Candidate, check_agreement, working_candidate
from rag_pipeline.refresh.context import RefreshContext
from rag_pipeline.refresh.fusion_record import FusionRecord, fusion_record_of, write_fusion_record
from rag_pipeline.refresh.garbage import collects_own_garbage
from rag_pipeline.refresh.reports import EvaluationReport
from rag_pipeline.wording import counted

_DRIFT = 0.05
"""While less than this part of a corpus has changed, its known items are not asked again: they would find the same, and
asking them would cost a small refresh of a large corpus more than all the rest of it."""

_CHEAP_PROVIDERS = frozenset({"static", "hash"})
"""Embedding a query with them costs less than reading its vector."""


@dataclass(frozen=True)
class Judgement:
    """What was measured of the candidate, and what the gates say to it.

    ``gates`` and ``step_back`` refuse only what would be published otherwise; ``accepted`` are refusals that
    `--accept-drop` has turned into warnings. ``candidate`` is the hash of its content, and ``drift`` how far it is from the
    content that was measured. ``fusion`` is what the query set chose.
    """

    results: Results
    fusion: TunedFusion | None
    gates: Verdict
    step_back: Verdict
    accepted: tuple[str, ...]
    candidate: str
    drift: float

    @property
    def refusals(self) -> tuple[str, ...]:
        return tuple(found.description for found in (self.gates, self.step_back) if found.severity == "refusal")

    @property
    def warnings(self) -> tuple[str, ...]:
        return tuple(found.description for found in (self.gates, self.step_back) if found.severity == "warning")

    @property
    def record(self) -> EvaluationRecord:
        """What the manifest keeps of it."""
        return EvaluationRecord(
            kind=self.results.kind,
            query_set=self.results.query_set,
            queries=self.results.queries,
            figures={
                mode: {name: round(value, 6) for name, value in figures.items()}
                for mode, figures in self.results.figures().items()
            },
            accepted=self.accepted,
            content=self.results.content if self.results.content != self.candidate else None,
            drift=round(self.drift, 6),
        )


@collects_own_garbage
def evaluate_candidate(context: RefreshContext) -> EvaluationReport:
    """Measure the candidate, unless the store knows its figures already. Raises nothing for bad figures: see the report.

    Raises:
        ConfigError: the query set cannot be read.
        StoreError: an earlier stage has not run.
        ConflictError: the tables do not belong together.
        ProviderError: a hosted model did not embed a query.
    """
    candidate = working_candidate(context, "evaluation")
    queries = configured_queries(context.corpus)
    known = None if context.full else _remembered(context, candidate, queries)
    asked = embedded = 0
    if known is None:
        check_agreement(context, candidate)
        known, embedded = _measure(context, candidate, queries)
        asked = sum(len(found) for found in known.results.modes.values())
    else:
        context.reporter.begin(context.corpus.name, "evaluation", 0, "searches")
    results = known.results
    judgement = _judge(context, candidate, known)
    warnings = judgement.warnings
    lost = queries.lost(candidate.content.documents) if queries is not None else None
    if lost is not None and not any(lost in warning for warning in warnings):
        warnings = (*warnings, lost)
    context.reporter.end(f"{counted(results.queries, 'query')}, {counted(asked, 'search')}")
    return EvaluationReport(
        kind=results.kind,
        query_set=results.query_set,
        queries=results.queries,
        searches=asked,
        queries_embedded=embedded,
        drift=judgement.record.drift,
        fusion=judgement.fusion,
        figures=judgement.record.figures,
        refusals=judgement.refusals,
        warnings=warnings,
        accepted=bool(judgement.accepted),
    )


def refresh_evaluation(context: RefreshContext) -> EvaluationReport:
    """The stage where no asset check stands behind it.

    Raises:
        GateError: the candidate answers worse than the corpus's gates allow.
    """
    report = evaluate_candidate(context)
    if report.refusals:
        raise gate_error(context, report.refusals)
    return report


def judge_candidate(context: RefreshContext, stage: str) -> Judgement:
    """What the `evaluation` stage has found out about the candidate.

    Raises:
        StoreError: it has not run since the candidate changed.
    """
    candidate = working_candidate(context, stage)
    known = _remembered(context, candidate, configured_queries(context.corpus))
    if known is None:
        raise StoreError(
            f"{context.corpus.name}: the candidate was not evaluated; run the stage `evaluation` before `{stage}`"
        )
    return _judge(context, candidate, known)


def gate_error(context: RefreshContext, refusals: tuple[str, ...]) -> GateError:
    """The error that refuses a candidate."""
    found = "\n".join(refusals)
    return GateError(f"{context.corpus.name}: nothing was published, the candidate answers worse: {found}")


class _Remembered(NamedTuple):
    """Figures that the store holds, the fusion they were measured under where it was tuned, and how far the candidate is
    from the content they were measured on."""

    results: Results
    fusion: TunedFusion | None = None
    drift: float = 0.0


def _remembered(context: RefreshContext, candidate: Candidate, queries: QuerySet | None) -> _Remembered | None:
    results = _stored(context.store, candidate.hash, queries)
    record = fusion_record_of(context, candidate.hash, queries)
    if results is not None and record is not None:
        return _Remembered(results, record.fusion)
    return _near_enough(context, candidate) if queries is None else None


def _near_enough(context: RefreshContext, candidate: Candidate) -> _Remembered | None:
    """The known items' figures of the served snapshot, where the candidate differs from what they were measured on by
    little; None where they are to be measured.
    """
    served = served_manifest(context.store)
    record = served.evaluation if served is not None else None
    if served is None or record is None or record.kind != "known_items":
        return None
    old, new = served.content.documents, candidate.content.documents
    same_settings = served.content.model_copy(update={"documents": new}) == candidate.content
    gone, made = dict(old.items() - new.items()), dict(new.items() - old.items())
    changed = len(gone | made) / max(len(old), len(new), 1)
    chunks = abs(candidate.counts.chunks - served.counts.chunks) / max(candidate.counts.chunks, served.counts.chunks, 1)
    drift = record.drift + max(changed, chunks)
    if not same_settings or drift > _DRIFT:
        return None
    results = read_results(context.store, record.content or served.hash, "known_items")
    return _Remembered(results, drift=drift) if results is not None else None


def _stored(store: CorpusStore, content: str, queries: QuerySet | None) -> Results | None:
    if queries is None:
        return read_results(store, content, "known_items")
    return read_results(store, content, queries.kind, queries.hash)


def _measure(context: RefreshContext, candidate: Candidate, queries: QuerySet | None) -> tuple[_Remembered, int]:
    """Ask the candidate, and keep what it finds and how its hybrid searches are to fuse. Also tells how many queries a
    model embedded for it."""
    store, embedder = context.store, context.embedder
    manifest = candidate.manifest(context, 0, TableVersion(name=VECTORS, version=candidate.vectors_version, tag=None))
    also = _known_before(context, candidate) if queries is None else None
    if queries is None:
        queries = known_items(store.table(VECTORS))
    modes = modes_of(queries.kind, embedder.identity.provider)
    texts = [*queries.queries.values(), *(also.queries.values() if also is not None else ())]
    context.reporter.begin(context.corpus.name, "evaluation", len(texts) * len(modes), "searches")
    asking: Embedder = embedder
    embedded = 0
    if texts and modes != ("bm25",) and embedder.identity.provider not in _CHEAP_PROVIDERS:
        asking, embedded = remember_queries(store, embedder, context.embedder_config.query_model, texts)
    fusion = None
    if queries.kind == "queries" and context.corpus.retrieval.fusion == "auto":
        index = open_candidate(store, manifest, asking)
        results, fusion = ask_and_tune(index, queries, context.reporter.advance)
        write_fusion_record(store, FusionRecord(content=candidate.hash, query_set=queries.hash, fusion=fusion))
    elif texts:
        results = ask(open_candidate(store, manifest, asking), queries, modes, also, context.reporter.advance)
    else:
        nothing = {str(mode): () for mode in modes}
        results = Results(content=candidate.hash, kind=queries.kind, query_set=queries.hash, modes=nothing)
    table = store.table(EVALUATIONS)
    if table is not None and _stored(store, candidate.hash, queries if queries.kind == "queries" else None) is not None:
        delete_keys(table, "content", [candidate.hash])  # measured again by a full refresh
    write_results(store, results)
    drop_evaluations(store, candidate.hash)
    return _Remembered(results, fusion), embedded


def _known_before(context: RefreshContext, candidate: Candidate) -> QuerySet | None:
    """The known items of the served snapshot. A document that was renamed since is known by its new name."""
    served = served_manifest(context.store)
    if served is None or served.hash == candidate.hash:
        return None
    before = _served_known_items(context, served)
    if before is None:
        return None
    queries = asked_again(before)
    old, new = served.content.documents.keys(), candidate.content.documents.keys()
    answers = {document for grades in queries.qrels.values() for document in grades}
    before_table, after_table = open_vector_table(context.store, served), context.store.table(VECTORS)
    names = renamed(before_table, after_table, sorted(answers - new), sorted(new - old))
    qrels = {
        query: {name: grade for document, grade in grades.items() for name in names.get(document, [document])}
        for query, grades in queries.qrels.items()
    }
    return QuerySet(queries.queries, qrels, queries.kind)


def _served_known_items(context: RefreshContext, served: Manifest) -> Results | None:
    taken_over = served.evaluation.content if served.evaluation is not None else None
    return read_results(context.store, taken_over or served.hash, "known_items")


def _judge(context: RefreshContext, candidate: Candidate, known: _Remembered) -> Judgement:
    results = known.results
    config, served = context.corpus.evaluation, served_manifest(context.store)
    gates = judge_gates(config, results)
    if served is None:
        step_back = Verdict(summary="Nothing was published yet that this could fall behind.")
    elif served.hash == candidate.hash:
        step_back = Verdict(summary=f"Snapshot {served.snapshot}, which is served, holds the same.")
        gates = gates.softened(f"Refuses nothing: snapshot {served.snapshot}, which is served, holds the same.")
    elif results.content != candidate.hash:
        step_back = Verdict(
            summary=f"Known items were not asked again: {known.drift:.1%} of the documents have changed since they were."
        )
    else:
        step_back = _judge_step_back(context, candidate, served, results)
    if is_held(context.store):
        gates, step_back = (found.softened("Refuses nothing: a rollback holds.") for found in (gates, step_back))
    accepted: tuple[str, ...] = ()
    if context.accept_drop:
        accepted = tuple(found.finding for found in (gates, step_back) if found.severity == "refusal")
        reason = "Accepted: this refresh was started with --accept-drop."
        gates, step_back = gates.softened(reason), step_back.softened(reason)
    return Judgement(results, known.fusion, gates, step_back, accepted, candidate.hash, known.drift)


def _judge_step_back(context: RefreshContext, candidate: Candidate, served: Manifest, results: Results) -> Verdict:
    config, content = context.corpus.evaluation, candidate.content
    if results.kind == "queries":
        before = read_results(context.store, served.hash, results.kind, results.query_set)
        verdict = judge_step_back(config, before, results, served.snapshot)
        lost = asked_again(results).lost(content.documents)
        return verdict.model_copy(update={"details": (*verdict.details, lost)}) if lost is not None else verdict
    before = _served_known_items(context, served)
    removable = context.corpus.safety.max_delete_fraction
    return judge_step_back(config, before, results, served.snapshot, content.documents.keys(), removable)
