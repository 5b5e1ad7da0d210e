"""Reports as pictures: a report and a module that draws it in, a PNG out."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any


def draw(module: str, report: Mapping[str, Any], png: Path) -> int:
    """Run `python -m module REPORT PNG`, since matplotlib is there for developers only. Its exit status."""
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        source = Path(folder) / "report.json"
        source.write_text(json.dumps(report))
        return subprocess.run([sys.executable, "-m", module, str(source), str(png)], check=False).returncode
