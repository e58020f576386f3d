"""The measurement compares like with like."""

import dataclasses

import pytest

from tf_transfer import benchmark
from tf_transfer import glue
from tf_transfer.data import sources
from tf_transfer.data import tasks
from tf_transfer.errors import UserError
from tf_transfer.training import strategy


def settings(**changes):
    return benchmark.BenchmarkSettings(
        task="rte", data="sample", model="tiny", max_length=16, batch_size=4,
        examples=8, rounds=1, trainable_layers="1", **changes,
    ).resolve()  # fmt: skip


def test_all_contestants_are_measured_every_round():
    speeds = benchmark.run(settings())
    assert list(speeds) == [
        "ours",
        "keras-nlp fit, padded to the bucket",
        "keras-nlp fit, padded to 16",
    ]
    assert all(len(v) == 1 and v[0] > 0 for v in speeds.values())


@pytest.mark.parametrize("layers", ["0", "2", "all"])
def test_the_other_s_classifier_trains_what_ours_does(layers):
    chosen = dataclasses.replace(settings(), trainable_layers=layers)
    task = tasks.GLUE[chosen.task]
    network, [phase], _ = glue.prepare(
        chosen, task, sources.Source(task, "sample", ""),
        strategy.Devices(strategy.tf.distribute.get_strategy()),
    )  # fmt: skip
    classifier, encoder = benchmark.build_classifier(chosen, phase)
    head = {id(w) for w in classifier.get_layer("logits").weights}
    theirs = {
        weight.path
        for weight in classifier.trainable_weights
        if id(weight) not in head
    }
    from tf_transfer.models import split

    ours = split.freeze(network, phase.trainable)
    head = {weight.path for weight in network.heads["rte"].weights}
    assert theirs == {weight.path for weight in ours} - head
    assert encoder.family == "bert"


def test_fewer_examples_than_a_batch_are_refused():
    with pytest.raises(UserError, match="--examples"):
        benchmark.run(dataclasses.replace(settings(), examples=2))
