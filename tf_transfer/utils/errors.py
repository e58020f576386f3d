"""The errors whose text is meant for the user."""


class UserError(Exception):
    """The command is wrong, or a file or a folder that it names.

    The text names the flag or the file, and what to do. Commands print it
    without a traceback, and exit with `exit_code`.
    """

    exit_code = 2


class RunError(UserError):
    """The command is right, and its work failed: the same may work later.

    Examples are a full disk, too little memory, a server that does not answer,
    a run that another process has open, and a loss that is not finite.
    """

    exit_code = 1


class FullDiskError(RunError):
    """A disk is full: whatever else is done now would fail, too."""


class Interrupted(Exception):
    """SIGTERM or Ctrl-C: the state is saved, the same command continues."""

    exit_code = 130


class NotFiniteError(RunError):
    """A loss, a gradient or an output is NaN or infinite."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(
            f"The {what} is not finite at step {step}. A smaller --lr, or "
            "--clip_norm, usually helps; the last good checkpoint is kept."
        )
