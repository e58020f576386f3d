"""What a run runs on, and beside what. Needs no TensorFlow."""

import contextlib
import importlib.metadata
import os
import platform
import subprocess

from tf_transfer import __version__

JOBS_VARIABLE = "TF_TRANSFER_JOBS"  # a sweep tells its runs
IDLE = tuple(
    f"tf_transfer.{name}".encode()
    for name in ("sweep", "cache", "ensemble", "report")
)
PACKAGES = (
    "tensorflow",
    "keras",
    "keras-hub",
    "keras-nlp",
    "tensorflow-text",
    "tensorflow-datasets",
    "numpy",
    "scipy",
    "scikit-learn",
)


# === The code ===


def versions():
    """What runs: package versions, Python, and the code's commit."""
    found = {"tf_transfer": __version__, "python": platform.python_version()}
    for package in PACKAGES:
        try:
            found[package] = importlib.metadata.version(package)
        except importlib.metadata.PackageNotFoundError:
            found[package] = None
    return found


def git_commit():
    """The commit of the code, with `+` where files differ; or None."""
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def git(*words):
        return subprocess.run(
            ["git", "-C", here, *words], capture_output=True, text=True
        )

    try:
        inside = git("ls-files", "--error-unmatch", "__init__.py")
        if inside.returncode:
            return None
        commit = git("rev-parse", "HEAD").stdout.strip()
        changed = git("status", "--porcelain", "--untracked-files=no", ".")
    except OSError:
        return None
    return commit + ("+" if changed.stdout.strip() else "")


# === The machine ===


def concurrent_runs(proc="/proc"):
    """How many runs share this machine, or None.

    Counted are processes of this package that compute, and what a sweep says
    that it runs side by side. Who started one of them, as a study starts its
    trials, only waits. Times are compared only among runs in like company.
    """
    parents = {}
    try:
        processes = [name for name in os.listdir(proc) if name.isdigit()]
    except OSError:
        return None
    for process in processes:
        with contextlib.suppress(OSError):
            with open(f"{proc}/{process}/cmdline", "rb") as file:
                words = file.read().split(b"\0")
            if b"-m" in words and any(
                word.startswith(b"tf_transfer.") and word not in IDLE
                for word in words
            ):
                with open(f"{proc}/{process}/stat", "rb") as file:
                    # After the name in brackets: state, parent, ...
                    fields = file.read().rpartition(b")")[2].split()
                parents[process] = fields[1].decode()
    count = len(set(parents) - set(parents.values()))
    return max(count, int(os.environ.get(JOBS_VARIABLE, 1)))


def processor():
    """The name of this machine's processor, or None."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or None


def own_memory():
    """Bytes of anonymous memory of this process, or None.

    Mapped files, such as a cache of hidden states, do not count: the kernel
    may drop them at any time.
    """
    try:
        with open("/proc/self/status", encoding="ascii") as file:
            for line in file:
                if line.startswith("RssAnon:"):
                    return int(line.split()[1]) * 1024
    except OSError:
        pass
    return None
