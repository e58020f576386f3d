"""The section of a report on each experiment's runs, and its studies.

A section is a module of this folder with the name of its experiment; an
experiment without one gets `generic`. It has a function

    sections(study, summary, published, options) -> parts of the report

and may have

    prepare(records)                -> records, as its tables tell them apart
    comparable_groups(studies)      -> lists of studies, to list differences in
    title(study)                    -> what the report calls a study
    facts(dataset, predictions)     -> what a summary keeps of a data set
    ensembles(records, predictions) -> what a summary keeps of several runs
    IS_PAIRED                       whether predictions are compared pairwise

A summary finds its facts by a study's name, and a report looks them up by it:
both sort the runs here.
"""

import importlib
import importlib.util
from collections.abc import Iterable
from collections.abc import Iterator
from types import ModuleType

from tf_transfer.reports import generic
from tf_transfer.reports import studies
from tf_transfer.reports.reading import Record


def section_of(name: str) -> ModuleType:
    """The module with the section on an experiment, such as `glue`."""
    full_name = f"tf_transfer.reports.{name}"
    if name.isidentifier() and importlib.util.find_spec(full_name):
        module = importlib.import_module(full_name)
        if hasattr(module, "sections"):
            return module
    return generic


def group_by_experiment(
    records: Iterable[Record],
) -> Iterator[tuple[str, ModuleType, list[studies.Study]]]:
    """Yields (name of the experiment, its section, its studies), by name."""
    by_name: dict[str, list[Record]] = {}
    for record in records:
        by_name.setdefault(record["experiment"], []).append(record)
    for name, members in sorted(by_name.items()):
        section = section_of(name)
        if hasattr(section, "prepare"):
            members = section.prepare(members)
        yield name, section, studies.sort_into_studies(members)
