"""What Spark asks of Kubernetes: a server of pods that are processes of this machine."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any
from urllib.parse import parse_qs, urlsplit

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK

Object = dict[str, Any]
# Verb and resource, as a Role has them.
Right = tuple[str, str]

_NOW = "2026-01-01T00:00:00Z"
_VERBS = {"POST": "create", "PATCH": "patch", "PUT": "update"}
_FIELDS = ("metadata.name", "metadata.namespace", "status.podIP")


class PodServer:
    """`run` starts the pods that were asked for; ended with the block of `pod_server`.

    granted: what its one client may do; all else is answered 403. start: a pod's container.
    """

    def __init__(self, granted: Collection[Right], start: Callable[[Object], Child]) -> None:
        self._granted = granted
        self._start = start
        self._asked: SimpleQueue[Object] = SimpleQueue()
        self._running: dict[str, Child] = {}
        self.objects: dict[tuple[str, str], Object] = {}
        self.created: list[Object] = []  # every pod that ever was
        self.used: set[Right] = set()
        self.url = ""

    def run(self) -> None:
        """From the main thread: a child ends with the thread that started it.

        Fails when a pod has failed.
        """
        for child in self._running.values():
            assert child.exit_code in {None, 0}, child.log_tail()
        try:
            while True:
                pod = self._asked.get_nowait()
                self._running[pod["metadata"]["name"]] = self._start(pod)
        except Empty:
            return

    def close(self) -> None:
        """End every pod."""
        for child in self._running.values():
            child.kill()

    def answer(self, verb: str, resource: str, name: str, given: Object) -> tuple[int, Object]:
        """Status and object."""
        self.used.add((verb, resource))
        if (verb, resource) not in self._granted:
            return 403, _failure(403, f"may not {verb} {resource}")
        if verb == "create":
            return 201, self._create(resource, given)
        if verb == "list":
            items = [one for (kind, _), one in self.objects.items() if kind == resource]
            return 200, {"kind": "List", "apiVersion": "v1", "metadata": {}, "items": items}
        if verb == "deletecollection":
            return 200, {"kind": "Status", "apiVersion": "v1", "status": "Success"}
        found = self.objects.get((resource, name))
        if found is None:
            return 404, _failure(404, f"no {resource} {name}")
        if verb == "delete":
            self._delete(resource, name)
        return 200, found

    def _create(self, resource: str, given: Object) -> Object:
        metadata = given["metadata"]
        metadata |= {"uid": metadata["name"], "resourceVersion": "1", "creationTimestamp": _NOW}
        if resource == "pods":
            given["status"] = _status(given)
            self.created.append(given)
            self._asked.put(given)
        self.objects[resource, metadata["name"]] = given
        return given

    def _delete(self, resource: str, name: str) -> None:
        del self.objects[resource, name]
        if resource == "pods" and name in self._running:
            self._running.pop(name).stop(10)


def environment_of(pod: Object) -> Mapping[str, str]:
    """What its container is told, the pod's own fields among it."""
    fields = {name: _field(pod, name) for name in _FIELDS}
    found = {}
    for one in pod["spec"]["containers"][0]["env"]:
        path = one.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")
        found[one["name"]] = one.get("value", "") if path is None else fields[path]
    return found


@contextmanager
def pod_server(granted: Collection[Right], start: Callable[[Object], Child]) -> Iterator[PodServer]:
    """A server on a port of its own."""
    pods = PodServer(granted, start)

    class Answering(_Answering):
        server_of_pods = pods

    with ThreadingHTTPServer((LOOPBACK, 0), Answering) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        pods.url = f"http://{LOOPBACK}:{server.server_port}"
        try:
            yield pods
        finally:
            server.shutdown()
            thread.join()
            pods.close()


class _Answering(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server_of_pods: PodServer

    def _answer(self) -> None:
        # /api/v1/namespaces/NAMESPACE/RESOURCE[/NAME]
        url = urlsplit(self.path)
        resource, name = [*url.path.split("/")[5:7], ""][:2]
        verb = _VERBS.get(self.command, "")
        if self.command == "GET":
            verb = "get" if name else "list"
            verb = "watch" if "watch" in parse_qs(url.query) else verb
        elif self.command == "DELETE":
            verb = "delete" if name else "deletecollection"
        body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
        given = json.loads(body) if body else {}
        status, found = self.server_of_pods.answer(verb, resource, name, given)
        text = json.dumps(found).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)

    do_GET = do_POST = do_PATCH = do_PUT = do_DELETE = _answer

    def log_message(self, format: str, *args: object) -> None:
        """Nobody reads it."""


def _status(pod: Object) -> Object:
    names = [one["name"] for one in pod["spec"]["containers"]]
    running = {"ready": True, "started": True, "restartCount": 0, "image": "", "imageID": ""}
    state = {"running": {"startedAt": _NOW}}
    statuses = [{**running, "name": name, "state": state} for name in names]
    return {"phase": "Running", "podIP": LOOPBACK, "containerStatuses": statuses}


def _field(pod: Object, path: str) -> str:
    section, name = path.split(".")
    return str(pod[section].get(name, ""))


def _failure(code: int, message: str) -> Object:
    return {"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code,
            "message": message}  # fmt: skip
