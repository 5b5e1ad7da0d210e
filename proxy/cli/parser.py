"""The commands and their options: what `memory-proxy --help` teaches. Parses, runs nothing.

Each command's module is loaded for that command alone: all of them together take .9 s on a slow core, and 30 MB.
"""

from __future__ import annotations

import argparse
import importlib
import sys
from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from functools import partial
from pathlib import Path
from typing import Any, Final, TypeAlias

from proxy.cli import evaluate
from proxy.cli.client import URL, without_v1
from proxy.cli.client import with_service as _with_service
from proxy.cli.help_text import Teaching
from proxy.cli.whole_file import file_to_write

_DESCRIPTION = """\
An OpenAI-compatible proxy in front of vLLM that gives the model a memory. A client changes its base_url, nothing else.

  memory-proxy serve --upstream http://127.0.0.1:8000     then point your client at http://127.0.0.1:8080/v1
  memory-proxy chat                                       talk to it, and see what is remembered
  memory-proxy demo                                       see it work with a small model, no vLLM needed
  memory-proxy doctor                                     check every part and say how to mend it
"""
Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"
Options = Callable[[argparse.ArgumentParser], None]
_AMOUNT_MAX: Final = 36_500
_COUNT_MAX: Final = 100_000
_MEMORIES_MAX: Final = 1_000_000_000
_PORT_MAX: Final = 65_535


def build_parser(words: Sequence[str] | None = None) -> argparse.ArgumentParser:
    """The command line, with the options of the command that `words` begin with; None: of all commands."""
    parser: argparse.ArgumentParser = _Command(prog="memory-proxy", description=_DESCRIPTION, formatter_class=Teaching)
    parser.add_argument("--version", action=_Version, nargs=0, help="say which version this is and exit")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    for name, (says, options) in COMMANDS.items():
        command = commands.add_parser(name, help=says, description=says, formatter_class=Teaching)
        if words is None or name in words[:1]:
            options(command)
    _eval(commands)
    return parser


class _Command(argparse.ArgumentParser):
    """Refuses what it does not know by itself, so that its own usage is shown and not that of all commands."""

    def parse_known_args(self, args: Any = None, namespace: Any = None) -> tuple[Any, list[str]]:
        """Parse; nothing is left over."""
        found, unknown = super().parse_known_args(args, namespace)
        if unknown:
            near = get_close_matches(unknown[0].partition("=")[0], self._option_string_actions, n=1)
            hint = f"; did you mean {near[0]}?" if near else ""
            self.error(f"unrecognized arguments: {' '.join(unknown)}{hint}")
        return found, unknown


class _Version(argparse.Action):
    """Tells it, and looks for it only when it is asked for: that takes as long as all the rest of a parse."""

    def __call__(self, parser: argparse.ArgumentParser, *_: object) -> None:
        """Say it and end."""
        version: str = importlib.import_module("importlib.metadata").version("vllm-memory-proxy")
        sys.stdout.write(f"memory-proxy {version}\n")
        parser.exit()


def _does(parser: argparse.ArgumentParser, module: str, run: str) -> Any:
    """Have a command run, and taught, by its module, which is loaded here."""
    found = importlib.import_module(f"proxy.cli.{module}")
    parser.set_defaults(run=getattr(found, run))
    parser.epilog = getattr(found, "TEACHES", None)
    return found


def _own(module: str) -> Options:
    """The options that a module brings along itself."""

    def options(parser: argparse.ArgumentParser) -> None:
        _does(parser, module, f"run_{module}").arguments(parser)

    return options


def _amount(text: str) -> float:
    """Days or seconds. Raises ArgumentTypeError, which names what was expected."""
    try:
        amount = float(text)
    except ValueError:
        amount = -1.0
    if not 0 <= amount <= _AMOUNT_MAX:
        raise argparse.ArgumentTypeError(f"{text!r} is no number from 0 to {_AMOUNT_MAX}")
    return amount


def _count(text: str, least: int = 1, most: int = _COUNT_MAX) -> int:
    """How many. Raises ArgumentTypeError, which names what was expected."""
    if not (text.isascii() and text.isdigit() and len(text) <= len(str(most)) and least <= int(text) <= most):
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from {least} to {most}")
    return int(text)


_count_of_all = partial(_count, most=_MEMORIES_MAX)
_count_or_none = partial(_count, least=0)


def _port(text: str) -> int:
    """A port to listen on. Raises ArgumentTypeError, which names what was expected."""
    if not (text.isascii() and text.isdigit() and len(text) <= 5 and int(text) <= _PORT_MAX):
        raise argparse.ArgumentTypeError(f"{text!r} is no port from 0 to {_PORT_MAX}")
    return int(text)


def _with_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (see `memory-proxy init`)")
    parser.add_argument("--upstream", metavar="URL", help="your vLLM (default http://127.0.0.1:8000)")
    parser.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="P", help="port to listen on (default 8080; 0 takes a free one)")
    parser.add_argument("--data-dir", metavar="DIR", help="where databases, keys and spool live")


def _beside(parser: argparse.ArgumentParser) -> None:
    """The options of a command about the service on a data directory, whose other settings that service has."""
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the running service")
    parser.set_defaults(upstream=None, host=None, port=None)


def _serve(parser: argparse.ArgumentParser) -> None:
    _does(parser, "serve", "run_serve")
    _with_settings(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="proxy processes on the one port (default 1)")


def _init(parser: argparse.ArgumentParser) -> None:
    _does(parser, "serve", "run_init")
    parser.add_argument("file", nargs="?", type=Path, default=Path("config.yaml"), help="default %(default)s")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def _doctor(parser: argparse.ArgumentParser) -> None:
    _does(parser, "doctor", "run_doctor")
    _with_settings(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--probe", action="store_true", help="also ask vLLM three completions of one token")


def _demo(parser: argparse.ArgumentParser) -> None:
    _does(parser, "demo", "run_demo")
    parser.add_argument("--port", type=_port, default=8080, help="the proxy's port (default %(default)s)")
    parser.add_argument("--data-dir", metavar="DIR", help="where the demo keeps its memory (default: a fresh one)")
    parser.add_argument("--upstream", metavar="URL", help="use this vLLM instead of fetching a small model")
    parser.add_argument("--exit", action="store_true", help="stop after the conversation instead of staying up")


def _import(parser: argparse.ArgumentParser) -> None:
    _does(parser, "data", "run_import")
    parser.epilog = 'A line: {"session": "s1", "role": "user", "content": "…", "occurred_at": "2026-01-31T09:00:00Z"}'
    parser.add_argument("file", help="NDJSON file, or - for standard input")
    parser.add_argument("--on-conflict", choices=["error", "update"], default="error", help="known lines that differ")
    _with_service(parser)


def _export(parser: argparse.ArgumentParser) -> None:
    _does(parser, "data", "run_export")
    parser.add_argument("file", nargs="?", default="-", help="where to (default: standard output)")
    parser.add_argument(
        "--everything", action="store_true", help="all about the user: every project, with conversations"
    )
    _with_service(parser)


def _search(parser: argparse.ArgumentParser) -> None:
    _does(parser, "data", "run_search")
    parser.add_argument("query", nargs="?", help="the question")
    parser.add_argument("-k", type=int, help="how many (default 10)")
    parser.add_argument(
        "--explain", action="store_true", help="show what each score is made of, and why it is admitted or not"
    )
    parser.add_argument(
        "--retrieval", metavar="ID", help="instead: what one request was given, and why (its X-Memory-Retrieval)"
    )
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _sessions(parser: argparse.ArgumentParser) -> None:
    _does(parser, "data", "run_sessions")
    parser.add_argument("session", nargs="?", help="its id, as X-Memory-Session says it")
    parser.add_argument("--limit", type=int, metavar="N", help="how many are listed (default 50)")
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _memories(parser: argparse.ArgumentParser) -> None:
    _does(parser, "data", "run_memories")
    parser.add_argument("memory", nargs="?", help="its id; or `review`: what somebody should look at")
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument("--confirm", action="store_true", help="it holds")
    judged.add_argument("--reject", action="store_true", help="it does not hold: out of recall")
    judged.add_argument(
        "--delete", action="store_true", help="hide it from recall; --undelete within 30 days undoes it"
    )
    judged.add_argument("--undelete", action="store_true", help="show again what was hidden")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--limit", type=int, metavar="N", help="how many are listed (default 50)")
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _documents(parser: argparse.ArgumentParser) -> None:
    documents = _does(parser, "documents", "run_documents")
    for verb in documents.arguments(parser):
        _with_service(verb)


def _replay(parser: argparse.ArgumentParser) -> None:
    _does(parser, "replay", "run_replay")
    parser.add_argument("retrieval", nargs="?", metavar="ID", help="the answer's X-Memory-Retrieval")
    parser.add_argument("--as-of", metavar="T", help="recall as the store stood then (RFC 3339 with an offset)")
    parser.add_argument("--without", action="append", metavar="ID", help="leave this memory out; may be repeated")
    parser.add_argument(
        "--config-set", action="append", metavar="NAME=N", help="with this setting; may be repeated (list below)"
    )
    parser.add_argument("--budget", type=int, metavar="N", help="what the request said in X-Memory-Budget")
    parser.add_argument("--shadow", action="store_true", help="instead of one answer: the last ones, compared")
    parser.add_argument("--last", type=_count, metavar="N", help="--shadow: so many (default 200)")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="--shadow: the model's tokenizer.json; without it characters"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _with_service(parser)


def _hygiene(parser: argparse.ArgumentParser) -> None:
    _does(parser, "hygiene", "run_hygiene")
    _beside(parser)
    parser.add_argument("--user", help="only this user's memory")
    parser.add_argument("--project", help="only this project's")
    parser.add_argument(
        "--limit", type=_count_of_all, metavar="N", help="look at about N memories, oldest first (default: all)"
    )
    parser.add_argument("--unused-days", type=_amount, default=30.0, metavar="D", help="never used: older than D days")
    parser.add_argument(
        "--examples", type=_count_or_none, default=3, metavar="N", help="examples of each (%(default)s)"
    )
    parser.add_argument("--show", action="store_true", help="show what the examples say, not only their ids")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def _consolidate(parser: argparse.ArgumentParser) -> None:
    _does(parser, "consolidate", "run_consolidate")
    parser.add_argument("--now", action="store_true", help="do not wait for the night")
    parser.add_argument("--dry-run", action="store_true", help="with --now: say what would change, change nothing")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    _beside(parser)


def _reembed(parser: argparse.ArgumentParser) -> None:
    _does(parser, "reembed", "run_reembed")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--to", metavar="MODEL", help="fill this model beside the served one, or go on with it")
    wanted.add_argument("--status", action="store_true", help="what is served, what stands by, how much is left")
    wanted.add_argument("--pause", action="store_true", help="stop whoever fills, wherever that is")
    wanted.add_argument("--switch", action="store_true", help="serve the model that stands by")
    wanted.add_argument("--back", action="store_true", help="serve the former model again")
    wanted.add_argument("--drop", action="store_true", help="drop the model that is not served, with its vectors")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="with --to: model.onnx and tokenizer.json of it")
    parser.add_argument("--rest", type=_amount, metavar="R", help="with --to: seconds of rest per second of work (1)")
    parser.add_argument("--json", action="store_true", help="the standing as JSON")
    _beside(parser)


def _audit(parser: argparse.ArgumentParser) -> None:
    _does(parser, "audit", "run_audit")
    parser.add_argument("what", choices=["verify", "list"])
    parser.add_argument("--tenant", metavar="T", help="only this tenant, by name or id")
    parser.add_argument("--action", metavar="A", help="list: only this action, like share.project")
    parser.add_argument("--actor", metavar="K", help="list: only this key's id")
    parser.add_argument("--id", metavar="ID", help="list: only rows that name this id")
    parser.add_argument("--limit", type=_count, metavar="N", help="list: rows of each tenant (50)")
    parser.add_argument("--head", metavar="N:DIGEST", help="verify: what an earlier verify said, with --tenant")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    _beside(parser)


def _encryption(parser: argparse.ArgumentParser) -> None:
    _does(parser, "encryption", "run_encryption")
    parser.add_argument("what", choices=["status", "rotate", "rewrap"], nargs="?", default="status")
    parser.add_argument("--older-days", type=_amount, metavar="D", help="rotate: keys older than this (1)")
    parser.add_argument("--json", action="store_true", help="the standing as JSON")
    _beside(parser)


def _redact(parser: argparse.ArgumentParser) -> None:
    _does(parser, "redact", "run_redact")
    parser.add_argument("--scan", action="store_true", help="walk through everything that is stored open")
    parser.add_argument("--apply", action="store_true", help="with --scan: rewrite it (default: count only)")
    parser.add_argument("--all", action="store_true", help="with --scan: also what these rules have cleaned before")
    parser.add_argument("--reveal", metavar="TOKEN", help="instead: what stands behind a token of personal data")
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    _beside(parser)


def _migrate(parser: argparse.ArgumentParser) -> None:
    _does(parser, "migrate", "run_migrate")
    parser.add_argument("--check", action="store_true", help="compare only")
    _beside(parser)


def _forget(parser: argparse.ArgumentParser) -> None:
    _does(parser, "forget", "run_forget")
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--user", dest="forget_user", metavar="U", help="all of a user, in every project")
    wanted.add_argument("--project", dest="forget_project", metavar="P", help="all of a project, of every user")
    wanted.add_argument("--session", dest="forget_session", metavar="S", help="one conversation")
    wanted.add_argument("--memory", dest="forget_memory", metavar="ID", help="one memory, with the turns it rests on")
    wanted.add_argument("--source", dest="forget_source_id", metavar="ID", help="what was imported under this name")
    wanted.add_argument("--query", dest="forget_query", metavar="TEXT", help="what a search for this would place")
    wanted.add_argument("--verify", metavar="FILE", help="instead: whether a receipt is this installation's")
    parser.add_argument(
        "--public-key", metavar="HEX", help="with --verify: the installation's, where its key is not here"
    )
    parser.add_argument("--dry-run", action="store_true", help="say what would go, change nothing")
    parser.add_argument("--yes", action="store_true", help="do it without asking")
    parser.add_argument(
        "--scrub", action="store_true", help="out of the files of the embedded servers too; takes longer"
    )
    for name in ("user", "project", "agent"):
        parser.add_argument(f"--as-{name}", help=f"whose conversation, memory, source: the scope's {name}")
    parser.add_argument("--tenant", help="with --scrub: whose (default: default); without it, that of --key")
    parser.add_argument("--url", type=without_v1, help=f"the running proxy (default {URL})")
    parser.add_argument(
        "--key", help="API key with memory:erase, where the proxy runs with auth.mode keys; or in $MEMORY_PROXY_KEY"
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the service (--scrub, --verify)")
    parser.set_defaults(upstream=None, host=None, port=None)


def _bench(parser: argparse.ArgumentParser) -> None:
    _does(parser, "bench", "run_bench")
    parser.add_argument("--conversations", type=int, default=4, metavar="N", help="default %(default)s")
    parser.add_argument("--turns", type=int, default=6, metavar="N", help="of each conversation (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="longest answer (default %(default)s)")
    parser.add_argument("--model", help="model to ask for (default: the first of /v1/models)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE", help="write the figures there, each turn too")
    _with_service(parser)


def _eval(commands: Commands) -> None:
    """`eval` hands all of its words on, unread."""
    # No character starts an option here, and --help is none either: everything is the other command's to read.
    parser: argparse.ArgumentParser = commands.add_parser(
        "eval",
        help="Measure recall on conversations with known evidence; --help says how.",
        prefix_chars="\0",
        add_help=False,
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=evaluate.run_eval)


COMMANDS: Final[Mapping[str, tuple[str, Options]]] = {
    "serve": ("Serve until SIGTERM; embedded Postgres and Valkey start with it.", _serve),
    "init": ("Write a configuration file with every setting explained.", _init),
    "doctor": ("Check every part and say how to mend each.", _doctor),
    "demo": ("Fetch a small real model, talk to it through the proxy in two sessions, leave it running.", _demo),
    "chat": ("Talk to the served model at a terminal, and see what it is given from memory.", _own("chat")),
    "import": ("Store past conversations: one turn a line, NDJSON.", _import),
    "export": ("Write everything of a scope as NDJSON; `import` takes it.", _export),
    "search": ("Ask the memory what it would recall.", _search),
    "sessions": ("List conversations, or show one.", _sessions),
    "memories": ("List memories, show, review or hide one.", _memories),
    "checkpoint": (
        "Keep where a conversation stands under a name, compare, branch, and give it to a conversation again.",
        _own("checkpoint"),
    ),
    "persona": (
        "Keep how answers are asked to be under a name: tone, length, language, and words of your own.",
        _own("persona"),
    ),
    "documents": ("Have files remembered; list, show and hide what is remembered of them.", _documents),
    "preferences": ("Show what was learnt of a user's taste, or reset it.", _own("preferences")),
    "tasks": ("Keep what is to be done, say where it stands, and see what waits for what.", _own("tasks")),
    "entities": ("Keep who is who, say that two are one, and see what ties them.", _own("entities")),
    "artifacts": ("Keep files outside the database; fetch them, link to them, hide them.", _own("artifacts")),
    "outside": ("Look for a question in the web now, and keep the pages as documents.", _own("outside")),
    "replay": (
        "Rebuild what went upstream for an answer; ask what would have gone; try a configuration on past turns.",
        _replay,
    ),
    "hygiene": (
        "Look for what should not be in the memory: junk, duplicates, contradictions, loops, secrets. Changes nothing.",
        _hygiene,
    ),
    "consolidate": (
        "Show the last nightly run; --now: run it, beside live traffic. Broken off, it goes on where it stood.",
        _consolidate,
    ),
    "reembed": ("Change the embedding model beside live traffic; without options: which model is served.", _reembed),
    "key": ("Make, list, rotate and revoke API keys.", _own("key")),
    "audit": (
        "Verify the audit log's chains, or list its rows: who read, shared, changed and was refused what.",
        _audit,
    ),
    "encryption": (
        "What is encrypted at rest and under which keys; rotate data keys, or move them to another master key.",
        _encryption,
    ),
    "redact": ("Look with today's rules for secrets and personal data in what is stored, and cut them.", _redact),
    "migrate": ("Bring the database's schema up to date; --check: say what of it differs, change nothing.", _migrate),
    "forget": (
        "Erase what is remembered of a user, project, conversation, memory, source or question; a signed receipt.",
        _forget,
    ),
    "mcp": ("Offer the memory as tools to agents, by the Model Context Protocol (stdio, or --http).", _own("mcp")),
    "bench": (
        "Measure on your own vLLM what memory costs and what its prefix cache keeps; no word of it stays.",
        _bench,
    ),
}
