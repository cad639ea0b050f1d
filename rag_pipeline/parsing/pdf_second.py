"""The second reader of PDF: pypdf, slower than PDFium, but more forgiving."""

from __future__ import annotations

import io
import logging
import zlib
from collections.abc import Iterator
from typing import Any

from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.pdf_text import clean_page
from rag_pipeline.parsing.reasons import PASSWORD_PDF, first_line


class UnreadableError(Exception):
    """pypdf cannot read it, for one of the many reasons that it has."""


def _is_decoded(stream: Any) -> bool:
    """Whether a stream is empty or can be decoded; pypdf takes what cannot for empty."""
    packed: bytes = stream._data
    if not packed.strip() or stream.get_data().strip():
        return True
    return stream.get("/Filter") == "/FlateDecode" and not zlib.decompress(packed).strip()


class SecondReader:
    """A PDF as pypdf reads it, opened when it is first asked."""

    def __init__(self, data: bytes, password: str | None) -> None:
        self._data = data
        self._password = password
        self._opened: Any = None

    def count(self) -> int:
        """How many pages there are.

        Raises:
            ParseError: it is no PDF that can be opened, or wants a password.
        """
        try:
            return len(self._reader().pages)
        except UnreadableError as error:
            if "decrypt" in str(error).lower() or "password" in str(error).lower():
                raise ParseError(PASSWORD_PDF) from error
            raise ParseError(f"damaged or truncated PDF: {error}") from error
        except Exception as error:
            raise ParseError(f"damaged or truncated PDF: {first_line(error)}") from error

    def page(self, number: int) -> str:
        """The text of a page; they count from 1.

        Raises:
            UnreadableError: it cannot be read.
        """
        reader = self._reader()
        try:
            return clean_page(reader.pages[number - 1].extract_text())
        except Exception as error:
            raise UnreadableError(first_line(error)) from error

    def is_blank(self, number: int) -> bool:
        """Whether a page, in which PDFium finds nothing, has no content: no stream, or sound ones that show nothing."""
        try:
            reader = self._reader()
            from pypdf.generic import ContentStream

            contents = reader.pages[number - 1].get("/Contents")
            if contents is None:
                return True
            found = contents.get_object()
            streams = [entry.get_object() for entry in (found if isinstance(found, list) else [found])]
            # Operators are parsed when they are asked for: content that breaks off raises.
            return all(map(_is_decoded, streams)) and isinstance(ContentStream(found, reader).operations, list)
        except Exception:  # noqa: BLE001 - what pypdf cannot look into is not blank
            return False

    def info(self) -> dict[str, str]:
        """Entries of the information dictionary, without their slashes."""
        try:
            return {key.lstrip("/"): str(value) for key, value in (self._reader().metadata or {}).items()}
        except Exception as error:
            raise ParseError(f"damaged PDF: {first_line(error)}") from error

    def form_lines(self) -> Iterator[str]:
        """What was filled into a form, a line a field: PDFium's text of a page leaves it out."""
        try:
            fields = self._reader().get_form_text_fields()
        except Exception:  # noqa: BLE001 - the pages are read; a form that only pypdf cannot read takes nothing from them
            return
        for name, value in fields.items():
            if value and str(value).strip():
                yield f"{name}: {value}"

    def _reader(self) -> Any:
        if self._opened is None:
            try:
                from pypdf import PdfReader
            except ImportError:
                raise MissingExtraError("pypdf", "pipeline", "Reading this PDF") from None
            logging.getLogger("pypdf").setLevel(logging.CRITICAL)
            try:
                self._opened = PdfReader(io.BytesIO(self._data), password=self._password)
            except Exception as error:
                raise UnreadableError(first_line(error)) from error
        return self._opened
