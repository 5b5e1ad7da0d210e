"""`memory-proxy demo`: parsed options in, a conversation with a small real model out, and a service left to try.

The demo is a program of its own (`demo_story.py`), since it imports the OpenAI SDK.
"""

from __future__ import annotations

import argparse

from proxy.cli.become import become


def run_demo(options: argparse.Namespace) -> int:
    """Tell the story; takes the place of this process."""
    become("proxy.cli.demo_story", options)
