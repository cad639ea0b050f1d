"""What an object store or its client says when something fails, as one line of ours.

The clients' own messages run over many lines, quote requests and may name keys: only status, code and host are taken.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

_CREDENTIAL_CODES = ("AccessDenied", "InvalidAccessKeyId", "SignatureDoesNotMatch", "ExpiredToken", "InvalidToken")
_REGION_CODES = ("PermanentRedirect", "AuthorizationHeaderMalformed", "IllegalLocationConstraintException")
_BUCKET_CODES = ("NoSuchBucket", "ContainerNotFound", "ContainerBeingDeleted")
"""S3 and Google, and Azure."""
_TRANSIENT_STATUS = frozenset({"408", "429", "500", "502", "503", "504"})
_NETWORK_WORDS = (
    "error sending request",
    "connection",
    "timed out",
    "timeout",
    "error decoding response body",
    "incomplete message",
    "http error",
    "end of file",
    "dns error",
    "broken pipe",
)
_REMEDIES = (
    ("MicrosoftAzure", "set AZURE_STORAGE_ACCOUNT_KEY, or another variable of Azure"),
    ("GCS", "set GOOGLE_APPLICATION_CREDENTIALS to the file of a service account"),
)
_QUOTED_CLIENT = re.compile(r'store: "(?!Local)|\b(?:S3|GCS|MicrosoftAzure|HTTP) error')
"""How LanceDB quotes the client of a bucket."""


class S3RequestError(Exception):
    """A request of our own that failed; the message has the form of obstore's."""

    def __init__(self, message: str, *, transient: bool = False) -> None:
        super().__init__(message)
        self.transient = transient


def client_errors() -> tuple[type[Exception], ...]:
    """What obstore, and requests of our own, raise. Among them are errors that have nothing to do with the store."""
    from obstore.exceptions import BaseError

    return BaseError, S3RequestError, OSError, ValueError


def bucket_is_missing(error: BaseException) -> bool:
    """Whether a client says that there is no such bucket or container; some say it as of the object."""
    return any(code in str(error) for code in _BUCKET_CODES)


@dataclass(frozen=True)
class Failure:
    """``kind`` says what helps: another bucket, other credentials, another region, patience, or reading ``text``."""

    kind: Literal["missing", "refused", "region", "unreachable", "cut", "path", "changed", "other"]
    text: str

    @property
    def transient(self) -> bool:
        return self.kind in ("unreachable", "cut")


def failure_of(error: BaseException) -> Failure | None:
    """What went wrong, or None for an error that does not come from an object store."""
    message = str(error)
    name = type(error).__name__
    if name == "InvalidPathError" or "Could not parse path" in message:
        found = re.search(r"""(?:Path|path:) "(.*?)" ?(?:contained|:|,)""", message, re.DOTALL)
        return Failure("path", f"a key that cannot be read: {found.group(1)!r}" if found else "a key that cannot be read")
    if name in ("PreconditionError", "AlreadyExistsError", "NotModifiedError"):
        return Failure("changed", "it was changed meanwhile")
    if isinstance(error, FileNotFoundError) and bucket_is_missing(error):
        return Failure("missing", "there is no such bucket")
    if not (_is_client_error(error) or _QUOTED_CLIENT.search(message)):
        return None
    if not _is_client_error(error) and re.search(r"NotFound|[Nn]ot found:", message) and not bucket_is_missing(error):
        return None  # LanceDB misses a file
    status = next(iter(re.findall(r"status(?: code)?: ?(\d{3})", message)), None)
    code = next(iter(re.findall(r"<Code>(\w+)</Code>", message)), None)
    shown = " ".join(part for part in (status, code) if part)
    if code in _BUCKET_CODES or (status == "404" and code not in ("NoSuchKey", "BlobNotFound")):
        return Failure("missing", "there is no such bucket")
    if code in _REGION_CODES or status == "301" or "incorrectly configured region" in message:
        shown = f" ({shown})" if shown else ""
        return Failure("region", f"the bucket lies in another region{shown}: set storage_options.region, or AWS_REGION")
    if code in _CREDENTIAL_CODES or status in ("401", "403"):
        return _refused(message, shown)
    if "169.254.169.254" in message or "metadata.google.internal" in message or "credential" in message.lower():
        return _without_credentials(message)
    if status in _TRANSIENT_STATUS:
        return Failure("unreachable", f"the store answers {shown}, also after several tries")
    if status is None and any(word in message.lower() for word in _NETWORK_WORDS):
        host = next(iter(re.findall(r"(https?://[^/\s\"?]+)", message)), None)
        cut = "error sending request" not in message.lower()
        return Failure("cut" if cut else "unreachable", f"{host or 'the store'} cannot be reached, or cuts connections")
    return Failure("other", shown or " ".join(message.split("\n")[0].split())[:200])


def _refused(message: str, shown: str) -> Failure:
    if "169.254.169.254" in message:
        return _without_credentials(message)
    if "RequestTimeTooSkewed" in message:
        return Failure("refused", f"the store refuses this machine's clock ({shown}): set it right")
    return Failure("refused", f"access was refused ({shown}): check the credentials and what they allow")


def _without_credentials(message: str) -> Failure:
    remedy = next(
        (remedy for store, remedy in _REMEDIES if store in message), "set them in the environment, or name a profile"
    )
    return Failure("refused", f"no credentials found: {remedy}")


def _is_client_error(error: BaseException) -> bool:
    return type(error).__module__.startswith("obstore") or isinstance(error, S3RequestError)
