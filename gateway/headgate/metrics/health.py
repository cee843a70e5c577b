"""Readiness of a process: the state of each of its dependencies."""

from typing import NamedTuple

from headgate.model.reply import JSON, Reply, json_text


class Dependency(NamedTuple):
    """The state of one dependency.

    Attributes:
        ok: Whether it is reachable.
        required: Whether it is needed for events: false of a cluster while the spool takes the
            events of its topics.
        limited_s: Seconds for which some topics still do without it, although it is reachable.
        vital: Whether no topic accepts an event without it.
        server: The process that answers, if that may change (for the installation log; /ready does
            not show it).
        is_cluster: Whether it is a Kafka cluster whose topics the process serves. They need this
            one of the clusters only.
    """

    name: str
    ok: bool
    required: bool
    detail: str
    limited_s: float = 0.0
    vital: bool = False
    server: str = ""
    is_cluster: bool = False


class Readiness(NamedTuple):
    """The answer to /ready."""

    draining: bool
    dependencies: tuple[Dependency, ...]

    @property
    def is_ready(self) -> bool:
        """Return whether the process is ready.

        One cluster whose topics are served is enough, reachable or spooled: topics of the other
        clusters answer 503 themselves.
        """
        if self.draining or any(each.vital and not each.ok for each in self.dependencies):
            return False
        clusters = [each for each in self.dependencies if each.is_cluster]
        return not clusters or any(each.ok or not each.required for each in clusters)

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
