"""The rag-pipeline command."""

from rag_pipeline.cli.main import main

__all__ = ["main"]
