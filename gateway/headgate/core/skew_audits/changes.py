"""What became of topics since an earlier audit, in a word; and which two audits are compared."""

from collections.abc import Iterable, Mapping, Sequence
from enum import StrEnum

from headgate.core.skew_audits.summary import AuditSummary

# Of the fullest partition over the mean: less than that is another hour's traffic.
NOTABLE = 1.1
MAX_TIMES = 30  # of earlier audits to choose from

Audits = Sequence[AuditSummary]  # of a topic, newest first


class Change(StrEnum):
    """Of a topic. NEW: there is no earlier audit.  GONE: it was not audited since."""

    WORSE = "worse"
    NEW = "new"
    GONE = "gone"
    BETTER = "better"
    SAME = "same"


def change(before: AuditSummary, after: AuditSummary) -> Change:
    """Diagnoses count; how uneven the partitions are, where those say nothing."""
    came = set(after.diagnoses) - set(before.diagnoses)
    went = set(before.diagnoses) - set(after.diagnoses)
    if came and not went:
        return Change.WORSE
    if went and not came:
        return Change.BETTER
    if after.uneven > NOTABLE * before.uneven:
        return Change.WORSE
    return Change.BETTER if before.uneven > NOTABLE * after.uneven else Change.SAME


def changes(audits: Mapping[str, Audits], since: str | None = None) -> dict[str, Change]:
    """Of each topic's newest audit. since: when the earlier one was made, or a time after it;
    None: each topic's one before the newest."""
    return {topic: _change_of(found, since) for topic, found in audits.items() if found}


def _change_of(audits: Audits, since: str | None) -> Change:
    newest, *earlier = audits
    if since is not None:
        if newest.generated_at <= since:
            return Change.GONE
        earlier = [one for one in earlier if one.generated_at <= since]
    return change(earlier[0], newest) if earlier else Change.NEW


def times(audits: Iterable[Audits]) -> list[str]:
    """When earlier audits were made, newest first: what `since` may be."""
    made = {one.generated_at for found in audits for one in found}
    return sorted(made, reverse=True)[1 : MAX_TIMES + 1]


def chosen(
    audits: Audits, before: str | None, after: str | None
) -> tuple[AuditSummary, AuditSummary] | None:
    """The two that were made then; without times the newest and the one before it.

    None: there is no such audit, or only one.
    """
    made = {one.generated_at: one for one in reversed(audits)}
    later = audits[0] if after is None and audits else made.get(after or "")
    if before is not None or later is None:
        earlier = made.get(before or "")
    else:
        earlier = next((one for one in audits if one.generated_at < later.generated_at), None)
    return None if earlier is None or later is None else (earlier, later)
