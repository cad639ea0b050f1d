"""Outlook messages (.msg), read by python-oxmsg."""

from __future__ import annotations

import io
from email.header import decode_header, make_header
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.html import write_html
from rag_pipeline.parsing.reasons import first_line

MEDIA_TYPE = "application/vnd.ms-outlook"


def parse_outlook(data: bytes) -> Parsed:
    """Parse a message: its head, and its body as plain text or HTML. Attachments are named, not read.

    Raises:
        ParseError: it is damaged, or holds no text.
    """
    try:
        from oxmsg import Message
    except ImportError:
        raise MissingExtraError("python-oxmsg", "pipeline", "Reading Outlook messages") from None
    builder = TextBuilder()
    try:
        message: Any = Message.load(io.BytesIO(data))
        subject = " ".join((message.subject or "").split())
        recipients = ", ".join(filter(None, (_address(one.name, one.email_address) for one in message.recipients)))
        head = {
            "from": decoded_words(message.sender or ""),
            "to": recipients,
            "date": message.sent_date and message.sent_date.isoformat(),
        }
        attachments = [name for attachment in message.attachments if (name := attachment.file_name)]
        body, html = message.body or "", message.html_body or ""
    except Exception as error:  # olefile and oxmsg raise what their parsing stumbles upon
        raise ParseError(f"damaged Outlook message: {first_line(error)}") from error
    builder.heading(1, subject)
    for name, value in head.items():
        if value:
            builder.block(f"{name.capitalize()}: {value}", tight=True)
    if body.strip():
        builder.block(body.strip())
    elif html.strip():
        write_html(html, builder)
    else:
        builder.loss("its body is missing, or in RTF only, which is not read")
    for name in attachments:
        builder.block(f"Attachment: {name}", tight=True)
    metadata = {name: value for name, value in {**head, "attachments": attachments}.items() if value}
    return builder.build(MEDIA_TYPE, subject or None, metadata)


def _address(name: str | None, email_address: str | None) -> str:
    address = f"<{email_address}>" if email_address else ""
    return decoded_words(" ".join(f"{name or ''} {address}".split()))


def decoded_words(value: str) -> str:
    """A value of a head, with words in the form of RFC 2047 read: Exchange keeps those of mail from elsewhere."""
    try:
        return str(make_header(decode_header(value)))
    except (LookupError, ValueError):  # a charset that nobody knows, or bytes that are none of it
        return value
