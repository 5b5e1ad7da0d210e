"""Hand the process over to a program of its own: (module, options) -> it runs in our place, under our process id.

For commands whose libraries take a second to import (the OpenAI SDK, ONNX Runtime, database drivers): `memory-proxy
serve --help` must not wait for them, nor the supervisor carry them. The options travel as JSON in one argument.
Ctrl-C waits meanwhile: the other side takes it with `hear_interrupts` once it can end in order.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from pathlib import Path
from typing import NoReturn

from memory.at_terminal import hold_interrupts


def become(module: str, options: argparse.Namespace) -> NoReturn:
    """Run `python -m module OPTIONS` in place of this process."""
    told = {name: str(value) if isinstance(value, Path) else value for name, value in vars(options).items()}
    told.pop("run", None)
    sys.stdout.flush()
    sys.stderr.flush()
    hold_interrupts()
    # -P: a directory called `memory` or `proxy` where the command is given must not take the place of ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module, json.dumps(told)])  # noqa: S606


def told_options(argument: str) -> argparse.Namespace:
    """The options on the other side."""
    return argparse.Namespace(**json.loads(argument))
