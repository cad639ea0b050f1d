"""Why documents are refused, in words for people who own them."""

from __future__ import annotations

from collections.abc import Sequence

PASSWORD_PDF = "password-protected PDF: it opens with a password only (see parsing.passwords)"
PASSWORD_OFFICE = "password-protected Office document (see parsing.passwords)"
NO_PASSWORD_FITS = "password-protected, and none of the passwords that parsing.passwords gave opens it"
BLANK_PAGES = "empty: all of its pages are blank"
ONLY_PICTURES = "holds pictures or drawings, but no text; run text recognition (OCR) over it"
TOO_DEEP = "nested too deeply to be read"
TOO_MUCH_TEXT = "holds more than 64 million characters of text: split it"
_PAGES_SHOWN = 12


def no_text_layer(pages: int) -> str:
    """The reason for a scan."""
    which = "its page has" if pages == 1 else f"none of its {pages} pages has"
    negation = "no text layer" if pages == 1 else "a text layer"
    return f"scan without text: {which} {negation}; run text recognition (OCR) over it, or set parsing.ocr"


def noise_layer(pages: int) -> str:
    """The reason for a document whose text is none."""
    return (
        f"its text layer is noise, not words ({pages} page{'s' if pages > 1 else ''}): its fonts do not say which "
        "characters they show, or text recognition failed; run text recognition (OCR) over it"
    )


def pages_phrase(pages: Sequence[int]) -> str:
    """Page numbers as people write them: ``page 3``, ``pages 1, 4 to 6``."""
    runs: list[list[int]] = []
    for page in pages:
        if runs and page == runs[-1][-1] + 1:
            runs[-1] = [runs[-1][0], page]
        else:
            runs.append([page])
    shown = [" to ".join(map(str, run)) for run in runs[:_PAGES_SHOWN]]
    return f"page{'s' if len(pages) > 1 else ''} {', '.join(shown)}{', …' if len(runs) > _PAGES_SHOWN else ''}"


def first_line(error: BaseException, longest: int = 200) -> str:
    """What an error of a library says, on one line."""
    text = " ".join(str(error).split())
    return text[:longest] or type(error).__name__


def needs_memory(megabytes: int) -> str:
    """The reason for a document that was too much for its worker."""
    return f"reading it needs more than {megabytes} MB of memory (parsing.memory_mb)"


def needs_time(seconds: int) -> str:
    """The reason for a document that took its worker too long."""
    return f"reading it takes more than {seconds} s of processor time, or hangs (parsing.seconds)"
