"""A real Prometheus that scrapes what a test runs, and answers queries."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import urlopen

import yaml

from headgate.devstack.child import Child
from headgate.devstack.ports import LOOPBACK
from support.process.stack import PATIENCE, free_port
from support.root import ROOT

PROGRAM = shutil.which("prometheus")
RULES = sorted((ROOT / "deploy" / "prometheus").glob("*.yml"))
# As the chart and the Prometheus operator set them.
LABELS = {"installation": "prod", "namespace": "events", "pod": "p"}


class Prometheus:
    """It scrapes and evaluates every second, with the rules of deploy/prometheus."""

    def __init__(self, folder: Path, jobs: Mapping[str, Sequence[str]]) -> None:
        """jobs: `host:port` of the targets of each."""
        assert PROGRAM is not None
        port = free_port()
        self._url = f"http://{LOOPBACK}:{port}"
        config = folder / "prometheus.yml"
        folder.mkdir(parents=True)
        config.write_text(
            yaml.safe_dump(
                {
                    "global": {"scrape_interval": "1s", "evaluation_interval": "1s"},
                    "rule_files": [str(file) for file in RULES],
                    "scrape_configs": [
                        {
                            "job_name": name,
                            "static_configs": [{"targets": [*targets], "labels": LABELS}],
                        }
                        for name, targets in jobs.items()
                    ],
                }
            )
        )
        self.child = Child(
            "prometheus",
            [
                PROGRAM,
                f"--config.file={config}",
                f"--storage.tsdb.path={folder / 'data'}",
                f"--web.listen-address={LOOPBACK}:{port}",
                "--enable-feature=exemplar-storage",
            ],
            folder / "prometheus.log",
        )

    def wait(self) -> None:
        """Until it answers."""
        self.child.wait_until(self._is_ready, 20 * PATIENCE)

    def query(self, expr: str) -> list[dict[str, Any]]:
        """What an instant query finds. An expression that is not one is an AssertionError."""
        found: list[dict[str, Any]] = self._get("query", query=expr)["result"]
        return found

    def exemplars(self, expr: str, start_s: float) -> list[dict[str, Any]]:
        """Those of the series since then, up to now."""
        times = {"start": f"{start_s}", "end": f"{time.time() + 1}"}
        found: list[dict[str, Any]] = self._get("query_exemplars", query=expr, **times)
        return found

    def series(self, selector: str) -> list[dict[str, str]]:
        """The labels of all series that it has seen."""
        found: list[dict[str, str]] = self._get("series", **{"match[]": selector})
        return found

    def rules(self) -> list[dict[str, Any]]:
        """Every rule as it was evaluated last."""
        groups = self._get("rules")["groups"]
        return [rule for group in groups for rule in group["rules"]]

    def targets(self) -> list[dict[str, Any]]:
        """What is scraped, and how that went."""
        found: list[dict[str, Any]] = self._get("targets")["activeTargets"]
        return found

    def _is_ready(self) -> bool:
        try:
            with urlopen(f"{self._url}/-/ready", timeout=10):
                return True
        except OSError:  # not listening yet, or 503
            return False

    def _get(self, path: str, **parameters: str) -> Any:
        try:
            with urlopen(
                f"{self._url}/api/v1/{path}?{urlencode(parameters)}", timeout=30
            ) as answer:
                return json.loads(answer.read())["data"]
        except HTTPError as error:
            raise AssertionError(f"{parameters}: {error.read().decode()}") from None


@contextmanager
def running_prometheus(folder: Path, jobs: Mapping[str, Sequence[str]]) -> Iterator[Prometheus]:
    """One that answers, ended with the block."""
    prometheus = Prometheus(folder, jobs)
    try:
        prometheus.wait()
        yield prometheus
    finally:
        prometheus.child.kill()


@contextmanager
def textfile_collector(folder: Path) -> Iterator[str]:
    """The place of a server that shows the `.prom` files of a folder, as the node exporter does."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            files = sorted(folder.glob("*.prom"))
            body = "".join(file.read_text() for file in files).encode()
            self.send_response(200)
            self.send_header("Content-Type", "text/plain; version=0.0.4")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer((LOOPBACK, 0), Page) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"{LOOPBACK}:{server.server_address[1]}"
        finally:
            server.shutdown()
            thread.join()
