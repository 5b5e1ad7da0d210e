"""`python -m memory prepare-model`: the configured model's files, verified and built where needed. Exit code 0.

Raises ModelFileInvalid.
"""

from __future__ import annotations

import argparse
import logging

from memory.adapters.served_model import configured_files
from memory.config import Settings
from memory.telemetry import event

log = logging.getLogger("memory_proxy.memory")


def command(settings: Settings, _: argparse.Namespace) -> int:
    """Have the configured model's files here, verified and built. The exit code."""
    configured_files(settings, lambda step: event(log, "model", step=step))
    return 0
