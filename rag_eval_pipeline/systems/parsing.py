"""Read what systems return: document names, pages, offsets, passages, citations, abstention.

The conventions of a system (`page_base`, `offset_base`) are undone here, once. Afterwards pages count from 1 and
offsets are code points of the document's text.
"""

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rag_eval_pipeline.corpus.document_names import read_name_map
from rag_eval_pipeline.errors import EndpointError, counted
from rag_eval_pipeline.systems.base import (
    Citation,
    Query,
    RagAnswer,
    RetrievedPassage,
    SystemCorpus,
    Usage,
    failed_answer,
)
from rag_eval_pipeline.systems.citations import CitationReader, merge_citations
from rag_eval_pipeline.systems.foreign_values import WrongShape, whole_number
from rag_eval_pipeline.systems.guessing import guess_paths
from rag_eval_pipeline.systems.kind_settings import ReadingSettings
from rag_eval_pipeline.systems.passages import ParsedPassage, is_file_name, parse_passages, split_page
from rag_eval_pipeline.systems.reply import Incomplete, incomplete_generation
from rag_eval_pipeline.text.folding import plain
from rag_eval_pipeline.text.model_output import final_text, json_keys
from rag_eval_pipeline.text.refusals import find_refusal
from rag_eval_pipeline.web.server_settings import Prices

ABSTENTION = "The documents do not answer this question."
UNREAD_SHOWN = 3  # keys, in warnings
KEYS_LENGTH = 100  # characters of the keys of an answer that is JSON
GUESSED_MAX = 20  # replies, and JSON values of a stream, in which passages without a path are looked for
RISING_LEAST = 10  # answers; fewer may be chance
NO_DOCUMENT = ""  # of a passage whose document the system does not name


# --- Settings


# --- Answers


class AnswerReader:
    """Converts what one system states to names, pages and offsets of one corpus."""

    def __init__(self, corpus: SystemCorpus, settings: ReadingSettings | None = None) -> None:
        settings = settings or ReadingSettings()
        self._corpus = corpus
        self._page_base = settings.page_base
        self._empty_answer = settings.empty_answer
        self._abstention = None
        if settings.abstention is not None:
            self._abstention = [re.compile(pattern, re.IGNORECASE) for pattern in settings.abstention]
        self._on_page_zero = 0
        self._unread: Counter[str] = Counter()
        self._ambiguous_names: Counter[tuple[str, str]] = Counter()
        self._uses_paths = False
        self._score_orders: Counter[str] = Counter()
        self._guessed: list[str | None] = []
        self._json_answers: Counter[str] = Counter()
        self.names = corpus.names()
        path = None if settings.contexts is None else settings.contexts.path_of_names(corpus)
        if path is not None:
            self.names = corpus.names(read_name_map(path, self.names))
        self._citations = CitationReader(
            self.names.exact,
            self.document,
            self.place,
            corpus.pages,
            first_page=0 if settings.page_base == 0 else 1,
            first_number=settings.citation_base,
            are_page_offsets=settings.offset_base == "page",
        )

    def observe(self, value: Any) -> Any:
        """Return the JSON of a reply as it is to be read: itself, unless the corpus has an observer."""
        return value if self._corpus.observe is None else self._corpus.observe(value)

    def observe_headers(self, headers: Mapping[str, str]) -> None:
        """Show a reply's headers to the corpus's observer."""
        if self._corpus.observe_headers is not None:
            self._corpus.observe_headers(headers)

    def document(self, name: str) -> str:
        """Return the basename in the corpus that a system's name means; the name as given if there is none."""
        return self.names.find(name) or name

    def page(self, number: Any, *, counts_from_zero: bool = False) -> int | None:
        """Return the 1-based page that a system's number means; None for anything else, such as -1 for "unknown"."""
        counted = whole_number(number.strip() if isinstance(number, str) else number)
        if counted is None or counted < 0:
            return None
        base = (0 if counts_from_zero else 1) if self._page_base is None else self._page_base
        if counted < base:
            self._on_page_zero += 1
            return None
        return counted + 1 - base

    def place(self, parsed: ParsedPassage) -> tuple[str, int | None]:
        """Return the document and the page that a passage or a citation names: the first name that the corpus has."""
        page = self.page(parsed.page, counts_from_zero=parsed.counts_from_zero)
        names = [name for name in (parsed.document, *parsed.other_names) if name is not None]
        for name in names:
            bare, fragment = split_page(name)
            for candidate in (name, bare):
                if (found := self.names.find(candidate)) is not None:
                    return found, page if page is not None else fragment
        return (names[0] if names else NO_DOCUMENT), page

    def passage(self, parsed: ParsedPassage, rank: int) -> RetrievedPassage:
        """Return a passage in terms of the corpus; a text that is only a document's name is taken as the name."""
        if parsed.document is None and self._is_name(parsed.text):
            parsed = parsed._replace(document=parsed.text, text="")
        document, page = self.place(parsed)
        if parsed.document is not None:
            self._notice_namesakes(parsed.document, document)
        span = None
        if parsed.start is not None and parsed.end is not None:
            span = self._citations.at(document, page, parsed.start, parsed.end)
        return RetrievedPassage(
            document=document,
            page=page,
            text=parsed.text,
            score=parsed.score,
            rank=rank,
            start=None if span is None else span.start_char,
            end=None if span is None else span.end_char,
            kind=parsed.kind,
            source_id=parsed.source_id,
        )

    def _is_name(self, text: str) -> bool:
        return is_file_name(text) or self.names.find(split_page(text)[0]) is not None

    def passages_at(self, path: str, items: Sequence[Any]) -> tuple[RetrievedPassage, ...]:
        """Return the passages that a server's JSON has at a path, in its order."""
        try:
            parsed = parse_passages(items)
        except WrongShape as wrong:
            raise WrongShape(f"passages at {path!r}: {wrong}") from None
        return tuple(self.passage(passage, rank) for rank, passage in enumerate(parsed, start=1))

    def citations(self, text: str, passages: Sequence[RetrievedPassage] | None = None) -> tuple[Citation, ...]:
        """Return the citations in an answer: marks `[file:page:start-end]`, and numbers of passages where given."""
        return self._citations.in_answer(text, passages)

    def stated_citations(
        self, items: Any, passages: Sequence[RetrievedPassage] = (), *, answer: str = ""
    ) -> tuple[Citation, ...]:
        """Return the citations that a system states apart from its answer; those without a place are counted."""
        return self._citations.stated(items, passages, answer=answer)

    def all_citations(
        self, answer: str, passages: Sequence[RetrievedPassage], stated: Sequence[Any]
    ) -> tuple[Citation, ...]:
        """Return the citations in an answer, and after them those stated beside it."""
        apart = self.stated_citations(stated, passages, answer=answer)
        return merge_citations(self.citations(answer, passages), apart)

    def notice_unread(self, keys: Sequence[str]) -> None:
        """Count an answer without passages that has documents under other keys."""
        self._unread.update(keys)

    def notice_unset(self, setting: str, replies: Sequence[Any], question: str) -> None:
        """Look in the first replies for a list of passages, though the setting of their path is not made."""
        if len(self._guessed) >= GUESSED_MAX:
            return
        values = json.loads(json.dumps(replies[:GUESSED_MAX]))  # a copy, because to guess is not to read
        found = guess_paths(values, question, lambda name: self.names.find(name) is not None).path("contexts")
        value = f"{{path: {found}}}" if setting == "contexts" else found
        self._guessed.append(
            None if found is None else
            f"{setting} is not set, and replies have a list that looks like passages. If it is one, set "
            f"{setting}: {value}."
        )  # fmt: skip

    def warnings(self) -> list[str]:
        """Return what was noticed in the answers so far."""
        found = [
            f"{count:,} answers state no passages where they are looked for, and have a list of documents under "
            f"{key!r}. Return it as contexts."
            for key, count in self._unread.most_common(UNREAD_SHOWN)
        ]
        found += dict.fromkeys(filter(None, self._guessed))
        found += [
            f"Answers that are JSON in a text, with the keys {keys[:KEYS_LENGTH]}: {count:,}. They are scored as such. "
            "Have the system return the answer's text alone, or parse it in a system of kind python."
            for keys, count in self._json_answers.most_common(UNREAD_SHOWN)
        ]
        found += self._citations.warnings()
        rising, other = self._score_orders["rising"], self._score_orders["other"]
        if rising >= RISING_LEAST and rising > other:
            found.append(
                f"In {rising:,} of {rising + other:,} answers the scores of the passages rise from first to last. "
                "The first passage is read as the best: if a larger score is better, return them in the other order."
            )
        if not self._uses_paths:
            found += [
                f"{counted(count, 'passage names', 'passages name')} {name!r}, as several documents of the corpus "
                f"are called, and were read as {document!r}. Return their paths."
                for (name, document), count in self._ambiguous_names.most_common(UNREAD_SHOWN)
            ]
        if self._on_page_zero:
            found.append(
                f"{counted(self._on_page_zero, 'passage or citation is', 'passages or citations are')} on page 0, "
                "so the pages are unknown. If the system counts pages from 0, set page_base: 0."
            )
        return found

    def retrieval(
        self, query: Query, contexts: tuple[RetrievedPassage, ...], *, latency_ms: float | None, usage: Usage
    ) -> RagAnswer:
        """Return the record of passages without an answer, which are enough where a benchmark has no answers.

        Raises:
            WrongShape: The benchmark has answers.
        """
        self._notice_order(contexts)
        if not self._corpus.retrieval_only:
            found = f"{counted(len(contexts), 'passage')} and no answer"
            raise WrongShape(f"{found}, which is enough only for a benchmark with retrieval_only: true")
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=None,
            abstained=False,
            contexts=contexts,
            citations=(),
            latency_ms=latency_ms,
            usage=usage,
        )

    def record(
        self,
        query: Query,
        text: str,
        *,
        latency_ms: float | None,
        usage: Usage,
        contexts: tuple[RetrievedPassage, ...],
        cite: Callable[[str], tuple[Citation, ...]],
        abstained: bool | None = None,
        finish_reason: str | None = None,
        refusal: str | None = None,
        timings: dict[str, float] | None = None,
        raw_sha256: str | None = None,
        model: str | None = None,
    ) -> RagAnswer:
        """Return the record of an answer without the model's thoughts and special tokens, whatever the kind of system.

        A generation that was cut, filtered or failed is no answer, and an empty one is an error, unless that is how the
        system abstains.

        Args:
            text: As the system wrote it.
            usage: Also counted for an empty answer.
            cite: Returns the citations of the answer, given its text without thoughts.
            abstained: What the system states; None to decide by the text.
        """
        self._notice_order(contexts)
        final = final_text(text)
        answer = final or ""
        failure = incomplete_generation(finish_reason, usage.completion_tokens, refusal)
        if failure is None and final is None:
            failure = Incomplete("truncated", "only_thoughts", "the reply ends within the model's thoughts")
        elif failure is None and not answer.strip() and abstained is not True and self._empty_answer == "error":
            empty = "empty but for the model's thoughts" if text.strip() else "empty"
            error = f"the answer is {empty}; if that is how this system abstains, set empty_answer: abstained"
            failure = Incomplete("error", "empty_answer", error)
        if failure is not None:
            return failed_answer(
                query,
                failure.status,
                code=failure.code,
                error=failure.error,
                latency_ms=latency_ms,
                usage=usage,
                partial=text or None,
                raw_sha256=raw_sha256,
            )
        if (keys := json_keys(answer)) is not None:
            self._json_answers[", ".join(keys)] += 1
        return RagAnswer(
            query_id=query.query_id,
            status="ok",
            answer=answer,
            abstained=self.abstained(answer) if abstained is None else abstained,
            contexts=contexts,
            citations=cite(answer),
            latency_ms=latency_ms,
            usage=usage,
            timings=timings or {},
            raw_sha256=raw_sha256,
            model=model,
            raw=None if answer == text else text,
        )

    def abstained(self, text: str) -> bool:
        """Return whether an answer is empty or states that the documents do not answer the question."""
        if not text.strip():
            return True
        if self._abstention is None:
            return find_refusal(plain(text)).is_refusal
        return any(pattern.search(text) for pattern in self._abstention)

    def _notice_order(self, contexts: Sequence[RetrievedPassage]) -> None:
        """Count the answers whose passages have different scores, and those in which the scores only rise."""
        scores = [passage.score for passage in contexts if passage.score is not None]
        if len(scores) == len(contexts) and len(set(scores)) > 1:
            self._score_orders["rising" if scores == sorted(scores) else "other"] += 1

    def _notice_namesakes(self, name: str, document: str) -> None:
        """Count the passages whose name several documents have, and note whether the system tells these apart."""
        if document in self.names.namesakes(name):
            self._uses_paths |= self.names.by_path(name) is not None or "~" in document
            self._ambiguous_names[name, document] += 1


def estimated_usage(
    prices: Prices, requests: int, prompt_tokens: int = 0, completion_tokens: int = 0, *, cost: float | None = None
) -> Usage:
    """Return the usage of a question; the cost is estimated from the prices unless the server states it."""
    if cost is None:
        cost = prices.estimate(prompt_tokens=prompt_tokens, completion_tokens=completion_tokens, requests=requests)
    return Usage(prompt_tokens + completion_tokens, cost, requests, prompt_tokens, completion_tokens)


def failed_request(query: Query, error: EndpointError, prices: Prices, *, before_ms: float = 0.0) -> RagAnswer:
    """Return the record of a question whose request failed; its requests are paid for, its tokens are unknown."""
    return failed_answer(
        query,
        error.status,
        code=error.code,
        error=error.message,
        latency_ms=before_ms + error.elapsed_ms,
        usage=estimated_usage(prices, error.requests),
        partial=None if error.partial is None else error.partial.decode("utf-8", "replace"),
        raw_sha256=error.raw_sha256,
    )
