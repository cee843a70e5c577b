"""What the spool's options, and those of topics that spool, must fit."""

from collections.abc import Iterator

from headgate.config.errors import Problem, shown
from headgate.config.names import dotted
from headgate.config.settings import Settings
from headgate.core.topics.policy import TopicPolicy


def spool_contradictions(settings: Settings) -> Iterator[Problem]:
    """Everything wrong with them."""
    spooling = [policy for policy in settings.topics if policy.spool]
    for policy in spooling:
        for problem in _topic(policy, settings):
            option = dotted(("topics", policy.pattern, problem.option))
            yield problem._replace(option=option)
    http = settings.http
    if spooling and http.workers > 1:
        found = f"{http.workers}, and {spooling[0].pattern} spools"
        expected = "1: workers do not see each other's spooled events, and would overtake them"
        yield Problem("http.workers", found, expected, "Run more gateways, each with its folder.")


def _topic(policy: TopicPolicy, settings: Settings) -> Iterator[Problem]:
    if settings.spool.path is None:
        fix = 'Set path in [spool], such as "/var/lib/headgate/spool".'
        yield Problem("spool", "true without a folder", "spool.path set", fix)
    timeout_ms = settings.http.request_timeout_ms
    if policy.spool_after_ms >= timeout_ms:
        expected = f"less than http.request_timeout_ms = {timeout_ms}"
        yield Problem("spool_after_ms", shown(policy.spool_after_ms), expected)
    if policy.coalesces:
        found = "true on a topic that coalesces"
        expected = "false: its events are held in Kafka"
        yield Problem("spool", found, expected, "Leave out coalesce_quiet_ms, or spool.")
    if policy.oversize != ("reject",):
        found = f"true with oversize = {shown(policy.oversize)}"
        expected = 'oversize = ["reject"]: what is spooled is published as one record'
        yield Problem("spool", found, expected, "Leave out the strategies, or spool.")
