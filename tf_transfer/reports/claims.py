"""The papers' claims as data, and how runs differ from those of a paper.

A claim is an entry of `experiments/<paper>/claims.toml`. It names two groups of
runs by their settings, the tasks, the published figure and what kind of claim
it is; `verdicts` judges them all.
"""

import dataclasses
import json
import math
import os
import pathlib
import sys
import tomllib
from collections.abc import Mapping

import numpy as np
import pandas as pd

from tf_transfer.comparison.run_record import Setting, Settings
from tf_transfer.reports import run_frame as runs_lib
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import Record

SIZE_TOLERANCE = 0.01  # of a split: counts of header lines and the like
# The origins of a paper's settings, as clauses name them.
ORIGINS = {
    "paper": "paper",
    "authors_code": "authors' code",
    "ours": "our reading",
}
LISTS = (
    "first",
    "second",
    "tasks",
    "at",
    "may_fail",
    "uses",
)
READING_KEYS = ("name", "words", "without", "measures")
KINDS = ("difference", "equal")
OVER = ("mean", "each", "most", "some")


@dataclasses.dataclass(frozen=True)
class Claim:
    """A claim of a paper about two groups of runs.

    The value of a claim is `measure` of `first` less `factor` times that of
    `second`, or with `relative` the difference in percent of the second; where
    there is no `second`, the measure itself. Every `first` is compared with
    every `second`, or with `paired` the i-th with the i-th.

    Attributes:
        id: Unique within the paper.
        text: The claim, as a sentence.
        source: The section of the paper.
        tasks: Of the claim; runs on all are needed.
        first, second: Settings of the groups. `L/4` for `trainable_layers` is
            that share of the encoder's blocks, rounded up; `last 2` for
            `load_blocks` is the encoder's last two.
        both: Settings that both groups share.
        paired: Whether the i-th of `first` is compared with the i-th of
            `second` alone.
        kind: `difference` (its sign, and its size where published) or `equal`
            (within `margin`).
        measure: See `run_frame.measure_all`; two, where the groups have their
            own.
        at: For `score_within`, times as multiples of an epoch of the second
            group; the claim is about each of them.
        relative: Whether the difference is in percent of the second group.
        factor: Of the second group.
        over: `mean` of all tasks, pairs and times, `each` of them, `most` of
            them, or `some`, which is one or more.
        published: The paper's value; 0 if it gives none.
        sign: Of the difference, where no value is published.
        margin: What counts as no difference, in the measure's unit.
        margin_from: Where the margin comes from.
        may_fail: Groups (`first`, `second`) that need not have trained, since
            the claim is about that.
        uses: Tasks whose data the measure looks at, if not those of the claim.
        encoder: The preset that it is about, if not the paper's only one.
        note: For the reader, such as a contradiction in the paper.
        reading_of: Of another reading of the paper's words, which is judged
            too, the id of the claim that is judged first; see `read`.
    """

    id: str
    text: str
    source: str
    tasks: tuple[str, ...]
    first: tuple[Settings, ...]
    second: tuple[Settings, ...] = ()
    both: Settings = dataclasses.field(default_factory=dict)
    paired: bool = False
    kind: str = "difference"
    measure: tuple[str, str] = ("score", "score")
    at: tuple[float, ...] = ()
    relative: bool = False
    factor: float = 1.0
    over: str = "mean"
    published: float = 0.0
    sign: int = 0
    margin: float = 0.0
    margin_from: str = ""
    may_fail: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    encoder: str = ""
    note: str = ""
    reading_of: str = ""

    @property
    def direction(self) -> int:
        """+1 or -1: the sign of what is claimed; 0 of no difference."""
        return self.sign or int(np.sign(self.published))

    @property
    def unit(self) -> str:
        """The unit of its value: `%`, `points`, `s`."""
        if self.relative:
            return "%"
        return runs_lib.UNITS.get(self.measure[0], "points")


@dataclasses.dataclass(frozen=True)
class Paper:
    """A paper's claims, and the settings that all of its runs share.

    Attributes:
        name: Author and title.
        settings: Published, or the default that we chose where it is silent;
            of a list, each value is the paper's.
        encoders: Presets, in the order of preference.
        sizes: Examples of `train` (validation included) and `test` by task.
        varied: Settings that the paper varies, in addition to
            `run_frame.VARIED`.
        rates: The learning rates of which each group takes the one that is
            better on validation; none where each claim names its own.
        claims: In the order of the paper.
        notes: Sentences below the claims.
        settings_of: By preset, settings that it has in place of `settings`.
        encoder_of: The preset of each task, where these have their own.
        origins: Of each setting, and of `encoder`, one of `ORIGINS`; `ours`
            where it has none.
    """

    name: str
    settings: Record
    encoders: tuple[str, ...]
    sizes: dict[str, dict[str, int]]
    varied: tuple[str, ...]
    rates: tuple[float, ...]
    claims: tuple[Claim, ...]
    notes: tuple[str, ...]
    settings_of: dict[str, Record] = dataclasses.field(default_factory=dict)
    encoder_of: dict[str, str] = dataclasses.field(default_factory=dict)
    origins: dict[str, str] = dataclasses.field(default_factory=dict)

    def settings_on(self, model: str) -> Record:
        """The paper's settings with an encoder."""
        return {**self.settings, **self.settings_of.get(model, {})}


def read_paper(path: str) -> Paper:
    """The claims in a file.

    The table `common` has defaults for the keys of all claims. Each table of an
    entry's list `also` is another reading of the paper's words, judged as a
    claim of its own: the keys that differ, and `name` (of the reading, which is
    added to the id), `words` (added to the text), `without` (settings of the
    groups that the reading does not fix) and `measures` (by measure, the
    reading's).

    Raises:
        UserError: The file or an entry of it is wrong; the message names it.
    """
    content = read_content(path)
    claims: list[Claim] = []
    name = "settings"
    try:
        origins = {"encoder": content.get("encoders_from", "paper")}
        settings = _merge_tables(content["settings"], origins)
        settings_of = {
            preset: _merge_tables(tables, origins)
            for preset, tables in content.get("settings_of", {}).items()
        }
        for claim in content.get("claim", ()):
            entry = {**content.get("common", {}), **claim}
            name = entry.get("id", f"claim {len(claims) + 1}")
            readings = entry.pop("also", ())
            claims.append(_make_claim(entry))
            claims += [_make_reading(entry, other) for other in readings]
    except (TypeError, ValueError) as error:
        raise UserError(f"{path}: {name}: {error}.") from None
    return Paper(
        content["paper"],
        settings,
        tuple(content["encoders"]),
        content.get("sizes", {}),
        tuple(content.get("varied", ())),
        tuple(content.get("rates", ())),
        tuple(claims),
        tuple(content.get("notes", ())),
        settings_of,
        content.get("encoder_of", {}),
        origins,
    )


def read_content(path: str) -> Record:
    """The content of a file of TOML or JSON.

    Raises:
        UserError: It cannot be read.
    """
    parse = json.loads if path.endswith(".json") else tomllib.loads
    try:
        content = parse(pathlib.Path(path).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UserError(f"{path}: cannot be read: {error}.") from None
    return dict(content)


def _make_claim(entry: Record) -> Claim:
    """The claim in an entry; raises `ValueError` or `TypeError` if it is wrong.

    A list of one may be written without brackets, a `measure` of both groups
    once.
    """
    keys = {field.name for field in dataclasses.fields(Claim)}
    if wrong := sorted(entry.keys() - keys):
        raise ValueError(f"has an unknown key {wrong[0]!r}")
    measure = entry.get("measure", "score")
    if isinstance(measure, str):
        measure = (measure, measure)
    lists = {
        name: tuple(value) if isinstance(value, list) else (value,)
        for name, value in entry.items()
        if name in LISTS
    }
    claim = Claim(**{**entry, **lists, "measure": tuple(measure)})
    if claim.kind not in KINDS:
        raise ValueError(f"kind is one of {', '.join(KINDS)}")
    if claim.over not in OVER:
        raise ValueError(f"over is one of {', '.join(OVER)}")
    if claim.kind == "equal" and not claim.margin:
        raise ValueError("`equal` needs a margin")
    if claim.kind == "difference" and not claim.direction:
        raise ValueError("`difference` needs `published` or `sign`")
    if claim.paired and len(claim.first) != len(claim.second):
        raise ValueError("`paired` needs as many `first` as `second`")
    if claim.relative and not claim.second:
        raise ValueError("`relative` needs `second`")
    return claim


def _make_reading(entry: Record, other: Record) -> Claim:
    """The claim in another reading of an entry; see `read_paper`."""
    measure = entry.get("measure", "score")
    merged = {
        **entry,
        "measure": other.get("measures", {}).get(measure, measure),
        **{n: v for n, v in other.items() if n not in READING_KEYS},
        "id": f"{entry['id']}_{other['name']}",
        "text": f"{entry['text']} {other['words']}",
        "reading_of": entry["id"],
    }
    claim, without = _make_claim(merged), {*other.get("without", ())}
    first, second = (
        tuple({n: group[n] for n in group if n not in without} for group in of)
        for of in (claim.first, claim.second)
    )
    return dataclasses.replace(claim, first=first, second=second)


def _merge_tables(
    tables: Mapping[str, Settings], origins: dict[str, str]
) -> Record:
    """Merges tables of settings, each of which is named by an origin.

    Args:
        tables: By origin, settings and their values.
        origins: By setting; those of the tables are added.

    Raises:
        ValueError: A table is not named by an origin.
    """
    settings: Record = {}
    for origin, table in tables.items():
        if origin not in ORIGINS:
            raise ValueError(f"{origin} is in none of {', '.join(ORIGINS)}")
        settings |= table
        origins |= dict.fromkeys(table, origin)
    return settings


def find_file(
    folder: str, experiment: str, name: str = "claims.toml"
) -> str | None:
    """A file of an experiment, or None.

    Args:
        folder: Where `<experiment>/<name>` is looked for first; then, in the
            folder `experiments` next to the package, and where an installed
            package has its data.
        experiment: Such as `glue`.
        name: Of the file.
    """
    checkout = pathlib.Path(__file__).absolute().parents[2] / "experiments"
    installed = os.path.join(sys.prefix, "share", "tf_transfer", "experiments")
    tops = (folder, checkout, installed)
    paths = [os.path.join(top, experiment, name) for top in tops]
    return next(filter(os.path.isfile, paths), None)


def read_published(folder: str, experiment: str) -> Record:
    """The paper's other figures; {} without a `published.json`."""
    path = find_file(folder, experiment, "published.json")
    return read_content(path) if path else {}


# === Differences from the paper ===


def list_differences(
    runs: pd.DataFrame,
    paper: Paper,
    wanted: Settings | None = None,
    encoder: str = "",
) -> list[str]:
    """The differences of runs from those of the paper, a clause each.

    Args:
        runs: Of a study, or of one group of a claim.
        paper: Theirs.
        wanted: Settings that the runs were chosen by, which are not compared.
            Unset: all values in the paper's claims count as the paper's.
        encoder: Of the claim, if it is about one.
    """
    named = {"model", *(wanted or ())}
    clauses: list[str] = []
    rows = runs.drop_duplicates("group")  # one for all seeds
    columns = (rows.task, rows.model, rows.sizes, rows.settings)
    for task, model, sizes, settings in zip(*columns):
        preset = encoder or paper.encoder_of.get(task, "")
        presets = (preset,) if preset else paper.encoders
        if model and model not in presets:
            clauses.append(_describe(paper, "encoder", model, presets))
        official = paper.sizes.get(task)
        if official is None:
            clauses.append(f"{task}: the paper has no such data")
        elif (wanted or {}).get("max_train_examples"):
            # The claim sets the number of training examples.
            official = {n: v for n, v in official.items() if "train" not in n}
        for split, size in (official or {}).items():
            ours = size_of(sizes, split)
            if abs(ours - size) > SIZE_TOLERANCE * size:
                clauses.append(
                    f"{task}: {ours:,} examples in "
                    f"{split.replace('_', ' ')} (official files: {size:,})"
                )
        for name, value in paper.settings_on(model).items():
            if name in named or name not in settings:
                continue
            if wanted is None:
                value = _list_values(paper, name, value)
            if not is_same(settings[name], value):
                ours = settings[name]
                clauses.append(_describe(paper, name, ours, value))
    return [*dict.fromkeys(clauses)]


def _describe(paper: Paper, name: str, ours: Setting, theirs: Setting) -> str:
    """A difference from a paper: `batch_size 8 (paper: 1)`."""
    origin = ORIGINS[paper.origins.get(name, "ours")]
    return f"{name} {show(ours)} ({origin}: {show(theirs)})"


def _list_values(paper: Paper, name: str, usual: Setting) -> list[Setting]:
    """All values of a setting in a paper, those of its claims included."""
    values = [*usual] if isinstance(usual, list) else [usual]
    for claim in paper.claims:
        for group in (claim.both, *claim.first, *claim.second):
            if name in group:
                values.append(group[name])
    if name == "lr":
        values += paper.rates
    return values


def show(value: Setting) -> str:
    """A setting in words; of a list, each of its values."""
    if isinstance(value, list | tuple):
        return " or ".join(dict.fromkeys(map(show, value)))
    return str(plain(value)) or "none"


def size_of(sizes: Mapping[str, int], split: str) -> int:
    """Examples of a split.

    `train_and_validation` is a training set with the validation texts that are
    drawn from it. A paper's own validation set is counted separately.
    """
    if split == "train_and_validation":
        return sizes.get("train", 0) + sizes.get("validation", 0)
    return sizes.get(split, 0)


def plain(value: Setting) -> Setting:
    """A number as people write it; anything else as it is."""
    return f"{value:g}" if isinstance(value, float) else value


def is_same(ours: Setting, theirs: Setting) -> bool:
    """Whether a setting is as wanted; of a list, whether it is one of them."""
    if isinstance(theirs, list | tuple):
        return any(is_same(ours, value) for value in theirs)
    if isinstance(ours, int | float) and isinstance(theirs, int | float):
        return math.isclose(ours, theirs, rel_tol=1e-9)
    return str(ours) == str(theirs)
