"""What people say of themselves in Portuguese, Italian and Dutch, and more of German, French and Spanish, as a table.

Name, home, work, trade, age, tastes, allergies, what one does not eat, whom one has. A verb of the first person needs
no pronoun in most of these. A place, an employer and a name have a capital letter, a trade and what is not eaten are of
a closed list, and what only denies teaches nothing: nothing matches behind a "não", "non" or "niet". Compiled when a
word of these languages is first met: it would be a tenth of the start of a process that meets none. Data only.
"""

# ruff: noqa: E501  one rule a line
from __future__ import annotations

import re
from functools import cache
from typing import Final

from policies.fact_named import DIED, PARTED
from policies.fact_patterns import UNREAL
from policies.fact_patterns_words import CAPITALS, KIN_ELSEWHERE_MANY, KIN_ELSEWHERE_ONE
from policies.fact_rule import Table
from policies.fact_rule import row as _rule

TRIGGER: Final = re.compile(
    r"\b(?:ich|wir|nous|on(?= (?:habite|a) )|vivimos|nos(?= (?:mud[aá]mos|hemos mudado))|abitiamo|ci(?= siamo)|moramos|wij|we(?= (?:wonen|zijn) )|ya no(?= (?:soy|estoy|trabajo))|não(?= sou mais)|non(?= sono più)|(?<=\w )bin ich|mein name|jetzt|nun|derzeit|aktuell|momentan|inzwischen|mittlerweile|seit|je|meine?|unsere?|mon|ma|notre|nuestr[oa]|moi|soy|trabajo|tengo|estoy|me mudé|odio|detesto"
    r"|(?:ya )?no como|nunca como|eu|moro|vivo|resido|trabalho|me|chamo-me|mudei-me|(?:o |a )?(?:meu|minha)|sou|tenho|gosto|adoro|amo|odeio|nasci|não como|já não"
    r"|io|mi|abito|risiedo|lavoro|sono|faccio|ho|(?:il |la )?(?:mio|mia)|vengo|non (?:mangio|abito|vivo|lavoro)|ik|mijn|woon|werk|nu|momenteel|tegenwoordig|sinds|he(?= roto)|rompí|lo(?= (?:he dejado|dejé) con))(?![\w-])|\bj'(?=\w)"
    rf"|\b(?-i:[{CAPITALS}])[\w'-]{{1,20}}(?=,? (?:und ich|y yo|et moi|hat|m['’]a|me ha dejado|me dejó|ist (?:\w+ )?(?:gestorben|verstorben)|ha muerto|murió|falleció|ha fallecido|est (?:morte?|décédée?))\b)",
    re.IGNORECASE,
)
"""Where a rule of the table may begin."""

_OPENS: Final = (
    r"(?:^|[,;:.!?¡¿(–—-]|\b(?:und|aber|denn|auch|weil|außerdem|übrigens|ja|et|mais|car|sinon|oui|y|pero|porque|además|por cierto|sí"
    r"|en fait|finalement|d'ailleurs|en realidad|al final|na verdade|in realtà|alla fine|hier|ayer|ontem|ieri|gisteren|gestern"
    r"|(?:le mois|l'an(?:née)?|la semaine) derni(?:er|ère)|(?:el mes|el año|la semana) pasad[oa]"
    r"|(?:no |o )?(?:mês|ano) passado|(?:na |a )?semana passada|(?:il mese|l'anno|la settimana) scors[oa]|vorige (?:week|maand)|vorig jaar"
    r"|e|mas|pois|aliás|sim|ma|perché|inoltre|sì|maar|want|trouwens|also|hallo|hi|hey|moin|hola|bonjour|salut|oi|olá|ciao|hoi"
    r"|ahora|agora|adesso|maintenant|jetzt|danke|merci|gracias|obrigad[oa]|grazie|en|recuerda que|ten en cuenta que|n'oublie pas que|lembr[ae](?:-te)?(?: de)? que"
    r"|ricorda(?:ti)? che))\s*$"
)
_UNREAL: Final = (
    r"\b(?:talvez|diz(?:em)?|disse(?:ram)?|acha[mo]? que|imagine[ms]?|suponh\w+|digamos|sonhei|(?:no|num) (?:meu |sonho|romance|jogo|filme|livro)"
    r"|forse|dice|dicono|detto|immagin\w+|suppon\w+|mettiamo|sogn\w+|(?:nel|in un) (?:mio )?(?:sogno|romanzo|gioco|film|libro)"
    r"|misschien|zegt|zei|zeggen|dacht|droom\w*|stel|stel je voor|in (?:mijn|een|het|de) (?:droom|roman|spel|film|boek|verhaal))\b"
)

_CAPITAL: Final = rf"(?-i:(?=[{CAPITALS}]))"
_TO: Final = r"[^,.;:!?()\n\"\ue000]"
_PLACE: Final = rf"(?!(?:rua|avenida|praça|via|viale|piazza|corso|calle|rue)\b){_CAPITAL}(?P<o>(?:{_TO}|, (?-i:(?=[A-Z][a-z]{{2,}}))|\.(?=\w)){{1,60}})"
_FIRM: Final = rf"{_CAPITAL}(?P<o>(?:{_TO}|\.(?=\w)){{1,60}})"
_RUNS: Final = r"(?P<o>[^.;:!?()\n\"\ue000]{1,160})"
_LIKED: Final = (
    rf"(?P<o>{_TO}{{2,60}}?)(?= (?:pero|aber|mais|mas|ma|maar|(?:und|et|e|en|y) (?:ich|je|j'|io|eu|ik|wohne|arbeite|moro|vivo"
    rf"|trabalho|sou|tenho|abito|lavoro|sono|ho|woon|werk|soy|tengo|trabajo))\b|[,.;:!?()\n\"\ue000]|$)"
)
_ENDS: Final = (
    r"(?= *(?:[,.;:!?()–—-]|$|(?:und|aber|bei|beim|im|am|an|seit|von|aus|mit|et|mais|chez|au|aux|à|depuis|dans|y|pero|en|desde|e|mas|há|na"
    r"|no|num|numa|desde|ma|da|presso|in|al|di professione|de profesión|de profissão|de formation|de métier|maar|bij|van beroep|sinds|op)\b))"
)
_SINCE_DE: Final = r"seit [\w. ]{2,25}?"
_NOW_DE: Final = rf"(?:(?:jetzt|nun|derzeit|aktuell|momentan|inzwischen|mittlerweile|wieder|immer noch|noch|auch|gerade|{_SINCE_DE}) )"
# "Ich heiße Jana und wohne in Kiel": what is said of the home begins at `v`.
_INTRO_DE: Final = r"(?:ich (?:selbst |selber )?(?:heiße|bin|komme|wohne|lebe|studiere)|mein name ist) [^.;!?\n]{1,80}?(?:,| und) (?P<v>)"
_BEFORE_DE: Final = rf"(?:jetzt|nun|derzeit|aktuell|momentan|inzwischen|mittlerweile|{_SINCE_DE})"
_NOW_NL: Final = r"(?:(?:nu|momenteel|tegenwoordig|nog steeds|nog|zelf|ook|sinds [\w. ]{2,20}?|al [\w ]{2,20}?|met (?:mijn|m'n|onze) [\w' ]{2,30}?) )"
_BEFORE_NL: Final = r"(?:nu|momenteel|tegenwoordig|sinds [\w. ]{2,20}?)"
_NOW_PT: Final = r"(?:(?:agora|atualmente|hoje|ainda|também|há [\w ]{2,20}?|desde [\w ]{2,20}?|com (?:o |a |os |as )?[\w ]{2,30}?|sozinh[oa]) )"
_NOW_IT: Final = r"(?:(?:adesso|ora|attualmente|ancora|anche|sempre|da [\w ]{2,20}?|dal [\w ]{2,20}?|con (?:il |la |i |le )?[\w ]{2,30}?|sol[oa]) )"

_KIN_PT: Final = {
    "marido": "husband", "esposo": "husband", "esposa": "wife", "mulher": "wife", "mãe": "mother", "pai": "father", "namorado": "boyfriend",
    "namorada": "girlfriend", "chefe": "boss", "filho": "son", "filha": "daughter", "irmão": "brother", "irmã": "sister", "cachorro": "dog",
    "cachorra": "dog", "cão": "dog", "gato": "cat", "gata": "cat",
}  # fmt: skip
_KIN_IT: Final = {
    "marito": "husband", "moglie": "wife", "madre": "mother", "mamma": "mother", "padre": "father", "papà": "father", "ragazzo": "boyfriend",
    "fidanzato": "boyfriend", "ragazza": "girlfriend", "fidanzata": "girlfriend", "capo": "boss", "figlio": "son", "figlia": "daughter",
    "fratello": "brother", "sorella": "sister", "cane": "dog", "gatto": "cat", "gatta": "cat",
}  # fmt: skip
_KIN_NL: Final = {
    "man": "husband", "echtgenoot": "husband", "vrouw": "wife", "echtgenote": "wife", "moeder": "mother", "vader": "father", "vriend": "boyfriend",
    "vriendin": "girlfriend", "baas": "boss", "zoon": "son", "zoontje": "son", "dochter": "daughter", "dochtertje": "daughter", "broer": "brother",
    "zus": "sister", "zusje": "sister", "hond": "dog", "kat": "cat", "poes": "cat",
}  # fmt: skip
# "Unser Sohn", and whom one is with.
_KIN_MORE: Final = {
    **KIN_ELSEWHERE_MANY, "copine": "girlfriend", "copain": "boyfriend", "compagne": "partner", "compagnon": "partner", "novia": "girlfriend",
    "novio": "boyfriend",
}  # fmt: skip
KIN: Final = {**KIN_ELSEWHERE_ONE, **_KIN_MORE, **_KIN_PT, **_KIN_IT, **_KIN_NL}
"""What one calls whom one has in all the languages of the tables, and what that is in English."""

_JOB_DE: Final = (
    r"(?P<o>(?:\w{0,20}(?:lehrer|entwickler|programmierer|ingenieur|techniker|mechaniker|elektriker|verkäufer|berater|pfleger|erzieher|sozialarbeiter"
    r"|architekt|therapeut|designer|grafiker|journalist|übersetzer|buchhalter|student|schüler|rentner|bäcker|friseur|polizist|professor|forscher"
    r"|wissenschaftler|informatiker|tischler|schreiner|fahrer|musiker|künstler|fotograf|apotheker)(?:in)?|\w{0,20}(?:krankenschwester|anwalt|anwältin"
    r"|arzt|ärztin|psycholog(?:e|in)|kaufmann|kauffrau|hebamme|hausfrau|hausmann|azubi|koch|köchin|beamter|beamtin)|software engineer))"
)
_JOB_FR: Final = (
    r"(?P<o>infirmi(?:er|ère)|médecin|professeure?|enseignante?|instituteur|institutrice|développeu(?:r|se)|ingénieure?|avocate?|architecte|comptable"
    r"|vendeu(?:r|se)|serveu(?:r|se)|cuisini(?:er|ère)|étudiante?|journaliste|graphiste|designer|pharmacien(?:ne)?|dentiste|vétérinaire|psychologue"
    r"|électricien(?:ne)?|plombi(?:er|ère)|menuisi(?:er|ère)|boulang(?:er|ère)|coiffeu(?:r|se)|photographe|traduct(?:eur|rice)|musicien(?:ne)?|retraitée?"
    r"|sage-femme|chercheu(?:r|se)|secrétaire)"
)
_JOB_ES: Final = (
    r"(?P<o>médic[oa]|enfermer[oa]|profesora?|maestr[oa]|ingenier[oa](?: (?:civil|industrial|de software|inform[áa]tic[oa]))?|abogad[oa]|arquitect[oa]"
    r"|diseñadora?(?: gráfic[oa])?|programadora?|desarrolladora?|estudiante|periodista|contadora?|contable|dentista|veterinari[oa]|psicólog[oa]"
    r"|farmacéutic[oa]|cociner[oa]|camarer[oa]|electricista|fontaner[oa]|carpinter[oa]|panader[oa]|peluquer[oa]|fotógraf[oa]|traductora?|músic[oa]"
    r"|jubilad[oa]|autónom[oa]|economista|científic[oa]|investigadora?|bomber[oa]|taxista)"
)
_JOB_PT: Final = (
    r"(?P<o>médic[oa]|enfermeir[oa]|professora?|advogad[oa]|engenheir[oa](?: (?:civil|mecânic[oa]|de software))?|designer|programadora?|desenvolvedora?"
    r"|estudante|arquitet[oa]|psicólog[oa]|dentista|jornalista|contabilista|contadora?|cozinheir[oa]|motorista|veterinári[oa]|farmacêutic[oa]"
    r"|fotógraf[oa]|tradutora?|músic[oa]|aposentad[oa]|reformad[oa]|eletricista|padeir[oa]|investigadora?|pesquisadora?)"
)
_JOB_IT: Final = (
    r"(?P<o>medic[oa]|infermier[ea]|insegnante|professore|professoressa|ingegnere|avvocat[oa]|architett[oa]|programmat(?:ore|rice)|sviluppat(?:ore|rice)"
    r"|studente|studentessa|commess[oa]|cuoc[oa]|camerier[ea]|giornalista|grafic[oa]|designer|farmacista|dentista|veterinari[oa]|psicolog[oa]"
    r"|elettricista|idraulic[oa]|falegname|fornai[oa]|parrucchier[ea]|fotograf[oa]|tradut(?:tore|trice)|musicista|pensionat[oa]|ricercat(?:ore|rice)"
    r"|commercialista|impiegat[oa]|segretari[oa]|operai[oa]|autista)"
)
_JOB_NL: Final = (
    r"(?P<o>\w{0,12}(?:leraar|lerares|arts|verpleger|ontwikkelaar|ontwerper|onderzoeker)|docente?|verpleegkundige|ingenieur|advocaat|architect|programmeur"
    r"|studente?|scholier|verkoper|verkoopster|kok|kelner|journalist|apotheker|psycholoog|elektricien|loodgieter|timmerman|bakker|kapper|kapster"
    r"|fotograaf|vertaler|muzikant|gepensioneerd|accountant|boekhouder|secretaresse|chauffeur)"
)
_STATUS: Final = r"(?P<o>vegetarierin|vegetarier|veganerin|veganer|vegan|végétarien(?:ne)?|végétalien(?:ne)?|végane?|vegetarian[oa]|vegan[oa]|celíac[oa]|celiac[oa]|intolerante a la lactosa|intolerante à lactose|vegetariër|veganist|laktoseintolerant)"
_MARITAL: Final = r"(?P<o>verheiratet|geschieden|verlobt|verwitwet|mariée?|divorcée?|célibataire|fiancée?|casad[oa]|soltera?o?|divorciad[oa]|solteir[oa]|sposat[oa]|divorziat[oa]|single|getrouwd|gescheiden|vrijgezel)"
# What ends, by the words before and behind it: "ich bin kein … mehr".
_NO_MORE: Final = (
    (r"ich bin (?:jetzt |inzwischen |mittlerweile |nun |doch |leider |übrigens |auch )*keine? ", r" mehr\b"),
    (r"ich bin (?:jetzt |inzwischen |mittlerweile |nun |doch |leider |übrigens |auch )*nicht mehr ", ""),
    (r"je ne suis plus (?:une? )?", ""),
    (r"ya no (?:soy|estoy) (?:una? )?", ""),
    (r"(?:eu )?(?:já não (?:sou|estou)|não sou mais) (?:uma? )?", ""),
    (r"(?:io )?non sono più (?:una? |uno |un')?", ""),
    (r"ik ben (?:nu |inmiddels )?geen ", r" meer\b"),
    (r"ik ben (?:nu |inmiddels )?niet (?:meer|langer) ", ""),
)
# What one does not eat, of a closed list: "no como antes" and "ich esse kein Mittag" are no diets.
_FOOD_DE: Final = r"(?P<o>(?:schweine|rind)?fleisch|fisch|gluten|laktose|zucker|eier|nüsse|meeresfrüchte|schwein)"
_FOOD_FR: Final = r"(?P<o>viande|porc|poisson|gluten|lactose|sucre|œufs|oeufs|bœuf|fruits de mer)"
_FOOD_ES: Final = r"(?P<o>carne(?: roja| de cerdo)?|cerdo|pescado|gluten|lactosa|lácteos|mariscos?|huevos?|azúcar)"
_FOOD_PT: Final = (
    r"(?P<o>carne(?: vermelha| de porco)?|porco|peixe|glúten|lactose|laticínios|marisco|frutos do mar|ovos?|açúcar)"
)
_FOOD_IT: Final = (
    r"(?P<o>carne(?: rossa| di maiale)?|maiale|pesce|glutine|lattosio|latticini|uova|zucchero|frutti di mare)"
)
_FOOD_NL: Final = r"(?P<o>vlees|varkensvlees|vis|gluten|lactose|suiker|eieren|noten)"


def _named(mine: str, kin: dict[str, str], called: str) -> str:
    return rf"{mine} (?P<k>{'|'.join(kin)}) {called} {_CAPITAL}(?P<o>[^\W\d_][\w'-]{{1,20}})"


_NAME: Final = r"(?P<o>[^,.;:!?()\n\"\ue000]{1,60})"
_SOMEBODY: Final = rf"{_CAPITAL}(?P<o>[^\W\d_][\w'-]{{1,20}})"


@cache
def table() -> Table:
    """The rules of these languages, where they may begin, and what may stand before that."""
    return Table(
        TRIGGER,
        re.compile(_OPENS, re.IGNORECASE),
        re.compile(f"{UNREAL.pattern}|{_UNREAL}", re.IGNORECASE),
        (
            _rule(rf"(?:(?:eu )?me chamo|(?:eu )?chamo-me|(?:o )?meu nome é|(?:io )?mi chiamo|il mio nome è|ik heet|mijn naam is) {_CAPITAL}{_NAME}", "name", "{P} name is {o}.", "name", "one", importance=0.9),
            _rule(rf"(?:(?:eu )?sou (?:natural )?de|io sono di|(?<![\w,] )sono di|(?:io )?vengo da|ich (?:selbst |selber )?komme (?:ursprünglich |eigentlich )?aus|je viens de|soy de|ik kom (?:oorspronkelijk |eigenlijk )?uit) {_PLACE}", "comes_from", "{S} comes from {o}.", "place", "one", importance=0.7),
            _rule(r"(?:ich bin (?:jetzt |schon )?|ik ben (?:nu |al )?)(?P<o>[5-9](?!\d)|\d{2,3})(?:(?: jahre(?: alt)?| jaar(?: oud)?)\b(?! (?:bei|in|im|dabei|bij|jünger|älter|jonger|ouder))|(?= (?:und|en) |[,.!;](?!\d)|$))", "age", "{S} is {o} years old.", "age", "one", importance=0.8),
            _rule(r"(?:j'ai|tengo|(?:eu )?tenho|(?:io )?ho) (?P<o>[5-9](?!\d)|\d{2,3}) (?:ans|años|anos|anni)\b(?! (?:d'|de\b|di\b|en\b|em\b|nel\b))", "age", "{S} is {o} years old.", "age", "one", importance=0.8),
            _rule(rf"(?:ich bin|bin ich|je suis|soy|estoy|(?:eu )?sou|(?:io )?sono|ik ben) (?:auch |aussi |también |também |anche |ook |jetzt |nun |inzwischen |mittlerweile |maintenant |désormais |ahora |agora |adesso |ora |nu |eine? |une? |una? |een )*{_STATUS}(?![\w-])", "status", "{S} is {o}.", "exact", importance=0.8),
            _rule(rf"(?:ich bin|je suis|estoy|soy|(?:eu )?sou|(?:io )?sono|ik ben) {_MARITAL}(?![\w-])(?! (?:mit der idee|con la idea))", "marital_status", "{P} marital status is {o}.", "exact", "one", importance=0.8),
            *(
                _rule(rf"{before}{what}(?![\w-]){behind}", predicate, says, "exact", "ended", *flags, importance=0.8)
                for before, behind in _NO_MORE
                for what, predicate, says, flags in (
                    (_STATUS, "status", "{S} is no longer {o}.", ()),
                    (_MARITAL, "marital_status", "{P} marital status is no longer {o}.", ("one",)),
                )
            ),
            _rule(rf"(?:{_INTRO_DE}(?:wohne|lebe) {_NOW_DE}{{0,2}}in|{_BEFORE_DE} (?:wohne|lebe) ich(?: wieder| auch)? in) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:eu )?(?:moro|vivo|resido) {_NOW_PT}{{0,2}}(?:em|no|na|nos|nas) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:io )?(?:abito|vivo|risiedo) {_NOW_IT}{{0,2}}(?:a|ad|in) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:ik woon {_NOW_NL}{{0,2}}in|woon {_NOW_NL}{{0,2}}in|{_BEFORE_NL} woon ik(?: weer| ook)? in) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:(?:yo )?me (?:mudé|he mudado)(?: [\wáéíóú ]{{2,20}}?)? a|(?:eu )?(?:me mudei|mudei-me)(?: [\wá ]{{2,20}}?)? (?:para|pra)(?: o| a)?|(?:io )?mi sono (?:appena |da poco )?trasferit[oa](?: [\w ]{{2,20}}?)? (?:a|in)|j'ai (?:\w+ )?déménagé à|ik ben (?:[\w ]{{2,25}} )?verhuisd naar|ich bin (?:[\w. ]{{2,25}} )?(?:umgezogen nach|nach(?= [\w. -]{{2,30}} (?:um)?gezogen\b))) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:wir (?:wohnen|leben) {_NOW_DE}{{0,2}}in|(?:nous habitons|nous vivons|on habite) (?:maintenant |désormais )?(?:à|au|en)|vivimos (?:ahora )?en|moramos {_NOW_PT}{{0,2}}(?:em|no|na)|abitiamo {_NOW_IT}{{0,2}}(?:a|ad|in)|(?:wij|we) wonen {_NOW_NL}{{0,2}}in) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:wir sind (?:[\w. ]{{2,25}} )?(?:umgezogen nach|nach(?= [\w. -]{{2,30}} (?:um)?gezogen\b))|(?:nous avons|on a) (?:\w+ )?déménagé (?:à|au|en)|nos (?:mud[aá]mos|hemos mudado)(?: [\wáéíóú ]{{2,20}}?)? (?:a|para)|ci siamo (?:appena |da poco )?trasferiti(?: [\w ]{{2,20}}?)? (?:a|in)|(?:wij|we) zijn (?:[\w ]{{2,25}} )?verhuisd naar) {_PLACE}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
            _rule(rf"(?:(?:eu )?já não (?:moro|vivo) (?:em|no|na)|(?:io )?non (?:abito|vivo) più (?:a|ad|in)|ik woon niet (?:meer|langer) in) {_PLACE}", "lives_in", "{S} no longer lives in {o}.", "place", "ended", "one"),
            _rule(rf"(?:eu )?nasci (?:e cresci )?(?:em|no|na) {_PLACE}", "born_in", "{S} was born in {o}.", "place", "one", importance=0.7),
            _rule(rf"(?:{_INTRO_DE}arbeite {_NOW_DE}{{0,2}}(?:bei|für)|{_BEFORE_DE} arbeite ich (?:bei|für)|(?:eu )?trabalho {_NOW_PT}{{0,2}}(?:na|no|para(?: a| o)?)|(?:io )?lavoro {_NOW_IT}{{0,2}}(?:da|per|presso|alla)|(?:ik )?werk {_NOW_NL}{{0,2}}(?:bij|voor)|{_BEFORE_NL} werk ik (?:bij|voor)) {_FIRM}", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
            _rule(rf"(?:(?:eu )?já não trabalho (?:na|no|para(?: a| o)?)|(?:io )?non lavoro più (?:da|per|presso|alla)|ik werk niet (?:meer|langer) (?:bij|voor)) {_FIRM}", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one"),
            _rule(rf"(?:ich (?:selbst |selber )?bin |bin ich |ich arbeite |{_INTRO_DE}arbeite )(?:(?:jetzt|derzeit|selbst|selber|auch|ja|nämlich|übrigens|gelernte[rs]?|{_SINCE_DE}) )*(?:als |eine? )?{_JOB_DE}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            _rule(rf"(?:je suis |je travaille comme )(?:un |une |aussi )*{_JOB_FR}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            _rule(rf"(?:soy |trabajo (?:como|de) )(?:un |una |también )*{_JOB_ES}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            _rule(rf"(?:eu )?(?:sou |trabalho como )(?:um |uma |também )*{_JOB_PT}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            _rule(rf"(?:io )?(?:sono |lavoro come |faccio )(?:un |una |un'|il |la |l'|anche )*{_JOB_IT}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            _rule(rf"(?:ik ben |(?:ik )?werk {_NOW_NL}{{0,2}}als )(?:een |ook )*{_JOB_NL}(?![\w-]){_ENDS}", "job", "{P} job is {o}.", "exact", "one", importance=0.8),
            *(
                _rule(rf"{before}{job}(?![\w-]){behind}", "job", "{P} job is no longer {o}.", "exact", "ended", "one", importance=0.8)
                for before, job, behind in (
                    ("ich bin keine? ", _JOB_DE, r" mehr\b"),
                    ("ich arbeite nicht mehr als ", _JOB_DE, ""),
                    ("je ne (?:suis plus |travaille plus comme )(?:une? )?", _JOB_FR, ""),
                    ("ya no (?:soy|trabajo (?:como|de)) (?:una? )?", _JOB_ES, ""),
                    ("(?:eu )?(?:já não sou|não sou mais|já não trabalho como) (?:uma? )?", _JOB_PT, ""),
                    ("(?:io )?non (?:sono più|lavoro più come) (?:una? |uno |un')?", _JOB_IT, ""),
                    ("ik ben geen ", _JOB_NL, r" meer\b"),
                    ("ik werk niet meer als ", _JOB_NL, ""),
                )
            ),
            _rule(rf"(?:ich habe eine (?:starke |schwere )?allergie gegen|tengo alergia(?= a)|j'ai une allergie(?= (?:à|au))|(?:eu )?(?:tenho alergia|sou alérgic[oa]) (?:aos?|à?s?|a)(?= )|(?:io )?sono allergic[oa] (?:all?[ae]?|agli|ai|a)(?= )|(?:io )?sono allergic[oa](?= all')|ik ben allergisch voor) {_RUNS}", "allergic_to", "{S} is allergic to {o}.", "things", importance=0.95),
            _rule(r"(?:ich bin|bin ich)(?: [\w ]{1,30}? und)?(?: auch| übrigens| leider)? gegen (?P<o>[^,.;:!?()\n\"\ue000]{2,60}?) allergisch\b", "allergic_to", "{S} is allergic to {o}.", "things", importance=0.95),
            _rule(rf"(?:ich esse (?:gar |überhaupt )?keine?n? {_FOOD_DE}|je ne mange (?:juste |plus )?(?:pas|jamais|plus) (?:de |d'){_FOOD_FR.replace('<o>', '<o2>')})(?![\w-])", "eats", "{S} does not eat {o}.", "exact", "preference", "negated", importance=0.8),
            _rule(rf"(?:(?:ya )?(?:no|nunca) como {_FOOD_ES}|(?:eu )?não como {_FOOD_PT.replace('<o>', '<o2>')})(?![\w-])", "eats", "{S} does not eat {o}.", "exact", "preference", "negated", importance=0.8),
            _rule(rf"(?:(?:io )?non mangio (?:la |il |lo |le |i )?{_FOOD_IT}|ik eet (?:helemaal )?geen {_FOOD_NL.replace('<o>', '<o2>')})(?![\w-])", "eats", "{S} does not eat {o}.", "exact", "preference", "negated", importance=0.8),
            _rule(rf"(?:(?:eu )?gosto (?:muito |imenso |bastante |também )*d(?:e|o|a|os|as)|(?:eu )?(?:adoro|amo)|mi piac(?:e|ciono)(?: molto| tanto| anche)?|ik hou (?:heel veel |erg |ook )?van) (?!que\b|quando\b|quan[dt]o\b|che\b|se\b|jou\b|te\b|você\b){_LIKED}", "likes", "{S} likes {o}.", "things", "preference"),
            _rule(rf"(?:ich (?:hasse|verabscheue)|je déteste|(?:yo |eu |io )?(?:odio|detesto|odeio)|ik haat) (?!que\b|quando\b|quand\b|cuando\b|che\b|es\b|het (?:als|wanneer)\b|when\b|wenn\b){_LIKED}", "likes", "{S} dislikes {o}.", "things", "preference", "negated"),
            _rule(_named("(?:o |a )?(?:meu|minha)", _KIN_PT, "(?:se chama|chama-se)"), "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
            _rule(_named("(?:il |la )?(?:mio|mia)", _KIN_IT, "si chiama"), "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
            _rule(_named("mijn", _KIN_NL, "heet"), "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
            *(
                _rule(parted, PARTED, "{S} is no longer together with {o}.", "exact", "ended", "one", importance=0.8)
                for parted in (
                    rf"{_SOMEBODY} und ich (?:haben uns (?:[\w ]{{2,25}} )?getrennt|sind (?:nun |jetzt )?(?:nicht mehr zusammen|geschieden)|lassen uns scheiden)\b",
                    rf"ich habe mich (?:[\w ]{{2,25}} )?von {_SOMEBODY} (?:getrennt|scheiden lassen)\b",
                    rf"{_SOMEBODY} (?:hat mich (?:[\w ]{{2,20}} )?verlassen|hat (?:[\w ]{{2,20}} )?mit mir schluss gemacht|m['’]a (?:quittée?|larguée?)|me (?:ha dejado|dejó)(?=[,.;!]|$| por\b))",
                    rf"{_SOMEBODY} y yo (?:lo (?:hemos dejado|dejamos)|hemos roto|rompimos|nos (?:hemos (?:separado|divorciado)|separamos|divorciamos)|ya no estamos juntos)\b",
                    rf"(?:he roto|rompí|lo (?:he dejado|dejé)|me (?:he separado|separé|he divorciado|divorcié)) (?:con|de) {_SOMEBODY}(?=[,.;!?]|$| (?:y|pero|hace|la|el|en)\b)",
                    rf"{_SOMEBODY} et moi,? (?:on s['’]est séparés|nous nous sommes séparés|on a rompu|avons rompu|nous avons rompu|(?:on n['’]est|nous ne sommes|ne sommes) plus ensemble|(?:nous )?divorçons|on divorce)\b",
                    rf"(?:j['’]ai rompu avec|je me suis séparée? (?:de |d['’])) ?{_SOMEBODY}(?=[,.;!?]|$| (?:et|mais|il|la|le|en)\b)",
                )
            ),
            _rule(rf"{_SOMEBODY} (?:ist (?:\w+ )?(?:gestorben|verstorben)|ha muerto|murió|ha fallecido|falleció|est (?:morte?|décédée?))\b", DIED, "{o} has died.", "exact", "ended", importance=0.8),
            _rule(_named("(?:mein|meine|unsere?|mon|ma|notre|mi|nuestr[oa])", _KIN_MORE, "(?:heißt|s'appelle|se llama)"), "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
            _rule(rf"(?:moi,? c'est|(?:eu )?sou [oa]) {_CAPITAL}(?P<o>[^\W\d_][\w'-]{{1,20}})(?=[,.;!]| e (?:moro|vivo|trabalho|sou|tenho)\b| et (?:je|j')|$)", "name", "{P} name is {o}.", "proper", "one", importance=0.9),
        ),
    )  # fmt: skip
