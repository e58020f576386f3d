"""One encoder, three tasks: its settings, its data, its output layers."""

import dataclasses

import numpy as np
import pytest

from tests.models import encoders, saving
from tests.support import cs224n_runs, quick
from tests.support.cs224n_runs import run_folder, settings_of
from tf_transfer.config import command_line
from tf_transfer.data import cs224n, splits
from tf_transfer.multitask import experiment as multitask
from tf_transfer.training import strategy
from tf_transfer.utils.errors import UserError

pytestmark = pytest.mark.usefixtures("one_block", "eager")


@pytest.fixture
def folder(tmp_path):
    """A few rows a file."""
    cs224n_runs.write_all(tmp_path)
    return tmp_path


# === Settings ===


def test_defaults_are_the_paper_s_best_run(folder):
    settings = multitask.Settings(data=str(folder)).resolve()
    assert (settings.train, settings.head_lr, settings.lr) == (
        "head_then_all",
        1e-3,
        1e-5,
    )
    assert (settings.max_epochs, settings.batch_size) == (20, 32)
    assert (settings.pooling, settings.pairs) == ("mean", "sbert")
    assert (settings.layer_decay, settings.head_dropout) == (1.0, 0.3)
    assert settings.bias_correction and settings.weight_decay == 0.0
    assert (settings.clip_norm, settings.adam_epsilon) == (0.0, 1e-6)
    assert (settings.select, settings.schedule) == ("best", "constant")
    names = multitask.tasks_in_order(settings)
    assert names == ["paraphrase", "similarity", "sentiment"]
    assert (settings.combine, settings.loss_weights) == ("in_turn", "")
    assert settings.head_epochs == 20
    assert settings.head_init == "uniform"


@pytest.mark.parametrize(
    "changes, said",
    [
        ({"order": "sentiment"}, "--order=sentiment: give each of"),
        ({"order": "sentiment,sentiment,similarity"}, "--order=sentiment,sen"),
        ({"order": "sentiment,similarity,quora"}, "--order=.*quora"),
        ({"head_lr": 0.0}, "--head_lr=0"),
        ({"layer_decay": 1.5}, "--layer_decay=1.5"),
        ({"trainable_layers": "2"}, "--trainable_layers and --blocks"),
        ({"validation_fraction": 0.2}, "--validation_fraction: has no use"),
        ({"train": "heads"}, "--train=heads"),
        ({"combine": "add"}, "--combine=add: pick one of in_turn, sum"),
        ({"loss_weights": "quora=2"}, "--loss_weights=quora=2: 'quora=2' is"),
        ({"loss_weights": "sentiment=0"}, "with a name of .* number above 0"),
        ({"loss_weights": "sentiment"}, "--loss_weights=sentiment"),
        ({"alpha": -1.0}, "--alpha=-1.0: must be at least 0"),
        ({"last_alpha": -0.5}, "--last_alpha=-0.5: must be"),
        ({"head_epochs": -1}, "--head_epochs=-1"),
        ({"max_dev_examples": -1}, "--max_dev_examples=-1: must be"),
    ],
)
def test_bad_values_are_named(folder, changes, said):
    with pytest.raises(UserError, match=said):
        settings_of(folder, **changes)


def test_what_a_run_does_not_read_is_not_in_its_name(folder):
    def same(one, other):
        names = [run_folder(settings_of(folder, **c)) for c in (one, other)]
        return names[0] == names[1]

    assert same({"train": "all"}, {"train": "all", "head_lr": 0.5})
    assert not same({}, {"head_lr": 0.5})
    assert same({"train": "head"}, {"train": "head", "lr": 0.5})
    assert same({}, {"alpha": 0.5, "last_alpha": 0.5})
    drawn = {"combine": "sampled"}
    assert not same(drawn, {**drawn, "alpha": 0.5})
    # Under a changing exponent each epoch depends on how many there are.
    kept = {"head_epochs": 1}
    assert same(kept, {**kept, "max_epochs": 9})
    assert not same({**drawn, **kept}, {**drawn, **kept, "max_epochs": 9})
    fixed = {**drawn, **kept, "alpha": 0.5, "last_alpha": 0.5}
    assert same(fixed, {**fixed, "max_epochs": 9})
    # The heads' epochs are the run's own, though they follow --max_epochs.
    assert not same({}, {"max_epochs": 9})


def test_overall_is_the_mean_with_r_brought_into_0_to_1():
    """The first row of the paper's table 3."""
    overall = cs224n.overall(
        {
            "sentiment_accuracy": 0.461,
            "paraphrase_accuracy": 0.756,
            "similarity_pearson": 0.693,
        }
    )
    assert overall == pytest.approx(0.688, abs=0.0005)


def test_the_flags_are_the_settings(folder):
    words = [f"--data={folder}", "--train=head", "--pooling=cls"]
    settings = command_line.parse(multitask.Settings, words)
    assert settings == dataclasses.replace(
        multitask.Settings(),
        data=str(folder),
        train="head",
        pooling="cls",
    )


# === Data ===


def test_a_stratified_subset_of_each_dev_set_validates(folder):
    settings = settings_of(folder, max_dev_examples=5)
    experiment = multitask.Multitask(settings)
    _, [phase, _], sizes = experiment.build(strategy.single_device())
    for objective in phase.objectives:
        rows = cs224n.open_project(str(folder), objective.name).read("dev")
        numbers = splits.choose_subset(rows.labels, 5, settings.split_seed)
        split = objective.evaluation["validation"][""]
        assert split.ids.tolist() == rows.ids[numbers].tolist()
        assert split.labels.tolist() == rows.labels[numbers].tolist()
        assert len(split) == sizes[f"validation_{objective.name}"] == 5
        assert len(objective.train) == cs224n_runs.SIZES[objective.name]


def test_glue_s_nearest_sets_stand_in(folder):
    settings = settings_of(folder, data="sample", train="head", pairs="cross")
    experiment = multitask.Multitask(settings)
    network, [phase], sizes = experiment.build(strategy.single_device())
    assert experiment.data.tasks["sentiment"].labels == ("0", "1")
    for objective in phase.objectives:
        head = network.heads[objective.name]
        assert head.dense.units == head.texts_per_example == 1
        assert len(objective.train) == sizes[f"train_{objective.name}"] > 0
        assert len(objective.evaluation["validation"][""]) > 0


@pytest.mark.parametrize(
    "pairs, vectors", [("sbert", 3), ("concat", 2), ("cross", 1)]
)
def test_a_pair_is_read_as_asked(folder, pairs, vectors):
    settings = settings_of(folder, train="head", pairs=pairs)
    network, *_ = multitask.Multitask(settings).build(strategy.single_device())
    for name, count in (("sentiment", 1), ("similarity", vectors)):
        kernel = network.heads[name].dense.kernel
        assert kernel.shape[0] == count * network.encoder.hidden


@pytest.mark.slow
@pytest.mark.parametrize("pooling, trains", [("cls", True), ("mean", False)])
def test_roberta_s_new_pooler_trains_with_the_output_layers(
    folder, tmp_path, pooling, trains
):
    model = str(tmp_path / "roberta")
    saving.as_keras(encoders.roberta(), model)
    settings = settings_of(
        folder, model=model, train="head", pooling=pooling, max_epochs=1
    )
    with quick.eagerly():
        result = multitask.run(settings)
    pooler = result.network.encoder.pooler.get_weights()[0]
    other = multitask.Multitask(settings)
    fresh, *_ = other.build(strategy.single_device())
    moved = np.abs(pooler - fresh.encoder.pooler.get_weights()[0]).max()
    assert (moved > 0) == trains


# === Initial weights ===


def weights_of_heads(folder, **changes):
    """Kernel and bias of each output layer before training, by task."""
    experiment = multitask.Multitask(settings_of(folder, **changes))
    encoder = experiment.load_encoder()
    return {
        name: experiment.build_head(task, encoder).dense.get_weights()
        for name, task in experiment.data.tasks.items()
    }


def test_output_layers_start_as_pytorch_s_linear(folder):
    heads = weights_of_heads(folder)
    again = weights_of_heads(folder)
    assert len(heads) == 3
    for name, (kernel, bias) in heads.items():
        bound = 1 / np.sqrt(len(kernel))
        assert 0.8 * bound < np.abs(kernel).max() <= bound
        assert kernel.std() == pytest.approx(bound / np.sqrt(3), rel=0.2)
        assert 0 < np.abs(bias).max() <= bound
        np.testing.assert_array_equal(bias, again[name][1])
    others = weights_of_heads(folder, seed=1)
    assert all((heads[n][1] != others[n][1]).all() for n in heads)


def test_output_layers_may_start_as_bert_s(folder):
    settings = settings_of(folder, head_init="truncated_normal")
    assert "head_init" not in settings.hashed()  # as runs before the flag
    for kernel, bias in weights_of_heads(
        folder, head_init="truncated_normal"
    ).values():
        assert kernel.std() == pytest.approx(0.02, rel=0.3)
        assert not bias.any()


def test_a_method_needs_blocks_that_train(tmp_path):
    settings = multitask.Settings(
        data="sample", model="tiny", train="head", method="lora"
    )
    with pytest.raises(UserError, match="--method=lora: .* trains none"):
        multitask.Multitask(settings)
