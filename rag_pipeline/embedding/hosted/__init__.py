"""Embedding models behind an HTTP API: one client for all of them, and what keeps calls within limits and budgets."""
