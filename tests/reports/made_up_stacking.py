"""Records of stacking with the scores that a test asks for."""

import os

from tests.reports import made_up
from tests.support import commands
from tf_transfer.reports import claims, study as study_lib

FOLDER = os.path.join(commands.ROOT, "experiments")
PAPER = claims.read(claims.find_file(FOLDER, "stacking"))

DENSE = {"head": "dense", "adaptation": "finetune_only"}
# Settings that a run does not have that is adapted so.
UNREAD = {
    "finetune_only": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "joint": ("head_lr", "phase_one_gap", "phase_one_epochs"),
    "stack_only": ("phase_one_epochs",),
    "stack_and_finetune": (),
}
MAJORITIES = {
    "ner": {"accuracy": 0.6, "f1": 0.0, "token_f1": 0.0},
    "text": {"accuracy": 0.5, "f1": 0.4},
    "pairs": {"accuracy": 0.63, "f1": 0.0},
}


def stacked(head, **changes):
    return {"head": head, "adaptation": "stack_and_finetune", **changes}


def alone(head, **changes):
    usual = {"adaptation": "stack_only", "lr": 1e-3, "phase_one_gap": -1.0}
    return {"head": head, **usual, **changes}


def metrics_of(task, score):
    """All that a task is measured by, from one score in points."""
    score /= 100
    if task != "ner":
        return {"accuracy": score, "f1": score - 0.1}
    return {
        "accuracy": score + 0.05,
        "f1": score,
        "token_f1": score + 0.01,
        "f1_PER": score + 0.02,
        "f1_ORG": score - 0.02,
    }


def write(task, settings, scores, seconds=10.0, **changes):
    """Records, one for each score; a list has one for each epoch."""
    records = []
    for seed, score in enumerate(scores):
        epochs = score if isinstance(score, list) else [score] * 3
        preset = PAPER.encoder_of[task]
        record = made_up.make_record(
            PAPER,
            task,
            {
                "model": preset,
                "max_epochs": PAPER.settings["max_epochs"],
                "lr": 2e-5,
                **settings,
            },
            seed,
            epochs,
            seconds,
            **{
                "experiment": "stacking",
                "approach": f"{settings['adaptation']}_{settings['head']}",
                "metric": "f1" if task == "ner" else "accuracy",
                "metrics": metrics_of(task, epochs[-1]),
                "majorities": MAJORITIES[task],
                "phases": phases_of(settings, len(epochs), seconds),
                "stop_reason": "max_epochs",
                **changes,
            },
        )
        unread = [*UNREAD[settings["adaptation"]], "max_epochs"]
        if task != "text":
            unread.append("classes")
        record["key"] = {
            n: v for n, v in record["key"].items() if n not in unread
        }
        size = record["key"]["max_train_examples"]
        if size:
            record["sizes"] = {**record["sizes"], "train": size}
        record["curve"] = [
            {
                "phase": number,
                "epoch": epoch,
                "accuracy": 0.7,
                "train_accuracy": 0.8,
            }
            for number, phase in enumerate(record["phases"], 1)
            for epoch in range(1, phase["epochs"] + 1)
        ]
        records.append(record)
    return records


def phases_of(settings, epochs, seconds):
    """What a record says of its phases: one epoch of the head, if stacked."""
    trains = {"stack_and_finetune": ["head", "all"], "stack_only": ["head"]}
    names = trains.get(settings["adaptation"], ["all"])
    counts = [epochs] if len(names) == 1 else [1, epochs - 1]
    return [
        {
            "trainable_layers": name,
            "epochs": count,
            "lr": 1e-3 if name == "head" else 2e-5,
            "seconds": seconds * count,
        }
        for name, count in zip(names, counts)
    ]


def collect(*groups):
    records = [record for group in groups for record in group]
    return study_lib.collect({"runs": records}, FOLDER)


def judged(study):
    return {verdict.claim.id: verdict for verdict in study.verdicts}
