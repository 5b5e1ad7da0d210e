"""`memory-proxy artifacts …`: files in, what a running proxy has of them and their bytes out.

By the service's API inside one scope. Exit codes: 0 done; 1 it cannot be, with the service's own sentence.
"""

from __future__ import annotations

import argparse
import json
import mimetypes
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.verbs import add_verb, deleted, gets, key_value, run_verb, sends, with_answers
from proxy.cli.whole_file import whole_file

TEACHES: Final = """\
  memory-proxy artifacts add build.log --caption "The build that failed on Tuesday"
  memory-proxy artifacts add chart.png --text "Revenue by month, 2026"    what stands in a picture
  memory-proxy artifacts list
  memory-proxy artifacts get ID -o build.log                  its bytes
  memory-proxy artifacts link ID --expires 3600               for somebody who has no key
  memory-proxy artifacts delete ID                            undelete brings it back for 30 days

The bytes lie sealed outside the database; a prompt is given what a file is, where it is to be had, and an excerpt.
"""
PATH: Final = "/memory/v1/artifacts"


def arguments(parser: argparse.ArgumentParser) -> None:
    """The verbs and their options."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = add_verb(verbs, "add", _add, "Keep a file.")
    add.add_argument("file", type=Path, metavar="FILE")
    add.add_argument("--name", help="what it is called (default: the file's name)")
    add.add_argument("--caption", default="", help="what it shows or is for")
    add.add_argument("--text", default="", help="what stands in it, of a picture")
    add.add_argument(
        "--metadata", action="append", type=key_value, metavar="KEY=VALUE", help="what you know of it; may be repeated"
    )
    add.add_argument("--type", help="its media type (default: by its name)")
    add.add_argument("--session", help="the conversation it comes from")
    listed = add_verb(verbs, "list", _list, "List files, newest first.")
    listed.add_argument("--limit", type=int, default=50)
    get = add_verb(verbs, "get", _get, "Fetch a file's bytes.")
    get.add_argument("artifact", metavar="ID")
    get.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to (default: standard output)")
    link = add_verb(verbs, "link", _link, "Make a link that opens a file without a key.")
    link.add_argument("artifact", metavar="ID")
    link.add_argument("--expires", type=int, default=3600, metavar="SECONDS", help="default %(default)s")
    for verb, act, what in (
        ("show", gets(_one), "Show what is known of a file."),
        ("caption", sends("POST", _one, "/caption"), "Have the chat model say what is in a picture."),
        ("delete", sends("DELETE", _one), "Hide a file."),
        ("undelete", sends("POST", _one, "/undelete"), "Bring back a file that was deleted."),
    ):
        add_verb(verbs, verb, act, what).add_argument("artifact", metavar="ID")
    with_answers(verbs)


def run_artifacts(options: argparse.Namespace) -> int:
    """Do what the verb says."""
    return run_verb(options, _told)


def _add(client: Client, options: argparse.Namespace) -> Any:
    path: Path = options.file
    guessed, packed = mimetypes.guess_type(path.name)  # of what is packed it is the type of what is inside
    kind = options.type or (not packed and guessed) or "application/octet-stream"
    fields = {"name": options.name or path.name, "caption": options.caption, "text": options.text}
    fields |= {} if options.session is None else {"session": options.session}
    fields |= {"metadata": json.dumps(dict(options.metadata))} if options.metadata else {}
    try:
        content = path.read_bytes()
    except OSError as fault:
        raise CallFailed(f"{path} cannot be read: {fault.strerror}") from fault
    return client.upload(PATH, fields, path.name, kind, content)


def _list(client: Client, options: argparse.Namespace) -> Any:
    return client.get(PATH, {"limit": options.limit})


def _get(client: Client, options: argparse.Namespace) -> Any:
    """Its bytes go where they are wanted; what is told goes to standard error, so that a pipe has the bytes alone."""
    pieces = client.pieces(f"{_one(options)}/content")
    if options.output is None:
        sys.stdout.buffer.writelines(pieces)
        return {}
    with whole_file(options.output) as file:
        file.writelines(pieces)
    return {"written": str(options.output)}


def _link(client: Client, options: argparse.Namespace) -> Any:
    made = client.send("POST", f"{_one(options)}/link", {"expires_s": options.expires})
    return {**made, "url": f"{client.url}{made['url']}"}


def _one(options: argparse.Namespace) -> str:
    return f"{PATH}/{quoted(options.artifact)}"


def _told(verb: str, answer: Mapping[str, Any]) -> Iterable[str]:
    if verb == "list":
        yield from (_line(one) for one in answer["data"])
    elif verb == "get":
        yield from (f"written to {answer['written']}" for _ in answer)
    elif verb == "link":
        yield f"{answer['url']}"
    elif verb == "delete":
        yield deleted(answer["id"], answer)
    else:
        yield _line(answer)
        if verb in ("show", "caption"):
            yield from (f"{name}: {value}" for name, value in answer["metadata"].items())
            yield from (answer[name] for name in ("caption", "text") if answer[name])


def _line(one: Mapping[str, Any]) -> str:
    """A file on one line, for people."""
    size = f"{one['width']} x {one['height']}  " if one["width"] else ""
    reused = "  (the scope had these bytes already)" if one.get("reused") else ""
    return f"{one['id']}  {one['bytes']:>12} bytes  {one['media_type']:24}  {size}{one['name']}{reused}"
