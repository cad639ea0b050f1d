"""PDF: page by page through PDFium, with pypdf for what PDFium does not open or cannot read."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, NamedTuple

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.builder import TextBuilder
from rag_pipeline.parsing.dates import pdf_date
from rag_pipeline.parsing.hooks import Hooks
from rag_pipeline.parsing.pdf_page import has_picture, is_empty, page_lines, page_picture
from rag_pipeline.parsing.pdf_second import SecondReader, UnreadableError
from rag_pipeline.parsing.pdf_text import is_noise, is_unknown, letters_in, page_text
from rag_pipeline.parsing.reasons import (
    BLANK_PAGES,
    NO_PASSWORD_FITS,
    PASSWORD_PDF,
    first_line,
    no_text_layer,
    noise_layer,
    pages_phrase,
)
from rag_pipeline.parsing.typography import join_broken_words, words_of

MEDIA_TYPE = "application/pdf"

_FEW_LETTERS = 10
"""A picture with fewer beside it is a scan with a page number or a stamp."""
_MOST_PAGES = 10_000
_SHORT = 2_000
"""Characters; a scan whose text layer is noise has less than a page of print."""
_MOST_OUTLINE_ENTRIES = 20_000
_NO_TITLES = re.compile(
    r"\(?(?:untitled|anonymous|unspecified|title|document|presentation)\)?|(?:untitled )?(?:document|slide|title) ?\d*|"
    r"microsoft word - .*|.*\.\w{2,4}|[\d\W_]*",
    re.IGNORECASE,
)
"""What programs write where nobody gave a title: placeholders and names of files."""
_XFA_NOTICE = re.compile(r"Please wait\.\.\.\s+If this message is not eventually replaced")


@dataclass
class _Pages:
    """Texts of the pages by their number, and the numbers of those that have none."""

    count: int
    texts: dict[int, str] = field(default_factory=dict)
    pictures: list[int] = field(default_factory=list)
    noise: list[int] = field(default_factory=list)
    blank: list[int] = field(default_factory=list)
    lost: dict[int, str] = field(default_factory=dict)
    failed_ocr: dict[int, str] = field(default_factory=dict)


class _Entry(NamedTuple):
    """One entry of the outline: its level counts from 1."""

    page: int
    level: int
    title: str


def parse_pdf(data: bytes, path: str, hooks: Hooks) -> Parsed:
    """Parse a PDF.

    Each page is a section, or more where the outline names headings on it. A page that cannot be read, is a picture or
    noise is noted as a loss. Metadata are ``author`` and ``created`` where the file has them.

    Raises:
        ParseError: it wants a password, is damaged, or no page has text; the message is the reason.
    """
    document, password = _opened(data, path, hooks)
    second = SecondReader(data, password)
    if document is None:
        pages = _read_by_second(second)
        info, outline = second.info(), []
    else:
        try:
            pages = _read(document, second, path, hooks)
            info, outline = document.get_metadata_dict(), list(_outline(document))
        finally:
            document.close()
    _drop_unknown(pages)
    filled = list(second.form_lines()) if b"/AcroForm" in data else []
    if _XFA_NOTICE.search(pages.texts.get(1, "")) and len(pages.texts) == 1 and not filled:
        raise ParseError("XFA form: its content is not in its pages; print it to a PDF")
    if not pages.texts and not filled:
        raise ParseError(_reason(pages))
    builder = TextBuilder()
    _write(pages, outline, builder)
    for line in filled:
        builder.block(line, tight=True)
    _note_losses(pages, builder)
    return builder.build(MEDIA_TYPE, _title(info), _metadata(info))


def _opened(data: bytes, path: str, hooks: Hooks) -> tuple[Any | None, str | None]:
    """The document as PDFium opens it, None where it does not; and the password it wanted."""
    try:
        from pypdfium2 import PdfDocument, PdfiumError
    except ImportError:
        raise MissingExtraError("pypdfium2", "pipeline", "Reading PDF") from None
    passwords: list[str | None] = [None]
    tried = 0
    while tried < len(passwords):
        password = passwords[tried]
        tried += 1
        try:
            return PdfDocument(data, password=password), password
        except PdfiumError as error:
            if "password" not in str(error).lower():
                return None, password
        if password is None and hooks.passwords is not None:
            passwords += hooks.passwords_for(path)
    raise ParseError(NO_PASSWORD_FITS if tried > 1 else PASSWORD_PDF)


def _read(document: Any, second: SecondReader, path: str, hooks: Hooks) -> _Pages:
    pages = _Pages(len(document))
    if pages.count > _MOST_PAGES:
        raise ParseError(f"says that it has {pages.count:,} pages; what is read has {_MOST_PAGES:,} at the most: split it")
    for number in range(1, pages.count + 1):
        page = None
        try:
            page = document[number - 1]
            text = page_text(page_lines(page))
            if len(text) < _SHORT and has_picture(page):
                text = _of_scan(page, text, path, number, hooks, pages)
            elif not text and is_empty(page):
                if second.is_blank(number):
                    pages.blank.append(number)
                else:
                    pages.lost[number] = "its content cannot be decoded"
        except (RuntimeError, ValueError) as error:
            text = _instead(second, number, pages, error)
        finally:
            if page is not None:
                page.close()
        if text.strip():
            pages.texts[number] = text
    return pages


def _of_scan(page: Any, text: str, path: str, number: int, hooks: Hooks, pages: _Pages) -> str:
    """The text layer of a page that is a picture; what text recognition finds where there is none that is text."""
    noise = is_noise(text)
    if not noise and letters_in(text) >= _FEW_LETTERS:
        return text
    if hooks.ocr is not None:
        return _recognised(page, path, number, hooks, pages)
    (pages.noise if noise else pages.pictures).append(number)
    return ""


def _instead(second: SecondReader, number: int, pages: _Pages, error: Exception) -> str:
    """The page as the second reader has it, after the first one failed."""
    try:
        return second.page(number)
    except UnreadableError:
        pages.lost[number] = first_line(error)
        return ""


def _recognised(page: Any, path: str, number: int, hooks: Hooks, pages: _Pages) -> str:
    assert hooks.ocr is not None
    try:
        return str(hooks.ocr(page_picture(page), path, number) or "")
    except MemoryError:
        raise
    except Exception as error:  # noqa: BLE001 - the function is the team's own; its failure costs the page, and is told
        pages.failed_ocr[number] = f"{type(error).__name__}: {first_line(error)}"
        return ""


def _read_by_second(second: SecondReader) -> _Pages:
    """The whole document as the second reader has it, which opens some files that PDFium refuses."""
    pages = _Pages(second.count())
    for number in range(1, pages.count + 1):
        try:
            text = second.page(number)
        except UnreadableError as error:
            pages.lost[number] = first_line(error)
        else:
            if text.strip():
                pages.texts[number] = text
    if not pages.texts:
        raise ParseError("damaged or truncated PDF: no page of it can be read")
    return pages


def _drop_unknown(pages: _Pages) -> None:
    unknown = [number for number, text in pages.texts.items() if is_unknown(text)]
    for number in unknown:
        del pages.texts[number]
    pages.noise = sorted({*pages.noise, *unknown})


def _reason(pages: _Pages) -> str:
    if pages.failed_ocr:
        return f"text recognition (parsing.ocr) failed: {next(iter(pages.failed_ocr.values()))}"
    if pages.noise:
        return noise_layer(len(pages.noise))
    if pages.lost:
        return f"damaged PDF: no page of it can be read ({next(iter(pages.lost.values()))})"
    if pages.count and len(pages.blank) == pages.count:
        return BLANK_PAGES
    return no_text_layer(pages.count) if pages.count else "damaged PDF: it has no pages"


def _write(pages: _Pages, outline: list[_Entry], builder: TextBuilder) -> None:
    words = words_of("\n".join(pages.texts.values()))
    entries = deque(sorted(outline, key=lambda entry: entry.page))
    for number, text in sorted(pages.texts.items()):
        text = join_broken_words(text, words)
        builder.page(number)
        start = builder.block(text)
        place = 0
        while start is not None and entries and entries[0].page <= number:
            entry = entries.popleft()
            if entry.page == number:
                place = _line_with(text, entry.title, place)
            builder.heading_at(start + place, entry.level, entry.title)


def _line_with(text: str, title: str, earliest: int) -> int:
    """Where the line with a heading starts on its page; the earliest place where it is not found."""
    words = r"\s+".join(map(re.escape, title.split()))
    found = re.compile(words, re.IGNORECASE).search(text, earliest)
    return max(earliest, text.rfind("\n", 0, found.start()) + 1) if found else earliest


def _outline(document: Any) -> Iterator[_Entry]:
    """The outline's entries that lead to a page."""
    for bookmark in islice(document.get_toc(), _MOST_OUTLINE_ENTRIES):
        target = bookmark.get_dest()
        index = target.get_index() if target is not None else None
        if index is not None and (title := bookmark.get_title().strip()):
            yield _Entry(index + 1, bookmark.level + 1, title)


def _note_losses(pages: _Pages, builder: TextBuilder) -> None:
    if pages.lost:
        builder.loss(f"{pages_phrase(list(pages.lost))} cannot be read: {next(iter(pages.lost.values()))}")
    if pages.pictures:
        builder.loss(f"{pages_phrase(pages.pictures)}: pictures without text (see parsing.ocr)")
    if pages.noise:
        builder.loss(f"{pages_phrase(pages.noise)}: the text layer is noise, not words")
    if pages.failed_ocr:
        reason = next(iter(pages.failed_ocr.values()))
        builder.loss(f"{pages_phrase(list(pages.failed_ocr))}: text recognition failed: {reason}")


def _title(info: dict[str, str]) -> str | None:
    title = " ".join((info.get("Title") or "").split())
    return None if not title or _NO_TITLES.fullmatch(title) else title


def _metadata(info: dict[str, str]) -> dict[str, str]:
    values = {"author": " ".join((info.get("Author") or "").split()), "created": pdf_date(info.get("CreationDate") or "")}
    return {name: value for name, value in values.items() if value and not _NO_TITLES.fullmatch(value)}
