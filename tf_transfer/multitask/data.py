"""The texts of several tasks: the paper's three, or your own."""

import dataclasses
import functools

from tf_transfer.data import cs224n, splits
from tf_transfer.data.task import Source, Task, Texts
from tf_transfer.multitask.settings import Settings
from tf_transfer.own import task_file
from tf_transfer.runs import run_data
from tf_transfer.utils.errors import UserError


class MultitaskData(run_data.RunData[Settings]):
    """Tasks of any kind and source: the paper's three, or your own."""

    @functools.cached_property
    def _papers(self) -> tuple[dict[str, Source], str]:
        """The paper's sources, and their joint identity."""
        return cs224n.open_all(self.settings.data, self.settings.cache_folder)

    @functools.cached_property
    def sources(self) -> dict[str, Source]:
        """The source of each task; of the paper's, the dev files validate."""
        settings = self.settings
        if not settings.tasks:
            sources, _ = self._papers
            for source in sources.values():
                source.task = dataclasses.replace(
                    source.task, validation="dev", development=()
                )
            return sources
        tasks = [
            task_file.read_task_file(word)
            if task_file.is_task_file(word)
            else word
            for word in settings.tasks.split(",")
        ]
        return {s.task.name: s for s in map(self.open_source, tasks)}

    @property
    def identity(self) -> str:
        """The identity of the data; the project's files have one together."""
        return super().identity if self.settings.tasks else self._papers[1]

    def read_splits(self, task: Task) -> Texts:
        """The texts of a task; those of the test if all tasks have one.

        Raises:
            UserError: There are no validation texts.
        """
        settings, examples = self.settings, super().read_splits(task)
        if not examples["validation"]:
            raise UserError(
                f"--validation_fraction=0: task {task.name} has no validation "
                "texts. Give a fraction."
            )
        validation = examples["validation"][""]
        assert validation.labels is not None
        rows = splits.choose_subset(
            validation.labels, settings.max_dev_examples, settings.split_seed
        )
        examples["validation"] = {"": validation.take(rows)}
        if not all(task.development for task in self.tasks.values()):
            examples["test"] = {}
        return examples

    def texts_per_row(self, task: Task) -> int:
        """Number of texts of an example that run as rows of their own."""
        return 1 if self.settings.pairs == "cross" else len(task.texts)
