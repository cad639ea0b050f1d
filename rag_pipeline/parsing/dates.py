"""Dates as documents write them -> ISO 8601."""

from __future__ import annotations

import re
from datetime import date, datetime
from email.utils import parsedate_to_datetime

_PDF_DATE = re.compile(
    r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+-])(\d\d)'?(\d\d)?'?|Z.*)?\s*$"  # ISO 32000-1, 7.9.4
)


def pdf_date(text: str) -> str | None:
    """A date of a PDF, None where it is none."""
    found = _PDF_DATE.match(text.strip())
    if found is None:
        return None
    year, month, day, hour, minute, second, sign, zone_hours, zone_minutes = found.groups()
    zone = f"{sign}{zone_hours}:{zone_minutes or '00'}" if sign else "+00:00" if "Z" in text else ""
    written = f"{year}-{month or '01'}-{day or '01'}T{hour or '00'}:{minute or '00'}:{second or '00'}{zone}"
    try:
        return datetime.fromisoformat(written).isoformat()
    except ValueError:
        return None


def mail_date(text: str) -> str | None:
    """The `Date` of a message, None where it is none."""
    try:
        return parsedate_to_datetime(text).isoformat()
    except (ValueError, TypeError, IndexError, OverflowError):
        return None


def iso_date(value: date) -> str:
    """A date, or a time of a day; midnight is a date."""
    if isinstance(value, datetime):
        return value.date().isoformat() if value.time() == datetime.min.time() else value.isoformat(sep=" ")
    return value.isoformat()
