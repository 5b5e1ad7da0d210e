"""`memory-proxy doctor`: parsed options in, one line for every part out, 1 when something must be mended.

The checks are a program of their own (`examination.py`), since they import every driver and the model's runtime.
"""

from __future__ import annotations

import argparse

from proxy.cli.become import become


def run_doctor(options: argparse.Namespace) -> int:
    """Check every part; takes the place of this process."""
    become("proxy.cli.examination", options)
