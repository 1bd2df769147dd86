"""Test sets of evaluation tools that state the passages an answer was made from: ragas, DeepEval, Giskard, LlamaIndex.

What a system under test retrieved or answered stands in the same files (`retrieved_contexts`, `response`,
`actual_output`, `agent_answer`) and is never taken for the truth. Columns are those of ragas 0.4.3 (and 0.1), DeepEval
4.3.1, Giskard 2.19.2 and llama-index-core 0.12.52.
"""

import re
from dataclasses import replace
from typing import Any, NamedTuple

from rag_eval_pipeline.conversion.mapping import identifier, literal
from rag_eval_pipeline.scaffold.columns import Column
from rag_eval_pipeline.scaffold.derived import Derived, draft_derived, text_column
from rag_eval_pipeline.scaffold.links import free_word
from rag_eval_pipeline.scaffold.profile import HIDDEN_COLUMNS, DataFile, FolderProfile
from rag_eval_pipeline.scaffold.roles import list_forms, normalised
from rag_eval_pipeline.scaffold.selection import splits_in_order
from rag_eval_pipeline.scaffold.source_tables import MAPS
from rag_eval_pipeline.scaffold.writer import Draft, Guess

HOP = r"^\s*<[0-9]+-hop>\s*"  # ragas numbers the passages of a multi-hop question
DOCUMENT = r"(?:^|\n\n)Document [^\s:]+: "  # Giskard's heading of a passage
FOLDERS = r"^.*[/\\]"
OUT_OF_SCOPE = "out of scope"  # Giskard's type of questions that the documents do not answer


class Tool(NamedTuple):
    """The columns of a tool's test set; a file is one if it has `question`, `answer` and all of `signs`."""

    name: str
    question: str
    answer: str
    gold: str | None  # the passages
    signs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()  # what a system under test answered or retrieved
    gold_file: str | None = None


TOOLS = (
    Tool("ragas results", "user_input", "reference", "reference_contexts", ("response", "retrieved_contexts"),
         ("response", "retrieved_contexts", "multi_responses")),
    Tool("ragas test set", "user_input", "reference", "reference_contexts", ("reference_contexts",),
         ("response", "retrieved_contexts", "multi_responses")),
    Tool("ragas 0.1 test set", "question", "ground_truth", "contexts", ("contexts", "evolution_type")),
    Tool("ragas 0.1 results", "question", "ground_truth", None, ("contexts", "answer"), ("answer", "contexts")),
    Tool("DeepEval goldens", "input", "expected_output", "context", ("context", "actual_output", "retrieval_context"),
         ("actual_output", "retrieval_context", "tools_called"), "source_file"),
    Tool("Giskard RAGET test set", "question", "reference_answer", "reference_context",
         ("reference_context", "conversation_history"), ("agent_answer", "correctness")),
    Tool("LlamaIndex LabelledRagDataset", "query", "reference_answer", "reference_contexts",
         ("reference_contexts", "query_by")),
)  # fmt: skip


def gold_contexts(profile: FolderProfile) -> Draft | None:
    """Draft the test set of a tool that states gold passages; a file without a system's answers comes first."""
    found = []
    for file in splits_in_order(profile.data):
        names = {normalised(column.name) for column in file.columns}
        fitting = (tool for tool in TOOLS if {tool.question, tool.answer, *tool.signs} <= names)
        found += [(len(names.intersection(tool.outputs)), file, tool) for tool in [*fitting][:1]]
    if not found:
        return None
    _, file, tool = min(found, key=lambda item: item[0])
    return draft_derived(profile, file, _derived(file, tool))


def keyed_by_ids(profile: FolderProfile) -> Draft | None:
    """Draft LlamaIndex's EmbeddingQAFinetuneDataset: BEIR in one file, with queries, corpus and qrels keyed by ids."""
    maps = {file.origin.root: file for file in profile.data if file.origin.root is not None}
    queries, corpus, relevant = (maps.get(f"{key}.*") for key in MAPS)
    if queries is None or corpus is None or relevant is None:
        return None
    asked, judged = queries.column("value"), relevant.column("value")
    body = next((column for column in (corpus.column("value"), corpus.column("text")) if column is not None), None)
    if asked is None or judged is None or judged.kind != "texts" or body is None:
        return None
    title = corpus.column("title")
    text = body.sql if title is None else f"concat_ws(chr(10) || chr(10), nullif({title.sql}, ''), {body.sql})"
    contexts = "list_transform(value, lambda id: {document: id})"
    return Draft(
        shape="LlamaIndex EmbeddingQAFinetuneDataset",
        source=queries.origin,
        tables={"corpus": corpus.origin, "relevant_docs": relevant.origin},
        questions=f"""\
SELECT source_key AS source_id, value AS question,
       (SELECT {contexts} FROM relevant_docs WHERE relevant_docs.source_key = source.source_key) AS contexts
FROM source
WHERE source_key IN (SELECT source_key FROM relevant_docs)""",
        documents=f"SELECT source_key AS name, {text} AS text FROM corpus",
        retrieval_only=True,
        guesses=(
            Guess("questions", "questions: those in 'relevant_docs', with the documents that it names."),
            Guess("documents", f"documents: all {corpus.rows} texts of 'corpus'."),
            Guess("retrieval_only", "retrieval_only: the file has no answers, so only retrieval is scored."),
        ),
    )


def _derived(file: DataFile, tool: Tool) -> Derived:
    columns = {normalised(column.name): column for column in reversed(file.columns)}
    guesses = []
    gold = _passages(columns.get(tool.gold or ""), free_word("part", file.columns))
    known = (tool.question, tool.answer, tool.gold, *tool.outputs)
    taken = {columns[name].name for name in known if name in columns} | {tool.gold_file}
    outputs = tuple(columns[name] for name in tool.outputs if name in columns)
    filled = [column.name for column in outputs if column.present]
    if filled:
        listed = ", ".join(map(repr, filled))
        text = f"answers and contexts of the system that was tested are not the truth and are left out: {listed}."
        guesses.append(Guess("questions", text))
    derived = [replace(columns[tool.question], name="question", path=columns[tool.question].sql)]
    derived += [replace(columns[tool.answer], name="answer", path=columns[tool.answer].sql)]
    if gold is not None and "string_split(" in gold.sql:
        guesses.append(Guess("questions", f"contexts: the passages in cells of {gold.name!r} are split at each '|'."))
    gold_file = _gold_file(file, tool.gold_file) if tool.gold_file is not None else None
    if tool.name.startswith("Giskard"):
        flag, more = _giskard(file)
        guesses += more
        if flag is not None:
            derived.append(flag)
            gold = _only_answerable(gold, flag)
    rest = [column for column in file.columns if column.name not in taken]
    nested = [column for column in file.nested if column.name.partition(".")[0] not in taken]
    return Derived(
        tool.name,
        (*derived, *rest, *nested),
        tuple(guesses),
        gold=gold,
        gold_file=gold_file,
        names=(("question", columns[tool.question].name), ("answer", columns[tool.answer].name), ("is_impossible", "")),
        unused=outputs,
    )


def _passages(column: Column | None, word: str) -> Column | None:
    """Return passages as lists of texts, without what the tool wrote before each."""
    if column is None or not column.present:
        return None
    texts = [value for value in column.present if isinstance(value, str)]
    if column.kind == "text" and any(re.match(DOCUMENT, text) for text in texts):
        values = [[part for part in re.split(DOCUMENT, value or "") if part.strip()] for value in column.values]
        split = f"regexp_split_to_array({column.sql}, {literal(DOCUMENT)})"
        sql = f"list_filter({split}, lambda {word}: trim({word}) <> '')"
        return Column(column.name, "texts", tuple(values), path=sql)
    form = next(list_forms(column, separators=()), None)
    if form is None:
        return None
    sql, cells = form.sql, list(form.values)
    if form.item is not None and any("|" in text for text in texts):  # DeepEval joins passages in cells
        sql, cells = f"string_split({column.sql}, '|')", [text.split("|") for text in texts]
    if any(re.match(HOP, text) for cell in cells for text in cell):
        sql = f"list_transform({sql}, lambda {word}: regexp_replace({word}, {literal(HOP)}, ''))"
        cells = [[re.sub(HOP, "", text) for text in cell] for cell in cells]
    found = iter(cells)
    present = [value is not None and value != [] and bool(str(value).strip()) for value in column.values]
    return Column(column.name, "texts", tuple(next(found) if has else None for has in present), path=sql)


def _gold_file(file: DataFile, name: str) -> Column | None:
    """Return the names of files without their folders, which were those of the machine that made the test set."""
    if name not in file.table.column_names:
        return None
    values = file.table.column(name).slice(0, file.sampled).to_pylist()
    if not any(isinstance(value, str) and value for value in values):
        return None
    sql = identifier(f"{name}_" if name in HIDDEN_COLUMNS else name)
    found = [None if value is None else re.sub(FOLDERS, "", value) for value in values]
    return text_column(name, found, f"regexp_replace({sql}, {literal(FOLDERS)}, '')")


def _only_answerable(gold: Column | None, flag: Column) -> Column | None:
    """Return gold texts without those of unanswerable questions, which are the passages that they were made beside."""
    if gold is None:
        return None
    values = tuple(
        [] if is_impossible else value for value, is_impossible in zip(gold.values, flag.values, strict=True)
    )
    return replace(gold, values=values, path=f"CASE WHEN {flag.sql} THEN [] ELSE {gold.sql} END")


def _giskard(file: DataFile) -> tuple[Column | None, list[Guess]]:
    """Return what marks questions outside of the documents, and what to know of questions with a history."""
    guesses: list[Guess] = []
    flag: Column | None = None
    kind = next((c for c in file.nested if c.name == "metadata.question_type" and c.kind == "text"), None)
    if kind is not None and OUT_OF_SCOPE in kind.values:
        flags = tuple(value == OUT_OF_SCOPE for value in kind.values)
        sql = f"coalesce({kind.sql} = '{OUT_OF_SCOPE}', false)"
        flag = Column("is_impossible", "boolean", flags, path=sql)
        guesses.append(Guess("questions", f"is_impossible: the {sum(flags)} questions of type {OUT_OF_SCOPE!r}."))
    history = file.column("conversation_history")
    asked = sum(_has_history(value) for value in history.values) if history is not None else 0
    if asked:
        text = f"question: {asked} questions follow on a conversation, which is not asked: see 'conversation_history'."
        guesses.append(Guess("questions", text))
    return flag, guesses


def _has_history(value: Any) -> bool:
    return bool(value) and (not isinstance(value, str) or value.strip() not in ("", "[]"))
