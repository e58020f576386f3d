"""A release of TensorFlow Datasets, fetched when it is first read."""

from absl import logging

from tf_transfer.utils import network
from tf_transfer.utils.errors import UserError


class Release:
    """One data set of TFDS.

    Args:
        name: what TFDS calls it, such as `glue/rte`.
        instead: what a user without a network can give, as half a sentence.

    Attributes:
        builder: `tfds.core.DatasetBuilder`.
        identity: str. Name and version.
    """

    def __init__(self, name, instead):
        import tensorflow_datasets as tfds

        self.name = name
        self._instead = instead
        known = logging.get_verbosity()
        logging.set_verbosity(logging.ERROR)  # it warns of an empty folder
        try:
            self.builder = tfds.builder(name)
        finally:
            logging.set_verbosity(known)
        self.identity = f"tfds {self.builder.info.full_name}"

    def read(self, split, url):
        """The rows of a split, as dicts of NumPy values, in TFDS's order.

        Args:
            url: what it is fetched from, to see whether that answers.

        Raises:
            UserError: it cannot be fetched, and what to do instead.
        """
        import tensorflow_datasets as tfds

        if not self.builder.is_prepared():
            self._reach(url)
            self._prepare()
        return list(tfds.as_numpy(self.builder.as_dataset(split)))

    def _reach(self, url):
        """Raises `UserError` in seconds; TFDS would try again for minutes."""
        problem = network.problem(url)
        if problem:
            raise UserError(
                f"--data=tfds: cannot reach {url} ({problem}).\nCheck the "
                f"network; or {self._instead}."
            )

    def _prepare(self):
        try:
            self.builder.download_and_prepare()
        except Exception as error:  # of many libraries
            first = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise UserError(
                f"--data=tfds: could not prepare {self.name} ({first[:200]})."
                f"\nRun the command again, or {self._instead}."
            ) from error
