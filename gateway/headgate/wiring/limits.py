"""Limits of producers: the in-flight budget, their quotas, their turns."""

import time
from collections.abc import Mapping

from headgate.config import Settings
from headgate.config.settings import ProducerSettings
from headgate.core.admission import Admission
from headgate.http.starting import InTurn
from headgate.ingest.gate import ProducerQuotas, in_flight_limits
from headgate.metrics.meter import Meter


class Limits:
    """The limits of one worker: its even share of the instance's limits."""

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
        """Activate other producers; their events in flight and used quotas stay counted."""
        self.quotas.replace(producers)
        self.admission.limits = in_flight_limits(producers, self._workers)
