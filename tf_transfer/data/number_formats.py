"""Excel's number formats: a number or date as the text that a sheet shows.

Of ECMA-376, part 1, section 18.8.31: sections, digits, thousands, per cent,
exponents, literal text and dates. Conditions and fractions are not read.
"""

import datetime
import decimal
import re
from typing import NamedTuple

EPOCH = datetime.datetime(1899, 12, 30)  # of times without a date
# Excel shows these two as the computer's region writes dates; here as ISO does.
REGIONAL = {"mm-dd-yy": "yyyy-mm-dd", "m/d/yy h:mm": "yyyy-mm-dd h:mm"}
_SECTION = re.compile(r'((?:"[^"]*"|\\.|\[[^\]]*\]|[^;"\\\[])*)(?:;|$)')
_TOKEN = re.compile(
    r'"(?P<quoted>[^"]*)"|\\(?P<escaped>.)|_(?P<space>.)|\*(?P<fill>.)'
    r"|\[\$(?P<currency>[^-\]]*)(?:-[^\]]*)?\]|\[(?P<elapsed>[hms])+\]"
    r"|\[(?P<condition>[<>=][^\]]*)\]|\[(?P<color>[^\]]*)\]"
    r"|(?P<general>General)|(?P<exponent>E[+-]0+)|(?P<noon>AM/PM|A/P)"
    r"|(?P<fraction>(?<=s)\.0+)|(?P<digit>[0#?])|(?P<point>\.)"
    r"|(?P<comma>,)|(?P<percent>%)|(?P<date>[yY]+|[mM]+|[dD]+|[hH]+|[sS]+)"
    r"|(?P<other>.)",
    re.IGNORECASE | re.DOTALL,
)
Moment = datetime.datetime | datetime.date | datetime.time | datetime.timedelta


class Token(NamedTuple):
    """A part of a format: its kind, a group of `_TOKEN`, and its text."""

    kind: str
    text: str


def format_number(value: float, pattern: str) -> str | None:
    """The text of a number; None for a format that is not read.

    Args:
        value: The number.
        pattern: The format, such as `#,##0.00`. General has up to 15 digits.
    """
    sections = [m[1] for m in _SECTION.finditer(pattern)][:-1] or [pattern]
    section, sign = sections[0], "-" if value < 0 else ""
    if value < 0 and len(sections) > 1:
        section, sign = sections[1], ""
    elif value == 0 and len(sections) > 2:
        section = sections[2]
    tokens = _split(section)
    kinds = [token.kind for token in tokens]
    has_slash = any(token == ("other", "/") for token in tokens)
    if "condition" in kinds or ("digit" in kinds and has_slash):
        return None
    number = decimal.Decimal(f"{abs(value):.15g}")
    if "general" in kinds or "digit" not in kinds:
        shown = format(number.normalize(), "f")
        if "general" not in kinds and section != "@":
            shown = ""
        literals = [shown if t.kind == "general" else t.text for t in tokens]
        return sign + (shown if section == "@" else "".join(literals))
    if "exponent" in kinds:
        return sign + _format_exponent(number, section)
    return sign + _fill_digits(number, tokens)


def _split(section: str) -> list[Token]:
    """The parts of a format, literal text as it is shown."""
    tokens = []
    for match in _TOKEN.finditer(section):
        kind = match.lastgroup or ""
        text = match[kind]
        if kind == "space":
            text = " "
        elif kind in ("fill", "color"):
            text = ""
        if kind in ("quoted", "escaped", "space", "fill", "color", "currency"):
            kind = "literal"
        tokens.append(Token(kind, text))
    return tokens


def _fill_digits(number: decimal.Decimal, tokens: list[Token]) -> str:
    """A number in the places of its digits, such as those of 000-0000."""
    kinds = [token.kind for token in tokens]
    point = kinds.index("point") if "point" in kinds else len(tokens)
    last = max(n for n, kind in enumerate(kinds) if kind == "digit")
    scale = 2 * kinds.count("percent") - 3 * kinds[last:].count("comma")
    places = kinds[point:].count("digit")
    number = number.scaleb(scale).quantize(
        decimal.Decimal(1).scaleb(-places), decimal.ROUND_HALF_UP
    )
    whole, _, part = format(number, "f").partition(".")
    whole = whole.lstrip("0")
    before = [n for n in range(point) if kinds[n] == "digit"]
    is_grouped = "comma" in kinds[:last]
    shown = [t.text if t.kind != "comma" else "" for t in tokens]
    count = 0  # digits of the whole part that are in their place
    for n in reversed(before):
        digits = whole[-1:] or {"0": "0", "?": " "}.get(tokens[n].text, "")
        whole = whole[:-1]
        if n == before[0]:
            digits = whole + digits
        shown[n] = ""
        for digit in reversed(digits):
            if is_grouped and count and count % 3 == 0:
                shown[n] = "," + shown[n]
            shown[n] = digit + shown[n]
            count += 1
    after = [n for n in range(point, len(tokens)) if kinds[n] == "digit"]
    for place, n in enumerate(after):
        is_needed = part[place:].strip("0") or any(
            tokens[m].text == "0" for m in after[place:]
        )
        blank = " " if tokens[n].text == "?" else ""
        shown[n] = part[place] if is_needed else blank
    return "".join(shown)


def _format_exponent(number: decimal.Decimal, section: str) -> str:
    """A number as its exponent's format writes it, such as 0.00E+00."""
    mantissa, _, exponent = section.upper().partition("E")
    places = len(mantissa.partition(".")[2])
    text = f"{number:.{places}E}"
    base, _, power = text.partition("E")
    sign = "-" if power.startswith("-") else exponent[0].replace("-", "")
    return f"{base}E{sign}{power.lstrip('+-').zfill(len(exponent) - 1)}"


# === Dates ===


def format_moment(moment: Moment, pattern: str) -> str:
    """The text of a date, a time or a duration.

    Args:
        moment: The date, time or duration.
        pattern: The format; one without parts of a date is ISO's.
    """
    section = _SECTION.match(REGIONAL.get(pattern, pattern))
    tokens = _split(section[1] if section else pattern)
    if not any(token.kind in ("date", "elapsed") for token in tokens):
        return str(moment)
    if isinstance(moment, datetime.timedelta):
        moment = EPOCH + moment
    elif isinstance(moment, datetime.time):
        moment = datetime.datetime.combine(EPOCH, moment)
    elif not isinstance(moment, datetime.datetime):
        moment = datetime.datetime.combine(moment, datetime.time())
    dates = [n for n, t in enumerate(tokens) if t.kind in ("date", "elapsed")]
    is_noon = any(token.kind == "noon" for token in tokens)
    shown = [token.text for token in tokens]
    for position, n in enumerate(dates):
        code = tokens[n].text.lower()
        around = [
            tokens[dates[p]].text.lower()[0]
            for p in (position - 1, position + 1)
            if 0 <= p < len(dates)
        ]
        follows_hour = position > 0 and around[0] == "h"
        if code[0] == "m" and (follows_hour or around[-1:] == ["s"]):
            code = code.replace("m", "n")  # minutes
        if tokens[n].kind == "elapsed":
            unit = {"h": 3600, "m": 60, "s": 1}[code[0].replace("n", "m")]
            shown[n] = str(int((moment - EPOCH).total_seconds() // unit))
        else:
            shown[n] = _format_part(moment, code, is_noon)
    for n, token in enumerate(tokens):
        if token.kind == "noon":
            shown[n] = moment.strftime("%p")[: 1 if token.text == "A/P" else 2]
        elif token.kind == "fraction":
            places = len(token.text) - 1
            shown[n] = f".{moment.microsecond:06d}"[: places + 1]
    return "".join(shown)


def _format_part(moment: datetime.datetime, code: str, is_noon: bool) -> str:
    """A part of a date: `d`, `mmm`, `nn` for minutes, ..."""
    hour = (moment.hour - 1) % 12 + 1 if is_noon else moment.hour
    numbers = {
        "d": moment.day,
        "m": moment.month,
        "h": hour,
        "n": moment.minute,
        "s": moment.second,
    }
    if code[0] == "y":
        return f"{moment:%Y}" if len(code) > 2 else f"{moment:%y}"
    if code[0] in "dm" and len(code) > 2:
        names = {"d": ("%a", "%A"), "m": ("%b", "%B")}[code[0]]
        name = moment.strftime(names[len(code) > 3])
        return name[0] if code == "mmmmm" else name
    return f"{numbers[code[0]]:0{min(len(code), 2)}d}"
