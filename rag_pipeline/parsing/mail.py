"""Mail: a message (.eml), or a mailbox of several (mbox), read by the standard library."""

from __future__ import annotations

import base64
import contextlib
import email
import email.policy
import re
from collections.abc import Iterator, Sequence
from email.message import EmailMessage
from typing import Any

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.dates import mail_date
from rag_pipeline.parsing.encoding import codec, decode
from rag_pipeline.parsing.html import write_html
from rag_pipeline.parsing.no_text import ONLY_MARKUP

MEDIA_TYPE = "message/rfc822"
MAILBOX_TYPE = "application/mbox"

_SHOWN = ("From", "To", "Cc", "Date")
_DEEPEST = 10
_STUB = 4
"""A plain text is read where the HTML beside it has no more than so many times its length."""
_ENCRYPTED_TYPES = frozenset({"application/pkcs7-mime", "application/x-pkcs7-mime", "multipart/encrypted"})
_TEXTS = frozenset({"text/plain", "text/html", "text/calendar", "text/rfc822-headers", "message/delivery-status"})
_OF_MESSAGES = frozenset({"message/rfc822", "message/delivery-status"})
_RAW_BYTES = re.compile("[\udc80-\udcff]")
_BASE64 = re.compile(rb"[A-Za-z0-9+/\s]{4,}")
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
    raw = next((value for key, value in message.raw_items() if key.lower() == name.lower()), None)
    if raw is None:
        return ""
    if _RAW_BYTES.search(str(raw)):  # written without the encoding that a head wants
        return " ".join(_decoded(str(raw).encode("utf-8", "surrogateescape"), message.get_content_charset()).split())
    try:
        value = message.get(name)
    except (ValueError, TypeError, IndexError, AttributeError, LookupError):  # what the library raises on broken headers
        value = raw
    return " ".join(str(value or "").encode("utf-8", "replace").decode().split())


def _metadata(message: EmailMessage) -> dict[str, Any]:
    names = {"from": "From", "to": "To", "message_id": "Message-ID"}
    values: dict[str, Any] = {key: _header(message, name) for key, name in names.items()}
    values["date"] = mail_date(_header(message, "Date"))
    values["attachments"] = list(_attached_names(message))
    return {name: value for name, value in values.items() if value}


def _write(message: EmailMessage, builder: TextBuilder, depth: int) -> None:
    if message.get_content_type() in _ENCRYPTED_TYPES and _header(message, "Content-Type").find("signed-data") < 0:
        raise ParseError("encrypted message (S/MIME or PGP)")
    builder.heading(depth, _header(message, "Subject"))
    for name in _SHOWN:
        if value := _header(message, name):
            builder.block(f"{name}: {value}", tight=True)
    parts = list(_parts(message))
    for part in parts:
        if not _is_attached(part):
            _write_body(part, builder)
    for part in parts:
        if part.get_content_type() == "message/rfc822" and depth < _DEEPEST:
            for forwarded in part.iter_parts():
                if isinstance(forwarded, EmailMessage):
                    _write(forwarded, builder, depth + 1)
        elif _is_attached(part) and (name := _filename(part)):
            builder.block(f"Attachment: {name}", tight=True)


def _parts(part: EmailMessage) -> Iterator[EmailMessage]:
    """The parts of a message that are not parts of others, of several forms of a text the one to read.

    What HTML shows within itself, such as pictures, is left out, and a forwarded message is one part.
    """
    kind = part.get_content_type()
    if kind in _OF_MESSAGES or not part.is_multipart():
        yield part
        return
    below = [child for child in part.iter_parts() if isinstance(child, EmailMessage)]
    if kind == "multipart/alternative":
        forms = [list(_parts(child)) for child in below]
        shown = _form_to_read(forms)
        yield from (one for form in forms for one in form if form is shown or one.is_attachment())
    else:
        for child in below:
            if "Content-ID" not in child or child.get_content_maintype() in ("text", "multipart"):
                yield from _parts(child)


def _form_to_read(forms: Sequence[list[EmailMessage]]) -> list[EmailMessage] | None:
    """Of several forms of a text the plain one, unless it only says that there is another one, else HTML, else the first."""
    texts = [form for form in forms if any(_text(part).strip() for part in form if not _is_attached(part))]
    plain, html = (next((form for form in texts if _has(form, kind)), None) for kind in ("text/plain", "text/html"))
    if plain is not None and html is not None and _length(html) > _STUB * _length(plain):
        return html
    return plain or html or next(iter(texts), None)


def _has(form: Sequence[EmailMessage], kind: str) -> bool:
    return any(part.get_content_type() == kind for part in form)


def _length(form: Sequence[EmailMessage]) -> int:
    builder = TextBuilder()
    for part in form:
        if not _is_attached(part):
            _write_body(part, builder)
    return builder.length


def _is_attached(part: EmailMessage) -> bool:
    """Whether a part is a file that came with the message, rather than text of it."""
    kind = part.get_content_type()
    if part.is_attachment() or kind == "message/rfc822":
        return True
    return (
        not kind.startswith("multipart/") and kind not in _TEXTS and (not kind.startswith("text/") or bool(_filename(part)))
    )


def _attached_names(message: EmailMessage) -> Iterator[str]:
    for part in _parts(message):
        if part.get_content_type() == "message/rfc822":
            for forwarded in part.iter_parts():
                if isinstance(forwarded, EmailMessage):
                    yield from _attached_names(forwarded)
        elif _is_attached(part) and (name := _filename(part)):
            yield name


def _filename(part: EmailMessage) -> str:
    try:
        return " ".join((part.get_filename() or "").encode("utf-8", "replace").decode().split())
    except (ValueError, TypeError, LookupError):
        return ""


def _text(part: EmailMessage) -> str:
    """The text of a part. A charset that is not known or wrong is found out from the bytes."""
    if part.get_content_type() in _OF_MESSAGES:
        return "\n".join(str(below).strip() for below in part.iter_parts())
    payload = part.get_payload(decode=True)
    if not isinstance(payload, bytes):
        return ""
    packed = part.get_payload()
    if _header(part, "Content-Transfer-Encoding").lower() == "base64" and payload == str(packed).encode("ascii", "replace"):
        payload = _unpacked(payload)  # the library gives up what is cut off within a group of four
    return _decoded(payload, part.get_content_charset(), html=part.get_content_subtype() == "html")


def _unpacked(payload: bytes) -> bytes:
    """Base 64 as far as it is whole; what is not base 64 at all, as it stands."""
    letters = b"".join(payload.split())
    return base64.b64decode(letters[: len(letters) // 4 * 4]) if _BASE64.fullmatch(payload) else payload


def _decoded(data: bytes, charset: str | None, *, html: bool = False) -> str:
    """
    Args:
        charset: what is said of the bytes. Those of one byte a character are said of UTF-8, too, and Latin-1 of Windows'.
    """
    name = codec(charset or "")
    if name is not None and data:
        if not name.startswith(("utf-", "iso2022", "hz")):
            with contextlib.suppress(UnicodeDecodeError):
                return data.decode("utf-8")
        with contextlib.suppress(UnicodeDecodeError):
            text = data.decode(name)
            if charset != "us-ascii" or data.isascii():
                return text
    try:
        return decode(data, html=html)
    except ParseError:
        return ""


def _write_body(part: EmailMessage, builder: TextBuilder) -> None:
    text = _text(part)
    if part.get_content_subtype() == "html":
        write_html(text, builder)
        return
    text = text.replace("\r\n", "\n")
    if str(part.get_param("format", "")).lower() == "flowed":
        space = "" if str(part.get_param("delsp", "")).lower() == "yes" else " "
        text = _SOFT_LINE_BREAK.sub(space, text)  # RFC 3676
    for paragraph in re.split(r"\n[ \t]*\n", text):
        builder.block(paragraph.strip("\n"))
