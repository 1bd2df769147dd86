"""Guess where a server's JSON has the answer and the retrieved passages, from one reply.

Names of keys decide first, then the shape of the values, and which strings name documents of the corpus. Each guess
states its evidence; where nothing fits, nothing is guessed.
"""

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

import jmespath

from rag_eval_pipeline.systems.foreign_values import describe, identifier, joined_text, whole_number
from rag_eval_pipeline.systems.reply import COMPLETION_TOKENS, FINISH_REASONS, MODELS, PROMPT_TOKENS
from rag_eval_pipeline.systems.user_streams import join_pieces

ANSWERS = """answer final_answer answer_text response output output_text generated_text generation completion reply
    result parts text content message token delta chunk summary""".split()
LISTS = """contexts context retrieved_contexts sources source_documents source_nodes documents docs passages chunks
    retrieved retrieved_documents retrieval references evidence hits matches results nodes citations""".split()
TEXTS = """text page_content content chunk passage snippet body excerpt chunk_text document_text quote""".split()
DOCUMENTS = """file_name filename document_name document file source_name source file_path path doc_name doc url uri
    document_id doc_id source_id title name id""".split()
PAGES = """page page_number page_no page_num pg page_label page_index page_idx start_page page_start pages""".split()
PAGES_FROM_ZERO = ("page_index", "page_idx")
PASSAGE_PARTS = ("document", "page", "text", "score")
SCORES = """score relevance_score rerank_score similarity similarity_score relevance certainty""".split()
NOT_ANSWERS = """question query input prompt q user_input id model object role status type created session_id
    conversation_id request_id trace_id finish_reason""".split()
# In the key of a text that is no answer.
OTHER_WORDS = set("error warning status question questions query suggestions".split())
OUTER_WORDS = set("error thinking thought thoughts reasoning".split())  # in any key on the way to a text
TURNS = ("messages", "history", "conversation", "turns")  # lists with the newest item at the end
ALTERNATIVES = ("answers", "choices", "generations", "candidates", "replies", "outputs")  # lists of several answers
PARTS = ("content", "parts")  # lists of a message's parts, which are one text
CITED = ("citations", "annotations", "references", "sources", "documents", "passages", "chunks", "contexts",
         "grounding_supports")  # fmt: skip
NOT_PASSAGES = (*TURNS, "answers", "choices", "generations", "candidates")
# Facts about the generation, by the setting that has their path.
FACTS = {
    "prompt_tokens": PROMPT_TOKENS, "completion_tokens": COMPLETION_TOKENS, "model": MODELS,
    "finish_reason": FINISH_REASONS,
}  # fmt: skip
QUESTION_KEYS = "question query q text input prompt message user_input user_query messages".split()

# In the type of an event whose text is no answer.
NOT_SPOKEN = OUTER_WORDS | set("status progress step info log tool source citation".split())

_FILE = re.compile(r"[^\n]{1,300}\.(pdf|html?|md|markdown|txt|docx?|pptx?|xlsx?|csv|json|png|jpe?g)([#?][^\n]*)?", re.I)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEPTH = 8  # of JSON; deeper values are not searched
_SHOWN = 60  # characters of a value


class Guess(NamedTuple):
    """A part of a reply: its path, None if nothing fits, and the values found there."""

    path: str | None
    evidence: str


@dataclass(slots=True)
class Guesses:
    """The parts of a reply by name: answer, contexts, and document, page, text, score below a passage."""

    parts: dict[str, Guess] = field(default_factory=dict)
    page_base: Literal[0] | None = None
    """0 where the server counts pages from 0; None if nothing shows it."""

    def path(self, name: str) -> str | None:
        """Return the path of a part; None if nothing was found."""
        return self.parts[name].path if name in self.parts else None

    def sentences(self) -> list[str]:
        """Return one line per part, with its path and the values found, or that nothing was."""
        return [
            f"{name}: nothing found. {guess.evidence}".rstrip(". ") if guess.path is None else
            f"{name} = {guess.path}: {guess.evidence}"
            for name, guess in self.parts.items()
        ]  # fmt: skip


MESSAGES = "[?type=='message']"


class _Step(NamedTuple):
    """A place in JSON: keys, indexes, `[]` for each item of a list, `MESSAGES` for some, `join` for texts as one."""

    parts: tuple[str | int, ...] = ()

    def key(self, name: str) -> "_Step":
        return _Step((*self.parts, f".{name}"))

    def at(self, number: int) -> "_Step":
        return _Step((*self.parts, number))

    def joined(self) -> "_Step":
        return _Step((*self.parts, "join"))

    def items(self) -> "_Step":
        return _Step((*self.parts, "[]"))

    def messages(self) -> "_Step":
        return _Step((*self.parts, MESSAGES, ".content", "[]"))

    @property
    def keys(self) -> list[str]:
        """The keys from the outermost to the innermost, in lower case with underscores."""
        named = [part[1:] for part in self.parts if isinstance(part, str) and part.startswith(".")]
        return [re.sub(r"(?<=[a-z0-9])(?=[A-Z])|-", "_", name).lower().strip("_") for name in named]

    @property
    def last_key(self) -> str:
        """The innermost key."""
        return next(reversed(self.keys), "")

    @property
    def is_in_citation(self) -> bool:
        """Whether it is in a citation or a passage, which may quote the answer."""
        return any(key in CITED for key in self.keys[:-1])

    @property
    def jmespath(self) -> str:
        """The path as an expression; `@` for the value itself."""
        text = ""
        for part in self.parts:
            if part == "join":
                text = f"join(' ', {text or '@'})"
            elif isinstance(part, int) or not part.startswith("."):
                text += f"[{part}]" if isinstance(part, int) else part
            else:
                name = part[1:] if _NAME.fullmatch(part[1:]) else json.dumps(part[1:], ensure_ascii=False)
                text += f".{name}" if text else name
        return text or "@"


def guess_paths(values: Sequence[Any], question: str, is_document: Callable[[str], bool]) -> Guesses:
    """Guess the parts of a reply.

    Args:
        values: The JSON of the reply; of a stream, that of each event.
        question: What was asked: an echo of it is no answer.
        is_document: Whether a string names a document of the corpus.
    """
    guesses = Guesses()
    best = max(
        (found for value in values for found in _lists(value, is_document)), key=lambda found: found.rank, default=None
    )
    guesses.parts["answer"] = _answer(values, question, best)
    guesses.parts |= _facts(values, best)
    if best is None:
        guesses.parts["contexts"] = Guess(None, "No list looks like passages.")
        return guesses
    guesses.parts["contexts"] = Guess(best.path, f"a list of {len(best.items)}")
    if all(isinstance(item, str) for item in best.items):
        return guesses
    guesses.parts |= best.parts
    page = best.parts["page"]
    if page.path is not None:
        is_index = _Step((f".{page.path.split('.')[-1]}",)).last_key in PAGES_FROM_ZERO
        guesses.page_base = 0 if is_index or 0 in best.pages else None
    return guesses


# --- The answer


def _answer(values: Sequence[Any], question: str, contexts: "_List | None") -> Guess:
    found: dict[str, list[tuple[_Step, Any]]] = {}
    for value in values:
        for step, leaf in _leaves(value, _Step()):
            if _could_answer(step, leaf, question) and not (contexts is not None and contexts.holds(step)):
                found.setdefault(step.jmespath, []).append((step, leaf))
    named = {path: leaves for path, leaves in found.items() if _rank(leaves[0][0], ANSWERS) is not None}
    if named:
        # In a stream, the piece that most events carry; else the best name, the later of two.
        path = min(
            reversed(named),
            key=lambda path: (
                named[path][0][0].is_in_citation,
                -len(named[path]),
                _rank(named[path][0][0], ANSWERS) or 0,
                len(named[path][0][0].parts),
            ),
        )
    else:
        texts = {path: leaves for path, leaves in found.items() if isinstance(leaves[0][1], str)}
        long = [path for path, leaves in texts.items() if " " in leaves[0][1].strip()]
        if not long and len(texts) != 1:
            return Guess(None, "No text looks like an answer.")
        path = max(long or texts, key=lambda path: len(texts[path][0][1]))
    leaves = found[path]
    if spoken := _typed_pieces(values, path):
        path, leaves = spoken
    pieces = f" in {len(leaves)} events" if len(leaves) > 1 else ""
    return Guess(path, f"{_shown(join_pieces([str(leaf) for _, leaf in leaves]))}{pieces}")


def _typed_pieces(values: Sequence[Any], path: str) -> tuple[str, list[tuple[_Step, Any]]] | None:
    """Return the path and the pieces of the one type of event that has the answer; None if no type tells it apart.

    Other types have the same key for thoughts and the progress of the work.
    """
    pieces: dict[Any, list[tuple[_Step, Any]]] = {}
    for value in values:
        if isinstance(value, dict) and isinstance(leaf := jmespath.search(path, value), str) and leaf:
            pieces.setdefault(value.get("type"), []).append((_Step(), leaf))
    spoken = [kind for kind in pieces if isinstance(kind, str) and NOT_SPOKEN.isdisjoint(re.split(r"[._\W]", kind))]
    if len(pieces) == len(spoken) or len(spoken) != 1 or "'" in spoken[0]:
        return None
    return f"[@][?type=='{spoken[0]}'] | [0].{path}", pieces[spoken[0]]


def _could_answer(step: _Step, leaf: Any, question: str) -> bool:
    key = step.last_key
    if isinstance(leaf, str):
        is_echo = leaf.strip().casefold() == question.strip().casefold()
        is_other = key in NOT_ANSWERS or bool(OTHER_WORDS & set(key.split("_")))
        is_other |= any(OUTER_WORDS & set(key.split("_")) for key in step.keys)
        return bool(leaf.strip()) and not is_echo and not is_other and not _FILE.fullmatch(leaf.strip())
    return isinstance(leaf, int | float) and key in ("answer", "final_answer")


def _rank(step: _Step, names: Sequence[str]) -> int | None:
    """Return the place of a key among names, after them that of its last word; None if it is none of them."""
    key = step.last_key
    last_word = key.rpartition("_")[2]
    if key in names:
        return names.index(key)
    return len(names) + names.index(last_word) if last_word in names else None


def _leaves(value: Any, step: _Step) -> Iterator[tuple[_Step, Any]]:
    """Yield strings and numbers with their places; sentences and a message's parts as one text.

    Of other lists only the first item: of a conversation the last one is the answer, and of the steps of a response
    its messages are.
    """
    if len(step.parts) > _DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _leaves(inner, step.key(str(key)))
    elif isinstance(value, list):
        is_text = len(value) > 1 and all(isinstance(item, str) for item in value)
        is_prose = is_text and 2 * sum(" " in item.strip() for item in value) > len(value)
        if is_prose and step.last_key not in (*TURNS, *ALTERNATIVES):
            yield step.joined(), joined_text(value)
        elif text := _text_of_parts(step, value):
            yield step, text
        elif text := _text_of_parts(step.messages(), _contents(value)):
            yield step.messages(), text
        elif value:
            yield from _leaves(value[-1 if step.last_key in TURNS else 0], step.at(-1 if step.last_key in TURNS else 0))
    elif value is not None:
        yield step, value


def _text_of_parts(step: _Step, value: Sequence[Any]) -> str | None:
    is_message = step.last_key in PARTS and all(isinstance(item, dict) for item in value)
    return joined_text(value) if is_message else None


def _contents(steps: Sequence[Any]) -> list[Any]:
    """Return the parts of the messages among other steps, such as searches and thoughts."""
    messages = [item for item in steps if isinstance(item, dict) and item.get("type") == "message"]
    contents = [message.get("content") for message in messages] if len(messages) < len(steps) else []
    return [part for parts in contents if isinstance(parts, list) for part in parts]


def _facts(values: Sequence[Any], contexts: "_List | None") -> dict[str, Guess]:
    """Return the places of usage, model and end of generation, those that there are."""
    leaves = {
        step.jmespath: (step, leaf)
        for value in values
        for step, leaf in _leaves(value, _Step())
        if contexts is None or not contexts.holds(step)
    }
    found = {}
    for setting, names in FACTS.items():
        is_count = setting.endswith("_tokens")
        fitting = [
            (names.index(step.last_key), len(step.parts), path, leaf)
            for path, (step, leaf) in leaves.items()
            if step.last_key in names and leaf != "" and isinstance(leaf, int if is_count else str)
        ]
        if fitting:
            *_, path, leaf = min(fitting, key=lambda one: one[:3])
            found[setting] = Guess(path, _shown(leaf))
    return found


# --- Passages


class _List(NamedTuple):
    """A list that may hold the passages, and how much speaks for it."""

    step: _Step
    items: list[Any]
    parts: dict[str, Guess]
    pages: list[int]
    rank: tuple[float, int]

    @property
    def path(self) -> str:
        """Where the list is: flattened where it is nested, but not its own items, which may be lists."""
        parts = self.step.parts
        is_nested = "[]" in parts[:-1] and parts[-2:] != ("[]", "[]")
        return _Step(parts if is_nested else parts[:-1]).jmespath

    def holds(self, step: _Step) -> bool:
        """Return whether a place is inside the list."""
        own = self.step.parts
        if step.parts == own[:-1]:
            return True
        same = zip(own, step.parts, strict=False)
        return len(step.parts) >= len(own) and all(
            a == b or (a == "[]" and (isinstance(b, int) or b == "join")) for a, b in same
        )


def _lists(value: Any, is_document: Callable[[str], bool]) -> Iterator[_List]:
    for step, items in _groups([value], _Step()):
        if step.last_key in NOT_PASSAGES:
            continue
        texts = [item for item in items if isinstance(item, str)]
        order = _rank(step, LISTS)
        named = 3.0 if order is not None else 0.0
        parts: dict[str, Guess] = {}
        pages: list[int] = []
        if texts:
            known = sum(map(is_document, texts)) / len(items)
            points = named + 2 * known if named or known > 0.5 else 0.0
            points = points if len(texts) == len(items) else 0.0
        else:
            parts, pages = _inner(items, is_document)
            has = {name for name, guess in parts.items() if guess.path is not None}
            is_passage = bool(has & {"text", "document"}) and bool(named or "document" in has or "score" in has)
            points = named + 2 * len(has & {"text", "document"}) + len(has & {"page", "score"}) if is_passage else 0.0
        if points:
            yield _List(step, items, parts, pages, (points, -(2 * len(LISTS) if order is None else order)))


def _groups(values: list[Any], step: _Step) -> Iterator[tuple[_Step, list[Any]]]:
    """Yield each list of a JSON value with its items; lists in the items of a list are one."""
    if len(step.parts) > _DEPTH:
        return
    items = [item for value in values if isinstance(value, list) for item in value]
    if items:
        yield step.items(), items
        if not _are_pairs(items):
            yield from _groups(items, step.items())
    keys = dict.fromkeys(key for value in values if isinstance(value, dict) for key in value)
    for key in keys:
        inner = [value[key] for value in values if isinstance(value, dict) and key in value]
        yield from _groups(inner, step.key(str(key)))


def _are_pairs(items: Sequence[Any]) -> bool:
    """Return whether items are passages with their scores, as LangChain returns them."""
    return all(isinstance(item, list) and len(item) == 2 and isinstance(item[1], int | float) for item in items)


def _inner(items: Sequence[Any], is_document: Callable[[str], bool]) -> tuple[dict[str, Guess], list[int]]:
    columns: dict[str, tuple[_Step, list[Any]]] = {}
    for item in items if _are_pairs(items) or all(isinstance(item, dict) for item in items) else ():
        for step, leaf in _item_leaves(item, _Step()):
            columns.setdefault(step.jmespath, (step, []))[1].append(leaf)
    document, score = _document(columns, len(items), is_document), _column(columns, SCORES, _is_score)
    rest = {path: column for path, column in columns.items() if path != document.path}
    page = _column(rest, PAGES, lambda leaf: whole_number(leaf) is not None)
    text = _column(rest, TEXTS, lambda leaf: isinstance(leaf, str) and leaf.strip() != "")
    if text.path is None:
        long = {path: leaves for path, (_, leaves) in rest.items() if all(map(_is_prose, leaves))}
        path = max(long, key=lambda path: sum(map(len, long[path])), default=None)
        text = Guess(path, _shown(long[path][0]) if path else "")
    if score.path is None and any(step.last_key == "distance" for step, _ in columns.values()):
        score = Guess(None, "A distance is smaller for better passages; the order of the list is used.")
    pages = [] if page.path is None else [whole_number(leaf) or 0 for leaf in columns[page.path][1]]
    return {"document": document, "page": page, "text": text, "score": score}, pages


def _item_leaves(value: Any, step: _Step, *, is_part: bool = False) -> Iterator[tuple[_Step, Any]]:
    """Yield the strings and numbers of a passage; of a list in it only the first item.

    A list of objects in an item may be the passages themselves, so only the page is taken from there.
    """
    if len(step.parts) > _DEPTH:
        return
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from _item_leaves(inner, step.key(str(key)), is_part=is_part)
    elif isinstance(value, list):
        if value:
            is_inner = bool(step.parts) and isinstance(value[0], dict)
            yield from _item_leaves(value[0], step.at(0), is_part=is_part or is_inner)
    elif value is not None and not (is_part and _rank(step, PAGES) is None):
        yield step, value


def _document(columns: dict[str, tuple[_Step, list[Any]]], n_items: int, is_document: Callable[[str], bool]) -> Guess:
    """Return the column that names documents of the corpus, else files, else is called so."""
    ranked = []
    for path, (step, leaves) in columns.items():
        names = [name for leaf in leaves if (name := identifier(leaf)) is not None and "\n" not in name]
        known = sum(map(is_document, names))
        files = sum(bool(_FILE.fullmatch(name)) for name in names)
        order = _rank(step, DOCUMENTS)
        if len(names) == len(leaves) and (known or files * 2 > n_items or order is not None):
            by_name = 0 if order is None else 2 * len(DOCUMENTS) - order
            ranked.append((known, files, by_name, -len(step.parts), path, names))
    if not ranked:
        return Guess(None, "")
    known, files, _, _, path, names = max(ranked)
    evidence = f"{known} of {n_items} name a document of the corpus" if known else "none is a document of the corpus"
    return Guess(path, f"{_shown(names[0])} ({evidence})")


def _column(columns: dict[str, tuple[_Step, list[Any]]], names: Sequence[str], fits: Callable[[Any], bool]) -> Guess:
    """Return the column with the best name whose values all fit; of two, the one that is less deep."""
    ranked = [
        (order, len(step.parts), path, leaves)
        for path, (step, leaves) in columns.items()
        if (order := _rank(step, names)) is not None and all(map(fits, leaves))
    ]
    if not ranked:
        return Guess(None, "")
    _, _, path, leaves = min(ranked, key=lambda one: one[:3])
    return Guess(
        path, ", ".join(_shown(leaf) for leaf in leaves[:3]) if len(str(leaves[0])) < 20 else _shown(leaves[0])
    )


def _is_score(leaf: Any) -> bool:
    return isinstance(leaf, int | float) and not isinstance(leaf, bool)


def _is_prose(leaf: Any) -> bool:
    return isinstance(leaf, str) and len(leaf.split()) >= 5


def _shown(value: Any) -> str:
    if not isinstance(value, str):
        return f"{value:.4g}" if isinstance(value, float) else describe(value) if value is None else json.dumps(value)
    line = "".join(c if c.isprintable() else " " for c in " ".join(value.split()))
    return f'"{line}"' if len(line) <= _SHOWN else f'"{line[:_SHOWN]}…"'


# --- The question


def missing_fields(error: Any) -> list[tuple[str, ...]]:
    """Return the fields of the body that an error reply calls missing: FastAPI's `detail`, or a text that names one."""
    details = error.get("detail") if isinstance(error, dict) else None
    if isinstance(details, list):
        places = [one.get("loc") for one in details if isinstance(one, dict) and _says_missing(one)]
        bodies = [place[1:] for place in places if isinstance(place, list) and place[:1] == ["body"]]
        return [tuple(map(str, place)) for place in bodies if place]
    text = json.dumps(error).lower()
    if not re.search(r"missing|required|must|expected|need", text):
        return []
    quoted = re.findall(r"""['"`\\]+(\w+)['"`\\]+""", text)
    found = [key for key in quoted if key in QUESTION_KEYS]
    found = found or [key for key in QUESTION_KEYS if re.search(rf"\b{key}\b", text)]
    return [(key,) for key in found[:1]]


def _says_missing(detail: dict[str, Any]) -> bool:
    """Return whether an item of FastAPI's `detail` calls its field missing: by its type, else by its message."""
    return re.search(r"missing|required", str(detail.get("type", detail.get("msg", "missing"))).lower()) is not None


def body_with(fields: Sequence[tuple[str, ...]]) -> Any:
    """Return the body with the question in the field that is missing; None unless exactly one is."""
    if len(fields) != 1:
        return None
    *outer, key = fields[0]
    body: Any = {key: [{"role": "user", "content": "{question}"}] if key == "messages" else "{question}"}
    for name in reversed(outer):
        body = {name: body}
    return body
