r"""Finds the best training for your texts within the time that you have.

    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=30m
    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=1h \
        --max_loss=1
    python -m tf_transfer.search --task=mine.toml --models=minilm,FOLDER \
        --budget=1h
    python -m tf_transfer.search --task=mine.toml --model=minilm --budget=1h \
        --dry_run

It reports what to train and at what rate, what that gains over the probe and
the TF-IDF baseline, and what it costs: a sentence and a table on the screen,
and OUT/search.html. The trained model is there.

Every labelled text is held out in one of five folds, and the folds decide: the
TF-IDF baseline, the probe, the last 1, 2, 4, ... blocks and everything run on
the first fold, the best of them on all folds, then other rates and more epochs.
If there is time, the best is trained once more on all labelled texts. Every run
is a run of `tf_transfer.train` (docs/guides/search.md). The test is scored
once, at the end, for the answer.

--budget is the time from the command's start to its answer. Ctrl-C gives the
answer so far; the same command with a larger budget continues.
"""

import dataclasses
import functools
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING

import tf_transfer
from tf_transfer import train
from tf_transfer.config import command_line
from tf_transfer.models import presets
from tf_transfer.own import table_source
from tf_transfer.runs import disk
from tf_transfer.searches.settings import Settings
from tf_transfer.utils import screen
from tf_transfer.utils.json_files import Record

if TYPE_CHECKING:
    from tf_transfer.searches.controller import Search


def open_search(settings: Settings, began: float) -> "Search":
    """A search, with the best of several encoders, which are ranked first.

    Args:
        settings: Any.
        began: See `Search`.

    Raises:
        UserError: See `Search`.
    """
    settings = settings.resolve()
    if settings.own_data:
        # Reports problems of the table first.
        _ = table_source.TableSource(
            settings.own_task, settings.split_seed, settings.out
        ).task
    if settings.models:
        ranking = train.rank(
            dataclasses.replace(settings, precision=settings.usual_precision),
            presets.split_names(settings.models),
        )
        screen.say(ranking.text)
        settings = dataclasses.replace(
            settings, model=ranking.model, models=""
        ).resolve()
    from tf_transfer.searches.controller import Search  # loads pandas and scipy

    return Search(settings, began)


def main(argv: Sequence[str] = ()) -> None:
    """Reads the flags; searches, and prints the answer."""
    command_line.refuse_words(argv)
    settings = command_line.from_flags(Settings)
    command_line.answer(functools.partial(_search, settings), settings.json)


def _search(settings: Settings) -> Record:
    """Searches; returns the answer of `--json`."""
    search = open_search(settings, tf_transfer.IMPORT_TIME)
    if settings.dry_run:
        print(search.describe_rungs())
        return {}
    from tf_transfer.searches.answer import FILE  # loads pandas

    answer = search.run()
    disk.print_used(search.settings.out, settings.cache_dir)
    return {
        "run": answer.model and answer.model.directory.path,
        "sentence": answer.sentence,
        "lines": answer.lines,
        "table": answer.table,
        "commands": answer.commands,
        "report": os.path.join(search.settings.out, FILE),
    }


if __name__ == "__main__":
    command_line.command(main, Settings)
