"""The commands of docs/keys.md are run as they stand there, one after the other, beside a service in keys mode."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.service_fixture import serving

PAGE = (Path(__file__).parent.parent / "docs" / "keys.md").read_text()


@pytest.mark.long
@pytest.mark.timeout(300)  # ten commands, each a process of its own
def test_the_commands_of_the_page_run(upstream: str, tmp_path: Path) -> None:
    blocks = re.findall(r"^```sh\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    assert len(blocks) == 2
    script = (
        "memory-proxy() { "
        + f'{sys.executable} -m proxy "$@"; }}\n'
        + "\n".join(
            # A key that was just made is known to the service within a second.
            block.replace("export MEMORY_PROXY_KEY", "sleep 1.2\nexport MEMORY_PROXY_KEY")
            for block in blocks
        )
    )
    with serving(upstream, env={"MEMORY_PROXY_AUTH__MODE": "keys"}) as service:
        ran = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", script.replace("http://127.0.0.1:8080", service.url)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=280,
            env={
                **os.environ,
                "MEMORY_PROXY_DATA__DIR": str(service.data),
                "MEMORY_PROXY_AUTH__MODE": "keys",
                "PYTHONPATH": str(Path(__file__).parent.parent),
            },
        )
    assert ran.returncode == 0, ran.stdout + ran.stderr
    token, _ = json.JSONDecoder().raw_decode(ran.stdout, ran.stdout.index('{"token":'))
    assert token["fixed"] == {"user": "ada", "project": "default", "agent": "default", "session": "ticket-4711"}
    assert '"state":"revoked"' in ran.stdout.replace(" ", "")
