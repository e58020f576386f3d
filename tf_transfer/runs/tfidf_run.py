"""The TF-IDF baseline as a run like any other, which keeps its model."""

from tf_transfer.runs.runners import Runner
from tf_transfer.runs.task_settings import TaskSettings
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils.json_files import Record


class TfidfRunner(Runner[TaskSettings]):
    """Fits the TF-IDF baseline, and keeps its model."""

    def run(self, directory: RunDirectory) -> Record:
        """Fits and scores it on the texts themselves."""
        from tf_transfer.baselines import baseline_runs, usual

        settings, data = self.experiment.settings, self.experiment.data
        baseline = usual.make(data.task, settings.split_seed)
        record = baseline_runs.run(
            settings,
            directory,
            data.task,
            baseline,
            [baseline_runs.of_texts(data.examples[data.task.name])],
            settings.split_seed,
            may_score_nothing=data.may_score_nothing,
        )
        model = directory.write_model("tfidf", baseline.arrays)
        directory.keep_models([model])
        data.drop_texts()
        if data.leaves_test:
            record["scores_test"] = False
        return {**record, "best_epoch": 1}
