"""The machine of a run, and the runs that share it.

Imports TensorFlow only where there is a GPU.
"""

import contextlib
import functools
import importlib.metadata
import os
import platform
import socket
import subprocess
import sys
import time
from collections.abc import Sequence

from tf_transfer._version import __version__
from tf_transfer.utils.json_files import Record

VISIBLE_GPUS = "CUDA_VISIBLE_DEVICES"
JOBS_VARIABLE = "TF_TRANSFER_JOBS"  # how many runs a sweep has in parallel
PACKAGE, SCRIPT = b"tf_transfer", b"tf-transfer"
OUR_MODULES = (b"tf_transfer.", b"benchmarks.")
IDLE = tuple(  # modules that use next to no processor time
    f"tf_transfer.{name}".encode() for name in ("sweep", "cache", "report")
)
PACKAGES = (
    "tensorflow",
    "keras",
    "keras-hub",
    "keras-nlp",
    "tensorflow-text",
    "tensorflow-datasets",
    "openvino",
    "numpy",
    "scipy",
    "scikit-learn",
)


# === The code ===


@functools.cache
def versions() -> dict[str, str | None]:
    """Versions of this package, of Python and of `PACKAGES`.

    None stands for a package that is not installed.
    """
    versions: dict[str, str | None] = {
        "tf_transfer": __version__,
        "python": platform.python_version(),
    }
    for package in PACKAGES:
        versions[package] = None
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            versions[package] = importlib.metadata.version(package)
    return versions


@functools.cache  # the code of a process is that of its start
def git_commit() -> str | None:
    """The commit of the code, with `+` where files differ.

    None where the code is not in a git checkout.
    """
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

    def git(*words: str) -> subprocess.CompletedProcess[str]:
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


@functools.cache
def gpu_versions() -> dict[str, str | None]:
    """Versions of the GPU's driver, and of the libraries of TensorFlow's build.

    None stands for a version that is not known.
    """
    import tensorflow as tf

    build = tf.sysconfig.get_build_info()
    driver = None
    with contextlib.suppress(OSError):
        listed = subprocess.run(
            [
                "nvidia-smi",
                "--query-gpu=driver_version",
                "--format=csv,noheader",
            ],
            capture_output=True,
            text=True,
        ).stdout
        driver = listed.partition("\n")[0].strip() or None
    return {
        "driver": driver,
        "cuda": build.get("cuda_version"),
        "cudnn": build.get("cudnn_version"),
    }


# === The machine ===


def concurrent_runs(proc: str = "/proc") -> int | None:
    """The number of runs on this machine; None if processes are not listed.

    The count is that of processes of this package that compute, or the number
    of parallel runs of a sweep, whichever is larger. A process that has started
    others, as a study starts its trials, only waits and is not counted. Times
    are compared only between runs with equal counts.

    Args:
        proc: Where Linux lists the processes.
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
            module = _name_module(words)
            if module.startswith(OUR_MODULES) and module not in IDLE:
                with open(f"{proc}/{process}/stat", "rb") as file:
                    # After the name in brackets: state, parent, ...
                    fields = file.read().rpartition(b")")[2].split()
                parents[process] = fields[1].decode()
    count = len(set(parents) - set(parents.values()))
    return max(count, int(os.environ.get(JOBS_VARIABLE, "1")))


def _name_module(words: Sequence[bytes]) -> bytes:
    """The module of a process: that after `-m`, or of `tf-transfer COMMAND`."""
    for word, module, command in zip(words, words[1:], words[2:]):
        if word == b"-m" and module != PACKAGE:
            return module
        if word == b"-m" or os.path.basename(module) == SCRIPT:
            return PACKAGE + b"." + command
    return b""


def describe_process() -> Record:
    """The code, host and machine of this process, for `config.json`."""
    return {
        "threads": len(os.sched_getaffinity(0)),
        "processor": processor(),
        "machine": start_of_machine(),
        "concurrent_runs": concurrent_runs(),
        "versions": versions(),
        "git_commit": git_commit(),
        "command": sys.argv,
        "host": socket.gethostname(),
        "started": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
    }


def processor() -> str | None:
    """The name of this machine's processor, where it is known."""
    name = _read_field("/proc/cpuinfo", "model name")
    return name or platform.processor() or None


def _read_field(path: str, name: str) -> str | None:
    """The value of the first line `name: value` of a file of Linux."""
    with contextlib.suppress(OSError), open(path, encoding="utf-8") as file:
        for line in file:
            key, _, value = line.partition(":")
            if key.strip() == name:
                return value.strip()
    return None


def list_gpus() -> list[str]:
    """The GPUs that this process may use, as CUDA_VISIBLE_DEVICES has them."""
    visible = os.environ.get(VISIBLE_GPUS)
    if visible is not None:
        return [name for name in visible.split(",") if name not in ("", "-1")]
    try:
        listed = subprocess.run(
            ["nvidia-smi", "--list-gpus"], capture_output=True, text=True
        ).stdout
    except OSError:
        return []
    lines = [line for line in listed.splitlines() if line.startswith("GPU ")]
    return [str(number) for number in range(len(lines))]


@functools.cache
def has_gpu() -> bool:
    """Whether there is a GPU that TensorFlow can use."""
    if not (list_gpus() or os.path.exists("/dev/nvidia0")):
        return False
    import tensorflow as tf

    return bool(tf.config.list_physical_devices("GPU"))


@functools.cache
def has_bfloat16(path: str = "/proc/cpuinfo") -> bool:
    """Whether the processor computes with bfloat16, with AMX or AVX512.

    Args:
        path: The file of Linux with the processor's features.
    """
    features = _read_field(path, "flags") or ""
    return not {"amx_bf16", "avx512_bf16"}.isdisjoint(features.split())


def start_of_machine(
    path: str = "/proc/sys/kernel/random/boot_id",
) -> str | None:
    """Linux's boot id; None where not known.

    Copies of a virtual machine have one name and the same processor, but
    different speeds. This number distinguishes them.

    Args:
        path: The file of Linux with the number.
    """
    with contextlib.suppress(OSError), open(path, encoding="ascii") as file:
        return file.read().strip()[:8]
    return None


def total_memory() -> int:
    """Bytes of this machine's memory."""
    return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")


def own_memory() -> int | None:
    """Bytes of anonymous memory of this process; None where not known.

    Mapped files, such as a cache of hidden states, do not count: the kernel
    may drop them at any time.
    """
    size = _read_field("/proc/self/status", "RssAnon")
    return None if size is None else 1024 * int(size.split()[0])
