"""Every call of the API that a page prints for curl is made as it stands there, before a running service.

docs/keys.md has a test of its own, since its calls take the keys that its commands make.
"""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from bench.documents_files import pdf
from tests.service_fixture import Service

DOCS = Path(__file__).parent.parent / "docs"
OFF = ("outside-knowledge.md", "keys.md")
"""Pages whose calls take a service that is set up otherwise."""
FENCED = re.compile(r"^```(?:sh)?\n(curl .*?)^```", re.MULTILINE | re.DOTALL)
CALLS = [
    (page.name, block)
    for page in sorted(DOCS.glob("*.md"))
    if page.name not in OFF
    for block in FENCED.findall(page.read_text("utf-8"))
]


@pytest.mark.parametrize(("page", "block"), CALLS, ids=[page for page, _ in CALLS])
def test_the_calls_of_a_page_are_answered(page: str, block: str, service: Service, user: str, tmp_path: Path) -> None:
    for name in ("guide.md", "plan.md", "build.log"):
        (tmp_path / name).write_text("# Plan\n\nThe jetty is built in May.\n")
    (tmp_path / "report.pdf").write_bytes(pdf([["Revenue rose by nine per cent."]]))
    script = block.replace("localhost:8080", service.url.removeprefix("http://")).replace(": ada", f": {user}")
    ran = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", f'curl() {{ command curl --fail-with-body "$@"; }}\n{script}'],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert ran.returncode == 0, f"{page}: {ran.stdout}"


def test_pages_print_calls() -> None:
    assert {"api.md", "artifacts.md", "documents.md", "entities.md", "tasks.md"} <= {page for page, _ in CALLS}
