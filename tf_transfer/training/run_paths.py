"""The directory of a run: by its settings, or as the answer of a search."""

import os
from collections.abc import Sequence

from tf_transfer.config.settings import Settings
from tf_transfer.training.record_types import Answer, read_declared
from tf_transfer.training.records import RunDirectory
from tf_transfer.utils import files
from tf_transfer.utils.errors import UserError
from tf_transfer.utils.json_files import hash_json, Record

ANSWER = ".search/answer.json"  # in the folder of a search


def locate(
    settings: Settings,
    experiment: str,
    folders: Sequence[str],
    identities: dict[str, str],
    replicas: int,
) -> RunDirectory:
    """The directory of a run, known before anything is loaded.

    Its name has the main settings and a hash of its key, which is everything
    that can change a number of the run. With `--rerun` it is the first numbered
    directory next to it without a finished run.

    Args:
        settings: Resolved.
        experiment: Name of the experiment.
        folders: Names between the experiment's folder and the run's.
        identities: Of model and data.
        replicas: The number that the batch is spread over.
    """
    key = {
        "module": experiment,
        **settings.hashed(),
        **identities,
        "replicas": replicas,
    }
    name = run_name(settings, key)
    path = os.path.join(settings.out, experiment, *folders, name)
    run, number = RunDirectory(path, key), 2
    while settings.rerun and files.exists(run.file("result.json")):
        run, number = RunDirectory(f"{path}.{number}", key), number + 1
    return run


def run_name(settings: Settings, key: Record) -> str:
    """The folder name of a run: the main settings, and a hash."""
    return f"{settings.title}-{hash_json(key)[:10]}"


def find_answer(path: str) -> str:
    """The directory of the run that is the answer of a search.

    Args:
        path: Of the search's folder. Any other path is returned as it is.

    Raises:
        UserError: No run of the search has ended, or its answer is damaged.
    """
    answer = read_declared(os.path.join(path, ANSWER), Answer)
    if answer is None:
        return path
    if not answer["run"]:
        raise UserError(
            f"--run={path}: is a search without a finished run. Give the "
            "search a larger --budget."
        )
    return os.path.join(path, answer["run"])


def read_answer_of(out: str, path: str) -> Answer | None:
    """The answer of the search in a folder, if a run is its answer.

    Args:
        out: Of the search.
        path: Of the run's directory.
    """
    answer = read_declared(os.path.join(out, ANSWER), Answer)
    if answer is None or not answer["run"]:
        return None
    is_answer = os.path.realpath(path) == os.path.realpath(
        os.path.join(out, answer["run"])
    )
    return answer if is_answer else None
