"""The server of docs/guides/serve.md answers as the run does."""

import http.server
import json
import pathlib
import re
import threading
import types
import urllib.request

from tests.support import commands
from tf_transfer import experiment


def test_the_lines_of_the_page_answer_a_list_of_texts(monkeypatch):
    predictor = types.SimpleNamespace(
        answer=lambda texts: [(text.upper(), 0.5) for text in texts]
    )
    run = types.SimpleNamespace(predictor=lambda: predictor)
    monkeypatch.setattr(experiment, "open_run", {"DIR": run}.__getitem__)
    page = pathlib.Path(commands.ROOT, "docs", "guides", "serve.md").read_text()
    [code] = re.findall(r"```python\n(import http\.server\n.*?)```", page, re.S)
    code = code.replace("8000", "0").replace(".serve_forever()", "")
    names = {"Server": http.server.HTTPServer}
    exec(code.replace("http.server.HTTPServer(", "server = Server("), names)
    server = names["server"]
    thread = threading.Thread(target=server.handle_request)
    thread.start()
    url = f"http://127.0.0.1:{server.server_port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, json.dumps(["a", "b"]).encode()) as response:
        assert json.load(response) == [["A", 0.5], ["B", 0.5]]
    thread.join()
    server.server_close()
