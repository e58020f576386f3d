"""The one error that a user is meant to read."""


class UserError(Exception):
    """Something the user can mend: names the flag or file, and what to do.

    Entry points print its text without a traceback and exit with code 1.
    """


class Interrupted(Exception):
    """SIGTERM or Ctrl-C: the state is saved, the same command continues."""
