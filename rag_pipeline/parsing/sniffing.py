"""What kind of file bytes are, judged by the bytes; names only tell what was promised."""

from __future__ import annotations

import io
import re
import zipfile

from rag_pipeline.parsing.archives import ARCHIVE_ERRORS

PDF = "PDF document"
WORD, EXCEL, POWERPOINT = "Word document (.docx)", "Excel workbook (.xlsx)", "PowerPoint presentation (.pptx)"
OLD_WORD, OLD_EXCEL = "Word document (.doc)", "Excel workbook (.xls)"
OLD_POWERPOINT, OUTLOOK = "PowerPoint presentation (.ppt)", "Outlook message (.msg)"
OPEN_TEXT, OPEN_SHEET = "OpenDocument text (.odt)", "OpenDocument spreadsheet (.ods)"
OPEN_SLIDES, OPEN_DOCUMENT = "OpenDocument presentation (.odp)", "OpenDocument file"
FLAT_OPEN_DOCUMENT = "flat OpenDocument file"
EPUB, RTF = "EPUB book", "RTF document"
ZIP, MAIL, MAILBOX, IMAGE = "ZIP archive", "e-mail message", "mailbox", "image"
VECTOR_IMAGE = "SVG image"
NOTEBOOK = "notebook"
ENCRYPTED = "password-protected Office document"
OLE2 = "Microsoft OLE2 file"
DAMAGED_ZIP = "damaged or truncated ZIP archive or Office document"

NAMED_KINDS = {
    ".pdf": PDF, ".docx": WORD, ".docm": WORD, ".dotx": WORD, ".dotm": WORD,
    ".xlsx": EXCEL, ".xlsm": EXCEL, ".xlsb": EXCEL, ".xltx": EXCEL,
    ".pptx": POWERPOINT, ".pptm": POWERPOINT, ".ppsx": POWERPOINT, ".potx": POWERPOINT,
    ".doc": OLD_WORD, ".xls": OLD_EXCEL, ".ppt": OLD_POWERPOINT, ".msg": OUTLOOK,
    ".odt": OPEN_TEXT, ".ods": OPEN_SHEET, ".odp": OPEN_SLIDES, ".epub": EPUB, ".rtf": RTF,
    ".fodt": FLAT_OPEN_DOCUMENT, ".fodp": FLAT_OPEN_DOCUMENT, ".fods": FLAT_OPEN_DOCUMENT,
    ".zip": ZIP, ".jar": ZIP, ".whl": ZIP, ".eml": MAIL, ".mht": MAIL, ".mhtml": MAIL, ".mbox": MAILBOX, ".ipynb": NOTEBOOK,
    ".gz": "gzip archive", ".tgz": "gzip archive", ".bz2": "bzip2 archive", ".xz": "xz archive", ".7z": "7-Zip archive",
    ".zst": "Zstandard archive", ".rar": "RAR archive", ".tar": "tar archive", ".parquet": "Parquet file",
    ".png": IMAGE, ".jpg": IMAGE, ".jpeg": IMAGE, ".gif": IMAGE, ".webp": IMAGE, ".bmp": IMAGE, ".tif": IMAGE,
    ".tiff": IMAGE, ".ico": IMAGE, ".avif": IMAGE, ".heic": IMAGE, ".svg": VECTOR_IMAGE, ".psd": IMAGE,
    ".mp3": "audio", ".wav": "audio", ".flac": "audio", ".ogg": "audio", ".m4a": "audio",
    ".mp4": "video", ".mov": "video", ".mkv": "video", ".webm": "video", ".avi": "video",
    ".woff": "font", ".woff2": "font", ".ttf": "font", ".otf": "font",
    ".exe": "program", ".dll": "program", ".so": "program", ".sqlite": "SQLite database",
}  # fmt: skip
"""What a name promises, for the kinds that are not read as text."""

OFFICE_KINDS = frozenset({
    WORD, EXCEL, POWERPOINT, OLD_WORD, OLD_EXCEL, OLD_POWERPOINT, OPEN_TEXT, OPEN_SHEET, OPEN_SLIDES, RTF, ENCRYPTED,
})  # fmt: skip
"""Programs write one of these under the name of another, and open it all the same."""

# (offset, magic bytes, kind) after the lists of libmagic and of the formats' specifications.
_MAGIC = (
    (0, b"\x89PNG\r\n\x1a\n", IMAGE), (0, b"\xff\xd8\xff", IMAGE), (0, b"II*\x00", IMAGE), (0, b"MM\x00*", IMAGE),
    (0, b"\x00\x00\x01\x00", IMAGE), (0, b"\x1f\x8b\x08", "gzip archive"), (0, b"\x28\xb5\x2f\xfd", "Zstandard archive"),
    (0, b"\xfd7zXZ\x00", "xz archive"), (0, b"7z\xbc\xaf\x27\x1c", "7-Zip archive"), (0, b"Rar!\x1a\x07", "RAR archive"),
    (257, b"ustar\x00", "tar archive"), (257, b"ustar  \x00", "tar archive"), (0, b"\x7fELF", "program"),
    (0, b"\xcf\xfa\xed\xfe", "program"), (0, b"\xce\xfa\xed\xfe", "program"), (0, b"\xca\xfe\xba\xbe", "program"),
    (0, b"\x00asm", "program"), (0, b"SQLite format 3\x00", "SQLite database"), (0, b"\x1aE\xdf\xa3", "video"),
    (0, b"\x00\x01\x00\x00\x00", "font"), (0, b"\xff\xfb", "audio"), (0, b"\x89HDF\r\n\x1a\n", "HDF5 file"),
    (0, b"\x93NUMPY", "NumPy array"),
)  # fmt: skip
# Letters only: a text may begin with them, so they count only before bytes that no text has.
_MAGIC_OF_LETTERS = (
    (0, b"GIF87a", IMAGE), (0, b"GIF89a", IMAGE), (0, b"8BPS", IMAGE), (8, b"WEBP", IMAGE),
    (0, b"BZh", "bzip2 archive"), (0, b"PAR1", "Parquet file"), (0, b"ARROW1", "Arrow file"), (0, b"MZ", "program"),
    (0, b"ID3", "audio"), (0, b"OggS", "audio"), (0, b"fLaC", "audio"), (8, b"WAVE", "audio"), (8, b"AVI ", "video"),
    (4, b"ftypavif", IMAGE), (4, b"ftyphei", IMAGE), (4, b"ftypM4A", "audio"), (4, b"ftyp", "video"),
    (0, b"wOFF", "font"), (0, b"wOF2", "font"), (0, b"OTTO", "font"), (0, b"ttcf", "font"),
)  # fmt: skip
_OLE2 = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_OLE2_STREAMS = (
    ("EncryptedPackage", ENCRYPTED), ("__substg1.0_", OUTLOOK), ("WordDocument", OLD_WORD),
    ("PowerPoint Document", OLD_POWERPOINT), ("Workbook", OLD_EXCEL), ("Book", OLD_EXCEL),
)  # fmt: skip
_ZIP_FOLDERS = (("word/", WORD), ("xl/", EXCEL), ("ppt/", POWERPOINT))
_CONTENT_TYPES = "[Content_Types].xml"
_MAIN_PARTS = (
    (b"wordprocessingml", WORD), (b"ms-word.", WORD), (b"spreadsheetml", EXCEL), (b"ms-excel.", EXCEL),
    (b"presentationml", POWERPOINT), (b"ms-powerpoint.", POWERPOINT),
)  # fmt: skip
_MAIN_PART = re.compile(
    rb"ContentType=[\"']application/[\w.+-]*?(?:document|sheet|presentation|slideshow|template)\.(?:\w+\.)*main\+xml"
)
_OPEN_KINDS = (
    (b"opendocument.text", OPEN_TEXT),
    (b"opendocument.spreadsheet", OPEN_SHEET),
    (b"opendocument.presentation", OPEN_SLIDES),
)
_LONGEST_CONTENT_TYPES = 4 * 1024**2
_PDF_HEAD_BYTES = 1024  # readers accept the header anywhere in the first kilobyte
_FIELD = re.compile(rb"[!-9;-~]+[ \t]*:")
_MAIL_FIELDS = re.compile(
    rb"^(?:from|to|date|subject|message-id|received|return-path|mime-version|content-type|delivered-to|reply-to):",
    re.IGNORECASE | re.MULTILINE,
)
_MAIL_HEAD_BYTES = 64 * 1024
_PDF_HEAD = re.compile(rb"(?:\A|[\r\n])\s*%PDF-[0-9]")
_NOT_TEXT = re.compile(rb"[\x00-\x06\x0e-\x1a]")
_GIT_LFS = b"version https://git-lfs.github.com/spec/"


def is_container(data: bytes) -> bool:
    """Whether a file begins as a PDF, an archive, an OLE2 file or RTF does: the kinds whose readers are complex."""
    return data.startswith((b"PK", _OLE2, b"{\\rtf")) or _PDF_HEAD.search(data[:_PDF_HEAD_BYTES]) is not None


def kind_of(data: bytes) -> str | None:
    """What a file is that is not read as text, in words for people; None for what may be text."""
    if data.startswith(_OLE2):
        names = ((kind, name.encode("utf-16-le")) for name, kind in _OLE2_STREAMS)
        return next((kind for kind, name in names if name in data), OLE2)
    if data.startswith((b"PK\x03\x04", b"PK\x05\x06", b"PK\x07\x08")):
        return _zip_kind(data)
    if data.startswith(b"{\\rtf"):
        return RTF
    if data.startswith(b"%!PS"):
        return "PostScript document"
    if data.startswith(_GIT_LFS):
        return "Git LFS pointer (the file itself was not fetched)"
    if _PDF_HEAD.search(data[:_PDF_HEAD_BYTES]) and (b"endobj" in data or data.lstrip().startswith(b"%PDF-")):
        return PDF
    if data.startswith(b"BM") and data[6:10] == bytes(4):
        return IMAGE
    for offset, magic, kind in _MAGIC:
        if data.startswith(magic, offset):
            return kind
    if _NOT_TEXT.search(data[:512]):
        for offset, magic, kind in _MAGIC_OF_LETTERS:
            if data.startswith(magic, offset):
                return kind
    return None


def _zip_kind(data: bytes) -> str:
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            names = set(archive.namelist())
            mimetype = _small_member(archive, names, "mimetype", 200)
            types = _small_member(archive, names, _CONTENT_TYPES, _LONGEST_CONTENT_TYPES)
    except ARCHIVE_ERRORS:
        return DAMAGED_ZIP
    if b"epub" in mimetype or "META-INF/container.xml" in names:
        return EPUB
    if b"opendocument" in mimetype:
        return next((kind for mark, kind in _OPEN_KINDS if mark in mimetype), OPEN_DOCUMENT)
    main = _MAIN_PART.search(types)
    if main is not None:
        return next((kind for mark, kind in _MAIN_PARTS if mark in main[0]), ZIP)
    if types:
        return next((kind for folder, kind in _ZIP_FOLDERS if any(name.startswith(folder) for name in names)), ZIP)
    return ZIP


def _small_member(archive: zipfile.ZipFile, names: set[str], name: str, most: int) -> bytes:
    if name not in names:
        return b""
    with archive.open(name) as member:
        return member.read(most)


def is_mail(data: bytes) -> bool:
    """Whether a file begins with the head of a message, after the line that begins it in a mailbox."""
    head = re.split(rb"\r?\n\r?\n", data[:_MAIL_HEAD_BYTES].lstrip(b"\xef\xbb\xbf\r\n"), maxsplit=1)[0]
    lines = [line for line in re.split(rb"\r?\n", head) if not line.startswith((b" ", b"\t"))]
    if lines and lines[0].startswith((b"From ", b">From ")):
        lines.pop(0)
    fields = sum(1 for line in lines if _MAIL_FIELDS.match(line))
    return bool(fields) and all(_FIELD.match(line) for line in lines[:-1])
