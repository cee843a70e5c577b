"""Gateways whose traffic has something of everything, and the files of the jobs beside them."""

from __future__ import annotations

import json
import os
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path

import pytest
import requests
from aiokafka.structs import TopicPartition

from headgate.replays.offset_map import Layout, MapAddress, MapEntry, PartitionMap
from headgate.replays.plan import BACKFILL
from headgate.replays.registry import Replay, ReplayState
from headgate.replays.segments import FOREIGN, RETENTION, Gap, Segment
from headgate_spark.audit.job import write_files
from headgate_spark.audit.result import document
from headgate_spark.copying.reader import Copied
from headgate_spark.job.exposition import Textfile
from headgate_spark.mirror.lag import LagWatch, Totals, textfile
from headgate_spark.mirror.plan import Reason, Skip
from headgate_spark.replay.progress import ReplayMetrics
from support.identity.issuer import AUDIENCE, ISSUER, Issuer
from support.process.stack import Gateway
from support.scenarios import skew_world
from support.scenarios.replay_world import Two

KINDS = ("orders", "deals", "states", "documents", "clicks", "kept")
TIMEOUT_S = 30
MAX_BYTES = 4096


def topics(prefix: str) -> list[str]:
    """Those that must be in Kafka."""
    return [f"{prefix}-{kind}" for kind in KINDS]


def config(two: Two, redis_url: str, prefix: str) -> str:
    """One worker or several."""
    return f"""{_clusters(two)}
[redis]
url = "{redis_url}"
namespace = "{prefix}"
quarantine_ms = 1
[monitor]
group_owners = ["*: platform"]
[producers.shop]
[producers.till]
quota_events_per_s = 1
[topics."{prefix}-orders"]
cluster = "main"
key = ["/id"]
suppress = "raw"
dedupe_ttl_s = 600
facts = true
[topics."{prefix}-deals"]
cluster = "main"
kind = "state"
key = ["/id"]
suppress = "raw"
coalesce_quiet_ms = 200
coalesce_max_delay_ms = 1000
coalesce_partitions = 2
[topics."{prefix}-states"]
cluster = "main"
kind = "state"
key = ["/id"]
suppress = "canonical"
canonical_max_bytes = 1024
redis_loss = "refuse"
[topics."{prefix}-documents"]
cluster = "main"
key = ["/id"]
max_bytes = {MAX_BYTES}
oversize = ["compress", "chunk"]
[topics."{prefix}-clicks"]
cluster = "main"
keyless = "spread"
"""


def spooling_config(two: Two, prefix: str, folder: Path, issuer: Issuer) -> str:
    """One worker, which takes signed tokens."""
    keys = folder / "jwks.json"
    keys.write_bytes(issuer.document())
    return f"""{_clusters(two)}
[spool]
path = "{folder / "spool"}"
[auth]
mode = "jwt"
jwt_issuer = "{ISSUER}"
jwt_audience = ["{AUDIENCE}"]
jwt_jwks_url = "{keys.as_uri()}"
jwt_producer_claim = "client_id"
[producers.shop]
topics = ["*"]
roles = ["produce"]
[topics."{prefix}-kept"]
cluster = "main"
key = ["/id"]
spool = true
spool_after_ms = 200
"""


def _clusters(two: Two) -> str:
    return f"""
[http]
request_timeout_ms = 3000
[clusters.main]
bootstrap_servers = ["{two.ingest.bootstrap}"]
backfill = "old"
delivery_timeout_ms = 3000
lane_stall_ms = 2000
[clusters.old]
bootstrap_servers = ["{two.backfill.bootstrap}"]
tier = "backfill"
"""


class Traffic:
    """Posts something of everything, again and again."""

    def __init__(self, gateway: Gateway, spooling: Gateway, prefix: str, token: str) -> None:
        """token: for the second gateway."""
        self._gateway, self._spooling = gateway, spooling
        self._prefix, self._token = prefix, token
        self._numbers = count()
        self.seen: set[str] = set()  # how requests ended: outcomes and reasons

    def round(self) -> None:
        """Of each kind some events, well or badly."""
        number = next(self._numbers)
        for producer in ("shop", "nobody-knows"):
            for event_id in (f"{number}", f"{number}"):  # the second is a repeat
                self._post("orders", {"id": number}, producer, **{"Headgate-Event-Id": event_id})
            self._post("orders", {"nr": number}, producer)
        self.ask_redis()
        for state in range(5):
            self._post("deals", {"id": 1, "state": f"{number}-{state}"})
        self._post("states", {"id": 2, "on": "x" * 2000})
        self._post("documents", {"id": 1, "text": "x" * 2 * MAX_BYTES})
        self._post("documents", {"id": 2, "text": os.urandom(2 * MAX_BYTES).hex()})
        for _ in range(3):  # more than its quota
            self._post("clicks", {"page": number}, "till")
        self._post("kept", {"id": number})
        self._send(self._gateway, "nowhere", {"id": 1})

    def ask_redis(self) -> None:
        """Events for which Redis is asked."""
        key = {"Idempotency-Key": f"key-{next(self._numbers)}"}
        self._post("orders", {"id": 7}, **key)  # unchanged from the second on
        self._post("states", {"id": 1, "on": True})

    def ask_kafka(self) -> None:
        """Some events at a time, so that some wait for others."""
        kinds = [*["orders"] * 4, "kept"]
        with ThreadPoolExecutor(len(kinds)) as pool:
            for kind in kinds:
                pool.submit(self._post, kind, {"id": next(self._numbers)})

    def _post(self, kind: str, event: object, producer: str = "shop", **headers: str) -> None:
        gateway = self._gateway
        if kind == "kept":
            gateway, headers = self._spooling, {"Authorization": f"Bearer {self._token}"}
        self._send(gateway, f"{self._prefix}-{kind}", event, producer, **headers)

    def _send(
        self, gateway: Gateway, topic: str, event: object, producer: str = "shop", **headers: str
    ) -> None:
        answer = requests.post(
            f"{gateway.url}/v1/topics/{topic}/events",
            data=json.dumps(event),
            headers={"Content-Type": "application/json", "Headgate-Producer": producer, **headers},
            timeout=TIMEOUT_S,
        )
        page = answer.json()
        self.seen.add(page.get("reason") or page["outcome"])


class JobFiles:
    """What the jobs write, by their own code, from what they would know."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._watch, self._totals = LagWatch(), Totals()
        self._mirror = Textfile(folder / "mirror.prom", pytest.fail)
        self._replays = ReplayMetrics(Textfile(folder / "replay.prom", pytest.fail))
        self._started_ms = int(time.time() * 1000)
        self._audit()

    def write(self) -> None:
        """As if some more had been copied."""
        tp, other = TopicPartition("orders", 0), TopicPartition("orders", 1)
        found = {tp: _mapped(Segment(0, 0, 10, 10, 0, 0)), other: _mapped(*_GAPS)}
        self._totals.add([Copied("orders", 0, 7, 900, 2, 10, 5, None)])
        lags = self._watch.lags({tp: 15, other: 9}, found, time.monotonic(), {})
        skipped = {"clicks": Skip(Reason.SETTINGS, "x is 1: set it to 2")}
        self._mirror.write(textfile(lags, found, self._totals, skipped, "main", time.time()))
        now_ms = int(time.time() * 1000)
        self._replays.copied("old", 5, 600)
        self._replays.update("old", [self._replay()], now_ms)

    def _replay(self) -> Replay:
        plan = {"0": {"pieces": [{"tier": BACKFILL, "start": 0, "end": 100}]}}
        spec = {"mode": "topic", "plan": plan, "created_ms": self._started_ms}
        return Replay("r1", spec, {"state": ReplayState.COPYING})

    def _audit(self) -> None:
        figures = [skew_world.figures_of(skew_world.data_bomb())]
        out, reading = self._folder / "audit", self._folder / "audit" / ".reading-1"
        for table in ("load.parquet", "keys.parquet"):
            (reading / table).mkdir(parents=True)
        write_files(document(figures, self._started_ms), figures, reading, out, self._started_ms)
        [file] = out.glob("*.prom")
        (self._folder / file.name).symlink_to(file)


_GAPS = (Gap(0, 4, RETENTION, 1), Gap(4, 5, FOREIGN, 1), Segment(5, 0, 4, 9, 0, 0))


def _mapped(*facts: Segment | Gap) -> PartitionMap:
    found = PartitionMap()
    for fact in (Layout(4, "a", "b", 0), *facts):
        found.apply(MapEntry(MapAddress("orders", 3, 1), fact))
    return found
