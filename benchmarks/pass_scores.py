"""Do scores depend on the precision of the frozen pass?

    python -m benchmarks.pass_scores --data=FOLDER
    python -m benchmarks.pass_scores --document=docs/guides/feature_cache.md

FOLDER holds `glue`, `glue_subset`, `cs224n` and `tweets`. For each of six tasks
and each of five draws of 600 training texts, the probe, the last block and
the last two are trained on states that OpenVINO computed in float32, in
bfloat16 and in int8. Each draw has its own training texts, initial weights,
order and dropout; scores of one draw are paired. The tasks are those of the
data at hand on which `minilm` learns from so few texts, with at least 700 test
texts: CoLA, RTE and MRPC are not.

The package has no int8. Here NNCF quantizes what OpenVINO converted, calibrated
on training texts of the task's first draw; bfloat16 computes what NNCF leaves.
"""

import contextlib
import importlib.metadata
import io
import json
import os
import statistics
import sys
import types
from collections.abc import Iterator, Sequence
from typing import Any
from unittest import mock

import numpy as np
from absl import flags

from benchmarks import documents, refresh
from tf_transfer import train
from tf_transfer.comparison.estimates import Estimate
from tf_transfer.config import command_line
from tf_transfer.data import batches
from tf_transfer.feature_cache import engines
from tf_transfer.reports import tables
from tf_transfer.runs.warm import WarmState
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import UserError

NAME = "pass_scores"
TASKS: dict[str, dict[str, Any]] = {
    "sst2": {"data": "glue"},
    "stsb": {"data": "glue"},
    "qnli": {"data": "glue_subset"},
    "qqp": {"data": "glue_subset"},
    "tweets": {
        "data": "tweets/train.csv",
        "text_column": "text",
        "label_column": "target",
    },
    "sentiment": {"data": "cs224n"},  # five classes; it validates alone
}
APPROACHES: dict[str, dict[str, Any]] = {
    "probe": {"features": "frozen"},
    # Its pass stores the states below the last two blocks as well.
    "last 1": {"trainable_layers": "1", "also_cache": "2"},
    "last 2": {"trainable_layers": "2"},
}
# By measured precision: --prefix_precision. NNCF adds int8.
PASS_PRECISIONS = {
    "float32": "float32",
    "bfloat16": "bfloat16",
    "int8": "bfloat16",
}
MAX_LENGTH = 128
MARGIN = 0.2  # points: a smaller mean difference counts as none

# Of a task, by approach and precision: the score of each draw, in points.
Scores = dict[str, dict[str, list[float]]]


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_string("data", "data", "Folder of the data sets.")
    flags.DEFINE_string("model", "minilm", "The encoder.")
    flags.DEFINE_integer("draws", 5, "Draws of the training texts.", 2)
    flags.DEFINE_integer("examples", 600, "Training texts per draw.", 20)
    flags.DEFINE_integer("calibration", 200, "Texts that calibrate int8.", 1)
    flags.DEFINE_integer("max_epochs", 3, "Epochs of a run.", 1)
    flags.DEFINE_list("tasks", list(TASKS), "Tasks to measure.")
    flags.DEFINE_string("runs", "runs/pass_scores", "Root of the runs.")
    flags.DEFINE_string(
        "out", "experiments/prefix_cache", f"Folder of {NAME}.json."
    )
    flags.DEFINE_string("document", "", "Document to write the table into.")


# === The pass ===


class Passes:
    """The passes over a task's texts, whose models are compiled once.

    Compiling takes longer than a pass over 1,000 texts, and so do the first
    texts of each length.

    Args:
        run: A run on the task; its first training texts calibrate int8.

    Attributes:
        errors: The relative errors of the probe's pooled states by precision,
            as the engine measures them before it uses a model.
    """

    def __init__(self, run: train.Train) -> None:
        self.errors: dict[str, list[float]] = {p: [] for p in PASS_PRECISIONS}
        self._texts = read_calibration(run)
        self._compiled: dict[tuple[str, int], Any] = {}

    @contextlib.contextmanager
    def compute_in(self, precision: str) -> Iterator[None]:
        """Makes passes compute in a precision of `PASS_PRECISIONS`."""
        compile_model = engines._compile
        measure_error = engines._measure_error
        openvino = importlib.import_module("openvino")
        convert_model = openvino.convert_model

        def compile_once(function: Any, hint: str) -> Any:
            # Two kinds of pass differ in their number of operations.
            key = precision, len(function.graph.get_operations())
            if key not in self._compiled:
                self._compiled[key] = compile_model(function, hint)
            return self._compiled[key]

        def record_error(output: np.ndarray, expected: Any) -> float:
            error = measure_error(output, expected)
            if output.ndim == 2:  # states of tokens have those of padding
                self.errors[precision].append(error)
            return error

        def convert(function: Any, **options: Any) -> Any:
            model = convert_model(function, **options)
            if precision != "int8":
                return model
            nncf = importlib.import_module("nncf")
            return nncf.quantize(
                model,
                nncf.Dataset(self._texts),
                subset_size=len(self._texts),
                model_type=nncf.ModelType.TRANSFORMER,
            )

        patch = mock.patch.object
        with contextlib.ExitStack() as patches:
            enter = patches.enter_context
            enter(patch(engines, "_compile", compile_once))
            enter(patch(engines, "_measure_error", record_error))
            enter(patch(openvino, "convert_model", convert))
            if precision == "int8":
                # The scores decide whether an error is too large.
                enter(mock.patch.dict(engines.BOUNDS, bfloat16=np.inf))
            yield


def read_calibration(run: train.Train) -> list[list[np.ndarray]]:
    """The inputs of a pass for a run's first training texts, one at a time.

    Those of pairs are there as a row each, and as two rows.
    """
    data, encoder = run.data, run.load_encoder()
    texts = data.examples[data.task.name]["train"][""]
    texts = texts.take(np.arange(min(flags.FLAGS.calibration, len(texts))))
    inputs = []
    for texts_per_row in range(1, len(texts.texts) + 1):
        split = data.encode(texts, data.task, encoder, "", texts_per_row)
        plan = batches.plan_evaluation(
            split.lengths, 1, buckets=range(1, MAX_LENGTH + 1)
        )
        dataset = batches.pipeline(split, plan, encoder.special.pad)
        inputs += [
            [batch[name] for name in engines.INPUTS]
            for batch in dataset.as_numpy_iterator()
        ]
    return inputs


# === Runs ===


def make_run(
    task: str, draw: int, approach: str, precision: str, warm: WarmState
) -> train.Train:
    """A run on a draw; its folders are those of the precision."""
    values = flags.FLAGS
    about = {**TASKS[task], **APPROACHES[approach]}
    settings = train.Settings(
        **{**about, "data": os.path.join(values.data, about["data"])},
        task=task,
        model=values.model,
        max_length=MAX_LENGTH,
        max_train_examples=values.examples,
        validation_fraction=0.0,
        select="last",
        split_seed=draw,
        seed=draw,
        lr=5e-4,
        batch_size=16,
        max_epochs=values.max_epochs,
        frozen_prefix="cached",
        prefix_engine="openvino",
        prefix_precision=PASS_PRECISIONS[precision],
        baseline=False,
        out=os.path.join(values.runs, precision),
        cache_dir=os.path.join(values.runs, precision, "cache"),
    )
    return train.Train(settings, warm=warm)


def measure_task(task: str) -> dict[str, Any]:
    """Trains all runs of a task.

    Returns:
        The metric, the scores as in `Scores`, and the largest error of the
        states of each precision.

    Raises:
        UserError: OpenVINO did not compute the states.
    """
    warm = WarmState()
    passes = Passes(make_run(task, 0, "probe", "float32", warm))
    scores: dict[str, Any] = {
        a: {p: [] for p in PASS_PRECISIONS} for a in APPROACHES
    }
    for draw in range(flags.FLAGS.draws):
        for precision, pass_precision in PASS_PRECISIONS.items():
            for approach in APPROACHES:
                with (
                    contextlib.redirect_stdout(io.StringIO()),
                    passes.compute_in(precision),
                ):
                    run = make_run(task, draw, approach, precision, warm)
                    record = run.train().record
                if record["prefix_engine"] != f"openvino {pass_precision}":
                    raise UserError(
                        f"{task}, {precision}: the states are those of "
                        f"{record['prefix_engine']}. Install OpenVINO, and "
                        "take a processor that computes in bfloat16."
                    )
                metric = record["metric"]
                scored = record["test"] or record["validation"]
                scores[approach][precision].append(100 * scored[metric])
            print(task, draw, precision, passes.errors[precision], flush=True)
        print(json.dumps(scores), flush=True)
    return {
        "metric": metric,
        "scores": scores,
        "errors": {
            p: max(some, default=0.0) for p, some in passes.errors.items()
        },
    }


def measure(path: str) -> dict[str, Any]:
    """Trains all runs of the tasks that the measurement does not have yet.

    Args:
        path: File of the measurement, which is written after each task.
    """
    values = flags.FLAGS
    command_line.import_tensorflow()
    # OpenVINO and NNCF would send usage statistics.
    sys.modules["openvino_telemetry"] = types.ModuleType("openvino_telemetry")
    settings = {
        "model": values.model,
        "examples": values.examples,
        "epochs": values.max_epochs,
        "draws": values.draws,
        "calibration": values.calibration,
        "processor": machine.processor(),
        "openvino": machine.versions()["openvino"],
        "nncf": importlib.metadata.version("nncf"),
    }
    measured = refresh.resume(path, NAME, settings)
    for task in values.tasks:
        if task in measured["tasks"]:
            continue
        measured["tasks"][task] = measure_task(task)
        files.write_json(path, measured)
    return measured


# === The table ===


def estimate_difference(
    tasks: Sequence[Scores], precision: str, approaches: Sequence[str]
) -> Estimate:
    """The mean difference of a precision's scores to those of float32.

    D_k is the mean over the draws and approaches of task k, of the score with
    the precision less that with float32 on the same draw. The estimate is the
    mean of D_k over the K tasks, with the standard error s(D_k) / sqrt(K) and
    K - 1 degrees of freedom: it has the chance of draws and of tasks.

    Args:
        tasks: The scores of each task.
        precision: The precision that is compared with float32.
        approaches: Keys of the scores.
    """
    means = [
        statistics.fmean(
            difference
            for approach in approaches
            for difference in pair_draws(scores[approach], precision)
        )
        for scores in tasks
    ]
    error = statistics.stdev(means) / len(means) ** 0.5
    return Estimate(statistics.fmean(means), error, len(means) - 1)


def pair_draws(scores: dict[str, list[float]], precision: str) -> list[float]:
    """The differences to float32 on each draw."""
    pairs = zip(scores["float32"], scores[precision])
    return [after - before for before, after in pairs]


def make_table(measured: dict[str, Any]) -> str:
    """Both tables as Markdown: each task's means, and the mean over tasks."""
    tasks = measured["tasks"]
    compared = [
        precision for precision in PASS_PRECISIONS if precision != "float32"
    ]
    by_task = [["task, metric", "trains", "float32", *compared]]
    by_task.append(["---"] * len(by_task[0]))
    for task, case in tasks.items():
        for approach, scores in case["scores"].items():
            cells = [
                tables.spread(pair_draws(scores, p), sign="+") for p in compared
            ]
            name = f"{task}, {case['metric']}"
            row = [name, approach, tables.spread(scores["float32"]), *cells]
            by_task.append(row)
    means = [
        [
            "precision",
            "error of pooled states, at most",
            "trains",
            "mean difference",
        ]
    ]
    means[0].append(f'p-value of "not within {MARGIN} points"')
    means.append(["---"] * len(means[0]))
    every = [case["scores"] for case in tasks.values()]
    for precision in compared:
        error = max(case["errors"][precision] for case in tasks.values())
        for names in (*([name] for name in APPROACHES), [*APPROACHES]):
            estimate = estimate_difference(every, precision, names)
            means.append(
                [
                    precision,
                    f"{error:.1%}",
                    ", ".join(names),
                    estimate.ranged().show(2, "+"),
                    f"{estimate.p_within(-MARGIN, MARGIN):.3f}",
                ]
            )
    return (
        f"Measured on {measured['processor']} with OpenVINO "
        f"{measured['openvino']} and NNCF {measured['nncf']}. `"
        f"{measured['model']}`, {measured['draws']} draws of "
        f"{measured['examples']:,} training texts, {measured['epochs']} "
        "epochs in batches of 16. Means over tasks in points, with 95 % "
        "intervals:\n\n"
        + documents.as_markdown(means)
        + "\n\nEach task's test scores with float32, and the differences to "
        "them, as mean and standard deviation over the draws:\n\n"
        + documents.as_markdown(by_task)
    )


def main(argv: list[str]) -> None:
    """Measures and prints the table, or fills a document."""
    del argv
    values = flags.FLAGS
    path = os.path.join(values.out, f"{NAME}.json")
    if not values.document:
        os.makedirs(values.out, exist_ok=True)
        print(make_table(measure(path)))
        return
    with open(path, encoding="utf-8") as file:
        documents.fill(values.document, NAME, make_table(json.load(file)))


if __name__ == "__main__":
    define_flags()
    command_line.command(main)
