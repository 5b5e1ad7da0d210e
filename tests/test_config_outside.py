"""The section `outside`: what is wrong is named with its remedy, and no setting opens a private network."""

from __future__ import annotations

from pathlib import Path

import pytest

from memory.config import Settings, load_settings
from memory.errors import ConfigInvalid


def refused(tmp_path: Path, text: str) -> str:
    path = tmp_path / "config.yaml"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ConfigInvalid) as caught:
        load_settings(path, {}, {})
    return str(caught.value)


def test_it_is_off_by_default() -> None:
    assert Settings().outside.enabled is False


def test_lists_are_read_in_one_writing(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(
        "outside:\n  enabled: true\n  search_url: http://10.0.0.5:8888\n  allow: [Example.com, '*.Bücher.de']\n"
        "  deny: [bad.example.com, 203.0.113.7, 2001:db8::/32]\n  ports: [443, 8443]\n"
    )
    outside = load_settings(path, {}, {}).outside
    assert outside.allow == ("example.com", "xn--bcher-kva.de")
    assert outside.deny == ("bad.example.com", "203.0.113.7/32", "2001:db8::/32")
    assert outside.ports == (443, 8443)


def test_lists_come_from_the_environment_too() -> None:
    given = {"MEMORY_PROXY_OUTSIDE__DENY": "[example.com]", "MEMORY_PROXY_OUTSIDE__PAGES_MAX": "2"}
    outside = load_settings(None, {}, given).outside
    assert (outside.deny, outside.pages_max) == (("example.com",), 2)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("enabled: true", "outside.enabled: expected outside.search_url as well"),
        ("search_url: searx", "expected an http:// or https:// URL"),
        ("allow: ['https://example.com/x']", "a bare name, without scheme or path"),
        ("allow: [203.0.113.7]", "a name like example.com, which stands for all names below it too"),
        ("deny: [10.0.0.0/99]", "a network like 203.0.113.0/24"),
        ("deny: ['a b']", "a name like example.com"),
        ("ports: [0]", "a list of ports from 1 to 65535"),
        ("ports: []", "a list of ports from 1 to 65535"),
        ("pages_max: 0", "a whole number from 1 to 20"),
        ("page_bytes_max: 1e12", "a whole number from 1024"),
        ("contact: 'two words'", "printable text without spaces"),
        ("private: true", "unknown"),
    ],
)
def test_a_fault_is_named_with_its_remedy(tmp_path: Path, text: str, says: str) -> None:
    assert says in refused(tmp_path, f"outside:\n  {text}\n")
