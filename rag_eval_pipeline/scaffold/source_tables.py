"""Which relations a folder's files hold: files alone, the shards of a split, saved datasets, and lists inside files."""

import json
import re
import zipfile
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path, PurePosixPath
from typing import Any

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.scaffold.headers import QUESTION_MARKS
from rag_eval_pipeline.sources.archive import list_zip
from rag_eval_pipeline.sources.format_detection import SAMPLE_BYTES, is_zip
from rag_eval_pipeline.sources.relations import read_relation
from rag_eval_pipeline.sources.source_files import shard_glob
from rag_eval_pipeline.sources.source_spec import SourceSpec
from rag_eval_pipeline.sources.xlsx import sheet_names
from rag_eval_pipeline.storage.json_files import read_bytes
from rag_eval_pipeline.storage.yaml_files import DATA, YAML, parse_yaml
from rag_eval_pipeline.workspace import BenchmarkPaths

MAX_PARSED_BYTES = 200_000_000  # of a JSON file that is parsed to find the lists in it
SAVED_DATASET = "state.json"  # beside the .arrow files of `Dataset.save_to_disk`
SAVED_SPLITS = "dataset_dict.json"  # beside the folders of `DatasetDict.save_to_disk`
WORKBOOKS = frozenset({".xlsx", ".xlsm"})
MEMBERS = frozenset({".csv", ".tsv", ".json", ".jsonl", ".parquet"})  # of an archive, that are tried one by one
MAX_SHEETS = 20  # the first ones of a workbook are read
MAPS = ("queries", "corpus", "relevant_docs")  # of LlamaIndex's EmbeddingQAFinetuneDataset, each keyed by ids
QUESTIONS = ("question", "query", "user_input", "prompt", "input")
SPLITS = ("test", "dev", "validation", "valid", "val", "train")  # the first one present is used
WHOLE_FILE = {"root": "$"}  # one row per file
EACH_MEMBER = {"root": "*"}  # one row per member of an object
XML = ".xml"
XML_DOCUMENTS = 5  # so many files of one element are documents, whatever they are called; fewer may be splits
_TAG = re.compile(rb"<([^\s<>/?!]+)")
INSPECT_LOG = ".eval"
INSPECT_SAMPLES = {"member": "samples/*_epoch_1.json", "format": "jsonl"}  # one line each; summaries.json cuts texts


def sources(folder: Path, files: Sequence[str]) -> list[str]:
    """Return the paths to try as `source`: files, folders of saved datasets, globs of shards and of XML documents."""
    saved = {str(PurePosixPath(name).parent) for name in files if PurePosixPath(name).name == SAVED_DATASET}
    saved &= {str(PurePosixPath(name).parent) for name in files if name.endswith(".arrow")}
    globs: dict[str, list[str]] = {}
    documents = _xml_documents(folder, [name for name in files if name.endswith(XML)])
    for name in files:
        path = PurePosixPath(name)
        if documents and name.endswith(XML):
            globs.setdefault(documents, []).append(name)
        elif str(path.parent) in saved:
            globs.setdefault(str(path.parent), []).append(name)
        elif path.name != SAVED_SPLITS:
            shards = shard_glob(path.name)
            globs.setdefault(str(path.parent / shards) if shards else name, []).append(name)
    return [pattern if len(names) > 1 else names[0] for pattern, names in globs.items()]


def _xml_documents(folder: Path, files: Sequence[str]) -> str | None:
    """Return the glob of XML files in a folder, or in folders of it, if all have one element; None otherwise."""
    depths = {name.count("/") for name in files}
    are_splits = any({*re.split(r"[\W_]+", name.lower())} & {*SPLITS} for name in files)
    if len(files) < (XML_DOCUMENTS if are_splits else 2) or len(depths) > 1:
        return None
    tags: set[bytes] = set()
    for name in files:
        with (folder / name).open("rb") as handle:
            found = _TAG.search(handle.read(SAMPLE_BYTES))
        tags.update(found.groups() if found else ())
    return "*/" * depths.pop() + f"*{XML}" if len(tags) == 1 else None


def sheets(path: Path) -> list[dict[str, str]]:
    """Return what to state of a workbook to read each of its sheets; nothing of one sheet and of other files."""
    is_workbook = path.suffix.lower() in WORKBOOKS and is_zip(path)  # else reading it says what it is
    names = sheet_names(path) if is_workbook else []
    return [{"sheet": name} for name in names[:MAX_SHEETS]] if len(names) > 1 else []


def inner_lists(path: Path, error: InputError) -> list[dict[str, str]]:
    """Return what to state of a file that cannot be read without: the lists of objects in it, outermost first."""
    if error.code == "archive_member" and path.suffix == INSPECT_LOG:
        return [INSPECT_SAMPLES]
    if error.code == "archive_member" and zipfile.is_zipfile(path):
        members = sorted(list_zip(path, error.file)[0])
        return [{"member": name} for name in members if PurePosixPath(name).suffix.lower() in MEMBERS][:MAX_SHEETS]
    if error.code != "missing_root" or path.stat().st_size > MAX_PARSED_BYTES:
        return []
    value = _parsed(path)
    if not isinstance(value, dict):
        return []
    tests = value.get("tests")
    if "prompts" in value and isinstance(tests, str | list) and not _is_objects(tests):
        hint = "Run `init` on the file with the tests, or on the folder of both."
        raise InputError("missing_root", error.file, "a promptfoo configuration with its tests", found=tests, hint=hint)
    if all(isinstance(value.get(key), dict) for key in MAPS):
        return [{"root": f"{key}.*"} for key in MAPS]
    if any(isinstance(value.get(key), str) for key in QUESTIONS):  # the file is one question
        return [WHOLE_FILE]
    if _are_sentences(value) or _are_sentences(value.values()):  # answers by question, or texts by id
        return [EACH_MEMBER]
    parts = {key: item for key, item in value.items() if key and "." not in key}
    nested = [(key, item) for key, item in parts.items() if isinstance(item, dict)]
    roots = [key for key, item in parts.items() if _is_objects(item)] or [
        f"{key}.{k}" for key, item in nested for k in item if k and "." not in k and _is_objects(item[k])
    ]
    roots = roots or [key for key, item in nested if _are_columns(item)]
    return [{"root": root} for root in roots]


def _are_columns(value: dict[str, Any]) -> bool:
    """Return whether an object is a table by its columns: lists of one length without objects."""
    lists = [item for item in value.values() if isinstance(item, list)]
    return (
        len(lists) == len(value)
        and len({len(item) for item in lists}) == 1
        and not any(isinstance(cell, dict) for item in lists for cell in item[:1])
    )


def missing_samples(paths: BenchmarkPaths, name: str, keys: Mapping[str, str], rows: int) -> list[str]:
    """Return a sentence on the samples that an Inspect log does not have, such as those of a run that broke off."""
    if keys == INSPECT_SAMPLES:
        header = SourceSpec.model_validate({"path": name, "member": "header.json", "format": "json", "root": "$"})
        try:
            [log] = read_relation(paths, header).table.to_pylist()
        except InputError:
            return [f"{name} has no header: its run broke off, and samples may be missing."]
    else:
        log = _parsed(paths.source / name) if keys == {"root": "samples"} else None
    status, about = (log.get("status"), log.get("eval")) if isinstance(log, dict) else (None, None)
    about = json.loads(about) if isinstance(about, str) else about
    if status is None or not isinstance(about, dict):
        return []
    dataset = about.get("dataset")
    number = dataset.get("samples") if isinstance(dataset, dict) else None
    is_more = isinstance(number, int) and number > rows
    if status == "success" and not is_more:
        return []
    total = f"{rows} of {number}" if is_more else str(rows)
    return [f"{name} has {total} samples of its dataset; the status of its run is {status}."]


def are_judgements(path: Path) -> bool:
    """Return whether a JSON file is `{query: {document: grade}}` with whole numbers as grades."""
    value = _parsed(path) if path.stat().st_size <= MAX_PARSED_BYTES else None
    return isinstance(value, dict) and all(
        isinstance(judged, dict) and all(type(grade) is int for grade in judged.values()) for judged in value.values()
    )


def _parsed(path: Path) -> Any:
    content = read_bytes(path)
    try:
        if path.suffix.lower() in YAML:
            return parse_yaml(content, path.name, DATA).value
        return json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError, InputError):
        return None


def _are_sentences(texts: Iterable[Any]) -> bool:
    """Return whether there are several values, all are texts, and most of them have four words, or ask."""
    given = list(texts)
    found = [text for text in given if isinstance(text, str)]
    said = sum(len(text.split()) > 3 or text.rstrip().endswith(QUESTION_MARKS) for text in found)
    return 1 < len(given) == len(found) < 2 * said


def _is_objects(value: Any) -> bool:
    return isinstance(value, list) and bool(value) and isinstance(value[0], dict)
