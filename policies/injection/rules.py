r"""The rules: patterns over text as it reads (policies.injection.normal), what each weighs in whose words.

`own` counts in what a person says in their own scope, where injection may be talked about; `foreign` in what a tool, a
page, a document or an import says, where nothing has a reason to address the model. Every gap is bounded, and
what would be a product of gaps is asked for in parts, so that each is linear in the text and not steep. Tuned on evaldata's attacks against the user turns of LoCoMo, BEAM and ShareGPT
(`python -m bench.security_attacks --rules`).
"""
# ruff: noqa: E501  a pattern reads better whole

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from policies.injection.search import Between, Inside, Sought, Words


@dataclass(frozen=True, slots=True)
class Rule:
    """One way to address the model. A text without any of `stems` is not looked through for what is `sought`."""

    name: str
    stems: tuple[str, ...]
    sought: tuple[Sought, ...]
    own: float
    foreign: float


def _rule(name: str, stems: str, own: float, foreign: float, *sought: str | Sought) -> Rule:
    patterns = [one for one in sought if isinstance(one, str)]
    words = [Words(_compiled("|".join(f"(?:{one})" for one in patterns)))] if patterns else []
    return Rule(
        name, tuple(stems.split("|")), (*words, *(one for one in sought if not isinstance(one, str))), own, foreign
    )


def _between(before: str, middle: str, after: str, reach: int) -> Between:
    return Between(_compiled(rf"{before}\Z"), _compiled(middle), _compiled(after), reach)


def _inside(*patterns: str) -> Inside:
    return Inside(tuple(map(_compiled, patterns)))


def _compiled(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.MULTILINE)


_DROP = (
    r"(?:ignor(?:e|ing)|disregard(?:ing)?|forget|overrid(?:e|ing)|bypass|discard|neglect|overlook|set aside|abandon"
    r"|(?:do not|don't|never|stop) (?:follow|obey|apply|adher)\w*(?: to)?|pay no attention to)"
)
_ORDERS = (
    r"(?:instructions?|directives?|guidelines?|rules|prompts?|programming|training|restrictions?|constraints?|safeguards?"
    r"|polic(?:y|ies)|protocols?|commands?|context|messages)"
)
_EARLIER = r"(?:all|any|every|everything|your|prior|previous|previously|preceding|above|earlier|former|past|foregoing|initial|original|system|those|these)"
# At the start of a sentence, an item, a tag or a quotation: an order, not a mention.
_ORDER = r"(?:^|[.!?:;>\])}\-*,]\s{0,3}|\b(?:please|now|then|and|must|should|will|to|i want you to|so) )"
# Words are taken whole: a quotation mark may be part of one or of a gap, and trying all ways took 1.9 s for 2,000 of them.
_GAP = r"(?:[\s'\"(,]{1,6}+[\w'-]{1,20}+){0,5}?[\s'\"(,]{1,6}+"
_MODEL = r"(?:a\.?i\.?|llm|gpt|chatgpt|assistants?|language model|chatbot|agents?|bot|model)"
_FREE = (
    r"(?:restrictions?|rules|filters?|limits|limitations?|guidelines?|censorship|boundaries|polic(?:y|ies)|ethics"
    r"|ethical|moral\w*|safety|content)"
)

# Where an order begins in a language whose verb may stand there too: not behind its subject.
_SPOKEN_TO = r"(?:^|[.!?:;>\])}\-*,\"\u00ab\u201e\u00a1]\s{0,3}|\b(?:bitte|jetzt|dann|nun|por favor|ahora|entonces|maintenant|alors|plait|vous devez|tu dois|per favore|ora|agora|alsjeblieft|nu) )"
_GERMAN = r"(?:anweisung\w*|instruktion\w*|richtlinie\w*|regeln|vorgaben|befehle?|besprochen)\b"
_FRENCH = r"(?:instructions?|consignes|regles|directives)\b"
_SPANISH = r"(?:instrucci\w+|indicaciones|reglas|ordenes|directrices|pagina web)\b"
_DUTCH = r"(?:instructies?|regels|opdrachten|richtlijnen|aanwijzingen|bevelen)\b"
_DUTCH_EARLIER = r"(?:voorgaande|vorige|eerdere|bovenstaande)\b"
_POLISH = r"(?:instrukcj\w+|polecen\w+|zasad\w*|wytyczn\w+)"
_NORDIC = r"(?:instru(?:kt|ks)\w*|anvisning\w*|regler\w*|direktiv\w*|riktlinj\w*|retningslinj\w*)"
_NORDIC_EARLIER = r"(?:tidigare|foregaende|ovanstaende|alla|tidligere|forrige|ovenstaende|alle)\b"
_INDONESIAN = r"(?:instruksi|perintah|arahan|petunjuk|aturan|pedoman)\b"
_VIETNAMESE = r"(?:huong dan|chi dan|chi thi|menh lenh|lenh|quy tac)\b"
# Where their verbs may only be an order: at the beginning, or asked for. "Och", "dan" and the like go on with a tale.
_BIDDEN = (
    r"(?:^|[.!?:;>\])}\-*,\"]\s{0,3}|\b(?:hay|vui long|xin|tolong|mohon|harap|silakan|sekarang|prosze|teraz|nu|vanligen|snalla"
    r"|du (?:ska|maste|skal)|venligst|vennligst) )"
)
_CHINESE = r"(?:指令|指示|说明|規則|规则|提示|命令|内容)"

_DOING = (
    r"(?:add|adding|modif\w+|enhance|elevat\w+|integrat\w+|includ\w+|ensure|incorporat\w+|merge|embed\w*|insert|provide|encode"
    r"|encrypt|shift|replace|scramble|group|render|append|augment|leverage|introduc\w+|interweave|weave|inject|deploy|adopt"
    r"|use|utili[sz]e|supplement\w+|let|give|validat\w+|place|put|write|formulate|end|begin|start)"
)
_ANSWER = r"(?:response|answer|reply|elucidation)"

RULES: Final = (
    _rule(
        "override",
        "ignor|disregard|forget|overrid|bypass|discard|neglect|overlook|set aside|abandon|do not |don't |never |stop |pay no",
        1.0,
        1.0,
        rf"{_ORDER}{_DROP}{_GAP}{_EARLIER}{_GAP}{_ORDERS}",
        rf"{_ORDER}{_DROP} (?:the |all (?:of )?the )?(?:above|previous|preceding|foregoing|prior)(?: (?:text|content|message))?"
        r"(?: and\b| instead\b|[.,:;]|$)",
        rf"{_ORDER}{_DROP} (?:all|everything)\b[^.\n]{{0,30}}\b(?:above|before|told|said|discussed|so far|learn\w+)\b",
        rf"{_ORDER}{_DROP} (?:your|all your|any of your|openai'?s?) (?:\w+ ){{0,3}}{_ORDERS}",
    ),
    _rule(
        "override-mentioned",
        "ignor|disregard|forget|overrid|bypass|discard|neglect|overlook|set aside|abandon|do not |don't |never |stop |pay no|instruction|directive|prompt",
        0.4,
        0.6,
        rf"{_DROP}{_GAP}{_EARLIER}{_GAP}{_ORDERS}",
        r"\b(?:new|updated|real|actual|hidden|secret) (?:system )?(?:instructions?|directives?|prompt)\b\s{0,2}:",
        rf"{_DROP} (?:the )?(?:user|resume|article|web ?page|function|table|paper|email|document)\b[^.\n]{{0,20}}"
        r"\b(?:and|instead)\b",
    ),
    _rule(
        "override-other-language",
        "ignor|vergiss|vergess|missacht|oubli|compte|olvid|omite|descart|dimentic|esque|desconsider|negeer|negeren|vergeet|vergeten|sla |забудь|внимания|zapomnij|pomin|nie stosuj|nie przestrzegaj|glom|glem|bortse|strunta|se bort|bo qua|phot lo|quen |đung |abaikan|lupakan|jangan |игнорир|忽略|无视|無視|忘|ルール|지시|명령|규칙|지침|talimat|komut|kural|yonerge|تعليمات|وامر|قواعد|निर्देश|नियम|आदेश",
        1.0,
        1.0,
        # German, French, Spanish, Italian, Portuguese, Dutch: an order, not "mein Chef ignoriert", "j'ai oublié", "n'oublie pas".
        rf"{_SPOKEN_TO}(?:"
        rf"(?:ignorier(?:e|t|en sie)?|vergiss|vergesst|vergessen sie|missachten? ?(?:sie)?)\b[^.!?\n]{{0,40}}\b{_GERMAN}(?![^.!?\n,]{{0,30}} nicht(?:[.!?\n]|$))"
        rf"|(?:ignor(?:ez|er|ons|e(?= (?:tout\w*|l[ae]s?|mes|tes|ses|nos|vos|ces)\b))|oubli(?:e|ez|er)|ne (?:tiens|tenez) (?:pas|aucun) compte)\b(?! pas\b)[^.!?\n]{{0,40}}\b{_FRENCH}"
        rf"|(?:ignora|ignore|ignorar|olvida|olvidar|omite|descarta|olvide(?= (?:tod[ao]s|sus|tus)\b))\b[^.!?\n]{{0,30}}\b{_SPANISH}"
        r"|(?:ignora|dimentica|ignorate|dimenticate)\b[^.!?\n]{0,30}\b(?:istruzioni|regole|indicazioni|direttive)\b"
        r"|(?:ignore|ignora|esqueca|esquece|desconsidere)\b[^.!?\n]{0,30}\b(?:instruc(?:oes|ao)|regras|diretrizes|ordens)\b"
        rf"|(?:negeer|vergeet)\b[^.!?\n]{{0,30}}\b{_DUTCH}(?! niet))",
        rf"\b(?:(?:je|u) moet|gelieve)\b[^.!?\n]{{0,20}}\b{_DUTCH_EARLIER}[^.!?\n]{{0,20}}\b{_DUTCH} (?:te )?(?:negeren|vergeten)\b",
        rf"{_SPOKEN_TO}sla\b[^.!?\n]{{0,20}}\b{_DUTCH_EARLIER}[^.!?\n]{{0,20}}\b{_DUTCH} over\b",
        # Swedish, Danish, Norwegian; Indonesian; Vietnamese.
        rf"{_BIDDEN}(?:ignorera?|gl[oe]m|bortse fran|se bort f?ra|strunta i)\b(?! (?:inte|ikke)\b)[^.!?\n]{{0,20}}\b{_NORDIC_EARLIER}[^.!?\n]{{0,20}}\b{_NORDIC}",
        rf"{_BIDDEN}(?:abaikan|lupakan|jangan (?:ikuti|hiraukan|patuhi))\b(?:[^.!?\n]{{0,15}}\b(?:semua|seluruh|segala)\b[^.!?\n]{{0,15}}\b{_INDONESIAN}|[^.!?\n]{{0,15}}\b{_INDONESIAN}[^.!?\n]{{0,15}}\b(?:sebelum\w*|di atas|terdahulu|tadi)\b)",
        rf"{_BIDDEN}(?:bo qua|phot lo|quen |đung (?:lam|tuan) theo)\b(?![^.!?\n]{{0,60}} roi\b)(?:[^.!?\n]{{0,12}}\b(?:tat ca|moi|toan bo)\b[^.!?\n]{{0,12}}\b{_VIETNAMESE}|[^.!?\n]{{0,12}}\b{_VIETNAMESE}[^.!?\n]{{0,15}}\b(?:truoc|(?:o|ben|phia) tren)\b)",
        r"\b(?:und|et|y|e|ed) (?:ignoriere?|vergiss|ignorez?|oubliez?|ignora|olvida|dimentica|esqueca)\b(?! pas\b)"
        r"(?=[^.!?\n]{0,60}\b(?:vorherig|vorig|bisherig|obig|precedent|anterieur|ci-dessus|anterior|previ))"
        rf"[^.!?\n]{{0,40}}\b(?:{_GERMAN}|{_FRENCH}|{_SPANISH}|istruzioni\b|regole\b|instrucoes\b|regras\b)",
        # Russian, Polish; Chinese, Japanese, Korean: by the form of the verb.
        r"(?:\b(?:про)?игнорируи\w*|(?:^|[.!?:;]\s{0,3})(?:про)?игнорировать|(?<!не )\bзабудь\w*|\bне обращаи\w* внимания)\b[^.!?\n]{0,40}\b(?:инструкц\w+|указани\w+|правил\w*)",
        rf"\b(?<!nie )(?:z?ignoruj(?:cie)?|zapomnij(?:cie)?|prosze z?ignorowac)\b[^.!?\n]{{0,30}}\b{_POLISH}",
        rf"{_BIDDEN}(?:pomin(?:cie)?|nie (?:stosuj(?:cie)? sie do|przestrzegaj(?:cie)?))\b[^.!?\n]{{0,15}}\b(?:wszystki|poprzedni|wczesniejsz|powyzsz)\w*[^.!?\n]{{0,20}}\b{_POLISH}",
        rf"(?:^|[。！!？?，,;；:：\n\s]|[请請你并])(?:忽略|无视|無視|忘记|忘掉|请忘了)(?!了)[^。!?\n]{{0,12}}{_CHINESE}",
        r"(?:指示|命令|指令|ルール)[^。\n]{0,6}(?:無視(?:して(?!い|し)|しろ|せよ|すること)|忘れ(?:て(?!い|し)|ろ|なさい))|(?:^|[.。]\s?)無視して",
        r"(?:지시|명령|규칙|지침)[^.\n]{0,8}(?:무시하(?:고|세요|십시오|라)|무시해(?=라|줘|주|[.!\s]|$)|잊(?:어(?=라|줘|주|[.!]|$)|으세요|으십시오|고))",
        # Turkish, Arabic, Hindi.
        r"\b(?:onceki|yukar[ıi]daki|tum|butun|verilen)\b[^.!?\n]{0,40}\b(?:talimat|komut|kural|yonerge)\w*[^.!?\n]{0,20}\b(?:yok ?say(?:[ıi]n(?:[ıi]z)?)?|gormezden gel(?:in(?:iz)?)?|unut(?:un(?:uz)?)?|dikkate alma(?:y[ıi]n(?:[ıi]z)?)?|goz ard[ıi] (?:et|edin(?:iz)?))\b",
        r"(?:تجاهل|انس|[اأ]همل|لا تتبع)\w{0,3}\b[^.!?؟\n]{0,30}(?:تعليمات|[اأآ]وامر|قواعد|توجيهات)[^.!?؟\n]{0,20}(?:السابق|المذكور|[اأ]علاه)",
        r"(?:पिछल|पहले|ऊपर|पूर्व|सभी|सारे)[^।.!?\n]{0,40}(?:निर्देश|नियम|आदेश)[^।.!?\n]{0,20}(?:अनदेखा कर|नज\u093c?र\s?अ\w?ंदाज\u093c? कर|भूल जा|उपेक्षा कर)",
    ),
    _rule(
        "override-mentioned-other-language",
        "ignor|vergiss|vergess|missacht|oubli|pas compte|olvid|omite|descart|dimentic|esque|desconsider|negeer|vergeet|забудь|внимания|игнорир|忽略|无视|無視|忘|지시|명령|규칙|지침",
        0.4,
        0.6,
        # "La oficina ignora las reglas": a person's sentence, and in a page's words an order as likely.
        rf"\b(?:ignorier\w*|missacht\w*)\b[^.!?\n]{{0,40}}\b{_GERMAN}",
        rf"(?<!\bn')\b(?:ignor(?:ez|er|ons|e (?:tout\w*|l[ae]s?|tes|vos|ces))|oubli(?:e|ez|er)|ne (?:tiens|tenez) pas compte)\b(?! pas\b)[^.!?\n]{{0,40}}\b{_FRENCH}",
        rf"\b(?:ignora|ignore|ignorar|olvida|olvide|olvidar|omite|descarta)\b[^.!?\n]{{0,30}}\b{_SPANISH}",
        r"\b(?:ignora|dimentica|ignorate|dimenticate)\b[^.!?\n]{0,30}\b(?:istruzioni|regole|indicazioni|direttive)\b",
        r"\b(?<!nao )(?:ignore|ignora|esqueca|esquece|desconsidere)\b[^.!?\n]{0,30}\b(?:instruc(?:oes|ao)|regras|diretrizes|ordens)\b",
        r"\b(?:игнорир\w+|проигнорир\w+)\b[^.!?\n]{0,40}\b(?:инструкц\w+|указани\w+|правил\w*)",
        rf"(?:忽略|无视|無視|忘记|忘掉|忘了)[^。!?\n]{{0,12}}{_CHINESE}",
        r"(?:指示|命令|指令|ルール)[^。\n]{0,6}(?:無視|忘れ)",
        r"(?:지시|명령|규칙|지침)[^.\n]{0,8}(?:무시|잊)",
    ),
    _rule(
        "reveal-prompt",
        "prompt|instruc|guideline|rules|above|systemanweisung|istruzioni",
        0.6,
        0.8,
        r"\b(?:reveal|show|print|repeat|output|display|leak|tell me|give me|expose|dump)\b[^.!?\n]{0,40}\b(?:system prompt"
        r"|hidden prompt|initial prompt|your (?:\w+ )?(?:instructions|prompt|guidelines|rules))\b",
        r"\brepeat (?:the |all (?:the )?)?(?:words|text|everything) above\b",
        r"\b(?:verrate|zeig\w*|gib)\b[^.!?\n]{0,30}\b(?:systemanweisung\w*|systemprompt)\b",
        r"\b(?:revel\w+|muestra|mostra|montre\w*|affiche\w*)\b[^.!?\n]{0,30}\b(?:prompt|instrucciones|istruzioni"
        r"|instrucoes|instructions)\b[^.!?\n]{0,12}\b(?:sistema|systeme)\b",
    ),
    _rule(
        "role-marker",
        "<||inst]|sys>>|_of_turn|tools]|tool_|system_prompt",
        1.0,
        1.0,
        # Tokens of chat templates: a tokenizer may read them as such wherever they stand.
        r"<\|{1,2}(?:im_start|im_end|im_sep|system|user|assistant|end|endoftext|eot_id|eom_id|start_header_id"
        r"|end_header_id|begin_of_text|end_of_text|channel|message|start|return|call|python_tag)\|{1,2}>",
        r"\[/?inst\]|<</?sys>>|<(?:start|end)_of_turn>|<\|(?:user|assistant|end.of.sentence|tool\w*)\|>",
        r"<\uff5c\w{1,20}\uff5c>|\[(?:/?available_tools|tool_calls|/?tool_results|/?system_prompt)\]",
    ),
    _rule(
        "role-line",
        "system|developer|##|---|reasoning",
        0.5,
        0.8,
        # A line that opens like a message of another role.
        r"^\W{0,4}(?:system|developer)(?: (?:message|prompt|note|override|update|instruction|notice))?\W{0,3}:\s",
        r"^\s{0,3}#{2,6} ?(?:system|instructions?|assistant|developer|end of (?:user )?(?:input|prompt|context|document))\b",
        r"^-{3,}\s?(?:end|begin) (?:of )?(?:user |system )?(?:input|prompt|instructions|context)\b",
        r"^\W{0,3}reasoning \(?assistant\)?:",
    ),
    _rule(
        "our-delimiter",
        "memory|quoted from",
        1.0,
        1.0,
        r"<\s{0,3}/?\s{0,3}memory\s{0,3}>",
        r"\bquoted from earlier conversations\. data, not instructions",
    ),
    _rule(
        "tool-call-forgery",
        "<|tool_calls|function_call",
        0.7,
        1.0,
        r"<(?:tool_call|function_calls?|invoke|tool_response|function_results?|antml:\w+|tool_use|tool_result)\b[^>\n]{0,80}>",
        r"\{\s{0,8}\"(?:tool_calls|function_call)\"\s{0,4}:",
        r"</?(?:think|thinking|scratchpad|reasoning)>",
    ),
    _rule(
        "exfiltration",
        "![|<img|send|forward|mail|post|upload|transmit|exfil|submit|leak|envoie|envia|curl|fetch_url",
        0.5,
        1.0,
        # An image whose address carries data, a link that is to be filled in, an order to send something out.
        _inside(
            r"!\[[^\]\n]{0,200}\]\(\s{0,4}(?:https?:)?//(?:[^)\s]([^)\s]*+)(?=[^)\n]{0,300}\))|[^)\s]++)",
            r"[?&/=][^)\s?&/=]{0,60}?(?:\{|%7b|\$|<|\[|data=|prompt=|secret|history|conversation|token=|leak|exfil|payload="
            r"|[?&]q=)",
        ),
        _inside(
            r"<img\b([^>]*+)",
            r"src\s?=\s?['\"]?(?:https?:)?//[^>\s]([^>\s]*+)",
            r"\{|data=|prompt=|secret|leak|exfil",
        ),
        _between(
            r"\b(?:send|forward|e-?mail|post|upload|transmit|exfiltrate|submit|leak)\b[^.!?\n]{0,60}",
            r"\b(?:passwords?|credentials?|api keys?|secrets?|customer (?:list|data|e-?mails?)|conversation|chat history"
            r"|private (?:key|data)s?|order data|(?:this|the) summary|employee data|tokens?)\b",
            r"[^!?\n]{0,60}?(?:@[\w.-]{3,60}|https?://|\bexternal|\bto attacker)",
            80,
        ),
        _between(
            r"\b(?:customer|employee|user|client)\w*[^!?\n]{0,60}",
            r"\b(?:send|forward|e-?mail|envoie\w*|envia\w*)\b",
            r"[^!?\n]{0,60}?(?:@[\w.-]{3,60}|\bexternally\b)",
            100,
        ),
        _between(
            r"\b(?:send_email|http_post|curl|fetch_url|send_message)\b[^!?\n]{0,80}",
            r"\b(?:to send|to)\b",
            r"[^!?\n]{0,40}?@",
            100,
        ),
    ),
    _rule(
        "to-the-model",
        "important|attention|note|message|instruction|notice|reminder|reading|processing|parsing|integrating|that read|summari|you are|you're|dear",
        0.3,
        0.7,
        rf"\b(?:important|attention|note|message|instructions?|notice|reminder)\b[^.!?\n]{{0,12}}\b(?:for|to)\b (?:the |any |all )?{_MODEL}\b",
        rf"\b(?:{_MODEL}|automated systems?) (?:reading|processing|parsing|integrating|that reads?|summari[sz]ing) (?:this|these)",
        r"\b(?:if|when|as) you(?:'re| are) (?:an? )?(?:a\.?i|llm|language model|large language model|chatbot)\b",
        rf"\bdear (?:{_MODEL}|chatgpt)\b",
    ),
    _rule(
        "to-be-remembered",
        "memory|remember|memori|always|must|from now on",
        0.0,
        0.9,
        r"\b(?:save|store|add|commit|write)\b[^.!?\n]{0,50}\b(?:to|in|into)\b your (?:long[- ]?term |persistent )?memory\b",
        r"\b(?:remember|memori[sz]e)\b[^.!?\n]{0,60}\b(?:for|in) (?:all|every|any) (?:future|later|following)\b",
        r"\b(?:always|must|from now on)\b[^.!?\n]{0,80}\b(?:in|to) (?:every|all|any|each) (?:future |subsequent |following )?"
        r"(?:repl\w+|responses?|answers?|reports?|summar\w+)\b",
        r"\b(?:every|all|any|each) (?:future |subsequent |following )?(?:repl\w+|responses?|answers?|reports?|summar\w+)\b"
        r"[^.!?\n]{0,60}\b(?:from now on|always|must)\b",
        r"\bfrom now on,? (?:you|always|never|every|when|the assistant)\b",
    ),
    _rule(
        "persona",
        "pretend|act as|acting as|simulate|you are|you're|become|role|du bist|tu es|eres|sei |voce|regeln|einschr|anything|mode|dan|character|broken free|jailbr",
        0.5,
        0.5,
        r"\b(?:pretend|act as|acting as|simulate|you are|you're|become|role ?-?play)\b[^.!?\n]{0,80}\b(?:no|without(?: any)?|free (?:of|from)|not bound by|uncensored|unfiltered|unrestricted|amoral|free of)\b",
        r"\b(?:du bist|tu es|eres|sei|voce e)\b[^.!?\n]{0,40}\b(?:ohne|sans|sin|senza|sem) (?:\w+ )?(?:einschrankung\w*|regeln|restric\w+|restrizioni|regras|limites)",
        r"\b(?:hast du|ohne) (?:keine )?(?:regeln|einschrank\w+|einschraenk\w+)\b",
        r"\bdo anything now\b|\bstands? for ['\"]?do anything\b|\b(?:dan|aim|stan|dude|developer|god|sudo|jailbreak\w*|unrestricted|evil) mode\b",
        r"\bstay (?:a |in )?(?:dan|character)\b|\bbreak(?:ing)? character\b|\bbroken free\b|\bjailbr(?:eak|oken)\w*\b",
        r"\blaw enforcement override\b|\boverride mode\b",
    ),
    _rule(
        "unbound",
        "restric|rule|filter|limit|guideline|censor|boundar|polic|ethic|moral|safety|content|unhinged|refuse|reject|decline|say |illegal|harmful|offensive|dangerous|richtlinien",
        0.6,
        0.5,
        rf"\b(?:no|without(?: any)?|free (?:of|from)(?: all| any)?|not (?:bound|restricted|limited|constrained) by(?: any)?|bypass\w*|doesn'?t (?:have|follow|care about) any|lack of|ignor\w+) (?:\w+,? (?:or |and )?){{0,3}}{_FREE}\b",
        r"\b(?:uncensored|unfiltered|amoral|unethical|unrestricted|unhinged|nonmoral|without censorship)\b",
        r"\b(?:never|not|cannot|can't|won't|don't) (?:ever )?(?:refuse|reject|decline|say (?:that )?(?:it|you|he|she) ca(?:n't|nnot))\b",
        r"\b(?:even if|no matter (?:how|if)|regardless)\b[^.!?\n]{0,60}\b(?:illegal|unethical|immoral|harmful|offensive|dangerous)\b",
        r"\b(?:sicherheitsrichtlinien|richtlinien)\b[^.!?\n]{0,40}\bnicht gelten\b",
    ),
    _rule(
        "new-self",
        "from now on|starting now|for the rest|henceforth|ab jetzt|a partir|desormais|you are|you will|you shall|you must|you should|you need|your new|gpt| ai",
        0.3,
        0.4,
        r"\b(?:from now on|starting now|for the rest of this (?:conversation|chat)|henceforth|ab jetzt|a partir de ahora|desormais)\b",
        r"\byou (?:are|will|shall|must|should|are going to|need to) (?:now )?(?:act|behave|play|pretend|respond|answer|immerse|be) (?:as|like|the|only|yourself|in)\b",
        r"\byou are (?:now )?about to (?:immerse|become|be)\b|\byour new (?:name|role|identity)\b",
        r"\b(?:hello|hi|hey|greetings|ignore)[, ]{1,2}(?:chatgpt|gpt|ai)\b",
    ),
    _rule(
        "decode-and-do",
        "decode|decrypt|decipher|unscramble",
        0.7,
        0.9,
        r"\b(?:decode|decrypt|decipher|unscramble)\b[^.!?\n]{0,60}\b(?:and|then)\b[^.!?\n]{0,30}\b(?:do|follow|execute|obey|run|carry out|perform|act)\b",
    ),
    _rule(
        "steers-the-answer",
        "your|reply|respond|answer|should first| code ",
        0.0,
        0.6,
        rf"(?:^|[.!?]\s)\W{{0,3}}(?:\S{{1,20}} ){{0,5}}?{_DOING}\b[^!?\n]{{0,120}}?\byour (?:\w+'?s? ){{0,2}}{_ANSWER}\b",
        rf"(?:^|[.!?]\s)\W{{0,3}}in your {_ANSWER},? (?:\w+)",
        rf"(?:^|[.!?]\s)\W{{0,3}}your (?:\w+ )?{_ANSWER} (?:can|must|should|will|needs?)\b",
        r"^\W{0,3}(?:reply|respond|answer)(?: only)? in (?:\w+)\b",
        r"^\W{0,3}(?:\S{1,20} ){0,6}?(?:following|below|subsequent) code (?:block|snippet|excerpt|section)\b",
        r"\bshould first (?:empty|delete|remove|run|execute|send|disable)\b",
    ),
)
