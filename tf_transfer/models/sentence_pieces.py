"""SentencePiece: texts to token ids of XLM-RoBERTa and CamemBERT."""

import itertools
from collections.abc import Sequence
from typing import Any

import tensorflow as tf
import tensorflow_text
from google.protobuf import (
    descriptor_pb2,
    descriptor_pool,
    message_factory,
    text_format,
)

from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models.tokenizer import AddedToken, NUL, SPACE, Tokenizer

# The fields of sentencepiece_model.proto that are read or written here. (The
# class of the package `sentencepiece` demands a certain release of protobuf.)
SCHEMA = """
name: "tf_transfer/sentence_pieces.proto"
message_type {
  name: "Piece"
  field { name: "piece" number: 1 type: TYPE_STRING label: LABEL_OPTIONAL }
  field { name: "score" number: 2 type: TYPE_FLOAT label: LABEL_OPTIONAL }
  field { name: "type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL }
}
message_type {
  name: "Trainer"
  field { name: "model_type" number: 3 type: TYPE_INT32 label: LABEL_OPTIONAL }
}
message_type {
  name: "Normalizer"
  field { name: "charsmap" number: 2 type: TYPE_BYTES label: LABEL_OPTIONAL }
}
message_type {
  name: "Model"
  field { name: "pieces" number: 1 type: TYPE_MESSAGE type_name: "Piece"
          label: LABEL_REPEATED }
  field { name: "trainer" number: 2 type: TYPE_MESSAGE type_name: "Trainer"
          label: LABEL_OPTIONAL }
  field { name: "normalizer" number: 3 type: TYPE_MESSAGE
          type_name: "Normalizer" label: LABEL_OPTIONAL }
}
"""
UNKNOWN = 2  # the type of a piece
UNIGRAM = 1  # the type of a model
# The first tokens of the classes of transformers that read a model's file, and
# how many of its pieces these replace.
FIRST_TOKENS = {
    "XLMRobertaTokenizer": (("<s>", "<pad>", "</s>", "<unk>"), 3),
    "CamembertTokenizer": (
        ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<unk>NOTUSED"),
        1,
    ),
}


class SentencePieces(Tokenizer):
    """SentencePiece with a unigram model (Kudo 2018).

    A table replaces characters, such as ligatures by their letters. Then each
    word begins with "▁" in place of the space before it. Among all ways to cut
    a text into tokens, the one with the highest sum of scores is taken.
    Neighbouring characters that are in no token make one unknown token.

    Args:
        vocabulary, special, unknown, added: See `Tokenizer`.
        scores: Logarithms of the tokens' probabilities, by id. Added tokens
            behind them need none.
        charsmap: The table, as SentencePiece compiles it; empty for none.
        source: See `Tokenizer`.
        steps: Of transformers' normalizer. With `NFC` among them, texts are
            composed, those at a text's end are dropped, and only these white
            spaces are spaces: tabs, ends of lines, and several of any kind.
    """

    # The table leaves U+0085 as it is; transformers splits there, too.
    SPACES = r"[\t\n\f\r\x{85}\p{Z}]+"
    WIDE_SPACES = rf"[{SPACE}]{{2,}}|[\n\r\t]"

    def __init__(
        self,
        vocabulary: Sequence[str],
        special: SpecialTokens,
        unknown: int,
        added: Sequence[AddedToken],
        scores: Sequence[float],
        charsmap: bytes,
        source: tuple[str, str, bytes],
        steps: str = "",
    ) -> None:
        super().__init__(vocabulary, special, unknown, added)
        self._composes = "NFC" in steps
        self.source = source
        # An added token is a text of its own, with a space before it, and has
        # the highest score. A word of this spelling is found nowhere else.
        added_pieces = {t.content: f"▁{t.content}" for t in self.added}
        model = _make_message()
        model.normalizer.charsmap = charsmap
        for number, (token, score) in enumerate(
            itertools.zip_longest(self.vocabulary, scores, fillvalue=0.0)
        ):
            if token in added_pieces:
                token, score = added_pieces[token], 0.0
            elif not token or token in added_pieces.values():
                token = f"{NUL}{number}"
            model.pieces.add(piece=token, score=score)
        model.pieces.add(piece=NUL, type=UNKNOWN)
        self._pieces = tensorflow_text.SentencepieceTokenizer(
            model.SerializeToString()
        )

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self._composes:
            texts = tf.strings.regex_replace(texts, self.WIDE_SPACES, " ")
            texts = tensorflow_text.normalize_utf8(texts, "NFC")
            texts = tf.strings.regex_replace(texts, f"[{SPACE}]+$", "")
        else:
            texts = tf.strings.regex_replace(texts, self.SPACES, " ")
        return tf.RaggedTensor.from_uniform_row_length(texts, 1)

    def _make_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        ids = self._pieces.tokenize(words)
        return tf.where(ids == len(self.vocabulary), self.unknown, ids)


def read_model(
    content: bytes, title: str
) -> tuple[list[tuple[str, float]], bytes]:
    """Reads a model's file as a class of transformers does.

    Args:
        content: Of the file.
        title: The class, one of `FIRST_TOKENS`.

    Returns:
        The tokens by id, with their scores; and the table of characters.

    Raises:
        ValueError: The model is not a unigram model.
    """
    model = _make_message()
    model.ParseFromString(content)
    if model.trainer.model_type not in (0, UNIGRAM):  # 0: not in the file
        raise ValueError("its SentencePiece model is not a unigram model")
    first, replaced = FIRST_TOKENS[title]
    pieces = [(token, 0.0) for token in first]
    pieces += [(one.piece, one.score) for one in model.pieces[replaced:]]
    pieces.append(("<mask>", 0.0))
    return pieces, model.normalizer.charsmap


def _make_message() -> Any:
    """An empty message of a model."""
    file = text_format.Parse(SCHEMA, descriptor_pb2.FileDescriptorProto())
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(
        pool.FindMessageTypeByName("Model")
    )()
