"""Texts to token ids, by the published tokenisers of BERT and RoBERTa.

The same TensorFlow operations make the ids everywhere: for training, caches and
predictions, and inside of exported models. keras-hub's own tokenisers are not
used, since their ids differ: they join words at a no-break space, end a text at
NUL, fold case where BERT lower-cases, and drop a Devanagari six.

The ids are those of `transformers`, with the exceptions that
docs/reference/tokens.md lists.
"""

import collections
import dataclasses
import functools
import itertools
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_text

from tf_transfer.data import scripts
from tf_transfer.data.tokens import SpecialTokens
from tf_transfer.models import keras_private

# TensorFlow Text ends a text at NUL. This character, which Unicode reserves for
# such uses, takes the place of NUL while texts are split.
NUL = "\U0010fffe"
# What regular expressions of Python and Rust call white space; RE2's `\s` has
# ASCII characters alone.
SPACE = r"\t-\r \x{85}\p{Z}"


@dataclasses.dataclass(frozen=True)
class AddedToken:
    """A token that is found anywhere in a text, even inside a word.

    Attributes:
        content: The token.
        is_normalized: Whether it is looked for in the normalised text.
        takes_left, takes_right: Whether the white space before it, or behind
            it, is part of it.
    """

    content: str
    is_normalized: bool = False
    takes_left: bool = False
    takes_right: bool = False


class Tokenizer(tf.Module):
    """Texts to ids without special tokens; see the subclasses.

    Args:
        vocabulary: The tokens, by id.
        special: The ids that texts are packed with.
        unknown: The id of text that the vocabulary does not cover.
        added: The added tokens. They are in the vocabulary.

    Attributes:
        source: The class of transformers, and the name and the content of the
            file that it makes this tokenizer of; None where the rest says it.
    """

    # Tracing the program takes as long as this many calls lose without it.
    EAGER_CALLS = 50

    def __init__(
        self,
        vocabulary: Sequence[str],
        special: SpecialTokens,
        unknown: int,
        added: Sequence[AddedToken] = (),
    ) -> None:
        super().__init__()
        self._calls = 0  # of `encode`
        self.vocabulary = list(vocabulary)
        self.special = special
        self.unknown = unknown
        self.added = tuple(added)
        self.source: tuple[str, str, bytes] | None = None
        self._in_raw = self.added  # looked for in the text as it is
        # Looking for control flow would take seconds; there is none.
        self._program = tf.function(
            self._tokenize,
            input_signature=[tf.TensorSpec([None], tf.string)],
            autograph=False,
        )

    @functools.cached_property
    def words_by_script(self) -> "collections.Counter[str]":
        """See `scripts.count_words`."""
        return scripts.count_words(self._decode_vocabulary())

    def _decode_vocabulary(self) -> list[str]:
        """The vocabulary in letters."""
        return self.vocabulary

    def encode(self, texts: Sequence[str]) -> list[np.ndarray]:
        """The ids of each text, int32.

        Halves of a surrogate pair, which JSON can hold alone, are no
        characters; they are left out.
        """
        encoded = [text.encode("utf-8", "ignore") for text in texts]
        self._calls += 1
        is_eager = self._calls <= self.EAGER_CALLS
        with tf.device("CPU:0"):
            column = tf.constant(encoded, tf.string, [len(encoded)])
            ids = self._tokenize(column) if is_eager else self(column)
        values, splits = ids.values.numpy(), ids.row_splits.numpy()
        return [values[a:b] for a, b in itertools.pairwise(splits)]

    def __call__(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """The ids of each text, in a graph or out of it.

        Args:
            texts: String [batch].

        Returns:
            int32 [batch, (length)].
        """
        # As a graph even where functions run eagerly, which takes longer.
        return self._program.get_concrete_function()(texts)

    def _tokenize(self, texts: tf.Tensor) -> tf.RaggedTensor:
        texts = tf.strings.regex_replace(texts, r"\x00", NUL)
        words = _split_off(texts, self._in_raw, self._split)
        return words.with_values(self._make_ids(words.values)).merge_dims(1, 2)

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        """Splits texts without added tokens; string [batch, (words)]."""
        raise NotImplementedError

    def _make_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        """Cuts words into tokens; int32 [words, (tokens)]."""
        raise NotImplementedError


class WordPieces(Tokenizer):
    """BERT's tokeniser (Devlin et al. 2019).

    Control characters, NUL and U+FFFD are dropped. Words end at white space,
    around punctuation and, if `splits_chinese`, around CJK characters. Accents
    are dropped before letters become small: the result is the same as in the
    published order, and does not depend on the language of the machine.

    A word is the longest token of the vocabulary that it begins with, then the
    longest that its rest begins with, and so on. If no token fits, or if the
    word is longer than `longest` characters, the whole word is unknown.

    Args:
        vocabulary, special, unknown, added: See `Tokenizer`.
        lowercase: Whether letters become small.
        strip_accents: Whether combining marks are dropped, also those of
            composed letters; None for the value of `lowercase`.
        splits_chinese: Whether each CJK character is a word.
        longest: The largest number of characters of a word.
    """

    DROPPED = (
        r"[\x{0}-\x{8}\x{b}\x{c}\x{e}-\x{1f}\x{7f}-\x{9f}\x{fffd}"
        rf"\x{{{ord(NUL):x}}}\p{{Cf}}\p{{Co}}]"
    )
    PUNCTUATION = r"!-/:-@\[-`{-~\p{P}"
    CHINESE = (
        r"\x{3400}-\x{4dbf}\x{4e00}-\x{9fff}\x{f900}-\x{faff}"
        r"\x{20000}-\x{2a6df}\x{2a700}-\x{2ceaf}\x{2f800}-\x{2fa1f}"
    )
    # White space that `tf.strings.split` does not split at.
    WIDE_SPACE = (
        r"[\t\n\r\x{a0}\x{1680}\x{2000}-\x{200a}\x{2028}\x{2029}\x{202f}"
        r"\x{205f}\x{3000}]"
    )
    # Capital letters whose small forms depend on the language of the machine.
    DOTTED = ("İ", "Ì", "Í", "Ĩ", "Į")

    def __init__(
        self,
        vocabulary: Sequence[str],
        special: SpecialTokens,
        unknown: int,
        added: Sequence[AddedToken] = (),
        lowercase: bool = True,
        strip_accents: bool | None = None,
        splits_chinese: bool = True,
        longest: int = 100,
    ) -> None:
        super().__init__(vocabulary, special, unknown, added)
        self.lowercase = lowercase
        self.strips_accents = (
            lowercase if strip_accents is None else strip_accents
        )
        self.splits_chinese = splits_chinese
        self.longest = longest
        self._in_raw = tuple(t for t in self.added if not t.is_normalized)
        self._in_normalized: list[AddedToken] = []
        # No word is one of these two, and the builder refuses them.
        pieces = [
            f"{NUL}{piece}" if piece in ("", "##") else piece
            for piece in self.vocabulary
        ]
        for token in self.added:
            if token.is_normalized:
                [content] = self._normalize(tf.constant([token.content]))
                content = content.numpy().decode()
                # The added token takes the place of a word of this spelling.
                number = self.vocabulary.index(token.content)
                pieces = [f"{NUL}{p}" if p == content else p for p in pieces]
                pieces[number] = content
                self._in_normalized.append(
                    dataclasses.replace(token, content=content)
                )
        self._pieces = tensorflow_text.FastWordpieceTokenizer(
            pieces,
            token_out_type=tf.int32,
            unknown_token=pieces[unknown],
            no_pretokenization=True,
            max_bytes_per_word=4 * longest,  # of UTF-8
        )
        self._unknown_piece = pieces[unknown]

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        return _split_off(
            self._normalize(texts), self._in_normalized, self._split_words
        )

    def _normalize(self, texts: tf.Tensor) -> tf.Tensor:
        texts = tf.strings.regex_replace(texts, self.DROPPED, "")
        if self.strips_accents:
            texts = tensorflow_text.normalize_utf8(texts, "NFD")
            texts = tf.strings.regex_replace(texts, r"\p{Mn}", "")
        elif self.lowercase:
            for letter in self.DOTTED:
                texts = tf.strings.regex_replace(texts, letter, letter.lower())
        if self.lowercase:
            # ASCII first: in Turkish a small I has no dot.
            texts = tf.strings.lower(texts)
            texts = tf.strings.lower(texts, encoding="utf-8")
        return texts

    def _split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        apart = f"[{self.PUNCTUATION}]"
        if self.splits_chinese:
            apart = f"[{self.PUNCTUATION}{self.CHINESE}]"
        texts = tf.strings.regex_replace(texts, apart, r" \0 ")
        texts = tf.strings.regex_replace(texts, self.WIDE_SPACE, " ")
        texts = tf.strings.regex_replace(
            texts, f"[^ ]{{{self.longest + 1}}}[^ ]*", self._unknown_piece
        )
        return tf.strings.split(texts)

    def _make_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        return self._pieces.tokenize(words)


class BytePairs(Tokenizer):
    r"""RoBERTa's tokeniser, which is GPT-2's (Radford et al. 2019).

    A text is split by GPT-2's regular expression

        's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+
        |\s+(?!\S)|\s+

    and the bytes of each word are joined by the merges, first ones first.

    Args:
        vocabulary, special, unknown, added: See `Tokenizer`.
        merges: The pairs of tokens that are joined, `a b` each.
        adds_space: Whether a text begins with a space.
        form: Unicode's form of texts, `NFC`; empty for that which they have.
    """

    EAGER_CALLS = 0  # the loop of the merges takes long without a program
    MARK = b"\xff"  # is in no UTF-8
    WORD = (
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+"
        rf"| ?[^{SPACE}\p{{L}}\p{{N}}]+|[{SPACE}]+"
    )

    def __init__(
        self,
        vocabulary: Sequence[str],
        merges: Sequence[str],
        special: SpecialTokens,
        unknown: int,
        added: Sequence[AddedToken] = (),
        adds_space: bool = False,
        form: str = "",
    ) -> None:
        super().__init__(vocabulary, special, unknown, added)
        self.merges = list(merges)
        self.adds_space = adds_space
        self.form = form
        if form:
            self._in_raw = tuple(t for t in self.added if not t.is_normalized)
        # Added tokens with spaces: keras-hub takes a space for an end.
        numbers = {
            token.content: self.vocabulary.index(token.content)
            for token in self.added
            if " " in token.content
        }
        self._spaced = _make_table(numbers) if numbers else None
        self._pairs = keras_private.byte_pairs(
            self.vocabulary, self.merges, [t.content for t in self.added]
        )

    def _decode_vocabulary(self) -> list[str]:
        ids = tf.range(len(self.vocabulary))[:, None]
        words: list[str] = self._pairs.detokenize(ids)
        return words

    def _split(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if not self.form:
            return self._split_words(texts)
        texts = tensorflow_text.normalize_utf8(texts, self.form)
        added = [token for token in self.added if token.is_normalized]
        return _split_off(texts, added, self._split_words)

    def _split_words(self, texts: tf.Tensor) -> tf.RaggedTensor:
        if self.adds_space:
            has_space = tf.strings.substr(texts, 0, 1) == " "
            stays = has_space | (texts == "")
            texts = tf.where(stays, texts, tf.strings.join([" ", texts]))
        # RE2 cannot look ahead: a mark ends white space before its last
        # character, unless it ends the text.
        texts = tf.strings.regex_replace(
            texts,
            f"([{SPACE}])([{SPACE}])([^{SPACE}])",
            b"\\1" + self.MARK + b"\\2\\3",
        )
        words = tensorflow_text.regex_split(texts, self.WORD, self.WORD)
        words = tf.ragged.boolean_mask(words, words != self.MARK)
        return words.with_values(
            tf.strings.regex_replace(words.values, NUL, b"\0")
        )

    def _make_ids(self, words: tf.Tensor) -> tf.RaggedTensor:
        number = None
        if self._spaced is not None:
            number = self._spaced.lookup(words)
            words = tf.where(number < 0, words, "a")  # one byte: one token
        ids = keras_private.merge_bytes(self._pairs, words)
        ids = tf.where(ids < 0, self.unknown, ids)
        if number is None:
            return ids
        number = tf.gather(number, ids.value_rowids())
        return ids.with_values(tf.where(number < 0, ids.values, number))


def _split_off(
    texts: tf.Tensor,
    added: Sequence[AddedToken],
    split: Callable[[tf.Tensor], tf.RaggedTensor],
) -> tf.RaggedTensor:
    """Splits texts at added tokens, and the rest by `split`.

    Args:
        texts: String [batch].
        added: The added tokens.
        split: From string [parts] to string [parts, (words)].

    Returns:
        string [batch, (words)], in which an added token is a word.
    """
    if not added:
        return split(texts)
    longest_first = sorted(added, key=lambda token: -len(token.content))
    pattern = "|".join(map(_make_pattern, longest_first))
    contents = "|".join(re.escape(token.content) for token in longest_first)

    def split_parts() -> tf.RaggedTensor:
        parts = tensorflow_text.regex_split(texts, pattern, pattern)
        is_added = tf.strings.regex_full_match(parts.values, pattern)
        # In place of an added token a word of one letter is split.
        words = split(tf.where(is_added, "a", parts.values))
        tokens = tf.strings.regex_replace(
            parts.values, f"^[{SPACE}]*({contents})[{SPACE}]*$", r"\1"
        )
        part = words.value_rowids()
        words = words.with_values(
            tf.where(
                tf.gather(is_added, part), tf.gather(tokens, part), words.values
            )
        )
        return parts.with_values(words).merge_dims(1, 2)

    # Most texts have none of them.
    has_any = tf.strings.regex_full_match(texts, f"(?s).*(?:{pattern}).*")
    return tf.cond(tf.reduce_any(has_any), split_parts, lambda: split(texts))


def _make_table(numbers: Mapping[str, int]) -> tf.lookup.StaticHashTable:
    """From texts to numbers, and to -1 from any other text."""
    keys = tf.constant(list(numbers), tf.string)
    values = tf.constant(list(numbers.values()), tf.int32)
    return tf.lookup.StaticHashTable(
        tf.lookup.KeyValueTensorInitializer(keys, values), -1
    )


def _make_pattern(token: AddedToken) -> str:
    """A regular expression of an added token and the space that it takes."""
    pattern = re.escape(token.content)
    if token.takes_left:
        pattern = f"[{SPACE}]*{pattern}"
    if token.takes_right:
        pattern = f"{pattern}[{SPACE}]*"
    return pattern
