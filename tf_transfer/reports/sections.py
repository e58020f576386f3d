"""The section of a report on each paper's runs, and the studies it has.

A summary knows its facts by a study's name, and a report looks them up by it:
both must sort the same runs the same way.
"""

import importlib

from tf_transfer.reports import studies

MODULES = ("freezing", "glue", "multitask", "stacking", "tweets")


def each(records):
    """Yields (module, its section, its `studies.Study`s) of some records."""
    for module in MODULES:
        own = [record for record in records if record["module"] == module]
        if not own:
            continue
        section = importlib.import_module(f"tf_transfer.reports.{module}")
        if hasattr(section, "prepared"):
            own = section.prepared(own)
        yield module, section, studies.sort_into_studies(own)
