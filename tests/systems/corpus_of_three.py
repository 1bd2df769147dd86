"""A small corpus that systems are tried on."""

from pathlib import Path

from rag_eval_pipeline.systems.base import PageText, SystemCorpus

LIGHT = "The Marsh Point light was first lit on 3 May 1887 by Ada Thorne. Its tower is 31 metres tall."
HARBOUR = "The harbour of Tollan was built in 1901. It holds forty boats."
PAGES = [
    PageText("light.pdf", 1, 0, LIGHT),
    PageText("tollan.pdf", 1, 0, "Contents"),
    PageText("tollan.pdf", 2, 9, HARBOUR),
    PageText("a[1].pdf", 1, 0, "One."),
]


def corpus_in(folder: Path) -> SystemCorpus:
    names = ["light.pdf", "tollan.pdf", "a[1].pdf"]
    return SystemCorpus(
        benchmark="coast",
        folder=folder / "corpus",
        files=names,
        aliases={alias: name for name in names for alias in (name, name.removesuffix(".pdf"))},
        fingerprint="1",
        pages=lambda: PAGES,
        settings_folder=folder,
        state_folder=folder / "state",
    )
