"""Suggestions for misspelled names: `Did you mean "port"?`."""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Final

SIMILAR: Final = 0.7  # difflib's own 0.6 takes "bogus" for "blobs"


def closest(name: str, names: Iterable[str]) -> str:
    """Return `Did you mean "..."?` with the most similar of the names, or an empty text."""
    near = get_close_matches(name, list(names), n=1, cutoff=SIMILAR)
    return did_you_mean(near[0]) if near else ""


def did_you_mean(name: str) -> str:
    """Return the question."""
    return f'Did you mean "{name}"?'
