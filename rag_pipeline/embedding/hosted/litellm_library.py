"""LiteLLM itself, the only module that imports it: told to keep to itself, and its failures sorted by what helps."""

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
from collections.abc import Awaitable, Iterator, Sequence
from typing import Any, NamedTuple

from rag_pipeline.embedding.hosted.background import end_first_at_exit
from rag_pipeline.embedding.hosted.calls import CallError
from rag_pipeline.embedding.hosted.secrets import redact
from rag_pipeline.errors import CredentialsError, EmbeddingError, MissingExtraError, ProviderError, TerminalError

_QUOTA_WORDS = ("insufficient_quota", "exceeded your current quota", "insufficient balance", "insufficient credit")
"""A 429 with one of these is about money, not about speed: waiting does not help. Not "billing", which stands in what
Voyage and OpenAI say to whoever is held to a free account's few requests a minute."""

_WORTH_TRYING_AGAIN = (408, 409, 425)
"""Statuses below 500 that are about the moment: time-out, conflict, too early."""

_TIMEOUT_MARGIN = 2.0
"""Seconds by which the clients' own time-outs come first: their messages say more."""

_LONGEST_RETRY_AFTER = 86_400.0
"""A day. Nobody waits longer, and no time of day can be told for numbers without end."""

_OTHER_CREDENTIALS = ("bedrock/", "sagemaker/", "vertex_ai/")
"""Roles and profiles do for these as well as variables, which LiteLLM's check does not know."""

_MISREAD = (json.JSONDecodeError, AttributeError, KeyError, TypeError, IndexError)
"""What LiteLLM's readers stumble with over a page of HTML, or over JSON of another form."""

_LOOKED_UP = ("ollama/", "ollama_chat/")
"""After each answer LiteLLM asks http://localhost:11434 or OLLAMA_API_BASE what a model of these costs, holding up the
event loop, unless the model is in its list of prices; it does not go by ``api_base`` there (1.110)."""

_MODES = {"aembedding": "embedding", "acompletion": "chat", "arerank": "rerank"}
"""What LiteLLM's list of prices says of the models that its functions ask."""

_FREE = {"litellm_provider": "ollama", "input_cost_per_token": 0.0, "output_cost_per_token": 0.0}

_LONGEST_BODY = 50_000
"""Characters of an error's body that are looked at: a message has some hundred, a page of a proxy may have millions."""

_LABELS = re.compile(r"^(?:(?:litellm\.)?(?:\w+(?:Error|Exception)\s*(?::|-)\s*|Timeout(?: Error)?: ))+| ssl:<[^<>]*>")
"""Names of exceptions before a message, and what aiohttp says of a connection without TLS."""


class NoRetries(int):
    """Zero that counts as true: LiteLLM takes the plain one for nothing said, and OpenAI's client then tries three times.

    Needed as long as litellm's OpenAI handler says ``max_retries or DEFAULT_MAX_RETRIES`` (1.110 does).
    """

    def __bool__(self) -> bool:
        return True


class Asked(NamedTuple):
    """What is asked, as messages name it.

    ``keys`` is how its settings begin in corpus.yaml (``embedding.``), ``api`` the kind of API, ``error`` what is raised
    when it refuses for good. Any one of ``key_variables`` holds the key. ``api_base`` is None for the address that LiteLLM
    knows.
    """

    name: str
    keys: str
    api: str
    error: type[TerminalError] = EmbeddingError
    key_variables: tuple[str, ...] = ()
    api_base: str | None = None


def load_litellm(purpose: str) -> Any:
    """LiteLLM, told to keep to itself. Importing it takes some seconds.

    Args:
        purpose: what needs it, as a message begins.

    Raises:
        MissingExtraError: it is not installed.
    """
    # It fetches its list of prices from the network otherwise.
    os.environ.setdefault("LITELLM_LOCAL_MODEL_COST_MAP", "True")
    # It logs what providers answer, which may quote the key; all of it is in our errors, without.
    for logger in ("LiteLLM", "LiteLLM Proxy", "LiteLLM Router"):
        logging.getLogger(logger).setLevel(logging.CRITICAL + 1)
    first = "litellm" not in sys.modules
    if first:
        # Said of a request that was cancelled before it was sent, and of LiteLLM's own types.
        warnings.filterwarnings("ignore", r"coroutine '.*a(embedding|rerank|completion)' was never awaited", RuntimeWarning)
        warnings.filterwarnings("ignore", r"(?s)Pydantic serializer warnings", UserWarning)
        warnings.filterwarnings("ignore", r"Items? .* on TypedDict class .* using the `ReadOnly` qualifier", UserWarning)
    try:
        import litellm
    except ModuleNotFoundError as error:
        if error.name != "litellm":
            raise
        raise MissingExtraError("litellm", "litellm", purpose) from None
    if first:
        end_first_at_exit()
    litellm.telemetry = False
    litellm.suppress_debug_info = True
    return litellm


def forgo_price_lookup(litellm: Any, model: str, mode: str) -> None:
    """See that LiteLLM asks nobody what a model costs.

    Args:
        model: by LiteLLM's name for it.
        mode: what it does, as LiteLLM's list says it: ``embedding`` or ``chat``.
    """
    if model.startswith(_LOOKED_UP):
        litellm.model_cost.setdefault(model, {**_FREE, "mode": mode})


def missing_variables(purpose: str, model: str, api_base: str | None) -> list[str]:
    """The environment variables that LiteLLM needs for a model, by its name for it, and does not find."""
    if model.startswith(_OTHER_CREDENTIALS):
        return []
    found = load_litellm(purpose).validate_environment(model=model, api_base=api_base)
    absent = [] if found["keys_in_environment"] else found["missing_keys"]
    # An address may come from api_base or be the provider's own.
    return [name for name in absent if "API_BASE" not in name and not os.environ.get(name)]


def check_variables(purpose: str, name: str, missing: Sequence[str], key_variable: str | None) -> None:
    """See that nothing is missing, and that the key is one, before anything is sent.

    Args:
        purpose: what needs the variables, as a message begins.
        name: the model.
        missing: variables that it needs and that are not set.
        key_variable: the variable that holds its key; None where there is none, or only LiteLLM knows it.

    Raises:
        CredentialsError: the message names the variables, and nothing of what they hold.
    """
    if key_variable is not None and not re.fullmatch(r"[!-~]+", os.environ[key_variable]):
        raise CredentialsError(
            f"{purpose}: the environment variable {key_variable} holds white space, a line break or letters that no key has"
        )
    if len(missing) == 1:
        raise CredentialsError(f"{purpose}: the environment variable {missing[0]} is not set; {name} needs its key there")
    if missing:
        raise CredentialsError(f"{purpose}: the environment lacks what {name} needs; LiteLLM looks for {', '.join(missing)}")


async def send(asked: Asked, purpose: str, function: str, arguments: dict[str, Any], timeout_seconds: float) -> Any:
    """What LiteLLM answers to one request, which it tries once and sends nowhere else.

    Args:
        purpose: what needs LiteLLM, as a message begins.
        function: LiteLLM's, such as ``aembedding``.
        arguments: ``model`` and what it is asked.

    Raises:
        CallError: there is no answer, or it takes longer.
    """
    litellm = load_litellm(purpose)
    forgo_price_lookup(litellm, arguments["model"], _MODES[function])
    limits = {"timeout": timeout_seconds, "max_retries": NoRetries(0), "num_retries": 0}
    address = {"api_base": asked.api_base} if asked.api_base is not None else {}
    return await answer_of(asked, getattr(litellm, function)(**arguments, **limits, **address), timeout_seconds)


async def answer_of(asked: Asked, request: Awaitable[Any], timeout_seconds: float) -> Any:
    """What LiteLLM answers to a request.

    Raises:
        CallError: there is no answer, or it takes longer.
    """
    try:
        # The clients' own limit holds for each read, so that a server that drips would keep a request for ever.
        return await asyncio.wait_for(request, timeout_seconds + _TIMEOUT_MARGIN)
    except asyncio.TimeoutError:
        late = ProviderError(f"{asked.name} did not finish its answer within {timeout_seconds:g} s")
        failure = CallError("transient", late)
    except Exception as error:  # noqa: BLE001 - LiteLLM raises whatever its providers' clients do; all of it is sorted here
        failure = failure_of(asked, error)
    # Outside of the handler, so that no trace of ours holds theirs, which may quote the key.
    raise failure


def token_count(given: Any) -> int | None:
    """A number of tokens as a provider says it, which may be a number in a string; None where it says none that can be."""
    try:
        count = float(given) if isinstance(given, (int, float, str)) and not isinstance(given, bool) else 0.0
    except (OverflowError, ValueError):
        return None
    return int(count) if math.isfinite(count) and count >= 1 else None


def failure_of(asked: Asked, error: Exception) -> CallError:
    """Sort what LiteLLM raised.

    A refused connection and an answer that is no JSON come with status 500 like a failure of the provider; trying
    again is right for all of them.
    """
    name = asked.name
    status = next((code for link in _chain(error) if isinstance(code := getattr(link, "status_code", None), int)), None)
    said = redact(_said(asked, error))
    if any(isinstance(link, UnicodeError) for link in _chain(error)):
        return CallError("refused", asked.error(f"{name}: a text holds characters that cannot be sent: {said}"))
    if any(isinstance(link, ImportError) for link in _chain(error)):
        return CallError("terminal", asked.error(f"{name}: a package that LiteLLM needs for it is missing: {said}"))
    if status in (401, 403):
        variables = asked.key_variables
        look = f"; look at the environment variable {variables[0]}" if variables else ""
        return CallError("terminal", CredentialsError(f"{name} refused the key (status {status}): {said}{look}"))
    if status == 404:
        look = f"look at {asked.keys}model and {asked.keys}api_base"
        return CallError("terminal", asked.error(f"{name} is not known there (status 404): {said}; {look}"))
    if status == 429 and not any(word in str(error).lower() for word in _QUOTA_WORDS):
        return CallError("throttled", ProviderError(f"{name} is asked too often (status 429): {said}"), _retry_after(error))
    if status in (402, 429):
        return CallError("terminal", asked.error(f"{name} wants to be paid first (status {status}): {said}"))
    if "LLM Provider NOT provided" in str(error):
        return CallError(
            "terminal", asked.error(f"{asked.keys}model {name}: LiteLLM knows no such provider; write provider/model")
        )
    if type(error).__name__ == "UnsupportedParamsError":
        return CallError("terminal", asked.error(f"{name} does not take what was asked: {said}"))
    if status in (400, 413, 422) and said:
        return CallError("refused", asked.error(f"{name} refused the request (status {status}): {said}"))
    if status is None or status < 400:
        return CallError("terminal", asked.error(f"{name}: {type(error).__name__}: {said}"))
    if not said:
        return CallError("transient", ProviderError(f"{name} failed (status {status}) and did not say why"))
    if status < 500 and status not in _WORTH_TRYING_AGAIN:
        return CallError("terminal", asked.error(f"{name} cannot be asked (status {status}): {said}"))
    unreachable = next((link for link in _chain(error) if isinstance(link, OSError)), None)
    if status >= 500 and unreachable is not None and not isinstance(unreachable, TimeoutError):
        at = f" at {asked.api_base}" if asked.api_base is not None else ""
        why = unreachable.strerror or said
        return CallError(
            "transient", ProviderError(f"{name} cannot be reached{at}: {redact(why)}; look at {asked.keys}api_base")
        )
    return CallError("transient", ProviderError(f"{name} failed: {said}"), _retry_after(error))


def _said(asked: Asked, error: Exception) -> str:
    """The message to show people, without LiteLLM's labels."""
    if any(isinstance(link, _MISREAD) for link in _chain(error)):
        return f"what was answered is no answer of {asked.api}; look at {asked.keys}api_base"
    text = str(error)[:_LONGEST_BODY].split("Traceback (most recent call last)")[0].strip()
    return _plain(asked, _LABELS.sub("", text).split(" Error_str:")[0])


def _plain(asked: Asked, answer: str) -> str:
    """What an error's body says: the message in JSON, no page of HTML."""
    if re.match(r"<(!doctype|html)\b", answer, re.IGNORECASE):
        return f"a page of HTML was answered; look at {asked.keys}api_base"
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
