"""A pair is loaded if its files are as they were converted; its fingerprints decide whether it is evaluated."""

import dataclasses
import json

import pytest
import yaml

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.evaluation.asking import ask
from rag_eval_pipeline.evaluation.expected_pairs import is_evaluated, read_registry
from rag_eval_pipeline.evaluation.pair import load_pair
from rag_eval_pipeline.evaluation.pipeline import evaluate
from rag_eval_pipeline.systems.config import KINDS, parse_system
from tests.evaluation.conftest import NIGHT, OBSERVATORY, RAILWAY, change_defaults, change_yaml

NAMES = {
    "a benchmark that is not there": ("nowhere", "embedded", "no_benchmark"),
    "a system that is not there":    (RAILWAY, "nobody", "no_system"),
    "a name that is no name":        ("../etc", "embedded", "bad_name"),
}  # fmt: skip


@pytest.mark.fault(23)
@pytest.mark.parametrize(("benchmark", "system", "code"), NAMES.values(), ids=NAMES)
def test_load_pair_refuses_unknown_names(benchmark, system, code, workspace):
    with pytest.raises(InputError) as error:
        load_pair(workspace, benchmark, system)

    assert error.value.code == code


def edit(path, old, new):
    path.write_text(path.read_text().replace(old, new, 1))


def railway(workspace):
    return workspace.benchmark(RAILWAY)


EDITED = {
    #                         what is edited                                                                       code                what the message names
    "the specification":     (lambda w: edit(railway(w).spec, "version", "# edited\nversion"),                     "stale_conversion", "rag-eval convert skarn-railway"),
    "never converted":       (lambda w: railway(w).stamp.unlink(),                                                 "not_converted",    "rag-eval convert skarn-railway"),
    "the dataset":           (lambda w: edit(next(w.evaluation_datasets.glob("skarn-railway_*")), "Skarn", "Skurn"), "changed_dataset", "skarn-railway_"),
    "a table":               (lambda w: railway(w).pages.write_bytes(w.benchmark(OBSERVATORY).pages.read_bytes()), "changed_dataset",  "pages.parquet"),
    "an unknown measure":    (lambda w: change_defaults(w, measures=["foo@3"]),                                    "bad_setting",      "measures"),
    "an unknown judge":      (lambda w: change_defaults(w, judge={"kind": "oracle"}),                              "bad_setting",      "judge"),
    "a judge without server": (lambda w: change_defaults(w, judge={"kind": "openai"}),                             "bad_setting",      "judge"),
}  # fmt: skip


@pytest.mark.parametrize(("change", "code", "named"), EDITED.values(), ids=EDITED)
def test_load_pair_refuses_edited_files_and_bad_settings(change, code, named, workspace):
    change(workspace)

    with pytest.raises(InputError, match=named) as error:
        load_pair(workspace, RAILWAY, "embedded")

    assert error.value.code == code


# --- fingerprints of a system

ENDPOINT = {"base_url": "http://127.0.0.1:1/v1"}
SETTINGS = {
    "http": {"endpoint": ENDPOINT, "body": {"q": "{question}"}, "answer": "answer"},
    "openai": {"endpoint": ENDPOINT, "chat": {"model": "m"}},
    "nvidia": {"rag": ENDPOINT},
    "python": {"callable": "m:answer"},
    "replay": {"path": "answers.jsonl"},
    "embedded": {},
}
OTHER_ANSWERS = {
    ("http", "the URL"): {"endpoint": {"base_url": "http://127.0.0.1:2"}},
    ("http", "what is sent"): {"body": {"q": "{question}", "k": 5}},
    ("http", "the path of the answer"): {"answer": "text"},
    ("http", "the model it is said to be"): {"configuration": {"model": "other"}},
    ("openai", "the model"): {"chat": {"model": "other"}},
    ("openai", "the temperature"): {"chat": {"model": "m", "temperature": 1}},
    ("openai", "the prompt"): {"system_prompt": "Be brief."},
    ("openai", "the retrieval"): {"retrieval": {"k": 3}},
    ("nvidia", "the passages read"): {"extra_body": {"reranker_top_k": 3}},
    ("nvidia", "the chunks"): {"upload": {"chunk_size": 100, "chunk_overlap": 10}},
    ("python", "the arguments"): {"arguments": {"k": 3}},
    ("replay", "the file"): {"path": "others.jsonl"},
    ("embedded", "the passages"): {"k": 3},
}
SAME_ANSWERS = {
    ("http", "prices and paths of usage"): {"prices": {"usd_per_request": 1}, "cost": "cost", "prompt_tokens": "p"},
    ("http", "names of variables"): {"endpoint": ENDPOINT | {"headers_env": {"x-key": "KEY"}, "api_key_env": "KEY"}},
    ("http", "retries and rates"): {"endpoint": ENDPOINT | {"max_retries": 9, "backoff_seconds": 1, "total_seconds": 600, "requests_per_minute": 10_000}},
    ("openai", "prices"): {"chat": {"model": "m", "prices": {"usd_per_request": 1}}},
    ("openai", "limits"): {"endpoint": ENDPOINT | {"attempt_seconds": 9, "body_mb_max": 1, "ca_file": "ca.pem"}},
    ("nvidia", "limits"): {"rag": ENDPOINT | {"max_retries": 0, "in_flight": 1}},
    ("nvidia", "how the corpus is sent"): {"upload": {"batch_documents": 3, "total_seconds": 9, "poll_seconds": 1}},
    ("nvidia", "prices and readiness"): {"prices": {"usd_per_request": 1}, "check_dependencies": False},
}  # fmt: skip


def fingerprint(workspace, kind, settings, **more):
    file = {"kind": kind, "settings": SETTINGS[kind] | settings, **more}
    parse_system(file, "a test")
    workspace.system_file("s").write_text(yaml.safe_dump(file))
    return load_pair(workspace, OBSERVATORY, "s").fingerprints.system


@pytest.mark.fault(69)
@pytest.mark.parametrize("kind", SETTINGS)
def test_fingerprint_of_a_system_is_what_can_change_its_answers(kind, workspace):
    before = fingerprint(workspace, kind, {})

    for expected, table in ((False, OTHER_ANSWERS), (True, SAME_ANSWERS)):
        for (of, what), change in table.items():
            if of == kind:
                assert (fingerprint(workspace, kind, change) == before) is expected, what
    operational = {"budget": {"requests": 9}, "nightly": True, "evaluation": {"concurrency": 3, "timeout_seconds": 99}}
    assert fingerprint(workspace, kind, {}, **operational) == before


# --- pairs that need an evaluation

MEASURES = ["hit@1", "mrr"]


def system(workspace, **changes):
    change_yaml(workspace.system_file("embedded"), **changes)


def stamp_with(workspace, **changes):
    path = workspace.benchmark(OBSERVATORY).stamp
    path.write_text(json.dumps({**json.loads(path.read_text()), **changes}))


CHANGES = {
    #                                      change                                                       is evaluated still
    "nothing":                             (lambda w: None,                                             True),
    "how many questions are in flight":    (lambda w: change_defaults(w, concurrency=2),                True),
    "the corpus":                          (lambda w: stamp_with(w, corpus_fingerprint="0" * 64),       False),
    "the dataset":                         (lambda w: stamp_with(w, dataset_fingerprint="0" * 64),      False),
    "the system's version":                (lambda w: system(w, version="2"),                           False),
    "how many questions are asked":        (lambda w: system(w, limit=3),                               False),
    "the citations' tolerance":            (lambda w: change_defaults(w, tolerance_chars=3),            False),
    "the measures":                        (lambda w: change_defaults(w, measures=MEASURES),            False),
    "the judge":                           (lambda w: change_defaults(w, judge={"kind": "none"}),       False),
}  # fmt: skip


def test_pair_is_evaluated_until_something_that_moves_a_score_changes(workspace, monkeypatch):
    def is_current():
        return is_evaluated(workspace, read_registry(workspace), OBSERVATORY, "embedded")

    assert not is_current()
    ask(workspace, load_pair(workspace, OBSERVATORY, "embedded"), now=NIGHT)
    assert not is_current()  # answers without results
    evaluate(workspace, load_pair(workspace, OBSERVATORY, "embedded"))
    files = [workspace.defaults_config, workspace.system_file("embedded"), workspace.benchmark(OBSERVATORY).stamp]
    before = [file.read_bytes() for file in files]
    for what, (change, expected) in CHANGES.items():
        change(workspace)
        assert is_current() is expected, what
        for file, content in zip(files, before, strict=True):
            file.write_bytes(content)

    monkeypatch.setitem(KINDS, "embedded", dataclasses.replace(KINDS["embedded"], version="embedded/other"))
    assert not is_current()  # new code of the system
