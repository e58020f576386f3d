"""A search as a user starts it, on `tiny`: real workers, kill -9, an export."""

import json
import os
import re
import signal
import subprocess
import sys
import time

import pytest

from tests.searches import fake_runs
from tests.support import commands
from tf_transfer.training import run_paths

pytestmark = pytest.mark.slow
SECONDS = 75


def start(folder, *words, budget=f"{SECONDS}s"):
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "tf_transfer.search"),
            f"--task={folder / 'news.toml'}",
            "--model=tiny",
            "--approaches=1,2",
            "--max_length=16",
            f"--out={folder / 'out'}",
            f"--cache_dir={folder / 'cache'}",
            f"--budget={budget}",
            *words,
        ],
        cwd=commands.ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def results(folder):
    return sorted((folder / "out").glob("train/**/result.json"))


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    """A search that is killed by kill -9 and started again."""
    folder = tmp_path_factory.mktemp("search")
    fake_runs.write_task(folder)
    killed = start(folder)
    for line in killed.stdout:
        if "last 1, fold 1" in line:
            break
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    finished = [json.loads(path.read_text()) for path in results(folder)]
    search = start(folder)
    said, _ = search.communicate()
    assert search.returncode == 0, said
    return folder, finished, said


def test_a_killed_search_resumes_with_its_runs(searched):
    folder, finished, said = searched
    assert len(finished) >= 2  # TF-IDF, and a run
    after = {path: json.loads(path.read_text()) for path in results(folder)}
    for result in finished:
        [same] = [
            other
            for other in after.values()
            if other["key_sha256"] == result["key_sha256"]
        ]
        assert same["epochs_run"] >= result["epochs_run"]
    assert "the TF-IDF baseline, fold 1 " not in said


def test_the_answer_predicts(searched):
    folder, _, said = searched
    [run] = re.findall(r"--run=(\S+) --text", said)
    assert os.path.samefile(run_paths.find_answer(f"{folder}/out"), run)
    code, out, err = commands.finish(
        commands.start("predict", f"--run={run}", "--text=match goal team")
    )
    assert code == 0, err
    assert out.splitlines()[1].split(",")[1] in ("sports", "money", "space")


def read_spent(path):
    """The seconds that a search has noted; 0 before it has."""
    return json.loads(path.read_text())["spent"] if path.exists() else 0.0


def test_a_search_that_is_killed_at_once_has_spent_its_time(tmp_path):
    fake_runs.write_task(tmp_path)
    path, spent = tmp_path / "out" / ".search" / "search.json", 0.0
    for _ in range(2):
        began = time.monotonic()
        search = start(tmp_path, budget="10m")
        while not (locks := [*(tmp_path / "out").glob(".sweep/*.lock")]):
            assert search.poll() is None
            time.sleep(0.05)
        before = spent
        while not (spent := read_spent(path)) > before:
            assert search.poll() is None
            time.sleep(0.05)
        search.kill()
        search.communicate()
        locks[0].unlink()
        assert before < spent < before + time.monotonic() - began


def test_ctrl_c_gives_the_answer_so_far(tmp_path):
    fake_runs.write_task(tmp_path)
    search = start(tmp_path, budget="10m")
    for line in search.stdout:
        if "last 1, fold 1" in line:
            break
    search.send_signal(signal.SIGINT)
    said, _ = search.communicate()
    assert search.returncode == 0, said
    assert "Stopped: the answer so far." in said
    assert " runs of " in said and "To predict: " in said
