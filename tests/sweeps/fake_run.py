"""A run without TensorFlow: its first start waits for SIGTERM and saves its
state, its second start finishes."""

import json
import os
import signal
import sys

from tests.sweeps import fakes
from tf_transfer.training import records
from tf_transfer.utils import machine


def main(path, key):
    """Writes a line on this start, and waits or finishes."""
    directory = records.RunDirectory(path, key)
    directory.lock()
    state = directory.file("state")
    start = {
        "pid": os.getpid(),
        "continues": os.path.exists(state),
        "jobs": os.environ[machine.JOBS_VARIABLE],
        "cores": len(os.sched_getaffinity(0)),
    }

    def save(number, frame):
        with open(state, "w"):
            pass
        sys.exit(130)

    signal.signal(signal.SIGTERM, save)
    with open(directory.file("progress"), "a") as file:
        print(json.dumps(start), file=file)
    if not start["continues"]:
        signal.pause()
    fakes.write_finished(path, key)


main(sys.argv[1], json.loads(sys.argv[2]))
