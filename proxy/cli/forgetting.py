"""Forgetting by the API of a running service, for every command that does it: rehearse, agree, do, wait.

In: a client, what is to go, and who agrees to it. Out: the receipt, or the plan where nobody agreed. Raises CallFailed.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any, Final

from proxy.cli.client import CallFailed, Client

_POLL_S: Final = 0.5
Planned = Mapping[str, Any]


def forget_by_api(
    client: Client, kind: str, value: str, *, agreed: Callable[[Planned], bool], goes_on: Callable[[str], None]
) -> tuple[dict[str, Any], bool]:
    """The service's last word, and whether it is a receipt. `goes_on` is told each step of a long one."""
    planned = client.send("POST", "/memory/v1/forget", {kind: value, "dry_run": True})
    if not agreed(planned):
        return planned, False
    asked = {kind: value, "dry_run": False, "confirm": planned["confirm"]}
    try:
        return _receipt(client, asked, goes_on), True
    except KeyboardInterrupt:
        goes_on("left; the erasure that was asked for goes on")
        raise


def _receipt(client: Client, asked: Mapping[str, Any], goes_on: Callable[[str], None]) -> dict[str, Any]:
    """What is asked for, done, however long it takes."""
    answer: dict[str, Any] = client.send("POST", "/memory/v1/forget", asked)
    told = ""
    while answer.get("status") == "running":
        if answer["step"] != told:
            goes_on(told := answer["step"])
        time.sleep(_POLL_S)
        answer = _asked_again(client, f"/memory/v1/forget/{answer['id']}")
    return answer


def _asked_again(client: Client, path: str) -> dict[str, Any]:
    """How far it is. Raises CallFailed, which says that it goes on all the same."""
    try:
        found: dict[str, Any] = client.get(path)
    except CallFailed as fault:
        raise CallFailed(f"{fault}; the erasure goes on, GET {path} has its receipt", fault.status) from fault
    return found


def plan_words(planned: Planned) -> str:
    """What would go, in a line."""
    return ", ".join(f"{number} {name}" for name, number in planned["counts"].items())
