"""Several finished runs as one model: mean of probabilities, majority vote.

    python -m tf_transfer.ensemble --run=DIR --run=DIR2 --run=DIR3
    python -m tf_transfer.ensemble --run=DIR --run=DIR2 --output=DIR4

The runs may be of any experiment. They have a task with classes and were tested
on the same examples: their predictions.npz are combined. Prints the scores of
each run and of both ensembles on the test set. `--output` is a folder for
ensemble.json (the runs and all scores) and predictions.npz: `test_ids`,
`test_labels`, and for each example `mean`, the probabilities, and `vote`, how
many runs chose each class (plus half of its probability, which decides between
equal numbers of votes).
"""

import os

from absl import flags

from tf_transfer.config import command_line
from tf_transfer.training import records
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError


def define_flags() -> None:
    """Defines the flags of this command."""
    flags.DEFINE_multi_string(
        "run", [], "A finished run directory. Give it twice or more."
    )
    flags.DEFINE_string("output", None, "Folder to write the ensembles into.")


def main() -> None:
    """Reads the flags, prints the scores."""
    runs, output = flags.FLAGS.run, flags.FLAGS.output
    if len(set(map(os.path.realpath, runs))) < max(len(runs), 2):
        raise UserError("--run: give two different finished runs or more.")
    if output and os.path.exists(os.path.join(output, "result.json")):
        raise UserError(f"--output={output}: is a run. Give another folder.")
    import pandas as pd  # takes seconds to import, as what follows

    from tf_transfer.reports import run_ensemble

    all_scores, arrays = run_ensemble.combine(runs)
    table = pd.DataFrame(all_scores).T
    print(table.to_string(float_format="{:.4f}".format))
    if output:
        os.makedirs(output, exist_ok=True)
        files.write_atomically(
            os.path.join(output, "predictions.npz"), records.compressed(arrays)
        )
        files.write_json(
            os.path.join(output, "ensemble.json"),
            {"runs": runs, "scores": all_scores},
        )
        print(f"Written to {output}")


if __name__ == "__main__":
    define_flags()
    command_line.start(main)
