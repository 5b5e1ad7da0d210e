"""Procedures as they are kept: a trigger with its steps in; what they are found by, shown as and known again by out.

Knows nothing of how they are taught (policies/procedure.py): who only stores them loads no pattern. Pure; refuses
nothing.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

_VERBS_TEXT: Final = """
    accept access acknowledge activate add adjust agree aim alert align allow amend analyse analyze annotate
    announce anonymise anonymize answer apologise apologize append apply approve archive arrange ask assemble assess
    assign attach audit back backfill backup bake balance batch beat begin benchmark bend bill blend blur boil book
    boot brainstorm branch breathe brew bring browse brush build bump bundle buy calculate calibrate call cancel
    capture carry catch celebrate change charge chart check cherry-pick chill choose chop cite clean clear click
    clone close code collect combine come commit compare compile complete compost compress configure confirm connect
    contact contain contrast convert cook copy cordon count countersign cover create credit critique crop cut
    deactivate deal debit debug decide define delete deliver deploy deposit deprecate describe design develop
    diagnose dial dig disable disassemble disconnect discuss dismiss dispatch display distribute do document
    double-check downgrade download draft drag drain draw dress drive drizzle drop dry dump duplicate edit eject
    email embed enable encrypt end ensure enter eradicate escalate establish estimate evaluate examine execute exit
    expand explain export extract fasten fax feed fertilise fertilize fetch file fill filter find finish fit fix
    flash flip flush focus fold follow fork format forward freeze fry fund garnish gather generate get give go grab
    grant graph greet grep grill grind groom group guide hand handle harvest hash have head heat highlight hire hold
    hook hover identify ignore implement import include increase inform initialise initialize insert inspect install
    integrate interview introduce investigate invite invoice isolate issue iterate jog join keep knead label launch
    lay layer leave lengthen let lie lift limit link lint list listen load locate lock log look loosen lower mail
    make marinate mark mask match measure meditate meet melt memorise memorize merge message migrate minify mix
    monitor mount move mow mute name normalise normalize notarize note notify obfuscate obtain offer onboard open
    optimise optimize order organise organize outline pack package page pallet paste patch pause pay peel perform
    phone pick pin pinch ping place plan plant play plot plug polish post pour practice practise predict prepare
    press preview print process produce profile promote proofread propose prototype provide provision prune publish
    pull purge push put quarantine queue quiz quote raise rake rank rate re-check re-deploy re-open re-read re-run
    reach read reassure rebase reboot rebuild receive recharge recheck recite recommend reconcile record recover
    redact redeploy reduce refactor refer reference refill reformat refresh refund register rehearse reindex reject
    relaunch relax release reload remind remove rename render reopen repeat rephrase replace reply report reproduce
    request reread rerun reserve reset resize resolve respond restart restore retry return revert review revise
    revoke rewrite ring rinse roast roll rollback rotate route run salt sample sanitise sanitize save say scale scan
    schedule score screw scroll scrub seal search season seat seed select sell send separate serve set setup share
    sharpen ship shorten show shred shut sign simmer simplify sit sketch skip slice snapshot soak sort spin splice
    split spread sprinkle squash squat squeeze stage stamp stand start stash state steam step stick stir stop store
    stretch strip submit subtract suggest summarise summarize suspend swap sweep swipe switch sync tabulate tag take
    talk tap taste tell terminate test text thank thaw think throw tick tidy tighten toast toggle top toss trace
    track train transcribe transfer translate transpile treat triage trigger trim try turn type uncordon undo
    uninstall unload unlock unmount unpin unplug unzip update upgrade upload use vaccinate vacuum validate verify
    view visit wait walk warm warn wash watch water weigh welcome whisk wipe wire withdraw work wrap write zip zoom"""
VERBS: Final = frozenset(_VERBS_TEXT.split())
WORD: Final = re.compile(r"[A-Za-z][\w-]*")
_FILLERS_TEXT: Final = """
    a an the my our your their his her its i we you me us to for of on in at with is are be do does when whenever every
    each time any anytime as soon and or new some someone somebody ask asks asked want wants need needs get gets
    please"""
_FILLERS: Final = frozenset(_FILLERS_TEXT.split())
_KEY_WORD: Final = re.compile(r"[^\W_]+(?:[-'’][^\W_]+)*")
_ENDING: Final = re.compile(r"(?<=\w{3})(?:ing|ment|s)\Z")


@dataclass(frozen=True, slots=True)
class Step:
    """One thing to do. `span` is the range of the text that `text` stands at, white space apart."""

    text: str
    span: tuple[int, int]


@dataclass(frozen=True, slots=True)
class Procedure:
    """How something is done. `trigger` as it was said; `event`: it says when, and not what for; `span`: all of it."""

    trigger: str
    event: bool
    steps: tuple[Step, ...]
    span: tuple[int, int]

    @property
    def key(self) -> str:
        """The same for triggers that differ in form only: one of them holds at a time."""
        return trigger_key(self.trigger)

    @property
    def lead(self) -> str:
        """How it opens where it is shown: what it is found by."""
        if self.event:
            return f"{self.trigger[:1].upper()}{self.trigger[1:]}:"
        first = WORD.match(self.trigger)
        acts = first is not None and first[0].casefold() in VERBS
        return f"How to {self.trigger}:" if acts else f"Procedure for {self.trigger}:"

    @property
    def statement(self) -> str:
        """As a memory shows it, readable alone."""
        return "\n".join((self.lead, *(f"{number}. {step.text}" for number, step in enumerate(self.steps, 1))))


def content_key(trigger: str, steps: Sequence[str]) -> bytes:
    """The same trigger with the same steps is one memory, however often it is taught. 32 bytes."""
    words = [trigger, *(" ".join(step.casefold().split()) for step in steps)]
    return hashlib.sha256("\x1f".join(("procedure", *words)).encode("utf-8", "surrogatepass")).digest()


def fits(one: Procedure, text: str) -> bool:
    """Whether each step stands where it says it does."""
    return all(
        0 <= step.span[0] < step.span[1] <= len(text) and plain(text[slice(*step.span)]) == step.text
        for step in one.steps
    )


def plain(text: str) -> str:
    """Without bold marks, its white space single."""
    return " ".join(text.replace("**", "").split())


def trigger_key(trigger: str) -> str:
    """What a trigger is about: its words without fillers and endings, each once and sorted; "" for none."""
    words = [word.casefold().replace("’", "'").removesuffix("'s") for word in _KEY_WORD.findall(trigger)]
    own = [word for word in words if word not in _FILLERS] or words
    return " ".join(sorted({_stem(word) for word in own}))


def _stem(word: str) -> str:
    """ "deploying", "deployment", "deploys": one trigger."""
    if word.endswith("ss"):
        return word
    stem = _ENDING.sub("", word)
    stem = stem[:-1] if len(stem) > 3 and stem[-1] == stem[-2] and stem != word else stem
    return stem.removesuffix("e") if len(stem) > 3 else stem
