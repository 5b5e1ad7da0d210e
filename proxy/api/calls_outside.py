"""The call of outside knowledge, as `/memory/openapi.json` describes it."""

from __future__ import annotations

from typing import Final

from proxy.api.call import BODY, CALLER, Call
from proxy.api.schemas_outside import OutsideAsked, OutsideSaid

OUTSIDE_CALLS: Final = (
    Call(
        "POST",
        "/memory/v1/outside",
        "lookOutside",
        "Look for a question in the web now and keep the pages as documents of the scope; takes seconds. 404 where "
        "looking outside is off.",
        OutsideSaid,
        body=OutsideAsked,
        parameters=("scope",),
        errors=(*CALLER, *BODY, "not_found"),
    ),
)
