#!/usr/bin/env python3
"""How well and how fast documents are cut: `python benchmarks/chunking.py DIR`.

A folder with questions.jsonl and a folder corpora/ is evaluated against character spans, as in Chroma's report "Evaluating
Chunking Strategies for Retrieval": corpora/ is refreshed with the static model in each configuration (or in those given as
--chunking), every question is asked, and the spans of the first K hits are compared with those of its evidence. Prints
recall, precision and IoU, and recall and IoU again for as many of the first hits as fit into a number of tokens, which
does not favour large chunks; at last the differences from the first configuration, with what chance would make of them.
Identical text is one hit, which counts where it is evidence. A question is
{"text", "corpus", "references": [{"content", "start_index", "end_index"}]}.

Of any other folder the Markdown is parsed and cut with the static model's tokenizer; prints CPU seconds, and the sizes of
the chunks.
"""

from __future__ import annotations

import argparse
import json
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np

from rag_pipeline.chunking import chunk_document
from rag_pipeline.config import ChunkingConfig
from rag_pipeline.contracts import Hit, Parsed
from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.embedding import static
from rag_pipeline.errors import ParseError
from rag_pipeline.evaluation.spans import DocumentSpan, SpanFigures, mean_figures, span_figures
from rag_pipeline.parsing import parse
from rag_pipeline.query import Index
from rag_pipeline.query.index import MODES, Mode
from rag_pipeline.refresh import STAGES, RefreshContext

CONFIGURATIONS = (
    "{size: 480}",
    "{size: 480, overlap: 0}",
    "{size: 160}",
    "{size: 240}",
    "{size: 320}",
    "{size: 640}",
    "{strategy: semantic, size: 320}",
    "{strategy: semantic}",
    "{strategy: semantic, size: 640}",
    "{strategy: parent-child, parent_size: 320}",
    "{strategy: parent-child}",
    "{strategy: parent-child, size: 240, parent_size: 480}",
    "{strategy: parent-child, parent_size: 640}",
)
_DEEPEST = 50
"""Hits asked for, of which as many count as fit into the tokens."""


class Question(NamedTuple):
    """``document`` is the whole text that the evidence stands in."""

    text: str
    evidence: list[DocumentSpan]
    document: str


def documents(folder: Path, megabytes: float | None = None) -> list[Parsed]:
    """The Markdown files of a folder, up to so many megabytes of them."""
    parsed: list[Parsed] = []
    room = float("inf") if megabytes is None else megabytes * 1e6
    for file in sorted(folder.rglob("*.md")):
        data = file.read_bytes()
        if len(data) > room:
            break
        room -= len(data)
        try:
            parsed.append(parse(data, str(file.relative_to(folder))))
        except ParseError as error:
            print(f"{file}: {error}")
    return parsed


def questions_of(folder: Path) -> list[Question]:
    """The questions of a folder, whose evidence must stand in the parsed text where they say."""
    texts = {file.stem: parse(file.read_bytes(), file.name).text for file in (folder / "corpora").glob("*.md")}
    questions = []
    for line in (folder / "questions.jsonl").read_text(encoding="utf-8").splitlines():
        record = json.loads(line)
        document = record["corpus"]
        for reference in record["references"]:
            found = texts[document][reference["start_index"] : reference["end_index"]]
            if found != reference["content"]:
                raise SystemExit(f"question {record['_id']}: its evidence does not stand in {document}.md where it says")
        spans = [DocumentSpan(f"{document}.md", one["start_index"], one["end_index"]) for one in record["references"]]
        questions.append(Question(record["text"], spans, texts[document]))
    return questions


def refreshed(folder: Path, root: Path, name: str, chunking: str) -> Index:
    corpus = root / "corpora" / name
    corpus.mkdir(parents=True)
    source = json.dumps(str((folder / "corpora").resolve()))
    yaml = f'source: {{path: {source}, include: ["*.md"]}}\nlexical: {{language: english}}\nchunking: {chunking}\n'
    (corpus / "corpus.yaml").write_text(yaml, encoding="utf-8")
    context = RefreshContext(load_corpus(corpus), root / "data")
    for run in STAGES.values():
        run(context)
    return Index.open(name, data=root / "data")


def span_of(hit: Hit, question: Question) -> DocumentSpan:
    """Where a hit stands: of several places with its text the one with evidence."""
    document = question.evidence[0].document_id
    start = question.document.find(hit.text)
    while start >= 0:
        place = DocumentSpan(document, start, start + len(hit.text))
        if any(one.start < place.end and place.start < one.end for one in question.evidence):
            return place
        start = question.document.find(hit.text, start + 1)
    return DocumentSpan(hit.document_id, hit.start, hit.end)


def evaluated(
    index: Index, questions: Sequence[Question], mode: Mode, k: int, room: int
) -> tuple[list[SpanFigures], list[SpanFigures], float]:
    """By question, figures of the first ``k`` hits and of those within ``room`` tokens; and the mean tokens of a hit."""
    tokenizer = static.load_tokenizer()
    first, fitting, lengths = [], [], []
    for question in questions:
        hits = index.search(question.text, k=_DEEPEST, mode=mode)
        tokens = tokenizer.count([hit.text for hit in hits])
        lengths.append(tokens[:k].mean())
        spans = [span_of(hit, question) for hit in hits]
        first.append(span_figures(question.evidence, spans[:k]))
        fit = int(np.searchsorted(np.cumsum(tokens), room, "right"))
        fitting.append(span_figures(question.evidence, spans[:fit]))
    return first, fitting, float(np.mean(lengths))


def difference(some: Sequence[SpanFigures], others: Sequence[SpanFigures]) -> str:
    """How much higher the recall of some is, with 95 % of 2,000 paired bootstrap samples of the questions."""
    differences = np.array([one.recall - other.recall for one, other in zip(some, others, strict=True)])
    samples = np.random.default_rng(0).integers(0, len(differences), (2000, len(differences)))
    low, high = np.percentile(differences[samples].mean(axis=1), [2.5, 97.5])
    return f"{differences.mean():+.3f} ({low:+.3f} to {high:+.3f})"


def evaluate(folder: Path, configurations: Sequence[str], k: int, room: int) -> None:
    questions = questions_of(folder)
    print(f"{folder}: {len(questions)} questions, first {k} hits, and those within {room} tokens")
    print(f"{'chunking':<54} {'mode':<7} {'chunks':>6} {'tokens':>6}  recall  precision    iou  |  recall    iou")
    found: dict[tuple[str, Mode], tuple[list[SpanFigures], list[SpanFigures]]] = {}
    with tempfile.TemporaryDirectory() as temporary:
        for number, chunking in enumerate(configurations):
            index = refreshed(folder, Path(temporary), f"c{number}", chunking)
            for mode in MODES:
                by_question, fitting_by_question, tokens = evaluated(index, questions, mode, k, room)
                found[chunking, mode] = by_question, fitting_by_question
                figures, fitting = mean_figures(by_question), mean_figures(fitting_by_question)
                print(
                    f"{chunking:<54} {mode:<7} {index.manifest.counts.chunks:>6} {tokens:>6.0f}  {figures.recall:.4f}"
                    f"     {figures.precision:.4f} {figures.iou:.4f}  |  {fitting.recall:.4f} {fitting.iou:.4f}",
                    flush=True,
                )
    first = configurations[0]
    print(f"recall less that of {first}, 95 % of paired bootstrap samples: of the first {k} hits, within {room} tokens")
    for (chunking, mode), (some, fitting_some) in found.items():
        if chunking != first:
            others, fitting_others = found[first, mode]
            print(f"{chunking:<54} {mode:<7} {difference(some, others)}  {difference(fitting_some, fitting_others)}")


def measure_speed(folder: Path, config: ChunkingConfig, megabytes: float | None) -> None:
    embedder = static.load()
    tokenizer = embedder.tokenizer
    started = time.process_time()
    parsed = documents(folder, megabytes)
    parsing_seconds = time.process_time() - started
    characters = sum(len(document.text) for document in parsed)
    started = time.process_time()
    chunks = [chunk for document in parsed for chunk in chunk_document(document, config, tokenizer, embedder)]
    seconds = time.process_time() - started

    print(f"{len(parsed)} documents, {characters / 1e6:.2f} million characters, parsed in {parsing_seconds:.2f} CPU s")
    print(f"{len(chunks)} chunks in {seconds:.2f} CPU s, {characters / 1e6 / seconds:.2f} million characters a second")
    if chunks:
        tokens = tokenizer.count([chunk.text for chunk in chunks])
        low, middle, high = np.percentile(tokens, [5, 50, 95])
        print(
            "tokens a chunk: "
            f"mean {tokens.mean():.0f}, 5% {low:.0f}, median {middle:.0f}, 95% {high:.0f}, most {tokens.max()}"
        )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", metavar="DIR")
    parser.add_argument("--chunking", action="append", metavar="YAML", help="only this `chunking:`; again for each")
    parser.add_argument("-k", type=int, default=5, help="hits that count (default 5)")
    parser.add_argument("--tokens", type=int, default=1500, help="tokens that hits may have together (default 1500)")
    parser.add_argument("--megabytes", type=float, help="of Markdown: stop before more than these are read")
    parser.add_argument("--strategy", default="recursive", help="of Markdown: recursive, semantic or parent-child")
    parser.add_argument("--size", type=int, help="of Markdown: tokens a chunk")
    arguments = parser.parse_args()
    if arguments.folder is None or not arguments.folder.is_dir():
        print("chunking benchmark skipped: name a folder of Markdown files, or one with questions.jsonl and corpora/")
    elif (arguments.folder / "questions.jsonl").is_file():
        evaluate(arguments.folder, arguments.chunking or CONFIGURATIONS, arguments.k, arguments.tokens)
    else:
        size = {} if arguments.size is None else {"size": arguments.size}
        config = ChunkingConfig.model_validate({"strategy": arguments.strategy, **size})
        measure_speed(arguments.folder, config, arguments.megabytes)


if __name__ == "__main__":
    main()
