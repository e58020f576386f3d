"""The files that a report writes, and the summaries that it reads again."""

import contextlib
import csv
import glob
import html
import io
import json
import os
import pathlib
import shutil
import subprocess
import sys
import types

import msgspec
import pytest
from msgspec.structs import replace
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests.reports import synthetic
from tests.support import commands
from tf_transfer import report
from tf_transfer.config import settings
from tf_transfer.reports import page as page_lib, summary as summary_lib
from tf_transfer.training import tensorboard


def call(*arguments):
    roots = [word for word in arguments if not word.startswith("--")]
    words = [word for word in arguments if word.startswith("--")]
    return commands.call(
        lambda: report.main(["report", *roots]), report.Settings, *words
    )


@pytest.fixture(scope="module")
def written(tmp_path_factory):
    """Four finished runs and a broken one, and what a report on them wrote."""
    folder = tmp_path_factory.mktemp("report")
    root = folder / "runs"
    for layers, score in (("all", 0.8), ("4", 0.78)):
        for seed in (0, 1):
            synthetic.write(
                root,
                [score - 0.1, score + seed / 100],
                trainable_layers=layers,
                seed=seed,
            )
    broken = synthetic.write(root, [0.5], seed=7)
    os.remove(os.path.join(broken, "result.json"))
    (folder / "README.md").write_text(
        "Before.\n\n<!-- generated into kept: begin -->\nstale text\n"
        f"{report.END}\n\nAfter.\n"
    )
    screen = io.StringIO()
    with contextlib.redirect_stdout(screen):
        assert call(str(root), f"--document={folder / 'README.md'}") == 0
    return types.SimpleNamespace(
        folder=folder,
        root=str(root),
        out=root / "report",
        broken=os.path.relpath(broken, root),
        screen=screen.getvalue(),
    )


def test_every_file_is_written_and_the_page_needs_no_other(written):
    assert "fine_tuning" in written.screen
    assert "last 4 scores" in " ".join(written.screen.split())
    names = {path.name for path in written.out.iterdir()}
    figures = {name for name in names if name.endswith((".png", ".svg"))}
    assert names - figures == {
        "report.md",
        "report.html",
        "tables",
        "summary.json",
    }
    assert {"glue_A_costs.png", "glue_A_costs.svg"} <= figures
    page = (written.out / "report.html").read_text()
    drawn = [name for name in figures if name.endswith(".svg")]
    assert page.count("data:image/svg+xml;base64,") == len(drawn)
    assert "http" not in page.replace("http-equiv", "")


def test_tables_are_written_for_programs_to_read(written):
    names = {path.name for path in (written.out / "tables").iterdir()}
    assert {"glue_A_approaches.csv", "runs.csv", "epochs.csv"} <= names
    with open(written.out / "tables" / "glue_A_approaches.csv") as file:
        rows = list(csv.DictReader(file))
    # Seeds 0.78 and 0.79, in points.
    assert rows[1]["approach"] == "last 4"
    assert rows[1]["test"].startswith("78.5 (")
    with open(written.out / "tables" / "runs.csv") as file:
        runs = list(csv.DictReader(file))
    assert len(runs) == 4 and {run["epochs"] for run in runs} == {"2"}


def test_every_finished_run_is_shown_or_named_with_the_reason(
    written, tmp_path
):
    """Copies, damaged and unfinished ones, and scores that are no numbers."""
    for seed in range(5):
        synthetic.write(tmp_path, [0.7], seed=seed)
    folders = sorted(glob.glob(f"{tmp_path}/glue/*/*/*"))
    shutil.copytree(folders[0], f"{folders[0]}.2")
    _edit(folders[1], "result.json", lambda text: text[: len(text) // 2])
    _edit(folders[2], "epochs.jsonl", lambda text: "")
    _edit(folders[3], "result.json", lambda text: text.replace("0.7", "NaN"))
    os.remove(f"{folders[4]}/config.json")
    finished = {
        os.path.relpath(os.path.dirname(path), tmp_path)
        for path in glob.glob(f"{tmp_path}/**/result.json", recursive=True)
    }
    assert len(finished) == 6
    out = tmp_path / "out"
    assert call(str(tmp_path), f"--out={out}") == 0
    with open(out / "tables" / "runs.csv") as file:
        shown = {row["run"] for row in csv.DictReader(file)}
    page = (out / "report.html").read_text()
    left_out = page[page.index('id="left_out"') :]
    named = {
        path
        for path in finished
        if f"<code>{html.escape(path)}</code>" in left_out
    }
    assert shown | named == finished and not shown & named
    assert len(shown) == 1
    assert "is the same run as" in left_out
    assert "result.json: is damaged (holds NaN)" in left_out
    assert "epochs.jsonl: is damaged (is not as this run wrote it)" in left_out


def _edit(folder, name, change):
    path = pathlib.Path(folder, name)
    path.write_text(change(path.read_text()))


def test_a_report_next_to_the_runs_is_not_read_as_one(written):
    page = report.compose(summary_lib.summarize_folder(written.root))
    text = (written.out / "report.md").read_text()
    assert page_lib.to_markdown(page) == text


def test_a_summary_gives_the_report_of_its_runs(written, tmp_path):
    summary = str(written.out / "summary.json")
    assert call(summary, f"--out={tmp_path}") == 0
    for name in ("report.md", "report.html", "glue_A_costs.png"):
        again = (tmp_path / name).read_bytes()
        assert again == (written.out / name).read_bytes()


def test_a_summary_has_a_line_for_each_run(written):
    path = written.out / "summary.json"
    lines = path.read_text().splitlines()
    assert sum(line.startswith('{"path":') for line in lines) == 4
    made = summary_lib.summarize_folder(written.root)
    assert summary_lib.to_json(
        summary_lib.read_summary(str(path))
    ) == summary_lib.to_json(made)


def test_what_most_runs_of_a_summary_share_is_written_once(written, tmp_path):
    """Not a number of another type, nor a field that some have not."""
    made = summary_lib.summarize_folder(written.root)
    text = summary_lib.to_json(made)
    assert text.count('"devices"') == 1
    for record, value in zip(made["runs"], (1, 1.0, True, None), strict=True):
        record.key["seed"] = value
    for record in made["runs"][1:]:
        record.key["rare"] = 3
    path = tmp_path / "summary.json"
    path.write_text(summary_lib.to_json(made))
    again = summary_lib.read_summary(str(path))
    assert summary_lib.to_json(again) == path.read_text()
    first, second = (
        json.dumps(msgspec.to_builtins(one), sort_keys=True)
        for one in (made, again)
    )
    assert first == second


@pytest.mark.slow  # reads a whole study
def test_runs_and_a_summary_of_others_are_one_report(written, tmp_path):
    """As if they had been in one folder; what both have counts once."""
    root, parts = pathlib.Path(written.root), [tmp_path / "a", tmp_path / "b"]
    for part, unwanted in zip(parts, ("last_4", "fine_tuning")):
        shutil.copytree(root, part, ignore=shutil.ignore_patterns(unwanted))
    assert call(str(parts[1])) == 0
    summary = str(parts[1] / "report" / "summary.json")
    assert call(summary, str(parts[0]), summary) == 0
    merged = summary_lib.read_summary(str(parts[0] / "report" / "summary.json"))
    whole = summary_lib.summarize_folder(written.root)
    paths = [record.path for record in whole["runs"]]
    assert sorted(record.path for record in merged["runs"]) == sorted(paths)
    assert merged["made"] == whole["made"]
    assert merged["left_out"] == json.loads(json.dumps(whole["left_out"]))


def test_runs_that_two_folders_have_count_once(written, tmp_path):
    """Whatever their paths, and if one of them is not finished."""
    whole = summary_lib.summarize_folder(written.root)
    shutil.copytree(pathlib.Path(written.root), tmp_path / "deeper" / "runs")
    deeper = summary_lib.summarize_folder(str(tmp_path / "deeper"))
    [first, *others] = whole["runs"]
    unfinished = {
        **whole,
        "runs": others,
        "left_out": [*whole["left_out"], (first.path, "is not finished")],
    }
    assert summary_lib.merge([whole, whole]) == whole
    merged = summary_lib.merge([unfinished, whole])
    assert merged["left_out"] == whole["left_out"]
    assert len(merged["runs"]) == len(whole["runs"])
    merged = summary_lib.merge([whole, deeper])
    assert merged["runs"] == whole["runs"]
    same = [why for _, why in merged["left_out"] if "is the same run" in why]
    assert len(same) == len(whole["runs"])


def test_seeds_without_a_test_score_are_not_merged_with_tested_ones(written):
    whole = summary_lib.summarize_folder(written.root)
    first = whole["runs"][0]
    key = {**first.key, "seed": 99}
    searched = replace(first, test=None, path="searched", key=key)
    other = {**whole, "runs": [searched], "left_out": []}
    for summaries in ([whole, other], [other, whole]):
        merged = summary_lib.merge(summaries)
        paths = {record.path for record in merged["runs"]}
        assert paths == {record.path for record in whole["runs"]}
        reasons = dict(merged["left_out"])
        assert reasons["searched"].startswith("has no test score")
    key["lr"] = 7e-4
    merged = summary_lib.merge([whole, other])
    assert len(merged["runs"]) == len(whole["runs"]) + 1


@pytest.mark.parametrize("name", settings.RETIRED_VALUES)
def test_a_run_with_a_retired_setting_is_named(name, tmp_path):
    value = settings.RETIRED_VALUES[name][0]
    synthetic.write(tmp_path, [0.6])
    old = synthetic.write(tmp_path, [0.6], seed=1)

    def retire(text):
        config = json.loads(text)
        config["settings"][name] = value
        return json.dumps(config)

    _edit(old, "config.json", retire)
    found = summary_lib.summarize_folder(str(tmp_path))
    assert len(found["runs"]) == 1
    assert found["left_out"] == [
        (
            os.path.relpath(old, tmp_path),
            f"was trained with --{name}={value}, which is retired",
        )
    ]


def test_tensorboard_has_the_columns(written):
    reader = event_accumulator.EventAccumulator(
        os.path.join(written.root, "overview")
    )
    reader.Reload()
    assert reader.Tags()["tensors"] == ["_hparams_/experiment"]
    [content] = reader.PluginTagToContent("hparams").values()
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    shown = [info.name.tag for info in data.experiment.metric_infos]
    assert shown == list(tensorboard.RESULT_COLUMNS)
    columns = data.experiment.hparam_infos
    assert {info.name for info in columns} == {*tensorboard.HYPERPARAMETERS}
    # TensorBoard shows five of them at once, the different ones first.
    first = sorted(columns, key=lambda info: (not info.differs, info.name))[:5]
    assert {info.name for info in first} == {*tensorboard.FIRST_COLUMNS}


def test_what_is_left_out_is_listed_with_the_reason(written):
    assert f"Not shown: {written.broken} is not finished." in written.screen
    text = (written.out / "report.html").read_text()
    assert f"<code>{written.broken}</code> is not finished" in text


def test_a_document_keeps_what_is_around_the_report(written):
    text = (written.folder / "README.md").read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n")
    assert "stale text" not in text
    assert "| last 4 |" in text
    folder = written.folder / "kept"
    assert "](kept/glue_A_costs.png)" in text
    assert (folder / "glue_A_costs.png").exists()
    summary = summary_lib.read_summary(str(folder / "summary.json"))
    assert report.fill_in(text, report.compose(summary)) == text


@pytest.mark.parametrize(
    "words, said",
    [
        (["--document={tmp}/plain.md"], "has no marks for the report"),
        (["--document={tmp}/nowhere.md"], "nowhere.md"),
    ],
)
def test_bad_input_is_named(words, said, written, tmp_path, capsys):
    (tmp_path / "plain.md").write_text("no marks\n")
    words = [word.format(tmp=tmp_path) for word in words]
    assert call(written.root, *words) == 2
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 0}', "{}"])
def test_a_file_that_is_no_summary_says_so(content, tmp_path, capsys):
    (tmp_path / "summary.json").write_text(content)
    assert call(str(tmp_path / "summary.json")) == 2
    assert "summary" in capsys.readouterr().err


# === What is loaded when ===

PROGRAM = """
import contextlib, io, sys
from absl import flags
from tf_transfer import report
from tf_transfer.config import command_line, settings
from tf_transfer.utils.errors import UserError

def print_loaded():
    names = "jinja2 matplotlib pandas scipy sklearn tensorflow"
    names = names.split()
    print("LOADED", *(name for name in names if name in sys.modules))

command_line.define_flags(report.Settings, "report")
flags.FLAGS(["report", f"--out={sys.argv[1]}/out"])
for root in ("nowhere", sys.argv[1], __import__("os").__file__):
    try:
        report.main(["report", root])
    except UserError:
        print_loaded()
with contextlib.redirect_stdout(io.StringIO()):
    report.main(["report", sys.argv[2]])
print_loaded()
"""


@pytest.mark.slow
def test_what_is_slow_to_load_is_loaded_for_a_report_alone(written, tmp_path):
    """A wrong folder, an empty one, a file that is not a summary; a report."""
    output = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path), written.root],
        capture_output=True,
        text=True,
        check=True,
        cwd=commands.ROOT,
    ).stdout
    lines = [x for x in output.splitlines() if x.startswith("LOADED")]
    assert lines[:3] == ["LOADED"] * 3
    loaded = lines[3].split()
    assert "matplotlib" in loaded and "tensorflow" not in loaded
