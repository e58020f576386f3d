"""Whether a server answers is known within seconds, and why not."""

import contextlib
import http.server
import socket
import threading

import pytest
import requests

from tf_transfer.utils import servers


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "*")
    monkeypatch.setenv("no_proxy", "*")


class Handler(http.server.BaseHTTPRequestHandler):
    """Has one page; any other is missing, which is an answer too."""

    def do_HEAD(self):
        self.send_response(200 if self.path == "/page" else 404)
        self.end_headers()

    def log_message(self, *arguments):
        pass


@pytest.fixture
def server():
    with http.server.HTTPServer(("localhost", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://localhost:{server.server_port}"
        server.shutdown()
        thread.join()


@pytest.mark.parametrize("status", servers.REFUSALS)
def test_a_gateway_s_refusal_is_a_problem(status, monkeypatch):
    answer = requests.Response()
    answer.status_code = status
    monkeypatch.setattr(requests, "head", lambda *_, **__: answer)
    assert servers.find_problem("http://localhost") == f"status {status}"


@pytest.mark.parametrize("page", ["page", "missing"])
def test_a_server_that_answers_is_no_problem(server, page):
    assert servers.find_problem(f"{server}/{page}") is None


def test_a_closed_port_is_a_problem_with_a_name():
    with contextlib.closing(socket.create_server(("localhost", 0))) as opened:
        port = opened.getsockname()[1]
    assert servers.find_problem(f"http://localhost:{port}") == "ConnectionError"


def test_a_server_that_says_nothing_is_a_problem(monkeypatch):
    monkeypatch.setattr(servers, "TIMEOUT_SECONDS", 1)
    with contextlib.closing(socket.create_server(("localhost", 0))) as silent:
        port = silent.getsockname()[1]
        problem = servers.find_problem(f"http://localhost:{port}")
    assert problem in ("ReadTimeout", "no answer")  # by which clock


def test_a_look_up_that_never_ends_is_a_problem(monkeypatch):
    monkeypatch.setattr(servers, "TIMEOUT_SECONDS", 0.1)
    release = threading.Event()

    def hang(*unused, **unused_options):
        release.wait()
        raise requests.ConnectionError

    monkeypatch.setattr(requests, "head", hang)
    assert servers.find_problem("http://localhost") == "no answer"
    release.set()
