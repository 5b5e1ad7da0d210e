"""Does the evidence reach the model? A seeded sample of LoCoMo questions asked of a real vLLM through the service.

    python -m bench.vllm_sample --vllm http://127.0.0.1:8000 [--url SERVICE] [--questions 100] [--json FILE]

The conversations are imported, then each question is asked by the OpenAI SDK in a new session, as the user whose
conversation it is, with `X-Memory-Mode: read` so that questions are not learnt. What counts is the prompt that vLLM
says it received (`return_token_ids`, decoded by its own `/detokenize`): are the words of the evidence turns in it?
Answers are cut to a few tokens: this measures what the model is given, not how well a small model reads.
Exit 1: something did not start or answer. Exit 2: there is no evaluation data.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import random
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import openai

from bench.overhead.processes import NotStarted
from bench.recall.__main__ import DATA, running_service
from bench.recall.client import CallFailed, session, user_header
from bench.recall.corpus import EvalSet, Question, SetUnreadable, read_set
from bench.recall.run import Progress, Say, import_set
from bench.stats import Summary
from proxy.cli.whole_file import file_to_write

SEED: Final = 20_260_101
_ADDED_BY_BLOCK: Final = "| "  # what the block puts before the further lines of a turn


@dataclass(frozen=True, slots=True)
class Given:
    """What one question was given: the share of its evidence turns in the prompt, and what the answer's head said."""

    question: Question
    held: float
    status: str
    placed: int
    memory_tokens: int
    prompt_tokens: int
    added_ms: float


def parse_arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m bench.vllm_sample", description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--vllm", default="http://127.0.0.1:8000", help="a vLLM that runs already")
    parser.add_argument("--url", help="a service before it that runs already (default: one of our own)")
    parser.add_argument("--data", type=Path, default=DATA)
    parser.add_argument("--questions", type=int, default=100)
    parser.add_argument("--max-tokens", type=int, default=4, help="of each answer")
    parser.add_argument("--seed", type=int, default=SEED)
    parser.add_argument("--budget", type=int, help="X-Memory-Budget (default: the service's own)")
    parser.add_argument("--json", type=file_to_write, metavar="FILE")
    return parser.parse_args(argv)


def plain(text: str) -> str:
    """Text without what layout may change: runs of white space, and the marks of further lines."""
    lines = (line.removeprefix(_ADDED_BY_BLOCK) for line in text.splitlines())
    return " ".join(" ".join(lines).split())


def share_held(prompt: str, evidence: Sequence[str]) -> float:
    """The share of the evidence turns whose words stand in the prompt, unbroken."""
    given = plain(prompt)
    return sum(plain(text) in given for text in evidence) / len(evidence)


def sampled(chosen: EvalSet, count: int, seed: int) -> list[Question]:
    """So many answerable questions, always the same for a seed."""
    answerable = [question for question in chosen.questions if question.answerable]
    return random.Random(seed).sample(answerable, min(count, len(answerable)))


async def ask(
    client: openai.AsyncOpenAI, question: Question, model: str, arguments: argparse.Namespace
) -> tuple[Mapping[str, str], Any]:
    """One question in a new session: the answer's head and the answer. Raises openai.OpenAIError."""
    headers = {**user_header(question.scope), "X-Memory-Mode": "read"}
    if arguments.budget is not None:
        headers["X-Memory-Budget"] = str(arguments.budget)
    raw = await client.chat.completions.with_raw_response.create(
        model=model,
        messages=[{"role": "user", "content": question.text}],
        max_tokens=arguments.max_tokens,
        temperature=0,
        extra_headers=headers,
        extra_body={"return_token_ids": True},
    )
    return raw.headers, raw.parse()


async def measure(url: str, chosen: EvalSet, arguments: argparse.Namespace, say: Say) -> list[Given]:
    """Import and ask. Raises CallFailed, openai.OpenAIError."""
    texts = {line["source_id"]: line["content"] for lines in chosen.lines.values() for line in lines}
    questions = sampled(chosen, arguments.questions, arguments.seed)
    async with (
        session() as client,
        openai.AsyncOpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=300) as sdk,
    ):
        await import_set(client, url, chosen, say)
        model = (await sdk.models.list()).data[0].id
        progress, given = Progress("questions asked", len(questions), say), []
        for question in questions:
            head, answer = await ask(sdk, question, model, arguments)
            tokens = {"model": model, "tokens": answer.model_extra["prompt_token_ids"]}
            async with client.post(f"{arguments.vllm}/detokenize", json=tokens) as decoded:
                prompt = (await decoded.json())["prompt"]
            given.append(_given(question, prompt, [texts[i] for i in sorted(question.gold)], head, answer))
            progress.moved(1)
    return given


def _given(question: Question, prompt: str, evidence: Sequence[str], head: Mapping[str, str], answer: Any) -> Given:
    return Given(
        question=question,
        held=share_held(prompt, evidence),
        status=head["x-memory-status"],
        placed=int(head["x-memory-count"]),
        memory_tokens=int(head["x-memory-tokens"].removeprefix("~")),
        prompt_tokens=answer.usage.prompt_tokens,
        added_ms=float(head["x-memory-millis"]),
    )


def make_report(given: Sequence[Given], arguments: argparse.Namespace) -> dict[str, Any]:
    """All figures, ready for JSON."""
    kinds = sorted({g.question.kind for g in given})
    statuses = sorted({g.status for g in given})
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "settings": {name: getattr(arguments, name) for name in ("questions", "max_tokens", "seed", "budget")},
        "all": _held(given),
        "by_kind": {kind: _held([g for g in given if g.question.kind == kind]) for kind in kinds},
        "statuses": {status: sum(g.status == status for g in given) for status in statuses},
        "memories_placed": _summary(given, lambda g: g.placed),
        "memory_tokens": _summary(given, lambda g: g.memory_tokens),
        "prompt_tokens": _summary(given, lambda g: g.prompt_tokens),
        "added_ms": _summary(given, lambda g: g.added_ms),
        "without_evidence": [g.question.question_id for g in given if g.held == 0],
    }


def _held(given: Sequence[Given]) -> dict[str, float]:
    count = len(given)
    return {
        "questions": count,
        "any": round(sum(g.held > 0 for g in given) / count, 4),
        "all": round(sum(g.held == 1 for g in given) / count, 4),
        "share": round(sum(g.held for g in given) / count, 4),
    }


def _summary(given: Sequence[Given], figure: Callable[[Given], float]) -> dict[str, float]:
    return {name: round(value, 2) for name, value in Summary.of([figure(g) for g in given]).as_json().items()}


def table(report: Mapping[str, Any]) -> str:
    """The report as aligned text."""
    rows = [f"{'evidence in the prompt':26s}{'questions':>10s}{'any':>8s}{'all':>8s}{'share':>8s}"]
    for name, entry in {"all": report["all"], **report["by_kind"]}.items():
        rows.append(f"{name:26s}{entry['questions']:10d}{entry['any']:8.3f}{entry['all']:8.3f}{entry['share']:8.3f}")
    rows.append(f"{'':26s}{'mean':>10s}{'p50':>8s}{'p90':>8s}{'p99':>8s}")
    for name in ("memories_placed", "memory_tokens", "prompt_tokens", "added_ms"):
        entry = report[name]
        rows.append(f"{name:26s}{entry['mean']:10.1f}{entry['p50']:8.1f}{entry['p90']:8.1f}{entry['p99']:8.1f}")
    return "\n".join([*rows, f"statuses {report['statuses']}"])


async def run(arguments: argparse.Namespace, chosen: EvalSet) -> list[Given]:
    """The whole measurement. Raises NotStarted, CallFailed, openai.OpenAIError."""

    def say(text: str) -> None:
        print(f"[sample] {text}", file=sys.stderr, flush=True)

    if arguments.url is not None:
        return await measure(arguments.url.rstrip("/"), chosen, arguments, say)
    async with running_service(arguments.vllm) as url:
        return await measure(url, chosen, arguments, say)


def main(argv: list[str] | None = None) -> int:
    """Run and report."""
    arguments = parse_arguments(argv)
    arguments.vllm = arguments.vllm.rstrip("/")
    try:
        chosen = read_set(arguments.data, "locomo")
    except SetUnreadable as exc:
        print(f"vllm_sample: {exc}; --data names the directory of the evaluation sets", file=sys.stderr)
        return 2
    try:
        given = asyncio.run(run(arguments, chosen))
    except (NotStarted, CallFailed, openai.OpenAIError, OSError) as exc:
        print(f"vllm_sample: {exc}", file=sys.stderr)
        return 1
    report = make_report(given, arguments)
    print(table(report))
    if arguments.json:
        arguments.json.write_text(json.dumps(report, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
