r"""A trial of an Elsa study as a user of transformers would write it.

    python -m benchmarks.transformers_trial ENCODER --task=rte --data=glue \
        --trainable_layers=2 --lr=1e-4

ENCODER is a folder that transformers load; the flags are those of
tf_transfer.freezing. The same blocks, texts, epochs, batch size, rate and
clipping; transformers' own tokenizer, classifier and `Trainer`, batches grouped
by length and padded to their longest, the test scored after every epoch. No
checkpoint is written, which favours it.
"""

import sys
import tempfile
from typing import Any

from benchmarks import hugging_face
from tf_transfer.config import command_line
from tf_transfer.data import batches
from tf_transfer.freezing import experiment as freezing


def train(folder: str, settings: freezing.Settings) -> list[dict[str, Any]]:
    """Trains and evaluates.

    Args:
        folder: Of the encoder.
        settings: Of the trial.

    Returns:
        The log of `Trainer`, with the `eval_loss` of each epoch.
    """
    import transformers

    trial = freezing.Freezing(settings)
    settings = trial.settings
    [splits] = trial.data.examples.values()
    tokenizer = transformers.AutoTokenizer.from_pretrained(folder)
    model = transformers.AutoModelForSequenceClassification.from_pretrained(
        folder
    )
    hugging_face.freeze(model, trial.trainable(len(model.bert.encoder.layer)))

    def tokenize(examples: Any) -> list[dict[str, Any]]:
        encoded = tokenizer(
            *examples.texts, truncation=True, max_length=settings.max_length
        )
        return [
            {**{name: encoded[name][row] for name in encoded}, "labels": label}
            for row, label in enumerate(examples.labels.tolist())
        ]

    with tempfile.TemporaryDirectory() as out:
        trainer = transformers.Trainer(
            model,
            transformers.TrainingArguments(
                out,
                num_train_epochs=settings.max_epochs,
                per_device_train_batch_size=settings.batch_size,
                per_device_eval_batch_size=batches.EVALUATION_BATCH,
                train_sampling_strategy="group_by_length",
                learning_rate=settings.lr,
                lr_scheduler_type=settings.schedule,
                max_grad_norm=settings.clip_norm,
                eval_strategy="epoch",
                save_strategy="no",
                report_to="none",
                seed=settings.seed,
                use_cpu=True,
            ),
            transformers.DataCollatorWithPadding(tokenizer),
            tokenize(splits["train"][""]),
            tokenize(splits["test"][""]),
        )
        trainer.train()
        return trainer.state.log_history


def main(argv: list[str]) -> None:
    """Trains with the settings of the command."""
    _, folder, *words = argv
    print(train(folder, command_line.parse(freezing.Settings, words)))


if __name__ == "__main__":
    command_line.exit_on_error(lambda: main(sys.argv))
