"""Commands that must fail, and what they say."""

from tests.support import commands

SMALL = (
    "--model=tiny",
    "--data=sample",
    "--trainable_layers=0",
    "--max_length=16",
    "--max_epochs=1",
)


def make_refused(folder, capfd):
    """Makes a function that runs a command, and returns what it says.

    Args:
        folder: where its runs would be; it leaves none.
        capfd: pytest's fixture.
    """

    def run(*arguments, exit_code=2):
        out = folder / "runs"
        code = commands.call(
            commands.run_glue,
            commands.define_glue,
            *SMALL,
            f"--out={out}",
            *arguments,
        )
        message = capfd.readouterr().err
        assert code == exit_code
        assert_helpful(message)
        assert not out.exists()
        return message

    return run


def assert_helpful(message):
    assert "Traceback" not in message
    assert message.startswith("error: ")
    lines = message.splitlines()
    assert 1 <= len(lines) <= 3
    assert len(message) > 60  # it says what to do, too
