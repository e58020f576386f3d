"""A release of TensorFlow Datasets, fetched when it is first read."""

from typing import Any

from absl import logging

from tf_transfer.utils import network
from tf_transfer.utils.errors import UserError


class Release:
    """One data set of TFDS.

    Args:
        name: Its name in TFDS, such as `glue/rte`.
        instead: What a user without a network can do, as half a sentence.

    Attributes:
        name: Its name in TFDS.
        builder: Its `tfds.core.DatasetBuilder`.
        identity: Its name and version.
    """

    def __init__(self, name: str, instead: str) -> None:
        import tensorflow_datasets as tfds

        self.name = name
        self._instead = instead
        known = logging.get_verbosity()
        logging.set_verbosity(logging.ERROR)  # TFDS warns of an empty folder
        try:
            self.builder = tfds.builder(name)
        finally:
            logging.set_verbosity(known)
        self.identity = f"tfds {self.builder.info.full_name}"

    def read(self, split: str, url: str) -> list[dict[str, Any]]:
        """Reads the rows of a split, in TFDS's order.

        Args:
            split: Its name in TFDS.
            url: The address of the download, which has to answer.

        Returns:
            A dict of NumPy values for each row.

        Raises:
            UserError: It cannot be downloaded, with what to do instead.
        """
        import tensorflow_datasets as tfds

        if not self.builder.is_prepared():
            self._check_network(url)
            self._prepare()
        return list(tfds.as_numpy(self.builder.as_dataset(split)))

    def _check_network(self, url: str) -> None:
        """Raises `UserError` in seconds; TFDS would try again for minutes."""
        problem = network.find_problem(url)
        if problem:
            raise UserError(
                f"--data=tfds: cannot reach {url} ({problem}).\nCheck the "
                f"network; or {self._instead}."
            )

    def _prepare(self) -> None:
        try:
            self.builder.download_and_prepare()
        except Exception as error:  # many libraries raise their own
            first = (str(error).strip() or type(error).__name__).split("\n")[0]
            raise UserError(
                f"--data=tfds: could not prepare {self.name} ({first[:200]})."
                f"\nRun the command again, or {self._instead}."
            ) from error
