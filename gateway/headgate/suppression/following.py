"""Which event takes another's outcome instead of its own way."""

from headgate.core.publish import Publish, Stage


def may_follow(publish: Publish, latest: Publish) -> bool:
    """Tell whether an event may join its key's latest event here, which has the same content.

    Only before that one's reservation is sent, or while it waits in its lane: then nothing else
    of the key can come between the two. Afterwards another process' record may already lie above
    it (8-suppression-model, counterexample 3).
    """
    return (
        (latest.stage is Stage.QUEUED or latest.stage is Stage.LANE)
        and not latest.dropped
        and not publish.force
        and latest.digest == publish.digest
    )


def follow(publish: Publish, leader: Publish) -> None:
    """Attach a publish, and those that follow it already, to a leader."""
    if leader.followers is None:
        leader.followers = []
    for follower in (publish, *(publish.followers or ())):
        follower.leader = leader
        leader.followers.append(follower)
    publish.followers = None
