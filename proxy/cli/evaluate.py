"""`memory-proxy eval`: its arguments, unread, to the evaluation harness of recall, which runs in our place.

A program of its own because it stands above this package and knows it (`bench.recall` starts `proxy serve`), so it
cannot be imported here. Refuses nothing: what is wrong with the arguments the harness says, with its own exit codes.
"""

from __future__ import annotations

import argparse
import os
import sys
from typing import NoReturn

HARNESS = "bench.recall"


def run_eval(options: argparse.Namespace) -> NoReturn:
    """Run `python -m bench.recall ARGUMENTS` in place of this process."""
    sys.stdout.flush()
    sys.stderr.flush()
    # -P: a directory called `bench` where the command is given must not take the place of ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", HARNESS, *options.arguments])  # noqa: S606
