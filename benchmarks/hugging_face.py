"""Hugging Face transformers on PyTorch, with the same blocks frozen.

Batches are ours grouped by length, each padded to its own longest text, as
`group_by_length` and a padding collator make them. The loop is PyTorch's
leanest: fused AdamW, scaled-dot-product attention, no Trainer, and nothing is
logged. Weights are random in the encoder's shape: time does not depend on them.
LoRA is peft's.
"""

import contextlib
import importlib.metadata
import importlib.util
import os
from collections.abc import Callable
from typing import Any, TYPE_CHECKING

from tf_transfer.config import settings as settings_lib
from tf_transfer.data import batches
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.models import cost, freezing
from tf_transfer.models.methods import base_method
from tf_transfer.models.methods.lora import LoRA
from tf_transfer.models.transformers_types import TYPES

if TYPE_CHECKING:  # a process of PyTorch's does without TensorFlow
    from tf_transfer.models import encoder as encoder_lib


PACKAGES = ("torch", "transformers", "peft", "setfit")  # of the extra `peers`
# Their names of a batch's arrays.
INPUTS = {
    "input_ids": "ids",
    "token_type_ids": "segments",
    "attention_mask": "mask",
    "labels": "labels",
}


def is_installed() -> bool:
    """Whether the extra `peers` is installed."""
    return all(map(importlib.util.find_spec, PACKAGES))


def versions() -> dict[str, str]:
    """The versions of PyTorch and transformers, if installed."""
    if not is_installed():
        return {}
    return {n: importlib.metadata.version(n) for n in ("torch", "transformers")}


def device() -> Any:
    """The device that PyTorch computes on, a `torch.device`: a GPU if any."""
    import torch

    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def wait() -> None:
    """Waits until the GPU has done what it was asked to do."""
    import torch

    if torch.cuda.is_available():
        torch.cuda.synchronize()


def product(
    rows: int, inner: int, columns: int, precision: str
) -> Callable[[], object]:
    """Returns a function that multiplies two random matrices in PyTorch.

    The arguments are those of `peak.tensorflow_product`.
    """
    import torch

    half = precision == "mixed_bfloat16"
    dtype = torch.bfloat16 if half else torch.float32
    left = torch.randn(rows, inner, dtype=dtype, device=device())
    right = torch.randn(inner, columns, dtype=dtype, device=device())

    def multiply() -> None:
        left @ right
        wait()

    return multiply


def own_config(encoder: "encoder_lib.Encoder") -> dict[str, Any] | None:
    """`config.json` of a type whose layers are not keras-hub's, or None."""
    if not hasattr(encoder.backbone, "model_type"):
        return None
    return dict(encoder.backbone.config)


def list_inputs(encoder: "encoder_lib.Encoder") -> dict[str, str]:
    """The `INPUTS` that a model of an encoder's type takes."""
    names = dict(INPUTS)
    if own_config(encoder) is not None:
        del names["token_type_ids"]
    return names


def find_shape(encoder: "encoder_lib.Encoder") -> cost.Shape:
    """The shape of an encoder of ours."""
    if own_config(encoder) is not None:
        shape = encoder.backbone.shape
        return cost.Shape(
            len(encoder.blocks),
            shape.hidden,
            shape.heads,
            shape.inner,
            TYPES[encoder.backbone.model_type].kind,
        )
    block = encoder.blocks[0]
    return cost.Shape(
        len(encoder.blocks),
        encoder.hidden,
        block.num_heads,
        block.intermediate_dim,
    )


def build(
    encoder: "encoder_lib.Encoder",
    trainable: freezing.Trainable,
    classes: int,
    settings: settings_lib.Settings,
) -> tuple[Any, Any]:
    """Returns (model, optimizer) of the encoder's shape, equally frozen.

    Args:
        encoder: Ours.
        trainable: What trains: every weight of some blocks, or LoRA in them.
        classes: Number of answers.
        settings: Dropout, rate, decay and seed.
    """
    import torch
    import transformers

    names = ["hidden_dropout_prob", "attention_probs_dropout_prob"]
    if encoder.family == "modernbert":
        names = ["attention_dropout", "mlp_dropout", "embedding_dropout"]
    config = _make_config(
        encoder,
        **dict.fromkeys(names, settings.dropout),
        classifier_dropout=settings.head_dropout,
        num_labels=classes,
    )
    torch.set_float32_matmul_precision(
        "high" if settings.precision == "tf32" else "highest"
    )
    torch.manual_seed(settings.seed)
    made = transformers.AutoModelForSequenceClassification.from_config(config)
    model = made.train()
    if isinstance(trainable.method, LoRA):
        model = _add_lora(model, trainable, trainable.method)
    else:
        freeze(model, trainable)
    model.to(device())
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad],
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    return model, optimizer


def _make_config(encoder: "encoder_lib.Encoder", **options: Any) -> Any:
    """A config of our encoder's type and shape.

    It is a `BertConfig` for all that have keras-hub's layers. PyTorch has all
    our threads.
    """
    import torch
    import transformers

    torch.set_num_threads(len(os.sched_getaffinity(0)))
    own = own_config(encoder)
    if own is not None:
        return transformers.AutoConfig.for_model(**{**own, **options})
    shape = find_shape(encoder)
    return transformers.BertConfig(
        vocab_size=len(encoder.tokenizer.vocabulary),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.blocks,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        max_position_embeddings=encoder.max_positions,
        **options,
    )


def make_pass(
    encoder: "encoder_lib.Encoder",
    given: list[dict[str, Any]],
    precision: str,
) -> Callable[[], object]:
    """Returns a function that runs a `BertModel` over batches.

    Args:
        encoder: Ours, whose shape the model has.
        given: Dicts of arrays; see `data.batches.pipeline`.
        precision: `float32` or `bfloat16`, of weights and arithmetic.
    """
    import torch
    import transformers

    config = _make_config(encoder)
    if own_config(encoder) is not None:
        model = transformers.AutoModel.from_config(config)
    else:
        model = transformers.BertModel(config, add_pooling_layer=False)
    model = model.eval().to(device(), getattr(torch, precision))

    @torch.inference_mode()
    def run() -> None:
        for batch in given:
            inputs = {
                name: torch.tensor(batch[ours].astype("int64")).to(device())
                for name, ours in list_inputs(encoder).items()
                if name != "labels"
            }
            model(**inputs).last_hidden_state.float().cpu().numpy()

    return run


def freeze(model: Any, trainable: freezing.Trainable) -> None:
    """Freezes the blocks and embeddings of a classifier that must not train."""
    base = model.base_model
    blocks = base.encoder.layer if hasattr(base, "encoder") else base.layers
    trained = [
        block
        for number, block in enumerate(blocks, 1)
        if trainable.includes(f"block {number}")
    ]
    pooler = getattr(base, "pooler", None)
    # A final normalisation belongs to the last block.
    final = getattr(base, "final_norm", None) if trained else None
    base.requires_grad_(trainable.embeddings)
    for module in (*trained, pooler, final):
        if module is not None:
            module.requires_grad_(True)


def _add_lora(model: Any, trainable: freezing.Trainable, lora: LoRA) -> Any:
    """Adds peft's LoRA, as ours is; all else but the head is frozen."""
    import peft

    every = lora.targets == "all"
    names = base_method.DENSE if every else lora.targets.split(",")
    config = peft.LoraConfig(
        task_type=peft.TaskType.SEQ_CLS,  # its head trains
        r=lora.rank,
        lora_alpha=lora.alpha,
        lora_dropout=0.0,  # ours has none either
        target_modules=[
            f"bert.encoder.layer.{number - 1}."
            + base_method.TRANSFORMERS_NAMES[name]
            for number in range(trainable.first, trainable.last + 1)
            for name in names
        ],
    )
    return peft.get_peft_model(model, config)


def make_epoch(
    model: Any,
    optimizer: Any,
    encoder: "encoder_lib.Encoder",
    split: EncodedSplit,
    plan: batches.BatchPlan,
    settings: settings_lib.Settings,
) -> Callable[[], None]:
    """Returns a function that trains the model for one epoch.

    The batches are on the model's device before the first epoch.

    Args:
        model: The model that `build` returned.
        optimizer: Its optimizer.
        encoder: Ours, whose padding token is used.
        split: The texts.
        plan: Which of them make a batch.
        settings: Precision and clipping.
    """
    import torch

    longest = split.lengths[plan.rows].max(axis=1)
    plan = batches.BatchPlan(plan.rows, plan.counts, longest.astype("int32"))
    inputs = [
        {
            name: torch.tensor(batch[ours][:count].astype("int64")).to(
                model.device
            )
            for name, ours in list_inputs(encoder).items()
        }
        for batch, count in zip(
            batches.pipeline(
                split, plan, encoder.special.pad
            ).as_numpy_iterator(),
            plan.counts.tolist(),
        )
    ]
    half = settings.precision == "mixed_bfloat16"
    weights = [p for p in model.parameters() if p.requires_grad]

    def precision() -> contextlib.AbstractContextManager:
        if half:
            return torch.autocast(model.device.type, torch.bfloat16)
        return contextlib.nullcontext()

    def train_epoch() -> None:
        for batch in inputs:
            with precision():
                loss = model(**batch).loss
            loss.backward()
            if settings.clip_norm:
                torch.nn.utils.clip_grad_norm_(weights, settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()
        wait()

    return train_epoch
