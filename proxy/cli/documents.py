"""`memory-proxy documents …`: files in, what a running proxy remembers of them out, with progress.

Exit codes: 0 done; 1 a file was refused or could not be stored, or the service does not answer.
"""

from __future__ import annotations

import argparse
import re
import sys
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from proxy.cli.chat_words import printable
from proxy.cli.client import CallFailed, Client, quoted
from proxy.cli.heeded import refuse_unheeded
from proxy.cli.progress import Progress
from proxy.cli.shown import NONE, say_more, show, show_json
from proxy.cli.why import short

TEACHES: Final = """\
  memory-proxy documents add report.pdf notes.md      read, cut, embedded and stored; shows how far it is
  memory-proxy documents add plan.docx --session s1   for this conversation alone; --save memory: for all, whole in s1
  memory-proxy documents list
  memory-proxy documents show report.pdf              its chunks, with page and place
  memory-proxy documents delete report.pdf            out of recall; `undelete ID` within 30 days undoes it

A second file of the same name is the document's next version: what is in both keeps its ids and vectors.
"""
PATH: Final = "/memory/v1/documents"
_UUID: Final = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_ASK_EVERY_S: Final = 0.3
_OVER: Final = frozenset({"done", "failed"})
Verbs = "argparse._SubParsersAction[argparse.ArgumentParser]"


def arguments(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The verbs and their options; each verb's parser, for the options of the service."""
    verbs = parser.add_subparsers(dest="verb", required=True, metavar="VERB")
    add = _verb(verbs, "add", _add, "Have files remembered: text, Markdown, CSV, JSON, PDF, HTML, DOCX.")
    add.add_argument("files", nargs="+", metavar="FILE")
    add.add_argument("--name", help="what it is called (default: the file's name; one file only)")
    add.add_argument("--type", help='its media type, like "text/plain; charset=windows-1252" (default: by its name)')
    add.add_argument("--session", help="the conversation it is given in; alone, unless --save memory")
    add.add_argument("--save", choices=["memory", "session"], help="for all that comes, or for this conversation alone")
    add.add_argument("--inline", choices=["auto", "always", "never"], help="whether that conversation has it whole")
    add.add_argument("--sensitivity", choices=["public", "internal", "confidential", "secret"], default="internal")
    add.add_argument("--no-wait", action="store_true", help="end when it is taken, not when it is stored")
    listed = _verb(verbs, "list", _list, "List documents, newest first.")
    listed.add_argument("--limit", type=int, default=50)
    shown = _verb(verbs, "show", _show, "Show a document and its chunks.")
    shown.add_argument("document", help="its name or id")
    deleted = _verb(verbs, "delete", _delete, "Hide a document and its chunks from recall.")
    deleted.add_argument("document", help="its name or id")
    undeleted = _verb(verbs, "undelete", _undelete, "Show a hidden document again.")
    undeleted.add_argument("document", help="its id")
    for one in (listed, shown):
        one.add_argument("--json", action="store_true", help="the API's answer as it is")
    return [add, listed, shown, deleted, undeleted]


def run_documents(options: argparse.Namespace) -> int:
    """Run the verb that was asked for."""
    try:
        code: int = options.run_verb(Client(options), options)
    except BrokenPipeError:  # whoever read the output is gone
        raise
    except (CallFailed, OSError) as fault:
        sys.stderr.write(f"memory-proxy: {fault}\n")
        return 1
    return code


def _verb(verbs: Any, name: str, run: Any, help_text: str) -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = verbs.add_parser(name, help=help_text, description=help_text)
    parser.set_defaults(run_verb=run)
    return parser


def _add(client: Client, options: argparse.Namespace) -> int:
    """Each file in turn; those behind one that is refused are sent all the same."""
    if options.save == "session" and not options.session:
        raise CallFailed("--save session is of a conversation; name it with --session")
    if options.session is None:
        refuse_unheeded(options, "--session", "inline")
    if options.name is not None and len(options.files) > 1:
        raise CallFailed("--name is for one file; give one")
    failed = 0
    for file in options.files:
        path = Path(file)
        try:
            record = _sent(client, path, options)
            failed += not _followed(client, record, path.name, wait=not options.no_wait)
        except BrokenPipeError:
            raise
        except CallFailed as fault:
            sys.stderr.write(printable(f"{path.name}: {fault}\n"))
            failed += 1
        except OSError as fault:
            sys.stderr.write(printable(f"{path} cannot be read: {fault.strerror}\n"))
            failed += 1
    return 1 if failed else 0


def _sent(client: Client, path: Path, options: argparse.Namespace) -> Mapping[str, Any]:
    kept = {} if options.session is None else {"session": options.session, "save": options.save or "session"}
    kept |= {"inline": options.inline} if options.inline else {}
    fields = {"name": options.name or path.name, "sensitivity": options.sensitivity, **kept}
    kind = options.type or "application/octet-stream"  # the service goes by content and name
    found: Mapping[str, Any] = client.upload(PATH, fields, path.name, kind, path.read_bytes())
    return found


def _followed(client: Client, record: Mapping[str, Any], name: str, *, wait: bool) -> bool:
    """Tell how far an upload is until it is over; whether it ended well. A key that may not read is told no more than
    that it was taken.
    """
    upload_id, progress = record["upload"]["id"], Progress()
    wait = wait and "version" in record
    try:
        while wait and record["upload"]["status"] not in _OVER and record["upload"]["id"] == upload_id:
            progress.say(f"{name}: {_progress(record['upload'])}")
            time.sleep(_ASK_EVERY_S)
            record = client.get(f"{PATH}/{record['id']}", {"limit": 1})
    except KeyboardInterrupt:
        progress.say(f"{name}: left; it is stored all the same, `memory-proxy documents list` says how far it is")
        progress.end()
        raise
    finally:
        progress.clear()
    upload = record["upload"]
    if upload["status"] == "failed":
        sys.stderr.write(printable(f"{name}: {upload['reason']}\n"))
        return False
    show(f"{record['id']}  {record['name']}  {_progress(upload)}")
    return True


def _progress(upload: Mapping[str, Any]) -> str:
    if upload.get("chunks") is None:
        return str(upload["status"])
    if upload["status"] == "done":
        held = f", {upload['held_back']} held back for review" if upload["held_back"] else ""
        counts = f"{upload['new']} new, {upload['same']} as before, {upload['gone']} gone"
        return f"stored, {upload['chunks']} chunks ({counts}{held})"
    return f"{upload['embedded']} of {upload['chunks']} chunks"


def _list(client: Client, options: argparse.Namespace) -> int:
    answer = client.get(PATH, {"limit": options.limit})
    if options.json:
        return show_json(answer)
    for one in answer["data"]:
        state = "" if one["upload"]["status"] == "done" else f"  {one['upload']['status']}"
        show(f"{one['id']}  {one['chunks']:5} chunks  {one['media_type']:24.24}  {one['name']}{state}")
    if not answer["data"]:
        show(NONE)
    say_more(answer)
    return 0


def _show(client: Client, options: argparse.Namespace) -> int:
    path = f"{PATH}/{_id_of(client, options.document)}"
    answer = client.get(path, {"limit": 1000})
    if options.json:
        return show_json(answer)
    pages = f", {answer['pages']} pages" if answer["pages"] else ""
    show(
        f"{answer['name']}  version {answer['version']}, {answer['media_type']}, {answer['bytes']} bytes{pages}",
        f"{_progress(answer['upload'])}{': ' + answer['upload']['reason'] if answer['upload']['reason'] else ''}",
    )
    while True:
        for one in answer["data"]:
            page = f"p. {one['page']:<4} " if one["page"] else ""
            hidden = f" [{one['hidden']}]" if one["hidden"] else ""
            show(f"{one['ordinal']:5}  {page}{one['start']:>8}  {short(one['content'], 90)}{hidden}")
        if answer["next_cursor"] is None:
            return 0
        answer = client.get(path, {"limit": 1000, "cursor": answer["next_cursor"]})


def _delete(client: Client, options: argparse.Namespace) -> int:
    answer = client.send("DELETE", f"{PATH}/{_id_of(client, options.document)}")
    what = f"{answer['name']} ({answer['id']}), {answer['chunks']} chunks" if "name" in answer else answer["id"]
    show(f"hidden: {what}")
    return 0


def _undelete(client: Client, options: argparse.Namespace) -> int:
    answer = client.send("POST", f"{PATH}/{quoted(options.document)}/undelete")
    show(f"shown again: {answer['name']}, {answer['chunks']} chunks")
    return 0


def _id_of(client: Client, document: str) -> str:
    """The id of a document by its id or its name. Raises CallFailed."""
    if _UUID.fullmatch(document.lower()):
        return document
    found = [one for one in _all(client) if one["name"] == document]
    if len(found) != 1:
        several = "; ".join(f"{one['id']} of session {one['session']}" for one in found)
        raise CallFailed(f"several are called {document}: {several}" if found else f"no document is called {document}")
    return str(found[0]["id"])


def _all(client: Client) -> Iterator[Mapping[str, Any]]:
    cursor: str | None = None
    while True:
        answer = client.get(PATH, {"limit": 1000, "cursor": cursor})
        yield from answer["data"]
        if (cursor := answer["next_cursor"]) is None:
            return
