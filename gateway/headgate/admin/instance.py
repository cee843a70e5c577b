"""Interface of the instance for the management pages."""

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from headgate.config.settings import Settings
from headgate.metrics.fleet import Fleet, Rates, Recorder
from headgate.model.outcome import Failure
from headgate.model.suppression_states import TopicSuppression
from headgate.model.topics import TopicState


class InstanceHealth(NamedTuple):
    """Readiness of the whole instance, as /ready shows it."""

    is_ready: bool
    status: str
    dependencies: dict[str, dict[str, object]]
    workers: dict[str, int]


class Monitored(NamedTuple):
    """The response of the monitor."""

    status: int
    content_type: str
    body: bytes


class Instance(Protocol):
    """The instance with all its workers, seen from the parent process."""

    settings: Settings
    figures: Fleet
    rates: Rates
    history: Recorder

    @property
    def since(self) -> Mapping[str, float]:
        """Return the last change of each dependency's state, in seconds since 1970, by name."""
        ...

    async def refresh(self, at_once: bool = False) -> None:
        """Read the workers' figures, at most once a second.

        Args:
            at_once: Read them even within a second.
        """
        ...

    def topics(self) -> Mapping[str, TopicState]:
        """Return the topics that exist and that a policy matches, by name."""
        ...

    def suppression(self) -> Mapping[str, TopicSuppression]:
        """Return the worst state that any worker reports of each suppressing topic, by name."""
        ...

    def health(self) -> InstanceHealth:
        """Return the readiness and the state of each dependency."""
        ...

    async def forget(self, topic: str, key: bytes | None) -> Failure | None:
        """Drop the published state of a key, or of all keys. Return the failure, if any."""
        ...

    async def audits(self) -> Mapping[str, bytes] | Failure:
        """Return each topic's newest skew audit as JSON, or the failure if Kafka is unavailable."""
        ...

    async def monitored(self, path: str, authorization: str | None) -> Monitored | Failure:
        """Return the response of `headgate monitor`; the failure if none runs."""
        ...
