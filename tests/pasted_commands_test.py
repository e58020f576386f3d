"""A shell reads the words of a printed command as they are meant."""

import ast
import json
import pathlib
import re
import subprocess
import types

import pytest

from tests.support import commands, own_data
from tf_transfer import train
from tf_transfer.data.task import Task
from tf_transfer.reports import reading
from tf_transfer.runs import model_card, run_comparison
from tf_transfer.searches import answer
from tf_transfer.searches.settings import Settings
from tf_transfer.sweeps import grid, worker
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

NAME = 'it\'s $HOME; "a" `b` \\ * [c]? é & > <'
# What only a command with the user's own values has.
OFFERED = re.compile("python3? -m|pip install|tensorboard --")


@pytest.fixture(params=["sh", "bash", "dash"])
def paste(request, tmp_path):
    """Returns the words behind the program of a line that a shell reads."""
    folder = tmp_path / "bin"
    folder.mkdir()
    for name in ("python", "tensorboard"):
        program = folder / name
        program.write_text("#!/bin/sh\nprintf '%s\\0' \"$@\"\n")
        program.chmod(0o755)

    def paste(line):
        output = subprocess.run(
            [request.param, "-c", line],
            capture_output=True,
            check=True,
            env={"PATH": f"{folder}:/usr/bin:/bin", "HOME": "/wrong"},
            cwd=tmp_path,
        ).stdout
        return output.decode().split("\0")[:-1]

    return paste


@pytest.mark.parametrize("name", [NAME, "a b", "$(touch x)", "~", "", "a\nb"])
def test_a_quoted_command_has_its_words(name, paste):
    words = ["-m", "tf_transfer.predict", f"--run={name}", name]
    assert paste(formatting.quote_command("python", *words)) == words


def test_every_printed_command_is_quoted(paste, tmp_path):
    folder = tmp_path / NAME
    folder.mkdir()
    task = Task("mine", "", ("a", "b"), "c", ("x", "y"), "accuracy")
    texts = ["--text=...", "--text=..."]
    predict = ["-m", "tf_transfer.predict", f"--run={folder}", *texts]
    command = run_comparison._predict_command(str(folder), task).splitlines()[0]
    assert paste(command) == predict
    # The card of an export.
    path = "lib/tf_transfer/train.py"
    predictor = types.SimpleNamespace(
        experiment=types.SimpleNamespace(command_module="tf_transfer.train")
    )
    config = {"starts": [{"command": [path, f"--data={folder}"]}]}
    command = model_card._find_command(predictor, config)
    assert paste(command) == ["-m", "tf_transfer.train", f"--data={folder}"]
    # A grid that names what belongs to the sweep.
    content = {"experiment": "glue", "flags": {"out": "a"}}
    path = folder / "grid.json"
    path.write_text(json.dumps(content))
    with pytest.raises(UserError) as error:
        grid.read_grid(str(path))
    command = str(error.value).partition("grid: ")[2]
    assert paste(command) == ["-m", "tf_transfer.sweep", str(path), "--out=..."]
    # The failed runs of a sweep, in a report.
    failed = folder / ".sweep" / "failed"
    failed.mkdir(parents=True)
    words = ["-m", "tf_transfer.train", f"--data={folder}"]
    content = {"command": ["python", *words], "reason": "x", "last_lines": []}
    (failed / "a.json").write_text(json.dumps(content))
    [line] = reading.list_failed(str(folder))
    assert paste(line.removesuffix(": x")) == words


def test_the_commands_of_a_search_are_quoted(paste, tmp_path):
    folder = tmp_path / NAME
    folder.mkdir()
    path = own_data.write_task(folder)
    out = str(folder / "out")
    settings = Settings(task=path, model="tiny", out=out, budget="90s")
    made = train.Train(train.Settings(task=path, model="tiny", out=out))
    model = types.SimpleNamespace(
        experiment=made, directory=types.SimpleNamespace(path=out)
    )
    search = types.SimpleNamespace(settings=settings.resolve())
    found = answer._list_commands(search, model)
    words = paste(found[answer.MORE])
    assert {f"--task={path}", f"--out={out}", "--budget=180s"} < {*words}
    assert f"--run={out}" in paste(found[answer.PREDICT])


def test_the_command_in_the_log_of_a_worker_is_quoted(
    paste, tmp_path, monkeypatch
):
    log = tmp_path / NAME
    order = worker.Order("tf_transfer.train", (f"--out={log}",), str(log))
    monkeypatch.setattr(worker.Worker, "_try", lambda *_: "finished")
    worker.Worker(lambda message: None).do(order)
    command = "python" + log.read_text().partition(" python")[2].rstrip("\n")
    assert paste(command) == ["-m", "tf_transfer.train", f"--out={log}"]


def test_no_command_is_put_together_in_another_way():
    """A value inside of a text would not be quoted."""
    for path in pathlib.Path(commands.ROOT, "tf_transfer").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.JoinedStr):
                text = "".join(
                    part.value if isinstance(part, ast.Constant) else "\0"
                    for part in node.values
                )
                assert not (found := OFFERED.search(text)) or (
                    "\0" not in text[found.start() :].partition("'")[0]
                ), f"{path}:{node.lineno}: {text!r}"
