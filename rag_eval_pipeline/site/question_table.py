"""The table of a run's questions with what it can be filtered by, its spreadsheet, and means of parts of it."""

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, NamedTuple

from rag_eval_pipeline.errors import counted
from rag_eval_pipeline.formats.dataset import OWN_METADATA, EvaluationQuery
from rag_eval_pipeline.site.baseline_runs import Earlier
from rag_eval_pipeline.site.display_text import Cell, replace_control_chars, shortened, without_places
from rag_eval_pipeline.site.metric_labels import PAGE, metric_view
from rag_eval_pipeline.site.outcomes import GOOD, MEANING, OUTCOMES, Outcome
from rag_eval_pipeline.site.question_nights import MEASURES, QuestionNight
from rag_eval_pipeline.site.run_data import AskedRow, RunSources, rank_measure

TEXT_IN_TABLE = 240  # code points; the whole text is on the question's page
GOLD_IN_TABLE = 120
PICTURED_QUESTIONS = 20  # a run: changed most, then wrong, then the first

_ABOUT = {
    "outcome": {"meaning": MEANING},
    "f1": {"meaning": "Words shared with the gold answer"},
    "rank": {"meaning": "How high the relevant documents are ranked"},
    "citation": {"meaning": "Overlap of cited and gold spans"},
}
# Scores that a table offers first, also where they are the same for all questions.
FURTHER = ("exact_match", "hit@1", "judged_correct", "faithfulness")
VITAL = "strict_vital_score"


class Facet(NamedTuple):
    """A property of questions by which they are filtered: its words, and the place of each question's word."""

    name: str
    label: str
    words: list[str]
    values: list[int | None]


FACETS_MAX = 8
WORDS_MAX = 80  # a facet with more says little


def facets(queries: Iterable[EvaluationQuery | None]) -> list[Facet]:
    """Return the properties that divide these questions into parts: type, difficulty, documents, the source's own."""
    readers: dict[str, tuple[str, Callable[[EvaluationQuery], object]]] = {
        "type": ("Type", lambda query: query.query_type),
        "difficulty": ("Difficulty", lambda query: query.difficulty),
        "answerable": ("Answerable", lambda query: "no" if query.is_impossible else "yes"),
        "document": ("Document", _document),
    }
    # Property -> word -> its number, and the number of each question's word; gone once it has too many words.
    found: dict[str, tuple[dict[str, int], list[int | None]] | None] = {name: ({}, []) for name in readers}
    for place, query in enumerate(queries):
        for key in query.metadata if query else ():
            if key not in OWN_METADATA and f"meta.{key}" not in readers:
                readers[f"meta.{key}"] = key, partial(_metadata, key)
                found[f"meta.{key}"] = {}, [None] * place
        for name, (_, read) in readers.items():
            if (own := found[name]) is not None:
                numbers, values = own
                word = _word(read(query)) if query else None
                values.append(None if word is None else numbers.setdefault(word, len(numbers)))
                if len(numbers) > WORDS_MAX:
                    found[name] = None
    shown = []
    for name, (label, _) in readers.items():
        if (own := found[name]) is not None and (facet := _facet(name, replace_control_chars(label), *own)) is not None:
            shown.append(facet)
    return shown[:FACETS_MAX]


def _metadata(key: str, query: EvaluationQuery) -> object:
    return query.metadata.get(key)


def _document(query: EvaluationQuery) -> object:
    names = query.relevant_documents
    return names[0] if len(names) == 1 else counted(len(names), "document") if names else None


def _word(value: object) -> str | None:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value) if isinstance(value, (str, int, float)) and str(value) else None


def _facet(name: str, label: str, numbers: Mapping[str, int], values: Sequence[int | None]) -> Facet | None:
    # A word for nearly every question is a text, and one word for all is no division.
    if not 2 <= len(numbers) <= min(WORDS_MAX, max(2, len(values) // 2)):
        return None
    words = sorted(numbers)
    places = {numbers[word]: place for place, word in enumerate(words)}
    shown: list[str] = []
    for word in words:
        short = shortened(word, 60)
        shown.append(f"{short} ({shown.count(short) + 1})" if short in shown else short)
    return Facet(name, label, shown, [None if value is None else places[value] for value in values])


class Slice(NamedTuple):
    """Means of the questions that share a word of a facet; a metric without scores has none."""

    word: str
    n: int
    means: list[float | None]
    change: float | None


SLICES_MAX = 12  # of a facet with more, those with the lowest means are shown


def slices(facet: Facet, changes: Sequence[float | None], scores: Sequence[Sequence[float | None]]) -> list[Slice]:
    """Return the means of each part of a facet, in the order of its words.

    Args:
        changes: Of each question.
        scores: Of each question, for each measure; the first is the main one.
    """
    members: list[list[int]] = [[] for _ in facet.words]
    for place, value in enumerate(facet.values):
        if value is not None:
            members[value].append(place)
    found = [
        Slice(word, len(own), [_mean([of[place] for place in own]) for of in scores], _mean([changes[n] for n in own]))
        for word, own in zip(facet.words, members, strict=True)
    ]
    if len(found) > SLICES_MAX:
        worst = sorted(found, key=lambda one: (one.means[0] is None, one.change or 0.0, one.means[0] or 0.0))[
            :SLICES_MAX
        ]
        found = [one for one in found if one in worst]
    return found


def _mean(scores: Sequence[float | None]) -> float | None:
    known = [score for score in scores if score is not None]
    return sum(known) / len(known) if known else None


Columns = list[tuple[str, str, str, list[Any] | None]]  # name in addresses and conditions, heading, kind, a value a row


def question_table(
    run: RunSources,
    night: QuestionNight,
    earlier: Earlier | None,
    moved: Mapping[str, float],
    parts: Sequence[Facet],
) -> dict[str, Any]:
    """Return the table of the questions that are shown, as the page of a run loads it, a list for each column."""
    rows, latencies = list[AskedRow](), list[float | None]()
    scores: dict[str, list[float | None]] = defaultdict(lambda: [None] * len(run.shown))
    known: dict[float | None, float | None] = {}  # each number once: most scores are 0 or 1
    for place, row in enumerate(run.shown):
        answer = row.error or "" if row.generated_answer is None else row.generated_answer
        rows.append(AskedRow(row.query_id, row.query_text, answer))
        latencies.append(_rounded(row.latency_ms))
        for name, value in row.individual_metrics.items():
            rounded = _rounded(value)
            scores[name][place] = known.setdefault(rounded, rounded)
    further = _further(run, latencies, scores)
    queries = [run.dataset.queries.get(row.query_id) for row in rows]
    outcomes = [night.outcome(row.query_id, query) for row, query in zip(rows, queries, strict=True)]
    ids, *texts = _asked_columns(rows, queries)
    vital = scores[VITAL]
    facts: Columns = (
        [(VITAL, metric_view(VITAL).label, "number", vital)] if any(one is not None for one in vital) else []
    )
    conversations = _conversations(run, rows)
    names: list[Any] = [""] * len(rows)
    for name, places in conversations:
        for turn, place in enumerate(places, 1):
            names[place] = f"{turn} of {name}"
    turns: Columns = [("conversation", "Turn", "id", names)] if conversations else []
    columns: Columns = [
        ids,
        *turns,
        ("outcome", "Outcome", "outcome", _outcome_places(outcomes)),
        *texts,
        ("answer", "Answer", "text", [cell_text(row.answer or "") for row in rows]),
        *facts,
        ("f1", "F1", "number", scores["f1"]),
        ("change", "Δ F1", "points", [_rounded(moved.get(row.query_id)) for row in rows]),
        ("rank", "nDCG@10", "number", scores[rank_measure(run.header.retrieval_level)]),
        ("citation", "Citations", "number", scores["citation_span_accuracy"]),
    ]
    since = earlier.label if earlier else "the night before"
    about = {
        **_ABOUT,
        "change": {"meaning": f"Change of F1 since {since}, in points"},
        "conversation": {"meaning": "Leads to all turns of the conversation", "page": "conversation.html"},
    }
    return {
        **table_value("Questions of this run", columns, parts, rows, further, about),
        **({"of": len(run.rows)} if len(run.rows) > len(rows) else {}),
        **({"conversations": conversations} if conversations else {}),
        "since": since,
        "page": "question.html",
    }


def _conversations(run: RunSources, rows: Sequence[AskedRow]) -> list[tuple[str, list[int]]]:
    """Return the name of each conversation, and the places of its turns among the questions that are shown."""
    places = {row.query_id: place for place, row in enumerate(rows)}
    found = {id(turns): turns for name in places if (turns := run.dataset.turns.get(name))}
    return [
        (shortened(turns[0].conversation or "", 60), [places[one.query_id] for one in turns if one.query_id in places])
        for turns in found.values()
    ]


def table_value(
    caption: str,
    columns: Columns,
    parts: Sequence[Facet],
    rows: Sequence[AskedRow],
    further: Columns,
    about: Mapping[str, Mapping[str, str | None]],
) -> dict[str, Any]:
    """Return what every table of questions has: columns with their values, facets, and the ids of addresses.

    Args:
        further: Scores that are columns only if the reader wants them.
        about: Name of a column -> its `meaning`; the `page` that its cells lead to; the column that is shown `below`;
            the file `src` that has its values; the `group` in which it is offered.
    """
    names = "name", "label", "kind", "values"
    found: list[dict[str, Any]] = [dict(zip(names, one, strict=True)) for one in (*columns, *further)]
    for one in found[len(columns) :]:
        one["group"] = "Scores"
    keys = [replace_control_chars(row.query_id) for row in rows]
    value: dict[str, Any] = {
        "caption": caption,
        "columns": [{**one, **about.get(one["name"], {})} for one in found],
        "facets": [facet._asdict() for facet in parts],
        "outcomes": [(word, label, word in GOOD) for word, label in OUTCOMES.items()],
    }
    return value if keys == found[0]["values"] else {**value, "keys": keys}


def _asked_columns(rows: Sequence[AskedRow], queries: Sequence[EvaluationQuery | None]) -> Columns:
    """Return id and text of the questions, and the gold answers unless the dataset is gone."""
    pairs = zip(rows, queries, strict=True)
    ids = [shortened(query.display_id if query else row.query_id, 60) for row, query in pairs]
    texts = [shortened(row.query_text, TEXT_IN_TABLE) for row in rows]
    gold: Columns = [("gold", "Gold answer", "text", [gold_text(query) for query in queries])] if any(queries) else []
    return [("id", "Id", "id", ids), ("question", "Question", "text", texts), *gold]


def cell_text(answer: str) -> str:
    """Return an answer as a table shows it."""
    return shortened(without_places(answer), TEXT_IN_TABLE)


def gold_text(query: EvaluationQuery | None) -> str:
    """Return the first accepted answer, or else the facts, as a table shows it."""
    if query is None:
        return ""
    facts = "; ".join(fact.text for fact in query.facts)
    return "(no answer)" if query.is_impossible else shortened(next(iter(query.accepted_answers), facts), GOLD_IN_TABLE)


def _outcome_places(outcomes: Sequence[Outcome | None]) -> list[int | None]:
    places = {name: place for place, name in enumerate(OUTCOMES)}
    return [places[outcome] if outcome else None for outcome in outcomes]


def _further(run: RunSources, latencies: list[float | None], columns: Mapping[str, list[float | None]]) -> Columns:
    """Return the latency, and every score that the table has no column for and that is not the same for all."""
    found: Columns = [("latency", "Latency", "ms", latencies)]
    own = {"f1", VITAL, "ndcg@10", rank_measure(run.header.retrieval_level), "citation_span_accuracy"}
    for name in dict.fromkeys([*FURTHER, *columns]):
        scores = columns[name]
        if name not in own and len({*scores} - {None}) > (name not in FURTHER):
            view = metric_view(name)
            shown = replace_control_chars(name)
            label = f"{replace_control_chars(view.label)}{' by page' if name.startswith(PAGE) else ''}"
            found.append((shown, label, "ms" if view.unit == "ms" else "number", scores))
    return found


def comparison_table(
    rows: Sequence[AskedRow],
    new: QuestionNight,
    earlier: Earlier,
    queries: Mapping[str, EvaluationQuery],
    *,
    old_label: str,
    new_label: str,
    old_page: str | None,
    is_regression: bool,
) -> dict[str, Any]:
    """Return the questions that both sides were asked, with both answers, the largest changes of F1 first.

    Args:
        is_regression: Those that got worse come first.
    """
    now = new.scores

    def is_shared(row: AskedRow) -> bool:
        sides = (now, *(old.scores for old in earlier.nights))
        texts = {found.text if (found := side.get(row.query_id)) else None for side in sides}
        return len(texts) == 1 and None not in texts

    shared = [row for row in rows if is_shared(row)]
    asked = [queries.get(row.query_id) for row in shared]
    old_answers = earlier.reference.given
    change, rank_change = earlier.changes(new), earlier.changes(new, "rank")
    outcomes = [new.outcome(row.query_id, query) for row, query in zip(shared, asked, strict=True)]

    def before(row: AskedRow) -> float | None:
        value = now[row.query_id].f1
        return None if value is None or row.query_id not in change else _rounded(value - change[row.query_id])

    def old_answer(row: AskedRow) -> str:
        given = old_answers.get(row.query_id)
        return cell_text(given.answer or "") if given else ""

    ids, *texts = _asked_columns(shared, asked)
    columns: Columns = [
        ids,
        ("outcome", "Outcome now", "outcome", _outcome_places(outcomes)),
        *texts,
        ("old", old_label, "text", [old_answer(row) for row in shared]),
        ("answer", new_label, "text", [cell_text(row.answer or "") for row in shared]),
        ("change", "Δ F1", "points", [_rounded(change.get(row.query_id)) for row in shared]),
        ("rank", "Δ nDCG", "points", [_rounded(rank_change.get(row.query_id)) for row in shared]),
    ]
    if not old_answers:
        columns = [column for column in columns if column[0] != "old"]
    further: Columns = [
        ("f1", "F1 now", "number", [_rounded(now[row.query_id].f1) for row in shared]),
        ("f1_before", "F1 before", "number", [before(row) for row in shared]),
    ]
    about = {"old": {"page": old_page}}
    return {
        **table_value("Questions of both sides", columns, facets(asked), shared, further, about),
        "since": earlier.label,
        "sort": {"column": "change", "isDown": not is_regression, "isAbsolute": not is_regression},
    }


def systems_table(
    name: str,
    rows: Sequence[AskedRow],
    nights: Mapping[str, QuestionNight],
    queries: Mapping[str, EvaluationQuery],
    full: Collection[str],
) -> dict[str, Any]:
    """Return the questions with what became of each in every system, and its first metric that varies.

    Args:
        name: Of the page; the answers are in files of their own, `NAME.SYSTEM.js`.
        rows: The questions, of any of the systems.
        nights: System -> its run on this dataset.
        full: Runs whose questions have pages.
    """
    asked = [queries.get(row.query_id) for row in rows]
    columns, further, about = _asked_columns(rows, asked), Columns(), {}
    scores = [night.scores[row.query_id] for night in nights.values() for row in rows if row.query_id in night.scores]
    varying = (one for one in MEASURES if len({getattr(of, one[0]) for of in scores} - {None}) > 1)
    measure, label = next(varying, MEASURES[0])
    for system, night in nights.items():
        known = [query_id if (query_id := row.query_id) in night.given else None for row in rows]
        outcomes = [night.outcome(one, query) if one else None for one, query in zip(known, asked, strict=True)]
        columns.append((f"{system}.outcome", system, "outcome", _outcome_places(outcomes)))
        further.append((f"{system}.answer", f"Answer of {system}", "text", None))
        values = [_rounded(getattr(night.scores[one], measure)) if one else None for one in known]
        further.append((f"{system}.{measure}", f"{label} of {system}", "number", values))
        run = night.header.evaluation_id
        about[f"{system}.outcome"] = {
            "page": f"../runs/{run}/question.html" if run in full else None,
            "below": f"{system}.{measure}",
            "meaning": f"Outcome and {label} of {system}",
        }
        about[f"{system}.answer"] = {"src": f"{name}.{system}.js", "group": "Answers"}
    return table_value("Questions of all systems", columns, facets(asked), rows, further, about)


def question_sheet(
    run: RunSources, night: QuestionNight, earlier: Earlier | None, moved: Mapping[str, float]
) -> tuple[list[str], Iterator[list[Cell]]]:
    """Return header and rows of a spreadsheet of all questions: whole texts, and a column for each metric."""
    names = list(run.metrics)
    header = ["query_id", "source_id", "type", "difficulty", "outcome", "status", "question", "gold_answer"]
    header += ["baseline_answer"] * (earlier is not None) + ["answer", "error", "latency_ms", "change_f1", *names]

    def cells() -> Iterator[list[Cell]]:
        for row in run.rows:
            query = run.dataset.query(row.query_id)
            line: list[Cell] = [row.query_id, query.display_id if query else None]
            line += [query.query_type if query else None, query.difficulty if query else None]
            line += [
                OUTCOMES[night.outcome(row.query_id, query)],
                row.status,
                row.query_text,
                " | ".join(query.accepted_answers or [fact.text for fact in query.facts]) if query else None,
            ]
            if earlier is not None:
                given = earlier.reference.given.get(row.query_id)
                line.append(given.answer if given else None)
            line += [row.generated_answer, row.error, row.latency_ms, moved.get(row.query_id)]
            yield [*line, *(row.score(name) for name in names)]

    return header, cells()


def select_for_images(
    night: QuestionNight, outcomes: Mapping[str, Outcome], earlier: Earlier | None, named: Sequence[str] = ()
) -> list[str]:
    """Return the questions whose pages are drawn: named elsewhere, changed most, then wrong, then first.

    Args:
        outcomes: Of the questions that are shown.
    """
    moved = [earlier.changes(night, measure) for measure in ("f1", "rank", "citations")] if earlier else []

    def order(query_id: str) -> tuple[float, bool]:
        return -max((abs(one.get(query_id, 0.0)) for one in moved), default=0.0), outcomes.get(query_id) in GOOD

    shown = [query_id for query_id in night.scores if query_id in outcomes]
    first = [query_id for query_id in named if query_id in outcomes]
    return list(dict.fromkeys([*first, *sorted(shown, key=order)]))[:PICTURED_QUESTIONS]


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 4)
