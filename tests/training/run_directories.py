"""What tests do with a run directory: begin it, end it, change its files."""

import json
import types

from tests.support import run_files

KEY = {"module": "glue", "lr": 1e-3, "dropout": 0.1, "seed": 0}


def write_result(run, result):
    run.write_result(run_files.finished(**result))


def begin(run, settings, parts=None, split_sizes=None, device="CPU:0"):
    """Begins a run that may be open already."""
    run.close()
    devices = types.SimpleNamespace(names=[device], replicas=1, workers=1)
    run.begin(settings, devices, parts or {}, split_sizes or {})


def change_json(run, name, **changes):
    with open(run.file(name)) as file:
        content = json.load(file)
    with open(run.file(name), "w") as file:
        json.dump({**content, **changes}, file)
