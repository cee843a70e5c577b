"""What a client probably meant by a path that nobody answers here."""

import re

from headgate.core.refusal import SHOWN

_EVENTS = re.compile(r"/v1/topics/[^/]+/events")
_NEARLY = re.compile(
    r"(?:/v1)?/topics?/(?P<topic>[^/]+)(?:/(?:events?|messages?|records?))?/?"
    r"|/v1/(?P<bare>[^/]+)/events?/?"
)
_MANAGEMENT = re.compile(
    r"/metrics|/console(?:/.*)?"
    r"|/v1/(?:producers|topics|suppression|groups|pauses|changes|audits|replays|offsets|coverage"
    r"|snapshots)(?:/.*)?"
)


def of_data_port(method: str, path: str) -> str:
    """For a path that the data port does not know; empty where nothing comes to mind."""
    hint = of_one_port(method, path)
    if not hint and _MANAGEMENT.fullmatch(path):
        return ": this page is on the management port (http.management_port)"
    return hint


def of_management_port(method: str, path: str) -> str:
    """For a path, or a method of a path, that the management port does not know."""
    hint = of_one_port(method, path)
    if hint:
        return f"{hint} of the data port (http.port)"
    return ": this path is on the data port (http.port)" if _EVENTS.fullmatch(path) else ""


def of_one_port(method: str, path: str) -> str:
    """For either, where one port answers both."""
    found = _NEARLY.fullmatch(path) if method == "POST" else None
    if found is None:
        return ""
    topic = (found["topic"] or found["bare"])[:SHOWN]
    return f": events are posted to /v1/topics/{topic}/events"
