"""`web.json`: what is known of the pages on the web that the corpus was fetched from.

It changes from night to night without any change of the corpus, so it stands beside the manifest and not in it: an
evaluation is not asked for again because a server sends another ETag.
"""

import json
import logging
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import msgspec

from rag_eval_pipeline.corpus.documents import CorpusDocument, Drift
from rag_eval_pipeline.storage.atomic import atomic_write

logger = logging.getLogger(__name__)

WEB_FIELDS = ("etag", "last_modified", "drift", "drift_sha256", "drift_reason")


class PageState(msgspec.Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """Of one document; the fields are those of `CorpusDocument`."""

    body_sha256: str
    etag: str | None = None
    last_modified: str | None = None
    drift: Drift | None = None
    drift_sha256: str | None = None
    drift_reason: str | None = None


def write_web_state(path: Path, documents: Iterable[CorpusDocument]) -> None:
    """Publishes what the rows know of their pages; without a fetched document there is no file."""
    states = {
        document.key: msgspec.to_builtins(_state(document))
        for document in documents
        if document.final_url is not None and document.body_sha256 is not None
    }
    if states:
        atomic_write(path, json.dumps({"documents": states}, indent=1, sort_keys=True, ensure_ascii=False).encode())
    else:
        path.unlink(missing_ok=True)


def with_web_state(documents: Iterable[CorpusDocument], path: Path) -> list[CorpusDocument]:
    """Rows of a manifest with what is known of their pages; what was said of another body is left out."""
    states = _read(path)
    return [
        replace(document, **{name: getattr(state, name) for name in WEB_FIELDS})
        if (state := states.get(document.key)) is not None and state.body_sha256 == document.body_sha256
        else document
        for document in documents
    ]


def _read(path: Path) -> dict[str, PageState]:
    try:
        return msgspec.json.decode(path.read_bytes(), type=dict[str, dict[str, PageState]])["documents"]
    except FileNotFoundError:
        return {}
    except (msgspec.MsgspecError, KeyError) as error:
        # Nothing is lost: the pages are asked for without saying which version is known.
        logger.warning("%s is left aside: %s", path.name, error)
        return {}


def _state(document: CorpusDocument) -> PageState:
    return PageState(document.body_sha256 or "", **{name: getattr(document, name) for name in WEB_FIELDS})
