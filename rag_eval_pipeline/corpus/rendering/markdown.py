"""Markdown to a page of HTML: CommonMark 0.31, with tables and struck-out text as GitHub has them.

HTML inside Markdown is part of CommonMark, and what README files place their pictures and line breaks with; shown as
text, its tags would stand in the corpus. It is let through, and the page is printed without scripts.
"""

import functools
from dataclasses import replace
from importlib import metadata
from typing import TYPE_CHECKING

from rag_eval_pipeline.corpus.fetching.bodies import Body, decode_text

if TYPE_CHECKING:
    from markdown_it import MarkdownIt

MARKDOWN_PAGE = (
    '<!doctype html><html><head><meta charset="utf-8"><style>'
    'body{{margin:0;font:10.5pt/1.45 "Noto Sans","DejaVu Sans",sans-serif;overflow-wrap:anywhere}}'
    'pre,code{{font-family:"Noto Sans Mono","DejaVu Sans Mono",monospace;font-size:9.5pt;white-space:pre-wrap}}'
    "table{{border-collapse:collapse}}th,td{{border:1px solid #999;padding:2pt 5pt}}"
    "img{{max-width:100%}}blockquote{{margin-left:0;padding-left:10pt;border-left:3pt solid #ccc}}"
    "</style></head><body dir=auto>\n{content}</body></html>"
)

# The parser leaves out, without a word, what is nested deeper; 20 is its own limit, and a list takes two a level.
_NESTING_MAX = 100


def markdown_page(body: Body) -> Body:
    """A Markdown body as the HTML that is printed, under the same address and with the same folder."""
    html = MARKDOWN_PAGE.format(content=_parser().render(decode_text(body)))
    return replace(body, kind="html", data=html.encode(), charset="utf-8")


def markdown_print() -> str:
    """What decides how Markdown looks in print: the page and the version of the parser."""
    return f"{MARKDOWN_PAGE} {_NESTING_MAX} {metadata.version('markdown-it-py')}"


@functools.cache
def _parser() -> "MarkdownIt":
    from markdown_it import MarkdownIt

    return MarkdownIt("commonmark", {"html": True, "maxNesting": _NESTING_MAX}).enable(["table", "strikethrough"])
