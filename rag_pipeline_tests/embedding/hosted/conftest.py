"""Keys for every provider, so that each test decides itself which is missing."""

from __future__ import annotations

import pytest

from rag_pipeline_tests.embedding.hosted.support import KEY, KEY_VARIABLES


@pytest.fixture(autouse=True)
def keys_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in KEY_VARIABLES:
        monkeypatch.setenv(name, KEY)
