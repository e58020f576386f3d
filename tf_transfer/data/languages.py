"""The language of texts, and those that a vocabulary has, by function words.

An encoder of another language than the texts has tokens for all of their
letters, so that none of them is unknown, and yet knows hardly a word. Languages
that are not in the table, and other scripts (see `scripts`), are not found.
"""

import collections
import re
import unicodedata
from collections.abc import Collection, Iterable, Sequence

MOST_TEXTS = 2000  # whose words are counted
# The least that a language has of the words of texts, to be theirs: in all,
# different ones, and as a share. They are ours: of the texts in a language, a
# fifth or more of the words are in its row below.
LEAST_COUNT = 12
LEAST_DIFFERENT = 4
LEAST_SHARE = 1 / 12
LEAD = 2  # times the words of each language that an encoder reads
# The least share of a language's words that are tokens of a vocabulary which
# reads it. The uncased BERT's has all of the English ones, and of no other
# language more than 55 %.
LEAST_TOKENS = 0.75
WORD = re.compile(r"[^\W\d_]+")
# GPT-2 spells a byte by its Latin-1 letter, if that is visible, and any other
# byte, in order, by a letter from 256 on.
VISIBLE = (*range(33, 127), *range(161, 173), *range(174, 256))
HIDDEN = [byte for byte in range(256) if byte not in VISIBLE]
BYTES = {chr(byte): byte for byte in VISIBLE}
BYTES |= {chr(256 + n): byte for n, byte in enumerate(HIDDEN)}
LETTERS = str.maketrans("đıłø", "dilo")  # which have no accent to drop

# Frequent words of a language that are rare as words or names of the others.
FUNCTION_WORDS = {
    "English": """
        the and of to that was for with is are this have not you from they
        which there their would what about when been were has had will more can
        who its than then into some could these his her she only it be as""",
    "German": """
        und nicht ist das ein eine einen einem einer auch auf aus bei sich für
        dem wie aber nach noch nur oder sind wird werden wurde haben kann zum
        zur über durch wenn dass sein ihre mehr sehr schon immer diese ich""",
    "French": """
        est une dans qui pour pas sur avec plus ce cette ces sont nous vous ils
        elle mais être fait aussi leur très bien où même tout tous comme était
        ont été ne se aux qu il avait peut""",
    "Spanish": """
        que los una por para como más pero sus este esta está hay muy también
        ser son fue desde cuando sobre todo sin entre porque hasta donde han
        yo lo su nos ya nada""",
    "Portuguese": """
        que não uma para com por mais dos das seu sua foi como mas ao ele ela
        são também já pelo pela até isso muito quando você está tem nos eu
        num ser sem""",
    "Italian": """
        che non una sono della del per nel nella alla anche più gli questo
        questa come ma ha dal dei delle è stato essere molto loro hanno quando
        perché cui degli sulla suo""",
    "Dutch": """
        het een niet zijn voor met aan ook maar door naar bij dat deze wordt
        nog heeft worden hebben over uit dit wel geen meer hij ze waar kunnen
        zich veel ik je""",
    "Swedish": """
        och att det som är inte för på med av till ett har jag den från men om
        vi när också kan ska hade blev mycket sig eller efter där över vid""",
    "Danish or Norwegian": """
        og det er ikke på med til som for har jeg av af ved den fra vi også når
        men kan blev være hvor eller efter etter skal meget mye noget noe""",
    "Finnish": """
        ja on ei että se oli hän mutta kun niin myös ovat joka mitä ole tai
        kuin nyt sen vain jos olen minä voi sitä tämä hyvin ollut ollaan""",
    "Estonian": """
        ja ei on et see oli kui ning aga mis ta ka siis oma või kes seda olid
        väga juba nii selle välja mida pole nagu""",
    "Polish": """
        nie się jest że na do jak ale tak co od przez dla są po był było który
        jego tylko być może już czy oraz też bardzo które także jej""",
    "Czech or Slovak": """
        je se na že není ale jako jsem jsou byl bylo která který tak pro když
        jen nebo ako som sa nie už což při jeho podle také ktoré aj""",
    "Croatian or Serbian": """
        je na se da ne su za što nije kao sam ali koji koja iz bio bi ili samo
        kako biti više sve smo jer ima od može""",
    "Hungarian": """
        az nem hogy egy és van is csak meg ez de már mint volt aki ha kell még
        azt ezt nagyon vagy minden lehet lesz mert pedig""",
    "Romanian": """
        și nu este în cu care sunt pentru din mai dar ca pe fost lui această
        acest sau fi după prin până când foarte fără unei""",
    "Turkish": """
        bir ve bu için çok ile ne daha gibi ama değil var kadar olarak olan
        sonra ben her mi bana ya yok diye şey oldu""",
    "Indonesian or Malay": """
        yang dan di ini itu dengan untuk tidak dari dalam akan pada juga saya
        ke ada karena bisa adalah oleh kami mereka sudah anda lebih seperti""",
    "Vietnamese": """
        và của là không được cho có người trong những này với các một khi đã
        tôi như nhưng để cũng ra nhiều rất làm""",
    "Catalan": """
        els amb una per que és del als més però aquest aquesta són dels
        seva molt també ser quan fins sobre perquè tot""",
}


def fold(text: str) -> str:
    """A text in small letters without accents, which writers leave out."""
    letters = unicodedata.normalize("NFKD", text.casefold())
    kept = (c for c in letters if not unicodedata.combining(c))
    return "".join(kept).translate(LETTERS)


WORDS = {
    name: frozenset(fold(words).split())
    for name, words in FUNCTION_WORDS.items()
}


def find_unread(texts: Sequence[str], read: Collection[str]) -> str:
    """The language of texts if it is none of some languages, else "".

    Args:
        texts: The texts. Of many, some spread over all are read.
        read: Languages; keys of `FUNCTION_WORDS`.
    """
    step = -(-len(texts) // MOST_TEXTS) or 1
    words: collections.Counter[str] = collections.Counter()
    for text in texts[::step]:
        words.update(WORD.findall(fold(text)))
    counts = {
        name: sum(words[word] for word in listed)
        for name, listed in WORDS.items()
    }
    language = max(counts, key=counts.__getitem__)
    count = counts[language]
    different = sum(word in words for word in WORDS[language])
    others = max((counts[name] for name in read), default=0)
    is_clear = (
        count >= LEAST_COUNT
        and different >= LEAST_DIFFERENT
        and count >= LEAST_SHARE * words.total()
        and count >= LEAD * others
    )
    return language if is_clear and language not in read else ""


def list_read(vocabulary: Iterable[str]) -> frozenset[str]:
    """The languages whose function words are tokens of a vocabulary.

    Args:
        vocabulary: The tokens, in letters or in bytes as GPT-2 spells them. A
            mark of a word's beginning is left out.
    """
    tokens = {fold(_spell(token).lstrip(" ▁")) for token in vocabulary}
    read = set()
    for name, words in WORDS.items():
        if len(words & tokens) >= LEAST_TOKENS * len(words):
            read.add(name)
    return frozenset(read)


def _spell(token: str) -> str:
    """A token in letters: those of its bytes, if it consists of bytes."""
    try:
        return bytes(BYTES[letter] for letter in token).decode()
    except (KeyError, UnicodeDecodeError):
        return token
