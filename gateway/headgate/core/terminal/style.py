"""Colours, where there is a terminal that has them and nobody has asked for none."""

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Ink(StrEnum):
    """What a text means; the value is its SGR parameters (ECMA-48)."""

    PLAIN = ""
    GOOD = "32"
    WARNING = "33"
    BAD = "31"
    HEAD = "1"
    CHOSEN = "1;7"
    FAINT = "2"


class Style(NamedTuple):
    """How to write to one stream. is_terminal: one that can move its cursor."""

    is_terminal: bool = False
    has_colours: bool = False

    def paint(self, text: str, ink: Ink) -> str:
        """The text in this ink, if there is any."""
        if not (self.has_colours and ink and text):
            return text
        return f"\x1b[{ink.value}m{text}\x1b[0m"


PLAIN = Style()


def style_of(environ: Mapping[str, str], *, is_terminal: bool) -> Style:
    """The style of a stream. TERM=dumb, or none at all, is no terminal; NO_COLOR takes the colours
    away (no-color.org)."""
    able = is_terminal and environ.get("TERM", "dumb") != "dumb"
    return Style(able, able and not environ.get("NO_COLOR"))
