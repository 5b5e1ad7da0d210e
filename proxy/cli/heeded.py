"""Options that go together: what was given in, a refusal of what would not be heeded out.

Who says an option means it: a list of all rows where those of one action were asked for looks like an answer.
"""

from __future__ import annotations

import argparse

from proxy.cli.client import CallFailed


def refuse_unheeded(options: argparse.Namespace, goes_with: str, *names: str) -> None:
    """Raises CallFailed for the first of these options that was given; its default is None or False."""
    for name in names:
        given = getattr(options, name)
        if given is not None and given is not False:  # 0 is given
            raise CallFailed(f"--{name.replace('_', '-')} goes with {goes_with}")
