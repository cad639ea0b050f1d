"""Where the code and the configuration behind an asset are, for the links that the Dagster UI shows."""

from __future__ import annotations

import inspect
import warnings
from collections.abc import Callable
from typing import Any

import dagster as dg

from rag_pipeline.config import CorpusConfig


def code_references(corpus: CorpusConfig, run: Callable[..., Any]) -> dict[str, dg.CodeReferencesMetadataValue]:
    """The function that does the work, and the corpus's file. `dg.link_code_references_to_git` turns them into links."""
    code = inspect.unwrap(run).__code__
    with warnings.catch_warnings():
        # Beta in Dagster 1.13; without this, loading and every refresh of the command line would say so for each asset.
        warnings.simplefilter("ignore", dg.BetaWarning)
        function = dg.LocalFileCodeReference(file_path=code.co_filename, line_number=code.co_firstlineno, label=code.co_name)
        file = dg.LocalFileCodeReference(file_path=str(corpus.file), line_number=1, label=corpus.file.name)
        return {"dagster/code_references": dg.CodeReferencesMetadataValue(code_references=[function, file])}
