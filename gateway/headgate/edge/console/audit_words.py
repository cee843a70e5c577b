"""A figure of two audits in words: what it is called, and its values with their units."""

from collections.abc import Callable
from typing import NamedTuple

from headgate.core.skew_audits.comparison import Figure
from headgate.edge.console import wording


class FigureWords(NamedTuple):
    """difference: without its sign."""

    label: str
    before: str
    after: str
    difference: str


_Shown = Callable[[float | None], str]


def _byte_rate(value: float | None) -> str:
    return wording.rate(value, "B")


_WORDS: dict[str, tuple[str, _Shown]] = {
    "records": ("Records", wording.count),
    "records_per_s": ("Records per second", wording.rate),
    "bytes": ("Bytes", wording.size),
    "bytes_per_s": ("Bytes per second", _byte_rate),
    "distinct_keys": ("Distinct keys", wording.count),
    "partitions": ("Partitions", wording.count),
    "useful_partitions": ("Useful partitions, at most", wording.count),
    "uneven_bytes": ("Fullest / mean, by bytes", wording.number),
    "uneven_records": ("Fullest / mean, by records", wording.number),
}


def figure_words(one: Figure) -> FigureWords:
    """The figure as a table shows it."""
    label, shown = _WORDS[one.name]
    difference = None if one.difference is None else abs(one.difference)
    return FigureWords(label, shown(one.before), shown(one.after), shown(difference))
