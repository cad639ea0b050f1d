"""Keys for every provider, and requests that are repeated at once."""

from __future__ import annotations

import pytest

KEY = "test-4fZ81kQw-77Lp_secret"
"""Of no provider's shape: it is known by being the value of a variable."""

KEY_VARIABLES = ("COHERE_API_KEY", "VOYAGE_API_KEY", "JINA_AI_API_KEY", "HOSTED_VLLM_API_KEY", "OPENAI_API_KEY")


@pytest.fixture(autouse=True)
def keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, KEY)
