"""A corpus as a Dagster component, for projects that are made of `defs.yaml` files."""

# Dagster reads the annotations of the fields as objects, so that they cannot be postponed here.
from collections.abc import Sequence

import dagster as dg

from rag_pipeline.corpus_files import load_corpus
from rag_pipeline.orchestration.corpus_definitions import build_corpus_definitions


class RagCorpus(dg.Component, dg.Model, dg.Resolvable):
    """A corpus whose corpus.yaml lies in ``folder``, relative to defs.yaml. Its folder's name is its name.

    The project gives the resource `refresh_settings`, once for all its corpora.
    """

    folder: str
    key_prefix: str | Sequence[str] = ()

    def build_defs(self, context: dg.ComponentLoadContext) -> dg.Definitions:
        corpus = load_corpus((context.path / self.folder).resolve())
        return build_corpus_definitions(corpus, self.key_prefix)
