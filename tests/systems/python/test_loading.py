"""What cannot be imported, found or called is named by its place in the system's file, in one line."""

import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.base import Query
from rag_eval_pipeline.systems.config import parse_system

BAD = {
    #                                     code                             settings                                    code              field
    "a module that is not there":        ("",                              {"callable": "no_such_module_here:ask"},    "bad_callable",   "settings.callable"),
    "a module that raises":              ("1 / 0",                         {},                                         "bad_callable",   "settings.callable"),
    "a module with a syntax error":      ("def ask(:",                     {},                                         "bad_callable",   "settings.callable"),
    "a script that ends the process":    ("raise SystemExit(0)",           {},                                         "bad_callable",   "settings.callable"),
    "a name that is not there":          ("",                              {},                                         "bad_callable",   "settings.callable"),
    "a path into nothing":               ("ask = 1",                       {"callable": "rag_under_test:ask.it"},      "bad_callable",   "settings.callable"),
    "something that is not callable":    ("ask = 1",                       {},                                         "bad_callable",   "settings.callable"),
    "a class without factory":           ("class ask: pass",               {},                                         "bad_callable",   "settings.callable"),
    "no parameter":                      ("def ask(): pass",               {},                                         "bad_callable",   "settings.callable"),
    "two parameters":                    ("def ask(a, b): pass",           {},                                         "bad_callable",   "settings.callable"),
    "an argument it does not take":      ("def ask(a): pass",              {"arguments": {"k": 1}},                    "bad_callable",   "settings.callable"),
    "a factory that raises":             ("def ask(k): raise OSError",     {"factory": True, "arguments": {"k": 1}},   "bad_callable",   "settings.arguments"),
    "a factory without its argument":    ("def ask(k): pass",              {"factory": True},                          "bad_callable",   "settings.arguments"),
    "a factory that is none":            ("ask = 1",                       {"factory": True},                          "bad_callable",   "settings.callable"),
    "a factory of what does not answer": ("def ask(): return 1",           {"factory": True},                          "bad_callable",   "settings.callable"),
    "a method that is not there":        ("def ask(): return 1",           {"factory": True, "method": "invoke"},      "bad_callable",   "settings.method"),
    "a name taken by another module":    ("",                              {"callable": "json:loads"},                 "bad_callable",   "settings.callable"),
    "a folder that is not there":        ("",                              {"path": ["code", "elsewhere"]},            "bad_path",       "settings.path[1]"),
    "a package that is not installed":   ("def ask(q): return q",          {"version_of": ["no-such-package-here"]},   "missing_package", "settings.version_of[0]"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "settings", "error_code", "field"), BAD.values(), ids=BAD)
async def test_bad_code(code, settings, error_code, field, opened, tmp_path):
    if settings.get("callable") == "json:loads":
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "json.py").write_text("")

    with pytest.raises(InputError) as error:
        async with opened(code, **settings):
            pass

    assert (error.value.code, error.value.field) == (error_code, field)
    assert str(tmp_path) in str(error.value)
    assert "\n" not in str(error.value)
    assert "Traceback" not in str(error.value)


BAD_SETTINGS = {
    "no callable": ({}, "settings.callable"),
    "a callable without a module": ({"callable": "ask"}, "settings.callable"),
    "a callable that is code": ({"callable": "os:system('ls')"}, "settings.callable"),
    "an unknown setting": ({"callable": "a:b", "k": 3}, "settings.k"),
    "a package that is no name": ({"callable": "a:b", "version_of": ["a b"]}, "settings.version_of"),
    "an argument that is no name": ({"callable": "a:b", "arguments": {"a b": 1}}, "settings"),
    "a pattern that is none": ({"callable": "a:b", "abstention": ["("]}, "settings.abstention"),
}


@pytest.mark.parametrize(("settings", "field"), BAD_SETTINGS.values(), ids=BAD_SETTINGS)
def test_bad_settings(settings, field):
    with pytest.raises(InputError) as error:
        parse_system({"kind": "python", "settings": settings}, "s.config.yaml")

    assert (error.value.code, error.value.field) == ("bad_format", field)


async def test_modules_of_the_folder_can_be_imported_while_questions_are_answered(opened, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "lazy_part_of_rag.py").write_text("WORD = 'late'")

    async with opened("def ask(q):\n    import lazy_part_of_rag\n    return lazy_part_of_rag.WORD") as system:
        assert (await system.answer(Query("1", "?"))).answer == "late"

    assert "lazy_part_of_rag" not in sys.modules


async def test_modules_of_the_environment_stay_loaded(opened):
    async with opened("import json\ndef ask(q): return q"):
        pass

    assert "json" in sys.modules


async def test_a_systems_file_opens_it(corpus, tmp_path):
    (tmp_path / "rag_by_file.py").write_text("def ask(question): return 'asked: ' + question")
    file = parse_system({"kind": "python", "settings": {"callable": "rag_by_file:ask", "path": ["."]}}, "s.config.yaml")

    async with file.traits.open(file.settings, corpus) as system:
        assert (await system.answer(Query("1", "Who?"))).answer == "asked: Who?"
    assert not file.is_nightly
