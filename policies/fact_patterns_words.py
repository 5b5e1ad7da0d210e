"""The words that extraction knows, and how a phrase becomes a key: phrases in, normalised phrases out.

Closed classes and short gazetteers of English; what is not listed is judged by its shape (capital, plural). Pure.
Refuses nothing: a phrase of articles alone is the empty string.
"""

from __future__ import annotations

import re
from typing import Final


def word_set(words: str) -> frozenset[str]:
    """The words of a line as a set, so that a list of words reads like one."""
    return frozenset(words.split())


SPACES: Final = re.compile(r"\s+")
CAPITALS: Final = "A-Z" + "".join(char for char in map(chr, range(0xC0, 0x2000)) if char.isupper())
"""Capital letters of Latin, Greek and Cyrillic, within a class of characters."""
UNCASED: Final = "\u05d0-\u1c8f\u3040-\ud7af"
"""Letters of scripts that have no capitals: Hebrew to Georgian, Japanese to Korean."""
# "My new car" is a car, New York is no York.
_ARTICLE: Final = r"(?i:the|a|an|my|our|your|his|her|its|their|this|that|these|those|some|any|of)"
_LEADING: Final = re.compile(rf"(?:(?:{_ARTICLE}|new|current)\s+)+")
_ARTICLES: Final = re.compile(rf"(?:{_ARTICLE}\s+)+")
_KEEP_S: Final = word_set(
    "bus gas lens series species news physics mathematics maths economics politics always chess tennis"
    " thanks analysis"
    " basis status virus campus bonus focus progress process access address business class glass boss mass css aws js"
    " canvas atlas kubernetes express success fitness wellness awareness postgres redis sales analytics"
)
_IRREGULAR: Final = {
    "people": "person",
    "children": "child",
    "kids": "kid",
    "women": "woman",
    "men": "man",
    "feet": "foot",
    "mice": "mouse",
    "wives": "wife",
    "lives": "life",
    "movies": "movie",
    "cookies": "cookie",
    "series": "series",
    "licences": "licence",
    "licenses": "license",
    "calories": "calorie",
}
# Heads that say nothing where something stands before them: "the AI screening tool" is spoken of as "AI screening" too.
_LIGHT_HEADS: Final = word_set(
    "tool project system process phase stage task activity item thing part area piece work level amount"
)

DETERMINERS: Final = word_set(
    "the a an my our your his her its their this that these those all each every some any another both"
)
# Words at which a noun phrase ends: closed classes and the verbs that follow nouns most.
STOPS: Final = (
    word_set(
        "is are was were be been being am has have had do does did will would can could should may might"
        " must shall"
        " i we you he she they it me us them him who whom which what when where why how that if so and or but nor as"
        " than then because since while although though before after until unless to from by at on in of for with into"
        " over under about between during without within per via like just now really also not no yes please there here"
        " i'm i've i'd i'll we're we've it's that's got get getting gets moved changed increased decreased improved"
        " dropped rose went goes going said says told asked think know want need using used use make made makes help"
        " too only even still already yet again more most very instead including such especially due considering given"
        " coming scheduled set planned happening starting booked up down out off back toward towards around against"
        " didn't don't doesn't won't can't isn't aren't wasn't haven't hasn't"
        " gonna wanna gotta hoping hope attending he's she's"
        " they're you're let's"
        " today tomorrow yesterday tonight soon later right maybe can't"
    )
    | DETERMINERS
)
# Adjectives that tell states of one thing apart, not things.
STATES: Final = word_set(
    "new current highest lowest biggest best fastest longest latest updated revised old original"
    " increased reduced decreased initial final total"
    " overall average"
    " improved consistent actual exact upcoming next previous own entire whole whopping solid steady estimated planned"
    " maximum minimum max min strict tight full only same good great right big"
)

ANAPHORS: Final = re.compile(
    r"\b(?:you|your|yours|you're|you've|it|its|it's|that|that's|this|these|those|them|they|him|she|he|her|his|there"
    r"|here|what|how|who|why|something|anything|everything|nothing|someone|anyone|stuff|things?|ones?|idea|same|such"
    r"|one)\b",
    re.IGNORECASE,
)

# Behind what is so, and no part of it.
AT_PRESENT: Final = re.compile(
    r" (?:(?:just |only )?for now|for the (?:moment|time being)|right now|now|nowadays|these days|from now on|currently"
    r"|at (?:the moment|present)|any ?more|any longer)$",
    re.IGNORECASE,
)

KIN_ONE: Final = (
    "wife|husband|mother|mom|mum|father|dad|fiancee?|fiancée?|girlfriend|boyfriend|partner|spouse|boss|manager"
    "|supervisor|therapist|landlord|best friend"
)
KIN_MANY: Final = (
    "son|daughter|brother|sister|cousin|uncle|aunt|niece|nephew|grandmother|grandma|grandfather|grandpa|kid|child"
    "|friend|mentor|colleague|coworker|co-worker|roommate|neighbou?r|twin|stepson|stepdaughter|half-sister|half-brother"
)
KIN_ELSEWHERE_ONE: Final = {
    "mann": "husband", "ehemann": "husband", "frau": "wife", "ehefrau": "wife", "mutter": "mother", "vater": "father",
    "chef": "boss", "chefin": "boss", "mari": "husband", "femme": "wife", "mère": "mother", "père": "father",
    "marido": "husband", "esposo": "husband", "esposa": "wife", "mujer": "wife", "madre": "mother", "padre": "father",
    "jefe": "boss", "jefa": "boss",
}  # fmt: skip
KIN_ELSEWHERE_MANY: Final = {
    "sohn": "son", "tochter": "daughter", "bruder": "brother", "schwester": "sister", "hund": "dog", "katze": "cat",
    "fils": "son", "fille": "daughter", "frère": "brother", "sœur": "sister", "soeur": "sister", "chien": "dog",
    "chat": "cat", "hijo": "son", "hija": "daughter", "hermano": "brother", "hermana": "sister", "perro": "dog",
    "perra": "dog", "gato": "cat", "gata": "cat",
}  # fmt: skip
"""What German, French and Spanish call whom and what one has one or several of."""
PERSONS: Final = re.compile(rf"(?:[\w-]+ )?(?:{KIN_ONE}|{KIN_MANY})", re.IGNORECASE)
PETS: Final = (
    "dog|cat|puppy|kitten|pup|kitty|parrot|hamster|rabbit|bunny|turtle|tortoise|snake|lizard|horse|pony|goldfish"
    "|guinea pig|ferret|bird|fish|budgie|gecko"
)
# What one has one of, and another in its place some day.
OWN_ONE: Final = (
    "doctor|gp|dentist|landlady|coach|trainer|lawyer|accountant|hairdresser|gym|bank|phone|laptop|computer|car|camera"
    "|(?:internet |phone |energy )?provider|wifi|employer|church|editor|browser|operating system|phone number"
)
INSTRUMENTS: Final = (
    "(?:electric |acoustic |bass )?(?:guitar|piano|violin|drums|bass|clarinet|saxophone|flute|cello|trumpet|ukulele"
    "|keyboard|chess|tennis|football|soccer|basketball|volleyball|golf|badminton|hockey|baseball|cricket|rugby"
    "|video games)"
)
GOODS: Final = (
    "car|truck|van|motorcycle|motorbike|bike|bicycle|scooter|boat|house|apartment|flat|condo|cabin|farm|garden|guitar"
    "|piano|violin|drum kit|keyboard|camera|laptop|macbook|phone|iphone|tablet|ipad|kindle|telescope|drone|console"
    "|playstation|xbox|switch|tattoo|prius|tesla|jeep|bakery|shop|store|company|startup|business|studio|podcast|blog"
    "|youtube channel|raspberry pi|server|homelab|printer|degree|masters|phd|headset|monitor"
    "|external drive|gaming (?:system|chair|setup|pc|desk)"
)
CONDITIONS: Final = (
    "asthma|diabetes|type [12] diabetes|adhd|add|autism|anxiety|depression|migraines?|arthritis|celiac(?: disease)?"
    "|coeliac(?: disease)?|epilepsy|hypertension|high blood pressure|insomnia|ptsd|ocd|dyslexia|lactose intolerance"
    "|a peanut allergy|a nut allergy|gastritis|eczema|endometriosis|crohn's(?: disease)?|ibs|tinnitus"
)
MARITAL: Final = "single|married|divorced|engaged|widowed"
"""One of these at a time."""
STATUSES: Final = (
    "pregnant|retired|unemployed|self-employed|a freelancer|vegan|vegetarian"
    "|pescatarian|a vegan|a vegetarian|a pescatarian"
    "|gluten[- ]free|lactose intolerant|left-handed|right-handed|colou?r-?blind|deaf"
    "|diabetic|autistic|dyslexic|transgender|non-binary|gay|bisexual|an introvert|an extrovert|introverted|extroverted"
    "|a night owl|a morning person|an early bird|an only child|a single (?:mom|dad|mother|father|parent)|adopted"
    "|jewish|muslim|christian|catholic|buddhist|hindu|an atheist|agnostic"
)
LANGUAGES: Final = word_set(
    "english german french spanish italian portuguese dutch polish russian ukrainian turkish arabic"
    " hebrew hindi urdu"
    " bengali chinese mandarin cantonese japanese korean vietnamese thai greek swedish norwegian danish finnish czech"
    " hungarian romanian bulgarian serbian croatian catalan basque welsh irish gaelic latin swahili tagalog malay"
    " indonesian persian farsi tamil telugu punjabi creole afrikaans esperanto asl"
)
# What a team moves to, and nobody lives in.
TOOLS: Final = word_set(
    "python java javascript typescript node react vue angular svelte nextjs django flask fastapi rails laravel"
    " postgres postgresql mysql mariadb sqlite mongodb mongo redis valkey kafka rabbitmq nats elasticsearch"
    " opensearch kubernetes k8s docker podman helm terraform ansible aws gcp azure cloudflare vercel netlify"
    " heroku supabase firebase dynamodb cassandra snowflake bigquery databricks airflow dbt github gitlab"
    " bitbucket jenkins circleci git slack teams discord zoom notion jira trello asana confluence vim neovim emacs"
    " vscode linux ubuntu debian fedora windows macos android ios rust golang kotlin swift ruby php perl scala"
    " bash zsh webpack vite npm yarn pnpm deno graphql grpc prometheus grafana datadog sentry stripe paypal"
    " salesforce hubspot zendesk wordpress shopify figma excel outlook gmail openai chatgpt claude gemini llama"
    " vllm pytorch tensorflow pandas polars bun uv conda gradle"
    " maven bazel buildkite turborepo eslint prettier vitest pytest playwright tailwind fastify nestjs nuxt"
    " prisma sqlalchemy nginx traefik haproxy argocd pulumi"
)
# Where one is and has no home: a state, a part of a firm, a way of working.
NO_HOMES: Final = re.compile(
    r"(?:(?:constant |deep |inner )?(?:poverty|peace|hope|pain|denial|sin|fear|harmony|luxury|squalor|exile|hiding"
    r"|misery|comfort|solitude|isolation|darkness|chaos|style|debt|limbo|silence|freedom|retirement)"
    r"|angst|armut|frieden|scheidung|trennung|sorge|harmonie|elternzeit|rente|partnerschaft|beziehung|freiheit"
    r"|trauer|hoffnung|gemeinschaft|gedanken|luxus|ehe|saus|sünde|untermiete|miete|einsamkeit|bescheidenheit"
    r"|familia|apartamento|piso|directo|comunidad|pensión|residencia|maison|appartement|foyer|internat|centre|solitaire"
    r"|paz|pareja|pecado|soledad|alquiler|casa|pobreza|miedo|armonía|libertad"
    r"|couple|banlieue|province|campagne|ville|centre-ville|colocation|concubinage|paix|harmonie|autarcie"
    r"|agile|scrum|kanban|production|staging|remote|marketing|sales|engineering|finance|hr|qa|it|legal|accounting"
    r"|support|operations|ops|devops|procurement|product|design|management|r&d|sre"
    r"|q[1-4]|(?:team|plan|phase|tier|step|version|option|weekly|biweekly|daily|monthly) .*)",
    re.IGNORECASE,
)
# When or what for one works, and in what language; and places, since in Spanish one works "en Madrid" as "en Google".
NO_EMPLOYERS: Final = re.compile(
    r"nights?|day|home|noon|dawn|money|cash|tips|fun|love|(?:mon|tues|wednes|thurs|fri|satur|sun)days?"
    r"|recursos humanos|marketing|ventas|photoshop|word|powerpoint|navidad|semana santa"
    r"|kunden|freunde|menschen|kinder|leute|familien|frieden|musik|kerzenlicht"
    r"|nacht|tag|tage|geld|regen|bedarf|hause|spaß|java|python|rust|react|excel"
    r"|españa|madrid|barcelona|valencia|sevilla|bilbao|zaragoza|málaga|granada|murcia|alicante|cdmx"
    r"|(?:ciudad de )?méxico|guadalajara|monterrey|argentina|buenos aires"
    r"|córdoba|rosario|chile|santiago|colombia|bogotá|medellín|cali|perú"
    r"|lima|ecuador|quito|venezuela|caracas|uruguay|montevideo|cuba|la habana|costa rica|panamá|guatemala|bolivia"
    r"|europa|alemania|francia|italia|portugal|inglaterra|londres|parís|berlín|roma|nueva york|miami|estados unidos"
    r"|suiza|viena|múnich|lisboa",
    re.IGNORECASE,
)
JOB: Final = (
    "(?:engineer|developer|programmer|designer|teacher|professor|lecturer|nurse|doctor|physician|surgeon"
    "|dentist|lawyer|attorney|paralegal|solicitor|barrister|judge|accountant|auditor|analyst|scientist|researcher"
    "|manager|director|producer|editor|writer|author|journalist|reporter|blogger|novelist|poet|photographer"
    "|videographer|filmmaker|actor|actress|musician|singer|composer|dancer|choreographer|artist|painter|sculptor"
    "|illustrator|animator|architect|carpenter|plumber|electrician|mechanic|technician|welder|farmer|gardener|florist"
    "|chef|cook|baker|bartender|barista|waiter|waitress|cashier|salesperson|salesman|realtor|broker|banker|trader"
    "|economist|consultant|contractor|freelancer|entrepreneur|founder|co-?founder|ceo|cto|cfo|coo|vp|executive"
    "|recruiter|secretary|receptionist|assistant|administrator|clerk|librarian|translator|interpreter|tutor|coach"
    "|trainer|instructor|counsell?or|therapist|psychologist|psychiatrist|pharmacist|veterinarian|vet|biologist|chemist"
    "|physicist|mathematician|historian|geologist|astronomer|statistician|pilot|driver|courier|captain|sailor|soldier"
    "|officer|firefighter|paramedic|detective|guard|hairdresser|barber|tailor|seamstress|mason|builder|roofer"
    "|landlord|student|undergrad|undergraduate|graduate|postdoc|intern|apprentice|volunteer|podcaster|streamer"
    "|youtuber|influencer|sre|dba|sysadmin|tester|marketer|strategist|planner|coordinator|supervisor|stylist"
    "|social worker|homemaker|housewife|stay-at-home (?:mom|dad)|colorist|screenwriter|playwright|zoologist"
    "|counsel|lead|gp|midwife|dispatcher|caregiver|bookkeeper|hygienist)"
)
JOBS: Final = re.compile(rf"(?:^|[ -]){JOB}$", re.IGNORECASE)


def singular(word: str) -> str:
    """The simple singular of an English noun, by its ending; most of what is no plural stays."""
    if word in _IRREGULAR:
        return _IRREGULAR[word]
    if word in _KEEP_S or len(word) < 4 or not word.endswith("s") or word.endswith(("ss", "us", "is", "'s")):
        return word
    if word.endswith("ies") and len(word) > 4:
        return f"{word[:-3]}y"
    if word.endswith(("ches", "shes", "xes", "sses", "zes")):
        return word[:-2]
    return word[:-1]


def normalised(text: str) -> str:
    """Casefolded, single spaces, no article or possessive in front, the last word in the singular."""
    said = _tidy(text)
    said = (_LEADING.sub("", f"{said} ", count=1) if _LEADING.match(f"{said} ") else said).strip().casefold()
    head, space, last = said.rpartition(" ")
    return f"{head}{space}{singular(last.removesuffix(chr(39) + 's'))}"


def as_object(text: str) -> str:
    """An object as a fact holds it: casefolded, single spaces, no article or possessive in front."""
    said = _tidy(text)
    return (_LEADING.sub("", said, count=1) if _LEADING.match(said) else said).casefold()


def as_name(text: str) -> str:
    """A name, casefolded, single spaces, no article or possessive in front."""
    said = _tidy(text)
    return (_ARTICLES.sub("", said, count=1) if _ARTICLES.match(said) else said).casefold()


def _tidy(text: str) -> str:
    return SPACES.sub(" ", text.replace("’", "'")).strip(" .,;:!?\"'()")


def head_and_rest(thing: str) -> tuple[str, tuple[str, ...]]:
    """A thing's head noun, which is its key, and the words that tell it from others of its kind.

    "the first sprint" -> sprint, (first); "call with the creative director" -> call, (creative, director).
    """
    said = SPACES.sub(" ", thing.replace("’", "'").casefold()).strip(" .,;:!?\"'()")
    core = re.split(r" (?:for|of|in|on|with|to|at|about|from|by) ", said, maxsplit=1)
    words = [w for w in core[0].split() if w not in DETERMINERS]
    told = [singular(w.removesuffix("'s")) for w in words if w not in STATES]
    told = told or [singular(w) for w in words]
    if len(told) > 1 and told[-1] in _LIGHT_HEADS:
        told.insert(0, told.pop())
    rest = [singular(w) for part in core[1:] for w in part.split() if w not in STOPS]
    return (told[-1] if told else ""), tuple(sorted({*told[:-1], *rest}))


_PERSON: Final = (
    (re.compile(r"\bmyself\b", re.I), "themselves"),
    (re.compile(r"\b(?:my|our)\b", re.I), "their"),
    (re.compile(r"\b(?:me|us)\b"), "them"),
    (re.compile(r"\b(?:I'm|we're)\b"), "they are"),
    (re.compile(r"\b(?:I've|we've)\b"), "they have"),
    (re.compile(r"\b(?:I|we)\b(?= [a-z])"), "they"),
    (re.compile(r"\b(?:mine|ours)\b"), "theirs"),
)


def in_third_person(text: str) -> str:
    """First-person words as a sentence about somebody else has them."""
    said = SPACES.sub(" ", text.replace("’", "'")).strip(" ,;:")
    for pattern, other in _PERSON:
        said = pattern.sub(other, said)
    return said
