"""What becomes of events when their topic gets more partitions."""

from collections.abc import Callable

from headgate.core.keys import partition_for
from headgate.core.publish import Publish
from headgate.core.suppression.protocol import Scope, SuppressionCall, SuppressionReply

Grow = Callable[[Scope, int], None]


def grow_alone(scope: Scope, partitions: int) -> None:
    """Where nobody else knows of topics."""


def place_again(publish: Publish, scope: Scope) -> None:
    """Its topic has another partition count than when it was placed."""
    record = publish.record
    if not publish.placed and record.key is not None:
        record.partition = partition_for(record.key, scope.partitions)
    publish.reserved.partitions = scope.partitions


def behind(call: SuppressionCall, reply: SuppressionReply, grow: Grow) -> set[Scope]:
    """The namespaces whose topics have more partitions than this call was made for.

    Nothing was reserved in them. grow: told of those that have more than this process knew.
    """
    found = set()
    for scope, count, state in zip(call.scopes, call.counts, reply.states, strict=True):
        if state.partitions > count:
            found.add(scope)
            if state.partitions > scope.partitions:
                grow(scope, state.partitions)
    return found
