"""The mirror, the replays and the skew audit, by the files that they write."""

from headgate_dashboards.board import (
    Board,
    Form,
    Panel,
    Query,
    Row,
    Unit,
    Variable,
    bad_below,
    bad_from,
)
from headgate_dashboards.queries import OF_CLUSTER, OF_TOPIC, age_by, now, now_by, rate_by

_TOPIC = Variable("topic", '{__name__=~"headgate_mirror_lag_records|headgate_audit_records"}')
_CLUSTER = Variable("cluster", '{__name__=~"headgate_(mirror|replay)_timestamp_seconds"}')


def _measure(name: str) -> Query:
    where = f'by="bytes",{OF_TOPIC}'
    return Query(now(f"headgate_audit_{name}", "topic", where, "max"), name.replace("_", " "))


_MIRROR = Row(
    "Mirror",
    (
        Panel(
            "Seconds behind",
            "How long the oldest record that is not mirrored has been there.",
            Unit.SECONDS,
            "operate/runbooks/tiers/mirror-behind",
            now_by("headgate_mirror_lag_seconds", "topic", OF_TOPIC, "max"),
            steps=bad_from(65),
        ),
        Panel(
            "Records behind",
            "Offsets of the source that are not mirrored yet.",
            Unit.COUNT,
            "operate/runbooks/tiers/mirror-behind",
            now_by("headgate_mirror_lag_records", "topic", OF_TOPIC),
        ),
        Panel(
            "Records mirrored",
            "Copied by the tasks of this run.",
            Unit.RECORDS_PER_S,
            "operate/mirror#metrics",
            rate_by("headgate_mirror_records_total", "topic", OF_TOPIC),
            is_stacked=True,
        ),
        Panel(
            "Bytes read from the source",
            "As they came, compressed.",
            Unit.BYTES_PER_S,
            "operate/mirror#metrics",
            rate_by("headgate_mirror_read_bytes_total", "topic", OF_TOPIC),
            is_stacked=True,
        ),
        Panel(
            "Lost and foreign",
            "Gaps of the offset map and the offsets in them, gone before they were mirrored; and "
            "how often something else wrote to the mirror's topic.",
            Unit.COUNT,
            "operate/runbooks/tiers/mirror-lost",
            (
                Query(now("headgate_mirror_gaps_total", "topic", OF_TOPIC), "{{topic}} gaps"),
                Query(
                    now("headgate_mirror_lost_offsets_total", "topic", OF_TOPIC), "{{topic}} lost"
                ),
                Query(now("headgate_mirror_foreign_total", "topic", OF_TOPIC), "{{topic}} foreign"),
            ),
            steps=bad_from(1),
        ),
        Panel(
            "Topics that are skipped",
            "Topics that cannot be mirrored, by reason.",
            Unit.COUNT,
            "operate/runbooks/tiers/mirror-skips",
            now_by("headgate_mirror_topic_skipped", "topic, reason", OF_TOPIC, "max"),
            steps=bad_from(1),
        ),
    ),
)
_REPLAYS = Row(
    "Replays",
    (
        Panel(
            "Replays by state",
            "In the registries of the backfill tiers. They leave it when they expire or are "
            "deleted.",
            Unit.COUNT,
            "operate/replays",
            (Query("max by (state) (headgate_replays)", "{{state}}"),),
        ),
        Panel(
            "Replays that failed",
            "Within the hour before. Nothing goes on with them: somebody has to ask again.",
            Unit.COUNT,
            "operate/runbooks/tiers/replay-failed",
            (Query("max(increase(headgate_replays_failed_total[1h]))", "failed"),),
            steps=bad_from(1),
        ),
        Panel(
            "Copies by state",
            "Replays of mode topic, by cluster.",
            Unit.COUNT,
            "operate/replays#modes",
            now_by("headgate_replay_copies", "cluster, state", OF_CLUSTER, "max"),
        ),
        Panel(
            "Offsets to read",
            "That replays under way have still to read.",
            Unit.COUNT,
            "operate/runbooks/tiers/replay-stuck",
            now_by("headgate_replay_remaining_offsets", "cluster", OF_CLUSTER, "max"),
            width=6,
        ),
        Panel(
            "Age of the oldest replay under way",
            "Since it was asked for; 0: none is.",
            Unit.SECONDS,
            "operate/runbooks/tiers/replay-stuck",
            now_by("headgate_replay_oldest_seconds", "cluster", OF_CLUSTER, "max"),
            steps=bad_from(3600),
            width=6,
        ),
        Panel(
            "Records replayed",
            "Copied by the runners.",
            Unit.RECORDS_PER_S,
            "operate/replays#metrics",
            rate_by("headgate_replay_records_total", "cluster", OF_CLUSTER),
            width=6,
        ),
        Panel(
            "Bytes replayed",
            "Keys and values.",
            Unit.BYTES_PER_S,
            "operate/replays#metrics",
            rate_by("headgate_replay_bytes_total", "cluster", OF_CLUSTER),
            width=6,
        ),
    ),
)
_WRITTEN = Row(
    "Do they run?",
    (
        Panel(
            "Replay runners",
            "Processes that are the runner of a cluster. 0: nothing is replayed. A dead one's file "
            "still says 1: see its age.",
            Unit.COUNT,
            "operate/runbooks/tiers/no-replay-runner",
            now_by("headgate_replay_runner", "cluster", OF_CLUSTER),
            Form.STAT,
            bad_below(1),
            6,
        ),
        Panel(
            "Age of the mirror's figures",
            "A file that nobody writes any more keeps its figures: only its age shows that the "
            "process is gone.",
            Unit.SECONDS,
            "operate/runbooks/tiers/mirror-silent",
            age_by("headgate_mirror_timestamp_seconds", "cluster", OF_CLUSTER),
            Form.STAT,
            bad_from(120, 60),
            6,
        ),
        Panel(
            "Age of the runner's figures",
            "Of the newest file, where several runners wait for each other.",
            Unit.SECONDS,
            "operate/runbooks/tiers/no-replay-runner",
            age_by("headgate_replay_timestamp_seconds", "cluster", OF_CLUSTER),
            Form.STAT,
            bad_from(60, 30),
            6,
        ),
        Panel(
            "Age of the audit",
            "Since the newest skew audit ended.",
            Unit.SECONDS,
            "operate/skew-audit",
            (Query("time() - max(headgate_audit_timestamp_seconds)", "audit"),),
            Form.STAT,
            bad_from(7 * 86_400, 2 * 86_400),
            6,
        ),
    ),
)
_AUDIT = Row(
    "Skew audit",
    (
        Panel(
            "Newest audit",
            "One row for each topic, its load counted in bytes. max over mean: load of the fullest "
            "partition; gini: 0 is even, 1 all on one; top key: no partition count helps beyond "
            "1 / share; foreign: records that Kafka's rule puts elsewhere.",
            Unit.RATIO,
            "operate/skew-audit#diagnoses",
            (
                Query(
                    now("headgate_audit_records", "topic", OF_TOPIC, "max"), "records", Unit.COUNT
                ),
                Query(now("headgate_audit_bytes", "topic", OF_TOPIC, "max"), "bytes", Unit.BYTES),
                Query(
                    now("headgate_audit_distinct_keys", "topic", OF_TOPIC, "max"),
                    "keys",
                    Unit.COUNT,
                ),
                _measure("max_over_mean")._replace(unit=Unit.COUNT),
                _measure("gini")._replace(unit=Unit.COUNT),
                _measure("top_key_share"),
                Query(now("headgate_audit_foreign_share", "topic", OF_TOPIC, "max"), "foreign"),
            ),
            Form.TABLE,
            width=16,
        ),
        Panel(
            "Diagnoses",
            "What the audit found, and for which topic.",
            Unit.COUNT,
            "operate/skew-audit#diagnoses",
            (Query(now("headgate_audit_diagnosis", "topic, diagnosis", OF_TOPIC, "max"), "found"),),
            Form.TABLE,
        ),
    ),
)

JOBS = Board(
    "jobs",
    "Headgate / Jobs",
    "Do the mirror, the replays and the skew audit run, and what have they found?",
    (_TOPIC, _CLUSTER),
    (_MIRROR, _REPLAYS, _AUDIT, _WRITTEN),
)
