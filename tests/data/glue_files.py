"""GLUE's files: what they hold, and copies that a test may change."""

import shutil

from tf_transfer.data import glue

# Text columns and labels of each task in the sample.
SHAPES = {
    "cola": (1, {0, 1}),
    "sst2": (1, {0, 1}),
    "mrpc": (2, {0, 1}),
    "stsb": (2, None),
    "qqp": (2, {0, 1}),
    "mnli": (2, {0, 1, 2}),
    "qnli": (2, {0, 1}),
    "rte": (2, {0, 1}),
    "wnli": (2, {0, 1}),
}

COMPLETE = {  # train and development examples of the official files
    "cola": (8551, 1043),
    "mrpc": (3667, 408),  # one short of the official 3668: so is the file
    "rte": (2490, 277),
    "sst2": (67349, 872),
    "stsb": (5749, 1500),
    "wnli": (635, 71),
}

QQP_WITH_BROKEN_ROWS = """\
id\tqid1\tqid2\tquestion1\tquestion2\tis_duplicate
0\t1\t2\tfirst?\tsecond?\t1
1\t3\t4\ttorn?
2\t5\t6\tthird?\tfourth?\t0
torn?
"""


def open_source(task, data, cache_folder=""):
    return glue.open_source(glue.TASKS[task], str(data), str(cache_folder))


def splits(task):
    """Every official file of a task, without its ending."""
    row = glue.TASKS[task]
    return ["train", *row.development]


def copy_sample(parent):
    """A folder of official files of our own: a copy of the sample."""
    return shutil.copytree(glue.SAMPLE, parent / "glue")


def write(folder, task, content, split="train"):
    path = folder / glue.TASKS[task].folder / f"{split}.tsv"
    if isinstance(content, str):
        content = content.encode()
    path.write_bytes(content)
    return str(path)
