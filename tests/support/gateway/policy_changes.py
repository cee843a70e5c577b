"""Gateways of topics whose policies change while they run, one configuration after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, NamedTuple

from support.clients.http_client import JSON, post
from support.process.stack import Gateway, eventually

QUARANTINE_MS = 400
CONFIG = """
[http]
request_timeout_ms = 2000
[clusters.main]
bootstrap_servers = ["{bootstrap}"]
delivery_timeout_ms = 2000
lane_stall_ms = 2000
metadata_refresh_ms = 1000
[redis]
url = "{redis}"
timeout_ms = 2000
namespace = "{namespace}"
quarantine_ms = {quarantine_ms}
"""
TOPIC = '[topics."{topic}-{name}"]\n{policy}\n'
# A worker that says something else than "no topic pattern" of it has taken the file over.
MARKER = '[topics."{topic}-file-{number}"]\n'

RAW = 'suppress = "raw"\nkey = ["/id"]'
OFF = 'suppress = "off"\nkey = ["/id"]'
CANONICAL = 'suppress = "canonical"\nkey = ["/id"]'
IGNORE = CANONICAL + '\nignore = ["/updated_at"]'
OTHER_KEY = 'suppress = "raw"\nkey = ["/ref"]'


class Change(NamedTuple):
    """Two policies between which a topic goes, and the headers of the events posted meanwhile."""

    one: str
    other: str
    headers: Mapping[str, str] = {}


CHANGES = {
    "off": Change(RAW, OFF),
    "canonical-off": Change(CANONICAL, OFF),
    "canonical": Change(RAW, CANONICAL),
    "raw": Change(CANONICAL, RAW),
    "key-same-text": Change(RAW, OTHER_KEY, {"Headgate-Key": "thing"}),
    "key-of-document": Change(RAW, OTHER_KEY),
    "keyless": Change(RAW, RAW + '\nkeyless = "spread"'),
    "ignore": Change(CANONICAL, IGNORE),
    "oversize": Change(RAW, RAW + '\noversize = ["compress"]'),
    "cloudevents": Change(RAW, RAW + '\ncloudevents = "structured"'),
}
# One thing has two names: what it is called under one key rule, and under the other.
A = b'{"id": "thing", "ref": "no-7", "price": 10}'
B = b'{"id": "thing", "ref": "no-7", "price": 20}'


class Policies(NamedTuple):
    """What a configuration says of the topics `{topic}-{change}`, each with a policy of its own."""

    bootstrap: str
    redis: str
    topic: str
    changes: Sequence[str]

    def names(self) -> list[str]:
        """Of the topics."""
        return [f"{self.topic}-{name}" for name in self.changes]

    def text(self, other: bool) -> str:
        """The configuration in which every topic has its one policy, or its other."""
        head = CONFIG.format(
            bootstrap=self.bootstrap,
            redis=self.redis,
            namespace=self.topic,
            quarantine_ms=QUARANTINE_MS,
        )
        chosen = {
            name: CHANGES[name].other if other else CHANGES[name].one for name in self.changes
        }
        return head + "".join(
            TOPIC.format(topic=self.topic, name=name, policy=policy)
            for name, policy in chosen.items()
        )


class Side:
    """A gateway with one worker, and which of the policies it was told last."""

    _numbers = count(1)

    def __init__(
        self, start: Callable[..., Gateway], policies: Policies, *, other: bool = False
    ) -> None:
        self._policies = policies
        self.gateway = start(policies.text(other))

    def post(self, name: str, body: bytes) -> str:
        """The event's outcome, or the reason why it has none. name: of the change."""
        answer = self.answer(name, body)
        return str(answer.get("outcome") or answer["reason"])

    def answer(self, name: str, body: bytes) -> Any:
        """The whole answer to an event."""
        topic, headers = f"{self._policies.topic}-{name}", CHANGES[name].headers
        return post(self.gateway.port, topic, body, {**JSON, **headers}).document

    async def change(self, *, other: bool) -> None:
        """SIGHUP with these policies; returns when the worker has them."""
        number, topic = next(self._numbers), self._policies.topic
        marker = MARKER.format(topic=topic, number=number)
        self.gateway.config.write_text(self._policies.text(other) + marker)
        self.gateway.reload()

        def is_taken_over() -> bool:
            answer = post(self.gateway.port, f"{topic}-file-{number}", A, JSON).document
            return "no topic pattern" not in answer["detail"]

        await eventually(is_taken_over)

    def restart(self, *, other: bool) -> None:
        """Start again with a file that holds these policies."""
        self.gateway.stop()
        self.gateway.config.write_text(self._policies.text(other))
        self.gateway.restart()

    async def suppress(self, body: bytes) -> None:
        """Wait until this is unchanged in all topics: quarantines and announcements are over."""
        for name in self._policies.changes:
            await eventually(lambda name=name: self.post(name, body) == "unchanged", 20.0)
