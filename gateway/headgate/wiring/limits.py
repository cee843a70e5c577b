"""What bounds producers: the in-flight budget, their quotas, their turns."""

import time
from collections.abc import Mapping

from headgate.config import Settings
from headgate.config.settings import ProducerSettings
from headgate.core.admission import Admission
from headgate.edge.starting import InTurn
from headgate.metrics.meter import Meter
from headgate.pipeline.gate import ProducerQuotas, in_flight_limits


class Limits:
    """Of one worker; what is set for an instance is split evenly over its workers."""

    def __init__(self, settings: Settings, workers: int, meter: Meter) -> None:
        self._workers = workers
        self.admission = Admission(
            settings.admission.in_flight_max_bytes // workers,
            settings.admission.in_flight_max_events // workers,
        )
        self.quotas = ProducerQuotas(workers, time.monotonic, meter.quota_rejected)
        self.in_turn = InTurn(settings.http.request_timeout_ms / 1000)
        self.replace(settings.producers)

    def replace(self, producers: Mapping[str, ProducerSettings]) -> None:
        """Put other producers in force; what they have in flight and spent stays counted."""
        self.quotas.replace(producers)
        self.admission.limits = in_flight_limits(producers, self._workers)
