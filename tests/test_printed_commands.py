"""Every command that a page or an alert prints is one that the program takes. Parsed, not run: other tests run them."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from proxy.cli.parser import COMMANDS, build_parser

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
PROMETHEUS = ROOT / "deploy" / "prometheus"
OURS = re.compile(r"(?:^|\(|\| |=\S+ |^# +)(?:\.venv/bin/)?memory-proxy (.*)", re.MULTILINE)
BESIDE = re.compile(r"\s{2,}.*| #.*|[|>;)].*")
"""What stands behind a command in a block: what it does, a comment, where its output goes, the end of a `$(…)`."""
UNSAID = re.compile(r"arguments are required|expected one argument")


def in_blocks(text: str) -> Iterator[str]:
    """What follows the program's name in blocks of shell, and in those of no language."""
    for language, block in re.findall(r"^```(\w*)\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if language in ("", "sh"):
            whole = re.sub(r"\\\n\s*", "", block)
            yield from (BESIDE.sub("", said).strip() for said in OURS.findall(whole))


def in_prose(text: str) -> Iterator[str]:
    """The same between backticks, where a line may end in the middle."""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    yield from (" ".join(said.split()) for said in re.findall(r"`memory-proxy\s([^`]+)`", prose) if "…" not in said)


def blocks() -> Iterator[tuple[str, str]]:
    """Where, and a command without the program's name."""
    for page in PAGES:
        yield from ((page.name, said) for said in in_blocks(page.read_text("utf-8")))
    scrape = (PROMETHEUS / "scrape.yaml").read_text("utf-8")
    yield from (("scrape.yaml", BESIDE.sub("", said).strip()) for said in OURS.findall(scrape))


def prose() -> Iterator[tuple[str, str]]:
    """The same of sentences: those of an alert are found by its name."""
    for page in PAGES:
        yield from ((page.name, said) for said in in_prose(page.read_text("utf-8")))
    for group in yaml.safe_load((PROMETHEUS / "alerts.yaml").read_text("utf-8"))["groups"]:
        for rule in group["rules"]:
            yield from ((rule["alert"], said) for said in in_prose(" ".join(rule["annotations"].values())))


BLOCKS, PROSE = sorted(set(blocks())), sorted(set(prose()))


def refused(said: str, capsys: pytest.CaptureFixture[str]) -> str:
    """Why the program does not take a command; "" where it does."""
    words = shlex.split(said.replace("[", "").replace("]", ""))
    assert words[0] in {*COMMANDS, "eval"}, f"{said} is no command of ours"
    try:
        build_parser(words).parse_args(words)
    except SystemExit as ended:
        return capsys.readouterr().err if ended.code else ""
    return ""


@pytest.mark.parametrize(("where", "said"), BLOCKS, ids=[f"{where}: {said}" for where, said in BLOCKS])
def test_a_command_that_is_to_be_copied_is_taken(where: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert refused(said, capsys) == "", where


@pytest.mark.parametrize(("where", "said"), PROSE, ids=[f"{where}: {said}" for where, said in PROSE])
def test_a_command_that_is_spoken_of_is_there(where: str, said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """It may be named without what it needs: `key create`, `redact --reveal`."""
    why = refused(said, capsys)
    assert why == "" or UNSAID.search(why), where


def test_pages_and_alerts_print_commands() -> None:
    assert {"README.md", "tasks.md", "lifetime.md", "keys.md", "scrape.yaml"} <= {where for where, _ in BLOCKS}
    assert {"README.md", "HygieneBad"} <= {where for where, _ in PROSE}
    assert len(BLOCKS) > 80 and len(PROSE) > 50
