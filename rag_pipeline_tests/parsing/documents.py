"""Small writers of documents, so that tests can make awkward ones. What they write is as plain as the formats allow."""

from __future__ import annotations

import io
import re
import struct
import zipfile
import zlib
from collections.abc import Iterable, Mapping, Sequence

Word = tuple[float, float, str]
"""Left and base line in points, from the lower left corner, and a text."""

_RELATIONSHIPS = "http://schemas.openxmlformats.org/officeDocument/2006/relationships"
_PACKAGE = "http://schemas.openxmlformats.org/package/2006"
_WORD = "http://schemas.openxmlformats.org/wordprocessingml/2006/main"
_SHEET = "http://schemas.openxmlformats.org/spreadsheetml/2006/main"
_SLIDE = "http://schemas.openxmlformats.org/presentationml/2006/main"
_DRAWING = "http://schemas.openxmlformats.org/drawingml/2006/main"


def archive(members: Mapping[str, bytes | str], *, stored: Iterable[str] = ()) -> bytes:
    """A ZIP container."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as file:
        for name, content in members.items():
            file.writestr(name, content, zipfile.ZIP_STORED if name in stored else None)
    return buffer.getvalue()


class Pdf:
    """A PDF of pages in Helvetica, 595 points wide and 842 high."""

    def __init__(self) -> None:
        self._contents: list[tuple[bytes, str, str]] = []
        self._outline: list[tuple[str, int]] = []
        self._info = ""
        self._fonts: list[str] = []

    def page(self, words: Sequence[Word], size: int = 10) -> Pdf:
        lines = [f"BT /F1 {size} Tf {x} {y} Td ({_escaped(text)}) Tj ET" for x, y, text in words]
        return self.raw_page("\n".join(lines).encode("cp1252"))

    def lines(self, *lines: str) -> Pdf:
        return self.page([(72, 770 - 14 * place, line) for place, line in enumerate(lines)])

    def picture(self, words: Sequence[Word] = ()) -> Pdf:
        """A page that is a picture all over, as a scanner makes it, with a text layer or none."""
        layer = "\n".join(f"BT /F1 10 Tf 3 Tr {x} {y} Td ({_escaped(text)}) Tj ET" for x, y, text in words)
        return self.raw_page(b"q 595 0 0 842 0 0 cm /Im1 Do Q\n" + layer.encode("cp1252"), "/XObject << /Im1 4 0 R >>")

    def raw_page(self, content: bytes, resources: str = "", entries: str = "") -> Pdf:
        self._contents.append((content, resources, entries))
        return self

    def letters(self, glyphs: Sequence[Word], size: int = 10) -> Pdf:
        """A page of glyphs of any script, each 6 points wide; a font says which letters each of them stands for."""
        codes = {text: code for code, text in enumerate(dict.fromkeys(text for _, _, text in glyphs), 33)}
        shown = [f"BT /F2 {size} Tf {x} {y} Td <{codes[text]:02x}> Tj ET" for x, y, text in glyphs]
        mapped = "\n".join(f"<{code:02x}> <{text.encode('utf-16-be').hex()}>" for text, code in codes.items())
        self._fonts.append(
            "/CIDInit /ProcSet findresource begin\n12 dict begin\nbegincmap\n/CMapType 2 def\n"
            "1 begincodespacerange\n<00> <ff>\nendcodespacerange\n"
            f"{len(codes)} beginbfchar\n{mapped}\nendbfchar\nendcmap\nend\nend"
        )
        font = (
            f"/F2 << /Type /Font /Subtype /Type1 /BaseFont /Helvetica /FirstChar 33 /LastChar {32 + len(codes)} "
            f"/Widths [{'600 ' * len(codes)}] /ToUnicode CMAP{len(self._fonts)} >>"
        )
        return self.raw_page("\n".join(shown).encode(), font)

    def outline(self, *entries: tuple[str, int]) -> Pdf:
        """Headings with the pages on which they stand."""
        self._outline = list(entries)
        return self

    def info(self, title: str, created: str = "D:20240131120000Z") -> Pdf:
        self._info = f"<< /Title ({_escaped(title)}) /Author (A. Writer) /CreationDate ({created}) >>"
        return self

    def write(self) -> bytes:
        count = len(self._contents)
        first = 5  # catalog, pages, font, picture; then a page and its content each
        kids = " ".join(f"{first + 2 * page} 0 R" for page in range(count))
        outline_at = first + 2 * count
        outlines = f" /Outlines {outline_at} 0 R" if self._outline else ""
        objects = [
            f"<< /Type /Catalog /Pages 2 0 R{outlines} >>".encode(),
            f"<< /Type /Pages /Kids [{kids}] /Count {count} >>".encode(),
            b"<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica /Encoding /WinAnsiEncoding >>",
            _stream(
                b"\x80", "/Type /XObject /Subtype /Image /Width 1 /Height 1 /ColorSpace /DeviceGray /BitsPerComponent 8"
            ),
        ]
        maps_at = outline_at + (len(self._outline) + 1 if self._outline else 0)
        for page, (content, resources, entries) in enumerate(self._contents):
            font, resources = (resources, "") if resources.startswith("/F2") else ("", resources)
            font = re.sub(r"CMAP(\d+)", lambda found: f"{maps_at + int(found[1]) - 1} 0 R", font)
            objects.append(
                f"<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents {first + 2 * page + 1} 0 R "
                f"/Resources << /Font << /F1 3 0 R {font} >> {resources} >> >>".encode()
            )
            objects.append(_stream(content, entries))
        if self._outline:
            last = outline_at + len(self._outline)
            objects.append(f"<< /Type /Outlines /First {outline_at + 1} 0 R /Last {last} 0 R >>".encode())
            for place, (title, page) in enumerate(self._outline, outline_at + 1):
                following = f" /Next {place + 1} 0 R" if place < last else ""
                target = f"[{first + 2 * (page - 1)} 0 R /Fit]"
                objects.append(
                    f"<< /Title ({_escaped(title)}) /Parent {outline_at} 0 R /Dest {target}{following} >>".encode()
                )
        objects += [_stream(font_map.encode(), "") for font_map in self._fonts]
        if self._info:
            objects.append(self._info.encode("cp1252"))
        return _pdf_file(objects, len(objects) if self._info else None)


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)")


def _stream(data: bytes, entries: str) -> bytes:
    return f"<< {entries} /Length {len(data)} >>\nstream\n".encode() + data + b"\nendstream"


def _pdf_file(objects: Sequence[bytes], info: int | None) -> bytes:
    file = bytearray(b"%PDF-1.7\n")
    places = []
    for number, content in enumerate(objects, 1):
        places.append(len(file))
        file += f"{number} 0 obj\n".encode() + content + b"\nendobj\n"
    table = len(file)
    file += f"xref\n0 {len(objects) + 1}\n0000000000 65535 f \n".encode()
    file += b"".join(b"%010d 00000 n \n" % place for place in places)
    more = f" /Info {info} 0 R" if info else ""
    file += f"trailer\n<< /Size {len(objects) + 1} /Root 1 0 R{more} >>\nstartxref\n{table}\n%%EOF\n".encode()
    return bytes(file)


def flate_bomb_pdf(megabytes: int) -> bytes:
    """A PDF of some kilobytes whose only page unpacks to so much."""
    packer = zlib.compressobj(1)
    packed = b"".join(packer.compress(b"0 0 m\n" * 174_763) for _ in range(megabytes)) + packer.flush()
    return Pdf().raw_page(packed, entries="/Filter /FlateDecode").write()


def paragraph(text: str, style: str = "") -> str:
    """A paragraph of a .docx."""
    properties = f'<w:pPr><w:pStyle w:val="{style}"/></w:pPr>' if style else ""
    return f'<w:p>{properties}<w:r><w:t xml:space="preserve">{text}</w:t></w:r></w:p>'


def word(body: str, *, title: str = "", members: Mapping[str, str] | None = None) -> bytes:
    """A .docx. Styles are `Heading1`, `Heading2` and `Title`; the prefixes w, m, r, mc and wps may be used."""
    spaces = (
        f'xmlns:w="{_WORD}" xmlns:r="{_RELATIONSHIPS}" xmlns:m="http://schemas.openxmlformats.org/officeDocument/2006/math" '
        'xmlns:mc="http://schemas.openxmlformats.org/markup-compatibility/2006" '
        'xmlns:wps="http://schemas.microsoft.com/office/word/2010/wordprocessingShape" '
        'xmlns:wp="http://schemas.openxmlformats.org/drawingml/2006/wordprocessingDrawing" '
        f'xmlns:a="{_DRAWING}" xmlns:v="urn:schemas-microsoft-com:vml"'
    )
    styles = "".join(
        f'<w:style w:type="paragraph" w:styleId="{name.replace(" ", "")}"><w:name w:val="{name.lower()}"/></w:style>'
        for name in ("Heading 1", "Heading 2", "Title")
    )
    parts = {
        "word/document.xml": f"<w:document {spaces}><w:body>{body}</w:body></w:document>",
        "word/styles.xml": f"<w:styles {spaces}>{styles}</w:styles>",
        **(members or {}),
    }
    types = {
        "word/document.xml": "wordprocessingml.document.main",
        "word/styles.xml": "wordprocessingml.styles",
        "word/footnotes.xml": "wordprocessingml.footnotes",
        "word/numbering.xml": "wordprocessingml.numbering",
    }
    related = {"styles.xml": "styles", "footnotes.xml": "footnotes", "numbering.xml": "numbering"}
    present = {target: kind for target, kind in related.items() if f"word/{target}" in parts}
    return _package(parts, types, "word/document.xml", "word/_rels/document.xml.rels", present, title)


def _package(
    parts: Mapping[str, str], types: Mapping[str, str], main: str, rels: str, related: Mapping[str, str], title: str
) -> bytes:
    overrides = "".join(
        f'<Override PartName="/{name}" ContentType="application/vnd.openxmlformats-officedocument.{kind}+xml"/>'
        for name, kind in types.items()
        if name in parts
    )
    core = (
        '<cp:coreProperties xmlns:cp="http://schemas.openxmlformats.org/package/2006/metadata/core-properties" '
        f'xmlns:dc="http://purl.org/dc/elements/1.1/"><dc:title>{title}</dc:title><dc:creator>A. Writer</dc:creator>'
        "</cp:coreProperties>"
    )
    core_type = f"{_PACKAGE}/relationships/metadata/core-properties"
    return archive(
        {
            "[Content_Types].xml": f'<Types xmlns="{_PACKAGE}/content-types">'
            '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
            f'<Default Extension="xml" ContentType="application/xml"/>{overrides}</Types>',
            "_rels/.rels": f'<Relationships xmlns="{_PACKAGE}/relationships">'
            f'<Relationship Id="r1" Type="{_RELATIONSHIPS}/officeDocument" Target="{main}"/>'
            f'<Relationship Id="r2" Type="{core_type}" Target="docProps/core.xml"/></Relationships>',
            rels: f'<Relationships xmlns="{_PACKAGE}/relationships">'
            + "".join(
                f'<Relationship Id="r{place}" Type="{_RELATIONSHIPS}/{kind}" Target="{target}"/>'
                for place, (target, kind) in enumerate(related.items(), 1)
            )
            + "</Relationships>",
            "docProps/core.xml": core,
            **parts,
        }
    )


def workbook(sheets: Mapping[str, str], merged: Mapping[str, str] | None = None) -> bytes:
    """An .xlsx; a sheet is the XML of its rows (see ``cells``); ``merged`` is a range of cells that are one, by sheet."""
    ranges = {name: f'<mergeCells count="1"><mergeCell ref="{one}"/></mergeCells>' for name, one in (merged or {}).items()}
    parts = {
        "xl/workbook.xml": f'<workbook xmlns="{_SHEET}" xmlns:r="{_RELATIONSHIPS}"><sheets>'
        + "".join(f'<sheet name="{name}" sheetId="{n}" r:id="r{n}"/>' for n, name in enumerate(sheets, 1))
        + "</sheets></workbook>",
        **{
            f"xl/worksheets/sheet{n}.xml": f'<worksheet xmlns="{_SHEET}"><sheetData>{rows}</sheetData>'
            f"{ranges.get(name, '')}</worksheet>"
            for n, (name, rows) in enumerate(sheets.items(), 1)
        },
    }
    types = dict.fromkeys(parts, "spreadsheetml.worksheet") | {"xl/workbook.xml": "spreadsheetml.sheet.main"}
    related = {f"worksheets/sheet{n}.xml": "worksheet" for n in range(1, len(sheets) + 1)}
    return _package(parts, types, "xl/workbook.xml", "xl/_rels/workbook.xml.rels", related, "")


def cells(rows: Iterable[Sequence[str | float]]) -> str:
    """Rows of a sheet, from its first row and column."""
    return "".join(
        f'<row r="{number}">'
        + "".join(cell(f"{chr(65 + column)}{number}", value) for column, value in enumerate(row) if value != "")
        + "</row>"
        for number, row in enumerate(rows, 1)
    )


def cell(reference: str, value: str | float) -> str:
    if isinstance(value, str):
        return f'<c r="{reference}" t="inlineStr"><is><t>{value}</t></is></c>'
    return f'<c r="{reference}"><v>{value}</v></c>'


def slides(*decks: str, order: Sequence[int] | None = None, notes: Mapping[int, str] | None = None) -> bytes:
    """A .pptx of slides, each the XML of its shapes (see ``shape``); ``order`` are the numbers of their files."""
    spaces = f'xmlns:p="{_SLIDE}" xmlns:a="{_DRAWING}" xmlns:r="{_RELATIONSHIPS}"'
    tree = "<p:nvGrpSpPr><p:cNvPr id='1' name=''/><p:cNvGrpSpPr/><p:nvPr/></p:nvGrpSpPr><p:grpSpPr/>"
    shown = order or range(1, len(decks) + 1)
    parts = {
        "ppt/presentation.xml": f"<p:presentation {spaces}><p:sldIdLst>"
        + "".join(f'<p:sldId id="{256 + n}" r:id="r{n}"/>' for n in shown)
        + "</p:sldIdLst></p:presentation>"
    }
    for number, shapes in enumerate(decks, 1):
        parts[f"ppt/slides/slide{number}.xml"] = (
            f"<p:sld {spaces}><p:cSld><p:spTree>{tree}{shapes}</p:spTree></p:cSld></p:sld>"
        )
    for number, text in (notes or {}).items():
        parts[f"ppt/notesSlides/notesSlide{number}.xml"] = (
            f"<p:notes {spaces}><p:cSld><p:spTree>{tree}{shape(text, kind='body')}</p:spTree></p:cSld></p:notes>"
        )
        parts[f"ppt/slides/_rels/slide{number}.xml.rels"] = (
            f'<Relationships xmlns="{_PACKAGE}/relationships"><Relationship Id="r1" Type="{_RELATIONSHIPS}/notesSlide" '
            f'Target="../notesSlides/notesSlide{number}.xml"/></Relationships>'
        )
    types = {name: "presentationml.slide" for name in parts if "slides/slide" in name and name.endswith(".xml")}
    types |= {name: "presentationml.notesSlide" for name in parts if "notesSlides/" in name}
    types["ppt/presentation.xml"] = "presentationml.presentation.main"
    related = {f"slides/slide{n}.xml": "slide" for n in range(1, len(decks) + 1)}
    return _package(parts, types, "ppt/presentation.xml", "ppt/_rels/presentation.xml.rels", related, "")


def shape(text: str, left: int = 0, top: int = 0, kind: str = "") -> str:
    """A shape of a slide at a place in millimetres; ``kind`` is that of a placeholder, such as `title`."""
    holder = f'<p:ph type="{kind}"/>' if kind else ""
    place = f'<a:xfrm><a:off x="{left * 36000}" y="{top * 36000}"/><a:ext cx="1800000" cy="360000"/></a:xfrm>'
    return (
        f"<p:sp><p:nvSpPr><p:cNvPr id='2' name='S'/><p:cNvSpPr/><p:nvPr>{holder}</p:nvPr></p:nvSpPr>"
        f"<p:spPr>{'' if kind else place}</p:spPr>"
        f"<p:txBody><a:bodyPr/><a:p><a:r><a:t>{text}</a:t></a:r></a:p></p:txBody></p:sp>"
    )


def book(
    chapters: Mapping[str, str], *, spine: Sequence[str] | None = None, members: Mapping[str, str] | None = None
) -> bytes:
    """An EPUB of chapters, by the names of their files; ``spine`` is their order."""
    items = "".join(
        f'<item id="{name}" href="{name.replace(" ", "%20")}" media-type="application/xhtml+xml"/>' for name in chapters
    )
    itemrefs = "".join(f'<itemref idref="{name}"/>' for name in (spine or chapters))
    return archive(
        {
            "mimetype": "application/epub+zip",
            "META-INF/container.xml": '<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>'
            '<rootfile full-path="OPS/book.opf" media-type="application/oebps-package+xml"/></rootfiles></container>',
            "OPS/book.opf": '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
            "<metadata><dc:title>The Ferry</dc:title><dc:creator>A. Writer</dc:creator>"
            "<dc:language>en</dc:language></metadata>"
            f"<manifest>{items}</manifest><spine>{itemrefs}</spine></package>",
            **{f"OPS/{name}": content for name, content in chapters.items()},
            **(members or {}),
        },
        stored=("mimetype",),
    )


def open_document(content: str, kind: str = "text", members: Mapping[str, str] | None = None) -> bytes:
    """An OpenDocument file; the prefixes office, text, table, draw and presentation may be used."""
    base = "urn:oasis:names:tc:opendocument:xmlns"
    spaces = " ".join(
        f'xmlns:{prefix}="{base}:{name}:1.0"'
        for prefix, name in (("office", "office"), ("text", "text"), ("table", "table"), ("draw", "drawing"))
    )
    spaces += f' xmlns:presentation="{base}:presentation:1.0"'
    return archive(
        {
            "mimetype": f"application/vnd.oasis.opendocument.{kind}",
            "content.xml": (
                f"<office:document-content {spaces}><office:body>{content}</office:body></office:document-content>"
            ),
            **(members or {}),
        },
        stored=("mimetype",),
    )


def ole2(*streams: str) -> bytes:
    """The head of an OLE2 file whose directory names these streams; no reader gets further with it."""
    names = b"".join(name.encode("utf-16-le") for name in streams)
    return b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + struct.pack("<16x") + names + b"\x00" * 512
