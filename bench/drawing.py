"""Reports as pictures: a report and a module that draws it in, a PNG out; and what that module does when it is run."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any


def draw(module: str, report: Mapping[str, Any], png: Path) -> int:
    """Run `python -m module REPORT PNG`, since matplotlib is there for developers only. Its exit status."""
    with tempfile.TemporaryDirectory(prefix="report-") as folder:
        source = Path(folder) / "report.json"
        source.write_text(json.dumps(report))
        return subprocess.run([sys.executable, "-m", module, str(source), str(png)], check=False).returncode


def draw_file(module: str, plot: Callable[[Mapping[str, Any], Path], None], argv: Sequence[str]) -> int:
    """What `python -m module FILE.json FILE.png` does: draw the one report that is named. Its exit status."""
    if len(argv) != 2:
        print(f"usage: python -m {module} FILE.json FILE.png", file=sys.stderr)
        return 2
    try:
        plot(json.loads(Path(argv[0]).read_text()), Path(argv[1]))
    except (OSError, ValueError, KeyError) as exc:
        print(f"{module.removeprefix('bench.')}: {exc!r}", file=sys.stderr)
        return 1
    return 0
