"""The model card of a run: what it was trained on, what it scores."""

import functools
import math
import os
import timeit
from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.training import records
from tf_transfer.utils import formatting, machine
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tensorflow.types.experimental import ConcreteFunction

    from tf_transfer.runs.trained import NetworkPredictor, Predictor

USES = {
    "saved_model": """import tensorflow as tf
import tensorflow_text  # registers the tokenizer's operations

model = tf.saved_model.load(".")
answer = model.signatures["serving_default"]({inputs})
print(answer[{output!r}].numpy())""",
    "hugging_face": """from transformers import pipeline

print(pipeline("text-classification", model=".")({inputs}, truncation=True))""",
    "keras_preset": """import keras_hub

classifier = keras_hub.models.TextClassifier.from_preset(".")
print(classifier.predict({inputs}))""",
}
# Of one text, and of a pair.
INPUTS = {
    "saved_model": (
        'text_1=tf.constant(["..."])',
        'text_1=tf.constant(["..."]), text_2=tf.constant(["..."])',
    ),
    "hugging_face": ('"..."', '{"text": "...", "text_pair": "..."}'),
    "keras_preset": ('["..."]', '(["..."], ["..."])'),
}
# Of a pair where an odd number of tokens is left for both texts: BERT's rule
# gives the last one to the first text, transformers' own to the longer.
CUT_PAIR_USE = """import torch
from transformers import AutoModelForSequenceClassification, AutoTokenizer

model = AutoModelForSequenceClassification.from_pretrained(".").eval()
tokenizer = AutoTokenizer.from_pretrained(".")
backend = tokenizer.backend_tokenizer
room = {max_length} - tokenizer.num_special_tokens_to_add(pair=True)


def encode(*pair):
    texts = [backend.encode(text, add_special_tokens=False) for text in pair]
    first, second = map(len, texts)
    texts[0].truncate(max(room - second, (room + 1) // 2))
    texts[1].truncate(max(room - first, room // 2))
    encoded = backend.post_process(*texts)
    inputs = {{"input_ids": encoded.ids, "token_type_ids": encoded.type_ids}}
    names = inputs.keys() & {{*tokenizer.model_input_names}}
    return {{name: torch.tensor([inputs[name]]) for name in names}}


print(model(**encode("...", "...")).logits)"""
# Of a head on means of tokens, which transformers has no class for.
MEANS_USE = """import torch
from safetensors.torch import load_file
from transformers import AutoModel, AutoTokenizer

model = AutoModel.from_pretrained(".").eval()
tokenizer = AutoTokenizer.from_pretrained(".")
head = load_file("head.safetensors")
inputs = tokenizer(["..."], padding=True, truncation=True, return_tensors="pt")
with torch.no_grad():
    states = model(**inputs, output_hidden_states=True).hidden_states
mask = inputs["attention_mask"][:, :, None]
means = [(x * mask).sum(1) / mask.sum(1) for x in states{blocks}]
logits = torch.cat(means, 1) @ head["weight"].T + head["bias"]
print({output})"""
# The states that such a head reads, of those of all blocks.
MEANS = {"mean": "[-1:]", "block_means": ""}
MEANS_OUTPUTS = {
    "classes": "[model.config.id2label[n] for n in logits.argmax(1).tolist()]",
    "labels": "torch.sigmoid(logits)",
    "score": "logits",
}
WORDS_INPUT = 'words=tf.constant([["...", "..."]])'
# The same for a baseline, of entities and of texts.
TAGS_USE = """import json
import numpy as np

model, weights = json.load(open("model.json")), np.load("weights.npz")
tag_of = dict(zip(model["terms"], weights["tags"]))
print([model["labels"][tag_of.get(word, 0)] for word in ["...", "..."]])"""
TFIDF_USE = """import json
import numpy as np
import scipy.sparse
from sklearn.feature_extraction.text import TfidfVectorizer

model, weights = json.load(open("model.json")), np.load("weights.npz")
vectorizer = TfidfVectorizer(
    analyzer=model["analyzer"],
    ngram_range=tuple(model["ngram_range"]),
    vocabulary=model["terms"],
)
vectorizer.idf_ = weights["idf"]
{features}
print(features @ weights["kernel"] + weights["bias"])"""
FEATURES = (  # of a text, and of a pair
    'features = vectorizer.transform(["..."])',
    """one, other = vectorizer.transform(["..."]), vectorizer.transform(["..."])
product = one.multiply(other)
cosine = scipy.sparse.csr_matrix(product.sum(axis=1))
features = scipy.sparse.hstack(
    [one, other, product, abs(one - other), cosine]
)""",
)

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
    predictor: "NetworkPredictor",
    form: str,
    folder: str,
    serve: "ConcreteFunction",
) -> str:
    """The text of a model card.

    Args:
        predictor: Of the run.
        form: One of `USES`.
        folder: The files of the export.
        serve: The serving signature, which is timed.
    """
    task = predictor.task
    config = records.RunDirectory(predictor.directory, None).config() or {}
    settings = config["settings"]
    lines = _describe_run(predictor, config, folder)
    lines += [
        f"- Encoder: {settings['model']}, {config['key']['model_identity']}.",
        f"- {_describe_cut(predictor)}",
    ]
    outputs = {"score": "score", "entities": "tags"}
    inputs = INPUTS[form][len(task.texts) - 1]
    if form in NOTES:
        lines.append(f"- Tokens: {NOTES[form].format(**settings)}")
    lines += _describe_speed(serve, predictor.devices.names)
    use = USES[form]
    special = predictor.network.encoder.special
    room = settings["max_length"] - 2 - len(special.between)
    if form == "hugging_face" and len(task.texts) == 2 and room % 2:
        use = CUT_PAIR_USE
    output = outputs.get(task.kind, "label")
    pooling = predictor.network.heads[task.name].pooling
    if form == "hugging_face" and pooling in MEANS:
        use, output = MEANS_USE, MEANS_OUTPUTS[task.kind]
    use = use.format(
        inputs=WORDS_INPUT if task.is_tagging else inputs,
        output=output,
        max_length=settings["max_length"],
        blocks=MEANS.get(pooling, ""),
    )
    return _join(lines, _prepare_texts(predictor, use))


def write_baseline_card(predictor: "Predictor", folder: str) -> str:
    """The text of a model card for a baseline; see `write_card`."""
    from tf_transfer.baselines import usual  # scikit-learn takes seconds

    task = predictor.task
    config = records.RunDirectory(predictor.directory, None).config() or {}
    lines = _describe_run(predictor, config, folder)
    if task.is_tagging:
        return _join(lines, TAGS_USE)
    lines.append(
        f"- Words longer than {usual.LONGEST_WORD:,} characters were cut. The "
        "lines below cut none."
    )
    if task.units == 1 and task.labels:
        lines.append(f"- A number above 0 answers {task.labels[1]}.")
    use = TFIDF_USE.format(features=FEATURES[len(task.texts) - 1])
    return _join(lines, use)


def list_preparation(settings: RunSettings) -> list[str]:
    """The flags by which `predict` prepares texts, which no export does.

    Cleaning needs Python: TensorFlow has neither its HTML entities nor the
    letters of its regular expressions.

    Args:
        settings: Those of the run.
    """
    flags = []
    if settings.keyword_column:
        flags.append(f"--keyword_column={settings.keyword_column}")
    if settings.clean != "none":
        flags.append(f"--clean={settings.clean}")
    return flags


def _prepare_texts(predictor: "Predictor", use: str) -> str:
    """Python that uses an export, with texts as the run reads them."""
    settings = predictor.experiment.settings
    if not list_preparation(settings):
        return use
    arguments = ['"..."']
    if settings.keyword_column:
        arguments.append('keyword="..."')
    if settings.clean == "basic":
        arguments.append("clean=True")
    imports, _, rest = use.partition("\n\n")
    return (
        f"{imports}\nfrom tf_transfer.data.texts import make_text\n\n"
        f"text = make_text({', '.join(arguments)})\n"
        + rest.replace('"..."', "text")
    )


def _describe_cut(predictor: "Predictor") -> str:
    """A sentence on what an export reads of a long text."""
    settings = predictor.experiment.settings
    length = settings.max_length
    if predictor.task.is_tagging:
        return (
            f"Words behind the first {length} tokens of a sentence get no "
            "entity. Cut longer sentences first, as tf_transfer.predict does."
        )
    kept = ""
    if settings.long_texts == "head_tail" and len(predictor.task.texts) == 1:
        kept = ": their beginning and end are read (--long_texts=head_tail)"
    return f"Texts are cut at {length} tokens{kept}."


def _find_command(predictor: "Predictor", config: Record) -> str:
    """The command of a run; of this package by its module, not by a path."""
    program, *words = config["starts"][-1]["command"]
    if "tf_transfer" in program.split(os.sep)[-3:]:
        module = predictor.experiment.command_module
        return formatting.quote_command("python", "-m", module, *words)
    return formatting.quote_command(program, *words)


def _describe_run(
    predictor: "Predictor", config: Record, folder: str
) -> list[str]:
    """Lines on any run; see `write_card`."""
    task = predictor.task
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
        f"- Trained: {config['approach']}.",
        f"- Size on disk: {formatting.size(_measure_size(folder))}.",
        f"- Command: `{_find_command(predictor, config)}`",
        *(f"- {line}" for line in _list_scores(predictor.directory)),
    ]
    if flags := list_preparation(predictor.experiment.settings):
        lines.append(
            f"- Texts: the run has {' and '.join(flags)}, which the exported "
            "model has not. Prepare each text by `make_text`, as below."
        )
    if predictor.temperature != 1:
        lines.append(
            f"- Calibrated: logits are divided by {predictor.temperature:.4f}, "
            "fitted on the validation texts."
        )
    return lines


def _measure_size(folder: str) -> int:
    """Bytes of all files below a folder."""
    return sum(
        os.path.getsize(os.path.join(path, name))
        for path, _, names in os.walk(folder)
        for name in names
    )


def _list_scores(path: str) -> list[str]:
    """The scores of a run and of the majority baseline."""
    from tf_transfer.comparison import finished_runs

    run = finished_runs.open_scored(path)
    if run is None:
        return []
    lines = [
        f"Score: {run.metric} {run.ranged.show(1)} on {len(run.labels):,} "
        f"{run.kind} examples, which trained nothing. In brackets: a 95 % "
        "interval."
    ]
    if not math.isnan(run.majority):
        lines.append(f"The majority baseline scores {run.majority:.1f}.")
    return lines


def _join(lines: Sequence[str], use: str) -> str:
    return "\n".join([*lines, "", "```python", use, "```"]) + "\n"


def _describe_speed(serve: "ConcreteFunction", devices: list[str]) -> list[str]:
    """Lines on the median time of a text, by the number of texts in a batch.

    Args:
        serve: See `write_card`.
        devices: That it runs on.
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
