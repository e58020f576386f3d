"""What a run takes: operations from official sizes, and a measured speed."""

import os

import pytest

from tests.support import commands, own_data, tweets_table
from tests.sweeps.fakes import finish_after
from tf_transfer.data import official, registry
from tf_transfer.models import cost
from tf_transfer.reports import claims
from tf_transfer.sweeps import estimate, grid as grid_lib
from tf_transfer.utils.errors import UserError

BASE = cost.Shape(12, 768, 12, 3072)


def plan_runs(tmp_path, experiment, axis, values, **flags):
    """Dict from a value of the axis to its run; nothing is located."""
    grid = {"experiment": experiment, "flags": flags, "axes": {axis: values}}
    runs = grid_lib.expand(
        "grid.json", grid_lib.Grid(**grid), str(tmp_path / "runs")
    )
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


def test_your_own_texts_are_counted(tmp_path):
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


# === Seconds, by finished runs ===


SMALL = {"model": "tiny", "data": "sample"}


def test_a_run_takes_as_long_as_others_of_its_approach(tmp_path):
    runs = [
        *plan_runs(tmp_path, "glue", "lr", [1e-3, 1e-4, 1e-5], **SMALL).values()
    ]
    estimator = estimate.Estimator()
    assert estimator.estimate(runs[2]) is None
    finish_after(runs[0], 10.0)
    finish_after(runs[1], 30.0)
    estimator.measure_all(runs[:2])
    assert estimator.estimate(runs[2]) == 20.0 + 2.0  # and what was traced


def test_the_wall_clock_says_what_else_a_run_takes(tmp_path):
    first, second = plan_runs(
        tmp_path, "glue", "lr", [1e-3, 1e-4], **SMALL
    ).values()
    estimator = estimate.Estimator()
    finish_after(first, 10.0)
    estimator.measure(first, wall=17.0)
    assert estimator.estimate(second) == 17.0


def test_a_run_on_another_machine_does_not_count(tmp_path):
    first, second = plan_runs(
        tmp_path, "glue", "lr", [1e-3, 1e-4], **SMALL
    ).values()
    finish_after(first, 10.0, host="elsewhere")
    estimator = estimate.Estimator()
    estimator.measure(first)
    assert estimator.estimate(second) is None


def test_another_approach_is_scaled_from_the_nearest(tmp_path):
    runs = plan_rte(tmp_path, ["all", 3, 2], **SMALL, max_epochs=4)
    estimator = estimate.Estimator()
    finish_after(runs["all"], 10.0, epochs=4)
    finish_after(runs["3"], 99.0, epochs=4)
    estimator.measure_all([runs["all"], runs["3"]])
    scale = estimator.count_one(runs["2"]) / estimator.count_one(runs["3"])
    assert estimator.estimate(runs["2"]) == pytest.approx(
        2.0 * scale**0.5 + 99.0 * scale
    )


def test_the_epochs_of_a_running_run_show_the_speed(tmp_path):
    runs = plan_rte(tmp_path, ["all", 3], **SMALL, max_epochs=4)
    finish_after(runs["all"], 10.0, epochs=2)
    os.remove(runs["all"].directory.file("result.json"))
    estimator = estimate.Estimator()
    estimator.measure(runs["all"])
    whole, one = map(estimator.count_one, (runs["all"], runs["3"]))
    assert estimator.estimate(runs["all"]) == 2 * 10.0
    assert estimator.estimate(runs["3"]) == pytest.approx(20.0 * one / whole)


def test_a_run_is_not_scaled_from_a_tiny_one_or_another_precision(tmp_path):
    runs = plan_rte(tmp_path, ["all", 1], max_length=64, frozen_prefix="cached")
    estimator = estimate.Estimator()
    finish_after(runs["1"], 50.0, prefix_seconds=0.0)
    estimator.measure(runs["1"])
    assert estimator.count_one(runs["1"]) * 10 < estimator.count_one(
        runs["all"]
    )
    assert estimator.estimate(runs["all"]) is None
    finish_after(runs["all"], 50.0)
    estimator.measure(runs["all"])
    [half] = plan_rte(tmp_path, ["all"], precision="mixed_bfloat16").values()
    assert estimator.estimate(half) is None


def test_a_pass_predicts_only_passes(tmp_path):
    """Of the same engine and precision, and not of training."""
    [probe] = plan_runs(
        tmp_path, "glue", "features", ["frozen"], task="rte", **SMALL
    ).values()
    cached = {**SMALL, "frozen_prefix": "cached"}
    runs = plan_rte(tmp_path, [2, 1], **cached)
    others = plan_rte(tmp_path, [2, 1], **cached, max_length=64)
    ordered = [others["1"], others["2"]]
    estimator = estimate.Estimator()
    settings = probe.settings
    engine = f"{settings.pass_engine} {settings.pass_precision}"
    assert estimator.estimate_builds(ordered) is None
    finish_after(probe, 8.0, prefix_seconds=60.0, prefix_engine="other int8")
    estimator.measure(probe)
    assert estimator.estimate_builds(ordered) is None
    finish_after(probe, 8.0, prefix_seconds=60.0, prefix_engine=engine)
    estimator.measure(probe)
    assert estimator.estimate(runs["2"]) is None
    # It has stored the states of lower cuts on the same texts.
    assert estimator.estimate_builds(runs.values()) == 0.0
    # The pass of the highest cut stores the states of the lower one.
    speed = 60.0 / estimator.count(probe).build
    build = estimator.count(others["1"]).build
    assert estimator.estimate_builds(ordered) == pytest.approx(speed * build)
    finish_after(others["1"], 5.0, prefix_seconds=0.0)
    estimator.measure(others["1"])
    assert estimator.estimate_builds(ordered) == 0.0
