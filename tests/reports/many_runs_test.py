"""The report of 5,000 runs with predictions: its memory, and its time."""

import subprocess
import sys

import numpy as np
import pytest

from tests.reports import synthetic
from tests.support import commands

TASKS = ("cola", "mrpc", "qnli", "rte", "sst2")
RATES = (2e-5, 5e-5, 1e-4, 1e-3)
SEEDS, EXAMPLES, EPOCHS = 5, 1000, 8
PROGRAM = """
import re, sys, time
from absl import flags
from tf_transfer import report
from tf_transfer.config import command_line

command_line.define_flags(report.Settings, "report")
flags.FLAGS(["report", f"--out={sys.argv[2]}"])
begin = time.time()
report.main(["report", sys.argv[1]])
seconds = time.time() - begin
# Not getrusage's: that one begins with the size of the process it came from.
peak = re.search(r"VmHWM:\\s+(\\d+) kB", open("/proc/self/status").read())
print(f"RESULT[{seconds}, {int(peak[1]) / 1e6}]")
"""


@pytest.mark.slow
def test_a_report_of_5000_runs_needs_less_than_a_gigabyte(tmp_path):
    """Run with `-s` to see how long it takes: there is no limit here."""
    generator = np.random.default_rng(0)
    runs = 0
    for task in TASKS:
        labels = generator.integers(0, 2, EXAMPLES)
        for layers in ("all", *range(9)):
            for lr in RATES:
                for examples in (0, 100, 300, 1000, 3000):
                    for seed in range(SEEDS):
                        runs += 1
                        write(
                            tmp_path / "runs",
                            labels,
                            generator,
                            task=task,
                            trainable_layers=str(layers),
                            lr=lr,
                            max_train_examples=examples,
                            seed=seed,
                        )
    assert runs == 5000
    out = tmp_path / "out"
    [(seconds, gigabytes)] = commands.results_of(
        PROGRAM, str(tmp_path / "runs"), str(out)
    )
    print(f"{runs} runs: {seconds:.1f} s, {gigabytes:.2f} GB", file=sys.stderr)
    assert gigabytes < 1
    lines = subprocess.check_output(["wc", "-l", str(out / "tables/runs.csv")])
    assert int(lines.split()[0]) == runs + 1


def write(root, labels, generator, **changes):
    """A run whose predictions are its score."""
    right = generator.random(EXAMPLES) < 0.8
    answers = np.where(right, labels, 1 - labels)
    synthetic.write(
        root,
        [float(right.mean())] * EPOCHS,
        metrics={"accuracy": float(right.mean())},
        predictions=(labels, np.float32(2 * answers - 1)[:, None]),
        blocks=12,
        **changes,
    )
