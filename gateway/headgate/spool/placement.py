"""By which partition count events were placed: a topic may have grown since."""

from collections.abc import Iterable

from headgate.core.placing import count_of
from headgate.core.publish import Publish

__all__ = ["by_count", "count_of"]


def by_count(publishes: Iterable[Publish]) -> list[list[Publish]]:
    """Parts of it, in order, each placed by one count."""
    parts = list[list[Publish]]()
    for publish in publishes:
        if not parts or count_of(parts[-1][0]) != count_of(publish):
            parts.append([])
        parts[-1].append(publish)
    return parts
