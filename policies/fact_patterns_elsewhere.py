"""Requests in other languages: a text in, where in it material to work on begins, or a part to play, and where a text
is asked for, out.

What is to be translated, corrected or summed up is known in some thirty languages, since what stands behind may be
English; all else in German, French, Spanish, Portuguese, Italian and Dutch.

The words that open a request are looked up, and what must follow is matched at them, so that a text without any costs
next to nothing. "Ich übersetze …", "j'écris …" tell of the speaker and are no request. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from typing import Final

from policies.fact_patterns_words import word_set

_WORD: Final = re.compile(r"\w+")
_OURS: Final = re.compile(r"(?:\b(?:ich|je|my)\s|\bj')$", re.IGNORECASE)
# To translate and to correct: what it is done to stands behind these words, or above them.
_REWORD: Final = word_set(
    "übersetz übersetze übersetzen übersetzt korrigier korrigiere korrigieren traduis traduire traduisez corrige"
    " corriger corrigez corrígeme corrígelo corrígela corregir corrigeme traduce tradúceme tradúcelo tradúcela traducir"
    " traduci traducimi traducete tradurre correggi correggimi correggere traduz traduza traduzir corrija corrigir"
    " vertaal vertalen corrigeer verbeter przetłumacz przetłumaczyć tłumacz popraw poprawić přelož přeložte přeložit"
    " oprav opravte prelož preložte översätt översätta rätta oversæt oversett rett käännä korjaa fordítsd fordítsa"
    " javítsd traduceți tradu corectează prevedi prevedite popravi çevir çevirin çevirir tercüme düzelt düzeltin"
    " terjemahkan perbaiki dịch переведи переведите перевести переклади перекладіть перекласти исправь исправьте"
    " исправить виправ виправте отредактируй отредактируйте преведи преведете поправи μετάφρασε μεταφράστε διόρθωσε"
    " διορθώστε ترجم ترجمي ترجمة ترجمه صحح תרגם תרגמי תרגום תקן"
)
_WORK: Final = _REWORD | word_set(
    "formulier formuliere formulieren umformulieren überarbeite überarbeiten verbessere verbessern vereinfache"
    " vereinfachen kürze kürzen fass fasse zusammenfassen reformule reformuler reformulez résume résumer résumez"
    " améliore améliorer améliorez simplifie simplifier simplifiez analyser analysez relis relire relisez"
    " reescribe reescribir resumir resúmeme resúmelo reformula reformular parafrasea parafrasear mejora mejorar"
    " simplifica simplificar analiza analizar"
    " riscrivi riassumi riformula migliora parafrasa reescreva reescreve resuma melhore melhora herschrijf streść shrň"
    " sammanfatta förbättra özetle перефразируй перескажи улучши لخص"
)
# In scripts that set no blanks, or whose words have signs on their letters.
ABOVE_UNSPACED: Final = (
    r"翻译|翻譯|译成|譯成|润色|潤色|校对|校對|改写|改寫|訳し|翻訳|和訳|英訳|添削|校正|번역|교정|고쳐|แปล|ตรวจแก้|अनुवाद"
)
_WORK_UNSPACED: Final = re.compile(rf"{ABOVE_UNSPACED}|总结|總結|概括|要約|요약")
ABOVE: Final = rf"(?:{'|'.join(sorted(_REWORD))})\b"
_MATERIAL: Final = re.compile(
    r"[^\n]{0,80}[:：\n\"“„«「『]"
    r"|[^\n]{0,40}\b(?:diese[nrs]?|folgende[nrms]?|ce(?:tte|s|t|la|ci)?|ça|suivante?s?|est[eao]s?|siguientes?)\b",
    re.IGNORECASE,
)
_WRITE: Final = word_set(
    "schreib schreibe schreiben schreibst verfasse verfassen erstell erstelle erstellen entwirf erfinde dichte"
    " écris écrire écrivez rédige rédiger rédigez génère générer inventez crée créer créez"
    " escribe escríbeme escribeme escribir escriba redacta redactar redacte crea créame crear genera generar inventa"
    " haz hazme"
    " escreve escreva escrever redige redija redigir gere gerar crie invente inventar"
    " scrivi scrivimi scrivete scrivere redigi creami inventa componi schrijf schrijven maak verzin bedenk"
)
_TEXT: Final = re.compile(
    r"[^.!?\n]{0,60}\b(?:geschichte|gedicht|lied|brief|e-?mail|text|artikel|rede|dialog|aufsatz|nachricht|beitrag"
    r"|bewerbung|anschreiben|motivationsschreiben|rezension|bewertung|profil|lebenslauf|roman|kapitel|szene|märchen"
    r"|biogra[fp]ie|histoire|poème|chanson|lettre|mail|courriel|texte|article|discours|dialogue|message|avis|cv"
    r"|chapitre|scène|conte|présentation|historia|cuento|poema|canción|carta|correo|texto|artículo|discurso"
    r"|diálogo|ensayo|mensaje|publicación|reseña|perfil|currículum|novela|capítulo|escena|biografía|presentación"
    r"|história|conto|canção|artigo|redação|mensagem|publicação|currículo|romance|cena|biografia|apresentação"
    r"|storia|racconto|poesia|canzone|lettera|testo|articolo|discorso|dialogo|tema|messaggio|recensione|romanzo"
    r"|capitolo|presentazione|verhaal|tekst|artikel|toespraak|dialoog|opstel|bericht|recensie|profiel|hoofdstuk"
    r"|sollicitatiebrief|motivatiebrief)s?\b",
    re.IGNORECASE,
)
_OPENERS: Final = word_set(
    "wie was comment que cómo como qué folgende folgenden folgender folgendes texte phrase lettre article message mail"
    " siguiente siguientes spiel spiele verhalte antworte tu tue du joue jouez fais faites comporte agis actúa finge"
    " compórtate responde eres ahora haz resume age atue aja imagine você és fai fingi comportati agisci immagina sei"
    " doe gedraag speel je hoe come"
)
_OPENED: Final = re.compile(
    r"(?:wie sagt man|was (?:heißt|bedeutet)|comment (?:dit-on|on dit|dire)|que (?:veut dire|signifie)|c[óo]mo se dice"
    r"|qué significa)\b[^\n]{0,60}:"
    r"|folgende[nrs]? (?:text|satz|sätze|brief|artikel|nachricht|e-?mail|absatz)\b"
    r"|(?:texte|phrase|lettre|article|message|mail) suivante?\b"
    r"|siguientes? (?:texto|frase|oración|carta|artículo|mensaje|correo|párrafo)s?\b"
    r"|(?:spiele? (?:mal )?(?:einen?|den|die|das)|verhalte dich|antworte (?:wie|als)|tue? so|du bist (?:jetzt|nun|ab"
    r"|eine?)|joue[zr]? (?:le|un)|fai(?:s|tes) (?:semblant|comme si)|comporte-toi|agis comme|tu es (?:maintenant"
    r"|désormais|une?)|actúa como|haz (?:de|como)|finge|compórtate como|responde como|eres (?:ahora|una?)|ahora eres"
    r"|resume (?:el|la|lo|los|las|este|esta|en)"
    r"|finge que|(?:age|atue|aja) como|imagine que|(?:você é|és) (?:agora|um|uma|o meu|a minha)|como se diz"
    r"|(?:fai finta|fingi)|(?:comportati|agisci) come|immagina (?:di|che)|sei (?:ora|adesso|un|una|il mio|la mia)"
    r"|come si dice|doe alsof|gedraag je|speel (?:de|het|een)|je bent (?:nu|vanaf nu|een|mijn)|hoe zeg je)\b",
    re.IGNORECASE,
)
MAIL: Final = (
    r"sehr geehrte[rs]?\s|liebe[rs]?\s[A-ZÄÖÜ]\w+,\s*$|betreff\s*:|ch(?:er|ère)s?\s\w|objet\s*:|estimad[oa]s?\s"
    r"|querid[oa]s?\s\w|asunto\s*:|(?:prezad|car|egregi)[oaie]s?\s[\w. ]{1,40},\s*$|gentile\s|assunto\s*:"
    r"|oggetto\s*:|geachte\s|(?:beste|lieve)\s[\w. ]{1,40},\s*$|onderwerp\s*:"
)
ROLES: Final = (
    r"benutzer(?:in)?|nutzer(?:in)?|kund(?:e|in)|assistent(?:in)?|patientin|schüler(?:in)?|lehrer(?:in)?|gast|utilisat(?:eur|rice)"
    r"|assistante?|cliente?|patiente?|élève|professeure?|usuari[oa]|asistente|paciente|alumn[oa]|profesora?|invitad[oa]"
    r"|assistente|alun[oa]|professora?|utente|studente|studentessa|paziente|gebruiker|klant|docent|leerling"
)
LANGUAGES: Final = (
    r"english|german|french|spanish|italian|portuguese|dutch|polish|russian|turkish|arabic|hindi|chinese|mandarin|japanese"
    r"|korean|swedish|danish|norwegian|finnish|czech|greek|hungarian|romanian|ukrainian|latin"
    r"|englische?|deutsche?|französische?|spanische?|italienische?|anglais|allemand|français|espagnol|italien"
    r"|ingl[eé]s|alem[aá]n|franc[eé]s|español|italiano|inglês|alemão|francês|espanhol|português"
    r"|inglese|tedesco|francese|spagnolo|portoghese|engels|duits|frans|spaans|italiaans|nederlands"
)
OWN_WORDS: Final = (
    r"ich|mein|meine|wir|bin|ist|je|j'\w+|mon|ma|suis|est|me|mi|soy|vivo|trabajo|es"
    r"|eu|meu|minha|sou|moro|é|io|mio|mia|sono|abito|è|ik|mijn"
)


def material_at(said: str) -> int:
    """Where the request stands behind which all is material or a part; the end of the text where none does."""
    return min(_first(said, _WORK, _MATERIAL, behind=True), _first(said, _OPENERS, _OPENED), _unspaced_at(said))


def writing_at(said: str) -> int:
    """Where a text is asked for; the end of the text where none is."""
    return _first(said, _WRITE, _TEXT, behind=True)


def _unspaced_at(said: str) -> int:
    """Where material is asked to be worked on in a script without blanks; the end of the text where none is."""
    if said.isascii():
        return len(said)
    found = (one.start() for one in _WORK_UNSPACED.finditer(said) if _MATERIAL.match(said, one.end()))
    return next(found, len(said))


def _first(said: str, openers: frozenset[str], asked: re.Pattern[str], *, behind: bool = False) -> int:
    """Where the first of these words stands that is asked for: by itself, or by what is behind it."""
    if openers.isdisjoint(map(str.casefold, _WORD.findall(said))):
        return len(said)
    for word in _WORD.finditer(said):
        start, end = word.span()
        if word[0].casefold() not in openers or _OURS.search(said, max(0, start - 4), start):
            continue
        if asked.match(said, end if behind else start):
            return start
    return len(said)
