"""The report's files, and the documents that are made from them."""

import contextlib
import csv
import glob
import io
import json
import os
import subprocess
import sys
import types

import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests import commands
from tests.reports import synthetic
from tf_transfer import report
from tf_transfer.reports import document
from tf_transfer.reports import summary as summary_lib
from tf_transfer.training import tensorboard


def call(*arguments):
    root, *words = arguments
    return commands.call(
        lambda: report.main(["report", root]), report.define_flags, *words
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
        f"Before.\n\n{report.BEGIN}\nstale text\n{report.END}\n\nAfter.\n"
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
    figures = {"score_against_time_A", "pareto_A"}
    expected = {"report.md", "report.html", "tables.csv", "summary.json"}
    expected |= {
        f"{name}.{kind}" for name in figures for kind in ("png", "svg")
    }
    assert expected == {path.name for path in written.out.iterdir()}
    page = (written.out / "report.html").read_text()
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "http" not in page.replace("http-equiv", "")


def test_tables_are_written_for_programs_to_read(written):
    with open(written.out / "tables.csv") as file:
        rows = list(csv.DictReader(file))
    names = {row["table"] for row in rows}
    assert {"overview_A", "averages_A", "pareto_A"} <= names
    second = {
        row["column"]: row
        for row in rows
        if (row["table"], row["row"]) == ("overview_A", "2")
    }
    # Seeds 0.78 and 0.79, in points.
    assert second["score"]["value"] == "78.50"
    assert second["score"]["deviation"] == "0.71"
    assert second["trains"]["text"] == "last 4"


def test_a_report_beside_the_runs_is_not_read_as_one(written):
    parts = report.compose(summary_lib.summarize_folder(written.root))
    text = (written.out / "report.md").read_text()
    assert document.to_markdown(parts) == text


def test_a_summary_gives_the_report_of_its_runs(written, tmp_path):
    summary = str(written.out / "summary.json")
    assert call(summary, f"--out={tmp_path}") == 0
    for name in ("report.md", "report.html", "tables.csv", "pareto_A.png"):
        again = (tmp_path / name).read_bytes()
        assert again == (written.out / name).read_bytes()


def test_a_summary_has_a_line_for_each_run(written):
    path = written.out / "summary.json"
    lines = path.read_text().splitlines()
    assert sum('"approach":' in line for line in lines) == 4
    made = summary_lib.summarize_folder(written.root)
    assert summary_lib.read(str(path)) == json.loads(json.dumps(made))


def test_tensorboard_has_the_figures_and_the_columns(written):
    reader = event_accumulator.EventAccumulator(
        os.path.join(written.root, "overview")
    )
    reader.Reload()
    assert set(reader.Tags()["tensors"]) == {
        "score_against_time_A",
        "pareto_A",
        "_hparams_/experiment",
    }
    [picture] = reader.Tensors("pareto_A")
    assert picture.tensor_proto.string_val[2].startswith(b"\x89PNG")
    [content] = reader.PluginTagToContent("hparams").values()
    data = plugin_data_pb2.HParamsPluginData.FromString(content)
    shown = [info.name.tag for info in data.experiment.metric_infos]
    assert shown == list(tensorboard.RESULT_COLUMNS)


def test_what_is_left_out_is_listed_with_the_reason(written):
    assert f"Not shown: {written.broken} is not finished." in written.screen
    text = (written.out / "report.md").read_text()
    assert f"- `{written.broken}` is not finished" in text


def test_a_document_keeps_what_is_around_the_report(written):
    text = (written.folder / "README.md").read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n")
    assert "stale text" not in text
    assert "| rte | last 4 |" in text
    assert (written.folder / "pareto_A.png").exists()
    summary = summary_lib.read(str(written.folder / "summary.json"))
    assert report.replace_generated(text, report.compose(summary)) == text


@pytest.mark.parametrize(
    "words, said",
    [
        (["--budgets=soon"], "--budgets=soon"),
        (["--budgets=0"], "--budgets=0"),
        (["--document={tmp}/plain.md"], "has no marks for the report"),
        (["--document={tmp}/nowhere.md"], "nowhere.md"),
    ],
)
def test_bad_input_is_named(words, said, written, tmp_path, capsys):
    (tmp_path / "plain.md").write_text("no marks\n")
    words = [word.format(tmp=tmp_path) for word in words]
    assert call(written.root, *words) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 0}', "{}"])
def test_a_file_that_is_no_summary_says_so(content, tmp_path, capsys):
    (tmp_path / "summary.json").write_text(content)
    assert call(str(tmp_path / "summary.json")) == 1
    assert "summary" in capsys.readouterr().err


# === What is loaded when ===

PROGRAM = """
import contextlib, io, sys
from absl import flags
from tf_transfer import report
from tf_transfer.utils.errors import UserError

def print_loaded():
    names = "matplotlib pandas scipy sklearn keras tensorflow".split()
    print("LOADED", *(name for name in names if name in sys.modules))

report.define_flags()
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


# === The documents of this repository ===

GENERATED = sorted(
    os.path.relpath(path, commands.ROOT)
    for path in glob.glob(os.path.join(commands.ROOT, "experiments/*/*.md"))
    if report.BEGIN in open(path).read()
)


def test_there_are_generated_documents():
    folders = {os.path.dirname(name) for name in GENERATED}
    assert "experiments/glue" in folders


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_document_is_not_stale(name):
    path = os.path.join(commands.ROOT, name)
    folder = os.path.dirname(path)
    summary = summary_lib.read(os.path.join(folder, "summary.json"))
    parts = report.compose(summary, os.path.join(commands.ROOT, "experiments"))
    text = open(path).read()
    assert report.replace_generated(text, parts) == text
    for part in parts:
        if isinstance(part, document.Figure):
            assert os.path.exists(os.path.join(folder, f"{part.name}.png"))


def test_the_summaries_that_are_kept_name_no_folder_of_a_machine():
    for name in glob.glob(
        os.path.join(commands.ROOT, "experiments", "*", "summary.json")
    ):
        text = json.dumps(json.load(open(name)))
        assert "/work" not in text and "/tmp" not in text
        assert "/root" not in text and "/home" not in text
