"""The probe as a run like any other."""

import contextlib
from collections.abc import Mapping
from typing import TYPE_CHECKING

from tf_transfer.config import command_line
from tf_transfer.data import groups as groups_lib, splits
from tf_transfer.data.encoded_split import EncodedSplit
from tf_transfer.data.task import Examples, Sentences, Task, Texts
from tf_transfer.models import loading
from tf_transfer.runs.runners import Runner
from tf_transfer.runs.task_settings import RunSettings
from tf_transfer.training.records import RunDirectory
from tf_transfer.training.signals import StopSignals
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.baselines import pooled_states, probe
    from tf_transfer.models.encoder import Encoder

MOST_SENTENCES = 1000  # whose states above every block are stored


class ProbeRunner(Runner[RunSettings]):
    """Fits a regression on the states of the frozen encoder, for one task."""

    def run(self, directory: RunDirectory) -> Record:
        """Reads the states, and fits and scores the regression.

        Raises:
            UserError: Nothing can be learned from the labels, or the states
                find no room on the disk.
            Interrupted: SIGTERM or Ctrl-C; the states so far are kept.
        """
        experiment, data, task = (
            self.experiment,
            self.experiment.data,
            self._task,
        )
        settings = experiment.settings
        if data.reads_without_tensorflow:
            _ = data.examples  # an invalid row is reported at once
        command_line.import_tensorflow()
        from tf_transfer.baselines import (
            baseline_runs,
            pooled_states,
            probe,
            probe_labels,
        )
        from tf_transfer.feature_cache.feature_cache import FeatureCache

        examples = data.examples[task.name]
        train = examples["train"][""]
        labels, _ = train.targets(task)
        probe_labels.check_labels(task, labels, len(train), data.name)
        if train.groups is not None:
            groups_lib.check_folds(train.groups, probe.FOLDS)
        devices = experiment.set_up_devices()
        encoder = experiment.load_encoder()
        cache_options = experiment.cache_options()
        assert cache_options is not None  # a probe always stores its states
        # Above fewer blocks, the pooler reads what it was not trained on.
        has_pooler = not (
            loading.has_new_pooler(settings.model) or settings.keep_blocks
        )
        baseline = self._make_probe(encoder, has_pooler)

        def encode(
            texts: Examples | Sentences, texts_per_row: int, name: str
        ) -> EncodedSplit:
            encoded = data.encode(texts, task, encoder, name, texts_per_row)
            if texts is train and texts_per_row == 1:  # no pairs in one row
                data.note_cut(task, encoded)
            return encoded

        with (
            StopSignals() as signals,
            contextlib.closing(
                FeatureCache(
                    encoder,
                    devices,
                    cache_options,
                    lambda: signals.came,
                )
            ) as cache,
        ):
            reader = pooled_states.Reader(cache, encoder, encode, has_pooler)
            inputs, seconds = self._read_inputs(reader, baseline)
        record = baseline_runs.run(
            settings,
            directory,
            task,
            baseline,
            [baseline_runs.Fold(examples, inputs)],
            settings.split_seed,
            devices,
            reader.cost.paid,
            data.may_score_nothing,
        )
        self._write_probe(directory, baseline, encoder)
        frozen = sum(layer.count_params() for layer in encoder.layers)
        record |= {
            "best_epoch": 1,
            "prefix_seconds": reader.cost.paid,
            "prefix_build_seconds": reader.cost.original,
            "prefix_engine": " ".join(reader.cache.engine),
            "trace_seconds": reader.cost.traced,
            "seconds_per_text": seconds,
            "size_on_disk": loading.size_on_disk(
                settings.model, settings.cache_folder
            ),
            "total_parameters": frozen + baseline.parameters,
            "warnings": splits.find_warnings(task, examples)
            + probe_labels.find_warnings(task, labels)
            + data.warnings,
            "cut_texts": data.cut_texts,
        }
        data.drop_texts()
        if data.leaves_test:
            record["scores_test"] = False
        return record

    def _make_probe(
        self, encoder: "Encoder", has_pooler: bool
    ) -> "probe.Probe":
        from tf_transfer.baselines import probe, token_tfidf

        settings, examples = self.experiment.settings, self._examples
        labelled = len(examples["train"][""])
        labelled += sum(map(len, examples["validation"].values()))
        reads_words = settings.words and token_tfidf.can_read(
            self._task, labelled
        )
        return probe.Probe(
            self._task,
            len(encoder.blocks),
            has_pooler,
            settings.split_seed,
            settings.class_weights == "balanced",
            len(encoder.tokenizer.vocabulary) if reads_words else 0,
        )

    def _read_inputs(
        self, reader: "pooled_states.Reader", baseline: "probe.Probe"
    ) -> "tuple[Mapping[str, probe.Inputs], float]":
        """The states of each split, and the seconds per text of a whole pass.

        Args:
            reader: Reads the states of texts or of words.
            baseline: For words, it chooses its block here.
        """
        texts = splits.flatten(self._examples)
        if not self._task.is_tagging:
            inputs = reader.texts(texts)
            return inputs, reader.cost.original / sum(map(len, texts.values()))
        # The words of every block take too much memory: some decide.
        train, seed = texts["train"], self.experiment.settings.split_seed
        sample = splits.draw_sample(len(train), MOST_SENTENCES, seed)
        every_block = range(baseline.blocks + 1)
        sampled = reader.words({"train": train.take(sample)}, every_block)
        seconds = reader.cost.original / len(sample)
        baseline.choose(sampled["train"])
        return reader.words(texts, [baseline.states.block]), seconds

    def _write_probe(
        self,
        directory: RunDirectory,
        baseline: "probe.Probe",
        encoder: "Encoder",
    ) -> None:
        """Writes the weights of the probe's head, and the depth profile."""
        from tf_transfer.baselines import probe

        self.experiment.data.fitted_probe = baseline.chosen
        head = self.experiment.build_head(self._task, encoder)
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
                "metric": self._task.metric,
                "texts": baseline.texts,
                "states": str(baseline.states),
                "fold_scores": baseline.validated.scores.tolist(),
                "half_scores": baseline.halved.tolist(),
                "blocks_needed": probe.blocks_needed(baseline.profile),
                "blocks": baseline.profile,
            }
        )

    @property
    def _task(self) -> Task:
        return self.experiment.data.task

    @property
    def _examples(self) -> Texts:
        return self.experiment.data.examples[self._task.name]
