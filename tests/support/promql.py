"""What a PromQL expression names: metrics with their matchers, and the labels it groups by."""

from __future__ import annotations

import re
from typing import NamedTuple

_TEXT = re.compile(r'"((?:[^"\\]|\\.)*)"')
_GROUPING = re.compile(r"\b(?:by|without|on|ignoring|group_left|group_right)\s*\(([^)]*)\)")
_RANGE = re.compile(r"\[[^\]]*\]|\boffset\s+\w+")
_SELECTOR = re.compile(r"(?<![\w:.])([a-zA-Z_:][\w:]*)\b(?:\{([^}]*)\})?(?!\s*\()")
_MATCHER = re.compile(r'(\w+)\s*(?:=~|!~|!=|=)\s*"(\d+)"')
_WORDS = {"and", "or", "unless", "bool", "inf", "nan"}


class Selector(NamedTuple):
    """One place of an expression that reads series. matchers: what is asked of a label."""

    name: str
    matchers: dict[str, str]


def selectors(expr: str) -> list[Selector]:
    """Every place that reads series, in order."""
    texts: list[str] = []

    def numbered(found: re.Match[str]) -> str:
        texts.append(found.group(1))
        return f'"{len(texts) - 1}"'

    plain = _RANGE.sub("", _GROUPING.sub(" ", _TEXT.sub(numbered, expr)))
    return [
        Selector(name, {label: texts[int(at)] for label, at in _MATCHER.findall(matchers)})
        for name, matchers in _SELECTOR.findall(plain)
        if name.lower() not in _WORDS
    ]


def grouped_by(expr: str) -> set[str]:
    """The labels that it groups or matches by."""
    found = ",".join(_GROUPING.findall(expr)).split(",")
    return {label.strip() for label in found if label.strip()}
