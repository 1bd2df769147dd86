"""Texts of documents from a file, for scores that count words: pages.parquet, JSON, JSON Lines or a dataset.

JSON is file name -> text; a line of JSON Lines is `{file_name, text}`; a `.eval.` file carries its documents inline.
"""

import json
from collections import defaultdict
from pathlib import Path
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.formats.evaluation_dataset import EvaluationDataset
from rag_eval_pipeline.formats.json_text import checked_json, read_json_text
from rag_eval_pipeline.formats.model import read_bytes

PAGE_BREAK = "\f"  # between two pages of a document's text
PAGE_COLUMNS = ("file_name", "page", "text")


def read_texts(path: Path) -> dict[str, str]:
    """File name -> text.

    Raises:
        InputError: A fault of the file, with its row and field.
    """
    if path.suffix == ".parquet":
        return _of_pages(path)
    if ".eval." in path.name:
        documents = EvaluationDataset.read(path).documents
        if documents is None:
            raise InputError("no_documents", path, "documents with their content", hint="Name pages.parquet instead.")
        return {document.document_id: document.content for document in documents}
    if path.suffix == ".jsonl":
        return _of_lines(path)
    texts = json.loads(read_json_text(path))
    if not isinstance(texts, dict):
        raise InputError("bad_row", path, "file name -> text", found=texts)
    for name, text in texts.items():
        _text(path, None, name, text)
    return texts


def _of_lines(path: Path) -> dict[str, str]:
    texts: dict[str, str] = {}
    for number, line in enumerate(read_bytes(path).split(b"\n"), 1):
        if not line.strip():
            continue
        row = json.loads(checked_json(line, f"{path}, row {number}"))
        if not isinstance(row, dict) or not isinstance(row.get("file_name"), str):
            raise InputError("bad_row", path, "file_name and text", row=number, found=row)
        if row["file_name"] in texts:
            raise InputError("duplicate_document", path, "each document once", row=number, found=row["file_name"])
        texts[row["file_name"]] = _text(path, number, "text", row.get("text"))
    return texts


def _text(path: Path, row: int | None, field: str, text: Any) -> str:
    if not isinstance(text, str):
        raise InputError("bad_row", path, "a document's text", row=row, field=field, found=text)
    return text


def _of_pages(path: Path) -> dict[str, str]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        table = pq.read_table(path, columns=list(PAGE_COLUMNS)).to_pylist()
    except FileNotFoundError:
        raise InputError("missing_file", path, "a file") from None
    except (pa.ArrowInvalid, OSError) as error:
        raise InputError("bad_parquet", path, f"pages with {', '.join(PAGE_COLUMNS)}", found=str(error)) from None
    pages: defaultdict[str, list[tuple[int, str]]] = defaultdict(list)
    for number, row in enumerate(table, 1):
        name = row.get("file_name")
        if not isinstance(name, str) or not isinstance(row.get("page"), int):
            raise InputError("bad_row", path, f"pages with {', '.join(PAGE_COLUMNS)}", row=number, found=row)
        pages[name].append((row["page"], _text(path, number, "text", row.get("text"))))
    return {name: PAGE_BREAK.join(text for _, text in sorted(own)) for name, own in pages.items()}
