"""PromQL as the panels need it. where: matchers, with Grafana's variables.  by: labels, if any."""

from headgate_dashboards.board import Query

MINE = 'instance=~"$instance"'
OF_TOPIC = 'topic=~"$topic"'
OF_PAIR = 'producer=~"$producer",topic=~"$topic"'
OF_GROUP = 'group=~"$group"'
OF_CLUSTER = 'cluster=~"$cluster"'

_STEP = "[$__rate_interval]"  # at least four scrapes, whatever the time range


def now(metric: str, by: str = "", where: str = MINE, fold: str = "sum") -> str:
    """A gauge, or what a recording rule has made."""
    return f"{_over(fold, by)} ({metric}{{{where}}})"


def recorded(rule: str, where: str) -> str:
    """What a recording rule has made, as it is."""
    return f"{rule}{{{where}}}"


def rate(counter: str, by: str = "", where: str = MINE) -> str:
    """A counter's increase in a second."""
    return f"{_over('sum', by)} (rate({counter}{{{where}}}{_STEP}))"


def increase(counter: str, by: str = "", where: str = MINE) -> str:
    """A counter's increase in one step of the graph."""
    return f"{_over('sum', by)} (increase({counter}{{{where}}}{_STEP}))"


def now_by(metric: str, by: str, where: str = MINE, fold: str = "sum") -> tuple[Query, ...]:
    """The same, a series for each set of these labels, which its legend has."""
    return (Query(now(metric, by, where, fold), _legend(by)),)


def rate_by(counter: str, by: str, where: str = MINE) -> tuple[Query, ...]:
    """The same of `rate`."""
    return (Query(rate(counter, by, where), _legend(by)),)


def increase_by(counter: str, by: str, where: str = MINE) -> tuple[Query, ...]:
    """The same of `increase`."""
    return (Query(increase(counter, by, where), _legend(by)),)


def quantile(share: float, histogram: str, by: str = "", where: str = MINE) -> str:
    """The value that this share of the observations does not exceed."""
    buckets = rate(f"{histogram}_bucket", f"{by}, le" if by else "le", where)
    return f"histogram_quantile({share:g}, {buckets})"


def quantiles(histogram: str, where: str = MINE) -> tuple[Query, ...]:
    """The median, and how bad it gets."""
    shares = (0.5, 0.9, 0.99)
    return tuple(
        Query(quantile(share, histogram, where=where), f"p{share * 100:g}") for share in shares
    )


def age_by(timestamp: str, by: str, where: str) -> tuple[Query, ...]:
    """Seconds since a time."""
    return (Query(f"time() - max by ({by}) ({timestamp}{{{where}}})", _legend(by)),)


def _legend(by: str) -> str:
    return " ".join(f"{{{{{label}}}}}" for label in by.split(", "))


def _over(fold: str, by: str) -> str:
    return f"{fold} by ({by})" if by else fold
