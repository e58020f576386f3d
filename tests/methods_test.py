"""Methods of training in whole runs: what moves, is kept and is found again."""

import dataclasses
import os

import numpy as np
import pytest
import safetensors.numpy
import tensorflow as tf

from tests.conftest import tiny_settings
from tests.support.quick import eagerly
from tests.warm_test import numbers
from tf_transfer import experiment
from tf_transfer.glue import experiment as glue
from tf_transfer.models import methods
from tf_transfer.models.methods.base_method import LowRank, Method, NewWeight
from tf_transfer.models.network import Network
from tf_transfer.multitask import experiment as multitask
from tf_transfer.runs import export_folder
from tf_transfer.runs.warm import WarmState
from tf_transfer.stacking import experiment as stacking
from tf_transfer.tweets import experiment as tweets
from tf_transfer.utils.errors import UserError

NAMES = ("lora", "bias", "norm")
BASE = {
    "task": "sst2",
    "trainable_layers": "1",
    "max_train_examples": 16,
    "max_length": 16,
    "max_epochs": 1,
}


@pytest.fixture(autouse=True, scope="module")
def small_and_eager():
    with eagerly(blocks=2):
        yield


def settings_of(out, **changes):
    return tiny_settings(out, **{**BASE, **changes})


def arrays_of(result, folder):
    """The arrays of the newest checkpoint, or of the selected weights."""
    folder = os.path.join(result.directory, folder)
    name = max(n for n in os.listdir(folder) if n.endswith(".safetensors"))
    return safetensors.numpy.load_file(os.path.join(folder, name))


@pytest.mark.parametrize(
    "method",
    [
        pytest.param(name, marks=() if name == "lora" else pytest.mark.slow)
        for name in NAMES
    ],
)
def test_checkpoints_hold_what_trains_alone_and_are_smaller(method, tmp_path):
    """The trainer itself checks by hash that nothing else has moved."""
    shared = settings_of(tmp_path)
    result = glue.run(dataclasses.replace(shared, method=method))
    network = result.network
    trained = {w.path for w in network.weights if w.trainable}
    assert set(arrays_of(result, "model")) == trained
    kept = arrays_of(result, "checkpoint")
    moments = {n for n in kept if n[:2] in ("m/", "v/")}
    assert moments == {f"{m}/{path}" for path in trained for m in "mv"}
    assert trained <= set(kept)
    size = sum(array.size for name, array in kept.items() if name in trained)
    assert size == result.record["trainable_parameters"]
    assert not any("embedding" in path or "layer_0" in path for path in trained)
    assert result.record["approach"].startswith(f"last_1_{method}")


@pytest.fixture(scope="module")
def exact(tmp_path_factory):
    """Settings with nothing that tells a live prefix from a cached one."""
    return settings_of(
        tmp_path_factory.mktemp("exact"),
        dropout=0.0,
        head_dropout=0.0,
        cache_dtype="float32",
    )


def test_cached_is_live(exact, tmp_path):
    runs = [
        glue.run(
            dataclasses.replace(
                exact,
                method="lora",
                frozen_prefix=frozen_prefix,
                cache_dir=str(tmp_path / "cache"),
            )
        )
        for frozen_prefix in ("live", "cached")
    ]
    live, cached = (arrays_of(run, "model") for run in runs)
    assert runs[1].record["prefix_build_seconds"] > 0
    for path, value in live.items():
        np.testing.assert_allclose(cached[path], value, atol=1e-5)


def test_the_cache_of_a_prefix_serves_every_method(exact, tmp_path, capsys):
    for method in ("full", "lora"):
        settings = dataclasses.replace(
            exact,
            method=method,
            frozen_prefix="cached",
            cache_dir=str(tmp_path / "cache"),
        )
        glue.run(settings)
    assert capsys.readouterr().out.count("built now") == 1


@pytest.mark.slow  # trains whole runs
def test_in_half_precision_what_trains_is_float32(tmp_path):
    settings = settings_of(
        tmp_path, method="lora", precision="mixed_bfloat16", dropout=0.0
    )
    result = glue.run(settings)
    trained = [w for w in result.network.weights if w.trainable]
    assert {str(weight.dtype) for weight in trained} == {"float32"}
    whole = glue.run(dataclasses.replace(settings, precision="float32"))
    assert list(result.history.train_loss) == pytest.approx(
        list(whole.history.train_loss), rel=0.01
    )


@pytest.mark.slow
def test_a_resumed_run_is_the_one_that_was_not_interrupted(tmp_path):
    def run(out, epochs):
        settings = settings_of(
            tmp_path / out, method="lora", max_epochs=epochs, patience=0
        )
        return glue.run(settings)

    run("resumed", 1)
    resumed, whole = run("resumed", 2), run("whole", 2)
    assert resumed.record["epochs_run"] == 2
    assert numbers(resumed) == numbers(whole)


@pytest.mark.slow
def test_a_worker_draws_each_run_s_own_weights(tmp_path):
    """Another seed, then full tuning, then the first again, on one encoder."""
    warm = WarmState()
    order = ({"seed": 0}, {"seed": 1}, {"method": "full"}, {"seed": 2})
    for changes in order:
        shared = {"method": "lora", "trainable_layers": "all", **changes}
        alone = glue.Glue(settings_of(tmp_path / "alone", **shared))
        settings = settings_of(tmp_path / "together", **shared)
        together = glue.Glue(settings, warm=warm)
        assert numbers(together.train()) == numbers(alone.train())


@pytest.mark.slow  # trains whole runs
def test_a_saved_run_answers_as_it_did_and_exports_a_plain_bert(tmp_path):
    result = glue.run(settings_of(tmp_path / "runs", method="lora", lr=0.01))
    texts = ["A good film.", "The dog was not in the house, two men said."]
    first = result.predictor().answer(texts)
    again = experiment.open_run(result.directory).predictor()
    assert again.answer(texts) == first
    folder = str(tmp_path / "hf")
    export_folder.export(again, folder, "hugging_face")
    assert again.answer(texts) == first
    plain = glue.Glue(settings_of(tmp_path / "other", model=folder))
    encoder = plain.load_encoder()
    network = Network(encoder, again.network.heads)
    pooler = encoder.pooler.get_weights()
    for one, other in zip(pooler, again.network.encoder.pooler.get_weights()):
        np.testing.assert_array_equal(one, other)
    again.network, again._program = network, None
    for (label, score), (_, other) in zip(first, again.answer(texts)):
        assert score == pytest.approx(other, abs=1e-5), label


@pytest.mark.slow
def test_a_saved_model_answers_with_what_the_method_adds(tmp_path):
    settings = settings_of(tmp_path / "runs", method="lora", lr=0.01)
    predictor = glue.run(settings).predictor()
    texts = ["A good film.", "The dog was not in the house, two men said."]
    folder = str(tmp_path / "saved")
    export_folder.export(predictor, folder)
    model = tf.saved_model.load(folder)
    served = model.signatures["serving_default"](text_1=tf.constant(texts))
    logits = served["logits"].numpy().ravel()
    for logit, (label, score) in zip(logits, predictor.answer(texts)):
        positive = 1 / (1 + np.exp(-logit))
        assert score == pytest.approx(max(positive, 1 - positive), abs=1e-5)
        assert label == predictor.task.labels[int(positive > 0.5)]


@pytest.mark.slow
def test_phases_and_several_objectives_know_methods(tmp_path):
    shared = {
        "data": "sample",
        "model": "tiny",
        "batch_size": 8,
        "max_epochs": 1,
        "max_length": 16,
        "method": "lora",
        "lora_rank": 4,
        "frozen_prefix": "cached",
        "cache_dir": str(tmp_path / "cache"),
    }
    out = str(tmp_path / "stacking")
    settings = stacking.Settings(task="pairs", head="dense", out=out, **shared)
    result = stacking.run(settings)
    assert "stack_and_finetune_dense_lora4" in result.directory
    # A and B of query and value of both blocks, and the head.
    added = 2 * 2 * 2 * 32 * 4
    [head] = result.network.heads.values()
    assert result.record["trainable_parameters"] == added + sum(
        int(np.prod(weight.shape)) for weight in head.weights
    )
    out = str(tmp_path / "multitask")
    result = multitask.run(
        multitask.Settings(
            combine="sum", max_train_examples=8, out=out, **shared
        )
    )
    assert result.record["approach"] == "head_then_all_lora4"
    assert len(result.record["phases"]) == 2


# === A method of one's own, as CONTRIBUTING.md says ===

PATH = "tests.methods_test:Thin"


@dataclasses.dataclass(frozen=True)
class Thin(Method):
    """A product of rank one, added to the last dense layer of a block."""

    lr = 0.01

    def new_weights(self, widths):
        inputs, outputs = widths["outer"]
        return {
            "thin_a": NewWeight((inputs, 1), 0.1),
            "thin_b": NewWeight((1, outputs)),
        }

    def low_rank(self, weights, name):
        if name != "outer":
            return None
        return LowRank(weights["thin_a"], weights["thin_b"])


def test_a_row_is_a_method_that_trains_and_is_found_again(
    monkeypatch, tmp_path
):
    monkeypatch.setattr(methods, "METHODS", dict(methods.METHODS))
    methods.register("thin", PATH)
    result = glue.run(settings_of(tmp_path, method="thin", lr=None))
    assert result.record["approach"] == "last_1_thin"
    assert result.record["lr"] == 0.01
    assert result.record["trainable_parameters"] == 64 + 32 + 33
    [thin_b] = (
        array
        for path, array in arrays_of(result, "model").items()
        if path.endswith("thin_b")
    )
    assert np.abs(thin_b).max() > 0
    again = experiment.open_run(result.directory).predictor()
    assert again.answer(["Good."]) == result.predictor().answer(["Good."])
    with pytest.raises(ValueError, match="the method 'thin' is"):
        methods.register("thin", "elsewhere:Thin")


# === Settings ===


@pytest.mark.parametrize(
    "changes, approach, lr",
    [
        ({"method": "lora"}, "all_lora8", 5e-4),
        (
            {"method": "lora", "trainable_layers": "2", "lora_rank": 4},
            "last_2_lora4",
            5e-4,
        ),
        (
            {"method": "lora", "blocks": "1-2", "lora_targets": "all"},
            "blocks_1-2_lora8_all",
            5e-4,
        ),
        ({"method": "bias", "trainable_layers": "4"}, "last_4_bias", 4e-4),
        ({"method": "norm", "lr": 1e-4}, "all_norm", 1e-4),
        ({"trainable_layers": "head"}, "head", 1e-3),
    ],
)
def test_an_approach_is_method_and_blocks(changes, approach, lr):
    settings = glue.Settings(**changes).resolve()
    assert (settings.approach, settings.lr) == (approach, lr)


def test_only_options_of_the_method_are_part_of_a_run_s_name():
    plain = glue.Settings().hashed()
    assert not {"method", "head", "lora_rank"} & set(plain)
    assert glue.Settings(lora_rank=3).hashed() == plain
    lora = glue.Settings(method="lora").hashed()
    assert lora["method"] == "lora" and lora["lora_rank"] == 8
    bias = glue.Settings(method="bias", lora_rank=3).hashed()
    assert "lora_rank" not in bias
    assert "lora_rank" in glue.Settings(method="bias").unread()
    assert "lora_rank" not in glue.Settings(method="lora").unread()
    assert "lora_rank" in tweets.Settings(data="a.csv").unread()


@pytest.mark.parametrize(
    "changes, named",
    [
        ({"method": "prefix"}, "--method=prefix"),
        ({"method": "lora", "lora_targets": "q"}, "--lora_targets=q"),
        ({"method": "lora", "trainable_layers": "0"}, "--method=lora"),
        ({"method": "bias", "trainable_layers": "head"}, "--method=bias"),
    ],
)
def test_what_cannot_be_is_refused_before_anything_is_written(
    changes, named, tmp_path
):
    with pytest.raises(UserError, match=f"^{named}"):
        glue.run(settings_of(tmp_path, lr=None, **changes))
    assert not os.listdir(tmp_path)


@pytest.mark.slow  # trains whole runs
def test_a_deeper_head_has_a_layer_of_the_encoder_s_width(tmp_path):
    settings = settings_of(tmp_path, trainable_layers="head", head="mlp")
    result = glue.run(settings)
    assert result.record["trainable_parameters"] == 33 * 32 + 33
    assert result.record["approach"] == "head"
    with pytest.raises(UserError, match="--format: other libraries"):
        export_folder.export(
            result.predictor(), str(tmp_path / "hf"), "hugging_face"
        )


@pytest.mark.slow  # trains whole runs
def test_scores_are_learned_in_units_of_their_deviation(tmp_path):
    """A new output layer answers zero: the middle of the range."""
    ours = experiment.load("methods")
    sample = {"data": "sample", "model": "tiny", "max_length": 16}
    settings = ours.Settings(
        task="stsb",
        max_epochs=1,
        lr=1e-6,
        trainable_layers="head",
        out=str(tmp_path),
        **sample,
    )
    task = ours(settings).data.task
    assert task.score_scale == pytest.approx((2.5, 5 / 12**0.5))
    assert glue.Glue(glue.Settings(task="stsb", **sample)).data.task == (
        dataclasses.replace(task, score_scale=None)
    )
    result = ours.run(settings)
    with np.load(os.path.join(result.directory, "predictions.npz")) as arrays:
        np.testing.assert_allclose(arrays["test_logits"], 2.5, atol=0.5)
    predictor = experiment.open_run(result.directory).predictor()
    assert predictor.task.score_scale == task.score_scale
    [(_, score)] = predictor.answer(["a dog"], ["a cat"])
    assert abs(score - 2.5) < 0.5
    # Only where scores are scaled it is another run.
    assert ours(settings).data.identity.endswith(" scaled")
    labels = ours(ours.Settings(task="sst2", **sample))
    assert labels.data.identity == labels.data.source.identity
