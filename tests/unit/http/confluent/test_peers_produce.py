"""The table of the peers' cases is whole."""

import json

import pytest

from headgate.formats import confluent
from headgate.formats.confluent import codes_of
from headgate.model.outcome import Failure, Outcome, OutcomeName, Reason
from support.clients.peers_produce import PEERS, Case, Result, cases

CASES = cases()


@pytest.mark.parametrize("one", CASES, ids=lambda one: one.case)
def test_a_case_says_why_where_it_ends_differently(one: Case) -> None:
    assert one.peer in PEERS
    assert one.tests
    posted = {"post", "get", "delete", "reason", "skipped"} & one.given.keys()
    assert len(posted) == 1, "one way to look at it"
    assert (one.there is None) == ("skipped" in one.given)
    assert bool(one.why) == (one.there is None or one.there != one.here)


@pytest.mark.parametrize(
    "one", [one for one in CASES if "reason" in one.given], ids=lambda one: one.case
)
def test_the_codes_of_what_no_request_brings_about(one: Case) -> None:
    failure = Failure(Reason(one.given["reason"]), "a detail")
    assert one.here is not None
    if one.here.answers is None:
        assert one.here == Result(*codes_of(failure))
        return
    reply = confluent.produced([Outcome(OutcomeName.REJECTED, failure=failure)])
    codes = tuple(entry["error_code"] for entry in json.loads(reply.body)["offsets"])
    assert one.here == Result(reply.status, None, codes)
