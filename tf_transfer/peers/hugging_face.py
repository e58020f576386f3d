"""Hugging Face transformers on PyTorch, with the same parts frozen.

Batches are those of ours grouped by length, each padded to its own longest
text, as `group_by_length` and a padding collator make them. The loop is
PyTorch's leanest: fused AdamW, scaled-dot-product attention, no Trainer, and
nothing is logged. Weights are random in the encoder's shape: time does not
depend on them.
"""

import contextlib
import os

import torch
import transformers

from tf_transfer.data import batches
from tf_transfer.models import cost


def matmul(rows, inner, columns, precision):
    """A function that multiplies two matrices, to measure PyTorch's own."""
    half = precision == "mixed_bfloat16"
    kind = torch.bfloat16 if half else torch.float32
    one = torch.randn(rows, inner, dtype=kind)
    other = torch.randn(inner, columns, dtype=kind)
    return lambda: one @ other


def build(encoder, trainable, classes, settings):
    """(model, optimizer) with the encoder's shape and frozen parts."""
    shape = cost.Shape.of(encoder)
    config = transformers.BertConfig(
        vocab_size=encoder.tokenizer.vocabulary_size(),
        hidden_size=shape.hidden,
        num_hidden_layers=shape.blocks,
        num_attention_heads=shape.heads,
        intermediate_size=shape.inner,
        hidden_dropout_prob=settings.dropout,
        attention_probs_dropout_prob=settings.dropout,
        classifier_dropout=settings.head_dropout,
        max_position_embeddings=encoder.longest,
        num_labels=classes,
    )
    torch.set_num_threads(len(os.sched_getaffinity(0)))
    torch.manual_seed(settings.seed)
    model = transformers.BertForSequenceClassification(config).train()
    frozen = [
        block
        for number, block in enumerate(model.bert.encoder.layer, 1)
        if not trainable.includes(f"block {number}")
    ]
    if not trainable.embeddings:
        frozen.append(model.bert.embeddings)
    for module in frozen:
        module.requires_grad_(False)
    optimizer = torch.optim.AdamW(
        [p for p in model.parameters() if p.requires_grad],
        lr=settings.lr,
        weight_decay=settings.weight_decay,
        fused=True,
    )
    return model, optimizer


def epoch_of(model, optimizer, encoder, part, plan, settings):
    """A function that trains the model for one epoch."""
    longest = part.tokens.lengths[plan.rows].max(axis=1)
    plan = batches.Plan(plan.rows, plan.counts, longest.astype("int32"))
    kept = [
        {
            "input_ids": torch.tensor(batch["ids"][:count].astype("int64")),
            "token_type_ids": torch.tensor(
                batch["segments"][:count].astype("int64")
            ),
            "attention_mask": torch.tensor(batch["mask"][:count]).long(),
            "labels": torch.tensor(batch["labels"][:count].astype("int64")),
        }
        for batch, count in zip(
            batches.pipeline(
                part, plan, encoder.special.pad
            ).as_numpy_iterator(),
            plan.counts.tolist(),
        )
    ]
    half = settings.precision == "mixed_bfloat16"
    context = (
        (lambda: torch.autocast("cpu", torch.bfloat16))
        if half
        else contextlib.nullcontext
    )
    weights = [p for p in model.parameters() if p.requires_grad]

    def epoch():
        for batch in kept:
            with context():
                loss = model(**batch).loss
            loss.backward()
            if settings.clip_norm:
                torch.nn.utils.clip_grad_norm_(weights, settings.clip_norm)
            optimizer.step()
            optimizer.zero_grad()

    return epoch
