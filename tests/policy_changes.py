"""Gateways of one topic whose policy changes while they run, one configuration after the other."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from itertools import count
from typing import Any, NamedTuple

from http_client import JSON, exchange, post
from stack import Gateway, eventually

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
namespace = "{topic}"
quarantine_ms = {quarantine_ms}
[topics."{topic}"]
{policy}
"""
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


def config_text(bootstrap: str, redis: str, topic: str, policy: str) -> str:
    """The whole configuration with this policy."""
    return CONFIG.format(
        bootstrap=bootstrap, redis=redis, topic=topic, policy=policy, quarantine_ms=QUARANTINE_MS
    )


class Side:
    """A gateway with one worker, and the policy that it was told last."""

    _numbers = count(1)

    def __init__(
        self,
        start: Callable[..., Gateway],
        text_with: Callable[[str], str],
        topic: str,
        policy: str,
        headers: Mapping[str, str],
    ) -> None:
        self._text_with, self._topic = text_with, topic
        self._headers = {**JSON, **headers}
        self.gateway = start(text_with(policy))

    def post(self, body: bytes) -> str:
        """The event's outcome, or the reason why it has none."""
        answer = self.answer(body)
        return str(answer.get("outcome") or answer["reason"])

    def answer(self, body: bytes) -> Any:
        """The whole answer to an event."""
        return post(self.gateway.port, self._topic, body, self._headers).document

    async def change(self, policy: str) -> None:
        """SIGHUP with this policy; returns when the worker has it."""
        number = next(self._numbers)
        marker = MARKER.format(topic=self._topic, number=number)
        self.gateway.config.write_text(self._text_with(policy) + marker)
        self.gateway.reload()
        marked = f"{self._topic}-file-{number}"

        def is_taken_over() -> bool:
            answer = post(self.gateway.port, marked, A, self._headers).document
            return "no topic pattern" not in answer["detail"]

        await eventually(is_taken_over)

    def restart(self, policy: str) -> None:
        """Start again with a file that holds this policy."""
        self.gateway.stop()
        self.gateway.config.write_text(self._text_with(policy))
        self.gateway.restart()

    async def suppresses(self, body: bytes) -> None:
        """Wait until this is unchanged: quarantines and announcements are over."""
        await eventually(lambda: self.post(body) == "unchanged", 20.0)

    def ready(self) -> Any:
        """What /ready of the management port says."""
        return exchange(self.gateway.management_port, "GET", "/ready").document
