"""`rag-pipeline search` and `rag-pipeline explain`: query what is served of a corpus."""

from __future__ import annotations

import argparse
import re
import shutil
import textwrap
from typing import Any

from rag_pipeline.cli.missing import missing_lines
from rag_pipeline.cli.output import print_json, print_line
from rag_pipeline.cli.warnings import warnings_on_stderr
from rag_pipeline.errors import QueryError
from rag_pipeline.query import Explanation, Hit, Index, RerankEffect
from rag_pipeline.query.index import MODES
from rag_pipeline.wording import counted

_LINES_SHOWN = 4
_NEIGHBOUR_LINES = 2
_JSON_FIELDS = {
    "rank", "score", "source", "document_id", "chunk_id", "text", "metadata", "title", "heading_path", "page", "sources",
}  # fmt: skip


_RERANK = "none, cross-encoder, late-interaction, litellm or llm, or NAME:MODEL; by default what corpus.yaml says"


def add_arguments(commands: Any, common: argparse.ArgumentParser) -> None:
    for name, run, what in (
        ("search", run_search, "search a corpus"),
        ("explain", run_explain, "search a corpus and show why each hit stands where it stands"),
    ):
        parser = commands.add_parser(name, parents=[common], help=what)
        parser.add_argument("corpus")
        parser.add_argument("query", help="taken as words; put -- before a query that begins with a dash")
        parser.add_argument("-k", type=int, default=10, metavar="N", help="how many hits (default 10)")
        parser.add_argument("--mode", choices=MODES, default="hybrid")
        parser.add_argument("--where", metavar="SQL", help="a condition such as \"path LIKE 'ops/%%'\"")
        parser.add_argument("--rerank", metavar="NAME", help=_RERANK)
        parser.add_argument("--snapshot", type=int, metavar="N", help="a kept snapshot instead of the one that is served")
        if name == "search":
            parser.add_argument(
                "--neighbours", type=int, default=0, metavar="N", help="show N passages before and after each hit too"
            )
        else:
            parser.add_argument("--expect", metavar="DOCUMENT_ID", help="show why this document is not among the hits")
        parser.set_defaults(run=run)


def run_search(arguments: argparse.Namespace) -> int:
    index = _index(arguments)
    with warnings_on_stderr():
        hits = index.search(
            arguments.query, arguments.k, arguments.mode, arguments.where, arguments.rerank, arguments.neighbours
        )
    if arguments.json:
        print_json({**_head(index, arguments), "hits": [_hit_json(hit) for hit in hits]})
        return 0
    if not hits:
        print_line("nothing found")
    for hit in hits:
        _print_hit(hit)
    return 0


def run_explain(arguments: argparse.Namespace) -> int:
    index = _index(arguments)
    if arguments.expect is not None:
        return _explain_missing(index, arguments)
    with warnings_on_stderr():
        explanations = index.explain(arguments.query, arguments.k, arguments.mode, arguments.where, arguments.rerank)
    if arguments.json:
        print_json({**_head(index, arguments), "hits": [_explanation_json(one) for one in explanations]})
        return 0
    if not explanations:
        print_line("nothing found")
    for explanation in explanations:
        _print_explanation(explanation, arguments.mode)
    return 0


def _index(arguments: argparse.Namespace) -> Index:
    """The index to search.

    Raises:
        QueryError: the query is empty. A program may pass on what somebody has typed so far, and finds nothing; on a
            command line it is most likely a variable that is not set.
    """
    from rag_pipeline.query.snapshot_reader import visible

    if not visible(arguments.query):
        raise QueryError("query: expected words to search for, got an empty text")
    return Index.open(arguments.corpus, snapshot=arguments.snapshot)


def _explain_missing(index: Index, arguments: argparse.Namespace) -> int:
    with warnings_on_stderr():
        missing = index.explain_missing(arguments.query, arguments.expect, arguments.mode, arguments.where, arguments.rerank)
    unknown = missing.verdict == "unknown"
    if arguments.json:
        values = {**missing.model_dump(mode="json"), "terms_lacking": missing.terms_lacking}
        print_json({**_head(index, arguments), "expected": values})
    elif unknown:
        raise QueryError(f"--expect: {next(missing_lines(missing))}")
    else:
        for line in missing_lines(missing):
            print_line(line)
    return 2 if unknown else 0


def _head(index: Index, arguments: argparse.Namespace) -> dict[str, Any]:
    return {"corpus": index.corpus, "snapshot": index.snapshot, "mode": arguments.mode}


def _explanation_json(explanation: Explanation) -> dict[str, Any]:
    values = explanation.model_dump(mode="json", exclude={"hit"})
    return {**_hit_json(explanation.hit), **values}


def _hit_json(hit: Hit) -> dict[str, Any]:
    """A hit with the fields that every hit has, and those of parents and neighbours where there are any."""
    values = hit.model_dump(mode="json", include=_JSON_FIELDS)
    given = {name for name in ("matched", "before", "after") if getattr(hit, name)}
    return {**values, **hit.model_dump(mode="json", include=given)}


def _print_title(hit: Hit) -> None:
    label = ", ".join(filter(None, (hit.heading_path or hit.title, f"page {hit.page}" if hit.page is not None else None)))
    where = f"  [{label}]" if label else ""
    also = f"  (and {len(hit.sources) - 1} more)" if len(hit.sources) > 1 else ""
    source = "".join(letter if letter.isprintable() else "?" for letter in hit.source)
    print_line(f"{hit.rank:>3}  {hit.score:.4f}  {source}{also}{where}")


def _print_hit(hit: Hit) -> None:
    _print_title(hit)
    for passage in hit.before:
        _print_text(passage.text, "  <  ", _NEIGHBOUR_LINES)
    # The heading stands beside the source already.
    shown = hit.matched.text if hit.matched is not None else hit.text
    _print_text(re.sub(r"\A#+ .*\n", "", shown.strip()) or shown, "     ", _LINES_SHOWN)
    for passage in hit.after:
        _print_text(passage.text, "  >  ", _NEIGHBOUR_LINES)
    print_line()


def _print_text(text: str, margin: str, lines: int) -> None:
    width = max(min(shutil.get_terminal_size((110, 24)).columns, 110) - len(margin), 30)
    for line in textwrap.wrap(" ".join(text.split()), width, max_lines=lines, placeholder=" …"):
        print_line(f"{margin}{line}")


def _print_explanation(explanation: Explanation, mode: str) -> None:
    _print_title(explanation.hit)
    for name, arm in (("vector", explanation.vector), ("bm25", explanation.bm25)):
        place = f"rank {arm.rank}" if arm.rank is not None else f"not among its first {explanation.candidates_per_arm}"
        if mode not in ("hybrid", name):
            place = "not asked"
        score = f"score {arm.score:.4f}" if arm.score is not None else "no score: holds no query term"
        if name == "vector" and arm.score is None:
            score = "no score: the query has no token" if mode in ("hybrid", name) else "no score"
        print_line(f"     {name:<7} {place}, {score}, adds {arm.contribution:.6f}")
    for term in sorted(explanation.terms, key=lambda term: -term.contribution):
        print_line(
            f"             {term.term}: {term.contribution:.4f} = {term.frequency} in the chunk, "
            f"in {counted(term.chunks_with_term, 'chunk')}, idf {term.idf:.4f} x weight {term.weight:.4f}"
        )
    if mode == "hybrid":
        sums = f"{explanation.vector.contribution:.6f} vector + {explanation.bm25.contribution:.6f} bm25"
        print_line(f"     fused   {explanation.fused_score:.6f} = {sums}{_weight(explanation)}")
    if explanation.rerank is not None:
        print_line(f"     rerank  {_described(explanation.rerank, explanation.hit.rank)}")
    print_line()


def _weight(explanation: Explanation) -> str:
    fusion = explanation.fusion
    if fusion is None or fusion.bm25_weight is None or explanation.bm25_weight is None:
        return ""
    if fusion.method == "convex":
        return f" (weight of bm25 {explanation.bm25_weight:g})"
    origin = "tuned" if fusion.tuned else "the default"
    return f" (weight of bm25 {explanation.bm25_weight:.3f} in this query, {origin} is {fusion.bm25_weight:g})"


def _described(effect: RerankEffect, rank: int) -> str:
    if effect.failure is not None:
        return f"{effect.reranker} failed, fused order: {effect.failure}"
    if effect.score is None:
        return f"{effect.reranker}: not among its candidates, rank {effect.rank_before} before"
    share = f", weight {effect.weight:g}" if effect.weight != 1.0 else ""
    moved = "stays" if effect.rank_before == rank else f"was rank {effect.rank_before}"
    return f"{effect.reranker}: score {effect.score:.4f}{share}, {moved}"
