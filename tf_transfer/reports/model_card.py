"""The model card of a run: what it was trained on, what it scores."""

import shlex
from typing import Any

from tf_transfer.reports import answer
from tf_transfer.training import records

USES = {
    "saved_model": """import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

model = tf.saved_model.load(".")
model.signatures["serving_default"](text_1=tf.constant(["..."]))""",
    "hugging_face": """from transformers import pipeline

pipeline("text-classification", model=".")("...")""",
    "keras_preset": """import keras_nlp

keras_nlp.models.TextClassifier.from_preset(".").predict(["..."])""",
}


def write_card(path: str, task: Any, form: str) -> str:
    """The text of a model card.

    Args:
        path: of the run directory.
        task: that answers.
        form: one of `USES`.
    """
    config = records.RunDirectory(path, None).config() or {}
    run = answer.open_scored(path)
    settings = config["settings"]
    sizes = ", ".join(
        f"{n:,} {name}" for name, n in config["split_sizes"].items()
    )
    lines = [
        f"# {task.name}",
        "",
        f"- Task: {task.kind}; texts {', '.join(task.texts)}; labels "
        f"{', '.join(task.labels or ('a score',))}.",
        f"- Examples: {sizes}.",
        f"- Data: {config['key']['data_identity']}.",
        f"- Encoder: {settings['model']}, {config['key']['model_identity']}.",
        f"- Trained: {config['approach']}, texts up to "
        f"{settings['max_length']} tokens.",
    ]
    if run is not None:
        score = answer.format_score(run, "95 % interval ")
        lines.append(
            f"- Score: {run.metric} {score} on {len(run.labels):,} {run.kind} "
            "examples, which trained nothing."
        )
        majority_score = answer.majority(run)
        if majority_score is not None:
            lines.append(
                f"- The majority baseline scores {majority_score:.1f}."
            )
    command = shlex.join(config["starts"][-1]["command"])
    lines += [
        f"- Command: `{command}`",
        "",
        "```python",
        USES[form],
        "```",
    ]
    return "\n".join(lines) + "\n"
