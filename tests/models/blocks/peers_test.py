"""Blocks that keras-hub does not have compute what transformers computes."""

import numpy as np
import pytest
import tensorflow as tf

from tests.feature_cache import small
from tests.models import encoders
from tests.models.their_folders import load, network_of
from tests.models.their_types import LENGTH, TYPES
from tf_transfer.feature_cache import engines
from tf_transfer.models import exports, freezing, loading, prefix as prefix_lib
from tf_transfer.models.heads import pooled
from tf_transfer.models.methods import added
from tf_transfer.models.methods.lora import LoRA
from tf_transfer.models.network import Network
from tf_transfer.models.prefix import FrozenPrefix

STEPS = 30
EPSILON = 1e-5  # gradients of rounding errors move nothing
PAIRS = [["schön Straße", "漢字 İstanbul", "film"], ["İs", "a film", "Ωm"]]


@pytest.fixture(scope="module", params=TYPES)
def folder(request, tmp_path_factory):
    """A folder of random weights: its path, the model and the tokenizer."""
    torch = pytest.importorskip("torch")
    torch.set_num_threads(1)  # more wait for each other, beside TensorFlow's
    path = tmp_path_factory.mktemp("types") / request.param
    return path, *TYPES[request.param](path)


@pytest.fixture(scope="module")
def encoder(folder):
    """Ours of that folder: leave its weights as they are."""
    return load(folder[0])


def batch_of(encoder, lengths=(LENGTH, 60, 7, 2)):
    """Random ids, padded; ours may read [CLS] at the first token."""
    rng = np.random.default_rng(2)
    words = len(encoder.tokenizer.vocabulary)
    special = encoder.special
    ids = np.full((len(lengths), max(lengths)), special.pad, np.int32)
    for row, length in zip(ids, lengths, strict=True):
        row[:length] = rng.integers(5, words, length)
        row[0], row[length - 1] = special.start, special.end
    mask = np.arange(max(lengths))[None] < np.array(lengths)[:, None]
    return {
        "ids": tf.constant(ids),
        "segments": tf.zeros_like(ids),
        "mask": tf.constant(mask),
    }


def states_of(encoder, batch):
    """The states below block 1 and above every block."""
    x = encoder.embed(batch["ids"], batch["segments"], False)
    states = [x]
    top = len(encoder.blocks)
    encoder.run_blocks(x, batch["mask"], 1, top, False, collect=states.append)
    return [state.numpy() for state in states]


def their_states(model, batch):
    import torch

    with torch.no_grad():
        found = model.base_model(
            torch.tensor(batch["ids"].numpy(), dtype=torch.int64),
            attention_mask=torch.tensor(batch["mask"].numpy()).long(),
            output_hidden_states=True,
        )
    # The last one has the final normalisation, where the type has one.
    states = [*found.hidden_states[:-1], found.last_hidden_state]
    return [state.numpy() for state in states]


def test_the_states_of_every_block_are_those_of_transformers(folder, encoder):
    batch = batch_of(encoder)
    mask = batch["mask"].numpy()
    ours = states_of(encoder, batch)
    theirs = their_states(folder[1], batch)
    assert len(ours) == len(encoder.blocks) + 1
    for one, other in zip(ours, theirs, strict=True):
        np.testing.assert_allclose(one[mask], other[mask], atol=1e-4)


def test_cls_alone_is_cls_of_all(encoder):
    batch = batch_of(encoder)
    states = states_of(encoder, batch)
    top = len(encoder.blocks)
    below = tf.constant(states[-2])
    alone = encoder.run_blocks(below, batch["mask"], top, top, False, True)
    assert alone.shape[1] == 1
    np.testing.assert_allclose(alone[:, 0], states[-1][:, 0], atol=2e-5)


def test_half_precision_is_close(encoder):
    batch = batch_of(encoder, (40, 7))
    texts = [FrozenPrefix(len(encoder.blocks), "tokens", "float32")]
    [exact] = prefix_lib.run(encoder, batch, texts)
    [half] = prefix_lib.run(encoder, batch, texts, "bfloat16")
    mask = batch["mask"]
    error = np.linalg.norm(exact[mask] - half[mask])
    assert 0 < error < 0.06 * np.linalg.norm(exact[mask])


@pytest.mark.parametrize("kept", [1, 3])
def test_the_first_blocks_can_be_kept(kept, folder):
    transformers = pytest.importorskip("transformers")
    path, model, _ = folder
    cut = loading.load(str(path), "", 0.0, keep_blocks=kept)
    assert len(cut.blocks) == kept
    config = transformers.AutoConfig.from_pretrained(
        path, num_hidden_layers=kept
    )
    if getattr(config, "layer_types", None):
        config.layer_types = config.layer_types[:kept]
    shorter = type(model).from_pretrained(path, config=config).eval()
    batch = batch_of(cut, (30, 9))
    mask = batch["mask"].numpy()
    ours, theirs = states_of(cut, batch), their_states(shorter, batch)
    np.testing.assert_allclose(ours[-1][mask], theirs[-1][mask], atol=1e-4)


def test_openvino_computes_the_same(encoder):
    batch = batch_of(encoder, (40, 7)) | {"weights": tf.ones(2)}
    top = len(encoder.blocks)
    prefixes = [FrozenPrefix(cut, "tokens", "float32") for cut in (top, 0, 1)]
    prefixes.append(FrozenPrefix(top, "pooled_blocks", "float32"))
    dataset = tf.data.Dataset.from_tensors(batch)
    [found] = engines.run_openvino(encoder, prefixes, dataset, "float32")
    [expected] = engines.run_tensorflow(
        encoder, prefixes, dataset, "float32", small.OneDevice()
    )
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-4)


# === Training ===


def classifier_of(encoder, classes=3):
    head = pooled.PooledHead(
        classes, encoder.hidden, "cls", 0.0, 0, "float32", name="head_mine"
    )
    return Network(encoder, {"mine": head})


class Adam:
    """As PyTorch has it: Keras adds its epsilon before the correction."""

    def __init__(self, weights, lr):
        self.weights, self.lr, self.step = weights, lr, 0
        self.moments = [[0.0, 0.0] for _ in weights]

    def update(self, gradients):
        self.step += 1
        for weight, gradient, moments in zip(
            self.weights, gradients, self.moments, strict=True
        ):
            if gradient is None:  # the key's bias, at [CLS] alone
                continue
            gradient = tf.convert_to_tensor(gradient)
            moments[0] = 0.9 * moments[0] + 0.1 * gradient
            moments[1] = 0.999 * moments[1] + 0.001 * gradient**2
            mean = moments[0] / (1 - 0.9**self.step)
            scale = tf.sqrt(moments[1] / (1 - 0.999**self.step)) + EPSILON
            weight.assign(weight - self.lr * mean / scale)


def train_ours(network, batch, labels, trainable, lr):
    """The losses of some steps."""
    weights = freezing.freeze(network, trainable)
    adam = Adam(weights, lr)

    @tf.function(autograph=False)
    def compute():
        with tf.GradientTape() as tape:
            logits = network.logits("mine", batch, training=True)
            losses = tf.nn.sparse_softmax_cross_entropy_with_logits(
                labels, logits
            )
            loss = tf.reduce_mean(losses)
        return loss, tape.gradient(loss, [w.value for w in weights])

    losses = []
    for _ in range(STEPS):
        loss, gradients = compute()
        adam.update(gradients)
        losses.append(float(loss))
    return losses


def train_theirs(model, batch, labels, trainable, lr):
    import torch

    base = model.base_model
    layers = base.encoder.layer if hasattr(base, "encoder") else base.layers
    for parameter in base.parameters():
        parameter.requires_grad_(trainable.embeddings)
    for block in layers[trainable.first - 1 :]:
        block.requires_grad_(True)
    if hasattr(base, "final_norm"):
        base.final_norm.requires_grad_(True)
    weights = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.Adam(weights, lr, eps=EPSILON)
    inputs = {
        "input_ids": torch.tensor(batch["ids"].numpy()).long(),
        "attention_mask": torch.tensor(batch["mask"].numpy()).long(),
        "labels": torch.tensor(labels),
    }
    losses = []
    for _ in range(STEPS):
        loss = model(**inputs).loss
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("layers", ["2", "all"])
def test_steps_of_training_have_the_losses_of_transformers(
    layers, folder, tmp_path
):
    transformers = pytest.importorskip("transformers")
    encoder = load(folder[0])
    network = classifier_of(encoder)
    out = str(tmp_path / "out")
    exports.hugging_face(network, "mine", out, "classes", tuple("abc"), LENGTH)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        out
    ).train()
    batch = batch_of(encoder, (100, 60, 7, 30, 12, 90))
    labels = np.array([0, 1, 2, 0, 1, 2])
    trainable = freezing.parse(layers, "", len(encoder.blocks))
    theirs = train_theirs(model, batch, labels, trainable, 1e-3)
    ours = train_ours(network, batch, labels, trainable, 1e-3)
    np.testing.assert_allclose(ours, theirs, atol=1e-3)
    assert ours[-1] < ours[0] - 0.1


def test_lora_in_the_blocks_equals_its_merged_weights(folder):
    encoder = load(folder[0])
    lora = LoRA(rank=2, targets="all")
    trainable = freezing.parse("2", "", len(encoder.blocks), lora)
    encoder.added = added.build(encoder, trainable, 0)
    for layer in encoder.added.values():
        for weight in layer.weights:
            weight.assign(tf.random.stateless_normal(weight.shape, [1, 2]) / 9)
    batch = batch_of(encoder, (30, 9))
    plain = states_of(load(folder[0]), batch)[-1]
    with_lora = states_of(encoder, batch)[-1]
    below = encoder.run_blocks(
        encoder.embed(batch["ids"], batch["segments"], False),
        batch["mask"],
        1,
        len(encoder.blocks),
        False,
        cls_only=True,
    )
    with added.merged(encoder):
        merged = states_of(encoder, batch)[-1]
    mask = batch["mask"].numpy()
    np.testing.assert_allclose(with_lora[mask], merged[mask], atol=1e-4)
    np.testing.assert_allclose(below[:, 0], merged[:, 0], atol=1e-4)
    assert np.abs(plain - merged)[mask].max() > 1e-2


# === Exports ===


def test_transformers_reads_an_export_and_answers_as_ours(folder, tmp_path):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    network = network_of(load(folder[0]))
    out = str(tmp_path / "out")
    exports.hugging_face(network, "mine", out, "classes", ("no", "yes"), 40)
    tokenizer = transformers.AutoTokenizer.from_pretrained(out)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        out
    ).eval()
    batch = tokenizer(*PAIRS, return_tensors="pt", padding=True)
    with torch.no_grad():
        theirs = model(**batch).logits.numpy()
    encoder = network.encoder
    ours = encoders.batch_of(
        encoder, PAIRS, tokenize=encoder.tokenizer.encode, length=40
    )
    length = batch["input_ids"].shape[1]
    np.testing.assert_array_equal(ours["ids"][:, :length], batch["input_ids"])
    logits = network.logits("mine", ours, training=False).numpy()[:, 0]
    np.testing.assert_allclose(theirs[:, 1] - theirs[:, 0], logits, atol=1e-5)
    again = load(out)
    np.testing.assert_allclose(
        states_of(again, ours)[-1], states_of(encoder, ours)[-1], atol=1e-5
    )
