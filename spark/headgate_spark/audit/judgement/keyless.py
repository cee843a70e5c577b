"""What is said of records without a key that are uneven: no key is to blame, so no diagnosis is."""

from headgate_spark.audit.judgement.diagnosis import BURST_WINDOWS, ENOUGH_RECORDS, HOT
from headgate_spark.audit.judgement.figures import TopicFigures
from headgate_spark.audit.judgement.measures import is_uneven, max_over_mean

_MIN_SHARE = 0.5  # of the records: below it keys decide how even a topic is
# A partition that is the fullest by chance is not so in window after window.
_LASTING = 0.75


def notes(figures: TopicFigures) -> list[str]:
    """Sentences beside the diagnoses, whose names are fixed."""
    found = figures.keyless
    if found is None or figures.keyless_records < max(ENOUGH_RECORDS, _MIN_SHARE * figures.records):
        return []
    uneven = max_over_mean(found.records)
    if uneven < HOT or not is_uneven(found.records, figures.keyless_records):
        return []
    row = int(found.records.argmax())
    fullest = figures.numbers[row] if figures.is_part else row
    text = (
        f"the {figures.keyless_records:,} records without a key are uneven, and no key is the "
        f"reason: partition {fullest} has {uneven:.2f} times the mean of them"
    )
    if found.windows >= BURST_WINDOWS and found.same >= _LASTING * found.windows:
        why = (
            f"it is the fullest in {found.same} of {found.windows} windows of 5 minutes: a "
            "producer that names partitions, or has a partitioner of its own, puts them there"
        )
    else:
        why = (
            "all events of a request without keys go to one partition, so that few requests, or "
            "few large ones, are uneven; a producer that names partitions would be, too"
        )
    return [f"{text}; {why}"]
