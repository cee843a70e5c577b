"""Text of any origin as a terminal may show it: one line, no sequences, a known width.

Names of groups come from whoever has a Kafka client: one may hold an escape sequence.
"""

import re
import unicodedata

_CUT = "…"
_MAX_MARKS = 2  # on one character: more would cover the lines above and below


# C0 without tab and newline, DEL, C1, ends of lines, and what turns the direction of text.
_ACTED_ON = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")

_FURTHER_LINE = re.compile(r"\n(?=[^ \n])")


def escaped(text: str) -> str:
    r"""A whole output without control characters: each becomes `\u001b`, which JSON reads back.

    Newlines and tabs stay: the output itself has them.
    """
    if text.isprintable():
        return text
    return _ACTED_ON.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def one_line(text: str) -> str:
    r"""The same of a text that is one line: it begins no other. An end of a line becomes `\n`."""
    return escaped(text).replace("\n", "\\n")


def indented(text: str) -> str:
    """The same of a text that may have more lines: none of those after the first looks like a line
    of its own."""
    return _FURTHER_LINE.sub("\n  ", escaped(text))


def shown(text: str) -> str:
    r"""The text without anything that a terminal acts on; that is written as `\x1b`."""
    if text.isascii() and text.isprintable():
        return text
    found, marks = list[str](), _MAX_MARKS  # none without a character before it
    for char in unicodedata.normalize("NFC", text):
        marks = marks + 1 if unicodedata.combining(char) else 0
        if char.isprintable() and marks <= _MAX_MARKS:
            found.append(char)
        else:
            found.append(char.encode("unicode_escape").decode())
    return "".join(found)


def width(text: str) -> int:
    """How many columns it takes. text: of `shown`."""
    return len(text) if text.isascii() else sum(map(_width, text))


def fitted(text: str, columns: int) -> str:
    """No more than so many columns: what is too long ends with an ellipsis. text: of `shown`."""
    if width(text) <= columns:
        return text
    if columns < 1:
        return ""
    taken, left = list[str](), columns - 1
    for char in text:
        left -= _width(char)
        if left < 0:
            break
        taken.append(char)
    return "".join(taken) + _CUT


def padded(text: str, columns: int, *, right: bool = False) -> str:
    """Exactly so many columns. right: the text stands at the right."""
    cut = fitted(text, columns)
    space = " " * (columns - width(cut))
    return space + cut if right else cut + space


def _width(char: str) -> int:
    if unicodedata.category(char) in ("Mn", "Me"):
        return 0
    return 2 if unicodedata.east_asian_width(char) in "WF" else 1
