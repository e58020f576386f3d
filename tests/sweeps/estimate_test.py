"""What a run takes: operations from official sizes, and a measured speed."""

import os
import socket

import pytest

from tests.support import commands, own_data, run_files, tweets_table
from tests.sweeps.fakes import finish
from tf_transfer.data import official, registry
from tf_transfer.models import cost
from tf_transfer.reports import claims
from tf_transfer.sweeps import estimate, grid as grid_lib
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError

BASE = cost.Shape(12, 768, 12, 3072)


def plan_runs(tmp_path, experiment, axis, values, **flags):
    """Dict from a value of the axis to its run; nothing is located."""
    grid = {"experiment": experiment, "flags": flags, "axes": {axis: values}}
    runs = grid_lib.expand("grid.json", grid, str(tmp_path / "runs"))
    return {run.axes[axis]: run for run in runs}


def plan_rte(tmp_path, layers, **flags):
    """Dict from trained layers to a run of BERT-base on RTE."""
    flags = {"task": "rte", "max_epochs": 1, **flags}
    return plan_runs(tmp_path, "glue", "trainable_layers", layers, **flags)


def test_operations_are_those_of_all_epochs_and_their_evaluation(tmp_path):
    [run] = plan_rte(tmp_path, ["all"], batch_size=16, max_epochs=3).values()
    work = estimate.count_work(run)
    # 2,490 pairs, of which 249 validate; 277 are the test.
    steps, forward = 141, cost.count_forward(BASE, 128, cls_only=True)
    trained = steps * 16 * 3 * forward
    assert work.epochs == (trained + (249 + 277) * forward,)
    assert work.count(run.settings.phase_epochs) == 3 * work.epoch
    assert work.predict == (249 + 277) * forward
    assert not work.build and not work.family


def test_fewer_trained_blocks_take_less_and_share_their_cache(tmp_path):
    runs = plan_rte(tmp_path, ["all", 2, 1, 0], frozen_prefix="cached")
    works = {name: estimate.count_work(run) for name, run in runs.items()}
    assert works["0"].epoch == 0.0
    assert works["1"].epoch < works["2"].epoch < works["all"].epoch / 5
    assert 0 < works["2"].build < works["1"].build < works["0"].build
    families = {works[name].family for name in ("2", "1", "0")}
    assert len(families) == 1 and "" not in families
    estimator = estimate.Estimator()
    total = sum(works[name].epoch for name in works)
    assert estimator.count_all(runs.values()) == total + works["0"].build


def test_frozen_blocks_that_run_live_are_counted(tmp_path):
    [run] = plan_rte(tmp_path, [1]).values()
    [cached] = plan_rte(tmp_path, [1], frozen_prefix="cached").values()
    live, above = map(estimate.count_work, (run, cached))
    below = (2241 + 249 + 277) * cost.count_forward(BASE, 128, top=11)
    assert live.epoch == above.epoch + below and above.build == below


@pytest.mark.parametrize("data", ["tfds", "cs224n"])
def test_each_phase_counts_and_the_first_is_cached(tmp_path, data):
    runs = plan_runs(
        tmp_path,
        "multitask",
        "train",
        ["head", "all", "head_then_all"],
        data=data,
        frozen_prefix="cached",
        max_epochs=3,
    )
    works = {name: estimate.count_work(run) for name, run in runs.items()}
    both = works["head_then_all"]
    assert both.epochs == works["head"].epochs + works["all"].epochs
    assert both.build == works["head"].build > 0 == works["all"].build
    sizes = estimate.count_examples(runs["all"].experiment)
    trained = {name: size.train for name, size in sizes.items()}
    project = {"sentiment": 8544, "paraphrase": 141_506, "similarity": 6041}
    assert (trained == project) == (data == "cs224n")


def test_a_sum_of_losses_has_as_many_batches_of_each_task(tmp_path):
    runs = plan_runs(
        tmp_path,
        "multitask",
        "combine",
        ["in_turn", "sum"],
        data="cs224n",
        train="all",
    )
    works = {name: estimate.count_work(run) for name, run in runs.items()}
    assert works["sum"].epoch > 1.5 * works["in_turn"].epoch


def test_a_table_that_is_not_here_has_the_size_of_harts(tmp_path):
    flags = {"data": str(tmp_path / "none.csv")}
    runs = plan_runs(tmp_path, "tweets", "features", ["bert", "tfidf"], **flags)
    [size] = estimate.count_examples(runs["bert"].experiment).values()
    assert (size.train, size.scored) == (6851, 762)
    assert estimate.count_work(runs["tfidf"]) == estimate.Work()


def test_texts_of_ones_own_are_counted(tmp_path):
    path = tweets_table.write(tmp_path)
    [run] = plan_runs(
        tmp_path, "tweets", "seed", [0], data=path, id_column="number"
    ).values()
    [size] = estimate.count_examples(run.experiment).values()
    assert 0 < size.scored < size.train < 1000
    task = own_data.write_task(tmp_path)
    runs = plan_runs(
        tmp_path, "train", "model", ["tiny", "minilm"], task=task, max_epochs=1
    )
    small, large = map(estimate.count_work, runs.values())
    assert 0 < small.epoch < large.epoch / 100


def test_the_probe_is_one_pass_over_all_texts_and_two_of_pairs(tmp_path):
    runs = plan_runs(
        tmp_path, "glue", "task", ["rte", "sst2"], features="frozen"
    )
    forward = cost.count_forward(BASE, 128)
    pairs, single = map(estimate.count_work, runs.values())
    assert pairs.build == 2 * (2490 + 277) * forward
    assert single.build == (67_349 + 872) * forward


def test_a_number_of_epochs_that_the_texts_decide_is_asked_for(tmp_path):
    [run] = plan_runs(tmp_path, "train", "task", ["rte"]).values()
    with pytest.raises(UserError, match="--max_epochs"):
        estimate.count_work(run)


def test_every_task_of_a_name_has_its_size():
    assert {*registry.DATA_SETS, "text", "pairs", "tweets"} == {*official.SIZES}


def test_the_folder_of_a_task_has_its_size():
    [mrpc] = official.open_sources(["pairs"], "glue/MRPC").values()
    [pairs] = official.open_sources(["pairs"], "glue").values()
    assert len(mrpc.read("train")) == 3668 < len(pairs.read("train"))


def test_claims_compare_with_the_same_sizes():
    folder = os.path.join(commands.ROOT, "experiments")
    for experiment in ("glue", "freezing", "stacking", "tweets"):
        paper = claims.read_paper(claims.find_file(folder, experiment))
        for name, sizes in paper.sizes.items():
            _, *official_sizes = official.SIZES[name]
            expected = [value for split, value in sizes.items()]
            assert expected == [n for n in official_sizes if n] or (
                name == "mnli" and sum(expected) == sum(official_sizes)
            )


# === The measured speed ===


def finish_after(run, seconds, epochs=1, host=None, when=0, **result):
    """A finished run whose epochs took this long together."""
    finish(run, phases=[run_files.phase(epochs)], **result)
    directory = run.directory
    starts = [{"host": host or socket.gethostname()}]
    files.write_json(
        directory.file("config.json"), {**directory.config(), "starts": starts}
    )
    lines = [
        {
            "epoch": epoch,
            "phase": 1,
            "phase_epoch": epoch,
            "task": None,
            "train_loss": 1.0,
            "validation": None,
            "test": None,
            "train_seconds": 0.75 * seconds / epochs,
            "eval_seconds": 0.25 * seconds / epochs,
            "elapsed_seconds": 0.0,
        }
        for epoch in range(1, epochs + 1)
    ]
    directory.write_epochs(lines)
    os.utime(directory.file("result.json"), (when, when))


def test_the_last_finished_run_measures_the_speed(tmp_path):
    layers = ["all", 3, 2, 1]
    runs = plan_rte(tmp_path, layers, model="tiny", data="sample", max_epochs=4)
    estimator = estimate.Estimator()
    estimator.measure_all([])
    assert estimator.seconds_per_operation is None
    finish_after(runs["all"], 10.0, when=1)
    finish_after(runs["3"], 99.0, host="elsewhere", when=3)
    estimator.measure_all([runs["all"], runs["3"]])
    one = estimator.count(runs["all"]).epoch
    assert estimator.seconds_per_operation == 10.0 / one
    finish_after(runs["2"], 50.0, epochs=4, when=2)
    estimator.measure(runs["2"])
    four = 4 * estimator.count(runs["2"]).epoch
    assert estimator.seconds_per_operation == 50.0 / four
    finish_after(runs["1"], 50.0, when=4)  # with fewer operations
    estimator.measure(runs["1"])
    assert estimator.seconds_per_operation == 50.0 / four


def test_the_pass_of_a_probe_measures_the_speed(tmp_path):
    shared = {"model": "tiny", "data": "sample"}
    [probe] = plan_runs(
        tmp_path, "glue", "features", ["frozen"], task="rte", **shared
    ).values()
    [last] = plan_rte(tmp_path, [1], **shared, frozen_prefix="cached").values()
    estimator = estimate.Estimator()
    # Its only line has the seconds of the pass, and those of the fit.
    finish_after(probe, 90.0, prefix_seconds=60.0)
    estimator.measure(probe)
    speed = 60.0 / estimator.count(probe).build
    assert estimator.seconds_per_operation == speed
    # An epoch that reads a feature cache and runs one block measures nothing.
    finish_after(last, 50.0, prefix_seconds=0.0)
    estimator.measure(last)
    assert estimator.seconds_per_operation == speed
