"""`memory-proxy key …`: options in; the store beside a running service is asked, or a token is made here, offline.

A value that cannot be read is refused before anything is asked, with what was expected. Exit codes: 0 done; 1 it cannot
be; 75 a store does not answer.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, get_args

from policies.api_key import looks_damaged, prefix_of
from policies.capabilities import CAPABILITIES, USUAL, unknown
from policies.capability_token import (
    MARK,
    NONCE_BYTES,
    Caveat,
    TokenRefused,
    attenuated,
    minted,
    read,
    refuse_two_values,
    root_of,
)
from policies.key_limits import Overflow
from policies.labels import Sensitivity
from proxy.cli.beside import run_beside
from proxy.cli.client import KEY_VARIABLE

TEACHES: Final = """\
  memory-proxy key create laptop --user ada --expires 90d       the secret on stdout, once
  memory-proxy key create ci --can memory:read:own --requests-per-minute 60 --model my-model
  memory-proxy key list                                          by prefix; --all with those that are out of use
  memory-proxy key rotate mp-1a2b3c4d --grace 24h                a new secret; the old one holds a day longer
  memory-proxy key revoke laptop                                 refused everywhere within a second, with its tokens
  MEMORY_PROXY_KEY=mp-… memory-proxy key token --user ada --expires 1h     a token, made here, without asking anybody

capabilities
""" + "".join(f"  {name:24}{what}\n" for name, what in CAPABILITIES.items())
_SCOPE: Final = ("user", "project", "agent")
_DURATION: Final = re.compile(r"(\d{1,9})(s|m|h|d|w)", re.ASCII)
_SECONDS: Final = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_SECONDS_MAX: Final = 100 * 366 * 86_400
Verbs = "argparse._SubParsersAction[argparse.ArgumentParser]"


def duration(text: str) -> int:
    """Seconds of a time like 90d, 24h, 30m. Raises ArgumentTypeError, which names what was expected."""
    found = _DURATION.fullmatch(text)
    seconds = int(found[1]) * _SECONDS[found[2]] if found else 0
    if text != "0" and not 1 <= seconds <= _SECONDS_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no time; say it like 90d, 24h or 30m")
    return seconds


def lifetime(text: str) -> int | None:
    """Seconds until a key ends; None for never."""
    if text == "never":
        return None
    seconds = duration(text)
    if seconds < 1:
        raise argparse.ArgumentTypeError("a key that ends at once is of no use; say it like 90d, or never")
    return seconds


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    create = _verb(verbs, "create", _create, "Make a key; its secret is shown once, on stdout.")
    create.add_argument("name", help="what it is for: a device, a service")
    create.add_argument("--tenant", default="default", help="whose store (default %(default)s); made when new")
    for name in _SCOPE:
        create.add_argument(f"--{name}", help=f"fix the {name}: another one is refused")
        create.add_argument(f"--default-{name}", metavar=name.upper(), help=f"the {name} where none is named")
    _narrowings(create)
    create.add_argument("--expires", type=lifetime, metavar="T", help="90d, 24h … (default: never)")
    create.add_argument("--requests-per-minute", type=int, metavar="N", help="beyond them 429")
    create.add_argument("--tokens-per-day", type=int, metavar="N", help="prompt and answer, by UTC day; then 429")
    create.add_argument(
        "--overflow", choices=get_args(Overflow), help="a conversation that does not fit (default: as configured)"
    )
    create.set_defaults(sensitivity_max="internal")
    listed = _verb(verbs, "list", _list, "List keys: prefix, name, tenant, state; never a secret.")
    listed.add_argument("--tenant", help="only this tenant's")
    listed.add_argument("--all", action="store_true", help="those revoked and expired too")
    rotate = _verb(verbs, "rotate", _rotate, "Give a key a new secret; the old one holds for --grace.")
    rotate.add_argument("key", help="its prefix, id or name")
    rotate.add_argument("--tenant", help="where several tenants have a key of that name")
    rotate.add_argument("--grace", type=duration, default=86_400, metavar="T", help="24h (default); 0 ends it at once")
    rotate.add_argument("--redo", action="store_true", help="replace the newest secret: it was lost, or leaked")
    revoke = _verb(verbs, "revoke", _revoke, "Refuse a key, and its tokens, from now on.")
    revoke.add_argument("key", help="its prefix, id or name")
    revoke.add_argument("--tenant", help="where several tenants have a key of that name")
    token = verbs.add_parser(
        "token", help=(what := "Make a token that says less than a key, offline."), description=what
    )
    token.set_defaults(run=run_token)
    token.add_argument("--from", dest="source", metavar="KEY", help=f"key or token (default: ${KEY_VARIABLE})")
    for name in (*_SCOPE, "session"):
        token.add_argument(f"--{name}", help=f"only this {name}")
    token.add_argument("--expires", type=lifetime, default=3_600, metavar="T", help="1h (default)")
    _narrowings(token)


def _narrowings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--can", action="append", metavar="CAPABILITY", help="what it may do; may be repeated")
    parser.add_argument("--sensitivity-max", choices=[one.value for one in Sensitivity], help="nothing above it")
    parser.add_argument("--injected-tokens-max", type=int, metavar="N", help="memory placed in one prompt")
    parser.add_argument("--model", action="append", metavar="NAME", help="a model it may use; may be repeated")


def _verb(verbs: Any, name: str, asks: Callable[[argparse.Namespace], dict[str, Any]], what: str) -> Any:
    parser = verbs.add_parser(name, help=what, description=what)
    parser.add_argument("--json", action="store_true", help="one JSON value on stdout")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the running service")
    parser.set_defaults(run=run_key, asks=asks, upstream=None, host=None, port=None)
    return parser


def run_key(options: argparse.Namespace) -> int:
    """Ask the store beside a running service."""
    asked = {"act": options.verb, "json": options.json, **options.asks(options)}
    if (fault := unknown(asked.get("capabilities", ()))) is not None:
        sys.stderr.write(f"memory-proxy: --can: {fault}\n")
        return 1
    return run_beside(options, ("key", json.dumps(asked)))


def run_token(options: argparse.Namespace) -> int:
    """Make a token of a key, or narrow one, here."""
    source = (os.environ.get(KEY_VARIABLE, "") if options.source is None else options.source).strip()
    if not source:
        sys.stderr.write(f"memory-proxy: give a key or a token with --from, or in {KEY_VARIABLE}\n")
        return 1
    if options.can is not None and (fault := unknown(options.can)) is not None:
        sys.stderr.write(f"memory-proxy: --can: {fault}\n")
        return 1
    try:
        sys.stdout.write(_token(source, options) + "\n")
    except TokenRefused as fault:
        sys.stderr.write(f"memory-proxy: no such token can be made: {fault}\n")
        return 1
    return 0


def _token(source: str, options: argparse.Namespace) -> str:
    ends = None if options.expires is None else int(datetime.now(UTC).timestamp()) + options.expires
    caveat = Caveat(
        user=_nfc(options.user),
        project=_nfc(options.project),
        agent=_nfc(options.agent),
        session=_nfc(options.session),
        capabilities=None if options.can is None else frozenset(options.can),
        until=ends,
        ceiling=None if options.sensitivity_max is None else Sensitivity(options.sensitivity_max),
        injected_tokens_max=options.injected_tokens_max,
        models=None if options.model is None else frozenset(options.model),
    )
    if source.startswith(MARK):
        refuse_two_values((*read(source).caveats, caveat))
        return attenuated(source, caveat)
    prefix = prefix_of(source)
    if prefix is None:
        cut = "it is cut or mistyped: its checksum is wrong" if looks_damaged(source) else "it is no key of this proxy"
        raise TokenRefused(cut)
    return minted(prefix, root_of(source), os.urandom(NONCE_BYTES), caveat)


def _create(options: argparse.Namespace) -> dict[str, Any]:
    defaults = {name: getattr(options, f"default_{name}") for name in _SCOPE}
    fixed = {name: getattr(options, name) for name in _SCOPE}
    limits = {
        "requests_per_minute": options.requests_per_minute,
        "tokens_per_day": options.tokens_per_day,
        "injected_tokens_max": options.injected_tokens_max,
        "models": options.model,
        "overflow": options.overflow,
    }
    return {
        "name": _nfc(options.name),
        "tenant": _nfc(options.tenant),
        "fixed": _said(fixed),
        "defaults": _said(defaults),
        "capabilities": list(USUAL) if options.can is None else options.can,
        "ceiling": options.sensitivity_max,
        "expires_in_s": options.expires,
        "limits": _said(limits),
    }


def _list(options: argparse.Namespace) -> dict[str, Any]:
    return {"tenant": _nfc(options.tenant), "all": options.all}


def _rotate(options: argparse.Namespace) -> dict[str, Any]:
    return {"key": _nfc(options.key), "tenant": _nfc(options.tenant), "grace_s": options.grace, "redo": options.redo}


def _revoke(options: argparse.Namespace) -> dict[str, Any]:
    return {"key": _nfc(options.key), "tenant": _nfc(options.tenant)}


def _said(members: dict[str, Any]) -> dict[str, Any]:
    return {name: _nfc(value) for name, value in members.items() if value is not None}


def _nfc(value: Any) -> Any:
    """A text in the form that names are compared in."""
    return unicodedata.normalize("NFC", value) if isinstance(value, str) else value
