"""Small PDFs with known pages, and a corpus of them as a system is given it."""

from datetime import UTC, datetime
from pathlib import Path

from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.systems.base import PageText, SystemCorpus
from tests.faults.pdfs import pdf, stream

LINE_CHARACTERS = 80

LIGHT = [
    "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. Its tower is 31 metres tall.",
    "The keeper of the light in 1911 was Jonas Fell. He kept bees & goats on the small island of Corran, where nothing "
    "else could be kept for long because of the wind that blows from the west in every month of the year.",
    "The lamp was replaced in 1954 by an electric one. Its bulb of 500 watts can be seen for 18 miles in clear weather, "
    "and since then no ship has run onto the reef that lies to the north of the point.",
]
HARBOUR = [
    "The harbour of Tollan was built in 1901. It holds forty boats.",
    "The breakwater of the harbour is 240 metres long and was paid for by the herring merchants of Tollan, who wished "
    "to unload their catch in winter as well; the work took four years and cost nine thousand pounds.",
]
BELL = ["The bell of Café Zürich weighs 900 kilograms."]

DOCUMENTS = {"light.pdf": LIGHT, "tollan.pdf": HARBOUR, 'bell "one".pdf': BELL}


def paper(pages: list[str]) -> bytes:
    """A PDF with one text a page."""
    count = len(pages)
    kids = b" ".join(b"%d 0 R" % (4 + 2 * at) for at in range(count))
    font = b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica/Encoding/WinAnsiEncoding>>"
    objects = [b"<</Type/Catalog/Pages 2 0 R>>", b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, count), font]
    for at, text in enumerate(pages):
        page = b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 842 595]/Resources<</Font<</F 3 0 R>>>>/Contents %d 0 R>>"
        objects += [page % (5 + 2 * at), stream(_shown(text))]
    return pdf(objects)


def write_papers(folder: Path, documents: dict[str, list[str]] | None = None) -> Path:
    """A folder with the documents."""
    folder.mkdir(parents=True, exist_ok=True)
    for name, pages in (DOCUMENTS if documents is None else documents).items():
        (folder / name).write_bytes(paper(pages))
    return folder


def papers_corpus(
    root: Path, documents: dict[str, list[str]] | None = None, *, system: str = "blueprint"
) -> SystemCorpus:
    """The documents as the corpus of a benchmark `marsh-point`."""
    documents = DOCUMENTS if documents is None else documents
    folder = write_papers(root / "corpus" / "marsh-point", documents)

    def pages() -> list[PageText]:
        found = []
        for name in sorted(documents):
            start = 0
            for number, text in enumerate(read_texts(folder / name), 1):
                found.append(PageText(name, number, start, text))
                start += len(text) + 1
        return found

    return SystemCorpus(
        benchmark="marsh-point",
        folder=folder,
        files=sorted(documents),
        aliases={name: name for name in documents} | {name.removesuffix(".pdf"): name for name in documents},
        fingerprint="0123456789abcdef" * 4,
        pages=pages,
        system=system,
        started=datetime(2026, 11, 15, 2, tzinfo=UTC),
        settings_folder=root,
        state_folder=root / "systems" / system / "marsh-point",
    )


def _shown(text: str) -> bytes:
    """The drawing of a text, broken into lines between words."""
    lines = [""]
    for word in text.split():
        if len(lines[-1]) + len(word) >= LINE_CHARACTERS:
            lines.append("")
        lines[-1] = f"{lines[-1]} {word}".strip()
    escaped = [line.replace("\\", "\\\\").replace("(", "\\(").replace(")", "\\)") for line in lines]
    drawn = b" ".join(b"(%s) Tj T*" % line.encode("cp1252") for line in escaped)
    return b"BT /F 11 Tf 14 TL 40 540 Td %s ET" % drawn
