"""Several finished runs as one model: mean of probabilities, majority vote.

    python -m tf_transfer.ensemble --run=DIR --run=DIR2 --run=DIR3
    python -m tf_transfer.ensemble --run=DIR --run=DIR2 --output=DIR4

The runs are of any command, on a task with classes, and were tested on the same
examples: what is joined is their predictions.npz. Prints the scores of each and
of both ensembles on the test set. `--output` is a folder for ensemble.json (the
runs and all scores) and predictions.npz: `test_ids`, `test_labels`, and for
each example `mean`, the probabilities, and `vote`, how many runs chose each
class (with half of the probability, which decides between equals).
"""

import os

import numpy as np
from absl import flags

from tf_transfer.config import command_line
from tf_transfer.data import ensembles
from tf_transfer.data import metrics
from tf_transfer.reports import reading
from tf_transfer.reports import stacking_ensembles
from tf_transfer.training import checkpoint
from tf_transfer.training import records
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError


def define_flags():
    """Defines this module's flags."""
    flags.DEFINE_multi_string(
        "run", [], "A finished run directory. Give it two times or more."
    )
    flags.DEFINE_string("output", None, "Folder to write the ensembles into.")


def read_member(path):
    """An `ensembles.Member`, and the names of its metrics.

    Raises:
        UserError: there is no finished run, or none that chooses a class for
            each example of a test set.
    """
    try:
        record = reading.read_run(path, path)
    except reading.LeftOut as reason:
        raise UserError(
            f"--run={path}: {reason}. Give the folder of a finished run."
        ) from None
    predictions = reading.Predictions("")
    output = predictions.logits(record)
    if predictions.damaged or record["folds"]:
        problem = "has no whole predictions of one test set"
    elif output is None:
        problem = "was not tested: it has one set for validation and test"
    elif np.issubdtype(output[1].dtype, np.floating):
        problem = "gives scores, not classes"
    elif len(output[0]) != len(output[1]):
        problem = "labels words, and sentences have several"
    else:
        names = [name for name in record["metrics"] if name in metrics.METRICS]
        return stacking_ensembles.member(record, output), names
    raise UserError(f"--run={path}: {problem}. It can be in no ensemble.")


def score(members, names):
    """Scores of each member and of both ensembles.

    Args:
        members: list of `ensembles.Member`.
        names: of metrics.

    Returns:
        (dict from what is scored to its metrics, dict of arrays).
    """
    joined = ensembles.join(members)
    both = {"mean": ensembles.mean(joined), "vote": ensembles.vote(joined)}
    labels = members[0].labels
    outputs = {member.name: member.logits for member in members}
    for how, words in stacking_ensembles.WAYS.items():
        outputs[words] = both[how]
    scores = {
        name: metrics.measure(names, labels, logits)
        for name, logits in outputs.items()
    }
    return scores, {
        "test_ids": members[0].ids,
        "test_labels": labels,
        **both,
    }


def write(folder, runs, scores, arrays):
    """Writes both files; an older ensemble there is replaced."""
    os.makedirs(folder, exist_ok=True)
    checkpoint.write_atomically(
        os.path.join(folder, "predictions.npz"), records.compressed(arrays)
    )
    checkpoint.write_json(
        os.path.join(folder, "ensemble.json"), {"runs": runs, "scores": scores}
    )


def main():
    """Reads the flags, prints the scores."""
    runs, output = flags.FLAGS.run, flags.FLAGS.output
    if len(set(map(os.path.realpath, runs))) < max(len(runs), 2):
        raise UserError("--run: give two different finished runs or more.")
    if output and os.path.exists(os.path.join(output, "result.json")):
        raise UserError(f"--output={output}: is a run. Give another folder.")
    members, names = zip(*map(read_member, runs))
    scores, arrays = score(members, names[0])
    rows = [("", *names[0])]
    rows += [
        (name, *(f"{value:.4f}" for value in found.values()))
        for name, found in scores.items()
    ]
    print(formatting.aligned(rows))
    if output:
        write(output, runs, scores, arrays)
        print(f"Written to {output}")


if __name__ == "__main__":
    define_flags()
    command_line.start(main)
