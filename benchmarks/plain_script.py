"""A script with transformers on PyTorch, as its users write it.

    python -m benchmarks.plain_script TEXTS ENCODER OUT --blocks=2 --lr=5e-4

TEXTS is a JSON file with the splits `train` and `dev`, each with `texts` (one
list, or two of pairs) and `labels`. Trains the last blocks, the pooler and the
head, or everything; scores `dev` after every epoch, and saves the model in OUT.
With --warmup the rate rises for that share of the steps, and then falls to 0.
Batches are of like length and padded to their longest text.
"""

import argparse
import json
import random

import torch
import transformers

MEGABATCH = 50  # batches that are sorted by length together, as by `Trainer`


def list_batches(
    lengths: list[int], size: int, rng: random.Random
) -> list[list[int]]:
    """The examples of each batch of an epoch."""
    order = rng.sample(range(len(lengths)), len(lengths))
    megas = [
        order[start : start + MEGABATCH * size]
        for start in range(0, len(order), MEGABATCH * size)
    ]
    order = [i for mega in megas for i in sorted(mega, key=lengths.__getitem__)]
    batches = [order[i : i + size] for i in range(0, len(order), size)]
    return rng.sample(batches, len(batches))


def main() -> None:
    """The script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts")
    parser.add_argument("encoder")
    parser.add_argument("out")
    parser.add_argument("--blocks", default="all")
    parser.add_argument("--warmup", type=float, default=0.0)
    parser.add_argument("--lr", type=float, default=1e-4)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--batch_size", type=int, default=16)
    parser.add_argument("--max_length", type=int, default=128)
    parser.add_argument("--autocast", action="store_true")
    given = parser.parse_args()
    with open(given.texts, encoding="utf-8") as file:
        splits = json.load(file)
    torch.manual_seed(0)
    tokenizer = transformers.AutoTokenizer.from_pretrained(given.encoder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        given.encoder, num_labels=1 + max(splits["train"]["labels"])
    )
    if given.blocks != "all":
        model.bert.embeddings.requires_grad_(False)
        for block in model.bert.encoder.layer[: -int(given.blocks)]:
            block.requires_grad_(False)

    def encode(split: dict) -> list[dict]:
        ids = tokenizer(
            *split["texts"], truncation=True, max_length=given.max_length
        )
        return [
            {**{name: ids[name][row] for name in ids}, "labels": label}
            for row, label in enumerate(split["labels"])
        ]

    def batch(examples: list[dict], rows: list[int]) -> dict:
        return dict(
            tokenizer.pad([examples[i] for i in rows], return_tensors="pt")
        )

    train, dev = encode(splits["train"]), encode(splits["dev"])
    lengths = [len(example["input_ids"]) for example in train]
    dev.sort(key=lambda example: len(example["input_ids"]))
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=given.lr, weight_decay=0.01, fused=True
    )
    rng = random.Random(0)
    steps = -(-len(train) // given.batch_size) * given.epochs
    schedule = transformers.get_linear_schedule_with_warmup(
        optimizer, given.warmup * steps, steps
    )
    autocast = torch.autocast("cpu", torch.bfloat16, enabled=given.autocast)
    for epoch in range(1, given.epochs + 1):
        model.train()
        for rows in list_batches(lengths, given.batch_size, rng):
            with autocast:
                loss = model(**batch(train, rows)).loss
            loss.backward()
            torch.nn.utils.clip_grad_norm_(trained, 1.0)
            optimizer.step()
            if given.warmup:
                schedule.step()
            optimizer.zero_grad()
        model.eval()
        right = 0
        with torch.inference_mode(), autocast:
            for start in range(0, len(dev), 64):
                rows = list(range(start, min(start + 64, len(dev))))
                inputs = batch(dev, rows)
                answers = model(**inputs).logits.argmax(-1)
                right += int((answers == inputs["labels"]).sum())
        print(f"epoch {epoch}  accuracy {right / len(dev):.4f}", flush=True)
    model.save_pretrained(given.out)
    tokenizer.save_pretrained(given.out)


if __name__ == "__main__":
    main()
