"""Facts of a page without a browser: near enough to what `measure.js` sees of plain HTML without style sheets."""

import re
from html.parser import HTMLParser

from rag_eval_pipeline.web.block_pages import HTML_BYTES, PageFacts

_BLOCKS = {"p", "div", "h1", "h2", "h3", "li", "ul", "ol", "tr", "td", "th", "table", "section", "article", "header"}
_BLOCKS |= {"footer", "nav", "main", "form", "button", "br", "blockquote", "pre", "dl", "dt", "dd", "body", "label"}
_UNSEEN = {"script", "style", "noscript", "template", "head", "select"}
_VOID = {"br", "img", "input", "meta", "link", "hr", "embed", "area", "base", "col", "source", "wbr", "param", "track"}
_PICTURES = {"img", "svg", "canvas", "video", "embed", "object", "iframe", "frame"}


class _Reader(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.open: list[tuple[str, bool]] = []
        self.parts: list[str] = []
        self.title = ""
        self.headings: list[str] = []
        self.paragraphs: list[str] = []
        self.passwords = self.pictures = 0

    @property
    def unseen(self) -> bool:
        return any(unseen for _, unseen in self.open)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        attributes = dict(attrs)
        hidden = "hidden" in attributes or "display:none" in (attributes.get("style") or "").replace(" ", "")
        if not hidden and not self.unseen:
            self.passwords += tag == "input" and attributes.get("type") == "password"
            large = int(re.sub(r"\D", "", attributes.get("width") or "") or 0) >= 100
            self.pictures += tag in _PICTURES and large
        if tag in _BLOCKS:
            self.parts.append("\n")
        if tag == "h1":
            self.headings.append("")
        if tag == "p":
            self.paragraphs.append("")
        if tag not in _VOID:
            self.open.append((tag, hidden or tag in _UNSEEN))

    def handle_endtag(self, tag: str) -> None:
        if any(name == tag for name, _ in self.open):
            while self.open.pop()[0] != tag:
                pass
        if tag in _BLOCKS:
            self.parts.append("\n")

    def handle_data(self, data: str) -> None:
        names = [name for name, _ in self.open]
        if "title" in names and "svg" not in names:
            self.title += data
        if self.unseen:
            return
        self.parts.append(data)
        if "h1" in names:
            self.headings[-1] += data
        if "p" in names:
            self.paragraphs[-1] += data


def facts(html: str, *, url: str = "https://site.example/guide/lamps", final_url: str | None = None) -> PageFacts:
    reader = _Reader()
    reader.feed(html)
    reader.close()
    lines = [" ".join(line.split()) for line in "".join(reader.parts).splitlines()]
    text = "\n".join(line for line in lines if line)
    return PageFacts(
        url=url,
        final_url=final_url or url,
        title=" ".join(reader.title.split()),
        heading=" ".join(reader.headings[0].split()) if reader.headings else "",
        text=text[:2000],
        text_length=len(text),
        prose_length=sum(len(part.strip()) for part in reader.paragraphs if len(part.strip()) >= 150),
        password_fields=reader.passwords,
        pictures=reader.pictures,
        html=html.encode()[:HTML_BYTES].decode("latin-1"),
    )
