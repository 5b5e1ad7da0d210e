"""The commands of docs/chat.md are run as they stand there, one after the other, before a running service."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from proxy.cli.chat_commands import COMMANDS
from tests.e2e.upstreams import last
from tests.service_fixture import Service

ROOT = Path(__file__).parent.parent
RUN = f"{sys.executable} -m proxy"
PAGE = (ROOT / "docs" / "chat.md").read_text()


def test_the_commands_of_the_page_run(service: Service, user: str, upstream: str, tmp_path: Path) -> None:
    (block,) = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    said = ""
    for line in block.replace("ada", user).splitlines():
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", f'memory-proxy() {{ {RUN} "$@" --url {service.url}; }}\n{line}'],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONPATH": str(ROOT)},
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        said += ran.stdout
        service.settle()
    assert "Talk to the served model" in said
    (sent,) = last(upstream)
    assert [one["role"] for one in sent.json["messages"]] == ["user", "assistant", "user"]


def test_the_page_names_every_command_and_no_other() -> None:
    named = set(re.findall(r"`(/[a-z]+)", PAGE.partition("## What you type")[2].partition("## What goes wrong")[0]))
    assert named == set(COMMANDS)
