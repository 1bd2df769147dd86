"""Render URLs side by side, and record what became of them."""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterable
from typing import NamedTuple

from rag_eval_pipeline.corpus.document_renderer import DocumentRenderer
from rag_eval_pipeline.corpus.documents import CorpusDocument, FileName, PlannedDocument
from rag_eval_pipeline.corpus.text.pdf import read_texts
from rag_eval_pipeline.errors import DocumentError
from rag_eval_pipeline.web.egress import EgressConfig, EgressPolicy, system_resolver
from tests.patience import PATIENCE_S

LOAD_LIMIT_S = 15.0  # of a page that does not load to its end; what is to come of it comes sooner on a busy machine


class Outcome(NamedTuple):
    """What became of one document."""

    row: CorpusDocument | None
    pdf: bytes
    error: DocumentError | None

    @property
    def code(self) -> str | None:
        return self.error.code if self.error else None

    @property
    def text(self) -> str:
        return "\n".join(read_texts(self.pdf)) if self.pdf else ""

    @property
    def flags(self) -> tuple[str, ...]:
        """Without those of the machine."""
        return tuple(flag for flag in self.row.flags if flag != "no_sandbox") if self.row else ()


async def make(renderer: DocumentRenderer, document: PlannedDocument | str) -> Outcome:
    """A document, or what is behind a URL."""
    if isinstance(document, str):
        document = PlannedDocument(document, (FileName("x.pdf", document),), "url", document)
    try:
        row, pdf = await renderer.make(document)
    except DocumentError as error:
        return Outcome(None, b"", error)
    return Outcome(row, pdf, None)


async def make_all(
    renderer: DocumentRenderer, documents: Iterable[PlannedDocument | str], *, at_once: int
) -> list[Outcome]:
    """Outcomes in the order of the documents."""
    outcomes: dict[int, Outcome] = {}
    waiting = iter(enumerate(documents))

    async def work() -> None:
        for index, document in waiting:
            outcomes[index] = await make(renderer, document)

    await asyncio.gather(*(work() for _ in range(at_once)))
    return [outcomes[index] for index in sorted(outcomes)]


@contextlib.asynccontextmanager
async def rendering(
    *hosts: str | dict[str, object], resolved: set[str] | None = None, **limits: object
) -> AsyncIterator[DocumentRenderer]:
    """A running renderer that may ask some hosts of this machine.

    Args:
        hosts: Each as in `allowed_hosts`.
        resolved: Receives every host that anything behind the proxy wanted to reach.
        limits: Other settings of the egress policy.
    """

    async def resolve(host: str, port: int) -> list[str]:
        if resolved is not None:
            resolved.add(host)
        return await system_resolver(host, port)

    patience = {"fetch_limit_s": PATIENCE_S, "page_load_limit_s": PATIENCE_S}
    settings = patience | {"attempts": 2, "host_requests": 64} | limits
    config = EgressConfig(allowed_hosts=hosts, allow_no_sandbox=True, **settings)
    renderer = DocumentRenderer(EgressPolicy(config, resolver=resolve), lambda: "renderer")
    async with renderer:
        yield renderer
