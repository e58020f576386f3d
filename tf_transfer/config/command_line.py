"""Commands: flags from settings, and errors that a person can read."""

import collections
import contextlib
import dataclasses
import functools
import gc
import importlib
import json
import os
import re
import select
import sys
import tempfile
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from absl import app, flags, logging

from tf_transfer.config import help as help_lib, settings as settings_lib
from tf_transfer.config.fields import Field, Fields
from tf_transfer.utils import files, machine
from tf_transfer.utils.errors import Interrupted, RunError, UserError
from tf_transfer.utils.formatting import cut
from tf_transfer.utils.json_files import Record

_DEFINE: dict[type | str, Callable[..., flags.FlagHolder[Any]]] = {
    str: flags.DEFINE_string,
    int: flags.DEFINE_integer,
    float: flags.DEFINE_float,
    bool: flags.DEFINE_bool,
    tuple[str, ...]: flags.DEFINE_multi_string,
}
# Of the dynamic linker, of C and of TensorFlow.
NO_MEMORY = (
    "failed to map segment",
    "Cannot allocate memory",
    "std::bad_alloc",
    "OOM when allocating",
)
# By settings class: a sweep parses hundreds of commands.
_FLAGS: dict[type[Fields], flags.FlagValues] = {}
FieldsT = TypeVar("FieldsT", bound=Fields)
COMMENT = ("#", "//")  # of a line of a flag file


def list_flags(cls: type[Fields]) -> list[Field]:
    """The fields of `cls` that are flags."""
    return [f for f in dataclasses.fields(cls) if f.metadata["is_flag"]]


def define_flags(
    cls: type[Fields], module: str, values: flags.FlagValues = flags.FLAGS
) -> None:
    """Defines a flag for each field of `cls`, as key flags of `module`."""
    for field in list_flags(cls):
        define, about = _DEFINE[field.type], field.metadata
        if about["choices"]:
            define = functools.partial(
                flags.DEFINE_enum, enum_values=about["choices"]
            )
        define(
            name=field.name,
            default=field.default,
            help=about["help"],
            module_name=module,
            flag_values=values,
        )


def from_flags(
    cls: type[FieldsT], values: flags.FlagValues = flags.FLAGS
) -> FieldsT:
    """The settings of the parsed flags.

    Flag files and sweeps may give flags that this run does not read.

    Raises:
        UserError: The command gives such a flag itself.
    """
    given_values: dict[str, Any] = {}
    for field in list_flags(cls):
        value = values[field.name].value
        given_values[field.name] = (
            tuple(value) if type(value) is list else value
        )
    settings = cls(**given_values)
    if values is flags.FLAGS and machine.JOBS_VARIABLE not in os.environ:
        names = list_flag_names(sys.argv[1:])
        for name in settings.unread():
            if name in names:
                raise UserError(
                    f"--{name}={values[name].value}: has no effect with these "
                    "settings. Leave it out."
                )
    return settings


def parse(cls: type[FieldsT], words: Sequence[str]) -> FieldsT:
    """The settings of a command's words; this process's flags are not read.

    Raises:
        UserError: There is no such flag or value.
    """
    values = _flags_of(cls)
    for name in values:
        values[name].unparse()
    words = read_flag_files(words)
    try:
        strays = values(["command", *words])[1:]
    except flags.UnrecognizedFlagError as error:
        names = ", ".join(sorted(values))
        raise UserError(f"{error} There are: {names}.") from None
    except flags.Error as error:
        raise UserError(str(error)) from None
    expand_home(values)
    if strays:
        raise UserError(f"{cut(strays[0])!r} is not a flag.")
    return from_flags(cls, values)


def _flags_of(cls: type[Fields]) -> flags.FlagValues:
    if cls not in _FLAGS:
        _FLAGS[cls] = flags.FlagValues()
        define_flags(cls, cls.__module__, _FLAGS[cls])
    return _FLAGS[cls]


def command(
    main: Callable[[list[str]], None], cls: type[Fields] | None = None
) -> None:
    """Runs an entry module: flags, `main`, and errors a person can read.

    Args:
        main: Takes the module's name and the words next to its flags.
        cls: The settings of which flags are made; None where the module has
            defined its own.
    """
    if cls is not None:
        define_flags(cls, sys.argv[0])
    files.open_standard_files()
    if help_lib.asks_for_help(sys.argv[1:]):
        command_flags = flags.FLAGS.get_key_flags_for_module(sys.argv[0])
        document = sys.modules["__main__"].__doc__ or ""
        text = help_lib.format_help(
            document, command_flags, cls or settings_lib.Settings
        )
        exit_on_error(lambda: print(text))
        return

    def run(argv: list[str]) -> None:
        expand_home(flags.FLAGS)
        exit_on_error(explain_lack_of_memory(functools.partial(main, argv)))

    app.run(run, flags_parser=_parse_flags)


def answer(work: Callable[[], Record], as_json: bool) -> None:
    """Does the work of a command; with `--json`, prints its answer alone.

    Args:
        work: Does it, prints messages, and returns the answer.
        as_json: Whether the answer is printed. The output of `work`, that of
            C++ and of other processes included, then goes to the standard
            error.
    """
    if not as_json:
        work()
        return
    with (
        open(2, "wb", closefd=False) as errors,
        files.redirect_output(errors, [1]),
        contextlib.redirect_stdout(sys.stderr),
    ):
        record = work()
    print(json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False))


def refuse_words(argv: Sequence[str]) -> None:
    """Raises `UserError` for a word that is no flag.

    Args:
        argv: See `command`.
    """
    if len(argv) > 1:
        raise UserError(
            f"{cut(argv[1])!r} is not a flag. Flags look like --task=rte; "
            "--help lists them."
        )


def _parse_flags(words: list[str]) -> list[str]:
    """The words next to the flags; ends the process where a flag is wrong."""
    program, *rest = words
    strays: list[str] = []

    def parse() -> None:
        check_single_flags(rest)
        try:
            strays.extend(flags.FLAGS([program, *read_flag_files(rest)]))
        except flags.Error as error:
            text = str(error).replace(" ?", "?").rstrip(".")
            end = "" if text.endswith("?") else "."
            raise UserError(f"{text}{end} --help lists the flags.") from None

    exit_on_error(parse)
    return strays


def expand_home(values: flags.FlagValues) -> None:
    """Replaces `~/` in front of a value, which the shell leaves there."""
    for name in values:
        value = values[name].value
        if isinstance(value, str) and value.startswith("~/"):
            values[name].value = os.path.expanduser(value)


def list_flag_names(words: Sequence[str]) -> list[str]:
    """The names of the flags in a command's words, with repetitions."""
    names = []
    for word in words:
        if word.startswith("--") and len(word) > 2:
            name = word[2:].partition("=")[0].replace("-", "_")
            if name not in flags.FLAGS and name.startswith("no"):
                name = name.removeprefix("no")
            names.append(name)
    return names


def read_flag_files(
    words: Sequence[str], within: Sequence[str] = ()
) -> list[str]:
    """Replaces each `--flagfile` by the flags in its file.

    absl would take a byte order mark for a part of the first flag.

    Args:
        words: Of a command, or the lines of a flag file.
        within: The flag files that contain the words. A file that contains
            itself is read once.

    Raises:
        UserError: A flag file is not readable text.
    """
    read = []
    rest = iter(words)
    for word in rest:
        match = re.fullmatch("--?flagfile(?:=(.*))?", word)
        if not match:
            read.append(word)
            continue
        path = next(rest, "") if match[1] is None else match[1]
        path = os.path.expanduser(path.strip())
        if path in ("", *within):
            continue
        try:
            text = files.read_bytes(path).decode("utf-8-sig")
        except (OSError, ValueError) as error:
            reason = getattr(error, "strerror", "Not text in UTF-8")
            raise UserError(
                f"--flagfile={cut(path)}: {reason}. Give a text file with a "
                "flag per line."
            ) from None
        lines = map(str.strip, text.splitlines())
        flags_in_file = [x for x in lines if x and not x.startswith(COMMENT)]
        read += read_flag_files(flags_in_file, (*within, path))
    return read


def check_single_flags(words: Sequence[str]) -> None:
    """Raises `UserError` if a flag with one value is given twice."""
    values = flags.FLAGS
    for name, count in collections.Counter(list_flag_names(words)).items():
        takes_one = name in values and not isinstance(
            values[name], flags.MultiFlag
        )
        if count > 1 and takes_one and name != "flagfile":
            raise UserError(
                f"--{name}: is given {count} times, and takes one value. Leave "
                "the others out."
            )


def import_tensorflow() -> None:
    """Imports TensorFlow and keras-nlp; in a command without their notices.

    C++ prints the notices before any log level applies. So a command redirects
    its standard error during the import, and shows it if the import fails. In
    a program of the user's own, other threads may write to it.

    Raises:
        UserError: Python or Keras runs in a mode that they do not support.
    """
    if sys.flags.optimize > 1:
        raise UserError(
            "PYTHONOPTIMIZE=2 (-OO): TensorFlow's libraries need the "
            "docstrings that it removes. Unset it."
        )
    # Other programs may have their own Keras; here, only this one works.
    os.environ |= {"KERAS_BACKEND": "tensorflow", "TF_USE_LEGACY_KERAS": "0"}
    # Errors are hidden, too: failures are raised anyway, and oneDNN calls
    # float16 on a CPU without units for it an error.
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    os.environ.setdefault("GRPC_VERBOSITY", "ERROR")
    is_command = flags.FLAGS.is_parsed()
    is_loaded, collects = "keras_hub" in sys.modules, gc.isenabled()
    # An import leaves hardly any garbage; to search all that is loaded for it,
    # a dozen times, takes a fifth of the import.
    gc.disable()
    with tempfile.TemporaryFile() as notices:
        try:
            with files.redirect_output(notices, [2] if is_command else []):
                importlib.import_module("keras_hub")
                tf = importlib.import_module("tensorflow")
                tf.config.list_physical_devices()
        except Exception as error:
            if not find_lack_of_memory(error):
                notices.seek(0)
                os.write(2, notices.read())
            raise
        finally:
            if collects:
                gc.enable()
    if is_command and not is_loaded:
        gc.freeze()  # later collections do not search it either
    backend = sys.modules["keras"].backend.backend()
    if backend != "tensorflow":  # imported before this call
        raise UserError(
            f"KERAS_BACKEND={backend}: this program has imported Keras with "
            "it. Start it with KERAS_BACKEND=tensorflow."
        )
    if not flags.FLAGS["verbosity"].present:  # app.run has set it to INFO
        logging.set_verbosity(logging.WARNING)


def _is_output_closed() -> bool:
    """Whether nobody reads the output, such as behind `| head`."""
    output = select.poll()
    output.register(sys.stdout, select.POLLOUT)
    return any(event & select.POLLERR for _, event in output.poll(0))


def find_lack_of_memory(error: BaseException) -> str:
    """The line of an error that says that memory is short; "" for others."""
    if isinstance(error, MemoryError):
        return type(error).__name__
    lines = str(error).splitlines()
    return next((x for x in lines if any(map(x.count, NO_MEMORY))), "").strip()


def explain_lack_of_memory(main: Callable[[], None]) -> Callable[[], None]:
    """`main`, with a `RunError` where it has too little memory."""

    def run() -> None:
        try:
            main()
        except Exception as error:
            reason = find_lack_of_memory(error)
            if not reason:
                raise
            raise RunError(
                f"not enough memory ({reason[:200]}). Raise the limit of this "
                "shell (`ulimit -v`), or free some memory. Training needs less "
                "with a smaller --batch_size."
            ) from None

    return run


def exit_on_error(main: Callable[[], None]) -> None:
    """Calls `main()`; prints an error for the user in a line, and exits."""
    try:
        main()
        sys.stdout.flush()
    except BrokenPipeError:
        if not _is_output_closed():
            raise
        # Python flushes what is left at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        sys.exit(RunError.exit_code)
    except UserError as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except OSError as error:
        advice = files.advise(error)
        if error.filename is None and not advice:
            raise
        name = error.filename or "a disk that this command uses"
        kind = RunError if advice else UserError  # of the disk, or of the path
        advice = advice or "Check this path, then give the same command again."
        print(f"error: {name}: {error.strerror}. {advice}", file=sys.stderr)
        sys.exit(kind.exit_code)
    except Interrupted as stop:
        print(stop, file=sys.stderr)
        sys.exit(stop.exit_code)
    except KeyboardInterrupt:
        print("Stopped. Nothing new was saved.", file=sys.stderr)
        sys.exit(Interrupted.exit_code)
