"""Readiness of a worker: the state of each of its dependencies."""

from typing import NamedTuple

from headgate.core.reply import JSON, Reply, json_text


class Dependency(NamedTuple):
    """ok: reachable.  required: without it no event of some topic can be taken.

    limited_s: it is reachable, but some topics do without it for so many seconds more.
    vital: without it no event of any topic can be taken.  server: which process answers where it
    may be another one tomorrow (for the installation log; /ready does not show it).
    """

    name: str
    ok: bool
    required: bool
    detail: str
    limited_s: float = 0.0
    vital: bool = False
    server: str = ""


class Readiness(NamedTuple):
    """The answer to /ready."""

    draining: bool
    dependencies: tuple[Dependency, ...]

    @property
    def is_ready(self) -> bool:
        """One reachable ingest cluster is enough: the others' topics answer 503 themselves."""
        required = [each for each in self.dependencies if each.required]
        if self.draining or any(each.vital and not each.ok for each in self.dependencies):
            return False
        return not required or any(each.ok for each in required)

    def reply(self) -> Reply:
        """Return 200 or 503, with the state of every dependency."""
        all_ok = all(each.ok for each in self.dependencies)
        status = "ready" if all_ok else "degraded"
        if not self.is_ready:
            status = "draining" if self.draining else "not ready"
        shown = {
            each.name: {"ok": each.ok, "required": each.required, "detail": each.detail}
            for each in self.dependencies
        }
        body = json_text({"status": status, "dependencies": shown}).encode()
        return Reply(200 if self.is_ready else 503, JSON, (), body)
