"""A callable of this process is loaded and asked as any system; what it raises or returns is an answer or a status."""

import asyncio
import contextlib
import os
import subprocess
import sys
import textwrap

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.base import Query, Usage
from rag_eval_pipeline.systems.config import parse_system
from rag_eval_pipeline.systems.python_callable import PythonSettings, open_python
from tests.conftest import REPOSITORY

QUERY = Query("q7", "Do cats sleep?")


@pytest.fixture
def opened(corpus, tmp_path):
    """`async with opened(code, **settings) as system`: the code is in rag_under_test.py of the folder `code`."""

    @contextlib.asynccontextmanager
    async def opened(code, *, attribute="ask", **settings):
        folder = tmp_path / "code"
        folder.mkdir(exist_ok=True)
        (folder / "rag_under_test.py").write_text(textwrap.dedent(code))
        given = {"callable": f"rag_under_test:{attribute}", "path": ["code"]} | settings
        async with open_python(PythonSettings.model_validate(given), corpus) as system:
            yield system

    path = list(sys.path)
    yield opened
    assert sys.path == path
    assert "rag_under_test" not in sys.modules


CALLABLES = {
    "a function": ("def ask(question): return question.upper()", "DO CATS SLEEP?"),
    "an async function": ("async def ask(question): return question.upper()", "DO CATS SLEEP?"),
    "a function that returns an awaitable": (
        "async def later(q): return q.upper()\ndef ask(question): return later(question)", "DO CATS SLEEP?",
    ),
    "a parameter query: its id": ("def ask(query): return query.query_id", "q7"),
    "a parameter query: its text": ("def ask(query): return query.text", "Do cats sleep?"),
    "a parameter query that is taken for text": ("def ask(query): return f'<{query}>'", "<Do cats sleep?>"),
    "arguments with every question": ("def ask(question, *, k): return f'{k}'", "3", {"arguments": {"k": 3}}),
    "an attribute path": (
        "class E:\n    def query(self, text): return 'of ' + text\nclass ask: engine = E()",
        "of Do cats sleep?", {"attribute": "ask.engine.query"},
    ),
    "an object with invoke": (
        "class Chain:\n    def run(self, q): return 'no'\n    def invoke(self, q): return 'invoked ' + q\nask = Chain()",
        "invoked Do cats sleep?",
    ),
    "an object with aquery": (
        "class Engine:\n    async def aquery(self, q): return 'of ' + q\nask = Engine()", "of Do cats sleep?",
    ),
    "an input of the user's form": (
        "def ask(state, *, k): return f'{state} {k}'", "{'q': ['Do cats sleep?', 'q7', 'coast'], 'k': 3} 5",
        {"input": {"q": ["{question}", "{query_id}", "{benchmark}"], "k": 3}, "arguments": {"k": 5}},
    ),
    "an input for a parameter query": ("def ask(*, query): return query['text']", "Do cats sleep?", {"input": {"text": "{question}"}}),
    "a generator": ("def ask(q):\n    yield 'Do cats'\n    yield ' sleep?'", "Do cats sleep?"),
    "an async generator": ("async def ask(q):\n    yield {'answer': 'Do cats'}\n    yield {'answer': ' sleep?'}", "Do cats sleep?"),
    "an async function that returns a stream": ("async def ask(q): return {'answer': iter(['Do cats', ' sleep?'])}", "Do cats sleep?"),
}  # fmt: skip


@pytest.mark.parametrize(
    ("code", "answer", "settings"), [(*row, {})[:3] for row in CALLABLES.values()], ids=list(CALLABLES)
)
async def test_callable_is_asked_by_its_signature(code, answer, settings, opened):
    async with opened(code, **settings) as system:
        found = await system.answer(QUERY)

    assert (found.status, found.answer, found.query_id) == ("ok", answer, "q7")
    assert found.usage == Usage(requests=1)


# As llama_index.core.chat_engine.types.StreamingAgentChatResponse: the text comes from another thread, or task.
STREAMED_CHAT = """
import asyncio, queue, threading

class StreamingAgentChatResponse:
    source_nodes = []
    def __init__(self, achat_stream=None):
        self.response, self.queue, self.achat_stream = "", queue.Queue(), achat_stream
        self.read = threading.Event()
        threading.Thread(target=self.write, daemon=True).start()
    def write(self):
        self.read.wait()  # the text comes after the response was returned
        for piece in ("They ", "do.", None):
            self.queue.put(piece)
    def __str__(self):
        return self.response
    @property
    def response_gen(self):
        self.read.set()
        while (piece := self.queue.get()) is not None:
            yield piece
    async def async_response_gen(self):
        for piece in ("They ", "do."):
            await asyncio.sleep(0)
            yield piece

class AgentChatResponse:  # a finished one
    response, source_nodes, is_dummy_stream = "They do.", [], False
    @property
    def response_gen(self):
        raise ValueError("response_gen is only available for streaming responses")
"""
STREAMS = {
    "a chat in a thread": "def ask(question): return StreamingAgentChatResponse()",
    "an async chat": "async def ask(question): return StreamingAgentChatResponse(achat_stream=object())",
    "a finished chat": "def ask(question): return AgentChatResponse()  # finished",
}


@pytest.mark.parametrize("code", STREAMS.values(), ids=STREAMS)
async def test_streamed_chat_is_read_to_its_end(code, opened):
    async with opened(f"{STREAMED_CHAT}\n{code}") as system:
        answers = [await system.answer(QUERY) for _ in range(5)]

    assert [(answer.status, answer.answer) for answer in answers] == [("ok", "They do.")] * 5
    assert [answer.timings.keys() for answer in answers] == [set() if "finished" in code else {"first_token"}] * 5


async def test_stream_is_read_in_the_thread_of_its_call(opened):
    code = """
        import threading
        def ask(question):
            thread = threading.get_ident()
            def pieces():
                yield str(threading.get_ident() == thread)
            return pieces()
    """

    async with opened(code) as system:
        found = await system.answer(QUERY)

    assert found.answer == "True"
    assert 0 < found.timings["first_token"] <= found.latency_ms


FACTORY = """
    from pathlib import Path

    class Engine:
        made = 0

        def __init__(self, log, greeting="Hello"):
            Engine.made += 1
            self.log, self.greeting = Path(log), greeting

        def invoke(self, question):
            return f"{self.greeting} {Engine.made}"

        def close(self):
            self.log.write_text("closed")
"""


async def test_factory_is_called_once_with_its_arguments_and_closed_at_the_end(opened, tmp_path):
    log = tmp_path / "log"
    arguments = {"log": str(log), "greeting": "Hi"}

    async with opened(FACTORY, attribute="Engine", factory=True, method="invoke", arguments=arguments) as system:
        answers = [(await system.answer(QUERY)).answer for _ in range(3)]
        assert not log.exists()

    assert answers == ["Hi 1"] * 3
    assert log.read_text() == "closed"


FAILURES = {
    "an exception": ("def ask(q): raise ValueError('no\\n  index')", "python_error", "ValueError: no index"),
    "the end of the process": ("def ask(q): raise SystemExit(3)", "python_error", "SystemExit: 3"),
    "a cancellation of its own": (
        "import asyncio\nasync def ask(q): raise asyncio.CancelledError()", "python_error", "CancelledError",
    ),
    "an exception whose message fails": (
        "class E(Exception):\n    def __str__(self): raise RuntimeError\ndef ask(q): raise E", "python_error", "E",
    ),
    "a long message": ("def ask(q): raise ValueError('x' * 5000)", "python_error", f"ValueError: {'x' * 287}…"),
    "a text where a mapping is wanted": (
        "def ask(state): return state.get('question')", "python_error",
        "AttributeError: 'str' object has no attribute 'get' "
        '(If it takes a mapping and not a text, set `input`, such as {question: "{question}"}.)',
    ),
    "no event loop": (
        "import asyncio\ndef ask(q): return asyncio.get_running_loop()", "python_error",
        "RuntimeError: no running event loop "
        "(Make the callable `async def`: what it calls needs an event loop.)",
    ),
    "a stream that breaks": ("def ask(q):\n    yield 'They'\n    raise OSError('cut')", "python_error", "OSError: cut"),
    "a mapping without an answer": (
        "def ask(q): return {'hits': [], 'took': 1}", "bad_response",
        "expected an answer, the callable returned an object with the keys hits, took",
    ),
    "an attribute that raises": (
        "class A:\n    @property\n    def answer(self): raise OSError('gone')\ndef ask(q): return A()", "bad_response",
        "expected an answer, reading what the callable returned raised OSError: gone",
    ),
}  # fmt: skip


@pytest.mark.fault(48)
@pytest.mark.parametrize(("code", "error_code", "error"), FAILURES.values(), ids=FAILURES)
async def test_failure_is_a_status_in_one_line(code, error_code, error, opened):
    async with opened(code) as system:
        found = await system.answer(QUERY)

    assert (found.status, found.answer, found.error_code, found.error) == ("error", None, error_code, error)


async def test_threads_run_calls_side_by_side_and_are_reused_so_that_thread_locals_stay(opened):
    code = """
        import threading
        together, kept = threading.Barrier(3), threading.local()
        def ask(question):
            together.wait(240)
            kept.calls = getattr(kept, "calls", 0) + 1
            return str(kept.calls)
    """

    async with opened(code) as system:
        rounds = [await asyncio.gather(*(system.answer(QUERY) for _ in range(3))) for _ in range(2)]

    assert [[answer.answer for answer in answers] for answers in rounds] == [["1"] * 3, ["2"] * 3]


HANGING = """
    import threading
    released = threading.Event()
    def ask(question):
        if question == "hang":
            released.wait()
        return "answered"
"""


async def test_question_is_not_asked_while_too_many_calls_hang(opened, monkeypatch):
    monkeypatch.setattr("rag_eval_pipeline.systems.user_code.ABANDONED_LIMIT", 2)

    async with opened(HANGING) as system:
        for number in range(2):
            with pytest.raises(TimeoutError):
                await asyncio.wait_for(system.answer(Query(str(number), "hang")), 0.5)
        stuck = await system.answer(Query("2", "go"))
        sys.modules["rag_under_test"].released.set()

    assert (stuck.error_code, stuck.error) == (
        "python_stuck", "TooManyAbandoned: 2 earlier calls have not returned",
    )  # fmt: skip
    assert stuck.usage.requests == 0


def test_process_ends_while_a_call_hangs(tmp_path):
    (tmp_path / "hanging.py").write_text("import threading\ndef ask(q): threading.Event().wait()")
    script = """if True:
        import asyncio
        from pathlib import Path
        from rag_eval_pipeline.systems.base import Query
        from rag_eval_pipeline.systems.python_callable import PythonSettings, open_python
        from tests.systems.conftest import corpus_in

        async def main():
            async with open_python(PythonSettings(callable="hanging:ask", path=(".",)), corpus_in(Path.cwd())) as system:
                try:
                    await asyncio.wait_for(system.answer(Query("1", "?")), 0.1)
                except TimeoutError:
                    print("given up")

        asyncio.run(main())
    """
    environment = {**os.environ, "PYTHONPATH": str(REPOSITORY)}
    command = [sys.executable, "-c", script]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=tmp_path, env=environment)

    assert (ended.stdout, ended.stderr, ended.returncode) == ("given up\n", "", 0)


async def test_configuration_names_callable_and_versions(opened):
    settings = {"configuration": {"model": "m-1", "chunks": 300}, "version_of": ["msgspec"]}

    async with opened("def ask(q): return q", **settings) as system:
        stated, server = system.configuration(), system.server_configuration()

    assert stated["model"] == "m-1"
    assert stated["embedding_model"] is None
    assert stated["chunks"] == 300
    assert stated["callable"] == "rag_under_test:ask"
    assert stated["version of msgspec"] == server["versions"]["msgspec"]


async def test_edited_code_is_reloaded_and_changes_the_fingerprint(opened):
    found = []
    for answer in ("one", "two", "two"):
        async with opened(f"def ask(q): return '{answer}'") as system:
            found.append(((await system.answer(QUERY)).answer, system.server_configuration()["source_sha256"]))

    assert [answer for answer, _ in found] == ["one", "two", "two"]
    assert found[0][1] != found[1][1] == found[2][1]


BAD = {
    #                                     code                             settings                                    code              field
    "a module that is not there":        ("",                              {"callable": "no_such_module_here:ask"},    "bad_callable",   "settings.callable"),
    "a script that ends the process":    ("raise SystemExit(0)",           {},                                         "bad_callable",   "settings.callable"),
    "a name that is not there":          ("",                              {},                                         "bad_callable",   "settings.callable"),
    "an object without a method":        ("ask = 1",                       {},                                         "bad_callable",   "settings.callable"),
    "a class without factory":           ("class ask: pass",               {},                                         "bad_callable",   "settings.callable"),
    "no parameter":                      ("def ask(): pass",               {},                                         "bad_callable",   "settings.callable"),
    "a factory that raises":             ("def ask(k): raise OSError",     {"factory": True, "arguments": {"k": 1}},   "bad_callable",   "settings.arguments"),
    "a method that is not there":        ("def ask(): return 1",           {"factory": True, "method": "invoke"},      "bad_callable",   "settings.method"),
    "a name taken by another module":    ("",                              {"callable": "json:loads"},                 "bad_callable",   "settings.callable"),
    "a folder that is not there":        ("",                              {"path": ["code", "elsewhere"]},            "bad_path",       "settings.path[1]"),
    "a package that is not installed":   ("def ask(q): return q",          {"version_of": ["no-such-package-here"]},   "missing_package", "settings.version_of[0]"),
}  # fmt: skip


@pytest.mark.parametrize(("code", "settings", "error_code", "field"), BAD.values(), ids=BAD)
async def test_code_that_cannot_be_loaded_is_refused(code, settings, error_code, field, opened, tmp_path):
    if settings.get("callable") == "json:loads":
        (tmp_path / "code").mkdir()
        (tmp_path / "code" / "json.py").write_text("")

    with pytest.raises(InputError) as error:
        async with opened(code, **settings):
            pass

    assert (error.value.code, error.value.field) == (error_code, field)
    assert error.value.file == str(tmp_path / "recorded.config.yaml")
    assert "\n" not in str(error.value)
    assert "Traceback" not in str(error.value)


async def test_import_that_fails_inside_of_the_module_names_the_interpreter(opened):
    with pytest.raises(InputError) as error:
        async with opened("import no_such_framework"):
            pass

    assert f"Install no_such_framework for {sys.executable}" in error.value.hint


async def test_method_is_published_and_a_choice_of_several_is_warned_of(opened):
    code = "class Chain:\n    def run(self, q): ...\n    def invoke(self, q): ...\n    def ainvoke(self, q): ...\nask = Chain()"

    async with opened(code) as system, opened(code, method="run") as named:
        assert system.configuration()["method"] == "invoke"
        assert "has the methods invoke, run, of which invoke is called" in system.warnings()[0]
        assert named.warnings() == []


SETTINGS = {
    "a dot instead of the colon": ({"callable": "my_rag.chains.ask"}, "with a colon, such as my_rag.chains:ask"),
    "a file":                     ({"callable": "src/rag.py:ask"},    "package.module:name, with a colon, such as my_rag.chain:answer"),
    "an input without question":  ({"callable": "m:f", "input": {"q": "question"}}, "a value with {question} in a text"),
}  # fmt: skip


@pytest.mark.parametrize(("settings", "expected"), SETTINGS.values(), ids=SETTINGS)
def test_bad_setting_says_what_it_should_be(settings, expected):
    with pytest.raises(InputError) as error:
        parse_system({"kind": "python", "settings": settings}, "my-rag.config.yaml")

    assert expected in str(error.value)


async def test_installed_packages_below_the_path_are_no_source(opened, tmp_path):
    package = tmp_path / "code" / ".venv" / "lib" / "site-packages"
    package.mkdir(parents=True)
    code = (
        f"import sys\nsys.path.append({str(package)!r})\nimport package_in_venv\nsys.path.pop()\ndef ask(q): return q"
    )
    digests = set()
    for text in ("one = 1", "two = 2"):
        (package / "package_in_venv.py").write_text(text)
        async with opened(code) as system:
            digests.add(system.server_configuration()["source_sha256"])
        del sys.modules["package_in_venv"]

    assert len(digests) == 1


async def test_modules_of_the_path_can_be_imported_while_questions_are_answered(opened, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "lazy_part_of_rag.py").write_text("WORD = 'late'")

    async with opened("def ask(q):\n    import lazy_part_of_rag, textwrap\n    return lazy_part_of_rag.WORD") as system:
        assert (await system.answer(Query("1", "?"))).answer == "late"

    assert "lazy_part_of_rag" not in sys.modules
    assert "textwrap" in sys.modules  # modules of the environment stay loaded
