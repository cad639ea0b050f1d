"""Sends requests through LiteLLM, the only module that imports it; sees that nothing leaves but to the provider."""

from __future__ import annotations

import asyncio
import email.utils
import json
import logging
import math
import os
import re
import sys
import time
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from rag_pipeline.embedding.hosted.calls import Answer, CallError, Purpose
from rag_pipeline.embedding.hosted.model_facts import PROVIDERS, input_types
from rag_pipeline.embedding.hosted.secrets import redact
from rag_pipeline.errors import CredentialsError, EmbeddingError, MissingExtraError, ProviderError

_QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota", "insufficient balance", "insufficient credit")
"""A 429 with one of these is about money, not about speed: waiting does not help. Not "billing", which stands in what
Voyage and OpenAI say to whoever is held to a free account's few requests a minute."""

_WORTH_TRYING_AGAIN = (408, 409, 425)
"""Statuses below 500 that are about the moment: time-out, conflict, too early."""

_TIMEOUT_MARGIN = 2.0
"""Seconds by which the clients' own time-outs come first: their messages say more."""

_LONGEST_RETRY_AFTER = 86_400.0
"""A day. Nobody waits longer, and no time of day can be told for numbers without end."""

_TAKES_ANY_DIMENSIONS = ("openai/", "hosted_vllm/", "litellm_proxy/")
"""LiteLLM refuses `dimensions` for models of these that it does not know, although the server may take them."""

_NO_TRUNCATION: dict[str, dict[str, bool]] = {"voyage/": {"truncation": False}, "ollama/": {"truncate": False}}
"""These providers embed the beginning of a text that is too long and say nothing, unless told to refuse it."""

_OTHER_CREDENTIALS = ("bedrock/", "sagemaker/", "vertex_ai/")
"""Roles and profiles do for these as well as variables, which LiteLLM's check does not know."""

_LOOKED_UP = ("ollama/", "ollama_chat/")
"""After each answer LiteLLM asks http://localhost:11434 or OLLAMA_API_BASE what a model of these costs, holding up the
event loop, unless the model is in its list of prices; it does not go by ``api_base`` there (1.110)."""

_FREE = {"litellm_provider": "ollama", "mode": "embedding", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}

_MISREAD = (json.JSONDecodeError, AttributeError, KeyError, TypeError, IndexError)
"""What LiteLLM's readers stumble with over a page of HTML, or over JSON of another form."""

_LABELS = re.compile(r"^(?:(?:litellm\.)?(?:\w+(?:Error|Exception)\s*(?::|-)\s*|Timeout(?: Error)?: ))+| ssl:<[^>]*>")
"""Names of exceptions before a message, and what aiohttp says of a connection without TLS."""


class _NoRetries(int):
    """Zero that counts as true: LiteLLM takes the plain one for nothing said, and OpenAI's client then tries three times.

    Needed as long as litellm's OpenAI handler says ``max_retries or DEFAULT_MAX_RETRIES`` (1.110 does).
    """

    def __bool__(self) -> bool:
        return True


class LiteLLMClient:
    """One model of one provider.

    Args:
        provider: one of `PROVIDERS`.
        model: the provider's name for it, or LiteLLM's for provider `litellm`.
        dimensions: the width of the vectors; None while it is not known.
        ask_dimensions: whether to ask for this width, which not every model can.
    """

    def __init__(
        self,
        provider: str,
        model: str,
        *,
        dimensions: int | None,
        ask_dimensions: bool,
        api_base: str | None,
        timeout_seconds: float,
    ) -> None:
        facts = PROVIDERS[provider]
        self.name = f"{provider}/{model}" if provider != "litellm" else model
        self.dimensions = dimensions
        self._provider = provider
        self._model = facts.prefix + model
        self._key_variables = facts.key_variables
        self._ask_dimensions = ask_dimensions
        self._api_base = api_base
        self._timeout = timeout_seconds
        self._input_types = input_types(self._model)

    def check_credentials(self) -> None:
        litellm = _litellm(self._provider)
        missing = list(self._key_variables[:1]) if self._key_variables and self._key() is None else []
        if self._provider == "litellm" and not self._model.startswith(_OTHER_CREDENTIALS):
            found = litellm.validate_environment(model=self._model, api_base=self._api_base)
            absent = [] if found["keys_in_environment"] else found["missing_keys"]
            # An address may come from api_base or be the provider's own.
            missing = [name for name in absent if "API_BASE" not in name and not os.environ.get(name)]
        key = self._key()
        if key is not None and not re.fullmatch(r"[!-~]+", key):
            raise CredentialsError(
                f"embedding.provider {self._provider}: the environment variable {self._key_variable()} holds white space, "
                f"a line break or letters that no key has"
            )
        if len(missing) == 1:
            raise CredentialsError(
                f"embedding.provider {self._provider}: the environment variable {missing[0]} is not set; {self.name} needs "
                f"its key there"
            )
        if missing:
            raise CredentialsError(
                f"embedding.provider {self._provider}: the environment lacks what {self.name} needs; LiteLLM looks for "
                f"{', '.join(missing)}"
            )

    async def request(self, texts: Sequence[str], purpose: Purpose) -> Answer:
        litellm = _litellm(self._provider)
        if self._model.startswith(_LOOKED_UP):
            litellm.model_cost.setdefault(self._model, _FREE)
        arguments: dict[str, Any] = {"model": self._model, "input": list(texts), "timeout": self._timeout}
        arguments |= {"max_retries": _NoRetries(0), "num_retries": 0}
        if self._api_base is not None:
            arguments["api_base"] = self._api_base
        if self._key_variables:
            arguments["api_key"] = self._key()
        if self._ask_dimensions:
            arguments["dimensions"] = self.dimensions
            if self._model.startswith(_TAKES_ANY_DIMENSIONS):
                arguments["allowed_openai_params"] = ["dimensions"]
        arguments |= next((flags for prefix, flags in _NO_TRUNCATION.items() if self._model.startswith(prefix)), {})
        if self._input_types is not None:
            arguments["input_type"] = self._input_types[0 if purpose == "document" else 1]
        failure: CallError | None = None
        try:
            # The clients' own limit holds for each read, so that a server that drips would keep a request for ever.
            response = await asyncio.wait_for(litellm.aembedding(**arguments), self._timeout + _TIMEOUT_MARGIN)
        except asyncio.TimeoutError:
            failure = self._unusable(f"did not finish its answer within {self._timeout:g} s")
        except Exception as error:  # noqa: BLE001 - LiteLLM raises whatever its providers' clients do; all of it is sorted here
            failure = _failure(self.name, self._provider, self._api_base, error)
        if failure is not None:
            # Outside of the handler, so that no trace of ours holds theirs, which may quote the key.
            raise failure
        return Answer(self._matrix(response.data, len(texts)), _tokens(response))

    def _key(self) -> str | None:
        name = self._key_variable()
        return os.environ[name] if name is not None else None

    def _key_variable(self) -> str | None:
        return next((name for name in self._key_variables if os.environ.get(name)), None)

    def _matrix(self, rows: Any, wanted: int) -> npt.NDArray[np.float32]:
        """The vectors in the order of their texts; a number that is missing becomes NaN, which the caller looks for."""
        given = list(rows) if isinstance(rows, list) else []
        if not all(isinstance(row, dict) for row in given):
            raise self._unusable("answered rows that are no vectors")
        places = [row["index"] for row in given if isinstance(row.get("index"), int)]
        if len(given) != wanted:
            raise self._unusable(f"answered {len(given)} vectors for {wanted} texts")
        if sorted(places) != list(range(wanted)):
            raise self._unusable("answered vectors that do not say which texts they are of")
        vectors: list[Any] = [None] * wanted
        for row in given:
            vectors[row["index"]] = row.get("embedding")
        widths = {len(vector) if isinstance(vector, (list, tuple)) else 0 for vector in vectors}
        if widths == {0} or len(widths) != 1:
            raise self._unusable("answered rows that are no vectors of one width")
        width = widths.pop()
        if self.dimensions is not None and width != self.dimensions:
            raise CallError(
                "terminal",
                EmbeddingError(
                    f"{self.name} answered vectors of {width} dimensions; expected {self.dimensions}. Set "
                    f"embedding.dimensions to a width that the model gives, or embedding.revision when the model has "
                    f"changed behind its name"
                ),
            )
        # What does not fit becomes infinite, which the caller looks for as well.
        with np.errstate(over="ignore"):
            try:
                return np.array(vectors, dtype=np.float32)
            except (TypeError, ValueError):
                return np.array([[_number(value) for value in vector] for vector in vectors], dtype=np.float32)

    def _unusable(self, what: str) -> CallError:
        return CallError("transient", ProviderError(f"{self.name} {what}"))


def _number(value: Any) -> float:
    return float(value) if isinstance(value, (int, float)) else float("nan")


def _tokens(response: Any) -> int | None:
    usage = getattr(response, "usage", None)
    given = (getattr(usage, "total_tokens", None), getattr(usage, "prompt_tokens", None))
    return next((tokens for tokens in given if isinstance(tokens, int) and tokens > 0), None)


def _litellm(provider: str) -> Any:
    """LiteLLM, told to keep to itself. Importing it takes some seconds."""
    # It fetches its list of prices from the network otherwise.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # It logs what providers answer, which may quote the key; all of it is in our errors, without.
    for logger in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    if "litellm" not in sys.modules:
        # Said of a request that was cancelled before it was sent, and of LiteLLM's own types.
        warnings.filterwarnings("ignore", r"coroutine '.*aembedding' was never awaited", RuntimeWarning)
        warnings.filterwarnings("ignore", r"(?s)Pydantic serializer warnings", UserWarning)
        warnings.filterwarnings("ignore", r"Items? .* on TypedDict class .* using the `ReadOnly` qualifier", UserWarning)
    try:
        import litellm
    except ModuleNotFoundError as error:
        if error.name != "litellm":
            raise
        raise MissingExtraError("litellm", "litellm", f"embedding.provider {provider}") from None
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    return litellm


def _failure(name: str, provider: str, address: str | None, error: Exception) -> CallError:
    """Sort what LiteLLM raised.

    A refused connection and an answer that is no JSON come with status 500 like a failure of the provider; trying
    again is right for all of them.
    """
    status = next((code for link in _chain(error) if isinstance(code := getattr(link, "status_code", None), int)), None)
    said = redact(_said(error))
    if any(isinstance(link, UnicodeError) for link in _chain(error)):
        return CallError("refused", EmbeddingError(f"{name}: a text holds characters that cannot be sent: {said}"))
    if any(isinstance(link, ImportError) for link in _chain(error)):
        return CallError("terminal", EmbeddingError(f"{name}: a package that LiteLLM needs for it is missing: {said}"))
    if status in (401, 403):
        variables = PROVIDERS[provider].key_variables
        look = f"; look at the environment variable {variables[0]}" if variables else ""
        return CallError("terminal", CredentialsError(f"{name} refused the key (status {status}): {said}{look}"))
    if status == 404:
        return CallError(
            "terminal",
            EmbeddingError(f"{name} is not known there (status 404): {said}; look at embedding.model and api_base"),
        )
    if status == 429 and not any(word in str(error).lower() for word in _QUOTA_WORDS):
        return CallError("throttled", ProviderError(f"{name} is asked too often (status 429): {said}"), _retry_after(error))
    if status in (402, 429):
        return CallError("terminal", EmbeddingError(f"{name} wants to be paid first (status {status}): {said}"))
    if "LLM Provider NOT provided" in str(error):
        return CallError(
            "terminal", EmbeddingError(f"embedding.model {name}: LiteLLM knows no such provider; write provider/model")
        )
    if type(error).__name__ == "UnsupportedParamsError":
        return CallError("terminal", EmbeddingError(f"{name} does not take what was asked: {said}"))
    if status in (400, 413, 422) and said:
        return CallError("refused", EmbeddingError(f"{name} refused the request (status {status}): {said}"))
    if status is None or status < 400:
        return CallError("terminal", EmbeddingError(f"{name}: {type(error).__name__}: {said}"))
    if not said:
        return CallError("transient", ProviderError(f"{name} failed (status {status}) and did not say why"))
    if status < 500 and status not in _WORTH_TRYING_AGAIN:
        return CallError("terminal", EmbeddingError(f"{name} cannot be asked (status {status}): {said}"))
    unreachable = next((link for link in _chain(error) if isinstance(link, OSError)), None)
    if status >= 500 and unreachable is not None and not isinstance(unreachable, TimeoutError):
        at = f" at {address}" if address is not None else ""
        why = unreachable.strerror or said
        return CallError(
            "transient", ProviderError(f"{name} cannot be reached{at}: {redact(why)}; look at embedding.api_base")
        )
    return CallError("transient", ProviderError(f"{name} failed: {said}"), _retry_after(error))


def _said(error: Exception) -> str:
    """The message to show people, without LiteLLM's labels."""
    if any(isinstance(link, _MISREAD) for link in _chain(error)):
        return "what was answered is no answer of an embedding API; look at embedding.api_base"
    text = str(error).split("Traceback (most recent call last)")[0].strip()
    return _plain(_LABELS.sub("", text).split(" Error_str:")[0])


def _plain(answer: str) -> str:
    """What an error's body says: the message in JSON, no page of HTML."""
    if re.match(r"<(!doctype|html)\b", answer, re.IGNORECASE):
        return "a page of HTML was answered; look at embedding.api_base"
    try:
        body = json.loads(answer)
    except ValueError:
        return answer
    while isinstance(body, dict):
        body = next((body[name] for name in ("error", "message", "detail") if body.get(name)), None)
    return body if isinstance(body, str) else answer


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    seen: set[int] = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or error.__context__


def _retry_after(error: Exception) -> float | None:
    """Seconds that the provider asks to wait: a number or an HTTP date, in whichever exception kept the headers."""
    for link in _chain(error):
        for holder in (link, getattr(link, "response", None)):
            headers = getattr(holder, "headers", None)
            value = headers.get("retry-after") if headers else None
            if value:
                return _seconds(str(value))
    return None


def _seconds(value: str) -> float | None:
    try:
        seconds = float(value)
    except ValueError:
        try:
            seconds = email.utils.parsedate_to_datetime(value).timestamp() - time.time()
        except ValueError:
            return None
    return min(max(seconds, 0.0), _LONGEST_RETRY_AFTER) if math.isfinite(seconds) else None
