"""Operations are counted from shapes, product by product."""

import pytest
import tensorflow as tf
from tensorflow.python.profiler import model_analyzer, option_builder

from tests.models import encoders, own_types
from tf_transfer.models import cost, exports, freezing, loading

SHAPE = cost.Shape(blocks=3, hidden=8, heads=2, inner=32)
LENGTH = 64


def by_hand(length):
    """Forward operations of one whole block, product by product."""
    products = [(length, 8, 8)] * 4 + [(length, 8, 32), (length, 32, 8)]
    scores = 2 * 2 * (length * 4 * length) * 2
    return sum(2 * a * b * c for a, b, c in products) + scores


def test_the_operations_of_a_block_are_those_of_its_products():
    assert sum(cost.count_block(SHAPE, 7)) == by_hand(7)
    assert cost.count_forward(SHAPE, 7) == 3 * by_hand(7)
    assert cost.count_forward(SHAPE, 7, bottom=1, top=2) == by_hand(7)


def test_a_block_at_cls_alone_has_products_of_one_query_a_text():
    # q W_k' and (a x) W_v of two heads with four units each.
    products = [(1, 8, 8)] * 2 + [(1, 4, 8)] * 4 + [(1, 8, 32), (1, 32, 8)]
    scores = 2 * 2 * 7 * 8 * 2  # q W_k' x' and a x of two heads
    expected = sum(2 * a * b * c for a, b, c in products) + scores
    assert sum(cost.count_block(SHAPE, 7, True)) == expected
    whole = cost.count_forward(SHAPE, 7, cls_only=True)
    assert whole == 2 * by_hand(7) + expected
    assert cost.count_forward(SHAPE, 7, cls_only=True, bottom=2) == expected


@pytest.mark.parametrize(
    "trainable, forwards, least",
    [
        (freezing.Trainable(1, 3, embeddings=True), 9, 0),
        (freezing.Trainable(1, 3), 9, 1),
        (freezing.Trainable(3, 3), 5, 1),
        (freezing.Trainable(2, 2), 1 + 3 + 2, 1),
        (freezing.Trainable(4, 3), 3, 0),
    ],
    ids=str,
)
def test_a_trained_block_counts_three_times_and_the_lowest_a_little_less(
    trainable, forwards, least
):
    operations = cost.count_training(SHAPE, 16, False, trainable, False)
    spared = 3 * 2 * 8 * 8 * 16 * least
    assert operations == forwards * by_hand(16) - spared
    frozen = trainable.cut * by_hand(16)
    cached = cost.count_training(SHAPE, 16, False, trainable, True)
    assert cached == operations - frozen


def profile(function, hidden):
    """Operations of the matrix products that TensorFlow's profiler counts."""
    spec = tf.TensorSpec([1, LENGTH, hidden])
    graph = tf.function(function).get_concrete_function(spec).graph
    options = option_builder.ProfileOptionBuilder.float_operation()
    options["account_type_regexes"] = [".*MatMul.*"]
    options["output"] = "none"
    profile = model_analyzer.profile(graph, cmd="op", options=options)
    return profile.total_float_ops


@pytest.fixture(params=["bert", *own_types.CONFIGS])
def counted(request, tmp_path):
    """An encoder of a type, and its shape."""
    if request.param == "bert":
        return encoders.shared("bert"), loading.read_shape("tiny")
    longest = {"max_position_embeddings": 2 * LENGTH}
    encoder = own_types.make(request.param, tmp_path, **longest)
    network, folder = own_types.network_of(encoder), str(tmp_path)
    exports.hugging_face(network, "mine", folder, "classes", ("a", "b"), 40)
    return encoder, loading.read_shape(folder)


@pytest.mark.slow  # traces and saves a model
@pytest.mark.parametrize("cls_only", [False, True])
def test_the_profiler_counts_the_same_operations(cls_only, counted):
    encoder, shape = counted
    mask = tf.ones([1, LENGTH], tf.bool)
    trainable = freezing.parse("2", "", shape.blocks)
    weights = [
        weight.value
        for block in encoder.blocks[trainable.cut :]
        for weight in block.trainable_variables
    ]

    def run(x):
        return encoder.run_blocks(x, mask, 1, shape.blocks, False, cls_only)

    def train(x):
        with tf.GradientTape(watch_accessed_variables=False) as tape:
            tape.watch(weights)
            loss = tf.reduce_sum(run(x)[:, 0] ** 2)
        return tape.gradient(loss, weights)

    forward = cost.count_forward(shape, LENGTH, cls_only)
    # A batch projects the states of all distances once, which is not counted.
    once = shape.kind.position_products * 2 * shape.hidden**2
    distances = 2 * LENGTH * (shape.blocks - cls_only) + LENGTH * cls_only
    # At [CLS], a term of the scores is a sum of products, and no matrix's.
    sums = 0
    if cls_only and shape.kind.position_products:
        sums = 2 * LENGTH * shape.hidden
    assert profile(run, shape.hidden) == forward + once * distances - sums
    # It does not see which factors are transposed, nor what a batch shares.
    if cls_only or shape.kind.position_products:
        return
    training = cost.count_training(shape, LENGTH, cls_only, trainable, False)
    assert profile(train, shape.hidden) == training
