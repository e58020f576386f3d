"""The runs of a search, all of `tf_transfer.train`, and their costs."""

import dataclasses
from collections.abc import Mapping
from typing import Any

from tf_transfer import train
from tf_transfer.config.settings import given_flags, pick
from tf_transfer.models import methods
from tf_transfer.searches.planner import Action
from tf_transfer.searches.space import (
    Approach,
    Choice,
    DECIDED,
    make_space,
    numbers_of_blocks,
    split_values,
    VARIED,
)
from tf_transfer.sweeps import estimate
from tf_transfer.sweeps.estimate import Work
from tf_transfer.sweeps.grid import expand, Planned
from tf_transfer.utils.errors import UserError

PROBE = "probe"  # its name among the costs


def list_approaches(settings: Any, blocks: int) -> list[Approach]:
    """The approaches of a search.

    Args:
        settings: resolved.
        blocks: of the encoder.

    Raises:
        UserError: more blocks than there are, or a value that a run refuses.
    """
    layers = split_values("approaches", settings.approaches)
    if any(word.isdigit() and int(word) > blocks for word in layers):
        raise UserError(
            f"--approaches={settings.approaches}: this encoder has {blocks} "
            f"blocks. Give 0 to {blocks}, and `all`."
        )
    varied = {
        name: values
        for flag, name in VARIED.items()
        if (values := split_values(flag, getattr(settings, flag)))
    }
    if settings.objective == "seconds_at_prediction" and blocks > 1:
        varied.setdefault("keep_blocks", ["0", str(blocks // 2)])
    if settings.method != "full":
        varied.setdefault("method", [settings.method])

    def usual_rate(word: str, others: Mapping[str, str]) -> float | None:
        kept = int(others.get("keep_blocks", 0)) or blocks
        method = others.get("method", "full")
        is_idle = method != "full" and word in ("0", "head")  # acts in blocks
        if is_idle or (word.isdigit() and int(word) > kept):
            return None
        return methods.load(method).lr or train.RATES.of(word)

    approaches = make_space(
        layers or numbers_of_blocks(blocks),
        blocks,
        usual_rate,
        varied,
        {
            field.name: str(field.default)
            for field in dataclasses.fields(train.Settings)
        },
    )
    if not approaches:
        raise UserError(
            f"--method={settings.method}: acts in the blocks that train. Give "
            "--approaches such as 1,2,all."
        )
    return approaches


class Plan:
    """Makes the runs of a planner's actions.

    Args:
        settings: resolved.
        approaches: of the search.
    """

    def __init__(self, settings: Any, approaches: list[Approach]) -> None:
        self._settings = settings
        self._approaches = {a.name: a for a in approaches}
        self._given = given_flags(
            settings, (*DECIDED, "refit", "out", "max_epochs")
        )

    def __call__(
        self,
        action: Action,
        seconds: float | None,
        score_test: bool = False,
        refit: bool = False,
    ) -> Planned:
        """The run of an action.

        Args:
            action: of the planner.
            seconds: that it may take; a run with a falling rate is never cut.
            score_test: whether to score the test texts.
            refit: whether to train on the validation texts as well.
        """
        choice = action.choice
        approach = self._approaches[choice.approach]
        flags = dict(approach.flags)
        method = flags.get("method", self._settings.method)
        run = dataclasses.replace(self._settings, method=method)
        values: dict[str, Any] = {
            **{n: v for n, v in self._given.items() if run.reads(n)},
            **flags,
            "lr": f"{approach.rates[choice.rate]:g}",
            "max_epochs": choice.linear_epochs or action.epochs,
            "baseline": False,
            "score_test": score_test,
        }
        also = self._also_cached(flags["trainable_layers"])
        if also:
            values["also_cache"] = also
        if refit:
            values |= {"refit": True, "max_epochs": action.epochs}
        if choice.seed:
            values["seed"] = choice.seed
        if not choice.linear_epochs:
            values |= {"schedule": "constant", "warmup_fraction": 0}
            if seconds is not None:
                values["max_seconds"] = f"{seconds:.1f}"
        return self._expand(values)

    def _also_cached(self, layers: str) -> str:
        """Approaches whose caches are made on the way to that of a run.

        Args:
            layers: `--trainable_layers` of the run.
        """
        if layers == "all" or self._settings.frozen_prefix != "cached":
            return ""
        trained = -1 if layers == "head" else int(layers)
        words = {
            dict(a.flags)["trainable_layers"] for a in self._approaches.values()
        }
        numbers = sorted(int(word) for word in words if word.isdigit())
        return ",".join(str(n) for n in numbers if n > trained)

    def baseline(self, features: str) -> Planned:
        """The run of a baseline: no weight of the encoder trains.

        Args:
            features: the value of `--features`.
        """
        run = pick(train.Settings, self._settings, features=features)
        given = {n: v for n, v in self._given.items() if run.reads(n)}
        return self._expand({**given, "features": features})

    def _expand(self, values: Mapping[str, Any]) -> Planned:
        [run] = expand(
            "search",
            {"experiment": "train", "flags": values},
            self._settings.out,
        )
        return run


def count_works(
    approaches: list[Approach],
    plan: Plan,
    size: estimate.TaskSize,
    tested: int,
) -> dict[str, Work]:
    """The operations of approaches, and of the probe as `probe`.

    Args:
        approaches: of the search.
        plan: makes their runs.
        size: of the task; the validation texts are scored.
        tested: number of test texts, which the probe scores as well.

    Raises:
        UserError: the shape of the encoder is not known.
    """

    name = size.task.name
    probed = dataclasses.replace(size, scored=size.scored + tested)
    works = {
        PROBE: estimate.count_work(plan.baseline("frozen"), {name: probed})
    }
    for approach in approaches:
        run = plan(Action(Choice(approach.name, approach.usual), 1, 0.0), None)
        works[approach.name] = estimate.count_work(run, {name: size})
    return works
