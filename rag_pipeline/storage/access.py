"""How a bucket is reached: one place that gives obstore and LanceDB the same endpoint, region and credentials.

Credentials come from the environment, from an AWS profile, or from what the machine offers (roles of an instance or a
container, which both libraries ask for themselves). What is resolved here is handed on and never shown. Keys of Google
and Azure are read from the environment by both libraries, which share the client and so the variables' names.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import lru_cache
from typing import Any
from urllib.parse import quote

from rag_pipeline.errors import ConfigError
from rag_pipeline.storage.address import BucketAddress
from rag_pipeline.storage.profiles import Credentials, profile_credentials, read_profile

_RETRIES = 10
_RETRY_SECONDS = 60
_FIRST_BACKOFF_SECONDS, _LONGEST_BACKOFF_SECONDS = 0.1, 5.0
"""A server that is started anew is waited for: .1, .2, .4, .8, 1.6, 3.2 and three times 5 seconds between the tries."""
_REQUEST_TIMEOUT = "15m"
"""Of a whole request: a large object on a slow line takes its time. One that stalls ends sooner, by the read timeout."""
_READ_TIMEOUT = "30s"

_S3_ENDPOINT_VARIABLES = ("AWS_ENDPOINT_URL_S3", "AWS_ENDPOINT_URL", "AWS_ENDPOINT")
_GOOGLE_ENDPOINT_VARIABLES = ("GOOGLE_BASE_URL",)
_AZURE_ENDPOINT_VARIABLES = ("AZURE_STORAGE_ENDPOINT", "AZURE_ENDPOINT")
_AZURE_ACCOUNT_VARIABLES = ("AZURE_STORAGE_ACCOUNT_NAME",)
_GOOGLE_VARIABLES = re.compile("GOOGLE_(BASE_URL|BEARER_TOKEN|SKIP_SIGNATURE|SERVICE_ACCOUNT.*|APPLICATION_CREDENTIALS)")
_AZURE_VARIABLES = re.compile(
    "AZURE_(STORAGE_.*|ENDPOINT|SKIP_SIGNATURE|USE_AZURE_CLI|USE_FABRIC_ENDPOINT|CLIENT_ID|CLIENT_SECRET|TENANT_ID|"
    "AUTHORITY_(ID|HOST)|FEDERATED_TOKEN_FILE|(MSI|IDENTITY)_ENDPOINT|OBJECT_ID|MSI_RESOURCE_ID|FABRIC_.*)"
)
"""Names that object_store's GoogleConfigKey and AzureConfigKey list; others, of language models, are nobody's business."""
_ROLE_VARIABLES = (
    "AWS_WEB_IDENTITY_TOKEN_FILE",
    "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI",
    "AWS_CONTAINER_CREDENTIALS_FULL_URI",
)


@dataclass(frozen=True)
class Access:
    """A resolved way to a bucket. ``config`` has obstore's names and no secret."""

    address: BucketAddress
    config: tuple[tuple[str, str], ...] = ()
    credentials: Credentials | None = field(default=None, repr=False)
    profile: str | None = None

    @property
    def store(self) -> Any:
        """obstore's store of the whole bucket: one a process for each way to it, with its pool of connections."""
        return _open_store(
            os.getpid(),
            self.address.scheme,
            self.address.bucket,
            self.config,
            self.credentials,
            self.profile,
            _variables_of(self.address.scheme),
        )

    @property
    def lance_uri(self) -> str:
        """The address as Lance reads it: percent-encoded."""
        return f"{self.address.scheme}://{self.address.bucket}/{quote(self.address.key)}"

    @property
    def lance_options(self) -> dict[str, str]:
        """LanceDB's storage_options. They hold secrets."""
        prefix = {"s3": "aws_", "gs": "google_", "az": "azure_storage_"}[self.address.scheme]
        # All three clients know the bare name of this one, and Azure's no other that begins as the rest do.
        options = {name if name == "skip_signature" else f"{prefix}{name}": value for name, value in self.config}
        if self.address.scheme == "az":
            # Lance (13.0) reads these once a process, obstore with each store.
            options = {name.lower(): value for name, value in _variables_of("az")} | options
        if self.credentials is not None:
            options["aws_access_key_id"] = self.credentials.access_key_id
            options["aws_secret_access_key"] = self.credentials.secret_access_key
            if self.credentials.token:
                options["aws_session_token"] = self.credentials.token
        if _is_plain_http(self.config):
            options["allow_http"] = "true"
        return {**options, "client_max_retries": str(_RETRIES), "client_retry_timeout": str(_RETRY_SECONDS)}


def resolve_access(
    address: BucketAddress,
    *,
    endpoint: str | None = None,
    region: str | None = None,
    profile: str | None = None,
    account: str | None = None,
    anonymous: bool = False,
    virtual_hosted: bool = False,
) -> Access:
    """Find out how a bucket is reached: what is not given comes from the environment.

    Raises:
        ConfigError: an option does not belong to this kind of store, or no credentials can be found.
    """
    if address.scheme == "s3":
        if account is not None:
            raise ConfigError(f"{address}: storage_options.account: expected with az:// only")
        return _s3(address, endpoint, region, profile, anonymous, virtual_hosted)
    given = {"profile": profile, "region": region, "virtual_hosted": virtual_hosted or None}
    if address.scheme == "gs":
        given |= {"account": account}
    for name, value in given.items():
        if value is not None:
            raise ConfigError(f"{address}: storage_options.{name}: not expected with {address.scheme}://")
    config = _google(endpoint) if address.scheme == "gs" else _azure(address, account, endpoint)
    if anonymous:
        config["skip_signature"] = "true"
    return Access(address, tuple(config.items()))


def _google(endpoint: str | None) -> dict[str, str]:
    endpoint = endpoint or _first_set(_GOOGLE_ENDPOINT_VARIABLES)
    return {"base_url": endpoint.rstrip("/")} if endpoint else {}


def _azure(address: BucketAddress, account: str | None, endpoint: str | None) -> dict[str, str]:
    account = account or _first_set(_AZURE_ACCOUNT_VARIABLES)
    endpoint = endpoint or _first_set(_AZURE_ENDPOINT_VARIABLES)
    emulated = os.environ.get("AZURE_STORAGE_USE_EMULATOR", "").lower() in ("1", "true", "on", "yes", "y")
    if account is None and not emulated:
        raise ConfigError(
            f"{address}: no storage account: set AZURE_STORAGE_ACCOUNT_NAME, or storage_options.account for a source"
            + ("; AZURE_STORAGE_CONNECTION_STRING is not read" if os.environ.get("AZURE_STORAGE_CONNECTION_STRING") else "")
        )
    config = {"account_name": account, "endpoint": endpoint.rstrip("/") if endpoint else None}
    return {name: value for name, value in config.items() if value is not None}


def _first_set(variables: Sequence[str]) -> str | None:
    return next((os.environ[name] for name in variables if os.environ.get(name)), None)


def _s3(
    address: BucketAddress,
    endpoint: str | None,
    region: str | None,
    profile: str | None,
    anonymous: bool,
    virtual_hosted: bool,
) -> Access:
    environment = os.environ
    name = profile or environment.get("AWS_PROFILE") or environment.get("AWS_DEFAULT_PROFILE")
    values = read_profile(name or "default")
    if values is None and name is not None:
        origin = "storage_options.profile" if profile else "AWS_PROFILE"
        raise ConfigError(f"{address}: {origin}: there is no AWS profile {name!r} in ~/.aws/config and ~/.aws/credentials")
    values = values or {}
    endpoint = endpoint or _first_set(_S3_ENDPOINT_VARIABLES) or values.get("endpoint_url")
    region = (
        region
        or environment.get("AWS_REGION")
        or environment.get("AWS_DEFAULT_REGION")
        or values.get("region")
        or "us-east-1"
    )
    config = {"region": region, "virtual_hosted_style_request": "true" if virtual_hosted else "false"}
    if endpoint:
        config["endpoint"] = endpoint.rstrip("/")
    credentials = None
    if anonymous:
        config["skip_signature"] = "true"
    else:
        credentials = _s3_credentials(address, profile, name, values, endpoint)
    return Access(address, tuple(config.items()), credentials, name or "default")


def _s3_credentials(
    address: BucketAddress, profile: str | None, name: str | None, values: dict[str, str], endpoint: str | None
) -> Credentials | None:
    """The first of: a profile that was asked for, the environment, a profile that is set there, the default profile.

    None leaves it to the libraries to ask what the machine runs on for a role.
    """
    environment = os.environ
    if profile is None and environment.get("AWS_ACCESS_KEY_ID") and environment.get("AWS_SECRET_ACCESS_KEY"):
        return Credentials(
            environment["AWS_ACCESS_KEY_ID"],
            environment["AWS_SECRET_ACCESS_KEY"],
            environment.get("AWS_SESSION_TOKEN") or None,
        )
    credentials = profile_credentials(name or "default", values)
    if credentials is not None:
        return credentials
    if profile is None and any(environment.get(variable) for variable in _ROLE_VARIABLES):
        return None
    asks_nobody = environment.get("AWS_EC2_METADATA_DISABLED", "").lower() == "true"
    if asks_nobody or profile is not None or (endpoint is not None and "amazonaws.com" not in endpoint):
        raise ConfigError(
            f"{address}: no credentials found: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE; "
            f"a public bucket needs storage_options.anonymous: true"
        )
    return None


@lru_cache(maxsize=32)
def _open_store(
    process: int,
    scheme: str,
    bucket: str,
    config: tuple[tuple[str, str], ...],
    credentials: Credentials | None,
    profile: str | None,
    variables: tuple[tuple[str, str], ...],
) -> Any:
    """``variables`` are what the client reads for itself: others make another store."""
    from obstore.exceptions import BaseError
    from obstore.store import AzureStore, GCSStore, S3Store

    options: dict[str, Any] = {
        "config": dict(config),
        "client_options": {
            "allow_http": _is_plain_http(config),
            "timeout": _REQUEST_TIMEOUT,
            "read_timeout": _READ_TIMEOUT,
            "connect_timeout": "5s",
        },
        "retry_config": {
            "max_retries": _RETRIES,
            "retry_timeout": timedelta(seconds=_RETRY_SECONDS),
            "backoff": {
                "init_backoff": timedelta(seconds=_FIRST_BACKOFF_SECONDS),
                "max_backoff": timedelta(seconds=_LONGEST_BACKOFF_SECONDS),
            },
        },
    }
    if credentials is not None:
        options["credential_provider"] = _provider(credentials, profile)
    try:
        return {"s3": S3Store, "gs": GCSStore, "az": AzureStore}[scheme](bucket, **options)
    except BaseError as error:
        # The client quotes what it cannot read, which may be a key.
        reason = re.sub(r'"(?:[^"\\]|\\.)*"|\{.*', "…", str(error).split("\n")[0])
        raise ConfigError(f"{scheme}://{bucket}: what the environment says of this store does not fit: {reason}") from None


def _variables_of(scheme: str) -> tuple[tuple[str, str], ...]:
    """What the environment says to the clients of Google and Azure."""
    wanted = {"gs": _GOOGLE_VARIABLES, "az": _AZURE_VARIABLES}.get(scheme)
    if wanted is None:
        return ()
    return tuple(sorted(item for item in os.environ.items() if wanted.fullmatch(item[0])))


def _provider(first: Credentials, profile: str | None) -> Callable[[], dict[str, Any]]:
    """Gives obstore the credentials, and new ones of the profile when they have an end and come near to it.

    A provider, since obstore would join single keys with what it finds in the environment.
    """
    asked = False

    def provide() -> dict[str, Any]:
        nonlocal asked
        credentials = first
        if asked and first.expires_at is not None and profile is not None:
            credentials = profile_credentials(profile, read_profile(profile) or {}) or first
        asked = True
        return {
            "access_key_id": credentials.access_key_id,
            "secret_access_key": credentials.secret_access_key,
            "token": credentials.token,
            "expires_at": credentials.expires_at,
        }

    return provide


def _is_plain_http(config: tuple[tuple[str, str], ...]) -> bool:
    values = dict(config)
    return values.get("endpoint", values.get("base_url", "")).startswith("http://")
