"""How a team works, what runs where: a sentence of covered text in, conventions, topology, versions, corrections out.

"we use tabs", "the staging DB runs on db7:5433", "billing-api depends on auth", "using Bootstrap 5.3.0", "Always show
the units". A place or a dependency counts only where it looks like one (a digit, a dot, a colon, a capital); every run
of characters is bounded. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.fact import Cardinality
from policies.fact_patterns_elsewhere import LANGUAGES
from policies.fact_patterns_words import (
    ANAPHORS,
    AT_PRESENT,
    CAPITALS,
    KIN_MANY,
    KIN_ONE,
    PETS,
    TOOLS,
    as_object,
    normalised,
    word_set,
)
from policies.fact_rule import Told

_THINGS: Final = (
    "service|server|servers|db|database|cluster|api|app|application|backend|back-end|frontend|front-end"
    "|repo|repository|host|queue|cache|worker|workers"
    "|job|pipeline|cron|cronjob|proxy|gateway|bucket|container|pod|node|module|package|library|site"
    "|website|instance|vm|endpoint|dashboard|environment"
    "|staging|production|prod|broker|registry|config|configuration|logs|backups|docs|tests|build|ci"
    "|router|firewall|load balancer|scheduler|website"
)
# A word that joins others. What joins by _ is one word to \w, so it is looked for first: split at each, it is 2 ** n.
_IDENTIFIER: Final = r"[A-Za-z](?:\w{0,80}+(?:[-.]\w{1,80}+){1,16}+|(?=\w{0,80}?_\w)\w{1,80}+)"
# Who is written like a service: "my ex-wife lives in Berlin".
_SOMEBODY: Final = re.compile(
    rf"ex-\w+|(?:\w+-)+(?:in-law|worker|founder|{KIN_ONE}|{KIN_MANY})s?|(?:{KIN_ONE}|{KIN_MANY})s?", re.IGNORECASE
)
_NAMED_TOOL: Final = rf"(?:{'|'.join(sorted(TOOLS))})(?![\w-])"
_LINK: Final = (
    r"(?:runs on|runs in|is running on|are running on|run on|lives? (?:on|in|at|under)|(?:is"
    r"|are) (?:now )?hosted (?:on|at|in)|(?:is|are) (?:now )?deployed (?:to|on|in|at)"
    r"|(?:listens|is (?:now )?listening) on(?: port)?|depends on|talks to|connects to"
    r"|(?:is|are) (?:stored |kept |back )?(?:on|at|in|under|behind)|uses?|is written in|reads from|writes to)"
)
# Without one of these nothing runs anywhere: a hundredth of the time.
_LINKS: Final = re.compile(f" {_LINK} ", re.IGNORECASE)
_RUNS: Final = re.compile(
    rf"(?P<s>(?:(?:the|our|my) (?:[\w.'-]+ ){{0,3}}?(?:{_THINGS}|{_NAMED_TOOL})"
    rf"|(?:service|server|module|package) [\w.-]+|(?<![\w.-]){_NAMED_TOOL}|{_IDENTIFIER}))(?: now| currently| only)?"
    rf" (?P<v>{_LINK})"
    r" (?P<o>[^\s,;!?()]+(?: (?-i:[A-Z\d])[^\s,;!?()]*){0,2})",
    re.IGNORECASE,
)
# Where a thing listens is not where it runs: "the api runs on port 8080" says nothing of its host.
_PORT: Final = re.compile(
    r"(?:port )?(?P<o>(?<=port )\d{1,5}(?![\w:])|\d{4,5}(?=\W*$|[.,;] |,? (?:now|not|again|instead|and|but)\b))",
    re.IGNORECASE,
)
# "At 80%", "in 5 minutes": no place.
_AMOUNT: Final = re.compile(r"[\d.,:]+(?:%|[ap]m|k|x|s|ms|gb|mb|th|st|nd|rd)?", re.IGNORECASE)
_DENIED: Final = re.compile(r"n't\b|\b(?:not|never|no longer|hardly|rarely|only)\b", re.IGNORECASE)
_LOOKS: Final = re.compile(r"\d|[:/_]|[a-z][A-Z]|\w[.-]\w|^[A-Z]")
_LOOKS_SURE: Final = re.compile(r"\d|[:/_]|[a-z][A-Z]|\w\.\w|^[A-Z]")
_RELATIONS: Final[tuple[tuple[re.Pattern[str], str, Cardinality], ...]] = (
    (re.compile(r"(?:is |are )?written", re.I), "written_in", "one"),
    (re.compile(r"runs? |running|hosted|deployed|lives?", re.I), "runs_on", "one"),
    (re.compile(r"listens", re.I), "listens_on", "one"),
    (re.compile(r"depends", re.I), "depends_on", "many"),
    (re.compile(r"talks|connects|reads|writes", re.I), "connects_to", "many"),
    (re.compile(r"uses?", re.I), "uses", "many"),
    (re.compile(r"(?:is|are) ", re.I), "located_at", "one"),
)
_PLACES: Final = ("runs_on", "listens_on", "located_at", "uses")
_WE: Final = re.compile(
    r"(?:^|[,;:–—]|\b(?:and|but|because|since|so|that|also|remember|note))\s*(?P<w>(?:in|on|for) (?:our"
    r"|this) (?:team|project|repo|codebase|company),? )?we (?P<n>(?:don't|do not|never) )?"
    r"(?P<a>always |only |usually |generally |currently |now |also |mostly |all )?(?P<v>use|name|prefix|write|indent"
    r"|format|squash|commit|deploy|ship|store|log|tag|version|document|test|review|merge|rebase|pin|run)"
    r" (?!(?:out of|into|late|low on|short of|away|along|every|positive|negative|names|up"
    r"|our (?:son|daughter|baby|dog|cat|hands))\b)(?!(?<=use )to\b)"
    r"(?P<o>[^,.;:!?()\n\"\ue000]{2,80}(?:\.\w[^,.;:!?()\n\"\ue000]{0,40}){0,3})",
    re.IGNORECASE,
)
# What ends under the name it was told under: "Kafka for the event bus" is Kafka.
_TOOL: Final = rf"(?:{'|'.join(sorted(TOOLS))})(?![\w-])|(?-i:[A-Z])[\w+#-]*(?:\.\w+)?(?: (?-i:[A-Z])[\w+#-]*){{0,2}}"
_TOOL_FOR: Final = re.compile(rf"(?P<t>{_TOOL})(?: (?:for|as|to) .+)?", re.IGNORECASE)
_NEXT_TOOL: Final = re.compile(rf" and (?={_TOOL})", re.IGNORECASE)
_ORDER: Final = re.compile(
    r"\W{0,3}(?:please,? )?(?:(?:from now on|going forward|in (?:the )?future),? (?:please )?(?:always "
    r"|never |don't )?|(?:remember to )?(?:always|never) |don't ever )"
    r"(?P<v>no|only|include|use|format|provide|show|give|answer|write|respond|reply|call|keep|add|mention|start"
    r"|end|cite|explain|convert|translate|avoid|ask|tell|refer|list"
    r"|make|put|check|assume|suggest|recommend|present|specify|highlight|break|summari[sz]e|offer|name"
    r"|commit|push|force-push|squash|rebase|deploy|merge|run|test|indent|prefix|log|store|remind|send|consider|describe|be"
    r"|touch|edit|delete|remove|skip|restart|reboot|escalate|sign|quote|link|return|comment|pin|release|tag|review|approve)\b"
    r"(?P<o>[^\n\ue000]{2,240})",
    re.IGNORECASE,
)
_FROM_NOW: Final = (
    r"(?:ab (?:jetzt|sofort|heute)|von (?:nun|jetzt) an|in zukunft|künftig|à partir de maintenant|désormais|dorénavant"
    r"|(?:a partir de|desde) ahora|de ahora en adelante|a partir de agora|de agora em diante"
    r"|daqui (?:em diante|para a frente)"
    r"|d'ora in (?:poi|avanti)|da ora in (?:poi|avanti)|vanaf nu|voortaan)"
)
_BID: Final = (
    r"(?:antworten?|schreib(?:en?)?|erklär(?:en?)?|nenn(?:en?)?|verwenden?|benutz(?:en?)?|nutz(?:en?)?|gib|zeig(?:en?)?|sprich|duz(?:en?)?"
    r"|siez(?:en?)?|répond(?:s|ez)|écri(?:s|vez)|utilise[sz]?|donne[sz]?|explique[sz]?|parle[sz]?|appelle[sz]?|tutoie[sz]?|vouvoie[sz]?"
    r"|respond[ae](?:me)?|respóndeme|contesta(?:me)?|contéstame|escrib[ae]|escríbeme|us[ae]s?|utili[cz][ae]s?|habla(?:me)?"
    r"|háblame|llámame|explica(?:me)?|escrev[ae]|fal[ae]|explique|rispondi(?:mi)?|scrivi(?:mi)?|parla(?:mi)?|chiamami|spiega(?:mi)?"
    r"|antwoord|schrijf|gebruik|noem|spreek|geef)"
)
_EVER: Final = r"(?:immer|stets|nie(?:mals)?|toujours|jamais|siempre|nunca|sempre|mai|altijd|nooit)"
_PLEASE: Final = r"(?:bitte|graag|por favor,?|s'il (?:te|vous) pla[iî]t,?|per favore,?)"
_ORDER_ELSEWHERE: Final = re.compile(
    r"\W{0,3}(?:(?:merk dir|bitte|por favor|s'il (?:te|vous) pla[iî]t|per favore|alsjeblieft)(?: bitte)?[,: ]+){0,2}"
    rf"(?:{_FROM_NOW},? (?:(?:{_PLEASE}|{_EVER}) ){{0,2}}(?:{_BID}\b|(?:auf|e[nm]|in(?: het)?) (?:{LANGUAGES})\b)"
    rf"|{_FROM_NOW},? {_PLEASE} \w+"
    rf"|(?:{_EVER} |ne |n')?{_BID}(?:[- ][\w']+){{0,3}}? {_EVER}\b|nunca (?:uses|utilices|escribas|respondas|use)\b)"
    r"(?![^\n]{0,240}[?？])",
    re.IGNORECASE,
)
# "Decision: we use Kafka for events."
_DECISION: Final = re.compile(
    r"\W{0,3}(?:decision|decided|agreed|entscheidung|décision|decisión|decisão|decisione|besluit)\W{0,3}: *"
    r"(?P<o>[^\n\ue000?]{3,200})",
    re.IGNORECASE,
)
_USING: Final = re.compile(
    r"\b(?:using|use|uses|running|run|on|with|(?:up|down)graded to|switched to|migrated to|have|installed"
    r"|(?:(?:up|down)graded|switched|migrated|updated) from [\w+#.-]{1,30}(?: v?\d[\w.]{0,10})? to|updated to)"
    r"(?: the)? (?P<t>[A-Z][\w+#]*(?:[.-][\w]+)?(?: [A-Z][\w+#.-]*)?) (?:version |v)?"
    r"(?P<o>\d+\.\d+(?:\.\d+)*|(?<=version )\d+)(?![\w%:/]|,\d)"
)
_UPGRADE: Final = re.compile(r"(?:up|down)graded|switched|migrated|updated", re.I)
_PATH: Final = re.compile(
    r"(?P<s>(?:the|our|my) (?:[\w.-]+ ){0,3}[\w.-]+) (?P<v>is|are|lives?|goes?|go)(?: stored| kept"
    r"| located)? (?:in|at|under) (?P<o>[~.]?/[\w./-]{2,100}|[A-Z]:\\[\w.\\-]{2,100})",
    re.I,
)
_FAVOURITE: Final = re.compile(
    r"(?:^|(?<=[,;:!.] ))(?P<o>[A-Z][\w'&-]*(?: [\w'&-]+){0,5}) (?:is|are) (?:definitely |still |also "
    r"|probably )?(?P<m>one of |some of )?my (?:all-time )?favou?rite (?P<k>[a-z]+)"
)
# "Max is my son": who is told of stands first. "Chocolate is my best friend" tells of nobody.
_IS_MY: Final = re.compile(
    rf"(?:^|(?<=[,;:!.] )|(?<=and ))(?P<o>[{CAPITALS}][\w'-]{{1,20}}) is (?:actually |really |also )?my "
    rf"(?P<k>(?i:(?P<one>(?!(?:best friend|partner|boss)\b)(?:{KIN_ONE}))|(?!(?:friend|mentor|twin|kid|child)\b)"
    rf"(?:{KIN_MANY})|{PETS}))"
    r"(?=[,.;!]|$| (?:and|but|so)\b)"
)
_POINTING: Final = word_set(
    "It It's This That That's These Those They He She What Here There Yeah Yes Which Who And But So I My"
    " We If When Is Are Do"
)
_SETS_RIGHT: Final = (
    r"(?:actually|no|nope|nein|non|perdón|pardon|sorry|wait|correction|oops|my (?:mistake|bad)"
    r"|scratch that|to correct myself|i (?:made a mistake|misspoke))"
)
# "No pets, …", "no tengo coche" put nothing right: behind a "no" comes a stop, or who says what is so.
_CORRECTS: Final = re.compile(
    rf"(?:^|[.!?\n—-]\s*)(?:actually\b|{_SETS_RIGHT}\b"
    r"(?:\s*[,:.!—-]|\s+(?:i|i'm|it|it's|that's|my|our|we|we're|sorry|wait|ich|wir|es|je|j'|c'est|nous)(?!\w)))",
    re.I,
)
# Before what is said by the way is covered: no "thanks" is left then.
DECLINES: Final = re.compile(r"\W*\w+[,.!]? (?:thanks?|thank you|thx|danke|merci|gracias|grazie|obrigad[oa])\b", re.I)
# "Oh." and "So yeah" alone put nothing right.
_ONLY_CORRECTS: Final = re.compile(
    rf"(?:\W*\b(?:oh|ah|so)\b)*(?:\W*\b(?:{_SETS_RIGHT}|typo|that was wrong)\b(?:\W*\b(?:oh|ah|so)\b)*)+\W*", re.I
)
_MEANT: Final = re.compile(
    r"(?:(?:^|[,;—-] )(?:(?:actually|no|nope|sorry|wait|oops|correction)[,:!\s—-]+){1,3}(?:sorry,? "
    r"|actually,? )?(?:it's|it is|it was|i meant|i mean|make that|that's|should be)|^(?:i meant"
    r"|correction:|make that)) (?:actually )?(?:to say )?"
    r"(?P<o>[^,.;:!?()\n\"\ue000]{1,50})(?:,? not (?P<x>[^,.;:!?()\n\"\ue000]{1,40}))?",
    re.I,
)
_NOT_BUT: Final = re.compile(
    r"\b(?:it's|it is|i meant|sorry,?) not (?!just|only|about|all|that|really|easy|so|too|always|even"
    r"|exactly|the)(?P<x>[^,.;:!?()\n\"\ue000]{1,40}?),? but (?P<o>[^,.;:!?()\n\"\ue000]{1,50})",
    re.I,
)


def corrects(said: str, start: int, end: int) -> bool:
    """Whether a sentence opens by taking something back."""
    return _CORRECTS.match(said[start : min(end, start + 60)]) is not None


def only_corrects(said: str, start: int, end: int) -> bool:
    """Whether a sentence does nothing else, so that what is right stands in the next: "Sorry, my mistake."."""
    return end - start < 60 and _ONLY_CORRECTS.fullmatch(said, start, end) is not None


def told(said: str, start: int, end: int) -> Iterator[Told]:
    """The findings of the sentence [start, end), rule by rule."""
    yield from _topology(said, start, end)
    yield from _versions(said, start, end)
    yield from _conventions(said, start, end)
    yield from _decisions(said, start, end)
    yield from _corrections(said, start, end)
    yield from _favourites(said, start, end)
    yield from _relatives(said, start, end)


def _topology(said: str, start: int, end: int) -> Iterator[Told]:
    for pattern in (_RUNS, _PATH) if _LINKS.search(said, start, end) else (_PATH,):
        for found in pattern.finditer(said, start, end):
            target = found["o"].rstrip(".'\"*_`")
            subject = normalised(found["s"])
            named = re.fullmatch(_IDENTIFIER, found["s"]) is not None or predicate_links(found["v"])
            if (
                not target
                or _SOMEBODY.fullmatch(found["s"])
                or _DENIED.search(found["s"])
                or not (_LOOKS if named else _LOOKS_SURE).search(target)
                or ANAPHORS.fullmatch(target)
                or target in ("I", "I'm")
            ):
                continue
            predicate, cardinality = _relation(found["v"], target)
            port = _PORT.match(said, found.start("o"), end) if predicate in _PLACES else None
            if re.fullmatch(_NAMED_TOOL, found["s"], re.IGNORECASE) and (
                port is None or said.startswith(" by default", port.end())
            ):
                continue  # "Docker runs on Linux": everybody's
            if port is not None:
                predicate, cardinality = "listens_on", "one"
            if predicate == "located_at" and _AMOUNT.fullmatch(target):
                continue
            if (
                predicate in ("located_at", "uses")
                and target.istitle()
                and target.isalpha()
                and predicate == "located_at"
            ):
                continue
            shown = (
                f"{found['s'][:1].upper()}{found['s'][1:]} {found['v']} {'' if pattern is _RUNS else 'in '}{target}."
            )
            yield Told(
                subject,
                predicate,
                port["o"] if port else as_object(target),
                _own(shown),
                (found.start("s"), found.start("o") + len(target)),
                "topology",
                cardinality,
                importance=0.7,
            )
        if pattern is _RUNS and _RUNS.search(said, start, end):
            return


def _relation(verb: str, target: str) -> tuple[str, Cardinality]:
    """What a verb says of a service and what it names, and of how many of them that may be so at once."""
    if target[0] in "/~":
        return "located_at", "one"
    return next(((relation, many) for words, relation, many in _RELATIONS if words.match(verb)), ("located_at", "one"))


def predicate_links(verb: str) -> bool:
    """Whether a verb ties one service to another, whose name may be two plain words."""
    return re.match(r"depends|talks|connects|reads|writes", verb, re.I) is not None


def _own(shown: str) -> str:
    """ "Our db runs on x" as somebody else says it."""
    return re.sub(r"^(?:Our|My)\b", "{P}", shown)


def _versions(said: str, start: int, end: int) -> Iterator[Told]:
    for found in _USING.finditer(said, start, end):
        tool = found["t"]
        if tool.casefold() in (
            "i",
            "the",
            "a",
            "section",
            "chapter",
            "figure",
            "table",
            "question",
            "exercise",
            "problem",
            "part",
            "step",
            "sprint",
            "version",
        ):
            continue
        upgraded = _UPGRADE.match(found[0]) is not None
        yield Told(
            normalised(tool),
            "version",
            found["o"],
            f"{{S}} uses {tool} {found['o']}.",
            (found.start(), found.end()),
            "topology",
            "one",
            importance=0.55,
            qualifiers={"value": found["o"]} | ({"changed": "yes"} if upgraded else {}),
        )


def _conventions(said: str, start: int, end: int) -> Iterator[Told]:
    order = _ORDER.match(said, start, end) or _ORDER_ELSEWHERE.match(said, start, end)
    if order is not None:
        text = said[order.start() : end].strip(" .!")
        shown = said[start:end].strip()
        yield Told(
            "user",
            "instruction",
            as_object(text),
            f"{{S}} said: “{shown}”",
            (start, end),
            "convention",
            importance=0.85,
        )
    for found in _WE.finditer(said[start:end]):  # a slice: "^" is the beginning of the sentence
        chosen = re.split(
            r" (?:and we|but|because|since|so|which|when|while|if|can|could|how|as|until|till|starting"
            r"|beginning|from (?:next|tomorrow|[A-Z][a-z]+))\b",
            found["o"],
        )[0].rstrip(" .")
        bare = AT_PRESENT.sub("", chosen)
        if not bare or ANAPHORS.search(bare) or len(chosen.split()) > 10:
            continue
        negated = found["n"] is not None
        if negated and found["a"]:  # "we don't always use tabs"
            continue
        verb = found["v"].casefold()
        often = (found["a"] or "").lower().replace("all ", "").replace("also ", "")
        by_means = verb != "use" and bare.casefold().startswith("with ")
        predicate = "uses" if verb == "use" else f"convention_{verb}{'_with' * by_means}"
        at = start + found.start("o")
        for begins, ends, thing in _tools(chosen, bare) if verb == "use" and not negated else [(0, len(chosen), bare)]:
            yield Told(
                "team",
                predicate,
                as_object(thing.split(" ", 1)[1] if by_means else thing),
                f"{{P}} team {f'does not {verb}' if negated else often + _third(verb)} {chosen[begins:ends]}.",
                (at + begins if begins else start + found.start("v"), at + ends),
                "convention",
                "one" if by_means and not negated else "many",
                negated=negated,
                importance=0.7,
            )


def _tools(chosen: str, bare: str) -> list[tuple[int, int, str]]:
    """The ranges of what is used, each with its name; all of it where not each is a tool with a name."""
    begins = [0, *(one.end() for one in _NEXT_TOOL.finditer(bare))]
    ends = [*(one.start() for one in _NEXT_TOOL.finditer(bare)), len(bare)]
    found = [_TOOL_FOR.fullmatch(bare, begin, end) for begin, end in zip(begins, ends, strict=True)]
    named = [(*one.span(), one["t"]) for one in found if one]
    return named if len(named) == len(found) else [(0, len(chosen), bare)]


def _decisions(said: str, start: int, end: int) -> Iterator[Told]:
    """What somebody writes down as decided."""
    found = _DECISION.match(said, start, end)
    chosen = found["o"].strip(" .!") if found else ""
    if found and " " in chosen:
        span = (found.start("o"), found.start("o") + len(chosen))
        yield Told(
            "user", "decided", as_object(chosen), f"{{S}} decided: “{chosen}”", span, "decision", importance=0.65
        )


def _favourites(said: str, start: int, end: int) -> Iterator[Told]:
    """ "Lasagna is one of my favourite dishes"."""
    for found in _FAVOURITE.finditer(said[start:end]):
        name, kind = found["o"], normalised(found["k"])
        if (
            name.split()[0] in _POINTING
            or ANAPHORS.search(name)
            or kind in ("part", "thing", "one", "memory", "moment", "way", "time", "scene")
        ):
            continue
        many = found["m"] is not None
        says = f"{name} is {'one of ' if many else ''}{{P}} favourite {found['k']}."
        predicate = "likes" if many else f"favourite_{kind}"
        yield Told(
            "user",
            predicate,
            as_object(name),
            says,
            (start + found.start(), start + found.end()),
            "preference",
            "many" if many else "one",
            importance=0.65,
        )


def _relatives(said: str, start: int, end: int) -> Iterator[Told]:
    """ "Max is my son"."""
    for found in _IS_MY.finditer(said[start:end]):
        kind = normalised(found["k"])
        if found["o"] in _POINTING:
            continue
        yield Told(
            "user",
            f"{kind.replace(' ', '_')}_name",
            as_object(found["o"]),
            f"{{P}} {kind} is called {found['o']}.",
            (start + found.start(), start + found.end()),
            "fact",
            "one" if found["one"] else "many",
            importance=0.75,
        )


def _third(verb: str) -> str:
    if verb.endswith(("s", "sh", "x", "ch")):
        return f"{verb}es"
    return f"{verb[:-1]}ies" if verb.endswith("y") and verb != "deploy" else f"{verb}s"


def _corrections(said: str, start: int, end: int) -> Iterator[Told]:
    found = _MEANT.search(said[start : min(end, start + 200)]) or _NOT_BUT.search(said[start:end])
    if found is None or not found["o"].strip() or len(found["o"].split()) > 6:
        return
    right = found["o"].strip()
    # "No, it's amazing!" takes nothing back: a value, a name, or the wrong word beside the right one does.
    if not found["x"] and not re.search(r"\d|\b[A-Z][a-z]+", right):
        return
    if ANAPHORS.search(right):
        return
    at = start + found.start("o") + len(found["o"]) - len(found["o"].lstrip())
    instead = {"instead_of": as_object(found["x"])} if found["x"] else {}
    shown = said[start:end].strip()
    yield Told(
        "it",
        "corrected_to",
        as_object(right),
        f"{{S}} said: “{shown}”",
        (min(start + found.start(), at), max(start + found.end(), at + len(right))),
        "fact",
        "one",
        correction=True,
        qualifiers=instead,
    )
