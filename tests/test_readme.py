"""The README's commands and its snippet are run as they stand there, against a running service."""

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from memory.config import Settings, effective_journal, fields_of
from memory.read.answers import ANSWER_TTL_S
from memory.read.query_cache import TTL_S
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


def test_an_environment_without_pip_is_mended_by_the_next_install(tmp_path: Path) -> None:
    """Where ensurepip is missing (Debian's python3-venv), `python -m venv` fails and leaves a Python without pip."""
    python = tmp_path / "python"
    python.write_text("""#!/bin/sh
case "$*" in
    "-m venv .venv") mkdir -p .venv/bin && cp "$0" .venv/bin/python && test -e apt && touch pip ;;
    "-m pip"*) test -e pip || { echo "No module named pip" >&2; exit 1; } ;;
esac
""")
    python.chmod(0o755)
    for name in ("requirements.lock", "requirements-nodeps.lock", "pyproject.toml"):
        (tmp_path / name).touch()
    install = ["make", "-f", str(ROOT / "Makefile"), f"PYTHON={python}", "install"]
    assert subprocess.run(install, cwd=tmp_path, capture_output=True, timeout=60).returncode != 0
    (tmp_path / "apt").touch()  # apt-get install python3-venv
    ran = subprocess.run(install, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert ran.returncode == 0, ran.stdout + ran.stderr


def headings(page: Path) -> set[str]:
    """The anchors of a page, as GitHub makes them."""
    found = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL), re.M)
    return {re.sub(r"[^\w\- ]", "", one.lower()).replace(" ", "-") for one in found}


def test_every_page_is_reached_from_the_readme_and_every_link_leads_somewhere() -> None:
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
    reached = set[Path]()
    for page in pages:
        for target in re.findall(r"\]\(([^)\s]+)\)", page.read_text()):
            name, _, anchor = target.partition("#")
            if target.startswith("http"):
                continue
            there = (page.parent / name).resolve() if name else page
            assert there.exists(), (page.name, target)
            assert not anchor or anchor in headings(there), (page.name, target)
            if page == pages[0]:
                reached.add(there)
    assert {page for page in pages[1:] if page.parent.name == "docs"} <= reached


def test_what_a_page_sends_as_a_header_is_what_a_header_may_hold() -> None:
    """A name with a blank is percent-encoded there; as it is, the answer is 400."""
    pages = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
    sent = [one for page in pages for one in re.findall(r'"X-Memory-[A-Za-z-]+": "([^"]*)"', page.read_text())]
    assert sent and [one for one in sent if not re.fullmatch(r"[!-~]+", one)] == []


def test_the_page_of_benchmarks_makes_the_directories_that_it_writes_to() -> None:
    """The benchmarks refuse a file whose directory is not there: half an hour later it would be too late."""
    page = (ROOT / "docs" / "benchmarks.md").read_text()
    shell = "".join(re.findall(r"^```sh\n(.*?)^```", page, re.MULTILINE | re.DOTALL))
    written = {str(Path(file).parent) for file in re.findall(r"--(?:json|plot) (\S+)", shell)}
    assert written <= {".", *re.findall(r"^mkdir -p (\S+)$", shell, re.MULTILINE)}


def test_the_page_of_architecture_says_how_long_a_process_keeps_what_it_found() -> None:
    page = (ROOT / "docs" / "architecture.md").read_text()
    assert f"answers for {ANSWER_TTL_S:.0f} s, vectors of questions for {TTL_S:.0f} s" in page


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
