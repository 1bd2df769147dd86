"""Whether the server counts pages from 0 or from 1: found by searching for what is known to stand on a page.

The number depends on the extractor behind the ingestor, and a page that is off by one is a wrong page in every score.
"""

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import groupby
from typing import Any, Literal, NamedTuple

from rag_eval_pipeline.corpus.text.folding import fold
from rag_eval_pipeline.endpoints.client import Endpoint, EndpointError
from rag_eval_pipeline.systems.corpus import PageText
from rag_eval_pipeline.systems.nvidia.names import StoredNames
from rag_eval_pipeline.systems.nvidia.passages import text_of

logger = logging.getLogger(__name__)

Base = Literal[0, 1]
PROBED_DOCUMENTS = 3
PROBED_PAGES = 2  # of each: its second page and its last
PROBE_WORDS = 40  # of a page, from its middle
FOUND_PASSAGES = 4  # for a probe
WINDOW = 40  # folded characters that are looked for; shorter ones stand on several pages by chance
AGREEMENT = 0.8  # of the passages; a chunk across two pages may carry the number of either


class Sighting(NamedTuple):
    """A passage whose page is known: the server's number, and the 1-based page that its text stands on."""

    stated: int
    actual: int


async def find_page_base(
    endpoint: Endpoint, collection: str, pages: Sequence[PageText], names: StoredNames
) -> Base | None:
    """The server's number of a first page.

    Args:
        endpoint: The RAG server.
        collection: That holds the corpus.
        pages: Of the corpus.
        names: Of the corpus.

    Returns:
        None when its numbers fit neither base, or when nothing was found: pages are then not reported.
    """
    by_document = {document: list(found) for document, found in groupby(pages, lambda page: page.document)}
    sightings: list[Sighting] = []
    for query in probes(by_document):
        try:
            results = await _search(endpoint, collection, query)
        except EndpointError as error:
            logger.warning("page_base_search_failed error=%s", error)
            return None
        sightings += seen(results, by_document, names)
    return base_of(sightings)


def probes(by_document: Mapping[str, Sequence[PageText]]) -> Iterator[str]:
    """What is searched for: words from the middle of late pages of the longest documents."""
    longest = sorted(by_document.items(), key=lambda item: (-len(item[1]), item[0]))[:PROBED_DOCUMENTS]
    for _, pages in longest:
        for page in dict.fromkeys([*pages[1:PROBED_PAGES], pages[-1]]):
            words = page.text.split()
            middle = max(0, (len(words) - PROBE_WORDS) // 2)
            if words:
                yield " ".join(words[middle : middle + PROBE_WORDS])


def seen(
    results: Iterable[Any], by_document: Mapping[str, Sequence[PageText]], names: StoredNames
) -> Iterator[Sighting]:
    """The passages whose text stands on one page of their document and on no other."""
    for result in results:
        if not isinstance(result, dict) or not isinstance(result.get("metadata"), dict):
            continue
        stated = result["metadata"].get("page_number")
        pages = by_document.get(names.file(str(result.get("document_name"))), ())
        if not isinstance(stated, int) or isinstance(stated, bool) or stated < 0:
            continue
        folded = fold(text_of(result)).text
        standing = [page.page for page in pages if _stands(folded, fold(page.text).text)]
        if len(standing) == 1:
            yield Sighting(stated, standing[0])


def base_of(sightings: Sequence[Sighting]) -> Base | None:
    """The base that the numbers agree with; None when there are none, or they agree with neither."""
    for base in (1, 0):
        agreeing = sum(sighting.stated == sighting.actual - 1 + base for sighting in sightings)
        if sightings and agreeing >= AGREEMENT * len(sightings):
            return 1 if base else 0
    return None


def _stands(passage: str, page: str) -> bool:
    """Whether the middle of a passage, and its beginning or its end, stand on a page."""
    if len(passage) < WINDOW:
        return False
    middle = (len(passage) - WINDOW) // 2
    return passage[middle : middle + WINDOW] in page and (passage[:WINDOW] in page or passage[-WINDOW:] in page)


async def _search(endpoint: Endpoint, collection: str, query: str) -> list[Any]:
    body = {"query": query, "collection_names": [collection], "reranker_top_k": FOUND_PASSAGES}
    reply = await endpoint.request("POST", "v1/search", json=body)
    found = reply.json()
    results = found.get("results") if isinstance(found, dict) else None
    if not isinstance(results, list):
        raise reply.bad("a list under 'results'")
    return results
