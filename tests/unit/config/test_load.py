"""Loading: file, environment, secrets, origins, and what is refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest

from headgate.config import ConfigError, Loaded, Settings, load, load_with_origins
from headgate.config.settings import NAMED, SECTIONS
from headgate.config.values import allowed
from headgate.model.policy import Option, options_of

MINIMAL = """
[clusters.main]
bootstrap_servers = "127.0.0.1:9092"
"""


def write(folder: Path, text: str) -> Path:
    file = folder / "headgate.toml"
    file.write_text(text)
    return file


def loaded(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Loaded:
    return load_with_origins(write(folder, text), environ or {})


def settings(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    return load(write(folder, text), environ or {})


def problems(folder: Path, text: str, environ: Mapping[str, str] | None = None) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        load(write(folder, text), environ or {})
    assert str(caught.value).count("\n") == len(caught.value.problems)
    return [str(problem) for problem in caught.value.problems]


def test_defaults_hold_where_nothing_is_written(tmp_path: Path) -> None:
    found = settings(tmp_path, MINIMAL)
    assert found.http.port == 8080
    assert found.http.management_port == 9090
    assert found.http.batch_max_events >= 10_000
    assert found.auth.mode == ("none",)
    assert found.clusters["main"].delivery_timeout_ms == 120_000


def test_file_goes_over_defaults_and_environment_over_the_file(tmp_path: Path) -> None:
    text = MINIMAL + "[http]\nport = 8081\nworkers = 2\n"
    found = loaded(tmp_path, text, {"HEADGATE_HTTP__WORKERS": "3", "PATH": "/bin"})
    assert (found.settings.http.port, found.settings.http.workers) == (8081, 3)
    assert found.origins["http.port"] == "headgate.toml:5"
    assert found.origins["http.workers"] == "HEADGATE_HTTP__WORKERS"
    assert found.origins["http.host"] == "default"


def test_environment_alone_can_make_a_cluster(tmp_path: Path) -> None:
    servers = {"HEADGATE_CLUSTERS__MAIN__BOOTSTRAP_SERVERS": "a:9092, b:9093"}
    assert settings(tmp_path, "", servers).clusters["main"].bootstrap_servers == (
        "a:9092",
        "b:9093",
    )


def test_underscores_of_a_variable_stand_for_dashes_of_the_file(tmp_path: Path) -> None:
    text = MINIMAL + '[clusters.main-backfill]\ntier = "backfill"\nbootstrap_servers = "a:1"\n'
    variable = "HEADGATE_CLUSTERS__MAIN_BACKFILL__BOOTSTRAP_SERVERS"
    found = loaded(tmp_path, text, {variable: "b:2"})
    assert found.settings.clusters["main-backfill"].bootstrap_servers == ("b:2",)
    assert found.origins["clusters.main-backfill.bootstrap_servers"] == variable


def test_variables_that_kubernetes_sets_are_not_ours(tmp_path: Path) -> None:
    environ = {"HEADGATE_PORT": "tcp://10.0.0.1:8080", "HEADGATE_SERVICE_HOST": "10.0.0.1"}
    assert settings(tmp_path, MINIMAL, environ).http.port == 8080


def test_a_name_or_list_may_be_one_text(tmp_path: Path) -> None:
    text = MINIMAL + '[topics.orders]\nkey = "/id"\n[topics.deals]\nkey = ["/a", "/b"]\n'
    orders, deals = settings(tmp_path, text).topics
    assert (orders.key, deals.key) == (("/id",), ("/a", "/b"))


def test_a_topic_belongs_to_the_only_ingest_cluster(tmp_path: Path) -> None:
    backfill = '[clusters.old]\ntier = "backfill"\nbootstrap_servers = "a:1"\n'
    found = loaded(tmp_path, MINIMAL + backfill + '[topics."orders.*"]\n')
    assert found.settings.topics[0].cluster == "main"
    assert "only cluster" in found.origins['topics."orders.*".cluster']


def test_quarantine_follows_the_largest_delivery_timeout(tmp_path: Path) -> None:
    slow = MINIMAL + "delivery_timeout_ms = 200000\n"
    assert settings(tmp_path, slow).redis.quarantine_ms == 400_000
    assert settings(tmp_path, slow + "[redis]\nquarantine_ms = 1000\n").redis.quarantine_ms == 1000


def test_a_secret_comes_from_its_file_and_the_environment_goes_over_it(tmp_path: Path) -> None:
    secret = tmp_path / "url"
    secret.write_text("redis://:hush@h:1/0\n")
    text = MINIMAL + f'[redis]\nurl_file = "{secret}"\n'
    found = loaded(tmp_path, text)
    assert found.settings.redis.url == "redis://:hush@h:1/0"
    assert str(secret) in found.origins["redis.url"]
    assert "hush" not in repr(found.settings)
    by_variable = settings(tmp_path, text, {"HEADGATE_REDIS__URL": "redis://other:1"})
    assert by_variable.redis.url == "redis://other:1"
    by_file = settings(tmp_path, MINIMAL, {"HEADGATE_REDIS__URL_FILE": str(secret)})
    assert by_file.redis.url == "redis://:hush@h:1/0"


def test_a_secret_twice_in_one_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "url").write_text("redis://a:1")
    text = MINIMAL + f'[redis]\nurl = "redis://b:1"\nurl_file = "{tmp_path / "url"}"\n'
    (problem,) = problems(tmp_path, text)
    assert "redis.url_file" in problem
    assert "one of the two" in problem


def test_a_missing_secret_file_is_refused(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, MINIMAL + '[redis]\nurl_file = "/nowhere/url"\n')
    assert "redis.url_file" in problem
    assert "/nowhere/url" in problem


def test_secrets_are_not_shown_in_errors(tmp_path: Path) -> None:
    text = MINIMAL + '[redis]\nurl = "http://:hush@h"\n'
    (problem,) = problems(tmp_path, text)
    assert problem.startswith("redis.url")
    assert "hush" not in problem


def test_every_problem_is_told_at_once(tmp_path: Path) -> None:
    text = MINIMAL + '[http]\nport = "8080"\nworkers = 0\nprot = 1\n[htp]\n[logs]\nlevel = "LOUD"\n'
    found = "\n".join(problems(tmp_path, text))
    assert 'http.port (headgate.toml:5): "8080"; expected an integer from 1 to 65535' in found
    assert "http.workers (headgate.toml:6): 0; expected an integer from 1 to 256" in found
    assert 'http.prot (headgate.toml:7): unknown option. Did you mean "port"?\n' in found
    assert 'htp: unknown section. Did you mean "http"?\n' in found
    assert 'logs.level (headgate.toml:10): "LOUD"; expected "DEBUG" or "INFO"' in found


@pytest.mark.parametrize(
    ("text", "named", "expected"),
    [
        ("[http]\nport = true\n", "http.port", "an integer"),
        ("[http]\nport = 8080.5\n", "http.port", "an integer"),
        ("[http]\nport = 65536\n", "http.port", "an integer from 1 to 65535"),
        ("[http]\nhost = 1\n", "http.host", "text"),
        ("http = 1\n", "http", "[http]"),
        ("clusters.main = 1\n", "clusters.main", "[clusters.NAME]"),
        ("[clusters.main]\n", "clusters.main.bootstrap_servers", "Example"),
        ('[producers.a]\nroles = ["admin"]\n', "producers.a.roles", '"produce" or "view"'),
        ("[producers.a]\ntopics = [1]\n", "producers.a.topics", "a list of text"),
        ("[auth]\nmode = 'ldap'\n", "auth.mode", '"none" or "token"'),
        ("[topics.a]\nsuppress = 'exact'\n", "topics.a.suppress", '"off" or "raw"'),
        ("[topics.a]\nspooled = true\n", "topics.a.spooled", 'Did you mean "spool"?'),
        ("[topics.a]\nfrob = true\n", "topics.a.frob", "one of cluster, key"),
        ("[journal]\npath = '/a'\n", "journal", "one of http, admission"),
    ],
)
def test_what_is_refused_names_option_and_allowed_values(
    tmp_path: Path, text: str, named: str, expected: str
) -> None:
    # a top-level key must stand before the tables
    whole = text if "clusters.main" in text else text + MINIMAL
    (problem,) = [each for each in problems(tmp_path, whole) if each.startswith(named)]
    assert expected in problem


@pytest.mark.parametrize(
    ("variable", "value", "expected"),
    [
        ("HEADGATE_HTTP__PROT", "1", 'Did you mean "port"?'),
        ("HEADGATE_AUTH__MODE", "tokens", 'Did you mean "token"?'),
        ("HEADGATE_AUTH__MODE", "mtls,tokens", 'Did you mean "token"?'),
        ("HEADGATE_LOGS__LEVEL", "WARN", 'Did you mean "WARNING"?'),
        ("HEADGATE_HTTP__PORT", "many", "an integer from 1 to 65535"),
        ("HEADGATE_HTPP__PORT", "1", 'Did you mean "http"?'),
        ("HEADGATE_HTTP__PORT__X", "1", "HEADGATE_<SECTION>__<OPTION>"),
        ("HEADGATE_TOPICS__ORDERS__KEY", "/id", "in the file only"),
        ("HEADGATE_CLUSTERS__MAIN__BOOTSTRAP_SERVERS", "[", "a TOML list"),
    ],
)
def test_bad_variables_are_refused(
    tmp_path: Path, variable: str, value: str, expected: str
) -> None:
    (problem,) = problems(tmp_path, MINIMAL, {variable: value})
    assert expected in problem
    assert variable in problem


def test_what_is_not_toml_is_refused_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, "[http\n")
    assert "line 1" in problem


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "[http]\nport = 1\n\n[http]\n",
            "[http] (headgate.toml:4): it is given twice, first in line 1;",
        ),
        (
            "[http]\nport = 1\nport = 2\n",
            "port (headgate.toml:3): it is given twice, first in line 2;",
        ),
        ('[clusters.main]\nsasl_password = "pw1"\nsasl_password = "pw2"\n', "sasl_password (head"),
    ],
)
def test_a_name_that_is_written_twice(tmp_path: Path, text: str, expected: str) -> None:
    (problem,) = problems(tmp_path, text)
    assert problem.startswith(expected)
    assert problem.endswith("expected one occurrence. Merge the two.")
    assert "pw" not in problem


def test_bad_hashes_are_reported_with_all_other_problems(tmp_path: Path) -> None:
    text = MINIMAL + '[http]\nprot = 1\n[producers.a]\ntoken_sha256 = ["hg_x", "abc"]\n'
    found = problems(tmp_path, text)
    assert [each.partition(" ")[0] for each in found] == [
        "http.prot",
        *["producers.a.token_sha256"] * 2,
    ]
    assert all("(headgate.toml:7): not a SHA-256 (" in each for each in found[1:])
    assert "(3 characters)" in found[2]


def test_a_missing_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="does not exist"):
        load(tmp_path / "none.toml", {})


def test_origins_tell_the_line_in_every_spelling(tmp_path: Path) -> None:
    text = (
        'logs.level = "INFO"\n'
        "http = { port = 1, workers = 2 }\n"
        "[clusters]\n"
        'main.bootstrap_servers = "a:1"\n'
        '[ topics . "orders.*" ]  # comment\n'
        '"key" = ["/id"]\n'
    )
    origins = loaded(tmp_path, text).origins
    assert origins["logs.level"] == "headgate.toml:1"
    assert origins["http.port"] == "headgate.toml:2"
    assert origins["clusters.main.bootstrap_servers"] == "headgate.toml:4"
    assert origins['topics."orders.*".key'] == "headgate.toml:6"


def test_a_dotted_key_is_named_with_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, MINIMAL + '[http]\nport = 1\nca.key_file = "x"\n')
    line = len(MINIMAL.splitlines()) + 3
    assert f"(headgate.toml:{line})" in problem


def test_a_value_with_line_ends_stays_on_its_line(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, MINIMAL + '[http]\nport = "a\\nb"\n')
    assert '"a\\nb"; expected' in problem


def test_a_secret_file_may_end_in_a_line_end_only(tmp_path: Path) -> None:
    secret = tmp_path / "password"
    secret.write_text(" a b \n")
    sasl = 'security_protocol = "SASL_SSL"\nsasl_mechanism = "PLAIN"\nsasl_username = "u"\n'
    text = MINIMAL + sasl + f'sasl_password_file = "{secret}"\n'
    assert settings(tmp_path, text).clusters["main"].sasl_password == " a b "


def literal_options() -> list[tuple[str, Option]]:
    """Return each option that takes one of a few words, with its table in TOML."""
    tables = {**{name: f"[{name}]" for name in SECTIONS}, **{name: f"[{name}.a]" for name in NAMED}}
    return [
        (tables[section], option)
        for section, kind in (SECTIONS | NAMED).items()
        for option in options_of(kind).values()
        if "Literal" in str(option.kind)
    ]


@pytest.mark.parametrize(
    ("table", "option"),
    [pytest.param(*each, id=f"{each[0]}{each[1].name}") for each in literal_options()],
)
def test_a_wrong_word_is_refused_with_the_list(tmp_path: Path, table: str, option: Option) -> None:
    assert allowed(option)
    text = f'{MINIMAL}{table}\n{option.name} = "WRONG"\n'
    if table == "[clusters.a]":
        text += 'bootstrap_servers = "127.0.0.1:9092"\n'
    said = [each for each in problems(tmp_path, text) if '"WRONG"' in each]
    assert len(said) == 1
    assert option.name in said[0]
    assert all(f'"{word}"' in said[0] for word in allowed(option))


@pytest.mark.parametrize("mechanism", ["GSSAPI", "AWS_MSK_IAM"])
def test_a_mechanism_without_support_is_refused(tmp_path: Path, mechanism: str) -> None:
    text = (
        f'{MINIMAL}security_protocol = "SASL_SSL"\nsasl_mechanism = "{mechanism}"\n'
        'sasl_username = "u"\nsasl_password = "p"\n'
    )
    (said,) = problems(tmp_path, text)
    assert '"PLAIN" or "SCRAM-SHA-256" or "SCRAM-SHA-512" or "OAUTHBEARER"' in said
