"""Mail: a message (.eml), or a mailbox of several (mbox), read by the standard library."""

from __future__ import annotations

import email
import email.policy
import re
from collections.abc import Iterator
from email.message import EmailMessage
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.dates import mail_date
from rag_pipeline.parsing.encoding import decode
from rag_pipeline.parsing.html import write_html
from rag_pipeline.parsing.no_text import ONLY_MARKUP

MEDIA_TYPE = "message/rfc822"
MAILBOX_TYPE = "application/mbox"

_SHOWN = ("From", "To", "Cc", "Date")
_DEEPEST = 10
_ENCRYPTED_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"})
_MESSAGE_START = re.compile(rb"(?:\A|\r?\n\r?\n)From [^\r\n]*\r?\n(?=[!-9;-~]+:)")
_SOFT_LINE_BREAK = re.compile(r"(?<=[^\s-]) \n(?![>\s]|-- \n)")


def parse_mail(data: bytes) -> Parsed:
    """Parse one message: its head, its body once (as plain text where it has one), and messages forwarded with it.

    The title is the subject. Metadata are ``from``, ``to``, ``date``, ``message_id`` and ``attachments``, the names of
    what was attached; attachments themselves are not read.

    Raises:
        ParseError: it is encrypted, or holds no text.
    """
    message = _message(data)
    builder = TextBuilder()
    _write(message, builder, 1)
    subject = _header(message, "Subject")
    if not subject and not any(part.strip() for part in map(str, (_header(message, "From"), builder.blocks or ""))):
        raise ParseError(ONLY_MARKUP)
    return builder.build(MEDIA_TYPE, subject or None, _metadata(message))


def parse_mailbox(data: bytes) -> Parsed:
    """Parse a mailbox: each message is a page, its subject a heading.

    Raises:
        ParseError: no message holds any text.
    """
    builder = TextBuilder()
    for number, raw in enumerate(_messages(data), 1):
        builder.page(number)
        try:
            _write(_message(raw), builder, 1)
        except ParseError as error:
            builder.loss(f"message {number}: {error}")
    return builder.build(MAILBOX_TYPE, None, {})


def _messages(data: bytes) -> Iterator[bytes]:
    starts = [(found.start(), found.end()) for found in _MESSAGE_START.finditer(data)]
    ends = [start for start, _ in starts[1:]] + [len(data)]
    for (_, start), end in zip(starts, ends, strict=True):
        yield re.sub(rb"(?m)^>(>*From )", rb"\1", data[start:end])


def _message(data: bytes) -> EmailMessage:
    return email.message_from_bytes(data.lstrip(b"\xef\xbb\xbf\r\n"), policy=email.policy.default)


def _header(message: EmailMessage, name: str) -> str:
    try:
        value = message.get(name)
    except (ValueError, TypeError, IndexError, AttributeError, LookupError):  # what the library raises on broken headers
        value = next((raw for key, raw in message.raw_items() if key.lower() == name.lower()), "")
    return " ".join(str(value or "").encode("utf-8", "replace").decode().split())


def _metadata(message: EmailMessage) -> dict[str, Any]:
    names = {"from": "From", "to": "To", "message_id": "Message-ID"}
    values: dict[str, Any] = {key: _header(message, name) for key, name in names.items()}
    values["date"] = mail_date(_header(message, "Date"))
    values["attachments"] = [name for part in _attached(message) if (name := _filename(part))]
    return {name: value for name, value in values.items() if value}


def _write(message: EmailMessage, builder: TextBuilder, depth: int) -> None:
    if message.get_content_type() in _ENCRYPTED_TYPES and _header(message, "Content-Type").find("signed-data") < 0:
        raise ParseError("encrypted message (S/MIME or PGP)")
    builder.heading(depth, _header(message, "Subject"))
    for name in _SHOWN:
        if value := _header(message, name):
            builder.block(f"{name}: {value}", tight=True)
    body = _body(message)
    if body is not None:
        _write_body(body, builder)
    for part in _attached(message):
        if part.get_content_type() == "message/rfc822" and depth < _DEEPEST:
            for forwarded in part.iter_parts():
                if isinstance(forwarded, EmailMessage):
                    _write(forwarded, builder, depth + 1)
        elif name := _filename(part):
            builder.block(f"Attachment: {name}", tight=True)


def _body(message: EmailMessage) -> EmailMessage | None:
    """The part to read: plain text unless it is blank, else HTML."""
    try:
        candidates = [message.get_body((kind,)) for kind in ("plain", "html")]
    except (ValueError, TypeError, KeyError, AttributeError):  # a multipart message without parts
        candidates = [message]
    found = [part for part in candidates if isinstance(part, EmailMessage)]
    return next((part for part in found if _text(part).strip()), None)


def _attached(message: EmailMessage) -> list[EmailMessage]:
    """Parts that are neither the body nor another form of it, pictures within HTML aside."""
    bodies = {id(message.get_body((kind,))) for kind in ("plain", "html")} if message.is_multipart() else {id(message)}
    return [
        part
        for part in message.walk()
        if isinstance(part, EmailMessage)
        and id(part) not in bodies
        and (part.get_content_type() == "message/rfc822" or not part.is_multipart())
        and (part.is_attachment() or part.get_content_type() == "message/rfc822" or _filename(part))
        and "Content-ID" not in part
    ]


def _filename(part: EmailMessage) -> str:
    try:
        return " ".join((part.get_filename() or "").encode("utf-8", "replace").decode().split())
    except (ValueError, TypeError, LookupError):
        return ""


def _text(part: EmailMessage) -> str:
    """The text of a part. A charset that is not known or wrong is found out from the bytes."""
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    charset = part.get_content_charset()
    if charset:
        try:
            return payload.decode(charset)
        except (LookupError, ValueError):
            pass
    try:
        return decode(payload, html=part.get_content_subtype() == "html")
    except ParseError:
        return ""


def _write_body(part: EmailMessage, builder: TextBuilder) -> None:
    text = _text(part)
    if part.get_content_subtype() == "html":
        write_html(text, builder)
        return
    text = text.replace("\r\n", "\n")
    if str(part.get_param("format", "")).lower() == "flowed":
        text = _SOFT_LINE_BREAK.sub(" ", text)  # RFC 3676
    for paragraph in re.split(r"\n[ \t]*\n", text):
        builder.block(paragraph.strip("\n"))
