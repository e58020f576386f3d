"""The other libraries train the blocks that ours trains."""

import dataclasses
import json
import types

import numpy as np
import pytest
import tensorflow as tf

from benchmarks import elsa_study, hugging_face, transformers_trial
from tests.conftest import tiny_settings
from tests.models import encoders, own_types, their_folders
from tests.support import odd_texts
from tf_transfer.data import batches
from tf_transfer.freezing import experiment as elsa
from tf_transfer.glue import experiment as glue
from tf_transfer.models import exports, freezing, loading
from tf_transfer.models.heads import pooled as pooled_lib
from tf_transfer.models.methods import added, base_method
from tf_transfer.models.methods.lora import LoRA
from tf_transfer.models.network import Network
from tf_transfer.training import strategy

LAYERS = ["0", "2", "all"]


@pytest.fixture(scope="module")
def settings():
    return tiny_settings("runs", max_train_examples=16)


@pytest.fixture(scope="module")
def ours(settings):
    """Our network, and the texts that it trains on."""
    network, [phase], _ = glue.Glue(settings).build(strategy.single_device())
    return network, phase.objectives[0].train


@pytest.fixture
def encoder():
    """An encoder for the other library."""
    return loading.load("tiny", "", 0.1)


def plan_epoch(split, size=4):
    return batches.plan_epoch(split.lengths, size, "grouped", 0, 1, 1, (16, 32))


@pytest.mark.parametrize("layers", LAYERS)
def test_hugging_face_trains_as_many_parameters_as_ours(
    layers, settings, ours, encoder
):
    pytest.importorskip("torch")
    network, _ = ours
    trainable = freezing.parse(layers, "", 3)
    model, _ = hugging_face.build(encoder, trainable, 2, settings)
    theirs = sum(p.numel() for p in model.parameters() if p.requires_grad)
    expected = sum(
        part.parameters
        for part in freezing.components(network)
        if trainable.includes(part.name)
    )
    # Ours has one output for a yes or no, theirs two.
    assert theirs == expected + network.encoder.hidden + 1


@pytest.mark.parametrize("layers", ["0", "2"])
@pytest.mark.parametrize("name", own_types.CONFIGS)
def test_hugging_face_has_a_model_of_the_encoders_type(
    name, layers, settings, tmp_path
):
    pytest.importorskip("torch")
    encoder = own_types.make(name, tmp_path)
    trainable = freezing.parse(layers, "", len(encoder.blocks))
    model, _ = hugging_face.build(encoder, trainable, 2, settings)
    assert model.config.model_type == name
    theirs = sum(p.numel() for p in model.parameters() if p.requires_grad)
    assert theirs == sum(
        part.parameters
        for part in freezing.components(own_types.network_of(encoder, 2))
        if trainable.includes(part.name)
    )
    batch = encoders.batch_of(
        encoder, encoders.PAIRS, tokenize=encoder.tokenizer.encode
    )
    run = hugging_face.make_pass(
        encoder, [{n: x.numpy() for n, x in batch.items()}], "float32"
    )
    run()


def test_an_epoch_of_hugging_face_changes_trainable_weights_alone(
    settings, ours, encoder
):
    torch = pytest.importorskip("torch")
    _, split = ours
    trainable = freezing.parse("1", "", 3)
    model, optimizer = hugging_face.build(encoder, trainable, 2, settings)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    hugging_face.make_epoch(
        model, optimizer, encoder, split, plan_epoch(split), settings
    )()
    for name, parameter in model.named_parameters():
        moved = not torch.equal(parameter.detach(), before[name])
        assert moved == parameter.requires_grad, name


def test_hugging_face_computes_where_pytorch_has_its_device(
    settings, ours, encoder, monkeypatch
):
    """`meta` stands for a GPU."""
    torch = pytest.importorskip("torch")
    _, split = ours
    trainable = freezing.parse("1", "", 3)
    monkeypatch.setattr(hugging_face, "device", lambda: torch.device("meta"))
    monkeypatch.setattr(  # fused AdamW does not know `meta`
        torch.optim,
        "AdamW",
        lambda weights, **options: torch.optim.SGD(weights),
    )
    model, optimizer = hugging_face.build(encoder, trainable, 2, settings)
    assert {p.device.type for p in model.parameters()} == {"meta"}
    read = []

    def forward(**batch):
        read.append(batch)
        return types.SimpleNamespace(loss=model.classifier.weight.sum())

    monkeypatch.setattr(model, "forward", forward)
    settings = dataclasses.replace(settings, clip_norm=0.0)
    hugging_face.make_epoch(
        model, optimizer, encoder, split, plan_epoch(split), settings
    )()
    assert read
    assert {x.device.type for batch in read for x in batch.values()} == {"meta"}


def lora_beside(settings, encoder, layers, lora):
    """What trains, and peft's model of the encoder with it."""
    pytest.importorskip("peft")
    trainable = freezing.parse(layers, "", 3, lora)
    return trainable, *hugging_face.build(encoder, trainable, 2, settings)


@pytest.mark.parametrize(
    "layers, targets", [("all", "query,value"), ("2", "query"), ("1", "all")]
)
def test_peft_trains_as_many_parameters_as_our_lora(
    layers, targets, settings, ours, encoder
):
    lora = LoRA(rank=4, targets=targets)
    trainable, model, _ = lora_beside(settings, encoder, layers, lora)
    names = base_method.DENSE if targets == "all" else targets.split(",")
    expected = {
        f"{number - 1}.{base_method.TRANSFORMERS_NAMES[name]}.lora_{side}"
        for number in range(trainable.first, trainable.last + 1)
        for name in names
        for side in "AB"
    }
    trained = [(n, p) for n, p in model.named_parameters() if p.requires_grad]
    blocks = {
        name.partition("encoder.layer.")[2].removesuffix(".default.weight")
        for name, _ in trained
    }
    assert blocks == {*expected, ""}  # and the head, beside the blocks
    encoder.added = added.build(encoder, trainable, 0)
    network = Network(encoder, ours[0].heads)
    assert (
        sum(parameter.numel() for _, parameter in trained)
        == freezing.count_trained(network, trainable) + encoder.hidden + 1
    )


def test_peft_adds_the_product_that_ours_adds(encoder, tmp_path):
    """The encoder with the same A and B answers alike in both."""
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    pytest.importorskip("peft")
    lora = LoRA(rank=4, alpha=12.0)
    trainable = freezing.parse("all", "", 3, lora)
    network = Network(encoder, {"mine": head_of_ones(encoder.hidden)})
    folder = str(tmp_path)
    exports.hugging_face(network, "mine", folder, "classes", "ab", 40)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    ).eval()
    hugging_face._add_lora(model, trainable, lora)
    modules = dict(model.bert.encoder.layer.named_modules())
    random = np.random.default_rng(0)
    encoder.added = added.build(encoder, trainable, 0)
    for number, one in encoder.added.items():
        for name in ("query", "value"):
            theirs = modules[
                f"{number - 1}.{base_method.TRANSFORMERS_NAMES[name]}"
            ]
            for side in "ab":
                weight = one.by_name[f"{name}_{side}"]
                weight.assign(random.normal(0, 0.1, weight.shape))
                layer = getattr(theirs, f"lora_{side.upper()}")["default"]
                layer.weight.data = torch.tensor(weight.numpy().T)
    ids = random.integers(5, 60, (3, 9))
    mask = (np.arange(9) < [[9], [4], [7]]).astype("int64")
    batch = {"ids": ids, "segments": np.zeros_like(ids), "mask": mask == 1}
    given = {name: tf.constant(value) for name, value in batch.items()}
    ours = network.logits("mine", given, training=False).numpy()[:, 0]
    with torch.no_grad():
        pooled = model.bert(
            input_ids=torch.tensor(ids), attention_mask=torch.tensor(mask)
        ).pooler_output.numpy()
    np.testing.assert_allclose(ours, pooled.sum(-1), atol=1e-4)


def head_of_ones(width):
    head = pooled_lib.PooledHead(
        1, width, "cls", 0.0, 0, "float32", name="head_mine"
    )
    head.dense.set_weights([np.ones((width, 1)), np.zeros(1)])
    return head


def test_an_epoch_of_peft_changes_lora_and_head_alone(settings, ours, encoder):
    _, split = ours
    _, model, optimizer = lora_beside(settings, encoder, "all", LoRA())
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    hugging_face.make_epoch(
        model, optimizer, encoder, split, plan_epoch(split), settings
    )()
    for name, parameter in model.named_parameters():
        moved = (parameter.detach() != before[name]).any()
        assert moved == parameter.requires_grad, name
        assert moved == ("lora_" in name or "modules_to_save" in name), name


@pytest.mark.slow
def test_a_trial_of_transformers_trains_and_is_scored_every_epoch(tmp_path):
    pytest.importorskip("accelerate")
    settings = elsa.Settings(
        task="rte",
        data="sample",
        model="tiny",
        trainable_layers="1",
        lr=1e-3,
        max_epochs=2,
        max_train_examples=16,
        out=str(tmp_path),
    )
    folder = str(tmp_path / "encoder")
    elsa_study.save_encoder(settings, "", folder)
    log = transformers_trial.train(folder, settings)
    first, second = (line["eval_loss"] for line in log if "eval_loss" in line)
    assert first != second


@pytest.mark.slow
def test_the_script_trains_the_last_blocks_and_saves_a_model(
    tmp_path, monkeypatch, capsys
):
    torch = pytest.importorskip("torch")
    transformers = pytest.importorskip("transformers")
    from benchmarks import plain_script

    encoder, out = tmp_path / "encoder", tmp_path / "out"
    their_folders.save_bert(encoder)
    texts = [f"{word} {word}" for word in odd_texts.WORDS[:12]]
    split = {"texts": [texts], "labels": [0, 1] * 6}
    (tmp_path / "texts.json").write_text(
        json.dumps({"train": split, "dev": split})
    )
    words = [tmp_path / "texts.json", encoder, out, "--blocks=1", "--epochs=2"]
    words += ["--batch_size=4", "--max_length=16", "--lr=1e-2"]
    monkeypatch.setattr("sys.argv", ["script", *map(str, words)])
    plain_script.main()
    assert capsys.readouterr().out.count("accuracy") == 2
    before = transformers.BertModel.from_pretrained(encoder).state_dict()
    model = transformers.AutoModelForSequenceClassification.from_pretrained(out)
    after = model.bert.state_dict()
    moved = {n for n in after if not torch.equal(after[n], before[n])}
    assert moved and all(
        n.startswith(("encoder.layer.1.", "pooler.")) for n in moved
    )
