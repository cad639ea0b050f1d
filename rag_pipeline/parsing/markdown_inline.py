"""Inline markup of Markdown -> the text a reader sees, for headings and titles."""

from __future__ import annotations

import html
import re

_MARKUP = re.compile(r"[\\`*_\[<&~{]")
_ATTRIBUTES = re.compile(r"[ \t]*\{:?[ \t]*(?:[#.][^{}\n]*|[\w-]+=[^{}\n]*|/\*[^{}\n]*\*/[ \t]*)\}[ \t]*$")
_CLOSING_HASHES = re.compile(r"(?:^|[ \t]+)#+[ \t]*$")
_ESCAPE_OR_CODE = re.compile(r"\\([!-/:-@\[-`{-~])|(?<!`)(`+)(?!`)(.+?)(?<!`)\2(?!`)", re.DOTALL)
_LINK = re.compile(r"!?\[((?:[^\[\]]|\[[^\[\]]*\])*)\](?:\((?:[^()]|\([^()]*\))*\)|\[[^\[\]]*\])")
_AUTOLINK = re.compile(r"<([A-Za-z][A-Za-z0-9+.-]*:[^\s<>]*|[^\s<>@]+@[^\s<>@]+)>")
_TAG = re.compile(
    r"</?(?:a|abbr|b|bdi|bdo|big|br|center|cite|code|del|dfn|div|em|font|i|img|ins|kbd|mark|p|q|s|samp|small|span"
    r"|strike|strong|sub|sup|svg|tt|u|var|wbr)(?=[\s/>])[^<>]*>|<!--.*?-->",
    re.IGNORECASE | re.DOTALL,
)
_EMPHASIS = re.compile(r"(?<![*~])(\*{1,3}|~~)(?![\s*~])(.+?)(?<![\s*~])\1(?![*~])", re.DOTALL)
_UNDERSCORES = re.compile(r"(?<!\w)(_{1,3})(?=\S)(.+?)(?<=\S)\1(?!\w)", re.DOTALL)
_LONGEST = 2000
_PROTECTED = "\ue000{}\ue001"
_PLACEHOLDER = re.compile("\ue000([0-9]+)\ue001")


def heading_text(raw: str) -> str:
    """What a reader sees of a heading's source, on one line.

    Closing hashes and attributes such as ``{#anchor}`` are dropped, links give their text, code its content.
    """
    text = _CLOSING_HASHES.sub("", raw)
    while (shorter := _ATTRIBUTES.sub("", text)) != text:
        text = _CLOSING_HASHES.sub("", shorter)
    if len(text) <= _LONGEST and _MARKUP.search(text):
        text = _without_markup(text)
    return " ".join(text.split())


def _without_markup(text: str) -> str:
    literals: list[str] = []

    def protect(literal: str) -> str:
        literals.append(literal)
        return _PROTECTED.format(len(literals) - 1)

    def protect_escape_or_code(match: re.Match[str]) -> str:
        if match.group(1):
            return protect(match.group(1))
        content = match.group(3).replace("\n", " ")
        # One space on either side is padding, for code that begins or ends with a backtick.
        padded = content.startswith(" ") and content.endswith(" ") and content.strip()
        return protect(content[1:-1] if padded else content)

    text = text.replace("\ue000", "").replace("\ue001", "")
    text = _ESCAPE_OR_CODE.sub(protect_escape_or_code, text)
    text = _AUTOLINK.sub(lambda match: protect(match.group(1)), text)
    for pattern, replacement in ((_LINK, r"\1"), (_EMPHASIS, r"\2"), (_UNDERSCORES, r"\2")):
        for _ in range(4):  # a picture within a link, strong within emphasis
            shorter = pattern.sub(replacement, text)
            if shorter == text:
                break
            text = shorter
    text = html.unescape(_TAG.sub("", text))
    while _PLACEHOLDER.search(text):
        text = _PLACEHOLDER.sub(lambda match: literals[int(match.group(1))], text)
    return text
