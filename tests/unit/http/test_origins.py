"""Which requests of browsers are carried out, by the headers that no web page can forge."""

import pytest

from headgate.config.settings import AuthSettings, HttpSettings, ProducerSettings
from headgate.http.auth import Authenticator, Origins, Peer
from headgate.model.outcome import Failure, Reason

AWAY, HERE = "192.0.2.7", "127.0.0.1"
APP = b"https://app.example"


def headers(host: bytes, origin: bytes | None = None, **more: bytes) -> dict[bytes, bytes]:
    given = {name.replace("_", "-").encode(): value for name, value in more.items()}
    return {b"host": host, **given, **({} if origin is None else {b"origin": origin})}


SAME = [
    (b"localhost:8080", b"http://localhost:8080"),
    (b"127.0.0.1:8080", b"http://127.0.0.1:8080"),
    (b"[::1]:8080", b"http://[::1]:8080"),
    (b"192.0.2.1", b"https://192.0.2.1"),
    (b"Headgate:8080", b"http://headgate:8080"),
    (b"gw.prod.svc.cluster.local", b"http://gw.prod.svc.cluster.local"),
    (b"gw.internal.", b"http://gw.internal."),
]
FOREIGN = [
    headers(b"localhost:8080", b"https://evil.example"),
    headers(b"localhost:8080", b"http://localhost:3000"),
    headers(b"localhost:8080", b"http://localhost"),
    headers(b"localhost:8080", b"null"),
    headers(b"localhost:8080", b""),
    headers(b"", b"http://"),
    headers(b"localhost:8080", sec_fetch_site=b"cross-site"),
    headers(b"localhost:8080", sec_fetch_site=b"cross-site", sec_fetch_mode=b"no-cors"),
    headers(b"localhost:8080", b"https://evil.example", sec_fetch_mode=b"navigate"),
]
REBOUND = headers(b"evil.example:8080", b"http://evil.example:8080")
PLAIN = [
    {},
    headers(b"localhost:8080"),
    headers(b"localhost:8080", sec_fetch_site=b"none"),
    headers(b"localhost:8080", sec_fetch_site=b"same-origin"),
    headers(b"localhost:8080", sec_fetch_site=b"cross-site", sec_fetch_mode=b"navigate"),
]
BOTH = [Origins(), Origins(asks_all=True)]


@pytest.mark.parametrize("origins", BOTH)
def test_pages_of_our_own_address_and_programs_may_ask(origins: Origins) -> None:
    for host, page in SAME:
        for remote in (HERE, None, AWAY):
            assert origins.refusal(headers(host, page), remote) is None, host
    for given in PLAIN:
        assert origins.refusal(given, HERE) is None, given


@pytest.mark.parametrize("origins", BOTH)
def test_pages_of_elsewhere_may_not(origins: Origins) -> None:
    for given in FOREIGN:
        for remote in (HERE, None, AWAY):
            refused = origins.refusal(given, remote)
            assert refused is not None, given
            assert refused.reason is Reason.FORBIDDEN


def test_those_of_the_configuration_may_post_events_and_nothing_else() -> None:
    for pages in ((APP.decode(),), ("*",)):
        http = HttpSettings(cors_origins=pages)
        for host in (b"localhost:8080", b"events.example"):
            given = headers(host, APP, sec_fetch_site=b"cross-site")
            assert Origins.of_data_port(http).refusal(given, HERE) is None
            assert Origins.of_control_plane(http).refusal(given, HERE) is not None
    other = headers(b"localhost", b"https://other.example")
    assert Origins.of_data_port(HttpSettings(cors_origins=(APP.decode(),))).refusal(other, HERE)


def test_a_name_that_was_made_to_point_here_is_not_ours() -> None:
    unmarked = headers(b"evil.example:8080")
    data, control = BOTH
    for remote in (HERE, "::1", None):
        for origins in BOTH:
            refused = origins.refusal(REBOUND, remote)
            assert refused is not None
            assert "http.hosts" in refused.detail
        assert data.refusal(unmarked, remote) is None, "programs may call it what they like"
        assert control.refusal(unmarked, remote) is not None
    for origins in BOTH:  # whoever listens on other addresses has names that only they know
        assert origins.refusal(REBOUND, AWAY) is None


def test_names_of_the_configuration_are_ours_and_then_no_others() -> None:
    ours = headers(b"Events.Example:8080", b"http://events.example:8080")
    for origins in (
        Origins(hosts=["EVENTS.example"]),
        Origins(hosts=["events.example"], asks_all=True),
    ):
        for remote in (HERE, AWAY):
            assert origins.refusal(ours, remote) is None
            assert origins.refusal(REBOUND, remote) is not None
            assert origins.refusal(headers(b"localhost", b"http://localhost"), remote) is None
    assert Origins(hosts=["*"], asks_all=True).refusal(REBOUND, HERE) is None


TOKEN_SHA256 = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"  # of "test"
TOKENS = {"shop": ProducerSettings(token_sha256=(TOKEN_SHA256,), topics=("*",))}


def test_a_token_is_proof_enough_but_not_a_password_that_the_browser_remembers() -> None:
    callers = Authenticator(AuthSettings(mode=("token",)), TOKENS)
    for given in (*FOREIGN, REBOUND):
        bearer = callers.identify({**given, b"authorization": b"Bearer test"}, Peer(HERE))
        assert not isinstance(bearer, Failure)
        basic = callers.identify({**given, b"authorization": b"Basic OnRlc3Q="}, Peer(HERE))
        assert isinstance(basic, Failure) is (given is not REBOUND), given
    for given in PLAIN:
        basic = callers.identify({**given, b"authorization": b"Basic OnRlc3Q="}, Peer(HERE))
        assert not isinstance(basic, Failure)


def test_without_authentication_names_are_no_proof() -> None:
    callers = Authenticator(AuthSettings(), {})
    for given in (*FOREIGN, REBOUND):
        assert isinstance(
            callers.identify({**given, b"headgate-producer": b"me"}, Peer(HERE)), Failure
        )
