"""Entities, texts and pairs, each from the places where people have them."""

import dataclasses
import os
import types

from tf_transfer.data import conll
from tf_transfer.data import cs224n
from tf_transfer.data import sources
from tf_transfer.data import table_source
from tf_transfer.data import tasks
from tf_transfer.data import yahoo
from tf_transfer.utils.errors import UserError


def open_source(settings):
    """Where the texts of a task come from.

    Args:
        settings: `stacking.StackingSettings`.

    Returns:
        `sources.OneTask`, or for entities `conll.Corpus`.
    """
    return _BY_TASK[settings.task](settings)


def _texts(settings):
    if os.path.isfile(settings.data):
        return _table(settings)
    return yahoo.Answers(settings.data, settings.classes)


def _table(settings):
    """A table of one's own, of whose different texts a tenth are tested."""
    source = table_source.TableSource(
        types.SimpleNamespace(
            task=settings.task,
            data=settings.data,
            text_column=settings.text_column,
            label_column=settings.label_column,
            id_column="",
            keyword_column="",
            encoding=settings.encoding,
            clean="none",
            duplicates="group",
            is_sparse=False,
            test_ids="",
            test_fraction=0.1,
            split_seed=settings.split_seed,
        )
    )
    try:
        _ = source.rows  # what is wrong with the table is said at once
    except UserError:
        raise UserError(
            f"--data={settings.data}: a tenth of its different texts should be "
            "tested, with some of each label on both sides; it has too few. "
            "Give a larger table."
        ) from None
    return source


def _pairs(settings):
    """Quora's questions, from GLUE or from the CS224N project's files."""
    if os.path.isfile(os.path.join(settings.data, "quora-train.csv")):
        source = cs224n.FilesOfTask(settings.data, "paraphrase")
    else:
        source = sources.Source(
            tasks.GLUE["qqp"], settings.data, settings.cache_folder
        )
    source.task = dataclasses.replace(
        source.task, name="pairs", metric="accuracy", also=("f1",)
    )
    return source


_BY_TASK = {
    "ner": lambda settings: conll.Corpus(settings.data),
    "text": _texts,
    "pairs": _pairs,
}
