"""`schedule`, `freshness` and `execution`: when and how a corpus is refreshed, and when it counts as late."""

from __future__ import annotations

import re
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import AfterValidator, Field, model_validator
from typing_extensions import Self

from rag_pipeline.config.strict import Strict

_CRON_RANGES = (("minute", 0, 59), ("hour", 0, 23), ("day of month", 1, 31), ("month", 1, 12), ("day of week", 0, 7))
_CRON_NAMES = {
    "month": {"jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"},
    "day of week": {"sun", "mon", "tue", "wed", "thu", "fri", "sat"},
}


def _check_cron(cron: str) -> str:
    fields = cron.split()
    if len(fields) != 5:
        raise ValueError(f"expected five fields such as '0 3 * * *', got {cron!r}")
    for field, (name, low, high) in zip(fields, _CRON_RANGES, strict=True):
        for part in field.split(","):
            match = re.fullmatch(r"(?:\*|(\d+)(?:-(\d+))?|([A-Za-z]{3})(?:-([A-Za-z]{3}))?)(?:/(\d+))?", part)
            numbers = [int(n) for n in (match.group(1), match.group(2)) if n] if match else []
            words = {word.lower() for word in match.group(3, 4) if word} if match else set()
            step = match.group(5) if match else None
            in_range = all(low <= n <= high for n in numbers) and words <= _CRON_NAMES.get(name, set())
            if not match or not in_range or numbers != sorted(numbers) or step == "0":
                raise ValueError(f"expected as {name} {low} to {high}, *, a range or a step, got {part!r}")
    return cron


def _check_timezone(name: str) -> str:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise ValueError(f"expected a time zone such as 'Europe/Berlin' or 'UTC', got {name!r}") from None
    return name


class ScheduleConfig(Strict):
    """When Dagster refreshes the corpus. A schedule that is written down runs unless ``enabled`` is false.

    ``on_change`` also refreshes it when a listing of the source shows a change, at most once in ``on_change_minutes``.
    """

    cron: Annotated[str, AfterValidator(_check_cron)] = "0 3 * * *"
    timezone: Annotated[str, AfterValidator(_check_timezone)] = "UTC"
    enabled: bool = True
    on_change: bool = False
    on_change_minutes: float = Field(default=5, ge=0)


class FreshnessConfig(Strict):
    """After how many hours without a refresh the corpus counts as late in the Dagster UI, and before that as nearly late."""

    max_age_hours: float = Field(gt=0)
    warn_age_hours: float | None = Field(default=None, gt=0)

    @model_validator(mode="after")
    def _warns_before_it_fails(self) -> Self:
        if self.warn_age_hours is not None and self.warn_age_hours >= self.max_age_hours:
            raise ValueError(f"warn_age_hours: expected less than max_age_hours ({self.max_age_hours:g})")
        return self


class ExecutionConfig(Strict):
    """How Dagster runs a refresh: all stages in one process, or ``multiprocess`` with a process a stage, one at a time."""

    executor: Literal["in_process", "multiprocess"] = "in_process"
