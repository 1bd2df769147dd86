"""The general shape: one row a question, in whatever columns, and documents wherever they are found.

FRAMES, FeTaQA, TruthfulQA, AutoRAG, KG-RAG and chunking evaluation are all of this shape; what tells them apart is how
a question names its documents.
"""

from dataclasses import replace

from rag_eval_pipeline.proposal.bodies import body_tables, mirrors
from rag_eval_pipeline.proposal.columns import DataFile
from rag_eval_pipeline.proposal.draft import Draft, Guess, Piece
from rag_eval_pipeline.proposal.links import Link, find_link
from rag_eval_pipeline.proposal.looking import Seen
from rag_eval_pipeline.proposal.passages import find_structs, struct_link, text_link
from rag_eval_pipeline.proposal.roles import Roles, find_roles
from rag_eval_pipeline.proposal.targets import files_corpus

FILL_IN = "FILL_IN"  # stands where only a person can say which column it is; no file has a column of that name


def question_file(seen: Seen) -> DataFile | None:
    """The relation whose rows are questions; of several that look alike, the first by name."""
    ranked = [(-_likeness(file), place) for place, file in enumerate(seen.data)]
    if not ranked:
        return None
    score, place = min(ranked)
    return seen.data[place] if score < 0 else None


def flat(seen: Seen) -> Draft | None:
    """Questions by their columns' names, documents by where their cells lead; None when no column is a question."""
    file = question_file(seen)
    if file is None:
        return None
    structs = find_structs(file)
    # A link is looked for among the columns that are neither question nor answer: an answer may be a file's name.
    spoken = {column for column in _core(file)}
    link = find_link(seen, file, spoken | ({structs.column.name} if structs is not None else set()))
    if structs is not None:
        link = struct_link(seen, file, structs, link)
    else:
        link = text_link(file, spoken | (link.used if link is not None else set()), link) or link
    return assemble(seen, file, link)


def assemble(seen: Seen, file: DataFile, link: Link | None) -> Draft:
    """The draft of a file's questions, given how they name documents."""
    roles = find_roles(file, tuple(link.used) if link is not None else ())
    link = link or _no_link(seen)
    pieces = {**roles.pieces, **link.pieces}
    draft = Draft(
        shape=_shape(link, file),
        source=file.origin,
        questions=pieces,
        metadata=roles.metadata,
        tables=dict(link.corpus.tables),
        documents=link.corpus.documents,
        on_missing_document=link.corpus.on_missing_document,
        guesses=(*_other_files(seen, file), *roles.guesses, *link.guesses, *link.corpus.guesses),
        unused=_unused(file, roles, link),
    )
    return _with_gaps(draft, roles)


def _with_gaps(draft: Draft, roles: Roles) -> Draft:
    """The draft with what it lacks stated: a question without answer measures retrieval, one without both nothing."""
    assert isinstance(draft.questions, dict)
    if roles.question is None:
        return draft
    if not {"answer", "answers"} & set(draft.questions):
        if {"urls", "contexts"} & set(draft.questions):
            text = (
                "retrieval_only: no column with answers was recognised, so only retrieval can be measured. If there is "
                "one, add it to `questions` as `answer` and remove this key."
            )
            return replace(draft, retrieval_only=True, guesses=(*draft.guesses, Guess("retrieval_only", text)))
        order = {"source_id": None, "question": None, "answer": Piece(FILL_IN, FILL_IN)}
        filled = {ours: draft.questions.get(ours) or piece for ours, piece in order.items()}
        pieces = {ours: piece for ours, piece in {**filled, **draft.questions}.items() if piece is not None}
        missing = "answer: name the column of the answers in place of FILL_IN."
        return replace(draft, questions=pieces, missing=(*draft.missing, missing))
    return draft


def skeleton(seen: Seen, file: DataFile) -> Draft:
    """A draft in which a person names the columns; it does not convert before."""
    roles = find_roles(file)
    pieces = {"question": Piece(FILL_IN, FILL_IN), "answer": roles.pieces.get("answer") or Piece(FILL_IN, FILL_IN)}
    if pieces["answer"].column is None:
        pieces["answer"] = Piece(FILL_IN, FILL_IN)
    missing = ["question: name the column of the questions in place of FILL_IN."]
    if pieces["answer"].column == FILL_IN:
        missing.append("answer: name the column of the answers in place of FILL_IN.")
    return Draft(
        shape="rows of unknown columns",
        source=file.origin,
        questions=pieces,
        guesses=tuple(_other_files(seen, file)),
        missing=tuple(missing),
        unused=tuple(column.described for column in file.columns),
        choices=(
            "urls: FILL_IN       # a column of URLs",
            "contexts: FILL_IN   # a column of gold texts",
            "source_id: FILL_IN  # the source's own id",
        ),
    )


def _core(file: DataFile) -> set[str]:
    """Columns of question and answers."""
    pieces = find_roles(file).pieces
    return {piece.column for ours, piece in pieces.items() if piece.column and ours in {"question", "answer"}}


def _likeness(file: DataFile) -> int:
    """How much a relation looks like questions; 0 when it has none."""
    pieces = find_roles(file).pieces
    if "question" not in pieces:
        return 0
    return 2 + 2 * bool({"answer", "answers"} & set(pieces)) + bool("is_impossible" in pieces)


def _no_link(seen: Seen) -> Link:
    """Documents that no question names: the folder's files, or nothing at all."""
    corpus = files_corpus(seen)
    if corpus.documents is None:
        text = "documents: none were found, so the corpus is empty. State `tables` and `documents`, or `urls`."
        return Link(guesses=(Guess("documents", text),))
    text = "contexts: no column that names a document was found, so retrieval cannot be measured."
    return Link(corpus=corpus, guesses=(Guess("questions", text),))


def _other_files(seen: Seen, file: DataFile) -> list[Guess]:
    others = [other.origin.shown for other in seen.data if other is not file]
    tables = {table.file.origin.shown for table in [*body_tables(seen, file), *mirrors(seen, file)]}
    unread = [name for name in others if name not in tables]
    if not unread:
        return []
    return [
        Guess("source", f"source: {file.origin.shown}. These hold rows too and were left out: {', '.join(unread)}.")
    ]


def _shape(link: Link, file: DataFile) -> str:
    if "urls" in link.pieces:
        return "questions with URLs"
    if link.corpus.documents is not None and "contexts" in link.pieces:
        return "questions that name their documents"
    return "questions with gold texts" if "contexts" in link.pieces else "questions and answers"


def _unused(file: DataFile, roles: Roles, link: Link) -> tuple[str, ...]:
    used = {*roles.used, *roles.metadata, *link.used}
    return tuple(column.described for column in file.columns if column.name not in used)
