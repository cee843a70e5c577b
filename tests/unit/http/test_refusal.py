"""What a caller learns if it may not post."""

from __future__ import annotations

import pytest

from headgate.http.auth import Identity
from headgate.model.outcome import Reason
from headgate.model.topics import Globs


@pytest.mark.parametrize(
    ("roles", "detail"),
    [
        ({"view"}, "producer 'viewer' needs the role 'produce' to post"),
        ({"produce"}, "producer 'viewer' may not post to topic 'orders'"),
    ],
)
def test_a_missing_role_is_named_before_the_topic(roles: set[str], detail: str) -> None:
    caller = Identity("viewer", frozenset(roles), Globs(("other",)))
    assert not caller.may_post("orders")
    assert caller.refusal("orders")[:2] == (Reason.FORBIDDEN, detail)
