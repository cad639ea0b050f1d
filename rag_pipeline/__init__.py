"""Scheduled indexing of document corpora under Dagster, and the query module that reads what was published."""
