"""State of a topic's suppression, as workers send it to the parent.

Not compiled: msgspec decodes the type by its annotations, which a compiled NamedTuple loses.
"""

from typing import NamedTuple


class TopicSuppression(NamedTuple):
    """A topic that suppresses by its policy.

    Args:
        state: ON; QUARANTINE: everything is published, because the data in Redis may be
            incomplete; AWAY: Redis does not answer.
        until_s: The remaining seconds of a quarantine; None if Redis was not asked yet.
    """

    state: str
    until_s: float | None = None
