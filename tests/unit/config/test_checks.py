"""Contradictions between options, and what a reload may change."""

from hashlib import sha256
from pathlib import Path

import pytest

from headgate.config import ConfigError, Settings, load, reload_changes, reloadable

CLUSTER = '[clusters.main]\nbootstrap_servers = "a:1"\n'
BACKFILL = '[clusters.old]\nbootstrap_servers = "b:1"\ntier = "backfill"\n'
OAUTH = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "OAUTHBEARER"\n'
DIGEST = "ab" * 32
REDIS = "[redis]\n"


def settings(folder: Path, text: str) -> Settings:
    file = folder / "headgate.toml"
    file.write_text(text)
    return load(file, {})


@pytest.mark.parametrize(
    ("text", "named", "said"),
    [
        ("", "clusters", "at least one cluster"),
        (BACKFILL, "clusters", "at least one cluster"),
        ('[clusters.main]\nbootstrap_servers = "a"\n', "clusters.main.boot", "host:port"),
        ('[clusters.main]\nbootstrap_servers = "a:99999"\n', "clusters.main.boot", "host:port"),
        ("[clusters.main]\nbootstrap_servers = []\n", "clusters.main.boot", "no server"),
        (CLUSTER + 'backfill = "old"\n', "clusters.main.backfill", "[clusters.old]"),
        (
            CLUSTER + 'backfill = "oldd"\n' + BACKFILL,
            "clusters.main.backfill",
            'there is no cluster "oldd"; expected a cluster of tier backfill: "old". Did you mean',
        ),
        (
            CLUSTER + 'backfill = "x"\n' + BACKFILL,
            "clusters.main.backfill",
            'Add [clusters.x] with tier = "backfill".',
        ),
        (CLUSTER + "[topics.a]\ncluster = 'mian'\n", "topics.a.cluster", 'Did you mean "main"?'),
        (CLUSTER + 'backfill = "main"\n', "clusters.main.backfill", "but there is none"),
        (CLUSTER + BACKFILL + 'backfill = "old"\n', "clusters.old.backfill", "only an ingest"),
        (CLUSTER + "delivery_timeout_ms = 5000\n", "clusters.main.delivery", "at least 30000"),
        (
            "[http]\nrequest_timeout_ms = 100\n"
            + CLUSTER
            + "delivery_timeout_ms = 1000\nlane_stall_ms = 1001\n",
            "clusters.main.lane_stall_ms",
            "at most 1000",
        ),
        (CLUSTER + 'security_protocol = "SASL_SSL"\n', "clusters.main.sasl_password", "missing"),
        (CLUSTER + 'sasl_username = "u"\n', "clusters.main.sasl_username", "SASL_SSL"),
        (CLUSTER + OAUTH, "clusters.main.sasl_oauth_token_url", "missing"),
        (CLUSTER + OAUTH, "clusters.main.sasl_oauth_client_id", "missing"),
        (CLUSTER + OAUTH, "clusters.main.sasl_oauth_client_secret", "missing"),
        (CLUSTER + OAUTH + 'sasl_username = "u"\n', "clusters.main.sasl_username", "OAUTHBEARER"),
        (
            CLUSTER + OAUTH + 'sasl_oauth_token_url = "http://id.example/t"\n',
            "clusters.main.sasl_oauth_token_url",
            "the secret goes there",
        ),
        (
            CLUSTER + OAUTH + 'sasl_oauth_token_url = "file:///etc/t"\n',
            "clusters.main.sasl_oauth_token_url",
            "https",
        ),
        (
            CLUSTER + OAUTH + 'sasl_oauth_ca_file = "/nowhere"\n',
            "clusters.main.sasl_oauth_ca_file",
            "does not exist",
        ),
        (
            CLUSTER + OAUTH.replace("OAUTHBEARER", "PLAIN") + 'sasl_oauth_client_id = "c"\n',
            "clusters.main.sasl_oauth_client_id",
            "another mechanism",
        ),
        (
            CLUSTER + 'sasl_oauth_client_id = "c"\n',
            "clusters.main.sasl_oauth_client_id",
            'security_protocol = "PLAINTEXT"',
        ),
        (CLUSTER + 'ssl_cafile = "/x"\n', "clusters.main.ssl_cafile", "SSL"),
        (
            CLUSTER + 'security_protocol = "SSL"\nssl_cafile = "/nowhere"\n',
            "clusters.main.ssl_cafile",
            "does not exist",
        ),
        (CLUSTER + 'ssl_certfile = "/x"\n', "clusters.main.ssl_keyfile", "together"),
        (CLUSTER + '[http]\ntls_cert_file = "/nowhere"\n', "http.tls_key_file", "together"),
        (CLUSTER + '[http]\ntls_cert_file = "/nowhere"\n', "http.tls_cert_file", "does not exist"),
        (CLUSTER + '[http]\nhost = ""\n', "http.host", "an address"),
        (CLUSTER + '[http]\nhosts = ["http://a.example"]\n', "http.hosts", "without scheme"),
        (CLUSTER + '[http]\nhosts = ["a.example:80"]\n', "http.hosts", "without scheme"),
        (CLUSTER + '[redis]\nnamespace = "a b"\n', "redis.namespace", "letters"),
        (
            CLUSTER + '[console]\nprometheus_url = "prom:9090"\n',
            "console.prometheus_url",
            "http://",
        ),
        (CLUSTER + '[redis]\nssl_cafile = "/nowhere"\n', "redis.ssl_cafile", "does not exist"),
        (CLUSTER + '[redis]\nssl_cafile = "/nowhere"\n', "redis.ssl_cafile", "rediss://"),
        (CLUSTER + "[topics.a]\nsuppress = 'raw'\n", "topics.a.suppress", "redis.url"),
        (CLUSTER + REDIS + 'url = "redis://a"\nurls = ["redis://b"]\n', "redis.urls", "redis.url"),
        (CLUSTER + REDIS + 'urls = ["redis://a", "http://b"]\n', "redis.urls", "redis://"),
        (CLUSTER + REDIS + 'urls = ["redis://a", "redis://:x@A:6379/0"]\n', "redis.urls", "once"),
        (CLUSTER + "[topics.a]\nfacts_one_in = 9\n", "topics.a.facts_one_in", "facts = true"),
        (CLUSTER + "[topics.a]\nignore = ['/at']\n", "topics.a.ignore", 'suppress = "canonical"'),
        (CLUSTER + "[topics.a]\nignore = ['at']\n", "topics.a.ignore", 'Did you mean "/at"?'),
        (CLUSTER + "[topics.a]\nignore = ['']\n", "topics.a.ignore", "all are the same"),
        (CLUSTER + "[topics.a]\nschema_file = '/nowhere'\n", "topics.a.schema_file", "readable"),
        (CLUSTER + "[topics.a]\nkey = 'id'\n", "topics.a.key", 'Did you mean "/id"?'),
        (CLUSTER + "[topics.a]\nkey = '/~2'\n", "topics.a.key", "RFC 6901"),
        (CLUSTER + "[topics.a]\nkey = ['']\n", "topics.a.key", "pointers into"),
        (CLUSTER + "[topics.a]\ncluster = 'b'\n", "topics.a.cluster", '"main"'),
        (CLUSTER + BACKFILL + "[topics.a]\ncluster = 'old'\n", "topics.a.cluster", '"main"'),
        (CLUSTER + "[topics.a]\noversize = []\n", "topics.a.oversize", "once each"),
        (
            CLUSTER + "[topics.a]\noversize = ['reject', 'reject']\n",
            "topics.a.oversize",
            "once each",
        ),
        (
            CLUSTER + "[topics.a]\nkind = 'state'\nkeyless = 'spread'\n",
            "topics.a.keyless",
            '"reject"',
        ),
        (CLUSTER + '[topics."a b"]\n', 'topics."a b"', "a topic name"),
        (CLUSTER + '[topics."[ab]"]\n', 'topics."[ab]"', "a topic name"),
        (CLUSTER + "[topics.__a]\n", "topics.__a", "internal"),
        (CLUSTER + '[topics."headgate.x"]\n', 'topics."headgate.x"', "internal"),
        (CLUSTER + '[topics."a*"]\n[topics."a?"]\n', 'topics."a*"', "ties with"),
        (CLUSTER + '[producers.a]\ntoken_sha256 = "hg_x"\n', "producers.a.token", "64 hex"),
        *(
            (
                CLUSTER + f'[producers.shop]\ntoken_sha256 = ["{DIGEST}", "{well_known}"]\n',
                "producers.shop.token_sha256",
                "headgate token NAME",
            )
            for well_known in (
                "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",  # test
                "60303AE22B998861BCE3B28F33EEC1BE758A213C86C93C076DBE9F558C11C752",  # test2
                sha256(b"test\n").hexdigest(),
                sha256(b"").hexdigest(),
                sha256(b"shop").hexdigest(),
            )
        ),
        (CLUSTER + '[producers.a]\ntopics = "a b"\n', "producers.a.topics", "topic names"),
        (CLUSTER + "[producers.other]\n", "producers.other", '"other"'),
        (
            CLUSTER
            + f'[producers.a]\ntoken_sha256 = "{DIGEST}"\n'
            + f'[producers.b]\ntoken_sha256 = "{DIGEST.upper()}"\n',
            "producers.b.token_sha256",
            'the token of "a"',
        ),
    ],
)
def test_contradictions_are_refused(tmp_path: Path, text: str, named: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    found = [str(each) for each in caught.value.problems if each.option.startswith(named)]
    assert any(said in each for each in found), str(caught.value)


def test_several_ingest_clusters_leave_no_default_for_a_topic(tmp_path: Path) -> None:
    text = CLUSTER + '[clusters.second]\nbootstrap_servers = "b:1"\n[topics.a]\n'
    with pytest.raises(ConfigError, match=r'topics\.a\.cluster: missing.*"main" or "second"'):
        settings(tmp_path, text)


def test_no_two_contradictions_hide_each_other(tmp_path: Path) -> None:
    text = CLUSTER + "[topics.a]\nkey = 'id'\nsuppress = 'raw'\n[redis]\nnamespace = ' '\n"
    with pytest.raises(ConfigError) as caught:
        settings(tmp_path, text)
    assert len(caught.value.problems) == 3


def test_everything_allowed_together(tmp_path: Path) -> None:
    text = (
        CLUSTER
        + 'backfill = "old"\n'
        + BACKFILL
        + '[http]\nport = 8080\nmanagement_port = 8080\n[redis]\nurl = "unix:///r.sock"\n'
        + '[topics.deals]\nkind = "event"\nsuppress = "raw"\nkeyless = "spread"\n'
        + '[topics."*.eu"]\n[topics."*.us"]\n'
        + f'[producers.a]\ntoken_sha256 = ["{DIGEST}", "{"cd" * 32}"]\nroles = ["view"]\n'
    )
    found = settings(tmp_path, text)
    assert [policy.pattern for policy in found.topics] == ["deals", "*.eu", "*.us"]
    assert found.producers["a"].roles == ("view",)


def test_reload_takes_topics_and_producers_and_names_the_rest(tmp_path: Path) -> None:
    old = settings(tmp_path, CLUSTER + "[topics.a]\n[producers.p]\n")
    more = settings(tmp_path, CLUSTER + "[topics.b]\nmax_bytes = 5\n[producers.q]\n")
    assert reloadable(old, more) == []
    changed = CLUSTER.replace("a:1", "b:1") + BACKFILL + "[http]\nport = 1\n[auth]\nmode='token'\n"
    assert reloadable(old, settings(tmp_path, changed)) == [
        "http.port",
        "auth.mode",
        "clusters.main.bootstrap_servers",
        "clusters.old",
    ]


def test_a_reload_names_what_it_changes(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    schema.write_text("{}")
    rest = (
        f"[topics.s]\nschema_file = '{schema}'\n"
        "[producers.p]\nquota_events_per_s = %d\n[producers.%s]\n"
    )
    old = settings(tmp_path, CLUSTER + "[topics.a]\n[topics.b]\n" + rest % (5, "q"))
    assert reload_changes(old, old) == ([], [], [])
    assert reload_changes(
        old, settings(tmp_path, CLUSTER + "[topics.a]\n[topics.b]\n" + rest % (5, "q"))
    ) == ([], [], [])
    schema.write_text('{"type":"object"}')
    new = settings(tmp_path, CLUSTER + "[topics.c]\n[topics.b]\nmax_bytes = 5\n" + rest % (6, "r"))
    assert reload_changes(old, new) == (
        ["topics.c", "producers.r"],
        ["topics.a", "producers.q"],
        ["topics.b.max_bytes", "topics.s.schema_file", "producers.p.quota_events_per_s"],
    )
    swapped = settings(tmp_path, CLUSTER + "[topics.b]\n[topics.a]\n" + rest % (5, "q"))
    assert reload_changes(old, swapped)[2] == ["topics", "topics.s.schema_file"][::-1]


def test_a_schema_is_read_when_the_configuration_is(tmp_path: Path) -> None:
    schema = tmp_path / "schema.json"
    text = CLUSTER + f"[topics.a]\nschema_file = '{schema}'\n"
    schema.write_text('{"type":"object"}')
    assert settings(tmp_path, text).topics[0].schema.text == b'{"type":"object"}'
    for broken in ("{", '{"type":12}', '{"$ref":"https://example.com/x.json"}'):
        schema.write_text(broken)
        with pytest.raises(ConfigError, match=r"topics\.a\.schema_file.*2020-12"):
            settings(tmp_path, text)


def test_owners_of_groups(tmp_path: Path) -> None:
    file = tmp_path / "headgate.toml"
    text = '[clusters.main]\nbootstrap_servers = "h:9092"\n[monitor]\ngroup_owners = '
    file.write_text(text + '["billing-*: team billing", "a:b: c", "* : platform"]')
    assert load(file, {}).monitor.owners == [
        ("billing-*", "team billing"),
        ("a:b", "c"),
        ("*", "platform"),
    ]
    for entry in ("billing", "billing:", ": team"):
        file.write_text(f'{text}["{entry}"]')
        with pytest.raises(ConfigError) as caught:
            load(file, {})
        assert [problem.option for problem in caught.value.problems] == ["monitor.group_owners"]
