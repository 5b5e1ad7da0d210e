"""The configuration: defaults, places of faults, precedence, secrets, and the generated file."""

from __future__ import annotations

import json
import pwd
import string
from collections.abc import Mapping
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import SecretStr, ValidationError

from memory.config import (
    ENV_PREFIX,
    Settings,
    asks_upstream,
    digest,
    effective_cache_salt,
    effective_data_dir,
    effective_journal,
    fields_of,
    is_loopback,
    load_settings,
    render_config,
    settings_from_environ,
    write_private,
)
from memory.config_file import parse_config, parse_scalar
from memory.config_text import expectation
from memory.errors import ConfigInvalid
from memory.home import home_dir

REPOSITORY = Path(__file__).parents[1]


def refusal(
    tmp_path: Path, text: str, overrides: Mapping[str, object] | None = None, environ: Mapping[str, str] | None = None
) -> list[str]:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load_settings(path, overrides or {}, environ or {})
    return str(caught.value).replace(f"{path}:", "line ").splitlines()


def accepted(tmp_path: Path, text: str, environ: Mapping[str, str] | None = None) -> Settings:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    return load_settings(path, {}, environ or {})


def test_committed_config_file_is_the_generated_one_and_loads_to_the_defaults() -> None:
    committed = REPOSITORY / "config.yaml"
    assert committed.read_text(encoding="utf-8") == render_config(Settings())
    assert load_settings(committed, {}, {}) == Settings()


def test_another_model_for_facts_must_be_named(tmp_path: Path) -> None:
    assert "chat_model.model" in refusal(tmp_path, "extract: {by: model}\n")[-1]
    assert accepted(tmp_path, "extract: {by: model}\nchat_model: {model: openai/x}\n").extract.by == "model"


def test_settings_of_a_bucket_go_together(tmp_path: Path) -> None:
    assert refusal(tmp_path, "artifacts: {s3_url: 'http://minio:9000'}\n") == [
        "line 1: artifacts.s3_url: expected artifacts.s3_bucket as well"
    ]
    for one, lacking in (("access", "secret"), ("secret", "access")):
        said = refusal(tmp_path, f"artifacts: {{s3_bucket: files, s3_{one}_key: hush}}\n")
        assert said == [f"line 1: artifacts.s3_{one}_key: expected artifacts.s3_{lacking}_key as well, or neither"]
    keys = "s3_access_key: a, s3_secret_key: b"
    for whole in ("s3_bucket: files", f"s3_bucket: files, {keys}", keys):
        assert accepted(tmp_path, f"artifacts: {{{whole}}}\n").artifacts.s3_region == "us-east-1"


def test_every_setting_has_a_default_a_description_and_an_expectation() -> None:
    for key, field in fields_of().items():
        assert not field.is_required(), key
        assert field.description, key
        assert expectation(field), key


def test_no_file_no_variables_give_the_defaults() -> None:
    assert load_settings(None, {}, {}) == Settings()


@pytest.mark.parametrize("text", ["", "# nothing\n", "listen:\n", "listen: {}\n", "null\n", "---\n"])
def test_empty_files_and_sections_give_the_defaults(tmp_path: Path, text: str) -> None:
    assert accepted(tmp_path, text) == Settings()


def test_all_faults_are_named_at_once_with_their_lines(tmp_path: Path) -> None:
    text = "listen:\n  prot: 80\n  port: eighty\nrecal:\n  a: 1\nqueue:\n  lanes: 0\n  lanes: 2\n"
    assert refusal(tmp_path, text) == [
        "line 2: listen.prot: unknown; did you mean listen.port?",
        'line 3: listen.port: expected a whole number from 0 to 65535, found "eighty"',
        "line 4: recal: unknown; did you mean recall?",
        "line 7: queue.lanes: expected a whole number from 1 to 1024, found 0",
        "line 8: queue.lanes: given twice; first in line 7",
    ]


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("listen: {port: true}", "expected a whole number from 0 to 65535, found true"),
        ("listen: {port: 80.5}", "expected a whole number from 0 to 65535, found 80.5"),
        ("listen: {port: '80'}", 'expected a whole number from 0 to 65535, found "80"'),
        ("listen: {port: 010}", 'expected a whole number from 0 to 65535, found "010"'),
        ("listen: {host: null}", "expected text without spaces, found nothing"),
        ("listen: {host: {a: b}}", "expected a plain value or a list of plain values"),
        ("listen: 8080", "expected a section"),
        ("identity: {from_openai_user: yes}", 'expected true or false, found "yes"'),
        ("recall: {deadline_ms: .nan}", "expected a number from 1 to 60000"),
        ("ledger: {tokens_max_share: 1.01}", "expected a number from 0 to 1, found 1.01"),
        ("overflow: drop", 'expected error or summarise, found "drop"'),
        ("overflow: {a: 1}", "overflow"),
        ("upstream: {url: 127.0.0.1:8000}", "expected an http:// or https:// URL with a host"),
        ("upstream: {url: 'http://vllm..svc:8000'}", "expected a URL with a host whose name has parts of 1 to 63"),
        (f"upstream: {{url: 'http://{'a' * 64}:8000'}}", "expected a URL with a host whose name has parts of 1 to 63"),
        ("upstream: {url: 'http://h:99999'}", "expected"),
        ("upstream: {metrics_urls: [ftp://h]}", 'found ["ftp://h"]'),
        ("upstream: {metrics_urls: [[a]]}", "expected a plain value or a list of plain values"),
        ("data: {dir: !!python/object:os.system {}}", "expected a plain value"),
        ("log: {level: loud}", 'expected debug or info or warning or error, found "loud"'),
        ("listen: [1", "not YAML"),
        ("listen: {port: 1", "expected ',' or '}', but got '<stream end>'"),
        ("listen:\n\tport: 1\n", "character '\\t' that cannot start any token; it is a tab, and only spaces indent"),
        ("[listen]\nport = 1\n", "expected '<document start>', but found '<"),
        ("a: 1\n--- \nb: 2\n", "not YAML"),
        (f"listen: {{port: {'[' * 5000}", "nested too deeply"),
        ("data: {dir: ~nobody-of-that-name/x}", "expected a path whose ~ names somebody of this machine"),
        ('data: {dir: "/d\\0"}', "expected a path without control characters"),
        ('data: {dir: "/d\\n"}', "expected a path without control characters"),
        ('data: {dir: "/d\\uDCFF"}', "expected a path"),
        ('upstream: {url: "http://vllm:8000\\n"}', "expected a URL without spaces"),
        ('upstream: {api_key: "sk-1\\n"}', "expected a key without spaces or line breaks"),
        ('artifacts: {s3_secret_key: " x"}', "expected a key without spaces or line breaks"),
        ("- listen", "expected sections, found a list"),
        ("? [a]\n: 1", "expected a name, found a list"),
        ("listen: &a\n  host: *a\n", "plain value"),
        ("database: {owner_url: 'postgresql://h/d'}", "expected database.url as well"),
        ("redis: {url: 'redis+cluster://h:7000,g:7001/1'}", "a cluster has only one (give each service a cluster"),
        ("redis: {url: 'redis+cluster://h:7000,g:70010'}", "a URL whose port is a number"),
        ("redis: {url: 'unix+cluster:///run/v.sock'}", "redis+cluster://"),
        ("redis: {cache_url: 'redis://h'}", "expected redis.url as well"),
        ("database: {url: 'postgresql://u:p@h/d?sslmode=require&connect_timeout=10'}", "a URL without connect_timeout"),
        ("database: {url: 'postgresql://u:p@h/d?channel_binding=require'}", "a URL without channel_binding"),
    ],
)
def test_a_wrong_value_is_refused_with_what_was_expected(tmp_path: Path, text: str, said: str) -> None:
    (line,) = refusal(tmp_path, text)
    assert said in line
    assert line.startswith("line ")


def test_an_unreadable_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="No such file"):
        load_settings(tmp_path / "absent.yaml", {}, {})
    (tmp_path / "latin.yaml").write_bytes(b"log: {level: \xff}")
    with pytest.raises(ConfigInvalid, match="not UTF-8 at byte 13"):
        load_settings(tmp_path / "latin.yaml", {}, {})


def test_command_line_beats_environment_beats_file(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("listen: {port: 1, workers: 2, drain_s: 3}\n")
    environ = {"MEMORY_PROXY_LISTEN__PORT": "11", "MEMORY_PROXY_LISTEN_WORKERS": "12", "HOME": "/x"}
    settings = load_settings(path, {"listen.port": 21, "listen.host": None}, environ)
    assert (settings.listen.port, settings.listen.workers, settings.listen.drain_s) == (21, 12, 3)
    assert settings.listen.host == "127.0.0.1"


def test_variables_are_read_as_the_type_of_their_setting() -> None:
    settings = load_settings(
        None,
        {"upstream.url": "http://h:1/"},
        {
            "MEMORY_PROXY_UPSTREAM__API_KEY": "12345",
            "MEMORY_PROXY_UPSTREAM__METRICS_URLS": "[http://a/metrics, http://b/metrics]",
            "MEMORY_PROXY_UPSTREAM__CACHE_SALT": "off",
            "MEMORY_PROXY_IDENTITY_FROM_OPENAI_USER": "false",
            "MEMORY_PROXY_OVERFLOW": "error",
            "MEMORY_PROXY_EMBEDDING_DIM": "null",
            "MEMORY_PROXY_DATA_DIR": "/d",
        },
    )
    assert settings.upstream.api_key == SecretStr("12345")
    assert settings.upstream.metrics_urls == ("http://a/metrics", "http://b/metrics")
    assert settings.upstream.cache_salt == "off"
    assert settings.data.dir == Path("/d")
    assert settings.upstream.url == "http://h:1"
    assert not settings.identity.from_openai_user


@pytest.mark.parametrize("written", ["http://h:1/v1", "http://h:1/v1/", "http://h:1", "http://h:1/"])
def test_an_upstream_may_be_named_as_clients_name_it(tmp_path: Path, written: str) -> None:
    """With /v1 at its end each call went to /v1/v1, and was 404."""
    assert accepted(tmp_path, f"upstream: {{url: '{written}'}}").upstream.url == "http://h:1"
    assert accepted(tmp_path, "upstream: {url: 'http://h/team/v1'}").upstream.url == "http://h/team"


@pytest.mark.parametrize("written", ["http://c:4318/v1/traces", "http://c:4318/v1/traces/", "http://c:4318"])
def test_a_collector_may_be_named_as_other_programs_name_it(tmp_path: Path, written: str) -> None:
    """With the path at its end traces went to /v1/traces/v1/traces: each was failed, and nothing said so."""
    assert accepted(tmp_path, f"telemetry: {{otlp_endpoint: '{written}'}}").telemetry.otlp_endpoint == "http://c:4318"


@pytest.mark.parametrize(("said", "meant"), [("MASTERKEY", "MASTER_KEY"), ("KEYS", "KEY")])
def test_a_variable_that_is_no_setting_is_the_nearest_name_too(tmp_path: Path, said: str, meant: str) -> None:
    """A misspelt master key was taken for the number of workers."""
    lines = refusal(tmp_path, "", {}, {f"MEMORY_PROXY_{said}": "x"})
    assert lines == [f"environment MEMORY_PROXY_{said}: unknown; did you mean MEMORY_PROXY_{meant}?"]


def test_an_unknown_variable_is_refused_with_the_nearest_name(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "", {"listen.prt": 1}, {"MEMORY_PROXY_UPSTREM_URL": "x", "MEMORY_PROXY_ZZZZ": "1"})
    assert lines == [
        "command line: listen.prt: unknown; did you mean listen.port?",
        "environment MEMORY_PROXY_UPSTREM_URL: unknown; did you mean MEMORY_PROXY_UPSTREAM_URL?",
        "environment MEMORY_PROXY_ZZZZ: unknown",
    ]


@pytest.mark.parametrize("url", ["http://vllm ", "http://my host:8000", "http://vllm/a b"])
def test_an_address_with_a_space_is_refused(tmp_path: Path, url: str) -> None:
    (line,) = refusal(tmp_path, "", {}, {"MEMORY_PROXY_UPSTREAM__URL": url})
    assert "upstream.url: expected a URL without spaces, found" in line


def test_a_value_that_is_nested_without_end_is_refused_like_any_other(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, "", {}, {"MEMORY_PROXY_LISTEN__PORT": "[" * 5000})
    assert line.startswith("environment MEMORY_PROXY_LISTEN__PORT: listen.port: expected a whole number")


def test_a_path_that_is_not_utf_8_is_refused(tmp_path: Path) -> None:
    """As the shell hands over a name in Latin-1: it could stand in no URL and in no settings of a child."""
    (line,) = refusal(tmp_path, "", {"data.dir": "/tmp/\udcff"})
    assert "command line: data.dir: expected a path in UTF-8" in line


def test_an_empty_option_is_refused_where_an_empty_variable_means_none(tmp_path: Path) -> None:
    """`--data-dir "$DIR"` without a DIR would serve another store, the account's own."""
    (line,) = refusal(tmp_path, "", {"data.dir": ""})
    assert line == 'command line: data.dir: expected a path or null, found ""'
    assert accepted(tmp_path, "", {"MEMORY_PROXY_DATA__DIR": ""}) == Settings()


def test_a_clients_key_in_the_environment_is_no_setting(tmp_path: Path) -> None:
    """docs/keys.md has it exported before commands that read the configuration."""
    assert accepted(tmp_path, "", {"MEMORY_PROXY_KEY": "mp-1a2b3c4d-secret"}) == Settings()


def test_what_kubernetes_sets_for_a_service_of_our_name_is_no_setting(tmp_path: Path) -> None:
    links = {
        "MEMORY_PROXY_SERVICE_HOST": "10.96.0.7",
        "MEMORY_PROXY_SERVICE_PORT": "8080",
        "MEMORY_PROXY_SERVICE_PORT_HTTP": "8080",
        "MEMORY_PROXY_PORT": "tcp://10.96.0.7:8080",
        "MEMORY_PROXY_PORT_8080_TCP": "tcp://10.96.0.7:8080",
        "MEMORY_PROXY_PORT_8080_TCP_ADDR": "10.96.0.7",
        "MEMORY_PROXY_CANARY_SERVICE_HOST": "10.96.0.8",
    }
    pod = {"KUBERNETES_SERVICE_HOST": "10.96.0.1", "MEMORY_PROXY_LISTEN__PORT": "81"}
    assert accepted(tmp_path, "", {**pod, **links}).listen.port == 81
    assert len(refusal(tmp_path, "", {}, links)) == len(links), "elsewhere they are typing errors"
    (line,) = refusal(tmp_path, "", {}, {**pod, "MEMORY_PROXY_PORT": "8080"})
    assert line.startswith("environment MEMORY_PROXY_PORT: unknown")


def test_a_variable_that_nobody_reads_is_refused(tmp_path: Path) -> None:
    lines = refusal(tmp_path, "", {}, {"MEMORY_PROXY_CONFIG": "/etc/memory-proxy.yaml"})
    assert lines == ["environment MEMORY_PROXY_CONFIG: unknown"]


def test_two_spellings_of_one_variable_must_agree(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, "", {}, {"MEMORY_PROXY_LISTEN_PORT": "1", "MEMORY_PROXY_LISTEN__PORT": "2"})
    assert "differs from environment MEMORY_PROXY_LISTEN_PORT" in line


def test_open_mode_on_the_network_is_refused_unless_forced(tmp_path: Path) -> None:
    (line,) = refusal(tmp_path, "log: {level: info}\nlisten:\n  host: 0.0.0.0\n")
    assert line.startswith("line 3: listen.host: 0.0.0.0 can be reached from the network")
    assert accepted(tmp_path, "listen: {host: 0.0.0.0, open_on_network: true}").listen.open_on_network
    assert accepted(tmp_path, "listen: {host: 0.0.0.0}\nauth: {mode: keys}").auth.mode == "keys"
    assert accepted(tmp_path, "listen: {host: '::1'}").listen.host == "::1"


def test_an_address_to_listen_on_is_one_without_brackets_and_without_a_port(tmp_path: Path) -> None:
    assert accepted(tmp_path, "listen: {host: '[::1]'}").listen.host == "::1"
    for host in ("127.0.0.1:8080", "localhost:8080", "[::1]:8080", "[::1"):
        (line,) = refusal(tmp_path, f"listen: {{host: '{host}'}}")
        assert line.startswith("line 1: listen.host: expected an address without a port (listen.port says that)"), line
    assert accepted(tmp_path, "listen: {host: '::ffff:127.0.0.1', open_on_network: true}").listen.host


def test_loopback_is_told_from_network() -> None:
    assert all(map(is_loopback, ("127.0.0.1", "127.8.0.1", "::1", "localhost")))
    assert not any(map(is_loopback, ("0.0.0.0", "::", "10.0.0.1", "example.org", "")))


SECRET = "hunter2-and-more"


@pytest.mark.parametrize(
    "text",
    [
        f"upstream: {{api_key: [{SECRET}]}}",
        f"database: {{url: 'mysql://u:{SECRET}@h'}}",
        f"redis: {{url: '{SECRET}'}}",
        f"upstream: {{url: 'http://u:{SECRET}@h'}}",
        f"upstream:\n  api_key: '{SECRET}\n",
        f"upstream:\n  api_key: *{SECRET}\n",
        f"upstream:\n  api_key: !{SECRET} x\n",
        f"upstream:\n\tapi_key: {SECRET}\n",
        f"upstream:\n  api_key: @{SECRET}\n",
        f"chat_model: {{api_key: {{a: {SECRET}}}}}",
        f"database: {{url: 'postgresql://u:a[{SECRET}]b@h/d'}}",
        f"redis: {{url: 'redis://:a[{SECRET}]b@h'}}",
        f"upstream: {{url: 'http://u:a[{SECRET}]b@h'}}",
        f"redis: {{url: 'redis://:{SECRET}/b@h'}}",
        f"redis: {{url: 'redis://h', cache_url: 'rediss://u:{SECRET}#b@h'}}",
        f"upstream: {{url: 'http://u:{SECRET}/b@h'}}",
        f"upstream: {{url: 'http://u:a {SECRET}@h'}}",
    ],
)
def test_a_refusal_never_shows_a_secret(tmp_path: Path, text: str) -> None:
    assert SECRET not in "\n".join(refusal(tmp_path, text))


def test_a_repr_a_rendered_file_and_a_digest_hold_no_secret() -> None:
    overrides = {
        "upstream.api_key": SECRET,
        "database.url": f"postgresql://u:{SECRET}@h/d",
        "redis.url": f"rediss://:{SECRET}@h",
    }
    settings = load_settings(None, overrides, {})
    assert SECRET not in repr(settings) + str(settings) + render_config(settings) + settings.model_dump_json()
    assert digest(settings) == digest(Settings())


def test_digest_follows_what_decides_a_recall_and_nothing_else() -> None:
    base = digest(Settings())
    assert digest(load_settings(None, {"recall.budget_tokens_max": 999}, {})) != base
    assert digest(load_settings(None, {"embedding.model": "other"}, {})) != base
    assert digest(load_settings(None, {"upstream.sensitivity_max": "public"}, {})) != base
    assert digest(load_settings(None, {"personal.email": "mask"}, {})) != base
    counted = [digest(load_settings(None, {"tokenizer.directory": path}, {})) for path in ("/m", "/n")]
    assert base not in counted and counted[0] == counted[1]
    assert digest(load_settings(None, {"listen.port": 9}, {})) == base
    assert digest(load_settings(None, {"upstream.url": "http://elsewhere:8000"}, {})) == base
    assert digest(load_settings(None, {"embedding.directory": "/m"}, {})) == base


def test_a_chat_model_without_an_address_is_the_vllm_that_serves() -> None:
    def asks(**given: str) -> bool:
        return asks_upstream(load_settings(None, {name.replace("__", "."): said for name, said in given.items()}, {}))

    model = {"extract__by": "model", "chat_model__model": "openai/x"}
    assert asks(extract__by="vllm") and asks(**model)
    assert asks(**model, chat_model__api_base="http://127.0.0.1:8000/v1")
    assert not asks(**model, chat_model__api_base="https://b/v1") and not asks(extract__by="rules")


def test_cache_salt_follows_the_auth_mode() -> None:
    assert effective_cache_salt(Settings()) == "off"
    assert effective_cache_salt(load_settings(None, {"auth.mode": "keys"}, {})) == "tenant"
    assert effective_cache_salt(load_settings(None, {"auth.mode": "keys", "upstream.cache_salt": "off"}, {})) == "off"


def test_roots_data_directory_can_be_entered_by_another_account() -> None:
    home = Path("/root")
    assert effective_data_dir(Settings(), is_root=True, home=home) == Path("/var/lib/memory-proxy")
    assert effective_data_dir(Settings(), is_root=False, home=home) == home / ".local/share/memory-proxy"
    given_dir = load_settings(None, {"data.dir": "relative"}, {})
    assert effective_data_dir(given_dir, is_root=True, home=home) == Path.cwd() / "relative"


def test_an_account_without_a_home_is_served_where_it_says_where(monkeypatch: pytest.MonkeyPatch) -> None:
    """As of a number that a container was given, with HOME taken out of its environment."""

    def nobody(number: int) -> None:
        raise KeyError(number)

    monkeypatch.delenv("HOME")
    monkeypatch.setattr(pwd, "getpwuid", nobody)
    given_dir = load_settings(None, {"data.dir": "/data"}, {})
    assert effective_data_dir(given_dir, is_root=False, home=home_dir()) == Path("/data")


def test_children_get_the_same_settings_secrets_included(tmp_path: Path) -> None:
    overrides = {
        "upstream.api_key": SECRET,
        "upstream.metrics_urls": "[http://a/metrics]",
        "database.url": "postgresql://mp_app@/memory_proxy?host=/s",
        "data.dir": str(tmp_path),
        "recall.deadline_ms": 12.5,
    }
    settings = load_settings(None, overrides, {})
    path = tmp_path / "settings.json"
    for _ in range(2):
        write_private(settings, path)
    assert path.stat().st_mode & 0o777 == 0o600
    assert settings_from_environ({f"{ENV_PREFIX}SETTINGS": str(path)}) == settings
    with pytest.raises(ConfigInvalid, match="MEMORY_PROXY_SETTINGS is not set"):
        settings_from_environ({})
    path.write_text('{"upstream": {"api_key": ["hunter2"]}}')
    with pytest.raises(ConfigInvalid) as caught:
        settings_from_environ({f"{ENV_PREFIX}SETTINGS": str(path)})
    assert "hunter2" not in str(caught.value)


def test_a_relative_path_means_the_same_file_to_children_and_commands_given_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`forget --scrub` notes an erasure where the service looks for it when its database comes from a backup."""
    monkeypatch.chdir(tmp_path)
    settings = load_settings(None, {"erasure.journal": "kept/erasures.ndjson", "artifacts.dir": "files"}, {})
    write_private(settings, tmp_path / "settings.json")
    monkeypatch.chdir("/")
    told = settings_from_environ({"MEMORY_PROXY_SETTINGS": str(tmp_path / "settings.json")})
    assert effective_journal(told, tmp_path / "data") == tmp_path / "kept" / "erasures.ndjson"
    assert told.artifacts.dir == tmp_path / "files"


def test_settings_cannot_be_changed() -> None:
    with pytest.raises(ValidationError):
        Settings().listen.port = 1


@given(st.text(alphabet=string.printable, max_size=200))
def test_any_text_is_parsed_or_refused_but_never_raises(text: str) -> None:
    parsed = parse_config(text, "f")
    assert set(parsed.values) <= set(parsed.lines)


@given(st.one_of(st.integers(), st.booleans(), st.none(), st.floats(allow_nan=False, allow_infinity=False)))
def test_a_plain_value_survives_the_file(value: object) -> None:
    assert parse_scalar(json.dumps(value)) == value


@given(st.text(min_size=1, max_size=40).filter(lambda text: not any(character.isspace() for character in text)))
def test_a_rendered_file_loads_to_the_same_settings(word: str) -> None:
    try:
        settings = load_settings(None, {"embedding.model": word}, {})
    except ConfigInvalid:
        return
    parsed = parse_config(render_config(settings), "f")
    assert parsed.problems == ()
    assert parsed.values["embedding.model"] == word
