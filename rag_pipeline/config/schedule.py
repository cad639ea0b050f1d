"""`schedule` and `freshness`: when a corpus is refreshed, and when it counts as late."""

from __future__ import annotations

import re
from typing import Annotated
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field

from rag_pipeline.config.strict import Strict

_CRON_RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))


def _check_cron(cron: str) -> str:
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"expected five fields such as '0 3 * * *', got {cron!r}")
    for field, (name, low, high) in zip(fields, _CRON_RANGES, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?|[A-Za-z]{3}(?:-[A-Za-z]{3})?)(?:/(\d+))?", part)
            numbers = [int(n) for n in (match.group(1), match.group(2)) if n] if match else []
            step = match.group(3) if match else None
            if not match or any(not low <= n <= high for n in numbers) or numbers != sorted(numbers) or step == "0":
                raise ValueError(f"expected as {name} {low} to {high}, *, a range or a step, got {part!r}")
    return cron


def _check_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as 'Europe/Berlin' or 'UTC', got {name!r}") from None
    return name


class ScheduleConfig(Strict):
    """When Dagster refreshes the corpus. A schedule that is written down runs unless ``enabled`` is false."""

    cron: Annotated[str, AfterValidator(_check_cron)] = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    enabled: bool = True


class FreshnessConfig(Strict):
    """After how many hours without a refresh the corpus counts as late in the Dagster UI."""

    max_age_hours: float = Field(gt=0)
