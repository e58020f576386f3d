"""Records of stacking with the scores that a test asks for."""

import os

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, study as study_lib

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read(claims.find_file(FOLDER, "stacking"))
DENSE = {"head": "dense", "adaptation": "finetune_only"}
# Settings of a first phase, by what lacks them.
UNREAD = {
    "finetune_only": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "joint": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "stack_only": ("phase_one_epochs",),
}


def stacked(head, **changes):
    return {"head": head, "adaptation": "stack_and_finetune", **changes}


def write(task, settings, scores, **changes):
    """A record for each score; other metrics are 5 and 1 points above F1."""
    settings = {"model": PAPER.encoder_of[task], "lr": 2e-5, **settings}
    records = made_up.make_runs(
        PAPER, task, settings, scores, seconds=10.0, experiment="stacking"
    )
    for record, score in zip(records, scores):
        metrics = {"accuracy": score / 100, "f1": score / 100 - 0.1}
        if task == "ner":
            record["metric"] = "f1"
            more = {"accuracy": 0.05, "f1": 0.0, "token_f1": 0.01}
            metrics = {n: score / 100 + points for n, points in more.items()}
        for name in UNREAD.get(settings["adaptation"], ()):
            record["key"].pop(name)
        if size := record["key"]["max_train_examples"]:
            record["sizes"]["train"] = size
        record.update(metrics=metrics, **changes)
    return records


def collect(*groups):
    records = [record for group in groups for record in group]
    return study_lib.collect({"runs": records}, FOLDER)


def judged(study):
    return {verdict.claim.id: verdict for verdict in study.verdicts}
