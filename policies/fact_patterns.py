"""What people say of themselves, as a table of rules: pattern, predicate, and the sentence that a memory shows.

Every pattern is matched where a pronoun stands (`TRIGGER`), never searched for, and its object is one bounded run of
characters, so the work is linear. `o` is the object, `k` a kind that enters the predicate. English, with the first
sentences of German, Spanish and French. Data only.
"""

# ruff: noqa: E501  one rule a line: broken up, the table could not be read down
from __future__ import annotations

import re
from typing import Final

from policies.fact import Cardinality
from policies.fact_named import DIED, PARTED
from policies.fact_patterns_words import (
    CAPITALS,
    CONDITIONS,
    GOODS,
    INSTRUMENTS,
    JOB,
    KIN_ELSEWHERE_MANY,
    KIN_ELSEWHERE_ONE,
    KIN_MANY,
    KIN_ONE,
    MARITAL,
    OWN_ONE,
    PETS,
    STATUSES,
    STOPS,
    TOOLS,
)
from policies.fact_rule import Shape, Table
from policies.fact_rule import row as _rule

TRIGGER: Final = re.compile(
    r"\b(?:I|we|my|our|the(?= divorce\b)|as(?= an? )|call me|people call me|no longer(?= at )|ich|mein|meine|me|mi|vivo|trabajo|soy|je|mon|ma)(?![\w-])|\bj'(?=\w)"
    # "Hannes and I split up", "Biscuit died": whom it is told of stands first.
    rf"|\b(?-i:[{CAPITALS}])[\w'-]{{1,20}}(?= (?:and I\b|(?:has |just |recently |finally |sadly |suddenly )*(?:died|passed|is dead|was put|dumped|left me|broke|ended)\b))",
    re.IGNORECASE,
)
# What may stand before a pronoun that opens a statement.
OPENS: Final = re.compile(
    r"(?:^|[,;:.!?()–—-]|\b(?:and|but|because|since|so|also|plus|well|yeah|yes|yep|no|nope|actually|btw|oh|hey|hi|hello|though|although"
    r"|considering|given|now|currently|remember|note|that|fyi|honestly|personally|basically|sorry|mean|y|und|et|aber|pero|mais|sure|then"
    r"|yesterday|today|(?:this|last) (?:week|month|year|morning|night|weekend|spring|summer|autumn|fall|winter|(?:mon|tues|wednes|thurs|fri|satur|sun)day)|lately|recently|especially|anyway|still|uh|um|uhm|erm|in (?:real life|reality|fact|general)"
    r"|hm+|yo|ngl|tb[hf]|to be honest|at the moment|generally|usually|normally|nowadays|these days|at (?:work|home)"
    r"|(?:it )?turns out(?: that)?|en fait|finalement|d'ailleurs|en realidad|al final|por cierto"
    r"|hallo|moin|hola|bonjour|salut|porque|car|denn|recuerda que|ten en cuenta que|n'oublie pas que))\s*$",
    re.IGNORECASE,
)
_TALE = (
    r"^\W*(?:(?:so|and|but) )?(?:once upon a time|for the sake of|in (?:my|the|this|that|our|a) (?:[a-z]+ )?(?:story|novel"
    r"|book|game|movie|film|play|show|series|comic|dream|scenario|example|fantasy|campaign|simulation)"
    r"|(?:im|in (?:de[mr]|eine[mr]|diese[mr]|meine[mr])) (?:traum|roman|spiel|buch|film|geschichte|szenario|beispiel)"
    r"|dans (?:mon|le|un|une|ce|cette) (?:rêve|roman|jeu|livre|film|histoire|scénario|exemple)"
    r"|en (?:mi|el|un|una|este|esta|la) (?:sueño|novela|juego|libro|película|historia|escenario|ejemplo))\b"
)
TALE: Final = re.compile(_TALE, re.IGNORECASE)
UNREAL: Final = re.compile(
    r"\b(?:if|would|could|might|wish|imagine|suppose|supposing|pretend|whether|unless|maybe|perhaps|probably|assume|assuming|hypothetically|asked|said|says|told|asks|say"
    r"|when|whenever|dreamed|dream|until|as if|what|how|why|before i|think that|hope|used to|dreamt"
    r"|sagt|sagte|gesagt|meint|meinte|meinen|glaub(?:t|en|e|te|ten)|denkt|denken|dachten?|finde[tn]|behauptet|erzählt|erzählte"
    r"|fragte|träum\w+|geträumt|hoffe|wahrscheinlich|wenn|falls"
    r"|dicen?|dijo|dijeron|dicho|decían?|creen?|creían?|creo|piensan?|pensaban?|soñé|soñaba|probablemente"
    r"|dit|disent|disait|disaient|pensen?t?|pensait|croi(?:t|ent)|croyait|racont\w+|prétend\w*|rêv\w+|probablement|si"
    r"|vielleicht|theoretisch|angenommen|stellt? (?:dir|euch)|stellen sie sich|nehmen wir an|wünschte"
    r"|supposons|supposez|imaginons|imaginez|admettons|disons|peut-être"
    r"|supongamos|imagina|imaginemos|digamos|quizás?|tal vez|a lo mejor|ojalá)\b"
    # Somebody's words without quotes, and what is so in a tale alone.
    r"|\b(?:wrote|writes|replied|replies|answered|answers|texted|reads|schrieb|schreibt|antwortete|escribió|escribe"
    r"|respondió|écrit|répond|répondu)(?: me| us| in| back| mir| uns)?(?::|,\s*$)"
    r"|(?:\b(?:goes|went|(?:he|she|they|it) said)|\b(?:is|was|were|are) like|'s like)(?::|,)\s*$"
    rf"|{_TALE}"
    r"|\b(?:reports|reported|stated|complains|complained|declares|declared|insists|insisted|swears|shouted)(?: that)?\s*$"
    # What somebody believes or what is not true; "don't forget that" is no such thing.
    r"|\b(?:thinks|thought|believes?|believed|claims?|claimed|assumes|assumed|not|lied|lie|false|untrue|wrong|mistaken"
    r"|(?:not|n't|hardly|never) (?:been )?true|(?<!n't )(?<!not )(?<!never )forget|(?:n't|not|never|stop) remember(?:ing)?)"
    r" that\s*$",
    re.IGNORECASE,
)


_RUN = r"(?P<o>(?:[^,.;:!?()\n\"\ue000]|[,.](?=\d)){1,140})"
_RUNS = r"(?P<o>[^.;:!?()\n\"\ue000]{1,160})"
# A dot inside a name ("St. Louis", "Node.js") ends no run.
_DOTTED = r"(?P<o>(?:[^,.;:!?()\n\"\ue000]|, (?-i:(?=[A-Z][a-z]{2,}))|\.(?=\w)|(?<=\bSt)\.){1,90})"
_ADV = (
    r"(?:(?:really|actually|just|also|still|currently|now|always|absolutely|totally|recently|finally|usually|only|already|all|kinda|do|definitely|truly|even"
    r"|honestly|particularly|generally|mostly|both|basically|simply|personally|mainly|typically|especially|strongly|much|have|'ve) ){0,3}"
)
_I = rf"I {_ADV}"
_IM = rf"(?:I'm|I am) {_ADV}"
_NOT = r"I (?:really |just |also |still )?(?:don't|do not|can't|cannot|never) (?:really |even |particularly )?"
# "I'm not a lawyer living in Rome"; "I'm married to an engineer living in Ohio": who lives there is another.
_HALF_DENIED = r"[^.;!?\n]{0,90}?\b(?:not|never|no longer|neither)\b"
_OF_ANOTHER = r"(?:of|to|for|with|from|by|about|who|whose|in|at|on|and|my|our|his|her|their|an?|the|no)\b"
_LATELY = "(?:has |have |just |recently |finally |now )*"
_NOW = "(?:currently |now |still |also )*"
# "Our partner" is a firm's.
_MY = r"(?:my|(?<!name )our(?! (?:[a-z]+ )?partner\b)) (?!(?:ex|former|late|previous|deceased|dead|future|next|old)\b)(?:[a-z]+ )?"  # who is it now
# Where one goes to learn: one goes to Rome, too.
_SCHOOL = (
    r"[^,.;:!?\n]{0,60}(?-i:\b(?:University|College|School|Institute|Academy|Uni|MIT|Harvard|Stanford|Yale|Princeton"
    r"|Oxford|Cambridge|Berkeley|UCLA|NYU|ETH|Caltech|Cornell)\b)"
)
# A thing that is not the first half of another: "a cat", no "cat allergy"; "a phone now", no "phone call".
_ALONE = (
    rf"(?=[^\w '-]|$| (?:[-–—(\"“]|\d|(?-i:[A-Z])|(?:{'|'.join(sorted(STOPS))}|named|called|last|recently|finally|again|near|nearby"
    r"|outside|myself|ourselves|whose|worth|full|each|which|online)(?![\w'-])))"
)
_OWN_AGE = r"(?:[5-9](?!\d)|\d{2,3})"  # of one who writes
_FIRM = r"(?-i:[A-Z])[\w&'-]*(?: (?-i:[A-Z])[\w&'-]*){0,3}"
# "Pixel 9 Pro", "BMW 320d": of which make and which model.
_MAKE = (
    r"(?-i:[A-Za-z]?[A-Z])[\w'-]*(?: (?:(?-i:[A-Z])[\w'-]*"
    r"|\d{1,4}[a-z]{0,2}(?![.,]\d)(?=[^\w %]|$| (?:(?-i:[A-Z])\w*|and|but|so|now|with|since|because|from|which|that|not)\b))){0,3}"
)
_PERSON = rf"(?P<o>(?-i:[{CAPITALS}])[\w'-]{{1,20}})"
# "I don't eat out much", "I started eating because": how and when one eats.
_NO_HOW = (
    r"(?!(?:enough|much|any ?more|again|out|well|less|more|better|healthier|like|as|lunch|dinner|at|in|on|with|from|to|when|while|because"
    r"|before|after|until)\b)"
)
_LOVES = "wife|husband|girlfriend|boyfriend|partner|fiancee?|fiancée?"
_SPOUSES = rf"{KIN_ONE}|{KIN_MANY}|{JOB}|man|woman|guy|girl|boy|person|sweetheart|soulmate|love|crush"
# "Died in May", not "died laughing"; "split up last week", not "split the bill".
_THEN = (
    r"(?=[,.;:!?)]|$| (?:in|on|last|this|yesterday|today|recently|when|while|after|before|because|since|and|but|so|two|three|\d{1,2}"
    r"|a (?:few|couple|year|month|week|while)|peacefully|suddenly|amicably|for good)\b)"
)
_PARTED = (
    r"(?:(?:broke|broken|split) up|split|separated|(?:got|getting) (?:a )?divorced?|divorcing|parted(?: ways)?"
    r"|no longer together|not together any ?more)"
)
# "In May", not "in the museum", where two went different ways.
_NO_PLACE = r"(?! in (?:the (?!spring|summer|autumn|fall|winter|new year|end\b)|an?|our|half|two|different)\b)"
_PARTED_NOW = rf"(?:(?:have|are|just|recently|finally|officially) )*{_PARTED}{_NO_PLACE}{_THEN}"
_PUT_DOWN = r"(?:down|to sleep)(?=[,.;!]|$| (?:last|this|yesterday|today|recently|because|two|three|a (?:few|week|month|year))\b)"
_DIED = (
    rf"(?:has |have |just |recently |sadly |suddenly )*(?:died|passed away|is dead|was put (?:down|to sleep)){_THEN}"
)
_DIET = r"(?:vegetarian|vegan|pescatarian|halal|kosher|keto|gluten-free)"

_WHO: Final = (
    _rule(rf"my (?:full |first |real )?name(?: is|'s) (?:now |actually |really |still |spel(?:led|t) |written )*{_RUN}", "name", "{P} name is {o}.", "name", "one", importance=0.95),
    _rule(rf"(?:(?:people |everyone |you can |please |just )*call me|I go by) {_RUN}", "name", "{P} name is {o}.", "name", "one", importance=0.9),
    _rule(r"(?:I'm|I am) (?P<o>[A-Z][a-z]+(?: [A-Z][a-z]+)?)(?=, (?:an? |and I|from |\d|I )|[.!]| from | and I)", "name", "{P} name is {o}.", "proper", "one", importance=0.9),
    _rule(r"(?:I'm|I am) [A-Z][a-z]+(?: [A-Z][a-z]+)?, (?:an? |the )(?P<o>[^,.;:!?()\n\"\ue000]{3,90})", "job", "{S} is {a o}.", "job", "one", importance=0.8),
    _rule(rf"(?:I'm|I am|I work as(?= an? )) (?!(?:{_HALF_DENIED}))(?:(?:(?-i:[A-Z])[\w'-]+(?: (?-i:[A-Z])[\w'-]+)?, )?(?:an? |the )(?:(?!{_OF_ANOTHER})[\w/&'-]{{1,30}} ){{1,6}}?|(?!(?!working|studying)\w+ing\b)[^.;!?\n]{{1,90}}?(?:, | and (?:I'm )?))(?:currently |now )?(?:based|living|located) in (?!(?-i:[A-Z])[\w'-]*(?: (?-i:[A-Z])[\w'-]*){{0,2}} (?:is|was|isn't|has|makes|feels|seems|sounds)\b)(?P<o>[A-Z](?:[^.;:!?()\n\"\ue000]){{1,60}})", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.75),
    _rule(r"as an? (?P<o>[a-z/ -]{3,50}), (?:I|my|I'm|I've) (?!want|can|need|should|would|must|will|could|may)", "job", "{S} is {a o}.", "job", "one", importance=0.7),
    _rule(r"(?:I have|I've got|I've) (?:over |about |around |almost |more than )?(?P<o>\d{1,2})\+? years of (?P<k>[a-z]+ )?experience", "years_of_experience", "{S} has {o} years of {k} experience.", "exact", "one", importance=0.7),
    _rule(rf"(?:{_IM}(?P<o>{_OWN_AGE})(?: years? old| yrs? old|(?=[,.;!?](?!\d)|$| and (?!a half)| now))|I {_ADV}turned (?P<o2>{_OWN_AGE})(?: years? old|(?=[,.;!?]|$| (?:and|but|now|today|yesterday|last|this|in|on|two|a)\b)))", "age", "{S} is {o} years old.", "age", "one", importance=0.8),
    _rule(rf"(?:{_IM}|as )an? (?P<o>{_OWN_AGE})[- ]years?[- ]old", "age", "{S} is {o} years old.", "age", "one", importance=0.8),
    _rule(rf"(?:{_IM}|I {_ADV}(?:work|working|got a job) as |{_IM}working as |my (?:new )?job is (?:being )?)(?:an? |the )(?P<o>[^,.;:!?()\n\"\ue000]{{1,90}})", "job", "{S} is {a o}.", "job", "one", importance=0.8),
    _rule(rf"(?:{_IM}|{_I}work as |{_IM}working as )(?:an? |the )(?:(?!{_OF_ANOTHER})[\w/&'-]{{1,30}} ){{0,3}}?(?!student|undergrad|graduate|volunteer){JOB} at (?:the )?{_DOTTED}", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
    _rule(rf"(?:{_I}work|{_IM}working|I {_ADV}(?:started (?:working|a job|a new job))|I've been working) (?:at|for) {_DOTTED}", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
    _rule(rf"I {_ADV}started at (?!{_SCHOOL})(?P<o>{_FIRM})(?= (?:(?:this|last) (?:week|month)|yesterday|today|as an?)\b)", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
    _rule(rf"(?:I've|I have) {_ADV}worked (?:at|for) (?=[^.;!?\n]{{1,60}} since\b){_DOTTED}", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
    _rule(rf"(?:I've|I have|we've|we have) {_ADV}(?:lived|been living) in {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.7),
    _rule(rf"(?:I|we) {_ADV}(?:live|reside) in {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
    _rule(rf"{_IM}(?:living|based|located|residing) in {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
    _rule(rf"(?:I|I've|we|we've) {_ADV}(?:moved|relocated) (?:back |over )?to {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
    _rule(rf"(?:I|I've) {_ADV}(?:moved|relocated) from (?-i:[{CAPITALS}])[\w' .-]{{1,40}}? to {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
    _rule(rf"{_IM}(?:originally )?from {_DOTTED}", "comes_from", "{S} comes from {o}.", "place", "one", importance=0.7),
    _rule(rf"I (?:grew up|was raised) in {_DOTTED}", "grew_up_in", "{S} grew up in {o}.", "place", "one"),
    _rule(r"I was born in (?P<o>(?:19|20)\d\d)\b", "birth_year", "{S} was born in {o}.", "exact", "one", importance=0.7),
    _rule(rf"I was born (?:and raised )?in {_DOTTED}", "born_in", "{S} was born in {o}.", "place", "one", importance=0.7),
    _rule(rf"my hometown(?: is|,) {_DOTTED}", "hometown", "{P} hometown is {o}.", "place", "one", importance=0.7),
    _rule(r"my birthday(?:'s| is)(?: on)? (?:the )?(?P<o>(?:[A-Za-z]{3,9} \d{1,2}(?:st|nd|rd|th)?|\d{1,2}(?:st|nd|rd|th)? (?:of )?[A-Za-z]{3,9})(?:,? (?:19|20)\d\d)?)(?!\w)", "birthday", "{P} birthday is {o}.", "exact", "one", importance=0.8),
    _rule(rf"(?:{_I}study|{_IM}(?:studying|majoring in)|my major is) {_RUN}", "studies", "{S} studies {o}.", "phrase", "one"),
    _rule(rf"(?:{_I}studied|I (?:have|got) an? (?:degree|master's|bachelor's|PhD) in|I {_ADV}graduated (?:with a degree )?in|I majored in) {_RUN}", "studied", "{S} studied {o}.", "phrase"),
    _rule(rf"(?:I {_ADV}(?:attend|graduated from|(?:go|went) to(?={_SCHOOL})|study at)|I'm (?:a student at|studying at)) (?P<o>(?:the )?[A-Z][\w'&. -]{{1,60}})", "school", "{S} attends or attended {o}.", "place"),
    _rule(rf"{_IM}(?P<o>{MARITAL})(?![\w-])(?! (?:in|by|out)\b|(?<=engaged) with\b| to (?:my|our|the|this|that) (?!(?:[\w-]+ ){{0,3}}?(?:{_SPOUSES})\b))", "marital_status", "{S} is {o}.", "exact", "one", importance=0.8),
    _rule(rf"{_IM}(?P<o>{STATUSES})(?=(?:, | and | but )(?:also )?(?:{STATUSES})(?![\w-]))", "status", "{S} is {o}.", "exact", importance=0.8),
    _rule(rf"{_IM}(?:more of )?(?:(?:{STATUSES})(?:, | and | but )(?:also )?)?(?P<o>{STATUSES})(?![\w-])(?!(?<=deaf) to\b)", "status", "{S} is {o}.", "exact", importance=0.8),
    _rule(rf"(?:I eat|I follow|{_IM}on|I'm eating) an? (?P<o>{_DIET})(?: diet)?\b", "status", "{S} is {o}.", "exact", importance=0.8),
    _rule(rf"{_IM}allergic to {_RUNS}", "allergic_to", "{S} is allergic to {o}.", "list", importance=0.95),
    _rule(rf"I {_ADV}have (?:an? )?(?:severe |bad |serious )?allerg(?:y|ies) to {_RUNS}", "allergic_to", "{S} is allergic to {o}.", "list", importance=0.95),
    _rule(rf"I {_ADV}(?:have|suffer from|struggle with|was diagnosed with|got diagnosed with|been diagnosed with) (?P<o>{CONDITIONS})(?![\w-])", "has_condition", "{S} has {o}.", "exact", importance=0.9),
    _rule(rf"I(?:'ve| have| was| got)? (?:recently |just |been ){{0,2}}diagnosed with {_RUN}", "has_condition", "{S} has been diagnosed with {o}.", importance=0.9),
    *(
        row
        for verb, does in (("eat", "eats"), ("drink", "drinks"))
        for row in (
            _rule(rf"{_NOT}{verb} {_NO_HOW}{_RUNS}", does, f"{{S}} does not {verb} {{o}}.", "list", "preference", "negated", importance=0.8),
            _rule(rf"(?:I'm back to|I {_ADV}(?:started|began)) {verb}ing {_NO_HOW}{_RUNS}", does, f"{{S}} {does} {{o}}.", "list", "preference", importance=0.8),
            _rule(rf"I (?:can )?{verb} {_NO_HOW}(?P<o>[^,.;:!?()\n\"\ue000]{{1,60}}?) (?:again|now)\b(?! and (?:then|again)\b)", does, f"{{S}} {does} {{o}}.", "list", "preference", importance=0.8),
        )
    ),
    _rule(rf"(?:I {_ADV}speak|{_IM}fluent in|my (?:native|first) language is) {_RUNS}", "speaks", "{S} speaks {o}.", "language"),
    _rule(rf"(?:{_IM}learning|I've been learning|I {_ADV}started learning) {_RUNS}", "learns", "{S} is learning {o}.", "language"),
)  # fmt: skip

_AROUND: Final = (
    _rule(rf"{_MY}(?P<k>{KIN_ONE})(?:'s name)?(?:,|(?: is|'s)(?: now)?(?: called| named)?| called| named)? (?-i:(?:Dr|Mrs?|Ms|Prof)\.? )?(?P<o>[^\W\d_][\w'-]{{1,20}})", "{k}_name", "{P} {k} is called {o}.", "person", "one", importance=0.8),
    _rule(rf"{_MY}(?P<k>{KIN_MANY}|{PETS})(?:'s name)?(?:,|(?: is|'s)(?: now)?(?: called| named)?| called| named)? (?P<o>[^\W\d_][\w'-]{{1,20}})", "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
    _rule(rf"(?:I|I've|we|we've) {_ADV}(?:have|got|own|adopted|bought) an? (?:[\w-]+ ){{0,2}}(?P<k>{KIN_MANY}|{PETS})(?:(?:,? (?:called|named)|, (?:his|her|its) name is) (?P<o>[^\W\d_][\w'-]{{1,20}})|, (?P<o2>(?-i:[{CAPITALS}])[\w'-]{{1,20}})(?=,| \(| and\b))", "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
    _rule(rf"(?:I|I've|we|we've) {_ADV}(?:have|got) an? (?:[\w-]+ ){{0,2}}(?P<k>{KIN_MANY}), {_PERSON}(?=[.;:!?]|$)", "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
    _rule(rf"(?:I|I've|we|we've) {_ADV}(?:have|own|adopted|bought|got) (?P<o>an? (?:[\w-]+ ){{0,3}}?(?:{GOODS}|{PETS})){_ALONE}", "has", "{S} has {o}.", "phrase"),
    _rule(rf"{_MY}(?P<k>{OWN_ONE}) is (?:now |currently |called |named |still )*(?:an? )?(?P<o>(?-i:(?:Dr|Mrs?|Ms|Prof)\.? )?{_MAKE})", "{k}", "{P} {k} is {o}.", "owned", "one", importance=0.65),
    _rule(rf"{_IM}(?:dating|engaged to|married to) (?P<o>(?-i:[A-Z])[\w'-]{{1,20}})", "partner_name", "{S} is together with {o}.", "exact", "one", importance=0.8),
    _rule(rf"I {_ADV}drive an? {_RUN}", "drives", "{S} drives {a o}.", "phrase", "one"),
)  # fmt: skip

# What is said of the people around one, behind "my sister", "my sister Anna" or "she".
_TOLD_OF: Final[tuple[tuple[str, str, str, Shape, Cardinality, float], ...]] = (
    (rf"{_LATELY}moved (?:back |over )?to {_DOTTED}", "lives_in", "lives in {o}", "place", "one", 0.6),
    (rf"{_NOW}(?:lives|is living|resides) in {_DOTTED}", "lives_in", "lives in {o}", "place", "one", 0.6),
    (rf"{_NOW}(?:works|is working) (?:at|for) {_DOTTED}", "works_at", "works at {o}", "employer", "one", 0.6),
    (rf"{_LATELY}(?:started|got) (?:working|an? (?:new )?job) (?:at|for|with) {_DOTTED}", "works_at", "works at {o}", "employer", "one", 0.6),
    (rf"{_NOW}(?:is|works as) an? {_RUN}", "job", "is {a o}", "job", "one", 0.6),
    (rf"is allergic to {_RUNS}", "allergic_to", "is allergic to {o}", "list", "many", 0.9),
    (r"(?:(?:is|(?:just |recently )?turned) (?P<o>\d{1,3})(?: years? old)?(?=[,.;!]|$| and | now)|(?:just |recently )?turned (?P<o2>\d{1,3}) (?=yesterday|today|last|this|in|on|two|a\b))", "age", "is {o} years old", "age", "one", 0.6),
)  # fmt: skip
_NAMED: Final = rf"(?:,? (?-i:[{CAPITALS}])[\w'-]{{1,20}},?)?"
_KIN: Final = tuple(
    _rule(rf"(?:my|our(?! partner)) (?P<k>{KIN_ONE}|{KIN_MANY}){_NAMED} {verb}", f"{{k}}_{predicate}", f"{{P}} {{k}} {says}.", shape, count, importance=importance)
    for verb, predicate, says, shape, count, importance in _TOLD_OF
)  # fmt: skip
_PET: Final = (
    _rule(rf"(?:my|our) (?P<k>{PETS}){_NAMED} is allergic to {_RUNS}", "{k}_allergic_to", "{P} {k} is allergic to {o}.", "list", importance=0.9),
)  # fmt: skip
SHE_OR_HE: Final = re.compile(r"\b(?:she|he)\b", re.IGNORECASE)
OF_PRONOUN: Final = tuple(
    _rule(rf"(?:she|he) {verb}", f"{{k}}_{predicate}", f"{{P}} {{k}} {says}.", shape, count, importance=importance)
    for verb, predicate, says, shape, count, importance in _TOLD_OF
)  # fmt: skip
"""What is said of whoever "she" or "he" is; the kind is the reader's to give."""

_NEW = (
    r"joined|won|adopted|launched|published|enrolled in|signed up for|signed with|got accepted into|got accepted to|opened|bought|purchased|founded"
    r"|released|started|volunteered at|finished writing|got engaged to|married|was promoted to|got promoted to"
)
_LIFE: Final = (
    _rule(rf"(?:I|we|I've|we've) {_ADV}(?P<k>{_NEW}) {_DOTTED}", "{k}", "{S} {k} {o}.", "event", importance=0.55),
    *(
        _rule(rf"(?:I|we) {_ADV}(?P<k>{verb}) {_DOTTED}", "{k}", f"{{S}} {does} {{o}}.", "event", importance=0.55)
        for verb, does in (
            ("volunteer at", "volunteers at"),
            ("collect", "collects"),
            ("teach", "teaches"),
            ("coach", "coaches"),
        )
    ),
    _rule(
        rf"(?:I|we|I've|we've) {_ADV}got (?P<o>married|engaged|divorced)\b",
        "marital_status",
        "{S} got {o}.",
        "exact",
        "one",
        importance=0.75,
    ),
    _rule(rf"(?:I|we|I've|we've) {_ADV}got (?P<o>promoted)\b", "got", "{S} got {o}.", "exact", importance=0.75),
    _rule(
        rf"(?:I|we) (?:still )?(?:don't|do not) have (?:any )?(?P<o>(?:an? )?(?:pets|kids|children|siblings|brothers|sisters|{GOODS}|{PETS}|allergies)){_ALONE}(?! any ?more)",
        "has",
        "{S} does not have {o}.",
        "exact",
        "negated",
    ),
)

_LIKING: Final = (
    _rule(rf"my (?:all-time |absolute |personal )?favou?rite (?P<k>[a-z]+(?: [a-z]+)?)(?: is| are|'s(?! name\b)| has to be|:| of all time is) {_RUN}", "favourite_{k}", "{P} favourite {k} is {o}.", "phrase", "preference", "one", importance=0.7),
    _rule(rf"I {_ADV}(?:love|like|enjoy|adore) {_RUNS}", "likes", "{S} likes {o}.", "liking", "preference", importance=0.55),
    _rule(rf"{_IM}(?:(?:really |very |so |super )?(?:into|fond of|passionate about|obsessed with|keen on|interested in)|an? (?:[a-z]+ )?(?:fan|lover) of|crazy about) {_RUNS}", "likes", "{S} likes {o}.", "liking", "preference", importance=0.55),
    _rule(r"(?:I'm|I am) an? (?:big |huge |massive |lifelong |total |real |avid |die-hard )?(?!(?:big|huge|massive|lifelong|total|real|true|great|such) (?:fan|lover))(?P<o>[\w' -]{2,40}?) (?:fan|lover|enthusiast|nerd)(?! of)\b", "likes", "{S} is {a o} fan.", "liking", "preference"),
    _rule(rf"I {_ADV}(?:hate|dislike|detest|despise|loathe|can't stand|cannot stand) {_RUNS}", "likes", "{S} dislikes {o}.", "liking", "preference", "negated"),
    _rule(rf"(?:I (?:really |just )?(?:don't|do not|never) (?:really |particularly |even )?(?:like|enjoy|love|care for)|I'm not (?:really |much of )?(?:an? )?(?:big |huge )?(?:fan of|into|fond of|keen on)) {_RUNS}", "likes", "{S} does not like {o}.", "liking", "preference", "negated"),
    _rule(rf"(?:I|I've|we) {_ADV}prefer(?:red)? {_RUN}", "prefers", "{S} prefers {o}.", "clause", "preference", importance=0.65),
    _rule(rf"I {_ADV}(?:play) (?:the )?(?P<o>(?:electric |acoustic |bass )?(?:guitar|piano|violin|drums|bass|clarinet|saxophone|flute|cello|trumpet|ukulele|keyboard|chess|tennis|football|soccer|basketball|volleyball|golf|badminton|hockey|baseball|cricket|rugby|video games))\b", "plays", "{S} plays {o}.", "exact", "preference"),
)  # fmt: skip

_TOOL: Final = rf"(?:{'|'.join(sorted(TOOLS))})(?![\w-])"
_TURNS: Final = (
    _rule(rf"(?:I'm|I am) (?:no longer|not) (?P<o>{STATUSES})(?![\w-])(?: any ?more)?", "status", "{S} is no longer {o}.", "exact", "ended", importance=0.8),
    _rule(rf"(?:I'm|I am) (?:no longer|not(?! (?:married|engaged) (?:to|in|with)\b)) (?P<o>{MARITAL})(?![\w-])(?: any ?more)?", "marital_status", "{S} is no longer {o}.", "exact", "ended", "one", importance=0.8),
    _rule(rf"I (?:no longer|don't|do not) have (?P<o>{CONDITIONS})(?![\w-])(?: any ?more)?", "has_condition", "{S} does not have {o}.", "exact", "ended", importance=0.9),
    _rule(rf"(?:I'm|I am) (?:no longer|not) allergic to {_RUNS}", "allergic_to", "{S} is not allergic to {o}.", "list", "ended", importance=0.95),
    _rule(rf"(?:I|we|I've|we've) (?:have |just |recently |finally |already )*(?:switched|migrated|moved) (?:over )?from (?P<o>{_TOOL}) to [\w+#.-]", "uses", "{S} no longer uses {o}.", "phrase", "ended"),
    _rule(rf"(?:I|we|I've|we've) (?:have |just |recently |finally |already )*(?:switched|migrated) (?:over )?from {_TOOL} to (?P<o>(?-i:[a-z])[\w+#.-]*\w)(?! [a-z]{{3,}}ing\b)", "uses", "{S} uses {o}.", "phrase", "decision"),
    _rule(rf"(?:I|we|I've|we've) (?:have |just |recently |finally |already )*replaced (?:our |the )?(?P<o>{_TOOL}) with (?:{_TOOL}|(?-i:[A-Z]))", "uses", "{S} no longer uses {o}.", "phrase", "ended"),
    _rule(rf"(?:I|we|I've|we've) (?:have |just |recently |finally |already )*replaced (?:our |the )?{_TOOL} with (?P<o>{_TOOL}|(?-i:[A-Z])[\w+#-]*(?:[ .](?-i:[A-Z])[\w+#-]*){{0,2}})", "uses", "{S} uses {o}.", "phrase", "decision"),
    _rule(rf"(?:I|we|I've|we've) (?:have |just |recently |finally |already )*(?:dropped|ditched|abandoned|stopped using|got rid of|moved (?:away|off)(?: from)?) (?P<o>{_TOOL}(?! v?\d)|(?-i:[A-Z])[\w+#.-]*\w(?=[,.;!]? *(?:$|[,.;!]|in favou?r of\b|for (?-i:[A-Z])|after all\b|because\b|and\b|last\b|again\b)))", "uses", "{S} no longer uses {o}.", "phrase", "ended"),
    _rule(r"(?:I|we|I've|we've) (?:have |just |recently |finally )*(?:switched|migrated|moved(?= (?:over )?from (?:[\w+#.-]+ to )?(?:" + "|".join(sorted(TOOLS)) + r")\b)) (?:over )?from (?P<o>(?-i:[A-Z])[\w+#. -]{1,30}?) to (?-i:[A-Z])", "uses", "{S} no longer uses {o}.", "phrase", "ended"),
    _rule(r"(?:I|we|I've|we've) (?:have |just |recently |finally )*(?:switched|migrated) (?:over )?(?:from [\w+#. -]{1,32}? )?to (?P<o>(?-i:[A-Z])[\w+#-]*(?:[ .](?-i:[A-Z])[\w+#-]*){0,2})", "uses", "{S} uses {o}.", "phrase", "decision"),
    _rule(r"I (?:no longer|don't|do not) (?:live|reside) in (?P<o>[^,.;:!?()\n\"\ue000]{1,60}?)(?: any ?more|(?=[,.;!?]|$))", "lives_in", "{S} no longer lives in {o}.", "place", "ended", "one"),
    _rule(r"(?:I (?:no longer|don't|do not) work|I (?:stopped|quit) working) (?:at|for) (?P<o>[^,.;:!?()\n\"\ue000]{1,60}?)(?: any ?more|(?=[,.;!?]|$))", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one"),
    _rule(rf"(?:(?:I'm|I am) (?:no longer|not(?=[^.;!?\n]{{1,60}} any ?more\b(?! than\b))) an? |I (?:no longer|don't|do not) work as an? |I {_ADV}(?:quit|stopped|gave up) (?:being|work(?:ing)? as|my job as) an? )(?P<o>[^,.;:!?()\n\"\ue000]{{1,60}}?)(?= any ?more|[,.;!?]|$| (?:and|but|so|at|in|since|because|last)\b)", "job", "{S} is no longer {a o}.", "job", "ended", "one", importance=0.8),
    _rule(rf"(?:I'm|I am) no longer (?:living|based) in {_DOTTED}", "lives_in", "{S} no longer lives in {o}.", "place", "ended", "one"),
    _rule(rf"(?:I'm|I am) no longer (?:working|employed) (?:at|for|by) {_DOTTED}", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one"),
    _rule(rf"(?:I'm|I am|^) ?no longer at {_DOTTED}", "works_at", "{S} is no longer at {o}.", "employer", "ended", "one"),
    _rule(r"I (?:no longer|don't|do not) (?:like|enjoy|love) (?P<o>[^,.;:!?()\n\"\ue000]{1,60}?) any ?more", "likes", "{S} no longer likes {o}.", "liking", "preference", "ended"),
    _rule(r"I (?:no longer|don't|do not) (?:really |actually )?(?:hate|dislike|detest|despise|loathe|mind(?=[^,.;:!?\n]{1,60} any ?more)) (?P<o>[^,.;:!?()\n\"\ue000]{1,60}?)(?: any ?more|(?=[,.;!?]|$| (?:but|though|just|because)\b))", "likes", "{S} no longer dislikes {o}.", "liking", "preference"),
    _rule(rf"I no longer (?:like|enjoy|love) {_RUNS}", "likes", "{S} no longer likes {o}.", "liking", "preference", "ended"),
    _rule(rf"(?:I|we) no longer (?:have|own) {_RUN}", "has", "{S} no longer has {o}.", "phrase", "ended"),
    _rule(r"(?:I|we) (?:don't|do not) have (?P<o>[^,.;:!?()\n\"\ue000]{1,60}?) any ?more", "has", "{S} no longer has {o}.", "phrase", "ended"),
    _rule(rf"(?:I|we) no longer use {_RUN}", "uses", "{S} no longer uses {o}.", "phrase", "ended"),
    _rule(rf"I {_ADV}(?:quit|left|resigned from|got fired from|lost) my (?:[\w-]+ ){{0,3}}(?:job|position|role) (?:at|with) (?P<o>[A-Z][\w&' -]{{1,40}})", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one", importance=0.8),
    _rule(rf"I {_ADV}(?:resigned|retired|(?:was|got|have been|been) (?:fired|laid off|let go)) from {_DOTTED}", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one", importance=0.8),
    _rule(rf"I (?:no longer|don't|do not) speak {_RUN}", "speaks", "{S} does not speak {o}.", "language", "negated"),
    _rule(rf"I {_ADV}(?:stopped|quit|gave up|given up) (?:on |learning |studying )?{_RUN}", "learns", "{S} is no longer learning {o}.", "language", "ended"),
    _rule(r"(?:my|our|the) (?P<o>divorce) (?:is|was|has been|came|went) (?:now |finally |just |officially )*(?:final(?:i[sz]ed)?|through)(?=[,.;!]|$| (?:now|and|but|so|since|last|this|as of)\b| in (?-i:[A-Z]))", "marital_status", "{S} is divorced.", "exact", "one", importance=0.8),
    _rule(rf"I {_ADV}(?:quit|left|resigned from|got fired from|lost) my (?P<o>(?:[\w-]+ ){{0,3}}(?:job|position|role))", "job", "{S} left their {o}.", "exact", "ended", "one", importance=0.8),
    _rule(rf"I {_ADV}(?:quit|stopped|gave up|given up) (?P<o>(?:smoking|drinking(?: (?!and\b|because\b|but\b)[a-z]+)?|running|eating [a-z]+|playing [a-z ]{{2,20}}|coffee|alcohol|sugar|meat|gluten|dairy))\b", "does", "{S} has stopped {o}.", "exact", "ended"),
    _rule(rf"(?:{_IM}|I {_ADV}(?:started|began|went back to) )(?:back to )?(?P<o>smoking|vaping|running|jogging) again\b", "does", "{S} is {o} again.", "exact"),
    _rule(rf"(?:I|we|I've|we've) {_ADV}(?:sold|got rid of|gave away) (?P<o>(?:my|our) [^,.;:!?()\n\"\ue000]{{1,60}})", "has", "{S} no longer has {o}.", "phrase", "ended"),
    _rule(rf"(?:I|we|I've) {_ADV}(?:cancell?ed) (?:my|our) (?P<o>(?:[\w-]+ ){{0,3}}(?:subscription|membership|order))", "has", "{S} has cancelled {o}.", "phrase", "ended"),
    _rule(rf"my (?:all-time |absolute |personal )?favou?rite (?P<k>[a-z]+(?: [a-z]+)?) (?:is no longer|isn't|is not) {_RUN}", "favourite_{k}", "{P} favourite {k} is no longer {o}.", "phrase", "preference", "ended", "one"),
    _rule(rf"{_MY}(?P<k>{OWN_ONE}) (?:is no longer|isn't|is not) (?:an? )?(?P<o>(?-i:(?:Dr|Mrs?|Ms|Prof)\.? )?{_MAKE})", "{k}", "{P} {k} is no longer {o}.", "owned", "ended", "one"),
    _rule(rf"{_MY}(?P<k>{KIN_ONE}) (?:is no longer (?:called )?|is not called |isn't called )(?P<o>(?-i:[A-Z])[\w'-]{{1,20}})", "{k}_name", "{P} {k} is no longer called {o}.", "person", "ended", "one"),
    _rule(rf"I {_ADV}(?:quit|gave up|given up|stopped playing|no longer play) (?:the )?(?P<o>{INSTRUMENTS})\b", "plays", "{S} no longer plays {o}.", "exact", "ended"),
    *(
        _rule(rf"{_MY}(?P<k>{kin}),?(?: called| named)? {_PERSON},? {_DIED}", "{k}_name", "{P} {k} {o} has died.", "exact", "ended", *flags, importance=0.8)
        for kin, flags in ((KIN_ONE, ("one",)), (f"{KIN_MANY}|{PETS}", ()))
    ),
    *(
        _rule(parted, "{k}_name", "{S} and their {k} {o} have parted.", "exact", "ended", "one", importance=0.8)
        for parted in (
            rf"{_MY}(?P<k>{_LOVES}),? {_PERSON},? and I,? {_PARTED_NOW}",
            rf"I {_ADV}(?:broke|split) up with my (?P<k>{_LOVES}),? {_PERSON}",
        )
    ),
    _rule(rf"(?:I|we) {_ADV}(?:had to |decided to )?put (?:my|our) (?P<k>{PETS}),? {_PERSON},? {_PUT_DOWN}", "{k}_name", "{P} {k} {o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"(?:I|we) {_ADV}(?:had to |decided to )?put {_PERSON} {_PUT_DOWN}", DIED, "{o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"I {_ADV}(?:broke|split) up with my (?P<o>{_LOVES})(?![\w-]|,? (?-i:[{CAPITALS}]))", PARTED, "{S} and their {o} have parted.", "exact", "ended", "one", importance=0.8),
    _rule(rf"{_MY}(?P<o>{_LOVES}) and I,? {_PARTED_NOW}", PARTED, "{S} and their {o} have parted.", "exact", "ended", "one", importance=0.8),
    _rule(rf"{_MY}(?P<o>{KIN_ONE}|{PETS}) {_DIED}", DIED, "{P} {o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"(?:I|we) {_ADV}(?:had to |decided to )?put (?:my|our) (?P<o>{PETS}) {_PUT_DOWN}", DIED, "{P} {o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"{_PERSON} and I,? {_PARTED_NOW}", PARTED, "{S} is no longer together with {o}.", "exact", "ended", "one", importance=0.8),
    _rule(rf"{_PERSON} (?:has |just |finally )*(?:dumped me|left me(?! in\b)|broke (?:it off|up) with me|ended (?:it|things) with me){_THEN}", PARTED, "{S} is no longer together with {o}.", "exact", "ended", "one", importance=0.8),
    _rule(rf"(?:I|we) {_ADV}lost {_PERSON}(?=[,.;!]|$| (?:last|yesterday|this|today|to)\b)", DIED, "{o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"{_PERSON} {_DIED}", DIED, "{o} has died.", "exact", "ended", importance=0.8),
    _rule(rf"I {_ADV}(?:broke|split) up with (?:my ex,? )?{_PERSON}", "partner_name", "{S} is no longer together with {o}.", "exact", "ended", "one", importance=0.8),
    _rule(rf"(?:I|we|I've|we've) {_ADV}(?:decided|agreed|chosen|opted|resolved|settled) (?P<o>(?:to|on|against|for|not to) [^.;:!?()\n\"\ue000]{{3,110}})", "decided", "{S} decided {o}.", "clause", "decision", importance=0.65),
    _rule(rf"I {_ADV}use (?P<o>{_TOOL}|(?-i:[A-Z])[\w+#.-]*\w(?: (?-i:[A-Z])[\w+#-]*){{0,2}})(?! v?\d|(?:'s)? [a-z]+ing\b)", "uses", "{S} uses {o}.", "phrase"),
    _rule(rf"(?:I'm|I am|we're|we are) {_ADV}going with (?P<o>{_TOOL}|(?-i:[A-Z])[\w+#.-]*\w(?= (?:after all|instead)\b))", "chose", "{S} chose {o}.", "choice", "decision", importance=0.65),
    _rule(rf"(?:(?:I'm|I am|we're|we are) {_ADV}(?:sticking|staying)|(?:I|we|I'll|we'll|we will) {_ADV}(?:stick|stay)) with (?P<o>{_TOOL}|(?-i:[A-Z])[\w+#.-]*\w(?= (?:after all|instead)\b))", "chose", "{S} chose to stay with {o}.", "choice", "decision", importance=0.65),
    _rule(rf"(?:I'm|I am|we're|we are) (?:not|no longer) going with (?P<o>{_TOOL})", "chose", "{S} is not going with {o}.", "choice", "decision", "ended", importance=0.65),
    _rule(rf"(?:I|we|I've|we've) {_ADV}(?:chose|chosen|picked(?! up| out)|went with|going with|gone with|settled on) {_RUN}", "chose", "{S} chose {o}.", "choice", "decision", importance=0.65),
)  # fmt: skip

# "no vivo en", "ich mag Pilze nicht": what is only denied in these languages ends nothing and is no fact.
_DENIED: Final = r"(?<!\bno )(?<!\bno  )(?<!\bnunca )(?<!\btampoco )(?<!\bjamás )(?!(?:(?! mais pas (?!trop|beaucoup|tant|tellement|vraiment)| (?:et|und|y|e) (?:je|j'|ich|yo|no|nunca|on|nous|wir)\b)[^,.;:!?\n]){0,100}\b(?:nicht|nie|niemals|kaum|pas|jamais|nunca)\b)"
_MUCH: Final = (
    r"(?:(?:bien|beaucoup|vraiment|surtout|toujours|trop|aussi|mucho|muchísimo|bastante|también|realmente|sehr gerne?|sehr|gerne?"
    r"|auch|besonders|wirklich|ja|nur) (?!$))*"
)
# "Plus" alone is "more" as well: without a "ne" it ends where nothing else makes sense, "plus à Lyon qu'à Paris" does.
_PLUS: Final = r"plus(?![^.;:!?\n]{0,90} qu(?:e\b|['’]))"
_ENDED_ELSEWHERE: Final = (
    _rule(rf"(?:ich (?:wohne|lebe) (?:(?:jetzt|nun|inzwischen|mittlerweile) )?nicht mehr in|(?<=\bya no )vivo en|j(?:e n)?['’]habite {_PLUS} (?:à|a|en|au)|je (?:ne )?vis {_PLUS} (?:à|a|en|au)) {_DOTTED}", "lives_in", "{S} no longer lives in {o}.", "place", "ended", "one"),
    _rule(rf"(?:ich arbeite (?:(?:jetzt|nun|inzwischen|mittlerweile) )?nicht mehr (?:bei|für)|(?<=\bya no )trabajo (?:en|para)|je (?:ne )?travaille {_PLUS} chez|je ne travaille {_PLUS} pour) {_DOTTED}", "works_at", "{S} no longer works at {o}.", "employer", "ended", "one"),
    _rule(r"(?:(?<=\bya no )me gustan?|je n['’]aime plus) (?P<o>[^,.;:!?()\n\"\ue000]{2,60})", "likes", "{S} no longer likes {o}.", "things", "preference", "ended"),
    _rule(r"ich mag (?P<o>[^,.;:!?()\n\"\ue000]{2,60}?) nicht mehr(?=[,.;!?\n]|$)", "likes", "{S} no longer likes {o}.", "things", "preference", "ended"),
    _rule(rf"(?:ich bin nicht mehr allergisch gegen|(?<=\bya no )soy alérgic[oa](?= a)|je ne suis plus allergique(?= [àa])) {_RUNS}", "allergic_to", "{S} is no longer allergic to {o}.", "things", "ended", importance=0.95),
)  # fmt: skip
_CALLED: Final = r"(?:heißt|heisst|s['’]appelle|se llama) (?:jetzt |ahora |maintenant )?(?P<o>[^\W\d_][\w'-]{1,20})"
_ELSEWHERE: Final = (
    _rule(rf"(?:meine?|mon|ma|mi) (?P<k>{'|'.join(KIN_ELSEWHERE_ONE)}) {_CALLED}", "{k}_name", "{P} {k} is called {o}.", "person", "one", importance=0.8),
    _rule(rf"(?:meine?|mon|ma|mi) (?P<k>{'|'.join(KIN_ELSEWHERE_MANY)}) {_CALLED}", "{k}_name", "{P} {k} is called {o}.", "person", importance=0.75),
    _rule(rf"{_DENIED}(?:ich hei(?:ß|ss)e|mein Name ist|me llamo|mi nombre es|je m'appelle|mon nom est) (?:jetzt |nun |eigentlich |übrigens |ahora |también |maintenant |désormais |aussi )?{_RUN}", "name", "{P} name is {o}.", "name", "one", importance=0.9),
    _rule(rf"{_DENIED}(?:ich (?:wohne|lebe) (?:(?:jetzt|derzeit|nun|zurzeit|aktuell|wieder|immer noch|noch|übrigens|eigentlich|ja|nämlich) )*(?:seit [\w ]{{2,20}}? )?in|vivo en|j'habite (?:à|a|en|au)|je vis (?:à|a|en|au)) {_DOTTED}", "lives_in", "{S} lives in {o}.", "place", "one", importance=0.8),
    _rule(rf"{_DENIED}(?:ich arbeite (?:bei|für)|trabajo (?:en|para)|je travaille (?:chez|pour)) {_DOTTED}", "works_at", "{S} works at {o}.", "employer", "one", importance=0.8),
    _rule(rf"{_DENIED}(?:ich (?:mag|liebe)|me (?:gustan?|encantan?)|j'aime|j'adore)\b(?! ?(?:nicht|pas|dich|que\b|keine?n?\b|plus\b|quand\b|cuando\b|más\b|es\b|lieber\b|die Art\b)) ?{_MUCH}(?P<o>[^,.;:!?()\n\"\ue000]{{2,60}}?)(?= (?:pero|aber|mais|und ich|y (?:vivo|trabajo|soy|tengo|me)|et (?:je|j'))\b|[,.;:!?()\n\"\ue000]|$)", "likes", "{S} likes {o}.", "things", "preference"),
    _rule(rf"{_DENIED}ich bin allergisch gegen {_RUNS}", "allergic_to", "{S} is allergic to {o}.", "things", importance=0.95),
    _rule(rf"{_DENIED}soy alérgic[oa] (?=a){_RUNS}", "allergic_to", "{S} is allergic to {o}.", "things", importance=0.95),
    _rule(rf"{_DENIED}je suis allergique (?=à|au){_RUNS}", "allergic_to", "{S} is allergic to {o}.", "things", importance=0.95),
)  # fmt: skip

FIRST: Final = Table(
    TRIGGER,
    OPENS,
    UNREAL,
    (
        *_TURNS,
        *_WHO,
        *_AROUND,
        *_KIN,
        *_PET,
        *_LIFE,
        *_LIKING,
        *_ENDED_ELSEWHERE,
        *_ELSEWHERE,
    ),
)
"""What is looked for first; the other is in `policies/fact_patterns_tongues.py`."""
