"""The model card of a run: what it was trained on, what it scores."""

import functools
import shlex
import timeit
from collections.abc import Sequence
from typing import Any

import numpy as np

from tf_transfer.training import records
from tf_transfer.utils import formatting, machine

USES = {
    "saved_model": """import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

model = tf.saved_model.load(".")
answer = model.signatures["serving_default"]({inputs})
print(answer[{output!r}].numpy())""",
    "hugging_face": """from transformers import pipeline

pipeline("text-classification", model=".")("...", truncation=True)""",
    "keras_preset": """import keras_nlp

keras_nlp.models.TextClassifier.from_preset(".").predict(["..."])""",
}

NOTES = {
    "hugging_face": "Texts are cut at {max_length} tokens: give "
    "`truncation=True`. In words of capital letters, transformers reads a "
    "final Greek sigma as another letter.",
    "keras_preset": "keras-hub's tokenizer joins words at spaces that are not "
    "ASCII, ends a text at NUL, and folds some letters and signs (ß, ², …) in "
    "another way. For such texts, export a SavedModel.",
}


# Timing: words per text, texts per batch, number of calls.
TIMED_WORDS, TIMED_BATCHES, TIMED_CALLS = 32, (1, 32), 5


def write_card(
    predictor: Any, form: str, size: int, serve: Any, scores: Sequence[str]
) -> str:
    """The text of a model card.

    Args:
        predictor: the run's `trained.Predictor`.
        form: one of `USES`.
        size: bytes of the export.
        serve: the serving signature, which is timed.
        scores: lines on what the run scores.
    """
    task = predictor.task
    config = records.RunDirectory(predictor.directory, None).config() or {}
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
    lines += [f"- {line}" for line in scores]
    command = shlex.join(config["starts"][-1]["command"])
    outputs = {"score": "score", "entities": "tags"}
    texts = [
        f'text_{n}=tf.constant(["..."])' for n, _ in enumerate(task.texts, 1)
    ]
    words_only = 'words=tf.constant([["...", "..."]])'
    if predictor.temperature != 1:
        lines.append(
            f"- Calibrated: logits are divided by {predictor.temperature:.4f}, "
            "fitted on the validation texts."
        )
    if form in NOTES:
        lines.append(f"- Tokens: {NOTES[form].format(**settings)}")
    lines += [
        f"- Size on disk: {formatting.size(size)}.",
        *_describe_speed(serve, predictor.devices.names),
        f"- Command: `{command}`",
        "",
        "```python",
        USES[form].format(
            inputs=words_only if task.is_tagging else ", ".join(texts),
            output=outputs.get(task.kind, "label"),
        ),
        "```",
    ]
    return "\n".join(lines) + "\n"


def _describe_speed(serve: Any, devices: list[str]) -> list[str]:
    """Lines on the median time of a text, by the number of texts in a batch.

    Args:
        serve: see `write_card`.
        devices: that it runs on.
    """
    import tensorflow as tf

    [_, inputs] = serve.structured_input_signature
    lines = []
    for texts in TIMED_BATCHES:
        words = np.full([texts, TIMED_WORDS], "the")
        if all(spec.shape.rank == 1 for spec in inputs.values()):
            words = np.full([texts], " ".join(["the"] * TIMED_WORDS))
        batch = dict.fromkeys(inputs, tf.constant(words))
        call = functools.partial(serve, **batch)
        times = timeit.repeat(call, number=1, repeat=TIMED_CALLS + 1)
        seconds = float(np.median(times[1:])) / texts
        lines.append(
            f"- Seconds per text of {TIMED_WORDS} words, {texts} in a batch: "
            f"{seconds:.2g}, by the SavedModel on {', '.join(devices)} of "
            f"{machine.processor()}."
        )
    return lines
