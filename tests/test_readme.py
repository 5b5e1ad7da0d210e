"""The README's commands and its snippet are run as they stand there, against a running service."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memory.config import Settings, effective_journal, fields_of
from tests.service_fixture import Service

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text()
OURS = ".venv/bin/memory-proxy"
TALKS_TO_SERVICE = {
    "search", "sessions", "memories", "import", "export", "documents", "entities", "tasks", "artifacts",
}  # fmt: skip


def blocks(language: str) -> list[str]:
    """The fenced blocks of one language."""
    return re.findall(rf"^```{language}\n(.*?)^```", README, re.MULTILINE | re.DOTALL)


def commands(program: str) -> list[str]:
    """The shell lines that begin with a program, without their comments."""
    lines = [line.split("  #")[0].strip() for block in blocks("sh") for line in block.splitlines()]
    return [line for line in lines if line.startswith(program + " ")]


def test_the_readme_has_commands() -> None:
    assert len(commands("make")) >= 4
    assert len(commands(OURS)) >= 5
    assert blocks("python")


@pytest.mark.parametrize("command", commands("make"))
def test_make_targets_of_the_readme_exist(command: str) -> None:
    words = ["make", "-n", *shlex.split(command)[1:]]
    assert subprocess.run(words, cwd=ROOT, capture_output=True, timeout=60).returncode == 0


def test_the_page_of_backups_names_what_a_backup_must_have() -> None:
    table = (ROOT / "docs" / "backup.md").read_text().partition("## A copy")[0]
    assert f"`{effective_journal(Settings(), Path('DIR'))}`" in table
    named = set(re.findall(r"`([a-z]+\.[a-z_]+)`", table))
    assert named <= fields_of().keys()
    assert {"erasure.journal", "encryption.master_key_file", "artifacts.dir", "database.url", "redis.url"} <= named


def test_the_snippet_remembers_what_it_was_told(service: Service) -> None:
    source = blocks("python")[0].replace("http://127.0.0.1:8080", service.url).replace("your-model", "fake-model")
    told, asked = source.split("# later")
    scope: dict[str, object] = {}
    exec(compile(told, "README.md", "exec"), scope)
    service.settle()
    exec(compile("# later" + asked, "README.md", "exec"), scope)
    found = service.call(
        "POST", "/memory/v1/search", {"query": "What is my boat called?"}, content_type="application/json"
    )
    assert any("Halcyon" in candidate["content"] for candidate in found["candidates"])


@pytest.mark.parametrize("command", commands(OURS))
def test_commands_of_the_readme_run(command: str, service: Service, tmp_path: Path) -> None:
    (tmp_path / "past.ndjson").write_text(json.dumps({"role": "user", "content": "I play the cello."}) + "\n")
    words = shlex.split(command)[1:]
    if words[0] in TALKS_TO_SERVICE:
        words += ["--url", service.url]
    if words[0] == "doctor":  # beside the service's data: as root, Postgres' account must be able to enter
        words += ["--upstream", service.upstream, "--data-dir", str(service.data.parent / "doctor"), "--port", "0"]
    if words[0] == "hygiene":  # it reads the running service's database
        words += ["--data-dir", str(service.data)]
    ran = subprocess.run(
        [sys.executable, "-m", "proxy", *words], cwd=tmp_path, capture_output=True, text=True, timeout=100
    )
    assert ran.returncode == 0, ran.stdout + ran.stderr
