"""Runs of `tf_transfer.train` that take seconds."""

from tf_transfer import train


def settings_of(path, out, **changes):
    return train.Settings(
        **{
            "task": path,
            "model": "tiny",
            "max_length": 16,
            "max_epochs": 1,
            "trainable_layers": "1",
            "out": str(out),
            **changes,
        }
    )
