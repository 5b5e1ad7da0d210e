"""The detectors of secrets: a kept rule set (bc-detect-secrets) and our own, for what it misses in conversations.

Comes in: one `str`. Goes out: `Finding`s, unordered, overlapping. Every detector is pure and linear: a cheap search
for a literal anchor first, a bounded or possessive match at each hit after it, no scan starts twice in one place.
Refuses: files, the network, the package's verification (it would send the secret to its provider), log output.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from detect_secrets.plugins.artifactory import ArtifactoryDetector
from detect_secrets.plugins.aws import AWSKeyDetector
from detect_secrets.plugins.cloudant import CloudantDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.github_token import GitHubTokenDetector
from detect_secrets.plugins.ibm_cloud_iam import IbmCloudIamDetector
from detect_secrets.plugins.ibm_cos_hmac import IbmCosHmacDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.npm import NpmDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.softlayer import SoftlayerDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.stripe import StripeDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

from memory.adapters.secret_context import (
    CommandDetector,
    HeaderDetector,
    KeyBlockDetector,
    KeyValueDetector,
    PhraseDetector,
    UrlDetector,
)
from memory.adapters.secret_hidden import EncodedDetector, JoinedDetector
from memory.adapters.secret_samples import is_public_sample
from policies.redaction import Finding, looks_like_placeholder, shannon_bits, windows

WINDOW_CHARS = 16_384
OVERLAP_CHARS = 2_048
"""The package's rules were written for lines; its longest bounded rule reaches 400 characters."""
BITS_MIN = 2.5
"""Entropy of a token body below which it is filler (`1231231231`, `aaaabbbb`), bits a character."""


PACKAGE_CHARS_MIN = 20
"""No provider in the package issues a shorter secret; its Slack rule alone would take `xoxb-1-test`."""
FILLER_CHARS_MAX = 160
"""Longer bodies hold any short word by chance (0.4 % of 4,000 characters of base64), so only entropy judges them."""


@dataclass(frozen=True, slots=True)
class PackageRule:
    """One plugin of the package; run only where one of `needles` occurs (lower case)."""

    family: str
    patterns: Sequence[re.Pattern[str]]
    needles: tuple[str, ...]


def package_rules() -> tuple[PackageRule, ...]:
    """The plugins with a shape of their own. Ours replace keyword, entropy, URL, key block, JWT.

    Of Artifactory only the first pattern: the second took 106 s on 1 MB of `jfrog AP`.
    """
    return (
        PackageRule("developer-tool", ArtifactoryDetector().denylist[:1], ("akc",)),
        PackageRule("aws", AWSKeyDetector().denylist, ("aws", "a3t", "abia", "acca", "akia", "asia")),
        PackageRule("cloud", CloudantDetector().denylist, ("cloudant", "clou", "cl_", "cl-")),
        PackageRule("messaging", DiscordBotTokenDetector().denylist, ("discord", "bot", "token")),
        PackageRule("github", GitHubTokenDetector().denylist, ("ghp_", "gho_", "ghu_", "ghs_", "ghr_")),
        PackageRule("cloud", IbmCloudIamDetector().denylist, ("ibm", "bluemix")),
        PackageRule("cloud", IbmCosHmacDetector().denylist, ("secret_", "secret-", "secretacc", "secretkey")),
        PackageRule("messaging", MailchimpDetector().denylist, ("-us",)),
        PackageRule("package-registry", NpmDetector().denylist, ("npm", "_authtoken")),
        PackageRule("messaging", SendGridDetector().denylist, ("sg.",)),
        PackageRule("slack", SlackDetector().denylist, ("xox", "hooks.slack")),
        PackageRule("cloud", SoftlayerDetector().denylist, ("softlayer",)),
        PackageRule("payment", SquareOAuthDetector().denylist, ("sq0csp-",)),
        PackageRule("payment", StripeDetector().denylist, ("k_live_",)),
        PackageRule("messaging", TwilioKeyDetector().denylist, ("twilio", "account_sid", "accountsid")),
    )


@dataclass(frozen=True, slots=True)
class PackageDetector:
    """bc-detect-secrets on strings in memory, window by window."""

    rules: tuple[PackageRule, ...] = field(default_factory=package_rules)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield what the plugins' patterns match, less filler and less matches inside longer words."""
        for own, own_end, low, high in windows(len(text), WINDOW_CHARS, OVERLAP_CHARS):
            piece = text[low:high]
            folded = piece.lower()
            for rule in self.rules:
                if any(needle in folded for needle in rule.needles):
                    for start, end in _plugin_spans(rule.patterns, piece):
                        if own <= low + start < own_end:
                            yield Finding(low + start, low + end, f"{rule.family}/package")


def _plugin_spans(patterns: Sequence[re.Pattern[str]], text: str) -> Iterator[tuple[int, int]]:
    for pattern in patterns:
        for match in pattern.finditer(text):
            start, end = max((match.span(g) for g in range(1, (match.re.groups or 0) + 1)), key=_width, default=(0, 0))
            if end - start < 16:  # the group is a prefix (`ghp`), not the secret
                start, end = match.span()
            while start < end and text[start] in " \t\r\n\"'=:":
                start += 1
            while start < end and text[end - 1] in " \t\r\n\"'":
                end -= 1
            value = text[start:end]
            inside_word = _is_alnum(text, start - 1) or _is_alnum(text, end)
            masked = _MASK.match(text, end) is not None
            if len(value) >= PACKAGE_CHARS_MIN and not (inside_word or masked or _is_filler(value)):
                yield start, end


_MASK = re.compile(r"[-_]?[#*]{4}")


def _width(span: tuple[int, int]) -> int:
    return span[1] - span[0]


def _is_alnum(text: str, at: int) -> bool:
    return 0 <= at < len(text) and text[at].isascii() and text[at].isalnum()


def _is_filler(value: str) -> bool:
    return shannon_bits(value) < BITS_MIN or (len(value) <= FILLER_CHARS_MAX and looks_like_placeholder(value))


def _has_digit(value: str) -> bool:
    return any(c.isdigit() for c in value)


def _has_letter(value: str) -> bool:
    return any(c.isalpha() for c in value)


def _both_cases(value: str) -> bool:
    return any(c.islower() for c in value) and any(c.isupper() for c in value)


def _mixed(value: str) -> bool:
    """Digits and letters of both cases."""
    return _has_digit(value) and _both_cases(value)


def _long_run(value: str) -> bool:
    """A run of 16 letters and digits with both: `sk-learn-compatible-2` has none."""
    return any(len(run) >= 16 and _has_digit(run) and not run.isdigit() for run in re.split(r"[-_]", value))


def _always(value: str) -> bool:
    return bool(value)


_LEFT = r"(?:(?<![A-Za-z0-9_])|(?<=\\[nrt])|(?<=%[0-9A-Fa-f]{2}))"
_RIGHT = r"(?![A-Za-z0-9_])"
_W = "[A-Za-z0-9_-]"
_A = "[A-Za-z0-9]"
_H = "[A-Fa-f0-9]"
_DIGITS = "0123456789"
_ALNUM = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ" + _DIGITS


@dataclass(frozen=True, slots=True)
class ShapeRule:
    """A token known by its own shape: a literal `anchor`, before it up to `reach` characters out of `lead`."""

    rule: str
    anchor: str
    pattern: re.Pattern[str]
    lead: str = ""
    reach: int = 0
    accept: Callable[[str], bool] = _always
    filler_checked: bool = True


def _shape(
    rule: str,
    anchor: str,
    body: str,
    accept: Callable[[str], bool] = _always,
    *,
    right: str = _RIGHT,
    filler: bool = True,
) -> ShapeRule:
    """`body` follows the anchor."""
    pattern = re.compile(f"{_LEFT}{re.escape(anchor)}(?P<body>{body}){right}", re.ASCII)
    return ShapeRule(rule, anchor, pattern, accept=accept, filler_checked=filler)


def _inner(
    rule: str, anchor: str, whole: str, lead: str, reach: int, accept: Callable[[str], bool] = _always
) -> ShapeRule:
    """`whole` has the anchor inside it."""
    pattern = re.compile(f"{_LEFT}(?P<body>{whole})(?![A-Za-z0-9_~-])", re.ASCII)
    return ShapeRule(rule, anchor, pattern, lead, reach, accept)


def _many(rule: str, anchors: str, body: str, accept: Callable[[str], bool] = _always) -> list[ShapeRule]:
    return [_shape(rule, anchor, body, accept) for anchor in anchors.split()]


def shape_rules() -> tuple[ShapeRule, ...]:
    """Formats as their providers publish them; lengths are lower bounds where formats grew."""
    providers = (*_forge_rules(), *_model_rules(), *_cloud_rules(), *_service_rules(), *_tool_rules())
    return (*_own_rules(), *providers, *_carrier_rules())


def _own_rules() -> list[ShapeRule]:
    """Keys of this proxy and the tokens made of them (policies/api_key.py, policies/capability_token.py)."""
    return [
        _shape("api-key", "mp-", r"[0-9a-f]{8}-[\w-]{51}", filler=False),
        _shape("token", "mpt-", r"[0-9a-f]{8}-[\w-]{16}(?:\.[\w-]{16,4000}+){2,17}+", filler=False),
    ]


def _forge_rules() -> list[ShapeRule]:
    return [
        *_many("github", "ghp_ gho_ ghu_ ghs_ ghr_", _A + "{36,255}+"),
        _shape("github", "github_pat_", r"\w{36,255}+", _has_digit),
        *_many(
            "gitlab",
            "glpat- glptt- gldt- glrt- glcbt- gloas- glft- glsoat- glagent- glimt-",
            r"[\w.-]{20,200}+",
            _has_digit,
        ),
        _shape("gitlab", "GR1348941", r"[\w-]{20}", _has_digit),
        *_many("package-registry", "npm_", _A + "{36}"),
        _shape("package-registry", "pypi-AgE", _W + "{50,1000}+"),
        _shape("package-registry", "rubygems_", "[a-f0-9]{48}"),
        _shape("package-registry", "cio", _A + "{32}", _mixed),
        _shape("package-registry", "dckr_", r"(?:pat|oat)_[\w-]{27,40}+"),
        _shape("package-registry", "oy2", "[a-z0-9]{43}", _has_digit),
        _shape("developer-tool", "AKCp", _A + "{60,80}+", _has_digit),
        _shape("developer-tool", "cmVmd", _A + "{59}"),
    ]


def _model_rules() -> list[ShapeRule]:
    return [
        _shape("model-provider", "sk-ant-", r"(?:api|admin)\d\d-[\w-]{70,200}(?<=AA)", filler=False),
        _shape("model-provider", "sk-ant-", r"(?:oat|ort|sid)\d\d-[\w-]{60,200}+"),
        _shape("model-provider", "sk-", r"(?!ant-)[\w-]{20,250}+", _long_run),
        *_many("model-provider", "hf_ api_org_", _A + "{34,40}+", _both_cases),
        *_many("model-provider", "gsk_ pplx- xai-", _A + "{40,100}+", _has_digit),
        *_many("model-provider", "r8_ fw_ tgp_v1_ nvapi- jina_ voyage- pa- tvly- fc-", _W + "{22,100}+", _mixed_run),
        _shape("model-provider", "lsv2_", r"(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}"),
    ]


def _cloud_rules() -> list[ShapeRule]:
    azure = _ALNUM + "_~.-"
    return [
        *_many("aws", "AKIA ASIA ABIA ACCA", "[A-Z0-9]{16}", _has_digit),
        _shape(
            "aws", "ABSKQmVkcm9ja0FQSUtleS", "[A-Za-z0-9+/]{80,269}+={0,2}+(?![A-Za-z0-9+/=])", right="", filler=False
        ),
        _shape("aws", "bedrock-api-key-", "YmVkcm9jay5hbWF6b25hd3MuY29t[A-Za-z0-9+/=_-]{0,4000}+", right=""),
        _shape("gcp", "AIza", _W + "{35}", lambda body: not is_public_sample(f"AIza{body}")),
        _shape("gcp", "GOCSPX-", _W + "{28}"),
        _shape("gcp", "ya29.", _W + "{30,2000}+"),
        _shape("gcp", "1//0", _W + "{38,120}+", _mixed),
        _inner("azure", "Q~", r"[\w~.]{3}\dQ~[\w~.-]{31,34}", azure, 4),
        _inner("azure", "JQQJ99", "[A-Za-z0-9]{52}JQQJ99[A-Za-z0-9]{20,30}+", _ALNUM, 52),
        *(_shape("azure", p, "(?<=sig=)[A-Za-z0-9%+/_-]{43,80}+", right="") for p in ("&sig=", "?sig=")),
        *_many("cloud", "LTAI AKID", _A + "{12,40}+", _mixed),
        *_many("cloud", "dop_v1_ doo_v1_ dor_v1_", "[a-f0-9]{64}"),
        *_many("cloud", "hvs. hvb. hvr.", _W + "{24,300}+", _mixed),
        _shape("cloud", "s.", _A + "{24}", _mixed),
        _inner("cloud", ".atlasv1.", r"[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,70}+", _ALNUM, 14),
        _shape("cloud", "dapi", r"[a-f0-9]{32}(?:-\d)?"),
        _shape("cloud", "HRKU-AA", _W + "{58}"),
        _shape("cloud", "fo1_", _W + "{43}", _mixed),
        _shape("cloud", "FlyV1 ", r"fm\d[ar]?_[A-Za-z0-9+/=,_]{80,4000}+", right=""),
        _shape("cloud", "v1.0-", "[a-f0-9]{24}-[a-f0-9]{146}"),
        _shape("cloud", "pul-", "[a-f0-9]{40}"),
        _shape("cloud", "sha256~", _W + "{43}"),
    ]


def _service_rules() -> list[ShapeRule]:
    return [
        *_many("payment", "sk_live_ sk_test_ sk_prod_ rk_live_ rk_test_ rk_prod_", _A + "{10,250}+", _has_digit),
        *_many("payment", "shpat_ shpca_ shppa_ shpss_", _H + "{32}"),
        _shape("payment", "whsec_", "[A-Za-z0-9+/=]{24,64}+", _has_digit),
        _shape("payment", "sq0", r"(?:atp|csp|idp)-[\w-]{22,60}+"),
        _shape("payment", "EAAA", r"[\w-]{56,80}+", _mixed),
        _shape("payment", "access_token$", r"(?:production|sandbox)\$[a-z0-9]{16}\$[a-f0-9]{32}"),
        _shape("payment", "EZ", "[AT]K[A-Za-z0-9]{54}", _mixed),
        _shape("payment", "FLWSEC", "K(?:_TEST)?-[a-zA-Z0-9-]{12,50}+", _has_digit),
        *_many("slack", "xoxb- xoxp- xoxo- xoxa- xoxs- xoxr-", r"(?:\d-)?\d{8,14}-[A-Za-z0-9-]{14,200}+", _has_letter),
        _shape("slack", "xapp-", r"\d-[A-Z0-9]{8,14}-\d{8,14}-[a-zA-Z0-9]{20,80}+"),
        _shape("slack", "xoxe", r"(?:\.xox[bp])?-\d-[A-Za-z0-9]{100,300}+"),
        _shape("messaging", "SG.", r"[\w-]{16,32}\.[\w-]{16,64}+", _mixed),
        _shape("messaging", "xkeysib-", "[a-f0-9]{64}-[A-Za-z0-9]{16}"),
        _shape("messaging", "key-", "[a-f0-9]{32}"),
        _inner("messaging", ":AA", r"\d{8,11}:AA[\w-]{33}", _DIGITS, 13),
        _inner("messaging", "|", r"\d{15,16}\|[\w-]{27}", _DIGITS, 16, _mixed),
        _shape("messaging", "EAA", "[MC][A-Za-z0-9]{100,400}+"),
        _shape("webhook", "hooks.slack.com/", "(?:services|workflows|triggers)/[A-Za-z0-9/_-]{30,100}+", _mixed),
        _inner(
            "webhook",
            ".webhook.office.com/",
            r"[\w-]+\.webhook\.office\.com/webhookb2/[A-Za-z0-9@/-]{60,300}+",
            _ALNUM + "-",
            60,
        ),
        *_many("webhook", "discord.com/api/webhooks/ discordapp.com/api/webhooks/", r"\d{17,20}/[\w-]{60,80}+"),
    ]


def _tool_rules() -> list[ShapeRule]:
    return [
        _shape("developer-tool", "ops_eyJ", "[A-Za-z0-9+/_-]{200,4000}+={0,3}+", right=""),
        _shape("developer-tool", "A3-", "[A-Z0-9]{6}-(?:[A-Z0-9]{11}|[A-Z0-9]{6}-[A-Z0-9]{5})(?:-[A-Z0-9]{5}){3}"),
        *_many("developer-tool", "glc_ eyJrIjoi", "[A-Za-z0-9+/]{32,400}+={0,3}", _has_digit),
        _shape("developer-tool", "glsa_", f"[A-Za-z0-9]{{32}}_{_H}{{8}}"),
        *_many("developer-tool", "lin_api_ lin_oauth_ pnu_ pnb_ dp.pt. dp.st. phc_ phx_", _A + "{32,64}+", _has_digit),
        _shape("developer-tool", "PMAK-", "[a-f0-9]{24}-[a-f0-9]{34}"),
        _shape("developer-tool", "figd_", _W + "{38,60}+"),
        _shape("developer-tool", "ntn_", r"\d{11}[A-Za-z0-9]{35}"),
        _shape("developer-tool", "secret_", _A + "{43}", _mixed),
        _shape("developer-tool", "API-", "[A-Z0-9]{26}", _has_digit),
        _shape("developer-tool", "sgp_", f"(?:(?:{_H}{{16}}|local)_)?{_H}{{40}}"),
        _shape("developer-tool", "s-s4t2", "(?:ud|af)-[a-f0-9]{64}"),
        _shape("developer-tool", "sntrys_", r"[A-Za-z0-9+/=_-]{80,400}+", _mixed),
        *_many("developer-tool", "sntryu_", "[a-f0-9]{64}"),
        _shape("developer-tool", "ico-", _A + "{32}", _both_cases),
        _shape("developer-tool", "rdme_", "[a-z0-9]{70}"),
        *_many("developer-tool", "NRAK- NRJS- NRII-", _A + "{19,40}+", _has_digit),
        *_many("developer-tool", "sm_pat_ sm_aat_ sm_sat_", _A + "{16}"),
        _shape("developer-tool", "CFPAT-", _W + "{43}"),
        _shape("developer-tool", "duffel_", r"(?:test|live)_[\w=-]{43}"),
        _shape("developer-tool", "tskey-", "[a-z]{3,10}-[A-Za-z0-9]{8,20}-[A-Za-z0-9]{20,40}+"),
    ]


def _carrier_rules() -> list[ShapeRule]:
    return [
        _shape("private-key", "AGE-SECRET-KEY-1", "[0-9A-Z]{58}"),
        _shape("jwt", "eyJ", r"(?<!-eyJ)[\w-]{10,4000}+\.eyJ?[\w-]{8,30000}+(?:\.[\w-]{10,2000}+)?", right=""),
        _shape(
            "jwt", "eyJ", r"[\w-]{30,2000}+\.[\w-]{0,1000}+\.[\w-]{10,100}+\.[\w-]{10,9000}+\.[\w-]{16,100}+", right=""
        ),
        _shape("jwt", "ZXlK", "[A-Za-z0-9+/_-]{90,8000}+={0,2}", right=""),
    ]


def _mixed_run(value: str) -> bool:
    return _long_run(value) and _both_cases(value)


@dataclass(frozen=True, slots=True)
class ShapeDetector:
    """Tokens with a published shape."""

    rules: tuple[ShapeRule, ...] = field(default_factory=shape_rules)

    def find(self, text: str) -> Iterator[Finding]:
        """Yield every token of a known shape that is not filler."""
        for rule in self.rules:
            at = text.find(rule.anchor)
            while at >= 0:
                match = rule.pattern.match(text, _lead_start(text, at, rule))
                if match and rule.accept(match["body"]) and not (rule.filler_checked and _is_filler(match["body"])):
                    yield Finding(match.start(), match.end(), f"{rule.rule}/shape")
                at = text.find(rule.anchor, max(at + 1, match.end() if match else 0))


def _lead_start(text: str, at: int, rule: ShapeRule) -> int:
    start = at
    while start > max(0, at - rule.reach) and text[start - 1] in rule.lead:
        start -= 1
    return start + 2 if start and text[start - 1] == "%" and start + 2 <= at else start  # `%20` before it


class Detector(Protocol):
    """What every detector here is; the write path names the same shape `SecretDetector`."""

    def find(self, text: str) -> Iterator[Finding]:
        """Yield spans of `text`."""
        ...


def secret_detectors() -> list[Detector]:
    """All detectors, for a Redactor. Builds 150 patterns (30 ms); the package costs 0.25 s to import."""
    shapes, blocks, values, urls, headers = (
        ShapeDetector(),
        KeyBlockDetector(),
        KeyValueDetector(),
        UrlDetector(),
        HeaderDetector(),
    )
    return [
        blocks,
        shapes,
        PackageDetector(),
        urls,
        headers,
        CommandDetector(),
        values,
        PhraseDetector(),
        EncodedDetector((shapes, blocks, values, urls, headers)),
        JoinedDetector((shapes, values)),
    ]
