"""What the records of `__consumer_offsets` say, told to the watch of their cluster."""

from headgate.core.groups.cluster_watch import ClusterWatch
from headgate.core.groups.commit_records import (
    ClassicGroup,
    CommitRecord,
    ConsumerMember,
    MemberAssignment,
    OffsetsRecord,
)
from headgate.core.groups.facts import GroupMember, Regression


def take(watch: ClusterWatch, record: OffsetsRecord, now_ms: int) -> Regression | None:
    """Return the regression that a commit is, if it is one."""
    match record:
        case CommitRecord(group, place, stored, at_ms):
            return watch.committed(group, place, stored, at_ms, now_ms)
        case ClassicGroup(group, _, members) if group in watch.groups or members:
            watch.members_seen(group, tuple(GroupMember(*member) for member in members), now_ms)
        case ConsumerMember(group, member_id, client_id, host):
            known = watch.member(group, member_id)
            fresh = known._replace(client_id=client_id or "", host=host or "")
            watch.member_is(group, fresh, now_ms, is_gone=client_id is None)
        case MemberAssignment(group, member_id, epoch, partitions):
            known = watch.member(group, member_id)
            fresh = known._replace(places=watch.places_of(partitions))
            watch.member_is(group, fresh, now_ms, is_gone=epoch < 0)
    return None
