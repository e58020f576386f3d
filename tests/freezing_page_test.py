"""docs/freezing.md says what the study does and shows."""

import dataclasses
import os
import re

from tests.support import commands
from tf_transfer.config import command_line
from tf_transfer.data import glue
from tf_transfer.freezing import experiment as freezing, studies
from tf_transfer.reports import claims, summary as summary_lib


def read_choices():
    """The rows of the page's table of choices, by setting."""
    path = os.path.join(commands.ROOT, "docs", "freezing.md")
    with open(path, encoding="utf-8") as file:
        lines = [line.strip("| \n").split(" | ") for line in file]
    return {line[0]: line[1] for line in lines if len(line) == 3}


def test_the_page_says_what_the_command_does():
    said = read_choices()
    settings = command_line.parse(freezing.Settings, ()).resolve()
    assert f"{settings.max_length} tokens" in said["longest text"]
    assert said["encoders"] == "BERT uncased"
    assert settings.model == "bert_base_en_uncased"
    assert (
        f"{settings.trials}, with seeds 0 to {settings.trials - 1}"
        == (said["trials"])
    )
    assert "plain mean" in said["decided by"]
    for field in dataclasses.fields(settings):
        if field.name in ("rates", "search"):
            assert "plain mean" in field.metadata["help"]
    assert "--tasks=all" in said["WNLI"]
    assert "wnli" in studies.tasks_of(
        command_line.parse(freezing.Settings, ("--tasks=all",)).resolve()
    )
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
    folder = os.path.join(commands.ROOT, "experiments", "freezing")
    kept = summary_lib.read_summary(os.path.join(folder, "summary.json"))
    keys = [run["key"] for run in kept["runs"] if run["approach"] != "probe"]
    heads = {key.get("loss_head", "sigmoid") for key in keys}
    path = os.path.join(commands.ROOT, "docs", "freezing.md")
    with open(path, encoding="utf-8") as file:
        results = file.read().split("## Results")[1].split("<!--")[0]
    is_said = "`--loss_head=sigmoid`" in results
    assert is_said == (
        heads != {command_line.parse(freezing.Settings, ()).resolve().loss_head}
    )
