"""docs/papers/freezing.md says what runs and grids do, and shows."""

import itertools
import os
import re

from tests.support import commands
from tf_transfer.config import command_line
from tf_transfer.data import glue
from tf_transfer.freezing import curves, experiment as freezing
from tf_transfer.reports import claims, summary as summary_lib
from tf_transfer.sweeps import grid as grid_lib

FOLDER = os.path.join(commands.ROOT, "experiments", "freezing")


def read_choices():
    """The rows of the page's table of choices, by setting."""
    path = os.path.join(commands.ROOT, "docs", "papers", "freezing.md")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip("| \n").split(" | ") for line in file]
    return {line[0]: line[1] for line in lines if len(line) == 3}


def test_the_page_says_what_the_command_does():
    said = read_choices()
    settings = command_line.parse(freezing.Settings, ()).resolve()
    assert f"{settings.max_length} tokens" in said["longest text"]
    assert said["encoders"] == "BERT uncased"
    assert settings.model == "bert_base_en_uncased"
    assert said["learning rate"].endswith(f"a run has {settings.lr:g}")
    grid = grid_lib.read_grid(os.path.join(FOLDER, "bert_base.json"))
    seeds, rates = grid.axes["seed"], grid.axes["lr"]
    assert seeds == grid.search["seed"] == [*range(5)]
    assert said["trials"] == "5, with seeds 0 to 4"
    assert rates == grid.search["lr"] == [n / 1e5 for n in range(1, 6)]
    assert said["WNLI"].startswith("`bert_base.json`")
    assert "wnli" in grid.axes["task"]
    words = {"matthews": "Matthews", "f1": "F1", "spearman": "Spearman"}
    for task in glue.TASKS.values():
        metric = words.get(task.metric)
        pattern = f"{metric}[^,]*{task.folder}" if metric else "for the others"
        assert re.search(pattern, said["metrics"]), task.name
    parts = claims.read_published(
        os.path.join(commands.ROOT, "experiments"), "freezing"
    )["parameters"]
    for size in ("base", "large"):
        bert, roberta = parts[f"bert-{size}"][0], parts[f"roberta-{size}"][0]
        assert f"{100 * (roberta / bert - 1):.1f} %" in said["embeddings"]


def test_the_page_names_the_output_of_the_runs_that_it_shows():
    """Runs of before the softmax have none in their key, nor has a probe."""
    kept = summary_lib.read_summary(os.path.join(FOLDER, "summary.json"))
    keys = [run.key for run in kept["runs"] if run.approach != "probe"]
    heads = {key.get("loss_head", "sigmoid") for key in keys}
    path = os.path.join(commands.ROOT, "docs", "papers", "freezing.md")
    with open(path, encoding="utf-8") as file:
        results = file.read().split("## The study")[1].split("\n## ")[0]
    is_said = "`--loss_head=sigmoid`" in results
    assert is_said == (
        heads != {command_line.parse(freezing.Settings, ()).resolve().loss_head}
    )


def describe(model, task, approach, cached, lr, seed, validation_fraction):
    """What tells the runs of a freezing study apart."""
    if approach == "probe":
        return model, task, approach
    return model, task, approach, cached, lr, seed, validation_fraction


def test_the_small_grids_have_the_runs_that_the_page_shows(
    monkeypatch, tmp_path
):
    monkeypatch.chdir(commands.ROOT)
    search, waiting = set(), set()
    for name in ("embedded", "embedded_mpnet", "embedded_probe"):
        path = f"experiments/freezing/{name}.json"
        for run in grid_lib.expand_all(path, str(tmp_path)):
            settings = run.settings
            (waiting if run.searched else search).add(
                describe(
                    settings.model,
                    settings.task,
                    settings.approach,
                    settings.runs_cached,
                    settings.lr,
                    settings.seed,
                    settings.validation_fraction,
                )
            )
    kept = summary_lib.read_summary(os.path.join(FOLDER, "summary.json"))
    shown = {
        describe(
            run.model,
            run.task,
            run.approach,
            run.cached,
            run.lr,
            run.seed,
            run.key.get("validation_fraction", 0.0),
        )
        for run in kept["runs"]
    }
    assert len(shown) == len(kept["runs"]) == 276
    assert search <= shown <= search | waiting
    # The search keeps one rate of five.
    assert 5 * len(shown - search) == len(waiting)


# Published full models without frozen trials, which the page names.
NOT_FILLED = {
    *(("roberta-base", "WNLI"), ("bert-large", "WNLI")),
    *(("roberta-large", task) for task in ("QQP", "MNLI", "QNLI", "WNLI")),
}


def list_cells(path):
    """The encoder, task and trained blocks of each number that a grid has."""
    grid = grid_lib.read_grid(path)
    blocks = grid.axes
    for axes in blocks if isinstance(blocks, list) else [blocks]:
        with open(os.path.join(commands.ROOT, grid.flagfile)) as file:
            flags = re.findall(r"--model=(\w+)", file.read())
        [model] = axes.get("model", flags)
        tasks = [curves.TITLES[task] for task in axes["task"]]
        numbers = map(str, axes["trainable_layers"])
        yield from itertools.product([curves.ENCODERS[model]], tasks, numbers)


def test_the_grids_fill_the_published_cells_but_those_that_the_page_names():
    published = claims.read_published(os.path.dirname(FOLDER), "freezing")
    wanted = {
        (encoder, task, number)
        for encoder, tasks in published["scores"].items()
        for task, numbers in tasks.items()
        for number in numbers
    }
    wanted |= {
        (encoder, task, "all")
        for encoder in published["scores"]
        for task in published["full_models"][encoder]
    }
    # MNLI's runs are scored on both of its development sets.
    wanted = {cell for cell in wanted if cell[1] != "MNLI-MM"}
    paper = {
        cell
        for path in grid_lib.list_files(FOLDER)
        for cell in list_cells(path)
    }
    further = {*list_cells(os.path.join(FOLDER, "further.json"))}
    assert not paper & further
    left = {cell[:2] for cell in wanted - paper - further}
    assert left == NOT_FILLED
    four = {"CoLA", "SST-2", "MRPC", "STS-B"}
    assert {task for _, task, _ in further} == {"QQP", "MNLI", "QNLI", "RTE"}
    for encoder in curves.ENCODERS.values():
        tasks = {task for name, task, _ in paper if name == encoder}
        everything = {*curves.TITLES.values()} - {"MNLI-MM"}
        assert tasks == (everything if encoder == "bert-base" else four)
