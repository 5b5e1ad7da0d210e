"""The commands and their options: what `memory-proxy --help` teaches. Parses, runs nothing."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from proxy.cli import (
    artifacts,
    audit,
    bench,
    chat,
    checkpoint,
    consolidate,
    data,
    doctor,
    documents,
    encryption,
    entities,
    evaluate,
    forget,
    hygiene,
    key,
    mcp,
    migrate,
    outside,
    persona,
    preferences,
    redact,
    reembed,
    replay,
    serve,
    tasks,
)
from proxy.cli.client import with_service as _with_service
from proxy.cli.demo import run_demo

_DESCRIPTION = """\
An OpenAI-compatible proxy in front of vLLM that gives the model a memory. A client changes its base_url, nothing else.

  memory-proxy serve --upstream http://127.0.0.1:8000     then point your client at http://127.0.0.1:8080/v1
  memory-proxy chat                                       talk to it, and see what is remembered
  memory-proxy demo                                       see it work with a small model, no vLLM needed
  memory-proxy doctor                                     check every part and say how to mend it
"""
Run = Callable[[argparse.Namespace], int]


def build_parser() -> argparse.ArgumentParser:
    """The whole command line."""
    parser = argparse.ArgumentParser(
        prog="memory-proxy", description=_DESCRIPTION, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _serve(commands)
    _init(commands)
    _doctor(commands)
    _demo(commands)
    _chat(commands)
    _import(commands)
    _export(commands)
    _search(commands)
    _sessions(commands)
    _memories(commands)
    _checkpoint(commands)
    _persona(commands)
    _documents(commands)
    _preferences(commands)
    _tasks(commands)
    _entities(commands)
    _artifacts(commands)
    _outside(commands)
    _replay(commands)
    _hygiene(commands)
    _consolidate(commands)
    _reembed(commands)
    _key(commands)
    _audit(commands)
    _encryption(commands)
    _redact(commands)
    _migrate(commands)
    _forget(commands)
    _mcp(commands)
    _bench(commands)
    _eval(commands)
    return parser


Commands: TypeAlias = "argparse._SubParsersAction[argparse.ArgumentParser]"


def _command(commands: Commands, name: str, run: Run, help_text: str, epilog: str = "") -> argparse.ArgumentParser:
    parser: argparse.ArgumentParser = commands.add_parser(
        name,
        help=help_text,
        description=help_text,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.set_defaults(run=run)
    return parser


def _with_settings(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file (see `memory-proxy init`)")
    parser.add_argument("--upstream", metavar="URL", help="your vLLM, without /v1 (default http://127.0.0.1:8000)")
    parser.add_argument("--host", metavar="H", help="address to listen on (default 127.0.0.1)")
    parser.add_argument("--port", type=int, metavar="P", help="port to listen on (default 8080; 0 takes a free one)")
    parser.add_argument("--data-dir", metavar="DIR", help="where databases, keys and spool live")


def _serve(commands: Commands) -> None:
    parser = _command(
        commands, "serve", serve.run_serve, "Serve until SIGTERM; embedded Postgres and Valkey start with it."
    )
    _with_settings(parser)
    parser.add_argument("--workers", type=int, metavar="N", help="proxy processes on the one port (default 1)")


def _init(commands: Commands) -> None:
    parser = _command(commands, "init", serve.run_init, "Write a configuration file with every setting explained.")
    parser.add_argument("file", nargs="?", type=Path, default=Path("config.yaml"), help="default %(default)s")
    parser.add_argument("--force", action="store_true", help="overwrite an existing file")


def _doctor(commands: Commands) -> None:
    parser = _command(commands, "doctor", doctor.run_doctor, "Check every part and say how to mend each.")
    _with_settings(parser)
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    parser.add_argument("--probe", action="store_true", help="also ask vLLM three completions of one token")


def _demo(commands: Commands) -> None:
    parser = _command(
        commands,
        "demo",
        run_demo,
        "Fetch a small real model, talk to it through the proxy in two sessions, leave it running.",
    )
    parser.add_argument("--port", type=int, default=8080, help="the proxy's port (default %(default)s)")
    parser.add_argument("--data-dir", metavar="DIR", help="where the demo keeps its memory (default: a fresh one)")
    parser.add_argument("--upstream", metavar="URL", help="use this vLLM instead of fetching a small model")
    parser.add_argument("--exit", action="store_true", help="stop after the conversation instead of staying up")


def _chat(commands: Commands) -> None:
    chat.arguments(_command(commands, "chat", chat.run_chat, chat.SAYS, chat.TEACHES))


def _import(commands: Commands) -> None:
    parser = _command(
        commands,
        "import",
        data.run_import,
        "Store past conversations: one turn a line, NDJSON.",
        'A line: {"session": "s1", "role": "user", "content": "…", "occurred_at": "2026-01-31T09:00:00Z"}',
    )
    parser.add_argument("file", help="NDJSON file, or - for standard input")
    parser.add_argument("--on-conflict", choices=["error", "update"], default="error", help="known lines that differ")
    _with_service(parser)


def _export(commands: Commands) -> None:
    parser = _command(commands, "export", data.run_export, "Write everything of a scope as NDJSON; `import` takes it.")
    parser.add_argument("file", nargs="?", default="-", help="where to (default: standard output)")
    parser.add_argument(
        "--everything", action="store_true", help="all about the user: every project, with conversations"
    )
    _with_service(parser)


def _search(commands: Commands) -> None:
    parser = _command(commands, "search", data.run_search, "Ask the memory what it would recall.")
    parser.add_argument("query", nargs="?", help="the question")
    parser.add_argument("-k", type=int, default=10, help="how many (default %(default)s)")
    parser.add_argument(
        "--explain", action="store_true", help="show what each score is made of, and why it is admitted or not"
    )
    parser.add_argument(
        "--retrieval", metavar="ID", help="instead: what one request was given, and why (its X-Memory-Retrieval)"
    )
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _sessions(commands: Commands) -> None:
    parser = _command(commands, "sessions", data.run_sessions, "List conversations, or show one.")
    parser.add_argument("session", nargs="?", help="its id, as X-Memory-Session says it")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _memories(commands: Commands) -> None:
    parser = _command(commands, "memories", data.run_memories, "List memories, show, review or hide one.")
    parser.add_argument("memory", nargs="?", help="its id; or `review`: what somebody should look at")
    judged = parser.add_mutually_exclusive_group()
    judged.add_argument("--confirm", action="store_true", help="it holds")
    judged.add_argument("--reject", action="store_true", help="it does not hold: out of recall")
    judged.add_argument(
        "--delete", action="store_true", help="hide it from recall; --undelete within 30 days undoes it"
    )
    judged.add_argument("--undelete", action="store_true", help="show again what was hidden")
    parser.add_argument("--kind", help="only this kind")
    parser.add_argument("--limit", type=int, default=50)
    parser.add_argument("--json", action="store_true", help="the API's answer as it is")
    _with_service(parser)


def _checkpoint(commands: Commands) -> None:
    help_text = "Keep where a conversation stands under a name, compare, branch, and give it to a conversation again."
    parser = _command(commands, "checkpoint", checkpoint.run_checkpoint, help_text, checkpoint.TEACHES)
    checkpoint.arguments(parser)  # its verbs bring their own `act`


def _persona(commands: Commands) -> None:
    help_text = "Keep how answers are asked to be under a name: tone, length, language, and words of your own."
    parser = _command(commands, "persona", persona.run_persona, help_text, persona.TEACHES)
    persona.arguments(parser)  # its verbs bring their own `act`


def _documents(commands: Commands) -> None:
    help_text = "Have files remembered; list, show and hide what is remembered of them."
    parser = _command(commands, "documents", documents.run_documents, help_text, documents.TEACHES)
    for verb in documents.arguments(parser):
        _with_service(verb)


def _preferences(commands: Commands) -> None:
    help_text = "Show what was learnt of a user's taste, or reset it."
    parser = _command(commands, "preferences", preferences.run_preferences, help_text, preferences.TEACHES)
    preferences.arguments(parser)


def _tasks(commands: Commands) -> None:
    help_text = "Keep what is to be done, say where it stands, and see what waits for what."
    tasks.arguments(_command(commands, "tasks", tasks.run_tasks, help_text, tasks.TEACHES))


def _entities(commands: Commands) -> None:
    help_text = "Keep who is who, say that two are one, and see what ties them."
    entities.arguments(_command(commands, "entities", entities.run_entities, help_text, entities.TEACHES))


def _artifacts(commands: Commands) -> None:
    help_text = "Keep files outside the database; fetch them, link to them, hide them."
    artifacts.arguments(_command(commands, "artifacts", artifacts.run_artifacts, help_text, artifacts.TEACHES))


def _outside(commands: Commands) -> None:
    help_text = "Look for a question in the web now, and keep the pages as documents."
    outside.arguments(_command(commands, "outside", outside.run_outside, help_text, outside.TEACHES))


def _replay(commands: Commands) -> None:
    help_text = "Rebuild what went upstream for an answer; ask what would have gone; try a configuration on past turns."
    parser = _command(commands, "replay", replay.run_replay, help_text, replay.TEACHES)
    parser.add_argument("retrieval", nargs="?", metavar="ID", help="the answer's X-Memory-Retrieval")
    parser.add_argument("--as-of", metavar="T", help="recall as the store stood then (RFC 3339 with an offset)")
    parser.add_argument("--without", action="append", metavar="ID", help="leave this memory out; may be repeated")
    parser.add_argument(
        "--config-set", action="append", metavar="NAME=N", help="with this setting; may be repeated (list below)"
    )
    parser.add_argument("--budget", type=int, metavar="N", help="what the request said in X-Memory-Budget")
    parser.add_argument("--shadow", action="store_true", help="instead of one answer: the last ones, compared")
    parser.add_argument("--last", type=int, default=200, metavar="N", help="--shadow: so many (default %(default)s)")
    parser.add_argument(
        "--tokenizer", type=Path, metavar="FILE", help="--shadow: the model's tokenizer.json; without it characters"
    )
    parser.add_argument("--json", action="store_true", help="one JSON object instead of text")
    _with_service(parser)


def _hygiene(commands: Commands) -> None:
    parser = _command(
        commands,
        "hygiene",
        hygiene.run_hygiene,
        "Look for what should not be in the memory: junk, duplicates, contradictions, loops, secrets. Changes nothing.",
        hygiene.TEACHES,
    )
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the running service")
    parser.add_argument("--user", help="only this user's memory")
    parser.add_argument("--project", help="only this project's")
    parser.add_argument("--limit", type=int, metavar="N", help="look at about N memories, oldest first (default: all)")
    parser.add_argument("--unused-days", type=float, default=30.0, metavar="D", help="never used: older than D days")
    parser.add_argument("--examples", type=int, default=3, metavar="N", help="examples of each (default %(default)s)")
    parser.add_argument("--show", action="store_true", help="show what the examples say, not only their ids")
    parser.add_argument("--json", action="store_true", help="one JSON object instead of a table")


def _consolidate(commands: Commands) -> None:
    parser = _command(
        commands,
        "consolidate",
        consolidate.run_consolidate,
        "Show the last nightly run; --now: run it, beside live traffic. Broken off, it goes on where it stood.",
    )
    parser.add_argument("--now", action="store_true", help="do not wait for the night")
    parser.add_argument("--dry-run", action="store_true", help="with --now: say what would change, change nothing")
    parser.add_argument("--json", action="store_true", help="the report as JSON")
    _with_settings(parser)


def _reembed(commands: Commands) -> None:
    parser = _command(
        commands,
        "reembed",
        reembed.run_reembed,
        "Change the embedding model beside live traffic; without options: which model is served.",
        reembed.TEACHES,
    )
    wanted = parser.add_mutually_exclusive_group()
    wanted.add_argument("--to", metavar="MODEL", help="fill this model beside the served one, or go on with it")
    wanted.add_argument("--status", action="store_true", help="what is served, what stands by, how much is left")
    wanted.add_argument("--pause", action="store_true", help="stop whoever fills, wherever that is")
    wanted.add_argument("--switch", action="store_true", help="serve the model that stands by")
    wanted.add_argument("--back", action="store_true", help="serve the former model again")
    wanted.add_argument("--drop", action="store_true", help="drop the model that is not served, with its vectors")
    parser.add_argument("--directory", type=Path, metavar="DIR", help="with --to: model.onnx and tokenizer.json of it")
    parser.add_argument("--rest", type=float, default=1.0, metavar="R", help="seconds of rest per second of work (1)")
    parser.add_argument("--json", action="store_true", help="the standing as JSON")
    _with_settings(parser)


def _key(commands: Commands) -> None:
    # Its verbs bring their own `run`.
    key.arguments(_command(commands, "key", key.run_key, "Make, list, rotate and revoke API keys.", key.TEACHES))


def _audit(commands: Commands) -> None:
    help_text = "Verify the audit log's chains, or list its rows: who read, shared, changed and was refused what."
    parser = _command(commands, "audit", audit.run_audit, help_text, audit.TEACHES)
    parser.add_argument("what", choices=["verify", "list"])
    parser.add_argument("--tenant", metavar="T", help="only this tenant, by name or id")
    parser.add_argument("--action", metavar="A", help="list: only this action, like share.project")
    parser.add_argument("--actor", metavar="K", help="list: only this key's id")
    parser.add_argument("--id", metavar="ID", help="list: only rows that name this id")
    parser.add_argument("--limit", type=int, default=50, metavar="N", help="list: rows of each tenant (50)")
    parser.add_argument("--head", metavar="N:DIGEST", help="verify: what an earlier verify said, with --tenant")
    parser.add_argument("--json", action="store_true", help="JSON instead of text")
    _with_settings(parser)


def _encryption(commands: Commands) -> None:
    help_text = "What is encrypted at rest and under which keys; rotate data keys, or move them to another master key."
    parser = _command(commands, "encryption", encryption.run_encryption, help_text, encryption.TEACHES)
    parser.add_argument("what", choices=["status", "rotate", "rewrap"], nargs="?", default="status")
    parser.add_argument("--older-days", type=float, default=1.0, metavar="D", help="rotate: keys older than this (1)")
    parser.add_argument("--json", action="store_true", help="the standing as JSON")
    _with_settings(parser)


def _redact(commands: Commands) -> None:
    help_text = "Look with today's rules for secrets and personal data in what is stored, and cut them."
    parser = _command(commands, "redact", redact.run_redact, help_text, redact.TEACHES)
    parser.add_argument("--scan", action="store_true", help="walk through everything that is stored open")
    parser.add_argument("--apply", action="store_true", help="with --scan: rewrite it (default: count only)")
    parser.add_argument("--all", action="store_true", help="with --scan: also what these rules have cleaned before")
    parser.add_argument("--reveal", metavar="TOKEN", help="instead: what stands behind a token of personal data")
    parser.add_argument("--json", action="store_true", help="the counts as JSON")
    _with_settings(parser)


def _migrate(commands: Commands) -> None:
    help_text = "Bring the database's schema up to date; --check: say what of it differs, change nothing."
    parser = _command(commands, "migrate", migrate.run_migrate, help_text, migrate.TEACHES)
    parser.add_argument("--check", action="store_true", help="compare only")
    _with_settings(parser)


def _forget(commands: Commands) -> None:
    help_text = (
        "Erase what is remembered of a user, project, conversation, memory, source or question; a signed receipt."
    )
    parser = _command(commands, "forget", forget.run_forget, help_text, forget.TEACHES)
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
    parser.add_argument("--url", default="http://127.0.0.1:8080", help="the running proxy (default %(default)s)")
    parser.add_argument("--key", help="API key with memory:erase, where the proxy runs with auth.mode keys")
    parser.add_argument("--config", type=Path, metavar="FILE", help="configuration file of the service")
    parser.add_argument("--data-dir", metavar="DIR", help="data directory of the service (--scrub, --verify)")
    parser.set_defaults(upstream=None, host=None, port=None)


def _mcp(commands: Commands) -> None:
    help_text = "Offer the memory as tools to agents, by the Model Context Protocol (stdio, or --http)."
    mcp.arguments(_command(commands, "mcp", mcp.run_mcp, help_text, mcp.TEACHES))


def _bench(commands: Commands) -> None:
    help_text = "Measure on your own vLLM what memory costs and what its prefix cache keeps; leaves nothing behind."
    parser = _command(commands, "bench", bench.run_bench, help_text, bench.TEACHES)
    parser.add_argument("--conversations", type=int, default=4, metavar="N", help="default %(default)s")
    parser.add_argument("--turns", type=int, default=6, metavar="N", help="of each conversation (default %(default)s)")
    parser.add_argument("--tokens", type=int, default=64, metavar="N", help="longest answer (default %(default)s)")
    parser.add_argument("--model", help="model to ask for (default: the first of /v1/models)")
    parser.add_argument("--json", metavar="FILE", help="write the figures there, each turn too")
    _with_service(parser)


def _eval(commands: Commands) -> None:
    # No character starts an option here, and --help is none either: everything is the other command's to read.
    parser: argparse.ArgumentParser = commands.add_parser(
        "eval",
        help="Measure recall on conversations with known evidence; --help says how.",
        prefix_chars="\0",
        add_help=False,
    )
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    parser.set_defaults(run=evaluate.run_eval)
