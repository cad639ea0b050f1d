"""Bytes -> text: which encoding a file is in, and clean-up that every format shares."""

from __future__ import annotations

import codecs
import re
import unicodedata

from rag_pipeline.errors import MissingExtraError, ParseError
from rag_pipeline.parsing.no_text import EMPTY_FILE, ONLY_NULS, ONLY_WHITE_SPACE

_SAMPLE_BYTES = 100_000
_DECLARATION_BYTES = 256_000
_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),  # begins with the mark of UTF-16, so it is looked for first
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
_SUPERSETS = {
    "ascii": "cp1252",
    "iso8859-1": "cp1252",
    "iso8859-11": "cp874",
    "tis-620": "cp874",
    "shift_jis": "cp932",
    "gb2312": "gb18030",
    "gbk": "gb18030",
    "euc_kr": "cp949",
}
"""What WHATWG's encoding standard decodes these labels with; files often hold characters that only the superset has."""
_DECLARABLE = re.compile(r"utf-8|cp|iso8859|iso2022|koi8|mac|shift_jis|euc|gb|big5|tis|hz|johab|kz1048|ptcp154|ascii")
_DECLARED = re.compile(rb"<(?:meta\b[^>]*?charset|\?xml\b[^>]*?encoding)\s*=\s*[\"']?\s*([A-Za-z0-9_.:-]+)", re.IGNORECASE)
_CONTROLS = bytes({*range(32), 127} - set(b"\b\t\n\v\f\r\x1b"))
_HIGH_BYTES = bytes(range(128, 256))
_HIGH_BYTE = re.compile(rb"[\x80-\xff]")
_NOISE_FRACTION = 0.02
_NOISE_ALLOWED = 2  # a short text may end with the Ctrl-Z of an old editor
_C1_CONTROLS = re.compile("[\x80-\x84\x86-\x9f]")
_NO_CHARACTERS = ("Cn", "Co", "Cs")
_COMMON_SIGNS = frozenset(" \n\u3000\u3001\u3002\uff0c")
_MOST_SCRIPTS = 5
"""Kana are two, digits and full-width letters some more. Bytes that are no text have a dozen."""
_WESTERN = ("cp1252", "cp850")
_OF_LETTERS = frozenset(
    {
        "cp1251",
        "koi8-r",
        "koi8-u",
        "cp866",
        "cp855",
        "iso8859-5",
        "mac-cyrillic",
        "cp1253",
        "iso8859-7",
        "cp737",
        "cp869",
        "cp1255",
        "iso8859-8",
        "cp862",
        "cp856",
        "cp1256",
        "iso8859-6",
        "cp864",
        "cp874",
        "ptcp154",
        "kz1048",
        "cp1125",
    }
)
"""Encodings of another script beside ASCII; few bytes beyond ASCII may be letters of Western Europe as well."""
_WORDS_AND_SIGNS = re.compile(r"\S+")
_LATIN_BESIDE_OTHER = re.compile("[A-Za-z][\u0370-\u0fff]|[\u0370-\u0fff][A-Za-z]")
_SIGN_WITHIN_WORD = re.compile(
    "[A-Za-z][^\\W\\d_a-zA-Z]?[\u00a1-\u00bf\u2013\u201a-\u203a\u20ac\u0192\u02c6\u2018\u2122][a-z]"
)
_SURROGATES = re.compile("[\ud800-\udfff]")
_FOR_TERMINALS = re.compile(
    r"""(?x)
    \x1b\[ [0-?]* [\ -/]* [@-~]  # control sequences of ECMA-48, such as colours
    | \x1b\] [^\x07\x1b\n]* (?: \x07 | \x1b\\ )  # titles and links of xterm
    | [^\n]\x08  # a letter that is overstruck, as manual pages make bold ones
    """
)


def decode(data: bytes, *, html: bool = False) -> str:
    """Decode a file and clean its text (see ``clean``).

    The order is: byte-order mark; UTF-16 without one, where NULs stand in every other byte; strict UTF-8; UTF-8 with a
    few damaged bytes; the charset that an HTML page or XML declares, where it decodes cleanly; what chardet finds in the
    first and the last 100 KB.

    Raises:
        ParseError: there is nothing but white space, or the bytes are no text.
    """
    if not data:
        raise ParseError(EMPTY_FILE)
    if not data.strip(b"\x00 \t\n\v\f\r"):
        raise ParseError(ONLY_WHITE_SPACE if data.strip(b"\x00") else ONLY_NULS)
    text = clean(_decode(data, html))
    if not text.strip():
        raise ParseError(ONLY_WHITE_SPACE)
    return text


def clean(text: str) -> str:
    r"""The text with ``\n`` as its only line end, without NULs and byte-order marks, and with U+FFFD for surrogates."""
    if "\x00" in text:
        text = text.replace("\x00", "")
    if "\r" in text:
        text = text.replace("\r\n", "\n").replace("\r", "\n")
    if text.isascii():
        return text
    if "\ufeff" in text:
        text = text.replace("\ufeff", "")
    try:
        text.encode()  # many times faster than a search for surrogates, which are next to never there
    except UnicodeEncodeError:
        return _SURROGATES.sub("\ufffd", text)
    return text


def _decode(data: bytes, html: bool) -> str:
    for mark, marked in _MARKS:
        if data.startswith(mark):
            return _checked(data[len(mark) :].decode(marked, "replace"))
    if (unmarked := _utf16_without_mark(data)) is not None:
        return _checked(data.decode(unmarked, "replace"))
    if b"\x1b$" not in data:  # ISO-2022 is valid UTF-8 with escape sequences where the characters should be
        try:
            return _checked(data.decode("utf-8"), data)
        except UnicodeDecodeError:
            if (text := _damaged_utf8(data)) is not None:
                return _checked(text)
    if (html or data.startswith(b"<?xml")) and (text := _as_declared(data)) is not None:
        return _checked(text)
    return _checked(_as_detected(data))


def _utf16_without_mark(data: bytes) -> str | None:
    nuls = data.count(0)
    if nuls * 20 <= len(data):
        return None
    at_odd = data[1::2].count(0)
    if at_odd * 10 >= nuls * 9:
        encoding = "utf-16-le"
    elif at_odd * 10 <= nuls:
        encoding = "utf-16-be"
    else:
        return None
    sample = data[: min(len(data), 4000) & ~1].decode(encoding, "replace")
    if 4 * nuls < len(data) and data.replace(b"\x00", b"").isascii():
        return None  # ASCII with stray NULs: half of it would be NULs in UTF-16
    strange = sum(unicodedata.category(character) in _NO_CHARACTERS for character in sample)
    return encoding if strange * 20 <= len(sample) else None


def _utf16_with_few_nuls(data: bytes) -> str | None:
    """UTF-16 without a mark, of a script whose characters have no NULs: all of it is assigned, and it has line ends."""
    for encoding in ("utf-16-le", "utf-16-be"):
        try:
            text = data.decode(encoding)
        except UnicodeDecodeError:
            continue
        plain = sum(character in _COMMON_SIGNS for character in text)
        if plain and not any(
            unicodedata.category(character) in (*_NO_CHARACTERS, "Cc") for character in text if character not in "\t\n\r"
        ):
            scripts = {unicodedata.name(character, "").partition(" ")[0] for character in text if character.isalpha()}
            if len(scripts) <= _MOST_SCRIPTS:
                return encoding
    return None


def _damaged_utf8(data: bytes) -> str | None:
    """UTF-8 of which a few bytes are broken, such as a file that was cut within a character."""
    text = data.decode("utf-8", "replace")
    broken = text.count("\ufffd")
    whole = len(text) - len(text.encode("ascii", "ignore")) - broken
    return text if whole > 20 * broken else None


def _as_declared(data: bytes) -> str | None:
    for label in _DECLARED.findall(data[:_DECLARATION_BYTES]):
        name = codec(label.decode("ascii"))
        # Strict UTF-8 was tried, UTF-16 cannot spell its own name so, and ASCII it would be if it were.
        if name is None or name.startswith("utf-") or codecs.lookup(label.decode("ascii")).name == "ascii":
            continue
        try:
            text = data.decode(name)
        except UnicodeDecodeError:
            return None
        return None if _C1_CONTROLS.search(text) else text
    return None


def _as_detected(data: bytes) -> str:
    try:
        from chardet import detect
    except ImportError:
        raise MissingExtraError("chardet", "pipeline", "Reading text that is not UTF-8") from None
    sample = _sample(data)
    # chardet's own "supersets" are not asked for: it takes Windows-1251 for one of ISO-8859-5, which it is not.
    found = detect(sample, prefer_superset=False)["encoding"]
    name = codec(found) if found else None
    if name is None:
        name = _utf16_with_few_nuls(data)
    elif name in _OF_LETTERS and _mixes_scripts(sample.decode(name, "replace")):
        name = next((other for other in _WESTERN if not _is_torn(sample, other)), name)
    if name is None:
        raise ParseError("not text: the bytes are binary data or in an unknown encoding")
    return data.decode(name, "replace")


def _mixes_scripts(text: str) -> bool:
    """Whether most words with a letter of another script have Latin letters, too, or signs stand in for such letters."""
    words = [word for word in _WORDS_AND_SIGNS.findall(text) if not word.isascii()]
    return bool(words) and 2 * sum(_LATIN_BESIDE_OTHER.search(word) is not None for word in words) >= len(words)


def _is_torn(data: bytes, name: str) -> bool:
    """Whether an encoding gives controls, or signs within words."""
    text = data.decode(name, "replace")
    return "\ufffd" in text or _C1_CONTROLS.search(text) is not None or _SIGN_WITHIN_WORD.search(text) is not None


def _sample(data: bytes) -> bytes:
    """The head and the tail of a file, cut at line ends so that no character of several bytes is torn.

    Lines of ASCII only tell nothing, and where they are the most they outweigh what does: they are left out.
    """
    if b"\x00" not in data and 0 < len(data) - len(data.translate(None, _HIGH_BYTES)) < len(data) // 10:
        tail = max(0, len(data) - _SAMPLE_BYTES)
        head = _lines_with_high_bytes(data[:tail])
        data = head + _lines_with_high_bytes(data[tail:])
    if len(data) <= 2 * _SAMPLE_BYTES:
        return data
    head_end = data.rfind(b"\n", 0, _SAMPLE_BYTES) + 1 or _SAMPLE_BYTES
    tail_start = data.find(b"\n", len(data) - _SAMPLE_BYTES) + 1 or len(data) - _SAMPLE_BYTES
    return data[:head_end] + data[tail_start:]


def _lines_with_high_bytes(data: bytes) -> bytes:
    """The first of a file's lines that hold a byte beyond ASCII, up to the size of a sample or one line more."""
    lines: list[bytes] = []
    size = position = 0
    while size < _SAMPLE_BYTES and (match := _HIGH_BYTE.search(data, position)) is not None:
        start = data.rfind(b"\n", position, match.start()) + 1 or position
        position = data.find(b"\n", match.start()) + 1 or len(data)
        lines.append(data[start:position])
        size += position - start
    return b"".join(lines)


def codec(label: str) -> str | None:
    """The codec that decodes what carries this label; None for what is no encoding of text files."""
    try:
        name = codecs.lookup(label).name
    except (LookupError, ValueError):
        return None
    return _SUPERSETS.get(name, name) if _DECLARABLE.match(name) or name.startswith("utf-") else None


def _checked(text: str, data: bytes | None = None) -> str:
    """The text, unless so much of it is control characters or U+FFFD that the bytes are something else.

    What a program wrote for a terminal loses its colours and overstruck letters, which would hide words.

    Args:
        data: the bytes of the text where they are UTF-8 already.
    """
    if "\x1b" in text or "\b" in text:
        text, data = _FOR_TERMINALS.sub("", text), None
    encoded = text.encode("utf-8", "replace") if data is None else data
    controls = len(encoded) - len(encoded.translate(None, _CONTROLS)) - encoded.count(0)
    noise = controls + text.count("\ufffd")
    if noise > _NOISE_FRACTION * len(text) and (noise > _NOISE_ALLOWED or 2 * noise > len(text)):
        raise ParseError(f"not text: {noise:,} of {len(text):,} characters are control characters or cannot be decoded")
    return text
