"""What systems' answers show about a benchmark's questions.

Read are the newest published runs of each system over the present dataset and corpus: up to five with the same
fingerprints, one of a deterministic system. An answer is right if it equals a gold answer or the judge says so, and
wrong only if that is certain. Runs of systems that are marked `closed_book` show which questions need no documents.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from operator import attrgetter
from typing import NamedTuple

from rag_eval_pipeline.audit.audited_texts import AuditedQuestions, content_words, quoted
from rag_eval_pipeline.audit.findings import AuditFinding, Suspect
from rag_eval_pipeline.audit.nearest_sentences import SAID_MIN, YES_NO, sentences_of
from rag_eval_pipeline.conversion.stamp import Stamp
from rag_eval_pipeline.corpus.text.alignment import contains
from rag_eval_pipeline.evaluation.corpus_names import CorpusFiles
from rag_eval_pipeline.evaluation.evaluation_folders import Evaluation, all_published
from rag_eval_pipeline.evaluation.score_tables import ScoreTable, iter_responses, read_scores
from rag_eval_pipeline.formats.dataset import EvaluationQuery, open_dataset
from rag_eval_pipeline.judges.judge_settings import LexicalSettings
from rag_eval_pipeline.judges.lexical import judge_correctness
from rag_eval_pipeline.metrics.answers import answer_tokens, normalise_answer, score_answer
from rag_eval_pipeline.monitoring.baselines import newest_alike
from rag_eval_pipeline.storage.parquet_files import limit_allocators
from rag_eval_pipeline.systems.base import PageText, RagAnswer
from rag_eval_pipeline.systems.config import read_common_settings
from rag_eval_pipeline.text.folding import plain
from rag_eval_pipeline.text.refusals import Refusal
from rag_eval_pipeline.workspace import BenchmarkPaths, Workspace

SYSTEMS_MIN = 2  # that have to agree, or to fail
RUNS_MIN = 3  # the same of a single system
WAVERING_RUNS_MIN = 4
WAVERING_CHANGES_MIN = 2  # one change from right to wrong, or the reverse, is one of the system
FEW = 0.1  # share of the questions up to which they are suspicious; where more are missed, systems are
SHARED_MIN = 0.3  # share of a question's words that a sentence about it has
SEARCHED_MAX = 2000  # questions; each takes some ten milliseconds
PASSAGES_SEARCHED = 5  # of each answer, the first ones
LEANS_RIGHT = 0.5  # score of a comparison, from which an answer is rather right
SHOWN_BEFORE = 40  # characters of a sentence before the answer

_ANSWERED = Refusal(False, ())
_MakeSuspect = Callable[..., Suspect]
Right = Mapping[str, bool | None]  # question -> whether its answer is right; None if that is not certain


@dataclass(frozen=True, slots=True)
class _System:
    """A system with its runs, oldest first."""

    name: str
    runs: Sequence[Evaluation]
    right: Sequence[Right]

    def scored(self, query_id: str) -> list[bool | None]:
        """Return for each run with a scored answer to the question whether it is right."""
        return [run[query_id] for run in self.right if query_id in run]

    def known(self, query_id: str) -> list[bool]:
        """Return the same of the runs for which it is certain."""
        return [one for one in self.scored(query_id) if one is not None]

    def is_mostly_right(self, query_ids: Iterable[str]) -> bool:
        """Return whether half of the answers to some questions are right, or more."""
        known = [one for query_id in query_ids for one in self.known(query_id)]
        return bool(known) and 2 * sum(known) >= len(known)


class _Stated(NamedTuple):
    """A page of the corpus that states an answer."""

    document: str
    page: int
    excerpt: str
    shared: float  # share of the question's words that the sentence has
    has_gold: bool  # it states the gold answer as well


def findings_from_answers(workspace: Workspace, name: str, questions: AuditedQuestions) -> list[AuditFinding]:
    """Return what the answers of systems show about the questions of a converted benchmark; nothing without answers."""
    limit_allocators()
    paths = workspace.benchmark(name)
    stamp = Stamp.read(paths.stamp)
    closed, systems = _read_systems(workspace, stamp)
    if not closed and not systems:
        return []
    numbers = {str(one): number for number, one in enumerate(questions.ids)}

    def suspect(query_id: str, evidence: str, answers: Sequence[str] = ()) -> Suspect:
        return questions.suspect(numbers[query_id], evidence, answers)

    queries = open_dataset(workspace.eval_json(stamp.dataset_id, stamp.dataset_version)).queries
    found = [
        *_contradictions(paths, queries, systems, suspect),
        _wavering(numbers, systems, suspect),
        *([_closed_book(queries, closed, suspect)] if closed else []),
    ]
    return [finding for finding in found if finding.suspects]


def _read_systems(workspace: Workspace, stamp: Stamp) -> tuple[list[_System], list[_System]]:
    """Return the systems that are asked without documents, and the others."""
    closed: list[_System] = []
    others: list[_System] = []
    for (benchmark, system), evaluations in sorted(all_published(workspace).items()):
        current = [
            one
            for one in evaluations
            if benchmark == stamp.benchmark
            and one.record.fingerprints.dataset == stamp.dataset_fingerprint
            and one.record.fingerprints.corpus == stamp.corpus_fingerprint
        ]
        if runs := newest_alike(current):
            file = read_common_settings(workspace.system_file(system))
            is_closed = file is not None and file.closed_book
            (closed if is_closed else others).append(_System(system, runs, [_right(run) for run in runs]))
    return closed, others


def _right(run: Evaluation) -> Right:
    answers, judged = read_scores(run.scores("answer_scores")), read_scores(run.scores("judge_scores"))
    exact, f1 = _column(answers, "exact_match"), _column(answers, "f1")
    correct, maybe = _column(judged, "judged_correct"), _column(judged, "judged_correct_upper")
    found: dict[str, bool | None] = {}
    for row, query_id in enumerate(answers.query_ids):
        if exact[row] == 1 or correct[row] == 1:
            found[query_id] = True
        elif exact[row] is not None:
            # Without a verdict, words in common leave it open.
            found[query_id] = None if (f1[row] if maybe[row] is None else maybe[row]) else False
    return found


def _column(table: ScoreTable, measure: str) -> list[float | None]:
    values, has = table.values(measure)
    given = iter(values.tolist())
    return [next(given) if one else None for one in has.tolist()]


def _answers(run: Evaluation, wanted: Collection[str]) -> dict[str, RagAnswer]:
    return {one.query_id: one for one in iter_responses(run.responses) if one.query_id in wanted and one.status == "ok"}


# --- Questions that nobody answers right


def _contradictions(
    paths: BenchmarkPaths, queries: Iterable[EvaluationQuery], systems: Sequence[_System], suspect: _MakeSuspect
) -> Iterator[AuditFinding]:
    """Yield the questions on which all agree on another answer, and the other ones that are never answered right."""
    asked: dict[str, bool] = {}  # question -> whether it is impossible
    missed: dict[str, EvaluationQuery] = {}
    for query in queries:
        scored = [system.scored(query.query_id) for system in systems]
        if any(scored):
            asked[query.query_id] = query.is_impossible
            if _are_enough(scored) and not any(map(any, scored)):
                missed[query.query_id] = query
    # What only quotes pages always gives an answer that a page states.
    speaking = [one for one in systems if one.runs[-1].record.configuration.get("kind") != "embedded"]
    credible = {
        kind: {one.name for one in speaking if one.is_mostly_right(q for q in asked if asked[q] is kind)}
        for kind in (False, True)
    }
    voices = _voices(systems, speaking, missed)
    settings = [one.record.settings.judge.settings for system in systems for one in system.runs[-1:]]
    search = _Search(paths, next((one for one in settings if isinstance(one, LexicalSettings)), LexicalSettings()))
    agreed: list[tuple[bool, float, Suspect]] = []
    never: list[tuple[bool, Suspect]] = []
    for number, (query_id, query) in enumerate(missed.items()):
        given = {name: answers[query_id] for name, (_, answers) in voices.items() if query_id in answers}
        heard = {name: one for name, one in given.items() if voices[name][0] in credible[query.is_impossible]}
        most = search.said_by_most(query, list(heard.values())) if number < SEARCHED_MAX else None
        stated = None if most is None else search.stated(query, heard.values(), most[0])
        texts = _quoted_answers(given) or "no answer arrived"
        if most is None or stated is None:
            one = suspect(query_id, f"{_gold(query)}; {texts}")
        else:
            text, count = most
            texts = _said(list(heard), text) if count == len(heard) else texts
            also = ", and the gold answer as well" if stated.has_gold else ""
            place = f"{stated.document}, page {stated.page}, states {quoted(stated.excerpt)}{also}"
            one = suspect(query_id, f"{_gold(query)}; {texts}; {place}", (text,))
            if count == len(heard):
                agreed.append((stated.has_gold, -stated.shared, one))
                continue
        if _are_enough([system.known(query_id) for system in systems]):
            never.append((stated is None, one))
    yield _agreed_otherwise(agreed, len(asked))
    yield _never_answered(never, len(asked))


def _voices(
    systems: Sequence[_System], speaking: Sequence[_System], missed: Collection[str]
) -> dict[str, tuple[str, Mapping[str, RagAnswer]]]:
    """Return each system with its newest answers; of the only one that speaks, the last runs speak for themselves."""
    voices: dict[str, tuple[str, Mapping[str, RagAnswer]]] = {}
    for system in systems:
        is_alone = speaking == [system] and len(system.runs) >= RUNS_MIN
        for run in system.runs[-RUNS_MIN if is_alone else -1 :]:
            voices[run.record.evaluation_id if is_alone else system.name] = system.name, _answers(run, missed)
    return voices


def _agreed_otherwise(found: Sequence[tuple[bool, float, Suspect]], n_asked: int) -> AuditFinding:
    return AuditFinding(
        "agreed_otherwise",
        "doubtful" if len(found) <= FEW * n_asked else "note",
        "All systems that are mostly right give the same answer, which is not the gold answer, and a page states it.",
        "Look at the page: fix the gold answer if the page is right, keep it if the page answers another question.",
        tuple(one for *_, one in sorted(found, key=lambda one: (*one[:2], one[2].question))),
    )


def _never_answered(found: Sequence[tuple[bool, Suspect]], n_asked: int) -> AuditFinding:
    are_few = len(found) <= FEW * n_asked
    return AuditFinding(
        "never_answered",
        "doubtful" if are_few else "note",
        f"No system answered these questions right in its newest runs, at most five ({len(found)} of {n_asked}).",
        "Look whether the gold answer is right and in the corpus; drop questions that cannot be answered."
        if are_few
        else "So many are a matter of the systems: look at their retrieval first.",
        tuple(one for _, one in sorted(found, key=lambda one: (one[0], one[1].question))),
    )


def _are_enough(runs: Sequence[Sequence[bool | None]]) -> bool:
    """Return whether so many systems, or runs of the only one, answered a question that it may be at fault."""
    return sum(map(bool, runs)) >= SYSTEMS_MIN or (len(runs) == 1 and len(runs[0]) >= RUNS_MIN)


class _Search:
    """Compares answers with each other and with the pages of the corpus."""

    def __init__(self, paths: BenchmarkPaths, settings: LexicalSettings) -> None:
        self._files = CorpusFiles.read(paths)
        self._settings = settings
        self._pages: dict[str, list[PageText]] = {}

    def said_by_most(self, query: EvaluationQuery, answers: Sequence[RagAnswer]) -> tuple[str, int] | None:
        """Return the answer that most say, in its shortest form, and their number, unless it may be an accepted one."""
        texts = [text for one in answers if not one.abstained and answer_tokens(text := _text(one))]
        said = [(text, sum(self._says(query, other, text) for other in texts)) for text in texts]
        text, voices = max(said, key=lambda one: (one[1], -len(answer_tokens(one[0]))), default=("", 0))
        if voices < SYSTEMS_MIN or 2 * voices <= len(answers) or normalise_answer(text) in YES_NO:
            return None
        return None if self._may_be_right(query, text) else (text, voices)

    def stated(self, query: EvaluationQuery, answers: Iterable[RagAnswer], text: str) -> _Stated | None:
        """Return the sentence of a cited or retrieved page that states an answer and is most like the question."""
        pages: dict[PageText, None] = {}
        for answer in answers:
            for one in answer.citations:
                own = self._pages_of(one.file_name)
                touched = (p for p in own if p.start < one.end_char and one.start_char < p.start + len(p.text))
                pages |= dict.fromkeys(touched)
            for passage in sorted(answer.contexts, key=attrgetter("rank"))[:PASSAGES_SEARCHED]:
                own = self._pages_of(passage.document)
                pages |= dict.fromkeys(page for page in own if passage.page in (None, page.page))
        asked, said = set(content_words(query.query_text)), set(content_words(text))
        best: tuple[float, PageText, str] | None = None
        for place in pages:
            for _, sentence, content in sentences_of(place):
                shared = len(asked & content) / len(asked) if asked else 1.0
                if shared < SHARED_MIN or (best is not None and shared <= best[0]):
                    continue
                has_words = len(content & (said - asked)) >= SAID_MIN * len(said - asked)
                if contains(sentence, text) or (has_words and self._says(query, plain(sentence), text)):
                    best = shared, place, sentence
        if best is None:
            return None
        shared, found, sentence = best
        before = sentence.casefold().find(text.casefold()) - SHOWN_BEFORE
        excerpt = f"... {sentence[before:].partition(' ')[2]}" if before > 0 else sentence
        has_gold = any(contains(found.text, gold) for gold in query.accepted_answers)
        return _Stated(found.document, found.page, excerpt, shared, has_gold)

    def _says(self, query: EvaluationQuery, text: str, wanted: str) -> bool:
        if text == wanted:
            return True
        found = judge_correctness(text, _ANSWERED, query.query_text, [wanted], self._settings)
        return normalise_answer(wanted) in normalise_answer(text) if found is None else found.verdict == "correct"

    def _may_be_right(self, query: EvaluationQuery, text: str) -> bool:
        if query.is_impossible:
            return False
        found = judge_correctness(text, _ANSWERED, query.query_text, query.accepted_answers, self._settings)
        return score_answer(text, query.accepted_answers).f1 > 0 if found is None else found.score >= LEANS_RIGHT

    def _pages_of(self, name: str) -> Sequence[PageText]:
        if not self._pages:
            for page in self._files.pages:
                self._pages.setdefault(page.document, []).append(page)
        return self._pages.get(self._files.canonical(name), ())


# --- Questions that are now right, now wrong, and those that need no documents


def _wavering(query_ids: Iterable[str], systems: Sequence[_System], suspect: _MakeSuspect) -> AuditFinding:
    found: list[tuple[float, Suspect]] = []
    for query_id in query_ids:
        said = [(system.name, known) for system in systems if _wavers(known := system.known(query_id))]
        if said:
            texts = (f"{name}: right in {sum(known)} of {len(known)} runs" for name, known in said)
            distance = min(abs(sum(known) / len(known) - 0.5) for _, known in said)
            found.append((distance, suspect(query_id, "; ".join(texts))))
    return AuditFinding(
        "wavers",
        "note",
        "The same system answers these questions right, then wrong, then right again, over the same documents.",
        "Reword what can be read in two ways; else only the mean over several runs says something of them.",
        tuple(one for _, one in sorted(found, key=lambda one: (one[0], one[1].question))),
    )


def _wavers(known: Sequence[bool]) -> bool:
    changes = sum(one != other for one, other in zip(known, known[1:], strict=False))
    return len(known) >= WAVERING_RUNS_MIN and changes >= WAVERING_CHANGES_MIN


def _closed_book(queries: Iterable[EvaluationQuery], systems: Sequence[_System], suspect: _MakeSuspect) -> AuditFinding:
    answerable = [
        query.query_id
        for query in queries
        if query.accepted_answers and any(system.scored(query.query_id) for system in systems)
    ]
    texts: dict[str, list[str]] = {}
    for system in systems:
        known = {query_id: system.known(query_id) for query_id in answerable}
        mostly = {name for name, one in known.items() if one and 2 * sum(one) > len(one)}
        for query_id, answer in _answers(system.runs[-1], mostly).items():
            if not answer.contexts:
                right = f"right in {sum(known[query_id])} of {len(known[query_id])} runs"
                texts.setdefault(query_id, []).append(f"{_quoted_answers({system.name: answer})}, {right}")
    found = [
        suspect(query_id, f"without documents, {'; '.join(texts[query_id])}")
        for query_id in answerable
        if query_id in texts
    ]
    share = len(found) / max(1, len(answerable))
    return AuditFinding(
        "closed_book",
        "note",
        f"{len(found)} of {len(answerable)} answerable questions ({share:.0%}) are answered right without documents.",
        "They show what a model knows and not what it finds: ask for what only these documents say, or drop them.",
        tuple(found),
    )


# --- Texts


def _text(answer: RagAnswer) -> str:
    return plain(answer.answer or "", [(one.marker_start or 0, one.marker_end or 0) for one in answer.citations])


def _quoted_answers(given: Mapping[str, RagAnswer]) -> str:
    """Return who answers what: `one, two answer 'X', three refuses`."""
    names: dict[str | None, list[str]] = {}
    for name, one in given.items():
        names.setdefault(None if one.abstained else _text(one), []).append(name)
    return ", ".join(_said(who, text) for text, who in names.items())


def _said(names: Sequence[str], text: str | None) -> str:
    verb = ("refuse" if text is None else "answer") + ("s" if len(names) == 1 else "")
    return " ".join([", ".join(names), verb, *([] if text is None else [quoted(text)])])


def _gold(query: EvaluationQuery) -> str:
    if query.is_impossible:
        return "the benchmark says that no document answers it"
    return f"the gold answer is {' or '.join(map(quoted, query.accepted_answers[:3]))}"
