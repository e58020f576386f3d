"""The runs of a search, all of `tf_transfer.train`, and its time.

`OUT/.search/search.json` has the key of the search and its seconds over all
starts; the scores are in the run directories alone.
"""

import contextlib
import dataclasses
import os
import threading
import time
import timeit
from collections.abc import Callable, Mapping
from typing import Any, TypedDict

import numpy as np

from tf_transfer import train
from tf_transfer.config.settings import given_flags, pick
from tf_transfer.models import loading
from tf_transfer.reports import advice
from tf_transfer.searches.ladder import Approach, Choice, rates_around
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps.estimate import TaskSize, Work
from tf_transfer.sweeps.grid import expand, Grid, Planned
from tf_transfer.utils import files, json_files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

PROBE, TFIDF = "frozen", "tfidf"  # baselines, as --features names them
CACHE = "cache"  # `Approach.cache` of texts that are cut as usual
# A further approach if classes have at most `FEW` training texts on average;
# docs/probe.md measures it.
CONTRASTIVE = {"trainable_layers": "2", "method": "contrastive"}
FEW = 16
FOLDER = ".search"
FEWEST_VALIDATING = 20  # texts: fewer distinguish no scores
SAVE_SECONDS = 1.0  # between writings of the time that was spent
# Tokens of a word in the texts, and of a text apart from its words, for
# `--dry_run`, which tokenises nothing.
TOKENS_OF_WORD, TOKENS_BESIDE = 1.4, 2.0
MATRIX = 1024  # rows and columns of the product that measures the machine
PRODUCT_SHARE = 0.5  # of the product's speed that an encoder reaches
# What differs between two searches, for messages.
NAMES = {
    "data_identity": "the texts, or how they are read",
    "model_identity": "the encoder",
}


def check_validation(settings: Any, validation: Mapping[str, Any]) -> int:
    """The number of validation texts.

    Args:
        settings: of the search.
        validation: by split name; see `RunData.read`.

    Raises:
        UserError: there are too few, or all have one label.
    """
    texts = validation.get("", ())
    if len(texts) < FEWEST_VALIDATING:
        raise UserError(
            f"--task={settings.task_name}: only {len(texts)} validation texts; "
            f"a search needs {FEWEST_VALIDATING}. Give a larger "
            "--validation_fraction, or more labelled texts."
        )
    labels: Any = getattr(texts, "labels", None)  # tagged sentences have tags
    if np.ndim(labels) == 1 and len(np.unique(labels)) == 1:
        raise UserError(
            f"--task={settings.task_name}: all {len(texts)} validation texts "
            "have one label, so a search cannot choose by them. Give others, "
            "by --split_seed where a fraction is drawn."
        )
    return len(texts)


def list_layers(settings: Any, blocks: int) -> list[str]:
    """Values of --trainable_layers.

    Args:
        settings: of the search.
        blocks: of the encoder.

    Raises:
        UserError: more blocks than there are.
    """
    powers = range((blocks - 1).bit_length())
    layers = settings.layers or [*(str(2**p) for p in powers), "all"]
    if any(word.isdigit() and int(word) > blocks for word in layers):
        raise UserError(
            f"--approaches={settings.approaches}: this encoder has {blocks} "
            f"blocks. Give 0 to {blocks}, and `all`."
        )
    return layers


class Runs:
    """Makes the runs of a search.

    Args:
        settings: resolved.
        size: of the task; the validation texts are scored.
        tested: number of test texts, which the probe scores as well.
        has_folds: whether the seed of a run is also its fold.

    Attributes:
        approaches: of the ladder, those that train least first.

    Raises:
        UserError: a value that a run refuses, or an encoder without a known
            shape.
    """

    def __init__(
        self,
        settings: Any,
        size: TaskSize,
        tested: int,
        has_folds: bool,
    ) -> None:
        self._settings = settings
        shape = loading.read_shape(settings.model, settings.keep_blocks)
        self._layers = list_layers(settings, shape.blocks)
        self._size = size
        self._tested = tested
        self._has_folds = has_folds
        self._given = given_flags(settings, ("refit", "out", "max_epochs"))
        self.approaches: list[Approach] = []
        self._flags: dict[str, Mapping[str, str]] = {}  # by approach
        self.add_approaches()

    def add_approaches(self, long_texts: str = "") -> None:
        """Adds approaches to the ladder; with `long_texts` as variants."""
        flags = [{"trainable_layers": word} for word in self._layers]
        if self._has_few and "2" in self._layers:
            flags.append(CONTRASTIVE)
        for some in flags:
            self._add_approach(some, long_texts)
        self.approaches.sort(key=lambda a: (a.variant_of, a.work.epoch))

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

    def _add_approach(self, flags: Mapping[str, str], long_texts: str) -> None:
        size = self._size
        variant_of = ""
        settings = self._settings_of(flags).resolve()
        name = advice.name_approach(settings.approach)
        rates = rates_around(settings.lr)
        epochs = settings.max_epochs or train.usual_epochs(
            size.train, settings.batch_size, settings.is_contrastive
        )
        if long_texts:
            flags = {**flags, "long_texts": long_texts}
            variant_of = name
            name += f", {long_texts}"
        self._flags[name] = flags
        run = self.train(Choice(name, rates[1]), 1)
        work = estimate.count_work(run, {size.task.name: size})
        cache = CACHE + long_texts if work.family else ""
        self.approaches.append(
            Approach(name, rates, work, epochs, cache, variant_of)
        )

    def train(
        self,
        choice: Choice,
        epochs: int,
        seconds: float | None = None,
        score_test: bool = False,
        refit: bool = False,
    ) -> Planned:
        """The run of a choice.

        Args:
            choice: of the ladder.
            epochs: that it trains in all.
            seconds: that it may take now.
            score_test: whether to score the test texts.
            refit: whether to train on the validation texts as well.
        """
        flags = self._flags[choice.approach]
        fold = 0
        if self._has_folds and not refit:
            fold = choice.seed
        values: Record = {
            **self._select(flags),
            **flags,
            **self._list_cuts(flags["trainable_layers"]),
            "lr": f"{choice.rate:g}",
            "max_epochs": epochs,
            "schedule": "constant",
            "warmup_fraction": 0,
            "baseline": False,
            "score_test": score_test,
            "refit": refit,
            "seed": choice.seed,
            "fold": fold,
        }
        if seconds is not None:
            values["max_seconds"] = f"{seconds:.1f}"
        return self._expand(values)

    def baseline(
        self, features: str, fold: int = 0, refit: bool = False
    ) -> Planned:
        """The run of a baseline: no weight of the encoder trains.

        Args:
            features: `PROBE` or `TFIDF`.
            fold: of the training set that validates.
            refit: whether to fit it to the validation texts as well.
        """
        flags = {"features": features}
        values: Record = {
            **self._select(flags),
            **flags,
            "fold": fold,
            "refit": refit,
        }
        if features == PROBE:
            values |= self._list_cuts("head")
        return self._expand(values)

    def count_probe(self) -> Work:
        """The operations of the probe."""
        size = self._size
        probed = dataclasses.replace(size, scored=size.scored + self._tested)
        return estimate.count_work(
            self.baseline(PROBE), {size.task.name: probed}
        )

    def _select(self, flags: Mapping[str, Any]) -> Record:
        """The given flags that a run with further flags reads."""
        settings = self._settings_of(flags)
        return {n: v for n, v in self._given.items() if settings.reads(n)}

    def _settings_of(self, flags: Mapping[str, Any]) -> Any:
        # A search itself has a rate, that of training everything.
        return pick(train.Settings, self._settings, lr=None, **flags)

    def _list_cuts(self, layers: str) -> dict[str, str]:
        """`--also_cache` of a run: approaches whose caches are on its way.

        Args:
            layers: `--trainable_layers` of the run.
        """
        if layers == "all" or self._settings.frozen_prefix != "cached":
            return {}
        trained = -1 if layers == "head" else int(layers)
        numbers = [word for word in self._layers if word.isdigit()]
        return {"also_cache": ",".join(n for n in numbers if int(n) > trained)}

    def _expand(self, values: Mapping[str, Any]) -> Planned:
        grid = Grid("train", flags=dict(values))
        [run] = expand("search", grid, self._settings.out)
        return run


# === The time ===


# The content of `search.json`: what distinguishes the search, and its seconds
# over all starts.
State = TypedDict("State", {"key": Record, "spent": float})


class Clock:
    """The seconds of a search, over all its starts.

    A start counts from its beginning once it works, but not if it only repeats
    the answer. A thread writes the seconds meanwhile, so they are spent however
    the process ends. Nothing is written before `start`.

    Args:
        out: root of the run directories.
        key: the settings and identities that distinguish the search.
        began: when this start began, by `now`.
        now: the time in seconds.

    Raises:
        UserError: `out` has another search, or its file is damaged.
    """

    def __init__(
        self,
        out: str,
        key: Record,
        began: float,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self.folder = os.path.join(out, FOLDER)
        self._path = os.path.join(self.folder, "search.json")
        self._state: State = {"key": key, "spent": 0.0}
        self._now = now
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._write, daemon=True)
        self._lock = threading.Lock()
        with contextlib.suppress(FileNotFoundError):
            try:
                self._state = json_files.read(self._path, State)
            except json_files.Damaged as error:
                raise UserError(
                    f"{error}\nRemove the file: the search finds its runs "
                    "again."
                ) from None
        self._began = began - self._state["spent"]
        stored = self._state["key"]
        differing = sorted(
            name
            for name in {*stored, *key}
            if stored.get(name) != key.get(name)
        )
        if differing:
            names = ", ".join(NAMES.get(name, name) for name in differing[:3])
            raise UserError(
                f"--out={out}: holds another search, which differs in: {names}."
                " Give another --out; nothing was changed."
            )

    def __call__(self) -> float:
        """Seconds so far."""
        if not self._thread.is_alive():
            return self._state["spent"]
        return self._now() - self._began

    def start(self) -> None:
        """Counts this start, and writes that at once."""
        if self._thread.ident is None:
            files.remove_litter(self.folder)
            self._thread.start()
            self.save()

    def _write(self) -> None:
        while not self._is_over.wait(SAVE_SECONDS):
            # The search itself reports a full disk when it saves a run.
            with contextlib.suppress(OSError, UserError):
                self.save()

    def save(self) -> None:
        """Writes the file, with the seconds so far; any thread may."""
        with self._lock:
            self._state["spent"] = self()
            os.makedirs(self.folder, exist_ok=True)
            files.write_json(self._path, self._state)

    def stop(self) -> None:
        """Counts no longer; the answer takes no time of the budget."""
        if self._thread.is_alive():
            self.save()
            self._is_over.set()
            self._thread.join()


# === The seconds of a dry run ===


def guess_seconds(texts: Any, max_length: int) -> float:
    """Seconds of a counted operation, before any run is measured here.

    They are those of a matrix product on this machine's CPU. Operations are
    counted as if every text had `max_length` tokens, and these have fewer.

    Args:
        texts: training texts, `Examples` or `Sentences`.
        max_length: in tokens.
    """
    matrix = np.ones((MATRIX, MATRIX), np.float32)
    seconds = timeit.repeat(lambda: matrix @ matrix, number=1, repeat=3)
    speed = 2 * MATRIX**3 / min(seconds)
    words = [[len(text.split()) for text in column] for column in texts.texts]
    lengths = np.sum(words, axis=0)
    tokens = np.minimum(TOKENS_OF_WORD * lengths + TOKENS_BESIDE, max_length)
    return float(np.mean(tokens)) / max_length / (PRODUCT_SHARE * speed)
