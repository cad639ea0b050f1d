"""Word and PowerPoint documents, and OpenDocument texts and presentations."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable

import pytest

from rag_pipeline.contracts import Parsed
from rag_pipeline.errors import ParseError
from rag_pipeline.parsing import parse
from rag_pipeline_tests.parsing.documents import archive, open_document, paragraph, shape, slides, word
from rag_pipeline_tests.parsing.test_markdown import check_spans

PICTURE = (
    "<p:pic><p:nvPicPr><p:cNvPr id='2' name='P'/><p:cNvPicPr/><p:nvPr/></p:nvPicPr><p:blipFill><a:blip r:embed='r9'/>"
    "</p:blipFill><p:spPr><a:xfrm><a:off x='0' y='0'/><a:ext cx='9' cy='9'/></a:xfrm></p:spPr></p:pic>"
)
RUN = "<w:r><w:t>{}</w:t></w:r>"


def read(data: bytes, path: str = "a.docx") -> Parsed:
    parsed = parse(data, path)
    check_spans(parsed)
    return parsed


def row(*cells: str) -> str:
    return "<w:tr>" + "".join(f"<w:tc>{paragraph(cell)}</w:tc>" for cell in cells) + "</w:tr>"


def item(text: str, level: int) -> str:
    """A paragraph of a list."""
    numbering = f'<w:numPr><w:ilvl w:val="{level}"/><w:numId w:val="1"/></w:numPr>'
    return f"<w:p><w:pPr>{numbering}</w:pPr>{RUN.format(text)}</w:p>"


def changed(data: bytes, name: str, change: Callable[[bytes], bytes]) -> bytes:
    """The container with one of its members changed."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(io.BytesIO(data)) as old, zipfile.ZipFile(buffer, "w") as new:
        for member in old.namelist():
            new.writestr(member, change(old.read(member)) if member == name else old.read(member))
    return buffer.getvalue()


def without_sense(data: bytes, name: str) -> bytes:
    """The container with one of its members changed, but not its check sum."""
    data = changed(data, name, lambda part: part)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        member = archive.getinfo(name)
    start = member.header_offset + 30 + len(name)
    return data[:start] + b"?" * member.file_size + data[start + member.file_size :]


class TestWord:
    def test_headings_make_the_path_and_the_line_above_them_the_title(self) -> None:
        body = paragraph("The ferry", "Title") + paragraph("Fares", "Heading1") + paragraph("Adults pay.")
        parsed = read(word(body + paragraph("Dogs", "Heading2") + paragraph("Dogs pay.")))
        assert parsed.title == "The ferry"
        assert [section.heading_path for section in parsed.sections] == [(), ("Fares",), ("Fares", "Dogs")]
        assert parsed.text == "The ferry\n\n# Fares\n\nAdults pay.\n\n## Dogs\n\nDogs pay."

    def test_the_title_of_the_properties_comes_first(self) -> None:
        parsed = read(word(paragraph("Fares", "Heading1") + paragraph("x"), title="The ferry"))
        assert (parsed.title, parsed.metadata) == ("The ferry", {"author": "A. Writer"})

    def test_rows_of_a_table_keep_their_columns(self) -> None:
        table = f"<w:tbl>{row('Who', 'Price')}{row('Adult', '2')}{row('Child', '')}</w:tbl>"
        parsed = read(word(table))
        assert parsed.text == "Who | Price\nAdult | 2\nChild"
        assert len(parsed.atoms) == 1

    def test_a_cell_over_several_rows_stands_in_each_of_them(self) -> None:
        tall = "<w:tc><w:tcPr><w:vMerge{}/></w:tcPr>{}</w:tc>"
        begun, goes_on = tall.format(' w:val="restart"', paragraph("Adult")), tall.format("", "<w:p/>")
        first = f"<w:tr>{begun}<w:tc>{paragraph('2')}</w:tc></w:tr>"
        second = f"<w:tr>{goes_on}<w:tc>{paragraph('3')}</w:tc></w:tr>"
        assert read(word(f"<w:tbl>{first}{second}</w:tbl>")).text == "Adult | 2\nAdult | 3"

    def test_a_table_within_a_cell_does_not_move_the_columns_behind_it(self) -> None:
        inner = f"<w:tbl>{row('a', 'b')}{row('c', 'd')}</w:tbl>"
        outer = f"<w:tr><w:tc>{inner}{paragraph('e')}</w:tc><w:tc>{paragraph('f')}</w:tc></w:tr>"
        assert read(word(f"<w:tbl>{row('One', 'Two')}{outer}</w:tbl>")).text == "One | Two\na, b c, d e | f"

    def test_text_boxes_are_read_once(self) -> None:
        box = f"<w:txbxContent>{paragraph('in a box')}</w:txbxContent>"
        body = (
            "<w:p><w:r><mc:AlternateContent><mc:Choice Requires='wps'><w:drawing><wp:anchor><a:graphic><a:graphicData>"
            f"<wps:wsp><wps:txbx>{box}</wps:txbx></wps:wsp></a:graphicData></a:graphic></wp:anchor></w:drawing></mc:Choice>"
            f"<mc:Fallback><w:pict><v:textbox>{box}</v:textbox></w:pict></mc:Fallback></mc:AlternateContent></w:r></w:p>"
        )
        assert read(word(body)).text == "in a box"

    @pytest.mark.parametrize(
        ("inner", "text"),
        [
            (RUN.format("nav") + RUN.format("igation"), "navigation"),
            ("<w:r><w:t>navi</w:t><w:softHyphen/><w:t>gation</w:t></w:r>", "navigation"),
            (RUN.format("navi\u00adgation of\ufb01ce"), "navigation office"),
            ("<m:oMath><m:r><m:t>E=mc</m:t></m:r></m:oMath>", "E=mc"),
            (f"<w:ins>{RUN.format('new')}</w:ins><w:del><w:r><w:delText>old</w:delText></w:r></w:del>", "new"),
            (f"<w:hyperlink>{RUN.format('linked')}</w:hyperlink>", "linked"),
            (f"<w:sdt><w:sdtContent>{RUN.format('controlled')}</w:sdtContent></w:sdt>", "controlled"),
            (f"<w:r><w:instrText>PAGEREF</w:instrText></w:r>{RUN.format('shown')}", "shown"),
        ],
    )
    def test_a_paragraph_shows_what_word_shows(self, inner: str, text: str) -> None:
        assert read(word(f"<w:p>{inner}</w:p>")).text == text

    def test_a_numbered_list_goes_on_counting_behind_a_paragraph(self) -> None:
        numbering = (
            '<w:numbering xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main">'
            '<w:abstractNum w:abstractNumId="0"><w:lvl w:ilvl="0"><w:start w:val="1"/><w:numFmt w:val="decimal"/></w:lvl>'
            '</w:abstractNum><w:num w:numId="1"><w:abstractNumId w:val="0"/></w:num></w:numbering>'
        )
        body = item("one", 0) + item("two", 0) + paragraph("between") + item("three", 0)
        text = read(word(body, members={"word/numbering.xml": numbering})).text
        assert text == "1. one\n2. two\n\nbetween\n\n3. three"

    def test_lists_within_lists_are_kept(self) -> None:
        text = read(word(item("one", 0) + item("two", 1) + item("three", 2) + item("four", 0))).text
        assert [line.strip(" -.1234") for line in text.split("\n")] == ["one", "two", "three", "four"]

    def test_words_with_readings_above_them_are_kept(self) -> None:
        ruby = f"<w:rt>{RUN.format('かんじ')}</w:rt><w:rubyBase>{RUN.format('漢字')}</w:rubyBase>"
        body = f"<w:p>{RUN.format('日本の')}<w:r><w:ruby><w:rubyPr/>{ruby}</w:ruby></w:r>{RUN.format('です')}</w:p>"
        assert read(word(body)).text == "日本の漢字です"

    def test_footnotes_are_kept(self) -> None:
        notes = (
            '<w:footnotes xmlns:w="http://schemas.openxmlformats.org/wordprocessingml/2006/main"><w:footnote w:id="2">'
            f"{paragraph('See the fares.')}</w:footnote></w:footnotes>"
        )
        body = f"<w:p>{RUN.format('It sails')}<w:r><w:footnoteReference w:id='2'/></w:r></w:p>"
        assert "See the fares." in read(word(body, members={"word/footnotes.xml": notes})).text

    def test_pictures_are_not_even_unpacked(self) -> None:
        assert read(word(paragraph("x"), members={"word/media/a.png": "\x00" * 40_000_000})).text == "x"

    def test_a_member_that_unpacks_to_too_much_is_a_bomb(self) -> None:
        data = word(paragraph("x"), members={"word/footnotes.xml": " " * 40_000_000})
        with pytest.raises(ParseError, match=r"zip bomb: word/footnotes\.xml"):
            parse(data, "a.docx")

    def test_a_document_without_text_says_so(self) -> None:
        with pytest.raises(ParseError, match="no text"):
            parse(word("<w:p/>"), "a.docx")

    def test_a_document_that_was_cut_off_inside_is_damaged(self) -> None:
        data = word(paragraph("x"), members={"word/document.xml": "<w:document"})
        with pytest.raises(ParseError, match="damaged"):
            parse(data, "a.docx")


class TestSlides:
    def test_a_slide_is_a_page_in_the_order_of_the_show(self) -> None:
        first = shape("Ports", kind="title") + shape("North and south")
        second = shape("Fares", kind="title") + shape("Adults pay.")
        parsed = read(slides(first, second, order=[2, 1]), "a.pptx")
        assert [(section.page, section.heading_path) for section in parsed.sections] == [(1, ("Fares",)), (2, ("Ports",))]
        assert parsed.title == "Fares"

    def test_boxes_are_read_from_top_to_bottom_and_left_to_right(self) -> None:
        boxes = shape("bottom", 10, 100) + shape("right", 120, 40) + shape("left", 10, 40) + shape("top", 10, 5)
        assert read(slides(boxes), "a.pptx").text == "# Slide 1\n\ntop\n\nleft\n\nright\n\nbottom"

    def test_of_boxes_side_by_side_the_left_one_is_first_though_it_is_a_little_lower(self) -> None:
        boxes = shape("right", 120, 40) + shape("left", 10, 42) + shape("top", 10, 5)
        assert read(slides(boxes), "a.pptx").text == "# Slide 1\n\ntop\n\nleft\n\nright"

    def test_slides_of_pictures_are_told_and_make_no_document_of_their_numbers(self) -> None:
        parsed = read(slides(PICTURE, shape("In words.")), "a.pptx")
        assert [section.page for section in parsed.sections] == [2]
        assert parsed.losses == ("page 1: pictures without text",)
        with pytest.raises(ParseError, match="holds pictures or drawings, but no text"):
            parse(slides(PICTURE, PICTURE), "a.pptx")

    def test_speaker_notes_follow_their_slide(self) -> None:
        parsed = read(
            slides(shape("Fares", kind="title"), shape("Ports", kind="title"), notes={1: "Ask for coins."}), "a.pptx"
        )
        assert parsed.text == "# Fares\n\nNotes:\n\nAsk for coins.\n\n# Ports"
        assert [section.page for section in parsed.sections] == [1, 2]

    def test_a_slide_that_cannot_be_read_costs_that_slide_and_says_so(self) -> None:
        good = slides(shape("The first."), shape("The second."), shape("The third."))
        torn = changed(good, "ppt/slides/slide2.xml", lambda part: part[: len(part) // 2])
        parsed = read(torn, "a.pptx")
        assert [section.page for section in parsed.sections] == [1, 3]
        assert parsed.losses[0].startswith("page 2 cannot be read: ")
        assert "unreadable" not in parsed.text
        parsed = read(without_sense(good, "ppt/slides/slide2.xml"), "a.pptx")
        assert parsed.losses == ("ppt/slides/slide2.xml cannot be unpacked",)
        with pytest.raises(ParseError, match=r"damaged: .*no slide could be read"):
            parse(changed(slides(shape("One.")), "ppt/slides/slide1.xml", lambda part: part[:99]), "a.pptx")

    def test_a_part_beside_the_text_that_cannot_be_unpacked_costs_that_part(self) -> None:
        parsed = read(without_sense(word(paragraph("Words."), title="Fares"), "docProps/core.xml"))
        assert (parsed.text, parsed.title) == ("Words.", None)
        assert parsed.losses == ("docProps/core.xml cannot be unpacked",)
        with pytest.raises(ParseError, match="damaged"):
            parse(without_sense(word(paragraph("Words.")), "word/document.xml"), "a.docx")


class TestOpenDocument:
    def test_a_shape_with_text_in_a_paragraph_stands_apart_from_it(self) -> None:
        box = "<draw:custom-shape><text:p>boxed</text:p></draw:custom-shape>"
        body = f"<office:text><text:p>before.{box}after</text:p></office:text>"
        assert read(open_document(body), "a.odt").text == "before.after\n\nboxed"

    def test_headings_lists_tables_and_notes_are_read(self) -> None:
        table = "<table:table>" + "".join(
            f"<table:table-row><table:table-cell><text:p>{a}</text:p></table:table-cell>"
            f"<table:table-cell><text:p>{b}</text:p></table:table-cell></table:table-row>"
            for a, b in (("Who", "Price"), ("Adult", "2"))
        )
        parsed = read(
            open_document(
                '<office:text><text:h text:outline-level="1">Fares</text:h><text:p>It<text:s text:c="2"/>sails<text:note>'
                "<text:note-body><text:p>daily</text:p></text:note-body></text:note></text:p><text:list><text:list-item>"
                f"<text:p>one</text:p></text:list-item></text:list>{table}</table:table></office:text>"
            ),
            "a.odt",
        )
        assert parsed.text == "# Fares\n\nIt  sails\n\ndaily\n\n- one\n\nWho | Price\nAdult | 2"
        assert parsed.title == "Fares"

    def test_a_table_within_a_cell_is_read_once_and_tall_cells_stand_in_each_row(self) -> None:
        def cell(text: str, spans: str = "") -> str:
            return f"<table:table-cell {spans}><text:p>{text}</text:p></table:table-cell>"

        inner = f"<table:table><table:table-row>{cell('in1')}{cell('in2')}</table:table-row></table:table>"
        tall = 'table:number-rows-spanned="2"'
        rows = (
            f"<table:table-header-rows><table:table-row>{cell('Who')}{cell('Price')}</table:table-row></table:table-header-rows>"
            f"<table:table-row>{cell('Adult', tall)}{cell('1')}</table:table-row>"
            f"<table:table-row><table:covered-table-cell/><table:table-cell>{inner}</table:table-cell></table:table-row>"
        )
        text = read(open_document(f"<office:text><table:table>{rows}</table:table></office:text>"), "a.odt").text
        assert text == "Who | Price\nAdult | 1\nAdult | in1 in2"

    def test_headers_and_footers_of_pages_stand_around_the_text(self) -> None:
        spaces = 'xmlns:s="urn:x:style" xmlns:t="urn:x:text"'
        part = "<s:{0}><t:p>{1}</t:p></s:{0}>"
        pages = "".join(part.format(name, text) for name, text in (("header", "Fares 2024"), ("footer", "Page")))
        members = {"styles.xml": f"<s:styles {spaces}>{pages}{pages}</s:styles>"}
        data = open_document("<office:text><text:p>Adults pay.</text:p></office:text>", members=members)
        assert read(data, "a.odt").text == "Fares 2024\n\nAdults pay.\n\nPage"

    def test_a_document_in_one_file_of_xml_is_read(self) -> None:
        base = "urn:oasis:names:tc:opendocument:xmlns"
        flat = (
            f'<office:document xmlns:office="{base}:office:1.0" xmlns:text="{base}:text:1.0" '
            'office:mimetype="application/vnd.oasis.opendocument.text"><office:body><office:text>'
            '<text:h text:outline-level="1">Fares</text:h><text:p>Adults pay.</text:p></office:text></office:body>'
            "</office:document>"
        )
        assert read(flat.encode(), "a.fodt").text == "# Fares\n\nAdults pay."
        with pytest.raises(ParseError, match=r"save it as \.ods"):
            parse(flat.replace("opendocument.text", "opendocument.spreadsheet").encode(), "a.fods")

    def test_frames_of_a_slide_are_read_from_the_top(self) -> None:
        def frame(text: str, x: int, y: int) -> str:
            place = f'svg:x="{x}cm" svg:y="{y}cm" xmlns:svg="urn:x:svg"'
            return f"<draw:frame {place}><draw:text-box><text:p>{text}</text:p></draw:text-box></draw:frame>"

        frames = frame("low", 1, 9) + frame("right", 9, 1) + frame("left", 1, 1)
        data = open_document(f"<office:presentation><draw:page>{frames}</draw:page></office:presentation>", "presentation")
        assert read(data, "a.odp").text == "# Slide 1\n\nleft\n\nright\n\nlow"

    def test_slides_are_pages(self) -> None:
        slide = (
            '<draw:page><draw:frame presentation:class="title"><draw:text-box><text:p>{}</text:p></draw:text-box>'
            "</draw:frame><draw:frame><draw:text-box><text:p>words</text:p></draw:text-box></draw:frame></draw:page>"
        )
        content = f"<office:presentation>{slide.format('Fares')}{slide.format('Ports')}</office:presentation>"
        parsed = read(open_document(content, "presentation"), "a.odp")
        assert [(section.page, section.heading_path) for section in parsed.sections] == [(1, ("Fares",)), (2, ("Ports",))]

    def test_a_password_and_deep_nesting_are_told(self) -> None:
        data = open_document("<office:text/>", members={"META-INF/manifest.xml": "<manifest><encryption-data/></manifest>"})
        with pytest.raises(ParseError, match="password-protected"):
            parse(data, "a.odt")
        deep = "<text:span>" * 20_000 + "x" + "</text:span>" * 20_000
        with pytest.raises(ParseError, match="nested too deeply"):
            parse(open_document(f"<office:text><text:p>{deep}</text:p></office:text>"), "a.odt")

    def test_external_entities_are_not_followed(self) -> None:
        content = '<!DOCTYPE x [<!ENTITY e SYSTEM "file:///etc/hostname">]><office xmlns="x">&e;</office>'
        data = archive({"mimetype": "application/vnd.oasis.opendocument.text", "content.xml": content})
        with pytest.raises(ParseError, match="no XML"):
            parse(data, "a.odt")


class TestRichText:
    HEAD = r"{\rtf1\ansi\ansicpg1252{\fonttbl{\f0\fcharset204 Arial;}}"

    def text(self, body: str) -> str:
        return read((self.HEAD + body + "}").encode("latin-1"), "a.rtf").text

    def test_text_boxes_footnotes_headers_and_footers_are_kept_and_do_not_divide_the_text(self) -> None:
        box = r"{\shp{\*\shpinst\shpleft0{\sp{\sn shapeType}{\sv 202}}{\shptxt In a box.\par }}}"
        around = r"{\header Fares 2024\par}{\footer Page\par}"
        body = rf"Adults{{\footnote {{\super 1}} Over 14.}} pay.{box}\par Dogs pay."
        assert self.text(around + body) == "Fares 2024\n\nAdults pay.\nDogs pay.\n\nIn a box.\n\n1 Over 14.\n\nPage"

    def test_deleted_and_hidden_text_is_left_out(self) -> None:
        assert self.text(r"Adults {\deleted\revauthdel1 never }{\v hidden }pay{\v0 .}") == "Adults pay."

    def test_a_box_in_an_old_code_page_is_read_with_the_fonts_of_the_document(self) -> None:
        assert self.text(r"x\par{\shp{\*\shpinst{\shptxt \f0 \'cf\'e0\'f0\'ee\'ec}}}") == "x\n\nПаром"

    def test_a_document_that_was_cut_off_says_so(self) -> None:
        parsed = parse((self.HEAD + r"Adults pay.\par Dogs").encode(), "a.rtf")
        assert parsed.losses == ("it was cut off: its last group is not closed",)

    def test_a_thousand_footnotes_take_no_time_to_speak_of(self) -> None:
        text = self.text("".join(rf"w{number}{{\footnote n{number}}} " for number in range(1000)))
        assert text.startswith("w0 w1 ")
        assert text.endswith("\n\nn999")
