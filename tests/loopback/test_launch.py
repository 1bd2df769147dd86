"""The server is there when its block begins, gone when it ends, and never outlives who started it."""

import os
import subprocess
import sys

import httpx
import psutil
import pytest

from rag_eval_pipeline.errors import ServiceError
from rag_eval_pipeline.loopback.launch import loopback_server
from tests.loopback import plain_http

PARENT = """
import os, sys
from rag_eval_pipeline.loopback.launch import loopback_server
context = loopback_server(canned=True)
print(context.__enter__().process_id, flush=True)
sys.stdin.read()
"""


def test_it_is_gone_when_its_block_ends():
    with loopback_server(canned=True) as server:
        assert plain_http.get(f"{server.rag}/v1/health").status_code == 200

    assert not psutil.pid_exists(server.process_id)


def test_it_ends_with_a_parent_that_is_killed():
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    child = psutil.Process(int(parent.stdout.readline()))

    try:
        parent.kill()
        parent.communicate()
        child.wait(timeout=60)  # raises when it is still there
    finally:
        if child.is_running():
            child.kill()


def test_an_answer_that_never_ends_does_not_keep_it():
    body = {"messages": [{"role": "user", "content": "[[fault half_open]]"}]}
    with loopback_server(canned=True) as server, pytest.raises(httpx.ReadTimeout):
        plain_http.post(f"{server.rag}/v1/generate", json=body, timeout=httpx.Timeout(5, read=0.05))

    assert not psutil.pid_exists(server.process_id)


def test_counts_are_set_back():
    with loopback_server(canned=True) as server:
        plain_http.get(f"{server.rag}/v1/health")
        before = server.counts(by_question=False)["requests"]
        server.reset()

        assert (before, server.counts(by_question=False)["requests"]) == (1, 0)


def test_a_server_can_come_back_where_it_was():
    with loopback_server(canned=True) as first:
        pass
    with loopback_server(canned=True, port=first.port) as second:
        assert (second.port, plain_http.get(f"{second.rag}/v1/health").status_code) == (first.port, 200)


def test_a_key_is_asked_for_and_not_told(tmp_path):
    with loopback_server(canned=True, api_key="canary-key") as server:
        url = f"{server.openai}/models"
        statuses = [
            plain_http.get(url, headers=headers).status_code
            for headers in ({}, {"authorization": "Bearer wrong"}, {"authorization": "Bearer canary-key"})
        ]
        arguments = psutil.Process(server.process_id).cmdline()

    assert statuses == [401, 401, 200]
    assert "canary-key" not in " ".join(arguments)


def test_a_server_that_cannot_start_says_why():
    with pytest.raises(ServiceError) as raised, loopback_server(faults={"kinds": ["fire"]}):
        pass

    assert raised.value.code == "loopback_not_started"
    assert "kinds" in raised.value.message


def test_by_hand_it_prints_its_port_first():
    command = [sys.executable, "-m", "rag_eval_pipeline.loopback", "--port", "0", "--canned"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        port, rag = child.stdout.readline(), child.stdout.readline()
        status = plain_http.get(f"http://127.0.0.1:{int(port)}/rag/v1/health").status_code
        child.terminate()

    assert (status, child.returncode) == (200, 0)
    assert rag == f"NVIDIA RAG server: http://127.0.0.1:{int(port)}/rag\n"


def test_a_page_base_of_nought_holds_in_citations_and_text(papers):
    with loopback_server(corpus=papers, page_base=0) as server:
        body = {"model": "loopback", "messages": [{"role": "user", "content": "Who was the keeper in 1911?"}]}
        said = plain_http.post(f"{server.openai}/chat/completions", json=body).json()["choices"][0]["message"][
            "content"
        ]
        found = plain_http.post(f"{server.rag}/v1/search", json={"query": "keeper in 1911"}).json()["results"][0]

    assert "[light.pdf:1:" in said
    assert found["metadata"]["page_number"] == 1


def test_it_is_started_without_the_environments_secrets(monkeypatch):
    monkeypatch.setenv("SOME_API_KEY", "canary-in-environment")
    with loopback_server(canned=True) as server:
        environ = psutil.Process(server.process_id).environ()

    assert "SOME_API_KEY" not in environ
    assert os.environ["SOME_API_KEY"] == "canary-in-environment"
