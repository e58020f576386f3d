"""The errors whose text is meant for the user."""


class UserError(Exception):
    """Something the user can fix: names the flag or file, and what to do.

    Commands print its text without a traceback and exit with code 1.
    """


class FullDiskError(UserError):
    """A disk is full: whatever else is done now would fail, too."""


class Interrupted(Exception):
    """SIGTERM or Ctrl-C: the state is saved, the same command continues."""


class NotFiniteError(UserError):
    """A loss, a gradient or an output is NaN or infinite."""

    def __init__(self, what: str, step: int) -> None:
        super().__init__(
            f"The {what} is not finite at step {step}. A smaller --lr, or "
            "--clip_norm, usually helps; the last good checkpoint is kept."
        )
