"""The candidates of a search, and their runs, all of `tf_transfer.train`."""

import dataclasses
import math
import timeit
from collections.abc import Mapping

import numpy as np

from tf_transfer import train
from tf_transfer.config.fields import Setting
from tf_transfer.config.settings import given_flags, pick
from tf_transfer.data.task import Examples, Sentences
from tf_transfer.models import loading, sentence_encoders
from tf_transfer.reports import advice
from tf_transfer.runs.run_comparison import MOST_FOR_BASELINE
from tf_transfer.searches.costs import Candidate
from tf_transfer.searches.settings import Settings
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps.estimate import TaskSize, Work
from tf_transfer.sweeps.grid import expand, Grid, Planned, Value
from tf_transfer.utils import formatting
from tf_transfer.utils.errors import UserError

PROBE, TFIDF = "frozen", "tfidf"  # baselines: values of --features
# A further approach if classes have at most `FEW` training texts on average;
# docs/guides/few_texts.md measures it.
CONTRASTIVE = {"trainable_layers": "2", "method": "contrastive"}
FEW = 16
# In points, on 600 texts (`benchmarks.usual_leads`): usual leads of training
# everything over the last blocks, of any approach on pairs of texts over the
# same on single texts, and of variants over their approach.
EVERYTHING_LEAD, PAIRS_LEAD = 1.7, -5.7
HIGHER_RATE_LEAD, LOWER_RATE_LEAD, LONGER_LEAD = -1.5, -0.3, -0.8
USUAL_POOLING = "cls"  # of a run, unless the encoder was tuned with another
LONGER = 2  # times the epochs of a variant
STEPS = (1.0, 2.0, 5.0)
# Tokens of a word in the texts, and of a text apart from its words, for
# `--dry_run`, which tokenises nothing.
TOKENS_OF_WORD, SPECIAL_TOKENS = 1.4, 2.0
MATRIX = 1024  # rows and columns of the product that measures the machine
PRODUCT_SHARE = 0.5  # of the product's speed that an encoder reaches
BFLOAT16_SPEED = 2.0  # of an encoder in bfloat16, relative to float32

Flags = Mapping[str, Value]


class Candidates:
    """Makes the candidates of a search, and their runs.

    Args:
        settings: Resolved.
        size: Of the task: the training and the held-out texts of a fold.
        folds: Number of folds; 1 where validation texts are given.

    Attributes:
        by_name: The candidates; approaches from the one that trains least on.

    Raises:
        UserError: A value that a run refuses, or an encoder without a known
            shape.
    """

    def __init__(self, settings: Settings, size: TaskSize, folds: int) -> None:
        self._settings = settings
        self._size = size
        self._folds = folds
        self._blocks = loading.read_shape(
            settings.model, settings.keep_blocks
        ).blocks
        self._layers = list_layers(settings, self._blocks)
        self._precision = settings.usual_precision
        self._given = {
            **given_flags(settings, ("refit", "out", "max_epochs", "json")),
            "precision": self._precision,
        }
        self.by_name: dict[str, Candidate] = {}
        for features in (TFIDF, PROBE):
            if features == PROBE or size.train <= MOST_FOR_BASELINE:
                self._add_baseline(features)
        approaches = [
            self._make_approach({"trainable_layers": word})
            for word in self._layers
        ]
        if self._has_few and "2" in self._layers:
            approaches.append(self._make_approach(CONTRASTIVE))
        approaches.sort(key=lambda one: one.work.epoch)
        for candidate in approaches:
            self.by_name[candidate.name] = candidate
        for candidate in approaches:
            self._add_variants(candidate)

    @property
    def _has_few(self) -> bool:
        """Whether classes have few training texts, and no method is given."""
        task = self._size.task
        most = FEW * len(task.labels or ())
        return (
            self._settings.method == "full"
            and task.kind == "classes"
            and self._size.train <= most
        )

    # === Candidates ===

    def _add_baseline(self, features: str) -> None:
        name = advice.name_baseline(features, self._size.task.is_tagging)
        flags: dict[str, Value] = {"features": features}
        reads_cache = features == PROBE and self._stores_caches
        if features == PROBE:
            flags["baseline"] = False  # TF-IDF has runs of its own
        if reads_cache:
            flags |= self._list_cuts("head")
        candidate = Candidate(
            *(name, flags, Work()),
            approach=name,
            reads_cache=reads_cache,
            is_baseline=True,
        )
        self._add(candidate)

    def _make_approach(self, flags: Flags, name: str = "") -> Candidate:
        """A candidate at the usual rate, for the usual number of epochs.

        Args:
            flags: The weights to train, as flags.
            name: Of the approach; unset, made from the flags.
        """
        flags = {**flags}
        is_whole = flags["trainable_layers"] == "all"
        pooling = sentence_encoders.find_pooling(self._settings.model)
        reads_usual = self._settings.pooling == USUAL_POOLING and (
            self._settings_of(flags).reads("pooling")
        )
        if pooling and reads_usual:
            flags["pooling"] = pooling
        settings = self._settings_of(flags).resolve()
        epochs = self._settings.max_epochs or train.usual_epochs(
            self._size.train, settings
        )
        rates = list_rates(settings.lr)
        flags |= {"lr": f"{rates[1]:g}", "max_epochs": epochs}
        flags |= self._list_cuts(str(flags["trainable_layers"]))
        name = name or advice.name_approach(settings.approach)
        usual_lead = 0.0
        if is_whole and "keep_blocks" not in flags:  # with these, not measured
            usual_lead += EVERYTHING_LEAD
        if len(self._size.task.texts) == 2:
            usual_lead += PAIRS_LEAD
        candidate = Candidate(
            *(name, flags, Work(), epochs, name), usual_lead=usual_lead
        )
        work = self._count(candidate)
        return dataclasses.replace(
            candidate, work=work, reads_cache=bool(work.family)
        )

    def _add_variants(self, usual: Candidate) -> None:
        """Adds the variants of a candidate: other rates, and more epochs."""
        low, _, high = list_rates(float(usual.flags["lr"]))
        more = LONGER * usual.epochs
        variants: list[tuple[str, Flags, int, float]] = [
            (f"at {rate:g}", {"lr": f"{rate:g}"}, usual.epochs, lead)
            for rate, lead in (
                (high, HIGHER_RATE_LEAD),
                (low, LOWER_RATE_LEAD),
            )
        ]
        if not self._settings.max_epochs:
            longer = f"{more} epochs", {"max_epochs": more}, more, LONGER_LEAD
            variants.append(longer)
        for words, change, epochs, lead in variants:
            self._add(
                dataclasses.replace(
                    usual,
                    name=f"{usual.name}, {words}",
                    flags={**usual.flags, **change},
                    epochs=epochs,
                    variant_of=usual.name,
                    usual_lead=usual.usual_lead + lead,
                )
            )

    def add_keep_blocks(self, blocks: int) -> None:
        """Adds candidates that keep only the encoder's first blocks.

        Args:
            blocks: Number of blocks on which the probe is as good as on all.
        """
        if self._settings.keep_blocks or not 0 < blocks < self._blocks:
            return
        if "all" in self._layers:
            flags: Flags = {"trainable_layers": "all", "keep_blocks": blocks}
            name = f"everything, {formatting.count(blocks, 'block')} kept"
            candidate = self._make_approach(flags, name)
            self._add(candidate)
            self._add_variants(candidate)

    def _add(self, candidate: Candidate) -> None:
        work = self._count(candidate)
        self.by_name[candidate.name] = dataclasses.replace(candidate, work=work)

    def _count(self, candidate: Candidate) -> Work:
        sizes = {self._size.task.name: self._size}
        return estimate.count_work(self._plan(candidate, {}), sizes)

    # === Runs ===

    def make_run(
        self, name: str, repeat: int, score_test: bool = False
    ) -> Planned:
        """A run of a candidate on a fold.

        Args:
            name: Of the candidate.
            repeat: Number of the fold, or of the fold and the seed.
            score_test: Whether to score the test texts.
        """
        candidate = self.by_name[name]
        values: dict[str, Value] = {
            "fold": repeat % self._folds,
            "score_test": score_test,
        }
        if not candidate.is_baseline:
            values["seed"] = repeat
        return self._plan(candidate, values)

    def make_refit(self, name: str, score_test: bool) -> Planned:
        """A run of a candidate on all labelled texts.

        Args:
            name: Of the candidate.
            score_test: Whether to score the test texts.
        """
        values: dict[str, Value] = {"refit": True, "score_test": score_test}
        return self._plan(self.by_name[name], values)

    def _plan(
        self, candidate: Candidate, values: Mapping[str, Value]
    ) -> Planned:
        flags = {**self._select(candidate.flags), **candidate.flags, **values}
        if not self._size.task.validation:
            flags["validation_fraction"] = self._settings.validation_fraction
        if not candidate.is_baseline:
            # A run takes seconds: a kill may lose one.
            flags |= {"baseline": False, "checkpoint_epochs": False}
        grid = Grid("train", flags=flags)
        [run] = expand("search", grid, self._settings.out)
        return run

    def _select(self, flags: Flags) -> dict[str, Value]:
        """The given flags that a run with further flags reads."""
        settings = self._settings_of(flags)
        return {n: v for n, v in self._given.items() if settings.reads(n)}

    def _settings_of(self, flags: Flags) -> train.Settings:
        # A search itself has a rate, that of training everything.
        values: dict[str, Setting] = {**flags, "lr": None}
        values["precision"] = self._precision
        return pick(train.Settings, self._settings, **values)

    @property
    def _stores_caches(self) -> bool:
        return self._settings.frozen_prefix == "cached"

    def _list_cuts(self, layers: str) -> dict[str, str]:
        """`--also_cache` of a run: approaches whose caches are on its way.

        Args:
            layers: `--trainable_layers` of the run.
        """
        if layers == "all" or not self._stores_caches:
            return {}
        trained = -1 if layers == "head" else int(layers)
        numbers = [word for word in self._layers if word.isdigit()]
        return {"also_cache": ",".join(n for n in numbers if int(n) > trained)}


def list_layers(settings: Settings, blocks: int) -> list[str]:
    """Values of --trainable_layers.

    Args:
        settings: Of the search.
        blocks: Of the encoder.

    Raises:
        UserError: More blocks than there are.
    """
    powers = range((blocks - 1).bit_length())
    layers = settings.layers or [*(str(2**p) for p in powers), "all"]
    if any(word.isdigit() and int(word) > blocks for word in layers):
        raise UserError(
            f"--approaches={settings.approaches}: this encoder has {blocks} "
            f"blocks. Give 0 to {blocks}, and `all`."
        )
    return layers


def list_rates(usual: float) -> tuple[float, ...]:
    """The usual rate, as 1, 2 or 5 times a power of ten, and its neighbours."""
    rates = [
        float(f"{step:g}e{exponent}")
        for exponent in range(-9, 2)
        for step in STEPS
    ]
    nearest = min(rates, key=lambda rate: abs(math.log(rate / usual)))
    middle = rates.index(nearest)
    return tuple(rates[middle - 1 : middle + 2])


# === The seconds of a dry run ===


def guess_seconds(texts: Examples | Sentences, settings: Settings) -> float:
    """Seconds of a counted operation, before any run is measured here.

    They are those of a matrix product on this machine's CPU. Operations are
    counted as if every text had `max_length` tokens, and these have fewer.

    Args:
        texts: Training texts.
        settings: Of the search.
    """
    max_length = settings.max_length
    matrix = np.ones((MATRIX, MATRIX), np.float32)
    seconds = timeit.repeat(lambda: matrix @ matrix, number=1, repeat=3)
    speed = PRODUCT_SHARE * 2 * MATRIX**3 / min(seconds)
    if settings.usual_precision == "mixed_bfloat16":
        speed *= BFLOAT16_SPEED
    words = [[len(text.split()) for text in column] for column in texts.texts]
    lengths = np.sum(words, axis=0)
    tokens = np.minimum(TOKENS_OF_WORD * lengths + SPECIAL_TOKENS, max_length)
    return float(np.mean(tokens)) / max_length / speed
