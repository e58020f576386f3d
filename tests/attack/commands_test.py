"""Commands with hostile flags, files of texts and grids: an answer in two
lines, no traceback, and nothing written outside of the given folders."""

import collections
import contextlib
import dataclasses
import io
import json
import os
import pathlib
import shutil
import time

import pytest

from tests.attack import damage
from tests.support import commands, cs224n_runs, stacking_data, tweets_table
from tf_transfer import experiment, search, sweep
from tf_transfer.config import command_line
from tf_transfer.data import glue as glue_data
from tf_transfer.searches.controller import Search
from tf_transfer.utils.errors import UserError

VALUES = (
    "",
    " ",
    "0",
    "1",
    "-1",
    "00000001",
    "٣",
    "1e9",
    "1e-400",
    "nan",
    "inf",
    "-inf",
    "2147483648",
    "9223372036854775807",
    "12345678901234567890",
    "9" * 400,
    "0x10",
    "1_000",
    "None",
    "true",
    "../../x",
    "/tmp/x",
    "a/b",
    "..",
    ".",
    "a\nb",
    "<b>|`](x)",
    "%s{}${x}",
    "é\u202e",
    "\ud800",
    "x" * 300,
    "=1+1",
    "all",
    "7-8",
    "8-7",
    "undefined",
    "utf-16",
    "base64_codec",
    "idna",
    "rte",
    "tfds",
    "sample",
    "minilm",
    "cached",
    "--seed=1",
)


class Ready(Exception):
    """A command would now load TensorFlow: nothing is wrong with it."""


@pytest.fixture(autouse=True)
def no_tensorflow(monkeypatch):
    """Commands end where they would load TensorFlow."""

    def stop():
        raise Ready

    monkeypatch.setattr(command_line, "import_tensorflow", stop)
    monkeypatch.setattr(experiment.Experiment, "describe", lambda self: stop())


def call(main, define, *words):
    """The exit code, "ready" where it would train; and what it printed."""
    printed = io.StringIO()
    with (
        contextlib.redirect_stdout(printed),
        contextlib.redirect_stderr(printed),
    ):
        try:
            code = commands.call(main, define, *words)
        except Ready:
            code = "ready"
    return code, printed.getvalue()


def settings_class(name):
    """The settings of an experiment, or of a search."""
    return (
        search.Settings if name == "search" else experiment.load(name).Settings
    )


def run_experiment(name, *words):
    """As the command of an experiment, flags that absl refuses included."""

    def main():
        settings = command_line.parse(settings_class(name), words)
        if name == "search":
            # As after a ranking of --models.
            settings = dataclasses.replace(settings.resolve(), models="")
            Search(settings.resolve(), time.monotonic())
        else:  # one run, of a study as well
            experiment.Experiment.execute(experiment.load(name)(settings))

    return call(main, lambda: None)


def assert_two_lines(code, printed, words):
    assert code in (0, 1, 2, "ready"), words
    if code in (1, 2):
        lines = printed.strip().splitlines()
        errors = [line for line in lines if line.startswith("error: ")]
        assert len(errors) == 1, (words, printed)
        after = lines[lines.index(errors[0]) :]
        # Rows that cannot be used are listed, up to ten.
        most = 12 if "rows cannot be used" in errors[0] else 2
        assert len(after) <= most and "Traceback" not in printed, printed


def files_below(folder):
    return {str(path) for path in pathlib.Path(folder).rglob("*")}


@pytest.fixture
def data(tmp_path):
    """The texts of each experiment, as the value of its `--data`."""
    data = {"glue": "sample", "freezing": "sample", "train": "sample"}
    data["search"] = "sample"
    data["tweets"] = tweets_table.write(tmp_path)
    for name, write in (
        ("multitask", cs224n_runs.write_all),
        ("stacking", stacking_data.write_conll),
    ):
        (tmp_path / name).mkdir()
        write(tmp_path / name)
        data[name] = str(tmp_path / name)
    return data


def draw_valid(rng, field):
    """A value of a setting that its own bounds allow; None for most texts."""
    about = field.metadata
    if about["choices"]:
        return rng.choice(about["choices"])
    if field.type is bool:
        return rng.choice(("true", "false"))
    if field.type in (int, float):
        low = about["at_least"] or 1
        values = [low, 2, 3] if field.type is int else [low, 0.1, 0.5]
        return rng.choice(values)
    return None


def test_hostile_flags_get_an_answer(
    attempts, rng, tmp_path, monkeypatch, data
):
    """Commands with at most one value that no one means; others are valid."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.chdir(home)
    out, cache = tmp_path / "out", tmp_path / "cache"
    before = files_below(tmp_path)
    ready = collections.Counter()
    for _ in range(attempts(4000)):
        name = rng.choice(sorted(data))
        fields = {
            field.name: field
            for field in command_line.list_flags(settings_class(name))
        }
        words = {"model": "tiny", "data": data[name], "out": str(out)}
        words |= {"cache_dir": str(cache)}
        # Of strategies, counting the replicas takes TensorFlow.
        free = sorted({*fields} - {*words, "strategy"})
        if name in ("train", "search"):
            words["task"] = "sst2"
        if name == "freezing":
            words["lr"] = "1e-3"  # without it, it is a study
        if name == "search":
            words |= {"budget": "30s", "validation_fraction": "0.7"}
        hostile, *others = rng.sample(free, 2)
        for field in others:
            value = draw_valid(rng, fields[field])
            if value is not None:
                words.setdefault(field, value)
        if rng.random() < 0.7:
            words[hostile] = rng.choice(VALUES)
        words = [f"--{flag}={value}" for flag, value in words.items()]
        code, printed = run_experiment(name, *words)
        assert_two_lines(code, printed, words)
        ready[name] += code not in (1, 2)  # a search plans without TensorFlow
        written = files_below(tmp_path) - before
        allowed = (str(out), str(cache))
        assert all(path.startswith(allowed) for path in written), words
        assert not os.listdir(home), words
    assert ready.keys() == data.keys() and min(ready.values()) > 0, ready
    # A command that its flags refuse tries little.
    assert attempts(1000) <= ready.total() < attempts(4000), ready


# === Files of texts ===


def inputs(folder):
    """What an experiment reads: its name, flags, and the files."""
    shutil.copytree(glue_data.SAMPLE, folder / "glue")
    yield (
        "glue",
        f"--data={folder / 'glue'}",
        sorted((folder / "glue" / "RTE").iterdir()),
    )
    for name, write in (
        ("multitask", cs224n_runs.write_all),
        ("stacking", stacking_data.write_conll),
    ):
        (folder / name).mkdir()
        write(folder / name)
        yield name, f"--data={folder / name}", sorted((folder / name).iterdir())
    (folder / "mine").mkdir()
    yield (
        "train",
        write_task(folder / "mine"),
        sorted((folder / "mine").iterdir()),
    )
    table = pathlib.Path(tweets_table.write(folder))
    yield "tweets", f"--data={table}", [table]


def write_task(folder):
    """Writes a task file of one's own, and its texts; the flag for it."""
    rows = [
        {"text": f"{('good', 'bad')[n % 2]} number {n}", "team": "ab"[n % 2]}
        for n in range(40)
    ]
    (folder / "mine.jsonl").write_text("\n".join(map(json.dumps, rows)))
    (folder / "other.csv").write_text("text,team\none,a\ntwo,b\n")
    (folder / "mine.toml").write_text(
        'name = "mine"\ntexts = ["text"]\nlabel = "team"\n'
        'kind = "classes"\ntrain = "mine.jsonl"\nvalidation = 0.2\n'
        'test = "other.csv"\nlabels = ["a", "b"]\nencoding = "utf-8"\n'
    )
    return f"--task={folder / 'mine.toml'}"


CELLS = (
    b"[" * 5000,
    b'{"text": 1, "team": []}',
    b'name = ".."',
    b'"',
    b"\t",
    b"\n",
    b"\r",
    b"\n\n",
    b",",
    b"\x00",
    b"\xff",
    b"\xef\xbb\xbf",
    b"\xe2\x80\xa8",
    b"=1+1",
    b"I-PER",
    b"B-",
    b"nan",
    b"1e999",
    b"9" * 400,
    b"x" * 5000,
)


def damage_text(rng, content):
    """Bytes in which lines and cells are missing, twice, or something else."""
    if rng.random() < 0.4:
        return damage.damage_bytes(rng, content)
    lines = content.split(b"\n")
    for _ in range(rng.choice((1, 1, 3))):
        at = rng.randrange(len(lines))
        kind = rng.randrange(5)
        if kind == 0:
            del lines[at:]
        elif kind == 1:
            lines.insert(at, rng.choice(lines))
        elif kind == 2:
            middle = rng.randrange(len(lines[at]) + 1)
            cell = rng.choice(CELLS)
            lines[at] = lines[at][:middle] + cell + lines[at][middle:]
        elif kind == 3:
            lines[at] = rng.choice(CELLS)
        else:
            rng.shuffle(lines)
        if not lines:
            return b""
    return b"\n".join(lines)


def test_hostile_texts_are_read_or_refused_with_file_and_line(
    attempts, rng, tmp_path
):
    kinds = [*inputs(tmp_path)]
    out = tmp_path / "out"
    refused = 0
    for _ in range(attempts(3000)):
        name, data, files = rng.choice(kinds)
        path = rng.choice(files)
        content = path.read_bytes()
        path.write_bytes(damage_text(rng, content))
        words = ["--model=tiny", data, f"--out={out}"]
        words += [f"--cache_dir={tmp_path / 'cache'}"]
        if name == "tweets":
            words.append("--id_column=number")
        code, printed = run_experiment(name, *words)
        damaged = path.read_bytes()
        path.write_bytes(content)
        assert_two_lines(code, printed, (words, path, damaged))
        if code in (1, 2):
            refused += 1
            assert len(printed) < 4000, printed  # ten rows are listed
    assert 0 < refused < attempts(3000)


# === Grids ===


def test_a_hostile_grid_is_expanded_or_refused(attempts, rng, tmp_path):
    path = tmp_path / "grid.json"
    whole = {
        "experiment": "glue",
        "flags": {"model": "tiny", "data": "sample"},
        "best_of": "lr",
        "search": [{"lr": [1e-3, 1e-4], "trainable_layers": ["all"]}],
        "axes": {"lr": [1e-3, 1e-4], "trainable_layers": ["all", 1]},
        "folder": "some",
    }
    content = json.dumps(whole).encode()
    for _ in range(attempts(1500)):
        if rng.random() < 0.3:
            path.write_bytes(damage.damage_bytes(rng, content))
        else:
            path.write_bytes(damage.damage_json(rng, content))
            if rng.random() < 0.5:
                with contextlib.suppress(ValueError, RecursionError):
                    again = damage.damage_json(rng, path.read_bytes())
                    path.write_bytes(again)
        words = ["--dry_run", f"--out={tmp_path / 'out'}"]
        code, printed = call(
            lambda: sweep.main(["sweep", str(path)]), sweep.Settings, *words
        )
        assert_two_lines(code, printed, path.read_bytes())
    for written in files_below(tmp_path) - {str(path)}:
        assert written.startswith(str(tmp_path / "out"))


def test_a_huge_grid_is_refused_at_once(tmp_path):
    axes = {"seed": list(range(1000)), "split_seed": list(range(1000))}
    grid = {"experiment": "glue", "axes": axes | {"lr": [1e-3, 1e-4]}}
    path = tmp_path / "grid.json"
    path.write_text(json.dumps(grid))
    code, printed = call(
        lambda: sweep.main(["sweep", str(path)]), sweep.Settings
    )
    assert code == 2 and "has 2,000,000 combinations" in printed
    assert "--yes" in printed


def test_a_task_named_as_a_path_is_refused(tmp_path):
    for task in ("/tmp/x", "../../..", "a/b", "..", "a\nb"):
        words = (f"--task={task}", "--data=x", f"--out={tmp_path}")
        with pytest.raises(UserError, match="becomes a folder's name"):
            cls = experiment.load("tweets")
            cls(command_line.parse(cls.Settings, words))
