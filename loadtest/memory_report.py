"""Tables in Markdown of what processes have in memory. Pure."""

from cases.keys import GROWTH_GOAL, Keys
from cases.memory import LIMIT_BYTES, largest_process, summary
from cases.moments import GOAL_BYTES, LOADED, Moment, Process
from report import MIB, Report, cpu, table


def memory_table(report: Report) -> str:
    rows = [(f"{events:,}", f"{size / MIB:.1f}") for events, size in summary(report)]
    largest = max(largest_process(sample) for sample in report["samples"])
    verdict = "met" if largest < LIMIT_BYTES else "MISSED"
    growth = summary(report)[-1][1] - summary(report)[len(rows) // 2][1]
    return (
        table(("events so far", "RSS of the largest process, MiB"), rows)
        + f"\nLargest ever: {largest / MIB:.1f} MiB (goal: under {LIMIT_BYTES / MIB:.0f}, "
        + f"{verdict}). Growth over the second half: {growth / MIB:+.1f} MiB. "
        + f"{report['events_per_s']:,} events/s, {cpu(report):.1f} us/event, "
        + f"log {report['log']}.\n"
    )


def moments_table(moments: list[Moment]) -> str:
    """One row a moment, and the goals: both processes idle, the worker under load."""
    header = ("moment", "parent RSS / PSS / USS", "worker RSS / PSS / USS", "worker's peak", "ends")
    rows = [
        (
            moment.title,
            sizes(moment.parent),
            sizes(moment.worker),
            f"{moment.worker.peak / MIB:.1f}",
            ", ".join(f"{end} {count:,}" for end, count in sorted(moment.ends.items())) or "-",
        )
        for moment in moments
    ]
    idle, loaded = moments[0], next(one for one in moments if one.title == LOADED)
    goals = (
        ("parent and worker, idle", idle.parent.memory.rss + idle.worker.memory.rss),
        (f"the worker at most, {LOADED}", loaded.worker.peak),
    )
    said = [f"{what}: {size / MIB:.1f} MiB of RSS, {judged(size)}" for what, size in goals]
    goal = f"Goal: under {GOAL_BYTES / MIB:.0f} MiB. "
    return "MiB.\n\n" + table(header, rows) + f"\n{goal}{'; '.join(said)}.\n"


def judged(size: int) -> str:
    return "met" if size < GOAL_BYTES else "MISSED"


def sizes(process: Process) -> str:
    return " / ".join(f"{size / MIB:.1f}" for size in process.memory)


def keys_table(found: list[Keys]) -> str:
    """One row a step of each topic; the growth is what the last step added to the one before."""
    rows, grown = [], []
    for topic in found:
        rows += [
            (
                topic.title,
                moment.title,
                sizes(moment.parent),
                sizes(moment.worker),
                f"{moment.worker.peak / MIB:.1f}",
            )
            for moment in topic.moments
        ]
        usual, *_, last = topic.moments[1:]
        grown.append(last.worker.memory.rss - usual.worker.memory.rss)
    header = ("topic", "moment", "parent RSS / PSS / USS", "worker RSS / PSS / USS", "its peak")
    said = ", ".join(f"{size / MIB:+.1f}" for size in grown)
    return (
        "MiB.\n\n"
        + table(header, rows)
        + (
            f"\nThe worker after as many new keys again, next to 1,000 keys: {said} MiB "
            f"(goal: at most {GROWTH_GOAL / MIB:.0f}).\n"
        )
    )
