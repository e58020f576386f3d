"""Texts that tokenisers disagree on, for `tests/models/tokenizer_test.py`."""

import itertools
import unicodedata

SPACES = [chr(c) for c in range(0x3001) if chr(c).isspace()]
LETTERS = "àéîõüçñÀÉÎÕÜÇÑǅǆắễỗὥᾳῷЙйЁёがパ한글"
WORDS = """
schön schon Straße STRASSE ẞ İstanbul ISPARTA ısı IĞDIR ΟΔΟΣ οδός ΣΑΣ λόγος
Ἀθῆναι ﬁnal ﬀ ﬃ ½ ¼ m² H₂O № ℡ ™ … ‥ «mot» „Wort“ l’été d'été naïve Ωm Åm
한국어 조선말 ㅎㅎㅋ ｶﾞｲﾄﾞ ﾊﾝｶｸ ＡＢＣ１２３ ￥ ひらがな カタカナ 漢字 中文字符
日本語テキスト 𠀀𠀁 豈更 العَرَبِيَّة عربي كتاب פֿוּר שָׁלוֹם हिन्दी क्षत्रिय १२३६ ६
বাংলা ไทยครับ မြန်မာ ქართული ᲥᲐᲠᲗᲣᲚᲘ Ꭰꭰ Հայերեն ⅷ Ⅷ ⓐⒶ 𝒜𝓑𝔸 𐐀𐐨 Ǆ ŉ ǰ ΐ ﬗ
""".split()
EMOJIS = """
👍 👍🏽 👨‍👩‍👧‍👦 🏳️‍🌈 🇩🇪🇫🇷 ❤️ ❤ ☺︎ #️⃣ 1️⃣ 🏴󠁧󠁢󠁥󠁮󠁧󠁿 👩🏿‍🚀 ✈ ☕good 😀😀
""".split()
SENTENCES = [
    "The film was dull, and the script felt weak.",
    "Vraiment nul\u202f! Et le titre\u00a0: \u00ab\u00a0bof\u00a0\u00bb.",
    "don't we'll I'VE they're 'tis rock'n'roll O'Neil's",
    "  two  spaces   three \t tab \n line \r\n end  ",
    "http://t.co/aB_1?x=2&y=3 @user #tag $5.00 50% (a) [b] {c} <d>",
    "[CLS] a [SEP] b[MASK]c [UNK] [PAD] [sep] [S EP]",
    "<s> a </s> b <mask> c<mask>d <pad> <unk>  <mask>  e",
    "a\x00b \x00 c\x00\x00d",
    "\ufffd a\ufffdb \ufeffBOM a\ufeffb",
    "half \ud83d of a pair, \udc00x\ud800, and \udfff.",
    "soft\u00adhyphen zero\u200bwidth no\u200djoin left\u200emark \u2066in",
    "line\u2028separator paragraph\u2029separator next\u0085line \x0b\x1c",
    "x" * 99 + " " + "x" * 100 + " " + "x" * 101 + " " + "x" * 300,
    "é" * 100 + " " + "é" * 101 + " " + "ж" * 60 + " " + "ж" * 101,
    "한" * 30 + " " + "한" * 40 + " " + "क" * 100,
    "a." * 60 + " " + "中" * 120,
    "",
    " ",
    "\u200b",
    "\u00a0",
]


def make():
    """About 3,000 texts; the same in every call."""
    texts = [*SENTENCES, *WORDS, *EMOJIS]
    texts += [form for word in [*WORDS, *LETTERS] for form in _forms(word)]
    for space in SPACES:
        texts += [
            f"good{space}film",
            f"{space}good {space}film{space}",
            f"good{space}{space}film ,{space}dog",
            f"{space}",
        ]
    # Characters between letters and alone; those of large scripts in steps.
    characters = [
        chr(code)
        for code in itertools.chain(
            range(0x3400),
            range(0x3400, 0xD800, 97),
            range(0xE000, 0xF900, 97),
            range(0xF900, 0x10000),
            range(0x10000, 0x20000, 3),
            range(0x20000, 0x30000, 997),
            range(0xE0000, 0xE01F0, 7),
        )
        if _is_settled(chr(code))
    ]
    for begin in range(0, len(characters), 16):
        row = characters[begin : begin + 16]
        texts.append(" ".join(f"a{character}b" for character in row))
        if begin % 64 == 0:
            texts.append("".join(row))
    return list(dict.fromkeys(texts))


def _is_settled(character):
    """Whether all releases of Unicode since 3.2 have it in one category.

    Libraries have tables of different releases.
    """
    category = unicodedata.category(character)
    old = unicodedata.ucd_3_2_0.category(character)
    return category == old != "Cn"


def _forms(word):
    composed = unicodedata.normalize("NFC", word)
    decomposed = unicodedata.normalize("NFD", word)
    return [composed, decomposed, decomposed.upper(), f"a{decomposed}, b"]
