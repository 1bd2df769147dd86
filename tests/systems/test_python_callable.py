"""A callable is loaded and asked in a worker process; what it raises, returns or prints, how it ends and how long it
hangs is an answer or a status of its own questions, and harms no other.
"""

import asyncio
import sys

import pytest

from rag_eval_pipeline.errors import InputError
from rag_eval_pipeline.systems.base import Query, Usage
from rag_eval_pipeline.systems.config import parse_system
from tests.systems.conftest import answer, time_out

QUERY = Query("q7", "Do cats sleep?")
BARE = sys._base_executable  # the interpreter below the virtual environment, which has none of our packages


CALLABLES = {
    "a function": ("def ask(question): return question.upper()", "DO CATS SLEEP?"),
    "an async function": ("async def ask(question): return question.upper()", "DO CATS SLEEP?"),
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
    "the messages of a conversation": ("def ask(state): return str(state)", "[{'role': 'user', 'content': 'Do cats sleep?'}]", {"input": "{messages}"}),
    "an input for a parameter query": ("def ask(*, query): return query['text']", "Do cats sleep?", {"input": {"text": "{question}"}}),
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
# Rows of one worker: each is executed for its question.
ANSWERS = {
    "a function that returns an awaitable": ("async def later(): return 'They do.'\ndef ask(q): return later()", "They do."),
    "a generator": ("def ask(q):\n    yield 'They'\n    yield ' do.'", "They do."),
    "an async generator": ("async def ask(q):\n    yield {'answer': 'They'}\n    yield {'answer': ' do.'}", "They do."),
    "an async function that returns a stream": ("async def ask(q): return {'answer': iter(['They', ' do.'])}", "They do."),
    "a chat in a thread": ("def ask(q): return StreamingAgentChatResponse()", "They do."),
    "an async chat": ("async def ask(q): return StreamingAgentChatResponse(achat_stream=object())", "They do."),
    "a finished chat": ("def ask(q): return AgentChatResponse()", "They do."),
    "half a character": ("def ask(q): return 'a \\ud800'", "a �"),
    "a function that prints": ("def ask(q):\n    print('noise')\n    os.write(1, b'{\"answered\": 0}\\n')\n    return 'quiet'", "quiet"),
    "a child that prints": ("def ask(q):\n    subprocess.run(['echo', '{\"answered\": 0}'], check=True)\n    return 'quiet'", "quiet"),
}  # fmt: skip


def in_one_worker(rows):
    """Return code whose `dispatch` executes the code of the row that the question names."""
    code = {name: row[0] for name, row in rows.items()}
    return f"""{STREAMED_CHAT}
import os, subprocess
ROWS = {code!r}
def dispatch(name):
    exec(ROWS[name], globals())
    return ask(name)
"""


async def test_what_is_returned_is_read(opened):
    async with opened(in_one_worker(ANSWERS), attribute="dispatch") as system:
        found = [await answer(system, name) for name in ANSWERS]

    assert {name: (one.error, one.answer) for name, one in zip(ANSWERS, found, strict=True)} == {
        name: (None, text) for name, (_, text) in ANSWERS.items()
    }
    streamed = [name for name, one in zip(ANSWERS, found, strict=True) if "first_token" in one.timings]
    assert streamed == [
        "a generator", "an async generator", "an async function that returns a stream", "a chat in a thread", "an async chat",
    ]  # fmt: skip
    assert all(one.timings.get("first_token", 0) <= one.latency_ms for one in found)


async def test_objects_are_read_by_their_attributes(opened):
    code = """
        from pathlib import Path

        class Passage:
            def __init__(self, inner=None):
                self.metadata, self.page_content = {"source": Path("/data/cats.pdf"), "page": 0}, "Cats sleep."
                if inner is not None:
                    self.node = inner

        def ask(question):
            passage = Passage()
            for _ in range(18 if question == "deep" else 0):
                passage = Passage(passage)
            return {"answer": "a", "context": [passage], "usage": {"total_tokens": 7}}
    """

    async with opened(code) as system:
        found = [await answer(system, text) for text in ("flat", "deep")]

    assert [[(one.document, one.page, one.text) for one in row.contexts] for row in found] == [
        [("cats.pdf", 1, "Cats sleep.")]
    ] * 2
    assert {row.usage.total_tokens for row in found} == {7}


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

        async def aclose(self):
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


# The innermost line of a file of the user: the rest is executed from texts.
PLACE = f" (rag_under_test.py, line {in_one_worker({}).count(chr(10))})"
FAILURES = {
    "a value without an answer": ("def ask(q): return object()", "bad_response", "expected an answer, the callable returned object"),
    "reading what is typed": ("def ask(q): return input()", "python_error", f"EOFError: EOF when reading a line{PLACE}"),
    "an exception": ("def ask(q): raise ValueError('no\\n  index')", "python_error", f"ValueError: no index{PLACE}"),
    "the end of the process": ("def ask(q): raise SystemExit(3)", "python_error", f"SystemExit: 3{PLACE}"),
    "a cancellation of its own": (
        "import asyncio\nasync def ask(q): raise asyncio.CancelledError()", "python_error", "CancelledError",
    ),
    "an exception whose message fails": (
        "class E(Exception):\n    def __str__(self): raise RuntimeError\ndef ask(q): raise E", "python_error", f"E{PLACE}",
    ),
    "a long message": ("def ask(q): raise ValueError('x' * 5000)", "python_error", f"ValueError: {'x' * 287}…{PLACE}"),
    "a text where a mapping is wanted": (
        "def ask(state): return state.get('question')", "python_error",
        f"AttributeError: 'str' object has no attribute 'get'{PLACE} "
        '(If it takes a mapping and not a text, set `input`, such as {question: "{question}"}.)',
    ),
    "no event loop": (
        "import asyncio\ndef ask(q): return asyncio.get_running_loop()", "python_error",
        f"RuntimeError: no running event loop{PLACE} "
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
async def test_failure_is_a_status_in_one_line(opened):
    async with opened(in_one_worker(FAILURES), attribute="dispatch") as system:
        found = {name: await answer(system, name) for name in FAILURES}

    assert {name: (one.status, one.answer, one.error_code, one.error) for name, one in found.items()} == {
        name: ("error", None, code, error) for name, (_, code, error) in FAILURES.items()
    }


async def test_threads_run_calls_side_by_side_and_are_reused_so_that_thread_locals_stay(opened):
    code = """
        import threading
        together, kept = threading.Barrier(3), threading.local()
        def ask(question):
            together.wait()
            kept.calls = getattr(kept, "calls", 0) + 1
            return str(kept.calls)
    """

    async with opened(code) as system:
        rounds = [await asyncio.gather(*(system.answer(QUERY) for _ in range(3))) for _ in range(2)]

    assert [[answer.answer for answer in answers] for answers in rounds] == [["1"] * 3, ["2"] * 3]


async def test_question_is_not_asked_while_too_many_calls_hang(opened, tmp_path):
    begun = tmp_path / "begun"
    code = f"""
        import pathlib, sys, threading
        sys.modules["_rag_eval_user_code"].ABANDONED_LIMIT = 2
        def ask(question):
            if question == "hang":
                pathlib.Path({str(begun)!r}).touch()
                threading.Event().wait()
            return "answered"
    """

    async with opened(code) as system:
        await time_out(system, "hang", begun)
        assert (await answer(system, "go")).answer == "answered"  # a call that hangs leaves its place
        await time_out(system, "hang", begun)
        stuck = await answer(system, "go")

    assert (stuck.error_code, stuck.error) == (
        "python_stuck", "TooManyAbandoned: 2 earlier calls have not returned",
    )  # fmt: skip
    assert stuck.usage.requests == 0


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
    for word in ("one", "two", "two"):
        async with opened(f"def ask(q): return '{word}'") as system:
            found.append(((await system.answer(QUERY)).answer, system.server_configuration()["source_sha256"]))

    assert [word for word, _ in found] == ["one", "two", "two"]
    assert found[0][1] != found[1][1] == found[2][1]


REFUSED = {
    #                                     code                          settings                                    code               field                     in the message
    "a module that is not there":        ("",                           {"callable": "no_such_module_here:ask"},    "bad_callable",    "settings.callable",      "Is its folder in `path`?"),
    "a module without a package":        ("import no_such_framework",   {},                                         "bad_callable",    "settings.callable",      f"Install no_such_framework for {sys.executable}, or"),
    "a module that ends the process":    ("import os; os._exit(5)",     {},                                         "bad_callable",    "settings.callable",      "ended with exit status 5"),
    "a script that ends":                ("raise SystemExit(0)",        {},                                         "bad_callable",    "settings.callable",      "SystemExit: 0"),
    "a name that is not there":          ("",                           {},                                         "bad_callable",    "settings.callable",      "'ask' in rag_under_test"),
    "an object without a method":        ("ask = 1",                    {},                                         "bad_callable",    "settings.callable",      "Set `method`"),
    "a class without factory":           ("class ask: pass",            {},                                         "bad_callable",    "settings.callable",      "Set `factory: true`."),
    "no parameter":                      ("def ask(): pass",            {},                                         "bad_callable",    "settings.callable",      "a callable of one question"),
    "a factory that raises":             ("def ask(k): raise OSError",  {"factory": True, "arguments": {"k": 1}},   "bad_callable",    "settings.arguments",     "OSError"),
    "a method that is not there":        ("def ask(): return 1",        {"factory": True, "method": "invoke"},      "bad_callable",    "settings.method",        "a method of int"),
    "a name taken by another module":    ("",                           {"callable": "json:loads"},                 "bad_callable",    "settings.callable",      "json is loaded from elsewhere"),
    "a folder that is not there":        ("",                           {"path": ["code", "elsewhere"]},            "bad_path",        "settings.path[1]",       "elsewhere"),
    "a package that is not installed":   ("def ask(q): return q",       {"version_of": ["msgspec"], "python": BARE}, "missing_package", "settings.version_of[0]", "msgspec"),
    "no interpreter":                    ("def ask(q): ...",            {"python": "../app/bin/python"},            "bad_python",      "settings.python",        "No such file or directory."),
    "an environment":                    ("def ask(q): ...",            {"python": "venv"},                         "bad_python",      "settings.python",        "bin/python?"),
    "another program":                   ("def ask(q): ...",            {"python": "/bin/cat"},                     "bad_python",      "settings.python",        "It ended with exit status 1; its last output: /bin/cat"),
    "an old interpreter":                ("def ask(q): ...",            {"python": "old"},                          "bad_python",      "settings.python",        "It is Python 3.8.18."),
}  # fmt: skip


@pytest.mark.parametrize(("code", "settings", "error_code", "field", "text"), REFUSED.values(), ids=REFUSED)
async def test_code_that_cannot_be_loaded_is_refused_in_one_line(
    code, settings, error_code, field, text, opened, tmp_path
):
    (tmp_path / "code").mkdir()
    if settings.get("callable") == "json:loads":
        (tmp_path / "code" / "json.py").write_text("")
    (tmp_path / "venv" / "bin").mkdir(parents=True)
    (tmp_path / "venv" / "bin" / "python").write_text("")
    (tmp_path / "old").write_text(
        f"#!{BARE}\nimport os, sys\nos.write(int(sys.argv[4]), b'{{\"hello\": [3, 8, 18]}}\\n')\n"
    )
    (tmp_path / "old").chmod(0o755)

    with pytest.raises(InputError) as error:
        async with opened(code, **settings):
            pass

    assert (error.value.code, error.value.field) == (error_code, field)
    assert error.value.file == str(tmp_path / "recorded.config.yaml")
    assert text in str(error.value)
    assert "\n" not in str(error.value)
    assert "Traceback" not in str(error.value)


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

    assert len(digests) == 1


async def test_modules_of_the_path_can_be_imported_while_questions_are_answered(opened, tmp_path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code" / "lazy_part_of_rag.py").write_text("WORD = 'late'")

    async with opened("def ask(q):\n    import lazy_part_of_rag\n    return lazy_part_of_rag.WORD") as system:
        assert (await answer(system, "?")).answer == "late"


async def test_modules_that_the_environment_names_are_found_without_an_interpreter_of_its_own(
    opened, tmp_path, monkeypatch
):
    (tmp_path / "elsewhere.py").write_text("WORD = 'found'")
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))

    async with opened("import elsewhere\ndef ask(q): return elsewhere.WORD") as system:
        assert (await answer(system, "?")).answer == "found"


async def test_what_is_printed_is_shown_on_standard_error(opened, capfd):
    async with opened("print('loading')\ndef ask(q): print('asked'); return 'a'") as system:
        assert (await answer(system, "?")).answer == "a"

    printed = capfd.readouterr()
    assert printed.out == ""
    assert printed.err.split() == ["loading", "asked"]
