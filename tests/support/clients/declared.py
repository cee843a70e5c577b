"""Failures as the OpenAPI document declares them, compared with those that a gateway gives."""

from __future__ import annotations

import re
from functools import cache
from typing import TYPE_CHECKING, Any

import orjson

from headgate.config.settings import HttpSettings
from headgate.http.openapi.document import document

if TYPE_CHECKING:
    from support.clients.http_client import Answer


# Of every management path: on the data port, and on one port without its management process.
_OF_MANAGEMENT = {"not_found", "overloaded"}


@cache
def _operations() -> dict[tuple[str, str], dict[str, Any]]:
    return {
        (method.upper(), path): operation
        for path, methods in orjson.loads(document(HttpSettings()))["paths"].items()
        for method, operation in methods.items()
    }


def declared_reasons(method: str, path: str) -> set[str]:
    """Return the reasons of an operation."""
    responses = _operations()[method, path]["responses"].items()
    texts = [answer["description"] for status, answer in responses if status >= "400"]
    return set(re.findall("`([a-z_]+)`: ", " ".join(texts)))


def check_declared(method: str, path: str, answer: Answer) -> None:
    """Fail if the answer is a problem whose reason the operation does not declare."""
    if answer.headers.get("content-type") != "application/problem+json":
        return
    reason, raw = answer.document["reason"], path.partition("?")[0]
    for (declared_method, template), operation in _operations().items():
        pattern = re.sub(r"\\\{\w+\\\}", "[^/]+", re.escape(template))
        if method == declared_method and re.fullmatch(pattern, raw):
            is_management = operation["x-headgate-port"] == "management"
            reasons = declared_reasons(method, template)
            reasons |= _OF_MANAGEMENT if is_management else set()
            assert reason in reasons, f"{method} {template} does not declare {reason}"
            return
