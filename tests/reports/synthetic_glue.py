"""Runs of GLUE whose scores and times are known to the point."""

from tests.reports import synthetic

EPOCHS = {"all": 100.0, "4": 64.0, "3": 60.0, "2": 55.0, "1": 50.0}
LARGE, SMALL = 60_000, 2_000


def write_task(root, task, sizes, finals, seeds=2, epochs=4, **changes):
    """Every approach of a task: `finals` are its scores in points.

    Scores rise by two points an epoch; seeds lie one point apart, half of it
    above and below.
    """
    for layers, final in finals.items():
        for seed in range(seeds):
            middle = final + (seed - (seeds - 1) / 2)
            scores = [
                (middle - 2 * (epochs - 1 - number)) / 100
                for number in range(epochs)
            ]
            synthetic.write(
                root,
                scores,
                seconds=EPOCHS[layers],
                sizes=sizes,
                task=task,
                trainable_layers=layers,
                seed=seed,
                **changes,
            )
