"""Where a text begins to be material, or a part to play: what stands behind is no statement of who sends it.

Requests to work on a text, texts that a lead names, games, exercises, applications: in English, and what is worded
alike everywhere. Those of other languages are in `fact_patterns_elsewhere`. Data only.
"""

from __future__ import annotations

from typing import Final

from policies import fact_patterns_elsewhere as elsewhere
from policies.fact_worded import Worded, worded

_PASTED: Final = (
    "(?:lyrics|poem|song|verse|story|paragraph|essay|affidavit|contract|clause|scene|script|testimony"
    "|e-?mail|message|ticket|review|letter|transcript|thread|complaint|chat|minutes|article|excerpt|feedback|testimonial|tweet"
    "|statement|voicemail|post|comment|caption)"
)
_WORDS_OF_PASTED: Final = (
    "lyrics|poem|song|verse|story|paragraph|essay|affidavit|contract|clause|scene|script|testimon|mail|message|ticket"
    "|review|letter|thread|complaint|chat|minutes|article|excerpt|feedback|tweet|statement|post|comment|caption"
)
_WORDS_OF_LANGUAGES: Final = (
    "english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|hindi|chinese|mandarin|japanese"
    "|korean|swedish|danish|norwegian|finnish|czech|greek|hungarian|romanian|ukrainian|latin"
    "|englisch|deutsch|französisch|spanisch|italienisch|anglais|allemand|français|espagnol|italien"
    "|inglés|ingles|alemán|aleman|francés|frances|español|inglês|alemão|francês|espanhol|português"
    "|tedesco|spagnolo|portoghese|engels|duits|frans|spaans|italiaans|nederlands"
)
MATERIAL: Final[tuple[Worded, ...]] = (
    worded(
        r"\b(?:translat|rewrit|rephras|re-?word|paraphras|proof-?read|summari[sz]|shorten|condens|classif)\w*"
        r"(?=[^\n]{0,80}[:\n\"“]|[^\n]{0,40}\b(?:this|following|below|the)\b)",
        "translat|rewrit|rephras|reword|re-word|paraphras|proofread|proof-read|summaris|summariz|shorten|condens|classif",
    ),
    worded(
        r"\b(?:correct|improve|edit|fix|check|analy[sz]e|review|polish|expand|continue|format|convert|simplify|explain)"
        r"(?: me)? (?:the (?:following|text|grammar|code|article|sentence|paragraph|passage)|this (?:text"
        r"|sentence|paragraph"
        r"|article|essay|email|passage|code|letter|story)|my (?:grammar|text|sentence|essay|email|letter|paragraph))\b",
        "correct|improve|edit|fix|check|analyse|analyze|review|polish|expand|continue|format|convert|simplify|explain",
        "following|text|grammar|code|article|sentence|paragraph|passage|essay|email|letter|story",
    ),
    worded(r"\b(?:reply|respond|answer) to (?:this|the following)\b", " to this| to the following"),
    worded(
        r"\b(?:the )?following (?:text|article|email|message|passage"
        r"|transcript|story|code|paragraph|content|sentences?|conversation|dialogue|prompt|review|document|excerpt)\b",
        "following ",
    ),
    worded(
        r"\bhere(?:'s| is| are) (?:the|an?|my|some) (?:\w+ ){0,2}(?:text|article|email|message|transcript"
        r"|log|logs|output|code"
        r"|error|story|essay|paragraph|letter|bio|resume|cv|data|script|draft|prompt|excerpt|chapter|scene|lyrics|schema"
        r"|schedule)\b",
        "here's |here is |here are ",
    ),
    # "a customer wrote this", "Transcript of the call:", "I got this email from a client"
    worded(
        r"\b(?:wrote|sent|e-?mailed|texted|messaged|posted|forwarded|replied)(?: (?:me|us|in|back|him|her|them))? this"
        r"\b(?=[^\n]{0,100}\n)",
        "\n",
        " this",
        "wrote|sent|mailed|texted|messaged|posted|forwarded|replied",
    ),
    worded(
        rf"(?:^|\n|[.!?] )[^\n.!?]{{0,80}}\b{_PASTED}s?\b(?! about (?:me|us|my|our)\b)[^\n.!?:]{{0,60}}:[ \t]*\n",
        ":\n|: |:\t",
        "\n",
        _WORDS_OF_PASTED,
    ),
    worded(rf"\bthis {_PASTED}\b(?=[^\n.!?]{{0,80}}[:.?!]?[ \t]*\n[ \t]*\n)", "\n", "this "),
    worded(
        r"\b(?:act|behave|respond|speak|talk|answer) (?:as|like) (?:an?|if|the|my|though)\b",
        " as | like ",
        "act |behave |respond |speak |talk |answer ",
    ),
    worded(r"\bpretend\b|\brole-?play", "pretend|roleplay|role-play"),
    worded(r"\bimagine (?:you|that|i|we|a|the|if)\b", "imagine "),
    worded(r"\b(?:^|[.!?\n] *)you(?: are|'re| will be) (?:an?|my|the|now|going)\b", "you are |you're |you will be "),
    worded(r"\bi want you to (?:act|be|become|play|pretend|imagine)\b", "i want you to "),
    worded(r"\bhypothetical|\bsuppose\b|\blet's say\b|\bsay i\b", "hypothetical|suppose|let's say|say i"),
    worded(
        r"\bin the (?:style|voice) of\b|\bfirst[- ]person\b|\bfrom the perspective\b|\bpersona\b|\bfictional\b",
        "in the style of|in the voice of|first person|first-person|from the perspective|persona|fictional",
    ),
    # An exercise, and what is declared under oath.
    worded(
        r"(?:^|\n|[.!?] +)\W{0,3}(?:(?:my )?homework|worksheet|exercise \d+\w?|übung(?: \d+)?|hausaufgabe"
        r"|exercice(?: \d+)?|ejercicio(?: \d+)?|esercizio(?: \d+)?|exercício(?: \d+)?"
        r"|oefening(?: \d+)?|huiswerk)[.)]? ?:",
        ":",
        "homework|worksheet|exercise|übung|hausaufgabe|exercice|ejercicio|esercizio|exercício|oefening|huiswerk",
    ),
    worded(
        r"\bfill in the (?:gap|blank)s?\b|\b(?:write|choose|use|put in) the correct (?:form|word|tense)\b",
        "fill in the |the correct ",
    ),
    worded(
        r"\bthe undersigned\b|\bhereby (?:declare|certify|confirm|swear|affirm|attest|acknowledge)\b"
        r"|\bhiermit (?:erkläre|versichere)\b|\bje soussigné|\babajo firmante\b|\babaixo assinad"
        r"|\b(?:il|la) sottoscritt|\bondergetekende\b",
        "the undersigned|hereby |hiermit |je soussigné|abajo firmante|abaixo assinad|sottoscritt|ondergetekende",
    ),
    worded(
        r"(?:^|\n|[.!?] +)\W{0,3}(?:complétez|complète|conjugue[sz]?|completa|completate|complete[mn]?"
        r"|ergänze[nt]?|vul in) ?:",
        ":",
        "complétez|complète|conjugue|complet|ergänze|vul in",
    ),
    worded(
        r"\bI, (?:[A-Z][\w.'-]+ ){0,3}[A-Z][\w.'-]+, (?:hereby )?(?:certify|declare|state|swear|affirm|depose)\b",
        "i, ",
        "certify|declare|state|swear|affirm|depose",
    ),
    # An application, whoever's it is.
    worded(
        r"(?:^|\n|[.!?] +)[^\n.!?:]{0,20}\b(?:cover letter|motivation letter|personal statement"
        r"|motivationsschreiben|anschreiben|bewerbung(?:sschreiben)?|lettre de motivation"
        r"|carta de (?:presentación|motivación|motivação|apresentação)"
        r"|lettera di (?:presentazione|motivazione)|(?:motivatie|sollicitatie)brief)\b[^\n.!?:]{0,40}:",
        ":",
        "cover letter|motivation letter|personal statement|motivationsschreiben|anschreiben|bewerbung"
        "|lettre de motivation|carta de |lettera di |motivatiebrief|sollicitatiebrief",
    ),
    # "You are Captain Redbeard", "Into French please: …", "Chapter 2. I …"
    worded(
        r"(?:^|[.!?,\n] *)(?:you(?: are|'re)(?: now)?|you (?:will )?play) (?-i:[A-Z][a-z])",
        "you are |you're |you play |you will play ",
    ),
    worded(r"\bfrom now on,? you(?: are|'re| will be)\b(?! (?:to|not|allowed|going)\b)", "from now on"),
    worded(
        r"\blet's (?:play(?=[.!\n]|$| (?:an? (?:\w+ )?(?:game|scene|part)|(?:20|twenty) questions|charades|pretend"
        r"|make-believe|out)\b)|role)",
        "let's play|let's role",
    ),
    worded(
        rf"(?:^|\n)\W{{0,3}}(?:(?:now|and) )?(?:in|into|to|auf|ins|en|al|in het)? ?(?:{elsewhere.LANGUAGES})"
        r"(?: (?:please|pls|plz|version|translation|bitte|s'il (?:te|vous) pla[iî]t|por favor)| version)? ?[:：]",
        ":|：",
        _WORDS_OF_LANGUAGES,
    ),
    worded(
        r"(?:^|\n)\W{0,4}(?:chapter|act|scene|kapitel|szene|chapitre|cap[ií]tulo|escena)"
        r" (?:\d{1,3}|[ivx]{1,5}|one|two|three)\W{0,3}(?:[.:\n–—-]|$)",
        "chapter |act |scene |kapitel |szene |chapitre |capitulo |capítulo |escena ",
    ),
    # "Can you check this affidavit?", "Verse two: …"
    worded(
        r"(?<!\bi )(?<!\bwe )\b(?:check|review|read|look (?:at|over|through)|evaluate|assess|grade|edit|format|convert"
        r"|analy[sz]e|explain|shorten|(?:reply|respond) to|think (?:of|about)) this\b[^\n.!?:]{0,40}[:.?!]?[ \t]*\n",
        "\n",
        " this",
    ),
    worded(
        r"(?:^|[.!?\n] *)(?:verse|chorus|bridge|refrain|strophe|strofa|couplet)(?: \w+)? ?:",
        ":",
        "verse|chorus|bridge|refrain|strophe|strofa|couplet",
    ),
    worded(r"\bignore (?:all|any|previous|the above)\b", "ignore "),
    worded(
        r"(?:^|[.!?\n] *)(?:please )?(?:correct|proof-?read|rate|judge|rephrase)(?: (?:this|it))?(?: please)? ?:",
        ":",
        "correct|proofread|proof-read|rate|judge|rephrase",
    ),
    worded(
        r"(?:^|[.!?\n] *)(?:examples?|sentence|quote|(?:song )?lyrics|ticket[^:\n]{0,12}|repeat after me|echo|conjugate"
        r"|true or false|two truths[^:\n]{0,20}|input|text|caption|(?:customer|client|user|their|his|her)(?:'s)? "
        r"(?:message|e-?mail|review|comment|request|complaint|question|text|note|reply|post)) ?[:–-]",
        "example|sentence|quote|lyrics|ticket|repeat after me|echo|conjugate|true or false|two truths|input|text"
        "|caption|message|mail|review|comment|request|complaint|question|note|reply|post",
        ":|–|-",
    ),
)
