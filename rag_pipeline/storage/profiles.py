"""AWS profiles: what the files that `aws configure` writes say, for libraries that read the environment only.

The files and their keys are described in docs.aws.amazon.com/cli/latest/userguide/cli-configure-files.html.
"""

from __future__ import annotations

import configparser
import json
import os
import shlex
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from rag_pipeline.errors import ConfigError

_PROCESS_SECONDS = 60


@dataclass(frozen=True)
class Credentials:
    """Keys of an account. Never shown."""

    access_key_id: str = field(repr=False)
    secret_access_key: str = field(repr=False)
    token: str | None = field(default=None, repr=False)
    expires_at: datetime | None = None


def read_profile(name: str) -> dict[str, str] | None:
    """All that the two files say of a profile, or None when neither has it.

    Raises:
        ConfigError: a file cannot be read.
    """
    config = _sections("AWS_CONFIG_FILE", "config")
    credentials = _sections("AWS_SHARED_CREDENTIALS_FILE", "credentials")
    section = name if name == "default" else f"profile {name}"
    found = [values for values in (config.get(section), credentials.get(name)) if values is not None]
    if not found:
        return None
    return {key: value for values in found for key, value in values.items()}


def profile_credentials(name: str, profile: Mapping[str, str]) -> Credentials | None:
    """The keys of a profile, or None when it names none.

    Raises:
        ConfigError: they cannot be had; the message says what to do.
    """
    if "aws_access_key_id" in profile and "aws_secret_access_key" in profile:
        return Credentials(
            profile["aws_access_key_id"], profile["aws_secret_access_key"], profile.get("aws_session_token") or None
        )
    if "credential_process" in profile:
        return _from_process(name, profile["credential_process"])
    if any(key == "role_arn" or key.startswith("sso_") for key in profile):
        return _from_boto3(name)
    return None


def _sections(variable: str, default: str) -> dict[str, dict[str, str]]:
    file = Path(os.environ.get(variable) or Path.home() / ".aws" / default).expanduser()
    parser = configparser.RawConfigParser(default_section="\0", strict=False)
    try:
        parser.read_string(file.read_text(encoding="utf-8-sig"))
    except FileNotFoundError:
        return {}
    except (OSError, UnicodeDecodeError, configparser.Error) as error:
        # A parser's message quotes the line, which may hold a key.
        raise ConfigError(f"{file}: this file of AWS profiles cannot be read ({type(error).__name__})") from None
    return {section: dict(parser.items(section)) for section in parser.sections()}


def _from_process(name: str, command: str) -> Credentials:
    where = f"AWS profile {name!r}: credential_process"
    try:
        done = subprocess.run(shlex.split(command), capture_output=True, timeout=_PROCESS_SECONDS, check=True)
        answer: dict[str, Any] = json.loads(done.stdout)
        expires = answer.get("Expiration")
        return Credentials(
            answer["AccessKeyId"],
            answer["SecretAccessKey"],
            answer.get("SessionToken"),
            datetime.fromisoformat(expires.replace("Z", "+00:00")) if expires else None,
        )
    except (OSError, ValueError, KeyError, TypeError, AttributeError, subprocess.SubprocessError) as error:
        raise ConfigError(f"{where} gave no credentials ({type(error).__name__}); run it by hand to see why") from None


def _from_boto3(name: str) -> Credentials:
    try:
        import boto3
        from botocore.exceptions import BotoCoreError, ClientError
    except ImportError:
        raise ConfigError(
            f"AWS profile {name!r} takes a role or single sign-on, which needs boto3: install boto3, or set what "
            f"`aws configure export-credentials --profile {name} --format env` prints"
        ) from None
    try:
        found = boto3.Session(profile_name=name).get_credentials()
        if found is None:
            raise ConfigError(f"AWS profile {name!r} gives no credentials")
        keys = found.get_frozen_credentials()
        return Credentials(keys.access_key, keys.secret_key, keys.token, getattr(found, "_expiry_time", None))
    except (BotoCoreError, ClientError) as error:
        raise ConfigError(f"AWS profile {name!r}: no credentials: {type(error).__name__}; log in again") from None
