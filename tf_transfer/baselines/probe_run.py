"""The probe as a run like any other."""

import contextlib
import functools
from collections.abc import Mapping
from typing import Any

from tf_transfer.baselines import (
    baseline_runs,
    pooled_states,
    probe,
    token_tfidf,
)
from tf_transfer.data import groups as groups_lib, splits
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.feature_cache.feature_cache import FeatureCache
from tf_transfer.models import loading
from tf_transfer.models.encoder import Encoder
from tf_transfer.training.records import RunDirectory
from tf_transfer.training.signals import StopSignals
from tf_transfer.utils.json_files import Record

MOST_SENTENCES = 1000  # whose states above every block are stored


def fit(experiment: Any, directory: RunDirectory) -> Record:
    """Fits a regression on the states of the frozen encoder.

    Args:
        experiment: `Experiment`, one whose settings ask for it, with one task.
        directory: the run directory.

    Returns:
        The content of `result.json`.

    Raises:
        UserError: Nothing can be learned from the labels, or the states find
            no room on the disk.
        Interrupted: SIGTERM or Ctrl-C; the states so far are kept.
    """
    settings, data = experiment.settings, experiment.data
    task, examples = data.task, data.examples[data.task.name]
    train = examples["train"][""]
    labels, _ = train.targets(task)
    labelled = len(train) + sum(map(len, examples["validation"].values()))
    probe.check_labels(task, labels, len(train), data.name)
    if train.groups is not None:
        groups_lib.check_folds(train.groups, probe.FOLDS)
    devices = experiment.set_up_devices()
    encoder = experiment.load_encoder()
    # Above fewer blocks, the pooler reads what it was not trained on.
    has_pooler = not (
        loading.has_new_pooler(settings.model) or settings.keep_blocks
    )
    reads_words = settings.words and token_tfidf.can_read(task, labelled)
    baseline = probe.Probe(
        task,
        len(encoder.blocks),
        has_pooler,
        settings.split_seed,
        settings.class_weights == "balanced",
        len(encoder.tokenizer.vocabulary) if reads_words else 0,
    )
    parts = splits.flatten(examples)

    def encode(part: Any, texts_per_row: int, name: str) -> EncodedSplit:
        encoded = data.encode(part, task, encoder, name, texts_per_row)
        if part is train and texts_per_row == 1:  # pairs, not texts alone
            data.note_cut(task, encoded)
        return encoded

    with (
        StopSignals() as signals,
        contextlib.closing(
            FeatureCache(
                encoder,
                devices,
                experiment.cache_options(),
                lambda: signals.came,
            )
        ) as cache,
    ):
        reader = pooled_states.Reader(
            cache,
            encoder,
            encode,
            has_pooler,
        )
        inputs: Mapping[str, Any]
        if task.is_tagging:
            # The words of every block take too much memory: some decide.
            sample = splits.draw_sample(
                len(train), MOST_SENTENCES, settings.split_seed
            )
            all_blocks = range(len(encoder.blocks) + 1)
            sampled = reader.words({"train": train.take(sample)}, all_blocks)
            seconds = reader.cost.original / len(sample)
            baseline.choose(sampled["train"])
            inputs = reader.words(parts, [baseline.states.block])
        else:
            inputs = reader.texts(parts)
            seconds = reader.cost.original / sum(map(len, parts.values()))
    record = baseline_runs.run(
        settings,
        directory,
        task,
        [examples],
        baseline,
        settings.split_seed,
        inputs,
        reader.cost.paid,
        devices,
        functools.partial(
            _finish,
            experiment,
            encoder,
            baseline,
            reader,
            seconds,
            directory,
        ),
        data.may_score_nothing,
    )
    data.forget()
    return record


def _finish(
    experiment: Any,
    encoder: Encoder,
    baseline: probe.Probe,
    reader: pooled_states.Reader,
    seconds_per_text: float,
    directory: RunDirectory,
) -> Record:
    """Writes weights and depth profile; returns what the result adds.

    Args:
        seconds_per_text: Of a pass of the whole encoder.
    """
    settings, data = experiment.settings, experiment.data
    task, examples = data.task, data.examples[data.task.name]
    labels, _ = examples["train"][""].targets(task)
    data.fitted_probe = baseline.chosen
    head: Any = experiment.build_head(task, encoder)
    arrays = [baseline.model.kernel, baseline.model.bias]
    if baseline.terms is not None:
        arrays.append(baseline.terms)
    weights = {
        weight.path: array
        for weight, array in zip(head.weights, arrays, strict=True)
    }
    directory.keep_models([directory.write_model("probe", weights)])
    directory.write_profile(
        {
            "metric": task.metric,
            "texts": baseline.texts,
            "states": str(baseline.states),
            "fold_scores": baseline.validated.scores.tolist(),
            "blocks_needed": probe.blocks_needed(baseline.profile),
            "blocks": baseline.profile,
        }
    )
    frozen = sum(layer.count_params() for layer in encoder.layers)
    return {
        "best_epoch": 1,
        "prefix_seconds": reader.cost.paid,
        "prefix_build_seconds": reader.cost.original,
        "prefix_engine": " ".join(reader.cache.engine),
        "trace_seconds": reader.cost.traced,
        "seconds_per_text": seconds_per_text,
        "size_on_disk": loading.size_on_disk(
            settings.model, settings.cache_folder
        ),
        "total_parameters": frozen + baseline.parameters,
        "warnings": splits.find_warnings(task, examples)
        + probe.find_warnings(task, labels)
        + data.warnings,
        "cut_texts": data.cut_texts,
    }
