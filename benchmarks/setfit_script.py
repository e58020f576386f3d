"""A script with SetFit, as its users write it.

    python -m benchmarks.setfit_script TEXTS ENCODER

TEXTS is as `plain_script` takes it, of one text each. Trains the encoder on
pairs of texts, with the defaults of SetFit, and a logistic regression on its
vectors; scores `dev`. SetFit: Lewis Tunstall et al., "Efficient Few-Shot
Learning Without Prompts" (arXiv 2209.11055).
"""

import argparse
import json

import datasets
import setfit


def main() -> None:
    """The script."""
    parser = argparse.ArgumentParser()
    parser.add_argument("texts")
    parser.add_argument("encoder")
    parser.add_argument("--max_length", type=int, default=128)
    given = parser.parse_args()
    with open(given.texts, encoding="utf-8") as file:
        splits = json.load(file)
    train, dev = (
        datasets.Dataset.from_dict(
            {"text": splits[name]["texts"][0], "label": splits[name]["labels"]}
        )
        for name in ("train", "dev")
    )
    model = setfit.SetFitModel.from_pretrained(given.encoder)
    model.model_body.max_seq_length = given.max_length
    trainer = setfit.Trainer(
        model=model,
        args=setfit.TrainingArguments(save_strategy="no", report_to="none"),
        train_dataset=train,
    )
    trainer.train()
    answers = model.predict(dev["text"])
    right = sum(int(a) == b for a, b in zip(answers, dev["label"]))
    print(f"accuracy {right / len(dev):.4f}", flush=True)


if __name__ == "__main__":
    main()
