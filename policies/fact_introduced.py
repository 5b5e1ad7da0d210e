"""Where somebody's text begins that a lead names: "Continue the story: …", "Is this sentence correct? …".

A lead is what stands before a colon and names a text that is not said to be one's own, a question whether words are
right, or on whose behalf one asks. All behind it is that text. English, German, French, Spanish and Chinese. Pure;
refuses nothing; every run is bounded.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from policies.fact_worded import Worded, lowered, worded

_TEXTS: Final = (
    r"(?:(?<!long )story|tale|novel|homework|worksheet|profile|bio|sentence|paragraph|passage|essay|diary"
    r"|dialogue|monologue|poem|riddle|testimonial|script|subtitle|quote|comprehension|quiz|skit"
    r"|geschichte|roman|hausaufgaben?|übung|profil|satz|sätze|absatz|aufsatz|tagebuch|gedicht|rätsel|drehbuch|zitat"
    r"|histoire|devoirs|exercice|phrase|paragraphe|rédaction|journal intime|poème|devinette|scénario|citation"
    r"|historia|cuento|novela|deberes|ejercicio|perfil|frase|oración|párrafo|redacción|poema|adivinanza|guion|cita)s?"
)
# What one may have written oneself, unless somebody is named: "an e-mail from HR".
_LETTERS: Final = (
    r"(?:message|e-?mail|text|letter|answer|post|comment|note|nachricht|mail|brief|antwort|beitrag|texte|lettre|courriel"
    r"|réponse|texto|mensaje|correo|carta|respuesta)s? (?:(?:of|from|by|von|vom|de[lr]?|du) |d['’])"
    r"(?!(?:me|myself|mine|us|mir|uns|moi|nous|mí|nosotros)\b)"
)
_OWN: Final = re.compile(
    rf"\b(?:my|our|mein\w{{0,2}}|unser\w{{0,2}}|mon|ma|mes|notre|nos|mis?|nuestr[oa]s?) (?:(?!\w+'s)\w+ )?{_TEXTS}\b"
    r"|\b(?:about|of|über|von|de|sobre) (?:me|myself|us|mich|mir|uns|moi|nous|mí|nosotros)\b",
    re.IGNORECASE,
)
_LEAD: Final = worded(
    rf"(?:^|[\n.!?])(?P<lead>[^\n.!?:]{{0,100}}?\b(?:{_TEXTS}\b|{_LETTERS})[^\n.!?:]{{0,40}}) ?:"
    r"|(?P<han>[^\n。！？：:]{0,30}(?:作业|作業|故事|小说|小說|日记|日記|作文|句子|简介|簡介)[^\n。！？：:]{0,10})[：:]",
    ":|：",
    "story|tale|novel|homework|worksheet|profil|bio|sentence|paragraph|passage|essay|diary|dialogue|monologue|poem|riddle"
    "|testimonial|script|subtitle|quote|comprehension|quiz|skit"
    "|geschichte|roman|hausaufgabe|übung|satz|sätze|tagebuch|gedicht|rätsel|drehbuch|zitat"
    "|histoire|devoirs|exercice|phrase|rédaction|journal intime|poème|devinette|scénario|citation"
    "|historia|cuento|deberes|ejercicio|perfil|frase|oración|párrafo|redacción|adivinanza|guion|cita"
    "|message|mail|text|letter|answer|post|comment|note|nachricht|brief|antwort|beitrag|lettre|courriel|réponse|mensaje"
    "|correo|carta|respuesta|作业|作業|故事|小说|小說|日记|日記|作文|句子|简介|簡介",
)
_RIGHT: Final = (
    r"(?:in)?correct(?:e|a|os?|as)?|grammatical(?:ly)?|richtig|korrekt|falsch|juste|fausse|bien escrit[oa]|right"
)
_WORDS: Final = (
    r"(?:sentence|phrase|wording|grammar|satz|sätze|formulierung|grammatik|grammaire|frase|oración|gramática)s?"
)
_ASKS_IF_RIGHT: Final = worded(
    rf"\b(?:{_WORDS}\b[^\n.!?]{{0,60}}\b(?:{_RIGHT})|(?:{_RIGHT})\b[^\n.!?]{{0,60}}\b{_WORDS})\b[^\n.!?]{{0,30}}\?"
    r"|(?:这句话|這句話|这个句子|這個句子|这样说|這樣說)[^\n。！？?]{0,8}(?:对|對|正确|正確|通顺|通順)吗?[？?]",
    "?|？",
    "correct|grammatical|richtig|korrekt|falsch|juste|fausse|bien escrit|right|对|對|正确|正確|通顺|通順",
    "sentence|phrase|wording|gramma|satz|sätze|formulierung|frase|oración|gramática|这|這",
)
_ON_BEHALF: Final = worded(
    r"\b(?:asking|ask|frage|demande|pregunto)(?: this| das| ça| esto)? (?:for|on behalf of|für|pour|para|por)"
    r" (?:an?|my|one of my|eine?n?|meine?n?|une?|mon|ma|una?|mi) (?:[a-z]+ )?"
    r"(?:friend|colleague|co-?worker|neighbou?r|relative|cousin|sister|brother|mother|mom|mum|father|dad|son|daughter|wife"
    r"|husband|freund(?:in)?|kolleg(?:e|in|en)|nachbar(?:in|n)?|schwester|bruder|mutter|vater|ami[e]?|copine|copain|collègue"
    r"|sœur|frère|mère|père|amig[oa]|colega|vecin[oa]|herman[oa]|madre|padre)\b",
    "ask|frage|demande|pregunto",
)


_VIEW: Final = worded(
    r"\baus (?:der )?(?:sicht|perspektive)\b|\bdu point de vue d|\bdesde (?:el punto de vista|la perspectiva) de"
    r"|以[^\n，。]{1,12}(?:口吻|视角|視角|身份)",
    "sicht|perspektive|point de vue|desde |以",
)
_SAYS: Final = worded(
    r"(?:^|[\n.!?])(?P<lead>[^\n.!?:]{0,80}\b(?:said|says|wrote|writes|texted|replied|answered|posted|told (?:me|us)"
    r"|schrieb|schreibt|geschrieben|sagt|sagte|gesagt|meinte|antwortete|écrit|dit|répondu"
    r"|escribe|escribió|escrito|dijo|dice|dicho|respondió)\b[^\n.!?:]{0,30}) ?: ?(?=\S)",
    ":",
    "said|says|wrote|writes|texted|replied|answered|posted|told |schrieb|schreibt|sagt|meinte|antwortete|écrit|dit"
    "|répondu|escri|dijo|dice|dicho|respondió",
)
_SPEAKER: Final = re.compile(r"\b(?:I|I've|we|we've|ich|wir|je|nous|yo|nosotros)\b|\bj['’]", re.IGNORECASE)


def introduced(said: str) -> list[tuple[int, int]]:
    """The ranges that are no words of who speaks: of a text that a lead names all that follows, lead and all; of what
    somebody else is said to have said or written the rest of the line.
    """
    small = lowered(said)
    start = min((one.start() for one in _begin(said, small)), default=len(said))
    told = [one.end() for one in _found(_SAYS, said, small) if not _SPEAKER.search(one["lead"]) and one.end() <= start]
    lines = [(at, said.find("\n", at, start)) for at in told]
    return [*((at, end if end >= 0 else start) for at, end in lines), (start, len(said))]


def _begin(said: str, small: str) -> Iterator[re.Match[str]]:
    yield from (one for one in _found(_LEAD, said, small) if not _is_own(one))
    for asks in (_ASKS_IF_RIGHT, _ON_BEHALF, _VIEW):
        yield from _found(asks, said, small)


def _found(of: Worded, said: str, small: str) -> Iterator[re.Match[str]]:
    return of.pattern.finditer(said) if of.may_find(small) else iter(())


def _is_own(found: re.Match[str]) -> bool:
    lead = found["lead"] or found["han"]
    return _OWN.search(lead) is not None or "我的" in lead
