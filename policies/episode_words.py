"""What a conversation was about: its messages in; topics, entities, files and addresses out, each a bounded list.

No corpus and no model: a topic's weight is how often and in how many messages it is said, the user's words counting
double, times the length of the word, which stands in for its rarity (Zipf: the rarer a word, the longer). Entities are
runs of capitalised words that do not owe their capital to the start of a sentence. Addresses lose user, query and
fragment, which may be credentials. Pure; time is linear in the text.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from math import log1p
from typing import Final
from urllib.parse import urlsplit, urlunsplit

from policies.episode import CHARS_READ_MAX, Said, prose
from policies.fact_patterns_prose import is_prose
from policies.fact_patterns_words import CAPITALS
from policies.sentences import sentence_spans
from policies.summary import MARKS
from policies.text import SIGNS

TOPICS_MAX: Final = 8
ENTITIES_MAX: Final = 16
FILES_MAX: Final = 32
URLS_MAX: Final = 32
TOOLS_MAX: Final = 32
ITEM_CHARS_MAX: Final = 200
_SENTENCES_MAX: Final = 2_000

_WORD: Final = re.compile(rf"[^\W\d_][\w{SIGNS}’'-]{{2,40}}|[\u30a0-\u30ff]{{2,12}}|[\u4e00-\u9fff]{{2,6}}")
_STOPWORDS_TEXT: Final = """
    about above actually after again all almost also always and another any anything are aren't ask asked away back
    because been before being below better between both but call called came can can't cannot come could couldn't
    did didn't different does doesn't doing don't done down during each either else enough even ever every everything
    example feel few find first for from further get gets getting give given goes going good got great had has have
    haven't having hello help her here hers hey him his how however i'd i'll i'm i've into isn't it's its just keep kind
    know last later least less let let's like likely little long look looking lot made make makes making many may maybe
    mean might more most much must need needs never new next nice not nothing now off okay old once one only other our
    out over own part people perhaps please point possible pretty probably put quite rather really right said same say
    second see seem seems set she should show since some something sometimes soon start started still such sure take
    tell than thank thanks that that's the their them then there there's these they they're thing things think this
    those though through time today together too took tried try trying two under until use used using usually very want
    wanted wants was wasn't way well went were what what's when where whether which while who why will with within
    without won't work works would wouldn't yeah yes yet you you'll you're you've your yours
    aber alle als also auch auf aus bei bin bis bitte dann das dass dein dem den der des die dies diese doch dort durch
    ein eine einem einen einer eines etwas für habe haben hat hier ich ihm ihn ihr immer ist jetzt kann kein können
    machen man mehr mein meine mich mir mit muss nach nicht noch nur oder ohne schon sehr sein seine sich sie sind
    soll über und uns unter vom von vor war waren was weil wenn wer werden wie wieder will wir wird wo zum zur
    avec ces cette comme dans des elle est être les leur mais mon nous par pas plus pour que qui sans ses son sont sur
    une vous como con del ella ellos entre era esta este esto está las los más muy para pero por porque qué sin sobre
    son también una uno"""
_STOPWORDS: Final = frozenset(_STOPWORDS_TEXT.split())
_CALENDAR_TEXT: Final = """
    monday tuesday wednesday thursday friday saturday sunday january february march april may june july august
    september october november december montag dienstag mittwoch donnerstag freitag samstag sonntag
    yesterday tomorrow tonight"""
_NO_NAMES: Final = _STOPWORDS | frozenset(_CALENDAR_TEXT.split())
# Too short for topics, or of their words: what a sentence may begin with before a name, and no name does.
_BEFORE_NAMES_TEXT: Final = """
    In On At By To Of As If Is My No We It Hi Dear Near Against Upon Onto Around Across Behind Beyond Despite Unlike
    Neither Visit Meet Hallo Hola Enchanté Enchantée Bonjour Bonsoir Salut Coucou Ciao Salve Buongiorno Buonasera Oi Olá
    Hoi Goedemiddag Hej Moin Servus Cześć Merhaba Привет Здравствуйте Привіт Lieber Liebe Chère Querida Querido Noted
    Danke Merci Gracias Grazie Obrigado Obrigada Bedankt Im Am Zu Er Es Wann À Au Aux En Et Je Il Chez Sous Desde"""
_TITLES: Final = frozenset(("Mr", "Mrs", "Ms", "Dr", "Prof", "St"))
_BEFORE_NAMES: Final = frozenset(_BEFORE_NAMES_TEXT.split())
_PRONOUNS: Final = frozenset(("I", "I'm", "I've", "I'll", "I'd", "I’m", "I’ve", "I’ll", "I’d"))
_PHRASE_MIN: Final = 2
_PHRASE_FACTOR: Final = 1.5


def topics_of(said: Sequence[Said]) -> list[str]:
    """The words and pairs of words that were talked about, the weightiest first, lower case, none twice."""
    weight: dict[str, float] = {}
    messages: Counter[str] = Counter()
    for one in said:
        if one.role in ("user", "assistant"):
            share = 1.0 if one.role == "user" else 0.5
            for term, count in _terms(one.text).items():
                said_here = share * (1 + log1p(count - 1)) * min(len(term), 12)
                weight[term] = weight.get(term, 0.0) + said_here
                messages[term] += 1
    repeated = {term for term in weight if " " not in term or messages[term] >= _PHRASE_MIN}
    ranked = sorted(repeated, key=lambda term: (-weight[term] * (_PHRASE_FACTOR if " " in term else 1), term))
    chosen: list[str] = []
    for term in ranked:
        if not any(set(term.split()) & set(other.split()) for other in chosen):
            chosen.append(term)
        if len(chosen) == TOPICS_MAX:
            break
    return chosen


def _terms(text: str) -> Counter[str]:
    """Words and pairs of neighbours of one message, with how often they stand in it."""
    counts: Counter[str] = Counter()
    plain = _URL.sub(" ", prose(text)).casefold()
    for start, end in sentence_spans(plain)[:_SENTENCES_MAX]:
        found = [(m[0].strip("'’-"), m.start(), m.end()) for m in _WORD.finditer(plain, start, end)]
        kept = [(word, at, upto) for word, at, upto in found if len(word) > 1 and word not in _STOPWORDS]
        counts.update(word for word, _, _ in kept)
        counts.update(f"{a} {b}" for (a, _, upto), (b, at, _) in pairwise(kept) if plain[upto:at] == " ")
    return counts


# ---------------------------------------------------------------- entities

_NAME: Final = re.compile(
    rf"(?:[{CAPITALS}][\w’'&-]{{1,40}}|[{CAPITALS}]{{2,12}})"
    rf"(?:[ ](?:(?:of|de|von|van|der|la)[ ])?[{CAPITALS}][\w’'&-]{{0,40}}){{0,3}}"
)


# German gives every noun a capital. Words of it that are no other language's, but for a few, and those before a noun.
_GERMAN: Final = re.compile(
    r"\b(?:und|nicht|ist|ich|das|mit|für|auf|wir|haben|habe|hat|eine|einen|einem|sich|auch|wird|sind|beim|zum|zur|vom"
    r"|oder|aber|noch|dem)\b",
    re.IGNORECASE,
)
_GERMAN_SHARE_MIN: Final = 0.15
_OF_NOUNS: Final = re.compile(
    r"\b(?i:d(?:er|ie|as|en|em|es)|[kmds]?ein(?:e[mnrs]?)?|(?:ihr|unser|euer|eur|dies|jed|welch)(?:e[mnrs]?)?"
    r"|im|am|beim|zum|zur|vom|ins|ans|paar|viele?|alle|einige|mehr|wenig|zwei|drei|vier)\ "
    r"(?:[a-zäöüß]+e[mnrs]?\ ){0,2}\Z"
)
_BEFORE_NOUN_CHARS: Final = 60


def entities_of(said: Sequence[Said]) -> list[str]:
    """Names, those named most first. One word at the start of a sentence counts where it has its capital elsewhere, and
    so does a noun of a German text.
    """
    sure: Counter[str] = Counter()
    unsure: Counter[str] = Counter()
    for one in said:
        if one.role in ("user", "assistant"):
            for name, may_be_none in _names(one.text):
                (unsure if may_be_none else sure)[name] += 1
    for name, count in unsure.items():
        if name in sure:
            sure[name] += count
    return [name for name, _ in sorted(sure.items(), key=lambda item: (-item[1], item[0]))[:ENTITIES_MAX]]


def names_in(one: Said) -> frozenset[str]:
    """All that this message may name; what `entities_of` gives of it is among them."""
    return frozenset(name for name, _ in _names(one.text)) if one.role in ("user", "assistant") else frozenset()


def _names(text: str) -> Iterator[tuple[str, bool]]:
    """Each name, and whether it is one word that has its capital where it may be none."""
    plain = _URL.sub(" ", prose(text))
    german = len(_GERMAN.findall(plain)) > max(1.0, _GERMAN_SHARE_MIN * len(plain.split()))
    for start, end in sentence_spans(plain)[:_SENTENCES_MAX]:
        if not is_prose(plain[start:end].lstrip(MARKS)):
            continue  # of a stack trace every word is a name
        for match in _NAME.finditer(plain, start, end):
            words = [_bare_word(word) for word in match[0].split()]
            words = words[: next((i for i, word in enumerate(words) if word in _PRONOUNS), len(words))]
            at_start = not any(char.isalnum() for char in plain[start : match.start()])
            before = plain[max(start, match.start() - _BEFORE_NOUN_CHARS) : match.start()]
            while words and (words[0].casefold() in _NO_NAMES or words[0] in _BEFORE_NAMES):
                before, words, at_start = f"{words[0]} ", words[1:], False
            name = " ".join(words)[:ITEM_CHARS_MAX]
            if len(name) > 1 and name not in _TITLES:
                is_noun = german and not name.isupper() and _OF_NOUNS.search(before) is not None
                yield name, (at_start or is_noun) and len(words) == 1


def _bare_word(word: str) -> str:
    for ending in ("'s", "’s"):
        word = word.removesuffix(ending)
    return word.strip("'’-&")


# ---------------------------------------------------------------- files, addresses, tools

_URL: Final = re.compile(r"\bhttps?://[^\s<>\"'`\\{}|^\[\]]{1,2000}", re.IGNORECASE)
_PATH: Final = re.compile(r"[\w./@+~-]{3,}")
_ENDINGS_TEXT: Final = """
    py pyi js jsx ts tsx mjs go rs c h cc cpp hpp java kt rb php cs swift scala lua r jl sql sh bash zsh ps1 bat yaml
    yml toml json jsonl xml html htm css scss md rst txt csv tsv pdf doc docx xls xlsx ppt pptx odt ipynb log ini cfg
    conf env lock png jpg jpeg gif svg webp mp3 mp4 wav mov zip tar gz parquet proto tf"""
_ENDINGS: Final = frozenset(_ENDINGS_TEXT.split())
_WHOLE_NAMES: Final = frozenset({"Dockerfile", "Makefile", "Jenkinsfile", "Procfile"})
_NO_FILES: Final = frozenset(f"{name}.js" for name in ("node", "next", "vue", "nuxt", "react", "express", "d3"))


def files_of(said: Sequence[Said]) -> list[str]:
    """Files that calls of tools name, then those that people name, each once. Listings in outputs are not touched."""
    named = [call.arguments for one in said for call in one.calls]
    spoken = [one.text for one in said if one.role in ("user", "assistant")]
    return _once((path for text in (*named, *spoken) for path in _paths(text)), FILES_MAX)


def urls_of(said: Sequence[Said]) -> list[str]:
    """Addresses that were attached, given to tools or named, each once, without user, query and fragment."""
    texts = [call.arguments for one in said for call in one.calls]
    texts += [one.text for one in said if one.role in ("user", "assistant")]
    attached = [url for one in said for url in one.urls]
    found = (match[0] for text in texts for match in _URL.finditer(text[:CHARS_READ_MAX]))
    return _once((clean for url in (*attached, *found) if (clean := bare_url(url))), URLS_MAX)


def tools_of(said: Sequence[Said]) -> dict[str, int]:
    """The tools that were called and how often, the commonest first."""
    counts = Counter(call.name for one in said for call in one.calls)
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0]))[:TOOLS_MAX])


def bare_url(url: str) -> str:
    """An address without what may be a credential; "" for none."""
    try:
        parts = urlsplit(url.rstrip(".,;:!?)"))
    except ValueError:
        return ""
    if parts.scheme.lower() not in ("http", "https"):
        return ""
    return urlunsplit((parts.scheme, parts.netloc.rpartition("@")[2], parts.path, "", ""))[:ITEM_CHARS_MAX]


def _paths(text: str) -> Iterator[str]:
    for match in _PATH.finditer(_URL.sub(" ", text[:CHARS_READ_MAX])):
        path = match[0].rstrip(".-")
        name = path.rsplit("/", 1)[-1]
        stem, dot, ending = name.rpartition(".")
        known = bool(dot and stem.strip(".")) and ending.lower() in _ENDINGS
        if (known or name in _WHOLE_NAMES) and "@" not in path and name.lower() not in _NO_FILES:
            yield path[:ITEM_CHARS_MAX]


def _once(items: Iterable[str], most: int) -> list[str]:
    found: dict[str, None] = {}
    for item in items:
        found.setdefault(item)
        if len(found) == most:
            break
    return list(found)
