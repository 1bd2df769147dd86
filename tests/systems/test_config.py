"""A system's file is checked when it is read, and the first bad setting is named in one line."""

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.config import parse_system, read_system_file
from tests.conftest import REPOSITORY

FILES = {
    "unknown kind": ("kind: telepathy", "bad_format", "kind"),
    "unknown key": ("kind: embedded\nk: 3", "bad_format", "k"),
    "unknown setting": ("kind: embedded\nsettings: {top_k: 3}", "bad_format", "settings.top_k"),
    "malformed YAML": ("kind: [embedded", "bad_yaml", None),
    "empty file": ("", "bad_format", "kind"),
    "old answers to reuse": ("kind: replay\nsettings: {path: '{started:%Y}.jsonl'}", "bad_format", "(top level)"),
}


@pytest.mark.parametrize(("text", "code", "field"), FILES.values(), ids=FILES)
def test_system_file_is_refused(text, code, field, tmp_path):
    path = tmp_path / "s.config.yaml"
    path.write_text(text)

    with pytest.raises(InputError) as error:
        read_system_file(path)

    assert (error.value.code, error.value.field) == (code, field)
    assert "\n" not in str(error.value)


ENDPOINT = {"base_url": "http://h/v1"}
GOOD = {
    "http": {"endpoint": ENDPOINT, "body": {"q": "{question}"}, "answer": "a"},
    "openai": {"endpoint": ENDPOINT, "chat": {"model": "m"}},
    "nvidia": {"rag": ENDPOINT},
    "python": {"callable": "a:b"},
    "replay": {"path": "{benchmark}.jsonl"},
}
SETTINGS = [
    ("http", {"answer": "a[?"}, "settings.answer"),
    ("http", {"contexts": {"path": "a", "text": "]"}}, "settings.contexts.text"),
    ("http", {"body": {"q": "what"}}, "settings"),
    ("http", {"headers": {"X-Api-Key": "abc"}}, "settings.headers"),
    ("http", {"headers": {"Content-Length": "3"}}, "settings.headers"),
    ("openai", {"chat": {"model": "m", "extra_body": {"messages": []}}}, "settings.chat.extra_body"),
    ("openai", {"abstention": ["("]}, "settings.abstention"),
    ("openai", {"retrieval": {}, "contexts_path": "a"}, "settings"),
    ("openai", {"retrieval": {}, "offset_base": "page"}, "settings"),
    ("nvidia", {"collection": "{system}"}, "settings.collection"),
    ("nvidia", {"collection": "a b"}, "settings.collection"),
    ("nvidia", {"generate": {"reranker_top_k": 10}}, "settings.generate"),
    ("nvidia", {"extra_body": {"messages": []}}, "settings.extra_body"),
    ("nvidia", {"upload": {"chunk_size": 3}}, "settings.upload"),
    ("python", {"callable": "os:system('ls')"}, "settings.callable"),
    ("python", {"version_of": ["a b"]}, "settings.version_of"),
    ("python", {"arguments": {"a b": 1}}, "settings"),
    ("replay", {"path": "{night}.jsonl"}, "settings.path"),
    ("replay", {"path": "{started:%Y}/{.jsonl"}, "settings.path"),
]


@pytest.mark.parametrize(
    ("kind", "change", "field"), SETTINGS, ids=[f"{kind}-{change}" for kind, change, _ in SETTINGS]
)
def test_setting_of_a_kind_is_refused(kind, change, field):
    parse_system({"kind": kind, "settings": GOOD[kind]}, "s.config.yaml")

    with pytest.raises(InputError) as error:
        parse_system({"kind": kind, "settings": GOOD[kind] | change}, "s.config.yaml")

    assert (error.value.code, error.value.field) == ("bad_format", field)
    assert "\n" not in str(error.value)


def test_setting_that_is_gone_is_refused_with_what_replaces_it():
    with pytest.raises(InputError, match="Rename it to `extra_body`"):
        parse_system({"kind": "nvidia", "settings": GOOD["nvidia"] | {"generate": {"temperature": 0}}}, "s.config.yaml")


@pytest.mark.parametrize("path", sorted((REPOSITORY / "data/config/systems").iterdir()), ids=lambda path: path.name)
def test_bundled_system_is_nightly(path):
    assert read_system_file(path).is_nightly


KINDS = {
    #                kind's settings                                        nightly, deterministic, in flight
    "embedded":     ({"kind": "embedded"},                                  (True,  True,  8)),
    "replay":       ({"kind": "replay", "settings": {"path": "a"}},         (True,  True,  64)),
    "python":       ({"kind": "python", "settings": GOOD["python"]},        (False, False, 8)),
    "openai":       ({"kind": "openai", "nightly": True, "deterministic": True, "settings": {"endpoint": ENDPOINT | {"in_flight": 3}, "chat": {"model": "m"}}}, (True, True, 3)),
    "disabled":     ({"kind": "embedded", "enabled": False},                (False, True,  8)),
}  # fmt: skip


@pytest.mark.parametrize(("data", "expected"), KINDS.values(), ids=KINDS)
def test_defaults_follow_from_the_kind(data, expected):
    file = parse_system(data, "s.config.yaml")

    assert (file.is_nightly, file.is_deterministic, file.in_flight) == expected


def test_system_takes_the_benchmarks_that_its_globs_match():
    file = parse_system({"kind": "embedded", "benchmarks": ["frames*", "squad"]}, "s.config.yaml")

    assert [file.takes(name) for name in ("frames", "frames-2", "squad", "squad2")] == [True, True, True, False]


@pytest.mark.parametrize(
    ("setting", "expected"),
    [("path: src", "a list"), ("configuration: x", "keys with values"), ("contexts: [passages]", "keys with values")],
)
def test_error_names_the_kind_of_value_in_the_words_of_yaml(setting, expected, tmp_path):
    path = tmp_path / "own.config.yaml"
    path.write_text(f"kind: python\nsettings: {{callable: 'm:f', {setting}}}\n")

    with pytest.raises(InputError) as error:
        read_system_file(path)

    assert error.value.expected == expected
