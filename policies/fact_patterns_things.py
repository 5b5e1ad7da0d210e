"""The things that a sentence of German, French, Spanish, Portuguese, Italian or Dutch names: (text, range) in, the
range of each thing out.

"le café et le thé" are two, without their articles. What only points ("das", "ton idée", "la segunda opción"), is
denied ("ni le café", "überhaupt keinen Fisch") or compared is none, and behind an "and" only what has the form of one:
an article, a capital letter or an infinitive. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final

from policies.fact_patterns_words import word_set

Range = tuple[int, int]

_AND: Final = re.compile(r",? (?:und|oder|sowie|et|ou|y|ed?|o|u) |, ", re.IGNORECASE)
# Where what is said of the things ends, and another clause begins.
_ENDS: Final = re.compile(
    r",? (?:pero|sino|aunque|porque|desde|hasta|aber|sondern|obwohl|weil|seit|bis|mais|parce|depuis|(?:quand )?même"
    r"|mas|até|ma|perché|maar|want|sinds)\b",
    re.IGNORECASE,
)
_ARTICLE: Final = re.compile(
    r"a (?!l?as?\b|los\b)|(?:(?:gegen|à|a|de) )?(?P<article>(?:(?:le|la|les|el|los|las|der|die|das|den|un|une|una"
    r"|eine?[nm]?|du|des|de la|al|aux?|os?|as|d[ao]s?|il|lo|i|gli|all[ae]|ai|agli|het|een) |l'|all')+)",
    re.IGNORECASE,
)
_FORM: Final = re.compile(r"[A-ZÀ-Þ][\w'-]+(?: [A-ZÀ-Þ][\w'-]+)?|[a-zà-ÿ]{2,}(?:ar|er|ir|re)")
_POINTS: Final = re.compile(
    r"(?:das|es|ihn|sie|ihm|ihr|dich|mich|euch|uns|alle[sn]?|nichts|niemand\w*|jemand\w*|dein\w*|ihr\w*|euer|eure\w*|dies\w*"
    r"|jene\w*|solche?\w*|so|zu|wie|wenn|dass|was|jetzt|gerade|heute|fast|etwas"
    r"|ça|cela|ceci|tout|rien|toi|te|vous|personne|ton|ta|tes|votre|vos|ce|cet|cette|ces|comme|comment|savoir|autant"
    r"|à|d'être|être|eso|esto|ello|ella|él|todo|nada|usted\w*|tú|ti|mucho|muchísimo|poco|tus?|sus?|vuestr\w+|ese|esa|esos"
    r"|esas|est[aeo]s?|aquel\w*|cómo|como|lo|cuando|casi"
    r"|danke|bitte|leider|übrigens|merci|hélas|gracias"
    r"|isso|isto|aquilo|disso|disto|ele|ela|você|tudo|n(?:ada|inguém)|teu|tua|seu|sua|ess[ae]s?|aquel\w+|assim|quando"
    r"|questo|quest[aei]|quell\w+|ciò|tutto|niente|nulla|lui|lei|te|tuo|tua|così|quando|dat|dit|deze|die|hem|haar|jou\w*"
    r"|je|alles|niets|iedereen|niemand|zo|het(?= (?:als|wanneer|om)\b)|obrigad[oa]|grazie)\b",
    re.IGNORECASE,
)
_AT_HAND: Final = re.compile(
    r"(?:[\w'-]+ )?(?:idee|vorschlag|antwort|plan|text|bild|stil|version|variante|option|formulierung"
    r"|idée|réponse|proposition|façon|manière|style|texte|plan|suggestion"
    r"|idea|respuesta|propuesta|opción|forma|manera|estilo|versión|texto|sugerencia)\b",
    re.IGNORECASE,
)
# How much, and what is said by the way: no part of a thing.
_MUCH: Final = re.compile(
    r"(?: (?:sehr|gerne?|auch|besonders|total|wirklich|eigentlich|ganz|ziemlich|recht|schon|echt|voll|halt|eben|einfach"
    r"|irgendwie|immer|noch|über alles|beaucoup|bien|aussi|énormément|vraiment|trop|toujours|en fait|mucho|muchísimo"
    r"|bastante|también|siempre|la verdad|de verdad|en realidad|en serio|na verdade|demais|sempre|mesmo|davvero|molto"
    r"|tanto|un sacco|in realtà|eigenlijk|heel|erg|best|wel))+(?= *\Z)",
    re.IGNORECASE,
)
_NOT_SO: Final = word_set(
    "kein keine keinen keinem keiner nicht nichts nix niemanden niemandem wenig weder noch nie nimmer ned net ungern"
    " lieber mehr weniger als auch fall dein deine deinem deinen deiner deines eure eurer eures"
    " ta tes votre vos tu tus vuestra vuestro vuestras vuestros"
    " ni aucun aucune rien peu guère jamais mieux plus moins que plutôt aussi ningún ninguna ninguno nunca menos más"
    " tampoco também nunca menos nem nenhum nenhuma mais teu tua seu sua vosso vossa non né nessun nessuna meno più"
    " neanche nemmeno tuo tua tuoi tue vostro vostra geen niet nooit minder liever jouw jullie uw"
    " también ist hat sind est sont es son"
)


def things(said: str, at: Range) -> list[Range]:
    """The ranges of the things, none from the first on that is none."""
    found: list[Range] = []
    ends = _ENDS.search(said, *at)
    at = (at[0], ends.start() if ends else at[1])
    start = at[0]
    for end, following in (*(one.span() for one in _AND.finditer(said, *at)), (at[1], at[1])):
        opened = _ARTICLE.match(said, start, end)
        item = _tight(said, (opened.end() if opened else start, end))
        article = opened is not None and opened["article"] is not None
        text = said[item[0] : item[1]]
        if not _is_thing(text, in_general=not article) or (found and not _follows(text, article)):
            break
        found.append(item)
        start = following
    return found


def _tight(said: str, at: Range) -> Range:
    text = _MUCH.sub("", said[at[0] : at[1]])
    at = (at[0], at[0] + len(text))
    start = at[0] + len(text) - len(text.lstrip(" '*_"))
    return start, max(start, at[0] + len(text.rstrip(" .'*_-")))


def _is_thing(text: str, *, in_general: bool) -> bool:
    words = frozenset(re.findall(r"\w+", text.casefold()))
    if not text or _POINTS.match(text) or not words.isdisjoint(_NOT_SO):
        return False
    return in_general or not _AT_HAND.match(text)


def _follows(text: str, has_article: bool) -> bool:
    """Whether this goes on with things, and not with another clause."""
    return _FORM.fullmatch(text) is not None or (has_article and text.count(" ") < 2)
