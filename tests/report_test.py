"""The report's files, and the documents that are made from them."""

import csv
import glob
import json
import os

import pytest
from tensorboard.backend.event_processing import event_accumulator
from tensorboard.plugins.hparams import plugin_data_pb2

from tests import commands
from tests.reports import synthetic
from tf_transfer import report
from tf_transfer.reports import document
from tf_transfer.reports import summary as summary_lib
from tf_transfer.training import tensorboard


@pytest.fixture
def runs(tmp_path):
    for layers, score in (("all", 0.8), ("4", 0.78)):
        for seed in (0, 1):
            synthetic.write(
                tmp_path / "runs",
                [score - 0.1, score + seed / 100],
                trainable_layers=layers,
                seed=seed,
            )
    return str(tmp_path / "runs")


def call(*arguments):
    root, *words = arguments
    return commands.call(
        lambda: report.main(["report", root]), report.define_flags, *words
    )


def test_every_file_is_written_and_the_page_needs_no_other(runs, capsys):
    assert call(runs) == 0
    assert "fine_tuning" in capsys.readouterr().out
    out = os.path.join(runs, "report")
    names = {os.path.basename(p) for p in glob.glob(f"{out}/*")}
    figures = {"score_against_time_A", "pareto_A"}
    expected = {"report.md", "report.html", "tables.csv", "summary.json"}
    expected |= {
        f"{name}.{kind}" for name in figures for kind in ("png", "svg")
    }
    assert expected == names
    page = open(os.path.join(out, "report.html")).read()
    assert page.count("data:image/svg+xml;base64,") == 2
    assert "http" not in page.replace("http-equiv", "")
    with open(os.path.join(out, "tables.csv")) as file:
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
    # Again, with its own files below the runs: the same report.
    before = open(os.path.join(out, "report.md")).read()
    assert call(runs) == 0
    assert open(os.path.join(out, "report.md")).read() == before


def test_a_summary_gives_the_report_of_its_runs(runs, tmp_path):
    assert call(runs, f"--out={tmp_path / 'one'}") == 0
    summary = str(tmp_path / "one" / "summary.json")
    assert call(summary, f"--out={tmp_path / 'other'}") == 0
    for name in ("report.md", "report.html", "tables.csv", "pareto_A.png"):
        one = (tmp_path / "one" / name).read_bytes()
        assert one == (tmp_path / "other" / name).read_bytes()


def test_a_summary_has_a_line_for_each_run(runs, tmp_path):
    made = summary_lib.make(runs)
    path = tmp_path / "summary.json"
    path.write_text(summary_lib.as_text(made))
    lines = path.read_text().splitlines()
    assert sum('"approach":' in line for line in lines) == len(made["runs"])
    assert summary_lib.read(str(path)) == json.loads(json.dumps(made))


def test_tensorboard_has_the_figures_and_the_columns(runs):
    assert call(runs) == 0
    reader = event_accumulator.EventAccumulator(os.path.join(runs, "overview"))
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


def test_what_is_left_out_is_listed_with_the_reason(runs, capsys):
    broken = synthetic.write(runs, [0.5], seed=7)
    os.remove(os.path.join(broken, "result.json"))
    assert call(runs) == 0
    path = os.path.relpath(broken, runs)
    assert f"Not shown: {path} is not finished." in capsys.readouterr().out
    text = open(os.path.join(runs, "report", "report.md")).read()
    assert f"- `{path}` is not finished" in text


@pytest.mark.parametrize(
    "words, said",
    [
        (["--budgets=soon"], "--budgets=soon"),
        (["--budgets=0"], "--budgets=0"),
        (["--document={tmp}/plain.md"], "has no generated part"),
        (["--document={tmp}/nowhere.md"], "nowhere.md"),
    ],
)
def test_bad_input_is_named(words, said, runs, tmp_path, capsys):
    (tmp_path / "plain.md").write_text("no marks\n")
    words = [word.format(tmp=tmp_path) for word in words]
    assert call(runs, *words) == 1
    assert said in capsys.readouterr().err


@pytest.mark.parametrize("content", ["{", "[]", '{"version": 0}', "{}"])
def test_a_file_that_is_no_summary_says_so(content, tmp_path, capsys):
    (tmp_path / "summary.json").write_text(content)
    assert call(str(tmp_path / "summary.json")) == 1
    assert "summary" in capsys.readouterr().err


def test_a_document_keeps_what_is_around_its_generated_part(runs, tmp_path):
    path = tmp_path / "README.md"
    path.write_text(
        f"Before.\n\n{report.BEGIN}\nstale part\n{report.END}\n\nAfter.\n"
    )
    assert call(runs, f"--document={path}") == 0
    text = path.read_text()
    assert text.startswith("Before.\n") and text.endswith("\nAfter.\n")
    assert "stale part" not in text
    assert "| rte | last 4 |" in text
    assert (tmp_path / "pareto_A.png").exists()
    summary = summary_lib.read(str(tmp_path / "summary.json"))
    assert report.with_generated(text, report.compose(summary)) == text


# === The documents of this repository ===

GENERATED = sorted(
    os.path.relpath(path, commands.ROOT)
    for path in glob.glob(
        os.path.join(commands.ROOT, "experiments/*/README.md")
    )
    if report.BEGIN in open(path).read()
)


def test_there_are_generated_documents():
    assert "experiments/glue/README.md" in GENERATED


@pytest.mark.parametrize("name", GENERATED)
def test_a_generated_document_is_not_stale(name):
    path = os.path.join(commands.ROOT, name)
    folder = os.path.dirname(path)
    summary = summary_lib.read(os.path.join(folder, "summary.json"))
    parts = report.compose(summary, os.path.join(commands.ROOT, "experiments"))
    text = open(path).read()
    assert report.with_generated(text, parts) == text
    for part in parts:
        if isinstance(part, document.Figure):
            assert os.path.exists(os.path.join(folder, f"{part.name}.png"))


def test_the_summaries_that_are_kept_name_no_place_of_a_machine():
    for name in glob.glob(
        os.path.join(commands.ROOT, "experiments", "*", "summary.json")
    ):
        text = json.dumps(json.load(open(name)))
        assert "/work" not in text and "/tmp" not in text
        assert "/root" not in text and "/home" not in text
