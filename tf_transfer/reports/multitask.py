"""Tables and figures of "Finetune minBERT", from runs of `multitask`.

A row of the paper's is filled by the runs at exactly its settings, on its
encoder and data, and by no others; a table without such runs is not shown.
Everything that was run has a table of its own.
"""

from collections.abc import Iterator
from typing import Any

import pandas as pd

from tf_transfer.reports import cells
from tf_transfer.reports import claims
from tf_transfer.reports import forgetting
from tf_transfer.reports.study import Figure
from tf_transfer.reports.study import Study
from tf_transfer.reports.study import Table

SCORES = {  # metrics, and what the tables call them
    "overall": "overall",
    "sentiment_accuracy": "SST",
    "paraphrase_accuracy": "Quora",
    "similarity_pearson": "STS r",
}
TRAINS = {
    "head": "output layers",
    "all": "everything",
    "head_then_all": "output layers, then everything",
}
READS = {
    "cls": "[CLS]",
    "cls_state": "[CLS] without the pooler",
    "mean": "mean",
    "cls_for_sentiment": "[CLS] for sentiment",
}
COMBINES = {
    "in_turn": "in turn",
    "sum": "sum of losses",
    "pcgrad": "PCGrad",
    "sampled": "sampled",
}
ORDER = "paraphrase,similarity,sentiment"
# How the tasks are combined: of recipes that differ in these alone, one table.
COMBINATION = (
    "combine",
    "head_combine",
    "idle_heads",
    "loss_weights",
    "order",
    "alpha",
    "last_alpha",
)
OF_LAST_PHASE = "`s per epoch`: of the last phase, its first epoch included"

Settings = claims.Group


def tables(study: Study) -> list[Table]:
    """All that was run; the paper's tables; combinations; forgetting."""
    found: list[Table] = []
    for name, runs in _data_sets(study):
        found += [
            _list_recipes(name, runs),
            *_tabulate_published(study, name, runs),
            *_compare_combinations(name, runs),
            *forgetting.tabulate(name, _of_paper(runs), recipe),
        ]
    return found


def figures(study: Study) -> list[Figure]:
    """What a pass over one task does to the others."""
    return [
        picture
        for name, runs in _data_sets(study)
        for picture in forgetting.draw(name, _of_paper(runs), recipe)
    ]


def _of_paper(runs: pd.DataFrame) -> list[pd.DataFrame]:
    """The groups on the paper's three tasks, not on a user's mix."""
    return [*cells.groups_of(runs[runs.task == "cs224n"])]


def notes(study: Study) -> list[str]:
    """What to know of the tables and of the times."""
    said = cells.explain_times(study.runs)
    if any(cells.failed(group) for group in cells.groups_of(study.runs)):
        said.append(cells.DID_NOT_TRAIN)
    filled = [
        table
        for name, runs in _data_sets(study)
        for table in _tabulate_published(study, name, runs)
    ]
    if study.published and not filled:
        said.append(
            "No runs here have the settings, the data and the encoder of a row "
            "of the paper's: its tables are not shown."
        )
    return said


def name_groups(runs: pd.DataFrame) -> pd.DataFrame:
    """Runs, with their recipe as approach; the rate is left out."""
    return runs.assign(approach=runs.settings.map(_kind))


def _data_sets(study: Study) -> Iterator[tuple[str, pd.DataFrame]]:
    """Runs by their files, the best group first."""
    groups = study.runs.groupby("data_identity", sort=False)
    for number, (_, runs) in enumerate(groups, 1):
        means = runs.groupby("group").score.transform("mean")
        ordered = runs.assign(mean=-means).sort_values(
            ["mean", "group", "seed"], kind="stable"
        )
        yield study.name + (f"_{number}" if number > 1 else ""), ordered


# === Words for a recipe ===


def recipe(group: pd.DataFrame) -> str:
    """All that tells a group from others: `everything; mean; lr 1e-05; ...`."""
    settings = group.settings.iloc[0]
    words = [_kind(settings), _amount(settings)]
    return "; ".join(filter(None, [*words, cells.caching(settings)]))


def _kind(settings: Settings) -> str:
    """What trains, and how: `everything; mean; decay 0.95`."""
    words = [
        TRAINS.get(settings["train"], str(settings["train"])),
        READS.get(settings["pooling"], str(settings["pooling"])),
    ]
    if settings["pairs"] != "sbert":
        words.append(f"pairs {settings['pairs']}")
    if settings["layer_decay"] != 1:
        words.append(f"decay {settings['layer_decay']:g}")
    if settings["combine"] != "in_turn" or settings["loss_weights"]:
        words.append(_combination(settings))
    if settings["idle_heads"] == "still" and settings["combine"] == "in_turn":
        words.append("idle heads still")
    return "; ".join(words)


def _combination(settings: Settings) -> str:
    """How the tasks' losses are combined."""
    name = COMBINES.get(settings["combine"], str(settings["combine"]))
    if "alpha" in settings:
        name += f" by size^{settings['alpha']:g}"
        if settings["last_alpha"] != settings["alpha"]:
            name += f" to size^{settings['last_alpha']:g}"
    if settings["loss_weights"]:
        name += f", weights {settings['loss_weights']}"
    before = settings["head_combine"]
    if settings["train"] == "head_then_all" and before != "in_turn":
        is_same = before == settings["combine"]
        name += (
            " in both phases"
            if is_same
            else f", output layers {COMBINES.get(before, before)}"
        )
    return name


def _order(settings: Settings) -> str:
    """The order of the tasks, where it is not the usual one."""
    if settings["order"] == ORDER:
        return ""
    return f"order {settings['order'].replace(',', ', ')}"


def _amount(settings: Settings) -> str:
    """At what rate and for how long: `lr 1e-05 after 0.001; 20 epochs`."""
    rate, epochs = f"lr {settings['lr']:g}", settings["max_epochs"]
    after = ""
    if settings["train"] == "head_then_all":
        rate += f" after {settings['head_lr']:g}"
        if settings["head_epochs"] != epochs:
            after = f" after {settings['head_epochs']}"
    count = "1 epoch" if epochs == 1 else f"{epochs} epochs"
    return "; ".join(filter(None, [rate, count + after, _order(settings)]))


# === Tables ===


def _titles(runs: pd.DataFrame) -> dict[str, str]:
    """Metrics, and what tables call them: the paper's, or a user's own."""
    if runs.empty or runs.task.iloc[0] == "cs224n":
        return SCORES
    known = runs.record.iloc[0]["metrics"]
    return {name: name.replace("_", " ") for name in ("overall", *known)}


def _scores(group: pd.DataFrame, titles: dict[str, str]) -> dict[str, str]:
    return {
        title: cells.spread(cells.metric(group, name))
        for name, title in titles.items()
    }


def _list_recipes(name: str, runs: pd.DataFrame) -> Table:
    """Every recipe that was run, the best first."""
    rows = []
    for group in cells.groups_of(runs):
        settings = group.settings.iloc[0]
        words = [_kind(settings), cells.caching(settings), cells.failed(group)]
        rows.append(
            {
                "trains": "; ".join(filter(None, words)),
                "rates and epochs": _amount(settings),
                "n": len(group),
                **_scores(group, _titles(runs)),
                "time, s": cells.spread(cells.seconds(group), 1),
                "s per epoch": cells.spread(_last_phase(group), 1),
            }
        )
    majorities = runs.record.iloc[0]["majorities"]
    rows.append(
        {
            "trains": "the majority baseline",
            "rates and epochs": "",
            "n": "",
            **{
                title: cells.spread([100 * majorities[metric]])
                for metric, title in _titles(runs).items()
                if metric in majorities
            },
            "time, s": "",
            "s per epoch": "",
        }
    )
    return Table(
        f"recipes_{name}",
        "Dev, in points, mean and deviation over n seeds, the best first. "
        + OF_LAST_PHASE,
        pd.DataFrame(rows).fillna(""),
    )


def _last_phase(group: pd.DataFrame) -> list[float]:
    """Seconds of an epoch of the last, expensive phase."""
    last = [
        record["phases"][-1]
        for record in group[group.timed].record
        if record["phases"]
    ]
    return [phase["seconds"] / phase["epochs"] for phase in last]


def _tabulate_published(
    study: Study, name: str, runs: pd.DataFrame
) -> list[Table]:
    """The paper's tables of which a row was run, ours beside its figures."""
    found = []
    for table in study.published.get("tables", ()):
        rows, filled = [], 0
        for row in table["rows"]:
            ours = cells.find_row(runs, study.paper, row["settings"])
            filled += len(ours)
            cells_of: dict[str, Any] = {"": row["name"], "n": len(ours) or ""}
            scores = _scores(ours, SCORES)
            for (title, score), figure in zip(scores.items(), row["figures"]):
                cells_of |= {title: score, f"{title}, paper": 100 * figure}
            rows.append(cells_of)
        if filled:
            found.append(
                Table(
                    f"table_{table['number']}_{name}",
                    f"Table {table['number']}: {table['caption']}. In points, "
                    "mean and deviation over n seeds",
                    pd.DataFrame(rows).round(1),
                )
            )
    return found


def _compare_combinations(name: str, runs: pd.DataFrame) -> list[Table]:
    """Tables of recipes that differ in how the tasks are combined."""
    alike = runs.settings.map(
        lambda settings: str(
            sorted(
                (n, str(v)) for n, v in settings.items() if n not in COMBINATION
            )
        )
    )
    found: list[Table] = []
    for _, members in runs.groupby(alike, sort=False):
        groups = sorted(cells.groups_of(members), key=_combination_order)
        if len(groups) < 2:
            continue
        base, *_ = groups
        rows = []
        for group in groups:
            settings = group.settings.iloc[0]
            words = [_combination(settings), _order(settings)]
            against = ""
            if group is not base:
                against = cells.difference(group.score, base.score)
            rows.append(
                {
                    "tasks": ", ".join(filter(None, words)),
                    "n": len(group),
                    **_scores(group, _titles(runs)),
                    "overall against the first": against,
                    "s per epoch": cells.spread(_last_phase(group), 1),
                    # Of a warm worker's runs, that of the first is known.
                    "memory, GB": cells.spread([group.memory.max() / 1e9]),
                }
            )
        usual = {
            "combine": "in_turn",
            "head_combine": "in_turn",
            "loss_weights": "",
            "order": ORDER,
        }
        settings = {**base.settings.iloc[0], **usual}
        words = [_kind(settings), _amount(settings), cells.caching(settings)]
        found.append(
            Table(
                f"combined_{name}_{len(found) + 1}",
                f"{'; '.join(filter(None, words))}: dev, in points; "
                "differences with a 95 % interval over seeds. " + OF_LAST_PHASE,
                pd.DataFrame(rows),
            )
        )
    return found


def _combination_order(group: pd.DataFrame) -> tuple[Any, ...]:
    settings = group.settings.iloc[0]
    names = list(COMBINES)
    combine = settings["combine"]
    index = names.index(combine) if combine in names else len(names)
    return index, settings["order"] != ORDER, settings["loss_weights"]
