"""The nine GLUE tasks as rows of data.

A task is a row: where its texts stand in the official files, what its labels
are called, which metric scores it. Adding a task is adding a row.

The headline metrics are those of Wang, section 3.2: F1 for MRPC and QQP,
Spearman for STS-B, accuracy for the others. `also` are reported beside it:
CoLA always has Matthews, since Wang's metric sentence is the caption of a
table whose CoLA column is Matthews.
"""

import dataclasses


@dataclasses.dataclass(frozen=True)
class Task:
    """One labelled task on a text or a pair of texts.

    Attributes:
        name: str. What `--task` says.
        folder: str. Its folder in the official GLUE download.
        texts: names of its one or two text columns.
        label: name of its label column.
        labels: the words of its labels in the files, in the order of their
            ids; `None` for a score.
        metric: the metric that selects, stops and ranks.
        also: metrics reported beside it.
        header: column names where the files have no header line.
        development: the official development files, the headline one first.
        tests: the official test files and the name of the submission file
            that GLUE wants for each.
        words: the labels as the submission wants them.
        tfds: name of the TFDS config.
        tfds_texts: the text columns there.
        skip_broken: whether the official files are known to hold broken
            rows, which are then counted and left out.
    """

    name: str
    folder: str
    texts: tuple
    label: str
    labels: tuple | None
    metric: str
    tfds: str
    tfds_texts: tuple
    also: tuple = ()
    header: tuple | None = None
    development: tuple = ("dev",)
    tests: tuple = ()
    words: tuple | None = None
    skip_broken: bool = False

    @property
    def units(self):
        """Output units: one for a score or a yes/no, else one a label."""
        return (
            1
            if self.labels is None or len(self.labels) == 2
            else len(self.labels)
        )

    @property
    def metrics(self):
        """Every metric that is reported, the headline first."""
        return (self.metric, *self.also)

    @property
    def facts(self):
        """What `config.json` says of it: enough to answer with."""
        return {"texts": list(self.texts), "labels": self.labels}


def of_facts(name, facts):
    """A `Task` to answer with, out of `Task.facts`."""
    labels = facts["labels"]
    labels = None if labels is None else tuple(labels)
    return Task(name, "", tuple(facts["texts"]), "", labels, "", "", ())


SCORE_RANGE = (0.0, 5.0)  # of STS-B, in the files and in the submission

_ENTAILS = ("entailment", "not_entailment")
_YES_NO = ("0", "1")

_ROWS = (
    Task(
        "cola",
        "CoLA",
        ("sentence",),
        "label",
        _YES_NO,
        "accuracy",
        "cola",
        ("sentence",),
        also=("matthews",),
        header=("source", "label", "star", "sentence"),
        tests=(("test", "CoLA"),),
    ),
    Task(
        "sst2",
        "SST-2",
        ("sentence",),
        "label",
        _YES_NO,
        "accuracy",
        "sst2",
        ("sentence",),
        tests=(("test", "SST-2"),),
    ),
    Task(
        "mrpc",
        "MRPC",
        ("#1 String", "#2 String"),
        "Quality",
        _YES_NO,
        "f1",
        "mrpc",
        ("sentence1", "sentence2"),
        also=("accuracy",),
        tests=(("test", "MRPC"),),
    ),
    Task(
        "stsb",
        "STS-B",
        ("sentence1", "sentence2"),
        "score",
        None,
        "spearman",
        "stsb",
        ("sentence1", "sentence2"),
        also=("pearson", "spearman_no_ties"),
        tests=(("test", "STS-B"),),
    ),
    Task(
        "qqp",
        "QQP",
        ("question1", "question2"),
        "is_duplicate",
        _YES_NO,
        "f1",
        "qqp",
        ("question1", "question2"),
        also=("accuracy",),
        tests=(("test", "QQP"),),
        skip_broken=True,
    ),
    Task(
        "mnli",
        "MNLI",
        ("sentence1", "sentence2"),
        "gold_label",
        ("entailment", "neutral", "contradiction"),
        "accuracy",
        "mnli",
        ("premise", "hypothesis"),
        development=("dev_matched", "dev_mismatched"),
        tests=(("test_matched", "MNLI-m"), ("test_mismatched", "MNLI-mm")),
        words=("entailment", "neutral", "contradiction"),
    ),
    Task(
        "qnli",
        "QNLI",
        ("question", "sentence"),
        "label",
        _ENTAILS,
        "accuracy",
        "qnli",
        ("question", "sentence"),
        tests=(("test", "QNLI"),),
        words=_ENTAILS,
    ),
    Task(
        "rte",
        "RTE",
        ("sentence1", "sentence2"),
        "label",
        _ENTAILS,
        "accuracy",
        "rte",
        ("sentence1", "sentence2"),
        tests=(("test", "RTE"),),
        words=_ENTAILS,
    ),
    Task(
        "wnli",
        "WNLI",
        ("sentence1", "sentence2"),
        "label",
        _YES_NO,
        "accuracy",
        "wnli",
        ("sentence1", "sentence2"),
        tests=(("test", "WNLI"),),
    ),
)

GLUE = {task.name: task for task in _ROWS}
