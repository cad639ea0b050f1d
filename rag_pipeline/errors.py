"""Every error that this package raises on purpose.

::

    RagPipelineError
    ├── TerminalError              trying again changes nothing: a person has to act
    │   ├── ConfigError            corpus.yaml, an environment variable or an argument is wrong
    │   ├── SourceError            the source cannot be listed, or lists what cannot be right
    │   ├── ParseError             one document cannot be read as text; the reason is shown beside it
    │   ├── EmbeddingError         the model cannot be loaded, or refuses the input for good
    │   │   ├── CredentialsError       a provider's key is missing or was refused
    │   │   ├── RefusedTextError       a provider took all texts but some, which are named
    │   │   └── IdentityMismatchError  two vector spaces would be compared
    │   ├── ContextLineError       a chat model refuses for good to write context lines
    │   ├── RerankingError         a reranker cannot be loaded, or refuses its input for good
    │   ├── GenerationError        a chat model refuses what it is asked for good, or no query could be judged
    │   ├── BudgetError            a refresh would spend more than it may
    │   ├── StoreError             what lies under the data root is not what a manifest names
    │   │   └── SnapshotNotFoundError
    │   ├── GateError              a candidate answers worse than the corpus's gates allow, and is not published
    │   ├── QueryError             the query or its filter cannot be understood
    │   └── MissingExtraError      an optional dependency is not installed
    └── TransientError             trying again may help
        ├── SourceReadError        an item vanished or could not be read just now
        ├── ProviderError          a provider of models fails or cannot be reached
        ├── StoreUnreachableError  an object store fails or cannot be reached
        ├── LockedError            another refresh of this corpus is at work
        └── ConflictError          another writer published in between

A message is one readable line (or one line a fault) that names the file, the field and the remedy.
"""

from __future__ import annotations


class RagPipelineError(Exception):
    """Base of all errors of this package."""


class TerminalError(RagPipelineError):
    """Trying again changes nothing."""


class ConfigError(TerminalError):
    """A configuration file, an environment variable or an argument is wrong."""


class SourceError(TerminalError):
    """A source cannot be listed, or what it lists cannot be right."""


class ParseError(TerminalError):
    """One document cannot be read as text. ``str(error)`` is the reason shown to people."""


class EmbeddingError(TerminalError):
    """An embedding model cannot be loaded, or refuses its input for good."""


class CredentialsError(EmbeddingError):
    """A provider's key is missing, or the provider refused it."""


class RefusedTextError(EmbeddingError):
    """A provider embedded everything but some texts, which the message names."""


class IdentityMismatchError(EmbeddingError):
    """Vectors of two embedder identities would be compared."""


class ContextLineError(TerminalError):
    """A chat model refuses for good to write the context line of chunks."""


class RerankingError(TerminalError):
    """A reranker cannot be loaded, or refuses its input for good."""


class GenerationError(TerminalError):
    """A chat model refuses what it is asked for good, answers what cannot be used, or no query could be judged."""


class BudgetError(TerminalError):
    """A refresh would spend more than it may."""


class StoreError(TerminalError):
    """What lies under the data root is not what a manifest names."""


class SnapshotNotFoundError(StoreError):
    """The corpus has no such snapshot, or none at all yet."""


class GateError(TerminalError):
    """A candidate answers worse than the corpus's gates allow. It is not published; what was served stays served."""


class QueryError(TerminalError):
    """A query or its filter cannot be understood."""


class MissingExtraError(TerminalError):
    """An optional dependency is not installed.

    Args:
        package: what could not be imported.
        extra: the extra of this project that brings it.
        purpose: what it is needed for, as the start of a sentence.
    """

    def __init__(self, package: str, extra: str, purpose: str) -> None:
        self.package, self.extra, self.purpose = package, extra, purpose
        super().__init__(
            f"{purpose} needs {package}: install this project with its extra `{extra}`, from a checkout with "
            f"pip install '.[{extra}]'"
        )


class TransientError(RagPipelineError):
    """Trying again may help."""


class SourceReadError(TransientError):
    """A source item vanished or could not be read just now."""


class ProviderError(TransientError):
    """A provider of models fails or cannot be reached."""


class StoreUnreachableError(TransientError):
    """An object store fails or cannot be reached, also after several tries."""


class LockedError(TransientError):
    """Another refresh of this corpus is at work."""


class ConflictError(TransientError):
    """Another writer published in between."""
