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


def open_source(settings):
    """What has `identity` and `read(split)`, and a `task` but for entities.

    Args:
        settings: `stacking.StackingSettings`.
    """
    return _BY_TASK[settings.task](settings)


def _texts(settings):
    if os.path.isfile(settings.data):
        return table_source.TableSource(
            types.SimpleNamespace(
                task=settings.task, data=settings.data,
                text_column=settings.text_column,
                label_column=settings.label_column, id_column="",
                keyword_column="", encoding=settings.encoding, clean="none",
                duplicates="group", is_sparse=False, test_ids="",
                test_fraction=0.1, split_seed=settings.split_seed,
            )
        )  # fmt: skip
    return _Yahoo(settings)


class _Yahoo:
    """Yahoo Answers as a task."""

    def __init__(self, settings):
        answers = yahoo.Answers(settings.data, settings.classes)
        self.identity, self.read = answers.identity, answers.read
        self.keep_apart = answers.keep_apart
        two = len(answers.labels) == 2
        self.task = tasks.Task(
            "text", "", ("answer",), "class", answers.labels, "accuracy", "",
            (), also=("f1" if two else "f1_macro",), development=("test",),
        )  # fmt: skip


class _Pairs:
    """Quora's questions, from GLUE or from the CS224N project's files."""

    def __init__(self, settings):
        if os.path.isfile(os.path.join(settings.data, "quora-train.csv")):
            source = cs224n.OneTask(settings.data, "paraphrase")
        else:
            source = sources.Source(
                tasks.GLUE["qqp"], settings.data, settings.cache_folder
            )
        self.identity, self.read = source.identity, source.read
        self.task = dataclasses.replace(
            source.task, name="pairs", metric="accuracy", also=("f1",)
        )

    def keep_apart(self, rows, held):
        """Rows that may train beside held ones: here all of them."""
        del held
        return rows


_BY_TASK = {
    "ner": lambda settings: conll.Corpus(settings.data),
    "text": _texts,
    "pairs": _Pairs,
}
