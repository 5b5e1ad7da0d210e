"""What a client writes, before it is stored: a text in, refused where it addresses the model or a name tells a secret.

Whatever is kept by a call is screened here, part by part and as the sentence that is stored. Raises Unprocessable.
"""

from __future__ import annotations

from memory.errors import Unprocessable
from memory.write.parts import Redacts
from policies.injection.judge import Origin, judge


def require_quotable(text: str, origin: Origin, what: str, *, instead: str, param: str | None) -> None:
    """Raise Unprocessable where a text addresses the model. `what` does so, with its verb ("title addresses"), and
    `instead` is what to write.
    """
    verdict = judge(text, origin)
    if verdict.quarantined:
        raise Unprocessable(f"{what} the model ({verdict.reason}): {instead}", param=param)


def require_no_secret(name: str, redactor: Redacts, param: str) -> None:
    """Raise Unprocessable where a name would be cut."""
    if redactor.redact(name).text != name:
        raise Unprocessable("a name holds what looks like a secret; call it otherwise", param=param)


def clean_beside(name: str, text: str, redactor: Redacts) -> str:
    """The text without secrets, read beside its name, which says that it is a password."""
    return redactor.redact(f"{name}={text}").text.removeprefix(f"{name}=")
