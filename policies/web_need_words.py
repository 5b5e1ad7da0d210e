"""The words by which `policies.web_need` tells a question that the world must answer; English, German, French, Spanish
and Chinese. Data; each list says what it stands for.
"""

from __future__ import annotations

import re
from typing import Final


def _any(*patterns: str) -> re.Pattern[str]:
    return re.compile("|".join(f"(?:{pattern})" for pattern in patterns))


# What is said before the question itself, and speaks of the asker without being about him.
LEAD_IN: Final = _any(
    r"\b(?:can|could|would|will) you\b",
    r"\b(?:please|tell me|show me|give me|let me know|do you know|for me)\b",
    r"\b(?:i (?:want|need|would like) to know|i'd like to know|i(?:'m| am) (?:wondering|curious)|i wonder)\b",
    r"\b(?:bitte|sag mir|s'il (?:te|vous) plaît|dis-moi|por favor|dime)\b",
    r"帮我|请问|告诉我|我想知道|请",
)
# The asker's own affairs: the web knows nothing of them, and has no business to hear of them.
OWN: Final = _any(
    r"\b(?:i|i'm|i've|i'd|i'll|my|mine|me|myself|we|we're|we've|our|ours|us)\b",
    r"\byour (?:memory|notes|last)\b|\byou (?:said|told|mentioned|remember|suggested)\b",
    r"\b(?:earlier|previous(?:ly)?|conversation)\b",
    r"\b(?:ich|wir|uns|mir|mich|mein\w*|unser\w*)\b",
    r"\b(?:je|moi|nous|mon|ma|mes|mienne?s?|notre|nos)\b|\b[jm]'",
    r"\b(?:yo|nosotros|mí|mi|mis|mí[oa]s?|nuestr[oa]s?|conmigo|tengo|tenemos|soy|somos|estoy|estamos|(?<!en )vivo"
    r"|vivimos|gano|debo|debemos|sufro|padezco|puedo|podemos)\b",
    r"我|咱",
)
# "Search the web for ..."
ASKED: Final = _any(
    r"\b(?:search|check|browse|consult|scour)(?:ing)? (?:on )?(?:the )?(?:web|internet|net|online|google)\b",
    r"\b(?:web|internet|online|google) search\b(?! (?:engine|result|bar|api|box|console))",
    r"(?:^|[.!?;:]\s*|\bplease |\byou (?:please )?)google (?:it|this|that|for|what|who|how|when|where|whether|the)\b",
    r"(?:^|[.!?;:]\s*|\bplease |\byou (?:please )?)look (?:it |this |that |them |her |him )?up\b",
    r"\b(?:find|look|search|read)\b[^.?!\n]{0,60}\b(?:on the (?:web|internet|net)|online)\s*(?:[.?!]|$)",
    r"\b(?:such|suche|sucht|suchen|schau|schaue|guck)\b[^.?!\n]{0,60}\b(?:im (?:internet|netz|web)|online)\b",
    r"(?:^|[.!?;:]\s*|\bbitte )google (?:mal|das|bitte|nach|wer|was|wie)\b",
    r"\b(?:cherche[rz]?|regarde[rz]?)\b[^.?!\n]{0,60}\b(?:sur (?:internet|le (?:web|net)|google)|en ligne)\b",
    r"\b(?:busca(?:r|me|lo)?|búscalo|mira|consulta)\b[^.?!\n]{0,60}\b(?:en (?:internet|la (?:web|red)|google|línea))",
    r"(?:上网|网上|在线|谷歌|百度|互联网)(?:上)?(?:搜|查|找)|(?:搜|查)(?:一下|查)?(?:网|互联网)|搜索一下",
)
# Things that are another each day, asked of the day: weather, news, prices, results, who holds an office.
_DAY: Final = (
    r"(?:today|tonight|tomorrow|yesterday|now|currently|at the moment|these days|this (?:morning|afternoon|evening|week"
    r"|weekend|month|season|year)|next (?:week|weekend)|last night|latest)"
)
_TAG: Final = r"(?:heute|morgen|gestern|jetzt|aktuell\w*|gerade|diese(?:n|r|s|m)? (?:woche|wochenende|monat)|momentan)"
_JOUR: Final = r"(?:aujourd'hui|demain|hier|maintenant|actuel\w*|en ce moment|cette semaine|ce (?:soir|matin|week-end))"
_DIA: Final = r"(?:hoy|mañana|ayer|ahora|actual\w*|en este momento|esta (?:semana|noche)|este (?:mes|fin de semana))"
_PRICED: Final = (
    r"(?:(?:stock|share|bitcoin|btc|ethereum|eth|crypto|gold|silver|oil|petrol|gas|fuel) prices?"
    r"|price of (?:bitcoin|btc|ethereum|gold|silver|oil|petrol|gas)|exchange rate|inflation rate|mortgage rates?)"
)
_OFFICE: Final = (
    r"(?:president|prime minister|chancellor|king|queen|pope|mayor|governor|ceo|secretary[- ]general|champions?)"
)
NEWS: Final = _any(
    rf"\bweather\b[^.?!\n]{{0,50}}\b{_DAY}\b|\b{_DAY}(?:'s)?\b[^.?!\n]{{0,20}}\bweather\b",
    r"\bweather forecast (?:for|in)\b",
    rf"\bwill it (?:rain|snow)\b[^.?!\n]{{0,40}}\b{_DAY}\b",
    r"\b(?:latest|breaking|current|recent|today's|this week's) (?:\w+ )?(?:news|headlines)\b",
    r"\bwhat(?:'s| is) in the news\b",
    r"\bnews\b[^.?!\n]{0,30}\b(?:today|right now|this (?:morning|week))\b",
    rf"\b{_PRICED}\b[^.?!\n]{{0,40}}\b{_DAY}\b|\b(?:current|today's|latest|live) (?:\w+ )?{_PRICED}",
    rf"\bwho(?:'s| is| are) (?:the )?(?:current|new|present|incumbent|reigning) (?:\w+ ){{0,3}}{_OFFICE}\b",
    rf"\bwho(?:'s| is) (?:the )?{_OFFICE} of [^.?!\n]{{2,40}}\b(?:now|today|currently|at the moment)\b",
    r"\b(?:latest|newest|current|most recent) (?:stable |lts |major )?(?:version|release) of [\w .+-]{2,40}\?*\s*$",
    r"\bwho won\b[^.?!\n]{0,60}\b(?:today|yesterday|tonight|last night|this (?:week|weekend|season|year))\b",
    rf"\b(?:score|results?)\b[^.?!\n]{{0,50}}\b(?:game|match|race|election|cup)\b[^.?!\n]{{0,30}}\b{_DAY}",
    rf"\bwetter\b[^.?!\n]{{0,50}}\b{_TAG}\b|\b{_TAG}\b[^.?!\n]{{0,20}}\bwetter\b|\bwetter(?:bericht|vorhersage)\b",
    r"\b(?:neueste[nr]?|aktuelle[nr]?|heutige[nr]?|letzte[nr]?) (?:nachrichten|schlagzeilen|meldungen)\b",
    rf"\b(?:aktienkurs|börsenkurs|wechselkurs|goldpreis|ölpreis|benzinpreis|bitcoin-?kurs)\b[^.?!\n]{{0,40}}\b{_TAG}\b",
    r"\baktuelle[rn]? (?:aktienkurs|börsenkurs|wechselkurs|goldpreis|ölpreis|benzinpreis|bitcoin-?kurs|spielstand)\b",
    r"\bwer ist (?:der|die|das) (?:aktuelle|neue|amtierende|derzeitige)[nr]? \w+",
    rf"\bmétéo\b[^.?!\n]{{0,50}}\b{_JOUR}|\b{_JOUR}[^.?!\n]{{0,20}}\bmétéo\b|\bquel temps (?:fait-il|fera-t-il)\b",
    r"\b(?:dernières (?:nouvelles|actualités|infos)|actualités (?:du jour|récentes)|actualité d'aujourd'hui)\b",
    rf"\b(?:cours (?:de l'action|de la bourse|du bitcoin|de l'or)|taux de change)\b[^.?!\n]{{0,40}}\b{_JOUR}",
    r"\bqui est (?:l'actuel(?:le)?|le nouveau|la nouvelle) \w+",
    rf"\b(?:tiempo|clima)\b[^.?!\n]{{0,30}}\b{_DIA}\b|\b(?:va a|irá a) llover\b|\bpronóstico del tiempo\b",
    r"\b(?:últimas noticias|noticias (?:de hoy|recientes|actuales))\b",
    rf"\b(?:precio de(?:l)? (?:bitcoin|oro|petróleo)|tipo de cambio|cotización)\b[^.?!\n]{{0,40}}\b{_DIA}\b",
    r"\bquién es (?:el|la) (?:actual|nuev[oa]) \w+",
    r"(?:今天|明天|后天|现在|目前|当前|本周|这周|今晚|周末)[^。？！\n]{0,10}(?:天气|新闻|股价|汇率|油价|金价|比分)",
    r"(?:天气预报|最新(?:的)?(?:新闻|消息|版本|股价|汇率)|现任[^。？！\n]{0,8}(?:总统|总理|首相|主席))",
)
# A present value is asked for: for what recall found on the web some time ago.
PRESENT: Final = _any(
    r"\b(?:now|today|currently|current|latest|newest|still|at the moment|these days|up[- ]to[- ]date|most recent)\b",
    r"\b(?:jetzt|heute|aktuell\w*|derzeit\w*|neueste[nrs]?|immer noch|momentan)\b",
    r"\b(?:maintenant|aujourd'hui|actuel\w*|dernière?s?|toujours)\b",
    r"\b(?:ahora|hoy|actual\w*|últim[oa]s?|todavía)\b",
    r"现在|今天|目前|当前|最新|如今",
)
_NAME: Final = r"(?P<name>[A-Z][\w.'&+-]*(?:(?: (?:of|the|de|von|van|der|du|la)){0,2} [A-Z0-9][\w.'&+-]*){0,5})"
# "Who is Ada Lovelace?", and nothing else in the sentence. As written, since a name is told by its capital.
UNKNOWN: Final = re.compile(
    rf"\W*(?:(?:(?:[Ww]ho|[Ww]hat) (?:is|are|was|were)|(?:[Ww]ho|[Ww]hat)'s|[Tt]ell me (?:something |more )?about"
    rf"|[Ww]hat do you know about|[Hh]ave you heard (?:of|about)) (?:the |a |an )?"
    rf"|(?:[Ww]er|[Ww]as) (?:ist|sind|war) (?:der |die |das )?|[Qq]ui est |[Qq]u'est-ce que (?:c'est que )?(?:le |la )?"
    rf"|[Qq]uién es |[Qq]ué es (?:el |la )?){_NAME}\W*"
)
