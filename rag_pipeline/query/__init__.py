"""Search what a refresh has published. Imports no Dagster, no model and no LanceDB until an index is opened.

Start at :meth:`Index.open`.
"""

from rag_pipeline.contracts import Hit, Passage
from rag_pipeline.query.explanation import (
    ArmScore,
    Explanation,
    MissingExplanation,
    Place,
    RerankEffect,
    TermPresence,
    TermScore,
)
from rag_pipeline.query.index import Index

__all__ = [
    "ArmScore",
    "Explanation",
    "Hit",
    "Index",
    "MissingExplanation",
    "Passage",
    "Place",
    "RerankEffect",
    "TermPresence",
    "TermScore",
]
