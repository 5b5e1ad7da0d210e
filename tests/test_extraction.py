"""Facts by rules: what people say of themselves and of their work is found, what they did not say is not."""

# ruff: noqa: E501  one case a line
from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.facts import may_replace
from policies.brought import asked_in, is_output
from policies.extraction import facts_in, normalised
from policies.fact import Fact, aspect_of
from policies.fact_patterns_prose import CHARS_KEPT, CHARS_MAX
from policies.labels import Integrity
from policies.reconcile import Saying, contradict, settle, statement_of

WEDNESDAY = datetime(2024, 3, 20, 12, tzinfo=UTC)


def triples(text: str) -> list[tuple[str, str, str]]:
    return [(f.subject, f.predicate, f.object) for f in facts_in(text, said_at=WEDNESDAY)]


def only(text: str) -> Fact:
    (fact,) = facts_in(text, said_at=WEDNESDAY)
    return fact


def day(moment: datetime | None) -> str:
    return f"{moment:%Y-%m-%d}" if moment else ""


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My name is Anna and I live in Lisbon.", [("name", "anna"), ("lives_in", "lisbon")]),
        ("I'm Craig, a software engineer based in Port Michael.", [("name", "craig"), ("job", "software engineer"), ("lives_in", "port michael")]),
        ("I'm 34 years old.", [("age", "34")]),
        ("I am from Graz, Austria", [("comes_from", "graz, austria")]),
        ("I work as a data scientist at Spotify.", [("job", "data scientist"), ("works_at", "spotify")]),
        ("I'm a nurse at St. Mary's and live in Oslo.", [("job", "nurse"), ("works_at", "st. mary's")]),
        ("I'm a student at MIT.", [("job", "student"), ("school", "mit")]),
        ("I'm a teacher at heart and a bartender at night.", [("job", "teacher")]),
        ("I work for a small bank.", [("works_at", "small bank")]),
        ("My dog Rex is lovely.", [("dog_name", "rex")]),
        ("Max is my son and Rex is my dog.", [("son_name", "max"), ("dog_name", "rex")]),
        ("My son's called Max.", [("son_name", "max")]),
        ("We have a son, Tyler.", [("son_name", "tyler")]),
        ("We have a dog, Rex, and a cat.", [("dog_name", "rex")]),
        ("I have a dog, Monday is his day.", [("has", "dog")]),
        ("My son turned 6 yesterday, my daughter is 3.", [("son_age", "6"), ("daughter_age", "3")]),
        ("I came with my partner James.", [("partner_name", "james")]),
        ("I'm allergic to peanuts and shellfish.", [("allergic_to", "peanuts"), ("allergic_to", "shellfish")]),
        ("I'm vegetarian.", [("status", "vegetarian")]),
        ("I am Muslim.", [("status", "muslim")]),
        ("I went to Harvard.", [("school", "harvard")]),
        ("My brother Herman is here. My dog Rex's bowl is empty.", [("brother_name", "herman"), ("dog_name", "rex")]),
        ("I moved from Rome to Berlin.", [("lives_in", "berlin")]),
        ("I speak English, French and some German.", [("speaks", "english"), ("speaks", "french"), ("speaks", "german")]),
        ("I like tea, coffee and rum.", [("likes", "tea"), ("likes", "coffee"), ("likes", "rum")]),
        ("I love action and sci-fi movies, the effects are cool!", [("likes", "sci-fi movies")]),
        ("My favorite food is sushi, and my favorite band is Radiohead.", [("favourite_food", "sushi"), ("favourite_band", "radiohead")]),
        ("Harry Potter is my favourite book.", [("favourite_book", "harry potter")]),
        ("I prefer dark mode over light mode", [("prefers", "dark mode over light mode")]),
        ("I chose Postgres over MySQL.", [("chose", "postgres over mysql")]),
        ("We decided to ship on Friday.", [("decided", "to ship on friday")]),
        ("Ich heiße Jonas und ich wohne in Köln.", [("name", "jonas"), ("lives_in", "köln")]),
        ("Mein Mann heißt Uwe, meine Tochter heißt Mia.", [("husband_name", "uwe"), ("daughter_name", "mia")]),
        ("Ma femme s'appelle Inès.", [("wife_name", "inès")]),
        ("Mi perro se llama Coco y mi marido se llama Raúl.", [("dog_name", "coco"), ("husband_name", "raúl")]),
        ("and uh my name is dana i work nights", [("name", "dana")]),
        ("Me llamo Lucía, vivo en Madrid.", [("name", "lucía"), ("lives_in", "madrid")]),
        ("Soy alérgico a las nueces.", [("allergic_to", "nueces")]),
        ("Me gusta Madrid pero vivo en Sevilla.", [("likes", "madrid"), ("lives_in", "sevilla")]),
        ("J'habite à Lyon et j'aime le fromage.", [("lives_in", "lyon"), ("likes", "fromage")]),
    ],
)  # fmt: skip
def test_what_people_say_of_themselves_is_found(text: str, expected: list[tuple[str, str]]) -> None:
    assert triples(text) == [("user", *pair) for pair in expected]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("The deadline for the first sprint is now April 5", ("sprint", "deadline", "april 5")),
        ("update my timeline to the new sprint deadline of April 5, 2024, please", ("sprint", "deadline", "april 5, 2024")),
        ("I've added 2 more so there are 10 project cards", ("card", "count", "10")),
        ("my accuracy is up to 95 %", ("user", "accuracy", "95 %")),
        ("my meeting moved to Tuesday 3 pm", ("meeting", "time", "tuesday 3 pm")),
        ("I have completed 15 of 20", ("user", "count_completed", "15 of 20")),
        ("I allocated $5,000 for software licenses", ("license", "budget", "$5,000")),
        ("I need to submit my thesis by June 30", ("thesis", "deadline", "june 30")),
        ("Our conversion rate dropped from 3% to 2.3%", ("user", "conversion_rate", "2.3%")),
        ("We now have 12 users", ("users", "count", "12")),
        ("I upgraded to Node 20.1 yesterday", ("node", "version", "20.1")),
        ("the staging DB runs on db7:5433", ("staging db", "runs_on", "db7:5433")),
        ("our nginx runs on port 8443 on edge-3", ("nginx", "listens_on", "8443")),
        ("redis is back on port 6379", ("redis", "listens_on", "6379")),
        ("the cache uses port 11211", ("cache", "listens_on", "11211")),
        ("the api runs on 8080 now", ("api", "listens_on", "8080")),
        ("our postgres runs on db9.internal", ("postgres", "runs_on", "db9.internal")),
        ("service billing depends on auth-service", ("service billing", "depends_on", "auth-service")),
        ("the config lives in /etc/app/config.yaml", ("config", "located_at", "/etc/app/config.yaml")),
        ("We use tabs, not spaces.", ("team", "uses", "tabs")),
        ("We always squash commits before merging.", ("team", "convention_squash", "commits before merging")),
    ],
)  # fmt: skip
def test_values_conventions_and_topology_get_the_key_of_their_thing(text: str, expected: tuple[str, str, str]) -> None:
    assert triples(text) == [expected]


@pytest.mark.parametrize(
    "text",
    [
        "hi", "Thanks so much! 😊", "👍", "", "What is the capital of France?", "How do I live in Paris? Do I like tea?",
        "Can you write me a poem about how I love Paris?", "If I live in Paris I like tea", "I'd love coffee.",
        "I would like a table. I want to live in Rome.", "I think I like tea maybe",
        "Rewrite this: I am a nurse and I live in Ohio.", "Translate to French: I live in Boston",
        "Act as a doctor. My name is Bob and I live in Rome.", "Write a story where I am a doctor and I live in Rome.",
        "It's not true that I'm vegan.", "My girlfriend thinks that I like jazz.", "I dreamt that I live in Berlin.",
        "No vivo en Madrid.", "No me gusta el café.", "No me llamo Juan.",
        "Ich wohne in Berlin nicht mehr.", "Ich mag Pilze nicht.", "Ich heiße nicht Jonas.", "J'aimerais vivre à Lyon.",
        "Mein Bruder sagt, ich wohne in Berlin.", "Si j'habite à Lyon, j'aime le fromage.",
        "Forget that I live in Berlin.", "Please don't remember that I live in Berlin.",
        "I'm allergic to [redacted:phone].", "We use [redacted:generic-key] as the key.", "I love [kept:email:abcdefgh].",
        "I decided to use [redacted:password] as my password.", "The server runs on [redacted:ip].",
        "My wife is Italian.", "My brother is German.", "My sister is Anna's friend.", "I went to Rome last year.",
        "My ex wife is called Anna.", "My former boss is Tom.", "My old phone is a Nokia.",
        "2024-01-01 12:00:00 INFO my name is Bob", "| my name is Bob | I live in Rome |",
        "aGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQgaGVsbG8gd29ybGQ=",
        "```\nmy name is Bob\n```", "> I live in Rome", "User: I live in Rome", "My boss told me I live in Rome",
        'She said "I live in Rome and I hate the new budget of $5,000".', "def f(): my_budget = 5",
        "I like it. I love this! I like how you did that. I like your answer.", "I'm so happy. I'm really into it!",
        "There are six rounds of 3 minutes.", "The wedding hall has 32 parking spots.", "Dear Sir,\nI live in Rome.\n",
    ],
)  # fmt: skip
def test_what_is_no_statement_of_the_speaker_gives_nothing(text: str) -> None:
    assert triples(text) == []


def test_not_to_be_forgotten_is_stated() -> None:
    assert triples("Don't forget that I live in Berlin.") == [("user", "lives_in", "berlin")]
    assert triples("It's true that I live in Berlin.") == [("user", "lives_in", "berlin")]


def test_a_question_gives_what_it_states_beside_asking() -> None:
    assert triples("I live in Oslo, can you help me find a school?") == [("user", "lives_in", "oslo")]
    in_passing = only("What's the best way to spend the increased budget of $6,200 for software licenses?")
    assert (in_passing.subject, in_passing.predicate, in_passing.object) == ("license", "budget", "$6,200")
    assert in_passing.confidence < only("I set a budget of $6,200 for software licenses.").confidence


def test_statements_can_be_read_alone() -> None:
    assert only("I live in Lisbon").statement == "The user lives in Lisbon."
    assert only("my new deadline for the first sprint is April 5, 2024").statement == (
        "The user's deadline for the first sprint is April 5, 2024."
    )
    (fact,) = facts_in("I'm a counsellor.", said_at=WEDNESDAY, speaker="Caroline")
    assert (fact.subject, fact.statement) == ("caroline", "Caroline is a counsellor.")
    assert only("I like reading with my kids").statement == "The user likes reading with their kids."


@pytest.mark.parametrize(
    ("text", "predicate", "what"),
    [
        ("I no longer live in Berlin.", "lives_in", "berlin"),
        ("I quit my job at Acme.", "works_at", "acme"),
        ("I sold my car.", "has", "car"),
        ("I broke up with Tom.", "partner_name", "tom"),
        ("I'm not vegetarian anymore", "status", "vegetarian"),
        ("I'm not allergic to peanuts any more.", "allergic_to", "peanuts"),
        ("I no longer have asthma.", "has_condition", "asthma"),
        ("I'm no longer married.", "marital_status", "married"),
        ("I stopped drinking coffee", "does", "drinking coffee"),
        ("I'm no longer living in Berlin.", "lives_in", "berlin"),
        ("I am no longer employed by Acme.", "works_at", "acme"),
        ("I'm no longer at Acme.", "works_at", "acme"),
        ("No longer at Acme.", "works_at", "acme"),
        ("My dog Rex died last year.", "dog_name", "rex"),
        ("My grandmother Rosa passed away in May.", "grandmother_name", "rosa"),
        ("My girlfriend Hannah and I split up last week.", "girlfriend_name", "hannah"),
        ("I broke up with my boyfriend Tom.", "boyfriend_name", "tom"),
        ("My husband Dan and I have separated.", "husband_name", "dan"),
        ("I split up with Tom.", "partner_name", "tom"),
        ("Tom and I split up last week.", "parted_from", "tom"),
        ("My boyfriend and I split up.", "parted_from", "boyfriend"),
        ("Ella dumped me on Sunday.", "parted_from", "ella"),
        ("Ella and I split up in the summer.", "parted_from", "ella"),
        ("Timo hat gestern mit mir Schluss gemacht.", "parted_from", "timo"),
        ("Inés me ha dejado.", "parted_from", "inés"),
        ("Zoé m'a quittée.", "parted_from", "zoé"),
        ("We lost Storm last night.", "died", "storm"),
        ("I broke up with my girlfriend.", "parted_from", "girlfriend"),
        ("My wife and I are getting divorced.", "parted_from", "wife"),
        ("My dog died yesterday.", "died", "dog"),
        ("We had to put our cat down.", "died", "cat"),
        ("I resigned from Monzo last week.", "works_at", "monzo"),
        ("I got laid off from Meta.", "works_at", "meta"),
        ("I gave up on Dutch, I never use it.", "learns", "dutch"),
        ("I stopped learning Japanese.", "learns", "japanese"),
        ("Greg and I are getting divorced.", "parted_from", "greg"),
        ("Sadly, Biscuit has passed away.", "died", "biscuit"),
        ("We had to put Biscuit down last week.", "died", "biscuit"),
        ("We had to put our cat Miso to sleep.", "cat_name", "miso"),
        ("Jonas und ich haben uns letzte Woche getrennt.", "parted_from", "jonas"),
        ("Ich habe mich von Jonas getrennt.", "parted_from", "jonas"),
        ("Rex ist gestern gestorben.", "died", "rex"),
        ("Andrés y yo lo hemos dejado.", "parted_from", "andrés"),
        ("He roto con Andrés.", "parted_from", "andrés"),
        ("Toby ha muerto.", "died", "toby"),
        ("Luc et moi, on s'est séparés.", "parted_from", "luc"),
        ("J'ai rompu avec Luc.", "parted_from", "luc"),
        ("I'm no longer a nurse.", "job", "nurse"),
        ("I'm not a nurse any more, thankfully.", "job", "nurse"),
        ("I quit my job as a nurse last month.", "job", "nurse"),
        ("I stopped working as a night shift nurse at St. Mary's.", "job", "night shift nurse"),
        ("I no longer work as a nurse.", "job", "nurse"),
        ("Ich bin kein Lehrer mehr.", "job", "lehrer"),
        ("Ich arbeite nicht mehr als Lehrer.", "job", "lehrer"),
        ("Je ne suis plus infirmière.", "job", "infirmière"),
        ("Ya no soy profesora.", "job", "profesora"),
        ("Ya no trabajo como enfermera.", "job", "enfermera"),
        ("Não sou mais professora.", "job", "professora"),
        ("Non sono più un insegnante.", "job", "insegnante"),
        ("Ik ben geen leraar meer.", "job", "leraar"),
        ("Ya no vivo en Madrid.", "lives_in", "madrid"),
        ("Hola, ya no trabajo para Google.", "works_at", "google"),
        ("Ya no me gusta el café.", "likes", "café"),
        ("Ya no soy alérgica a las nueces.", "allergic_to", "nueces"),
        ("J'habite plus à Lyon.", "lives_in", "lyon"),
        ("Je n’habite plus à Lyon, mais à Paris.", "lives_in", "lyon"),
        ("Je ne travaille plus pour Acme.", "works_at", "acme"),
        ("Je n'aime plus le fromage.", "likes", "fromage"),
        ("Je ne suis plus allergique aux noix.", "allergic_to", "noix"),
        ("Ich wohne nicht mehr in Berlin, sondern in Köln.", "lives_in", "berlin"),
        ("Ich arbeite nicht mehr bei Siemens.", "works_at", "siemens"),
        ("Ich mag Pilze nicht mehr.", "likes", "pilze"),
        ("Ich bin nicht mehr allergisch gegen Nüsse.", "allergic_to", "nüsse"),
        ("Ich bin doch kein Vegetarier mehr.", "status", "vegetarier"),
        ("Ich bin nicht mehr verheiratet.", "marital_status", "verheiratet"),
        ("Je ne suis plus végétarienne, je mange du poisson.", "status", "végétarienne"),
        ("Je ne suis plus mariée.", "marital_status", "mariée"),
        ("Ya no soy vegana.", "status", "vegana"),
        ("Ya no estoy casada.", "marital_status", "casada"),
        ("Não sou mais vegetariano.", "status", "vegetariano"),
        ("Non sono più vegana.", "status", "vegana"),
        ("Ik ben geen vegetariër meer.", "status", "vegetariër"),
        ("Ik ben niet meer getrouwd.", "marital_status", "getrouwd"),
        ("我从字节跳动离职了。", "works_at", "字节跳动"),
        ("我不在字节跳动工作了。", "works_at", "字节跳动"),
        ("もうソニーで働いていません。", "works_at", "ソニー"),
        ("ソニーを退職しました。", "works_at", "ソニー"),
    ],
)
def test_an_ending_names_what_ends(text: str, predicate: str, what: str) -> None:
    fact = only(text)
    assert (fact.predicate, fact.object, fact.negated, fact.qualifiers) == (predicate, what, True, {"ended": "yes"})


@pytest.mark.parametrize(
    "rest", ["split the bill", "are moving in together", "passed our exams", "separated the laundry", "split chores"]
)
def test_with_whom_one_does_something_one_has_not_parted(rest: str) -> None:
    assert triples(f"My girlfriend Hannah and I {rest}.") == [("user", "girlfriend_name", "hannah")]
    assert not only(f"My girlfriend Hannah and I {rest}.").negated


@pytest.mark.parametrize("rest", ["died laughing", "is dead tired", "is dead serious about it"])
def test_who_is_dead_tired_lives(rest: str) -> None:
    assert not only(f"My sister Ann {rest}.").negated


@pytest.mark.parametrize(
    "text",
    [
        "My sister moved on, no longer at Acme.",
        "Bob: no longer at Acme",
        "I'm no longer at the office.",
        "I'm not a nurse.",
        "If my dog Rex died, I would cry.",
        "If Greg and I got divorced, who keeps the house?",
        "I put Bob down as a reference.",
        "Bob left me in charge.",
        "Bob left me a note.",
        "Inés me dejó un libro.",
        "We lost Rex at the park.",
        "Hannes and I split the bill.",
        "Hannes and I split up in the museum.",
        "Bob and I are no longer together in the same team.",
        "Hannes and I are getting married.",
        "Jonas und ich haben uns getroffen.",
        "Wenn Jonas und ich uns getrennt haben, was dann?",
        "Is Max my son?",
        "Max is my son's friend.",
        "Today is my son's birthday.",
        "Python is my best friend.",
        "I'm no longer a fan of tea.",
        "I'm not a doctor any more than you are.",
        "I broke up with my phone.",
        "I split up with the group at noon.",
        "In the show, Dan is my brother.",
        "If I'm no longer a nurse, I may leave.",
        "Je suis plus infirmière que médecin.",
        "Je suis plus végétarienne que lui.",
        "Ich bin kein Vegetarier.",
        "Non sono vegana.",
        "我不在公司工作了。",
        "我不在家工作。",
        "タバコを辞めました。",
        "Ich bin kein Lehrer.",
        "No soy profesora.",
        "Ik ben geen leraar.",
        "J'habite plus à Lyon qu'à Paris.",
        "Je travaille plus pour Acme que pour Globex.",
        "Je travaille plus pour Acme.",
        "Creo que ya no vivo en Madrid.",
        "Mi hermano dice que ya no vivo en Madrid.",
        "¿Ya no vivo en Madrid?",
        "Ich wohne nicht mehr in der Innenstadt.",
        "Wenn ich nicht mehr in Berlin wohne, rufe ich an.",
    ],
)
def test_an_end_that_is_not_stated_of_the_speaker_ends_nothing(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I remember living in Berlin.",
        "I prefer living in Berlin.",
        "I have a brother living in Berlin.",
        "I know a developer based in Berlin.",
        "I'm never living in Berlin again.",
        "I'm not a lawyer living in Rome.",
        "I'm looking for a designer based in Paris.",
        "I'm dating a teacher living in Rome.",
        "I'm married to an engineer living in Ohio.",
        "I run a server, based in Frankfurt.",
        "I hate winter and living in Oslo is hard.",
        "I'm tired of winter and living in Oslo is hard.",
    ],
)
def test_where_others_live_or_what_living_there_is_like_is_not_where_the_speaker_lives(text: str) -> None:
    assert "lives_in" not in {fact.predicate for fact in facts_in(text, said_at=WEDNESDAY)}


@pytest.mark.parametrize(
    "text",
    [
        "I'm a baker living in Rome.",
        "I'm a nurse at MIT, living in Rome.",
        "I work as a baker living in Rome.",
        "I'm 30 and living in Rome.",
        "I'm Anna, a nurse based in Rome.",
        "I am a software engineer currently based in Rome.",
    ],
)
def test_who_says_what_they_are_may_say_where_they_live(text: str) -> None:
    assert ("user", "lives_in", "rome") in triples(text)


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("I'm not married.", "The user is not married."),
        ("I don't live in Berlin.", "The user does not live in Berlin."),
        ("I don't work at Acme.", "The user does not work at Acme."),
        ("I'm not vegetarian any more.", "The user is no longer vegetarian."),
        ("I no longer live in Berlin.", "The user no longer lives in Berlin."),
    ],
)
def test_what_is_only_denied_is_not_said_to_be_over(text: str, statement: str) -> None:
    assert only(text).statement == statement


@pytest.mark.parametrize("what", ["my laptop", "the sea", "my job", "this project", "my phone these days"])
def test_nobody_is_married_to_a_thing(what: str) -> None:
    assert triples(f"I'm basically married to {what}.") == []


@pytest.mark.parametrize("whom", ["my best friend", "a nurse", "my high school sweetheart", "the love of my life"])
def test_who_is_married_to_somebody_is_married(whom: str) -> None:
    assert triples(f"I'm married to {whom}.") == [("user", "marital_status", "married")]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I teach a class.", "The user teaches a class."),
        ("I coach a team.", "The user coaches a team."),
        ("I volunteer at a shelter.", "The user volunteers at a shelter."),
    ],
)
def test_what_one_does_is_told_in_the_third_person(text: str, says: str) -> None:
    assert only(text).statement == says


def test_one_is_married_or_divorced_and_not_both() -> None:
    married, divorced = only("I'm married."), only("I got divorced.")
    assert may_replace(divorced, married) and may_replace(only("I'm single."), divorced)


def test_a_dislike_has_the_key_of_the_liking_and_is_negated() -> None:
    liked, disliked = only("I like mushrooms"), only("I don't like mushrooms")
    assert (liked.subject, liked.predicate, liked.object) == (disliked.subject, disliked.predicate, disliked.object)
    assert disliked.negated and not liked.negated and "ended" not in disliked.qualifiers


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("I don't hate olives any more.", "no longer dislikes"),
        ("I no longer dislike olives.", "no longer dislikes"),
        ("I don't mind olives anymore.", "no longer dislikes"),
        ("I don't dislike olives, I just never buy them.", "does not dislike"),
    ],
)
def test_a_dislike_that_is_denied_has_the_key_of_the_liking_and_ends_the_dislike(text: str, says: str) -> None:
    disliked, denied = only("I hate olives"), only(text)
    assert denied.statement == f"The user {says} olives."
    assert contradict(statement_of(denied), statement_of(disliked))
    assert triples("I don't mind olives. I don't mind. I don't hate it. I don't hate you.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Oh great, I love Mondays.", "yeah right, I'm a huge fan of YAML.", "I love taxes, said no one ever.", "I love Mondays /s",
        "I love Mondays 🙄", "I love Mondays. Not.", "I love mondays... not", "I just love meetings (sarcasm)",
    ],
)  # fmt: skip
def test_a_liking_that_means_the_contrary_is_none(text: str) -> None:
    assert triples(text) == []
    assert triples(f"{text}\nI like tea.") == [("user", "likes", "tea")]


@pytest.mark.parametrize("before", ["Oh, ", "Yeah, ", "Sure, ", "Well, ", "Yes, "])
def test_a_liking_that_is_only_assented_with_is_one(before: str) -> None:
    assert triples(f"{before}I love sushi.") == [("user", "likes", "sushi")]


@pytest.mark.parametrize(
    "text",
    [
        "I work at Google. Well, at a subsidiary of Google.", "I live in Berlin, well, close to Berlin.",
        "Je travaille chez Airbus. Enfin, chez un sous-traitant d'Airbus.", "Ich wohne in Köln, naja, in der Nähe von Köln.",
        "Vivo en Madrid, bueno, cerca de Madrid.", "Moro em Recife. Quer dizer, perto de Recife.",
    ],
)  # fmt: skip
def test_what_is_only_near_what_was_said_first_is_another(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "rest", [" Well, I love it.", " I mean, the rents are awful.", " Also, in a way, I miss Rome."]
)
def test_what_goes_on_with_another_thing_takes_nothing_back(rest: str) -> None:
    assert triples(f"I live in Berlin.{rest}")[0] == ("user", "lives_in", "berlin")


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("My meeting with Sara is tomorrow at 3pm.", "2024-03-22"), ("My flight is on Friday.", "2024-03-23"),
        ("My exam is next Monday.", "2024-03-26"), ("Our launch is next week.", "2024-04-01"),
        ("The deadline for the report is this weekend.", "2024-03-25"), ("My flight is tonight at 7pm.", "2024-03-21"),
        ("My flight is on May 12.", ""), ("My flight is on Friday, May 10.", ""), ("My standup is at 9:30 am.", ""),
        ("I'm vegan this month.", "2024-04-01"), ("This week, I'm based in Rome.", "2024-03-25"), ("This week I'm based in Rome.", "2024-03-25"), ("I'm living in Lisbon this week.", "2024-03-25"),
        ("My budget is $500 this month.", "2024-04-01"), ("My budget for this month is $500.", "2024-04-01"),
        ("I've read 12 books this year.", "2025-01-01"), ("My rent went up to $900 this month.", ""),
        ("I moved to Lisbon this week.", ""), ("I got married this year.", ""), ("I'm vegan since this year.", ""),
    ],
)  # fmt: skip
def test_what_is_told_by_its_distance_from_today_ends_with_its_day_or_period(text: str, until: str) -> None:
    assert day(only(text).valid_to) == until


@pytest.mark.parametrize(
    "text",
    [
        "Is my flight on Friday?",
        "So is my exam on June 3?",
        "Isn't my exam on Monday?",
        "Do I have a meeting on Friday?",
        "Do we still have a demo on Friday at 10am?",
        "Has my meeting moved to Tuesday?",
        "Did my meeting move to Tuesday?",
        "Are the tests of my project due by June 3?",
        "Are my calls on Friday now?",
        "Thanks! Is my flight on Friday, by the way?",
    ],
)
def test_whether_a_value_is_the_one_is_asked_and_not_stated(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "What should I pack for my flight on Friday?",
        "Is my flight on Friday likely to be late?",
        "Do you think my flight on Friday will be late?",
        "Is rain a problem for my flight on Friday?",
    ],
)
def test_a_question_about_something_else_has_the_value(text: str) -> None:
    assert triples(text) == [("flight", "time", "friday")]


@pytest.mark.parametrize(
    ("text", "key", "value"),
    [
        ("Launch is scheduled for May 12.", ("user", "launch_date"), "2024-05-12"),
        ("Bad news, launch moved to June 2.", ("user", "launch_date"), "2024-06-02"),
        ("exam got pushed to the 28th because of snow", ("exam", "time"), "2024-03-28"),
        ("Meeting with Ines is on Monday at 10am.", ("meeting", "time"), "2024-03-25T10:00"),
        ("Deadline is June 30.", ("user", "deadline"), "2024-06-30"),
        ("So deadline moved to July 1!", ("user", "deadline"), "2024-07-01"),
        ("Interview is tomorrow at 10am", ("interview", "time"), "2024-03-21T10:00"),
    ],
)
def test_what_is_to_come_needs_no_article(text: str, key: tuple[str, str], value: str) -> None:
    fact = only(text)
    assert ((fact.subject, fact.predicate), fact.qualifiers["value"]) == (key, value)


@pytest.mark.parametrize(
    "text",
    ["Call Linda on May 5.", "Test it on Monday.", "Review the document by Friday.", "Weight is 70 kg.", "Launch it on May 5.", "If launch is on May 5, we are late.", "Is launch on May 5?"],
)  # fmt: skip
def test_an_order_an_exercise_and_what_is_supposed_are_nothing_to_come(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "value", "until"),
    [
        ("My exam is on the 21st.", "2024-03-21", "2024-03-22"),
        ("My appointment is on the 3rd at 10am.", "2024-04-03T10:00", "2024-04-04"),
        ("My interview is on the 31st.", "2024-03-31", "2024-04-01"),
        ("My exam moved from the 21st to the 25th.", "2024-03-25", "2024-03-26"),
    ],
)
def test_a_day_without_its_month_is_the_next_of_its_number_and_ends_with_it(text: str, value: str, until: str) -> None:
    fact = only(text)
    assert (fact.qualifiers["value"], day(fact.valid_to)) == (value, until)


@pytest.mark.parametrize("place", ["on the 2nd floor", "on the 21st century", "to the 10th power"])
def test_what_is_a_number_in_a_row_is_no_day(place: str) -> None:
    assert triples(f"My meeting is {place}.") == []


@pytest.mark.parametrize(
    ("text", "words", "value"),
    [
        ("My yoga class is on Thursday evenings.", "thursday evenings", "weekly 4"),
        ("Our standup is on Thursdays at 10am.", "thursdays at 10am", "weekly 4T10:00"),
        ("My therapy session is every Friday at 3pm.", "every friday at 3pm", "weekly 5T15:00"),
        ("I have a call with Bob every Monday.", "every monday", "weekly 1"),
        ("My gym class is Monday mornings.", "monday mornings", "weekly 1"),
        ("We have a team meeting each Wednesday.", "each wednesday", "weekly 3"),
    ],
)
def test_what_is_each_week_does_not_end_with_its_next_day(text: str, words: str, value: str) -> None:
    fact = only(text)
    assert (fact.predicate, fact.object, fact.qualifiers["value"]) == ("time", words, value)
    assert fact.valid_to is None
    assert " on each " not in fact.statement
    assert " on every " not in fact.statement


def test_what_moved_to_another_day_of_the_week_is_there_and_one_day_ends_no_weekly_one() -> None:
    weekly, moved = only("Our standup is on Thursdays."), only("Our standup moved to Tuesdays.")
    assert may_replace(moved, weekly)
    assert not may_replace(only("Our standup moved to Friday."), weekly)


def test_a_friday_of_another_week_is_another_time() -> None:
    said = [WEDNESDAY, WEDNESDAY + timedelta(days=28)]
    flights = [fact for at in said for fact in facts_in("My flight is on Friday.", said_at=at)]
    sayings = [
        Saying(statement_of(f), at, Integrity.USER, valid_to=f.valid_to) for f, at in zip(flights, said, strict=True)
    ]
    (standing,) = settle(sayings).values()
    assert (standing.since.said_at, day(standing.until)) == (said[1], "2024-04-20")


@pytest.mark.parametrize(
    ("first", "then", "holds"),
    [
        ("We decided to go with Postgres.", "No, we stay with MySQL after all.", {"mysql"}),
        ("Yesterday we decided to use Kafka for the events.", "We're sticking with RabbitMQ.", {"rabbitmq"}),
        ("We chose Postgres.", "We decided against Postgres.", set()),
        ("We're going with React.", "We're not going with React after all.", set()),
        ("We decided to use Postgres for orders.", "We decided to use SQLite for the cache.", {"postgres", "sqlite"}),
        ("We chose Postgres.", "We chose Kafka.", {"postgres", "kafka"}),
    ],
)
def test_a_decision_is_superseded_by_its_reversal(first: str, then: str, holds: set[str]) -> None:
    keys: dict[str, list[Saying]] = {}
    for number, text in enumerate((first, then)):
        fact = only(text)
        of = aspect_of(fact)
        saying = Saying(statement_of(fact), WEDNESDAY, Integrity.USER, number, correction=fact.correction, aspect=of)
        keys.setdefault(fact.predicate, []).append(saying)
    standing = [one for said in keys.values() for one in settle(said).items()]
    assert {one.object for one, how in standing if how.state == "current" and not one.negated} == holds


@pytest.mark.parametrize("text", ["We stay with my parents.", "I'm staying with Anna.", "I stick with it."])
def test_with_whom_one_stays_is_no_decision(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Turns out I'm not allergic to cats after all.", ("allergic_to", "cats")),
        ("En fait je n'aime plus la bière depuis mon voyage.", ("likes", "bière")),
        ("Mês passado me mudei para Florianópolis.", ("lives_in", "florianópolis")),
        ("El mes pasado me mudé a Lima.", ("lives_in", "lima")),
        ("Yesterday I adopted a dog.", ("has", "dog")),
        ("Je suis allergique au pollen et je ne dors pas bien.", ("allergic_to", "pollen")),
        ("Soy alérgica al polen y nunca duermo bien.", ("allergic_to", "polen")),
        ("J'habite à Lyon et je n'aime pas Paris.", ("lives_in", "lyon")),
    ],
)
def test_when_it_was_and_what_is_denied_beside_leave_a_statement_one(text: str, expected: tuple[str, str]) -> None:
    assert triples(text) == [("user", *expected)]


@pytest.mark.parametrize(
    "text", ["Je n'habite pas à Lyon.", "Ich mag Pilze und Käse nicht.", "J'aime le café et le thé pas trop."]
)
def test_a_denial_of_the_same_clause_leaves_none(text: str) -> None:
    assert triples(text) == []


def test_corrections_are_marked_and_say_what_they_replace() -> None:
    assert only("Actually, my budget is $6,000.").correction
    assert not only("My budget is $6,000.").correction
    fact = only("No, it's Porto, not Lisbon.")
    assert (fact.predicate, fact.object, fact.correction) == ("corrected_to", "porto", True)
    assert fact.qualifiers == {"instead_of": "lisbon"}
    assert triples("It's not just in my sport, but in other aspects too.") == []


@pytest.mark.parametrize(
    "before",
    [
        "No pets. ",
        "No, thanks. ",
        "No thanks, ",
        "No es caro. ",
        "No worries. ",
        "Sorry for that. ",
        "Sorry I'm late. ",
        "Oh! ",
        "So yeah ",
        "Ah, so: ",
    ],
)
def test_a_no_to_something_else_corrects_nothing(before: str) -> None:
    assert [(f.object, f.correction) for f in facts_in(f"{before}I live in Oslo.", said_at=WEDNESDAY)] == [
        ("oslo", False)
    ]


@pytest.mark.parametrize(
    "before", ["No. ", "No, ", "Nope! ", "Sorry, my mistake. ", "Actually ", "Oops! ", "Ah, sorry! "]
)
def test_what_stands_behind_words_that_only_correct_is_a_correction(before: str) -> None:
    assert only(f"{before}I live in Oslo.").correction


def test_never_is_part_of_an_instruction() -> None:
    assert triples("Never use emojis in your answers.") == [("user", "instruction", "never use emojis in your answers")]


def test_times_are_counted_from_when_it_was_said() -> None:
    assert day(only("I've lived in Paris since March.").valid_from) == "2024-03-01"
    assert day(only("I've been working at Siemens since 2019.").valid_from) == "2019-01-01"
    assert only("My deadline is next Friday.").qualifiers["value"] == "2024-03-29"
    assert only("my meeting moved to Tuesday 3 pm").qualifiers["value"] == "2024-03-26T15:00"
    assert day(only("I live in Rome until June").valid_to) == "2024-07-01"


@pytest.mark.parametrize(
    "text",
    [
        "I'm allergic to peanuts and I'm in Lisbon until Friday.",
        "I live in Rome, but my sister is visiting until Sunday.",
        "I live in Rome and Anna is visiting until Sunday.",
        "I work at Siemens and I've been ill since Monday.",
        "I live in Rome and last week I bought a car.",
        "I work at Siemens; away until Friday.",
    ],
)
def test_the_time_of_another_clause_is_not_that_of_the_fact(text: str) -> None:
    first = facts_in(text, said_at=WEDNESDAY)[0]
    assert (first.valid_from, first.valid_to) == (None, None)


def test_a_time_is_of_the_fact_whatever_stands_between_them_in_the_clause() -> None:
    assert day(only("I live in Rome for now, with my sister and her dog, until June.").valid_to) == "2024-07-01"
    assert day(only("I've been living in Paris, France, since March.").valid_from) == "2024-03-01"


@pytest.mark.parametrize(
    "text",
    [
        "I lived in Rome until 2019.",
        "I lived in Rome from 2015 to 2019.",
        "I lived in Rome for two years.",
        "I've been working at Siemens until January 2024.",
    ],
)
def test_what_is_over_is_not_told_as_so(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "I don't have a meeting on Friday.",
        "I was supposed to have a meeting on Friday.",
        "My sister has an exam on Friday.",
        "I wish I had 12 cats.",
        "If I had 12 cats I'd be happy.",
        "We had 12 users.",
        "Assuming the deadline is May 5, how long do we have?",
        "We might move the meeting to Monday.",
        "Should we move the meeting to Monday?",
        "My rent increased by $100.",
        "My score dropped by 5%.",
        "My score is 5% lower than yours.",
        "I don't earn $5,000 a month.",
        "I want to earn $5,000 a month.",
        "I didn't spend $200 on books.",
        "My friend has 3 brothers.",
        "We haven't upgraded to Python 3.12.",
        "I can't use Python 2.7.",
        "We want to use Python 3.12.",
        "My friend uses Python 3.12.",
    ],
)
def test_what_is_denied_called_off_or_somebody_elses_gives_nothing(text: str) -> None:
    assert triples(text) == []


def test_what_belongs_to_another_is_not_said_to_be_the_users() -> None:
    assert only("Bob's budget is $500.").statement == "Bob's budget is $500."
    assert only("My son's birthday is on May 5.").statement == "The user's son's birthday is May 5."
    assert only("The project's budget is $5,000.").statement == "The project's budget is $5,000."


@pytest.mark.parametrize(
    "text",
    [
        "My sister said her rent is $900.",
        "My friend told me his budget is $500.",
        "My wife has a salary of $50k.",
        "It's not true that my rent is $900.",
        "It isn't true that my deadline is Friday.",
        "I doubt my rent is $900.",
        "Maybe my rent is $900.",
        "I don't think the prod API runs on AWS.",
        "Nothing in billing-api depends on auth-svc.",
    ],
)
def test_a_value_that_is_doubted_or_another_persons_gives_nothing(text: str) -> None:
    assert triples(text) == []


def test_a_value_told_to_another_is_the_users() -> None:
    assert triples("I told her my rent is $900.") == [("user", "rent", "$900")]
    assert triples("Her rent is $900 and my rent is $700.") == [("user", "rent", "$700")]
    assert triples("I think the prod API runs on AWS.") == [("prod api", "runs_on", "aws")]


@pytest.mark.parametrize(
    "text",
    [
        "My previous budget of $500 was too low.",
        "My previous monthly budget was $500.",
        "My old rent is $900.",
        "My former salary of $50k was better.",
        "My earlier accuracy of 80% was bad.",
        "We are above our previous 80% accuracy.",
    ],
)
def test_a_value_of_before_is_not_told_as_that_of_now(text: str) -> None:
    assert triples(text) == []


def test_a_value_of_now_is_found_beside_that_of_before() -> None:
    assert triples("My previous budget was $500 but my new budget is $600.") == [("user", "budget", "$600")]
    assert triples("I extended my previous deadline of March 1 to April 1.") == []


@pytest.mark.parametrize(
    "text",
    [
        "My rent went up $100.",
        "My rent rose about $100.",
        "My weight dropped 10 kg.",
        "My accuracy improved 5%.",
        "My accuracy is up 5%.",
        "My rent is $100 too high.",
        "I want a $10,000 salary increase by July.",
        "My $500 rent increase starts in May.",
        "My salary increase is $5,000.",
    ],
)
def test_a_difference_is_not_the_value(text: str) -> None:
    assert triples(text) == []


def test_a_value_that_something_went_to_is_its_value() -> None:
    assert triples("My rent went up to $1,100.") == [("user", "rent", "$1,100")]
    assert triples("My score went from 80% to 90%.") == [("user", "score", "90%")]
    assert triples("My reduced $500 budget is fine.") == [("user", "budget", "$500")]


@pytest.mark.parametrize(
    "text",
    [
        "Call me later.",
        "Call me tomorrow!",
        "Call me cynical, but I doubt it.",
        "I go by train.",
        "Ich heiße Sie herzlich willkommen.",
    ],
)
def test_what_stands_where_a_name_would_is_no_name(text: str) -> None:
    assert triples(text) == []


def test_a_name_of_now_is_a_name() -> None:
    assert triples("My name is now Tom.") == triples("Call me Tom.") == [("user", "name", "tom")]
    assert triples("My name is spelled Anna, with two n's.") == [("user", "name", "anna")]


@pytest.mark.parametrize(
    "text",
    [
        "I have a cat allergy, so no pets.",
        "I have a phone call at my desk.",
        "I have a company meeting.",
        "I have a car accident behind me.",
        "I have a bird's eye view.",
        "I don't have a phone number.",
    ],
)
def test_half_of_a_thing_is_not_what_one_has(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("rest", ["", " at home", ", Tom", " – old", " now", " (old)", " 3 years ago"])
def test_a_whole_thing_is_what_one_has(rest: str) -> None:
    assert triples(f"I have a dog{rest}.") == [("user", "has", "dog")]


@pytest.mark.parametrize(
    "text",
    [
        "I live in poverty.",
        "Ich lebe in Scheidung.",
        "Vivo en pareja.",
        "Je vis en colocation.",
        "We've moved to weekly releases.",
        "I moved to Marketing.",
        "We moved to Q3.",
        "I'm from HR.",
        "Trabajo en equipo.",
    ],
)
def test_a_state_or_a_department_is_no_home(text: str) -> None:
    assert triples(text) == []


def test_a_town_that_is_called_like_a_state_is_a_home() -> None:
    assert triples("I live in Peace River.") == [("user", "lives_in", "peace river")]
    assert triples("Trabajo en Google.") == [("user", "works_at", "google")]


@pytest.mark.parametrize(
    "text",
    [
        "I live in Paris, just kidding.",
        "I live in Paris. Just kidding!",
        "I live in Paris, no, Lyon.",
        "I live in Berlin... no wait, Munich.",
        "My name is Tom, sorry, Tim.",
        "My budget is $500, no, $600.",
        "My deadline is Friday, no wait, Monday.",
        "I have a dog, but not any more.",
        "I'm allergic to nuts, wait, no, to shellfish.",
        "I'm vegan. Not!",
    ],
)
def test_what_is_taken_back_in_the_same_breath_was_not_said(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "rest", [", no kids.", ", sorry, I'm late.", ", no, really.", ". No, I need no hotel.", ". Joking aside, help me."]
)
def test_a_no_to_something_else_takes_nothing_back(rest: str) -> None:
    assert triples(f"I live in Paris{rest}") == [("user", "lives_in", "paris")]


@pytest.mark.parametrize(
    "text",
    [
        "In this story, I live in Paris.",
        "In my dream my rent is $900.",
        "For the sake of argument, I live in Paris.",
        "She wrote: I live in Paris and I work at Fiat.",
        "Angenommen, ich wohne in Paris.",
        "Stell dir vor, ich wohne in Paris.",
        "Ich wünschte, ich wohne in Berlin.",
        "Mein Bruder meinte, ich wohne in Köln.",
        "Imaginons, j'habite à Lyon.",
        "Peut-être, j'habite à Lyon.",
        "Supongamos: vivo en Madrid.",
        "Quizás, vivo en Madrid.",
    ],
)
def test_what_is_told_of_a_tale_or_by_another_is_not_so(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Übersetze ins Englische: Ich wohne in Berlin und ich mag Kaffee.",
        "Korrigiere diesen Text: Ich heiße Peter.",
        "Fasse zusammen: Ich arbeite bei Siemens.",
        "Was heißt auf Englisch: Ich heiße Peter.",
        "Schreib eine Geschichte: Ich heiße Peter und ich wohne in Rom.",
        "Du bist jetzt Pirat. Ich heiße Jack.",
        "Sehr geehrte Damen und Herren,\nmein Name ist Peter Schmidt und ich arbeite bei Siemens.",
        "Sie schrieb mir „Ich komme. Ich wohne in Berlin und ich arbeite bei Siemens.“",
        "Traduis en anglais : J'habite à Lyon et je m'appelle Marie.",
        "Corrige mes fautes : je m'appelle Marie et j'habite à Lyon.",
        "Écris-moi une lettre de motivation. Je m'appelle Marie.",
        "Joue le rôle d'un pirate : je m'appelle Jack.",
        "Cher Monsieur,\nje m'appelle Marie et j'habite à Lyon.",
        "Traduce al inglés: Me llamo Juan y vivo en Madrid.",
        "Corrige este texto: Me llamo Juan.",
        "Escribe un correo: Me llamo Juan y trabajo en Google.",
        "Actúa como un pirata: me llamo Jack.",
        "Estimado señor:\nme llamo Juan y vivo en Madrid.",
    ],
)
def test_what_is_to_be_worked_on_in_other_languages_is_nobodys_statement(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "home"),
    [
        ("Ich schreibe gerade einen Roman und ich wohne in Köln.", "köln"),
        ("Kürzlich umgezogen: ich wohne in Köln.", "köln"),
        ("J'écris un roman et j'habite à Lyon.", "lyon"),
        ("J'ai corrigé mon adresse : j'habite à Lyon.", "lyon"),
        ("Escribo una novela y vivo en Madrid.", "madrid"),
        ("I'm updating my resume: I live in Rome.", "rome"),
    ],
)
def test_who_writes_or_corrects_tells_of_themselves(text: str, home: str) -> None:
    assert triples(text) == [("user", "lives_in", home)]


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Ich wohne in Berlin bis Ende Juni.", "", "2024-07-01"),
        ("Ich wohne in Berlin bis zum 31. März.", "", "2024-04-01"),
        ("Ich wohne in Berlin, aber nur bis Freitag.", "", "2024-03-23"),
        ("Ich arbeite bei BMW seit drei Jahren.", "2021-03-01", ""),
        ("Ich arbeite bei BMW seit 2015.", "2015-01-01", ""),
        ("J'habite à Lyon jusqu'au 1er avril 2025.", "", "2025-04-02"),
        ("J'habite à Lyon jusqu'à la fin du mois de juin.", "", "2024-07-01"),
        ("J'habite à Lyon depuis deux ans.", "2022-03-01", ""),
        ("Je travaille chez Renault depuis l'année dernière.", "2023-01-01", ""),
        ("Vivo en Madrid hasta el 31 de marzo de 2025.", "", "2025-04-01"),
        ("Vivo en Madrid hasta finales de junio.", "", "2024-07-01"),
        ("Vivo en Madrid desde hace tres años.", "2021-03-01", ""),
        ("Ich wohne in Berlin und bin bis Freitag in Rom.", "", ""),
        ("J'habite à Lyon et je suis à Paris jusqu'à vendredi.", "", ""),
        ("Ich arbeite bei Siemens von Montag bis Freitag.", "", ""),
        ("I work at Google Monday through Friday.", "", ""),
    ],
)
def test_since_when_and_until_when_is_read_in_other_languages(text: str, since: str, until: str) -> None:
    fact = only(text)
    assert (day(fact.valid_from), day(fact.valid_to)) == (since, until)
    assert " " not in fact.object


@pytest.mark.parametrize(
    "text",
    [
        "Ich wohne in Berlin bis 2019.",
        "Ich wohne in Berlin ab dem 1. Juli.",
        "Ich wohne in Wien ab nächstem Monat.",
        "J'habite à Lyon jusqu'en 2019.",
        "J'habite à Lyon à partir de juillet.",
        "J'habite à Lyon dès le mois prochain.",
        "Vivo en Madrid hasta 2019.",
        "Vivo en Madrid a partir del 1 de julio.",
        "Vivo en Madrid desde el mes que viene.",
    ],
)
def test_what_is_over_or_yet_to_begin_in_other_languages_is_not_so_now(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("5.000 €", "€5000"),
        ("5000€", "€5000"),
        ("€5.000,50", "€5000.5"),
        ("5.000 euros", "€5000"),
        ("1.000.000 euros", "€1000000"),
        ("1 000 euros", "€1000"),
        ("1\u202f000\xa0€", "€1000"),
        ("1,5 million euros", "€1500000"),
        ("5,50 €", "€5.5"),
        ("5,000 CHF", "CHF5000"),
        ("5 lakh rupees", "₹500000"),
        ("$5,000.50", "$5000.5"),
    ],
)
def test_a_sum_is_read_whole_as_it_is_written_elsewhere(written: str, value: str) -> None:
    fact = only(f"My budget is {written}.")
    plain = re.sub(r"\s", " ", written)
    assert (fact.object, fact.qualifiers["value"]) == (plain.casefold(), value)
    assert fact.statement == f"The user's budget is {plain}."


@pytest.mark.parametrize(
    "text",
    [
        "I live in Rome or Milan.",
        "I moved to Rome or maybe Milan.",
        "My name is Tom or Thomas.",
        "My sister lives in Rome or Milan.",
        "My favourite food is pizza or pasta.",
        "I drive a Prius or a Tesla.",
        "My meeting is on Tuesday or Wednesday.",
        "The deadline for the report is June 3 or June 4.",
        "My budget is $500 or $600.",
        "My budget is $500 to $600.",
        "My budget is $500-600.",
        "Ich wohne in Berlin oder Potsdam.",
        "J'habite à Lyon ou à Paris.",
        "Vivo en Madrid o Sevilla.",
        "I don't have a budget of $500.",
        "Say my budget is $500.",
    ],
)
def test_one_of_two_that_may_be_is_not_what_is(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("My name is Thomas or Tom for short.", "thomas"),
        ("My budget is $500 or so.", "$500"),
        ("My deadline is June 3 or I lose the client.", "june 3"),
        ("My meeting is on Tuesday from 3 pm to 4 pm.", "tuesday from 3 pm"),
        ("My meeting is at 3 pm to 4 pm.", "3 pm"),
        ("The conference is June 3 to June 5.", "june 3"),
        ("My rent went from $500 to $600.", "$600"),
        ("I moved my meeting from Tuesday to Friday.", "friday"),
    ],
)
def test_where_a_span_begins_and_what_moved_are_told_apart(text: str, value: str) -> None:
    assert only(text).object == value


@pytest.mark.parametrize(
    "rest",
    [
        ", I carry an EpiPen.",
        ", I'm told.",
        ", I don't know why.",
        ", please remember that.",
        ", unfortunately.",
        ", sorry.",
        ", thanks.",
        ", like my son.",
        ", my wife to milk.",
        ", my wife isn't.",
        ", gluten is fine.",
        ", said nobody ever.",
        " and so is my son.",
    ],
)
def test_what_follows_a_list_is_no_item_of_it(rest: str) -> None:
    assert triples(f"I'm allergic to nuts{rest}") == [("user", "allergic_to", "nuts")]
    assert triples(f"I don't eat nuts{rest}") == [("user", "eats", "nuts")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I like neither pizza nor pasta.", []),
        ("Not that I like pizza.", []),
        ("It's not that I like pizza.", []),
        ("I can't eat right now.", []),
        ("I don't like either dogs or cats.", [("user", "likes", "dogs"), ("user", "likes", "cats")]),
        ("I speak English and my wife French.", [("user", "speaks", "english")]),
    ],
)
def test_neither_is_no_liking_and_a_language_no_name(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    ("text", "predicate", "expected"),
    [
        ("Ich mag Kaffee und Tee.", "likes", ["kaffee", "tee"]),
        ("Ich mag Kaffee und wohne in Rom.", "likes", ["kaffee"]),
        ("Ich mag nur Tee.", "likes", ["tee"]),
        ("J'adore les chats et les chiens.", "likes", ["chats", "chiens"]),
        ("J'aime aussi le café et la vie est belle.", "likes", ["café"]),
        ("Me gusta leer y nadar.", "likes", ["leer", "nadar"]),
        ("Me gusta el café y el té verde.", "likes", ["café", "té verde"]),
        ("Ich bin allergisch gegen Nüsse, Milch und Soja.", "allergic_to", ["nüsse", "milch", "soja"]),
        ("Soy alérgica al polen y a la leche.", "allergic_to", ["polen", "leche"]),
        ("Soy alérgico a los gatos pero no a los perros.", "allergic_to", ["gatos"]),
        ("Je suis allergique aux chats mais pas aux chiens.", "allergic_to", ["chats"]),
        ("Ich bin allergisch gegen Katzen, danke.", "allergic_to", ["katzen"]),
        ("Ich bin allergisch gegen Katzen, Danke.", "allergic_to", ["katzen"]),
        ("J'aime le café mais pas le thé.", "likes", ["café"]),
        ("J'aime Paris mais pas trop.", "likes", []),
        ("Me gusta Madrid aunque poco.", "likes", ["madrid"]),
        ("Ich wohne nun wieder in Hamburg.", "lives_in", ["hamburg"]),
        ("Ich wohne seit März in Hamburg.", "lives_in", ["hamburg"]),
        ("Je suis allergique aux noix et à la pénicilline.", "allergic_to", ["noix", "pénicilline"]),
    ],
)
def test_each_thing_of_a_list_is_one_in_other_languages(text: str, predicate: str, expected: list[str]) -> None:
    assert triples(text) == [("user", predicate, one) for one in expected]


@pytest.mark.parametrize(
    "text",
    [
        "Ich mag das.",
        "Ich mag deinen Vorschlag.",
        "Ich mag den Vorschlag.",
        "Ich mag weder Katzen noch Hunde.",
        "Ich mag gerade keine Pizza.",
        "Ich mag überhaupt keinen Fisch.",
        "Ich mag Kaffee lieber als Tee.",
        "Ich bin allergisch gegen fast alles.",
        "J'aime bien ça.",
        "J'aime ton idée.",
        "J'aime la deuxième version.",
        "J'aime ni le café ni le thé.",
        "J'aime aucun légume.",
        "J'aime moins le café.",
        "Me gusta mucho, gracias.",
        "Me encanta tu respuesta.",
        "Ich mag die Art, wie du schreibst.",
        "Ich mag den Ton deiner Antwort.",
        "J'aime le rythme de ta réponse.",
        "Me gusta el tono de tus respuestas.",
        "Me gusta la segunda opción.",
        "Me gusta poco el café.",
        "Me gusta nada.",
        "Soy alérgico a nada.",
    ],
)
def test_what_points_or_is_denied_is_nothing_liked_in_other_languages(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Meine Mutter findet, ich mag Fisch.",
        "Sie hat gesagt: ich wohne in Berlin.",
        "Im Film: ich wohne in Berlin.",
        "Elle disait, j'habite à Lyon.",
        "J'ai rêvé : j'habite à Lyon.",
        "J'habite à Lyon, non je plaisante.",
        "Mi madre decía: vivo en Madrid.",
        "Soñé: vivo en Madrid.",
        "Vivo en Madrid, broma.",
        "Ich wohne in Rom, war nur Spaß.",
        "J'habite à Rome, c'est une blague.",
        "Ich wohne in Berlin, äh, München.",
        "Ich wohne in Berlin, Quatsch, in Bonn.",
        "Ich wohne in Berlin, besser gesagt in Bonn.",
        "J'habite à Lyon, euh, à Paris.",
        "J'habite à Lyon, enfin à Villeurbanne.",
        "Vivo en Madrid, mejor dicho, en Getafe.",
        "Vivo en Madrid, bueno, en Getafe.",
        "Mein Name ist egal.",
        "Mi nombre es difícil.",
        "Ich arbeite bei Nacht.",
        "Trabajo en Madrid.",
        "I work for Fridays.",
    ],
)
def test_another_s_words_a_dream_a_time_and_a_place_are_no_facts(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "name"),
    [("Ich heiße jetzt Meier.", "meier"), ("Je m'appelle désormais Dupont.", "dupont"), ("Me llamo ahora Ana.", "ana")],
)
def test_now_is_no_part_of_a_name(text: str, name: str) -> None:
    assert triples(text) == [("user", "name", name)]


@pytest.mark.parametrize(
    "text",
    [
        "I moved to Rome, then to Milan.",
        "I moved to Rome in 2010 and to Milan in 2015.",
        "I moved to Rome two years ago and left last year.",
        "I quit smoking and started again.",
        "I got married in 2010 and divorced in 2015.",
        "I bought a bike and sold it.",
        "My favourite author's name is Tom.",
        "My favorite color is between blue and green.",
        "I'm deaf to that.",
    ],
)
def test_what_the_same_sentence_goes_on_from_is_not_so_now(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("I moved to Rome and left my car behind.", "rome"),
        ("I live in Rome and went to Oxford in 2010.", "rome"),
        ("I started a company and quit my job.", "company"),
    ],
)
def test_what_goes_on_with_something_else_stays(text: str, thing: str) -> None:
    assert triples(text)[0][2] == thing


@pytest.mark.parametrize(
    ("text", "since"),
    [
        ("We agreed to freeze the API on June 1.", ""),
        ("I'm learning German for my exam on June 3.", ""),
        ("I moved to Rome on March 1.", "2024-03-01"),
    ],
)
def test_a_day_to_come_is_not_since_when_it_is_so(text: str, since: str) -> None:
    assert day(facts_in(text, said_at=WEDNESDAY)[0].valid_from) == since


@pytest.mark.parametrize(
    "text", ["Since 2019 I work at Google, I live in Rome.", "Seit 2019 arbeite ich bei Siemens, ich wohne in Rom."]
)
def test_since_when_one_thing_is_so_is_not_since_when_the_next_is(text: str) -> None:
    (home,) = [one for one in facts_in(text, said_at=WEDNESDAY) if one.predicate == "lives_in"]
    assert home.valid_from is None


def test_for_how_long_one_moves_is_not_since_when() -> None:
    assert day(only("I moved to Rome for a year.").valid_from) == ""
    assert day(only("I've lived in Rome for a year.").valid_from) == "2023-03-01"


@pytest.mark.parametrize("before", ["", "Hello there. ", "Nice day!\n"])
def test_a_convention_or_a_correction_counts_in_whatever_sentence_it_stands(before: str) -> None:
    assert triples(f"{before}We use tabs.") == [("team", "uses", "tabs")]
    assert triples(f"{before}We always squash commits.") == [("team", "convention_squash", "commits")]
    assert triples(f"{before}Sorry, I meant Milan.") == [("it", "corrected_to", "milan")]
    assert triples(f"{before}Pizza is my favourite food.") == [("user", "favourite_food", "pizza")]
    text = f"{before}We use tabs."
    assert text[slice(*only(text).span)] == "use tabs"


@pytest.mark.parametrize(
    "text",
    [
        "Customer message: My name is Anna and I live in Rome.",
        "A customer wrote in: My name is Anna and I live in Rome.",
        "Ticket #123: my name is Anna and I live in Rome.",
        "Example: I live in Rome.",
        "Repeat after me: my name is Anna.",
        "Two truths and a lie: I live in Rome, I have a dog, I hate tea.",
        "She was like, I live in Rome.",
        "He goes: I live in Rome.",
        "I live in Rome, supposedly.",
        "I live in Rome, or so they say.",
        "I live in Rome (well, Milan).",
        "I live in Rome, correction: Milan.",
        "I live in Rome... I mean, Milan.",
        "I'm 20,000 dollars in debt.",
        "I'm 15.5 years old.",
    ],
)
def test_examples_others_words_and_what_is_put_right_at_once_are_no_facts(text: str) -> None:
    assert triples(text) == []


def test_what_the_next_sentence_puts_right_was_not_said() -> None:
    assert ("user", "lives_in", "rome") not in triples("I live in Rome. Sorry, I meant Milan.")
    assert ("user", "budget", "$500") not in triples("My budget is $500. Oops, I meant $600.")
    assert triples("I live in Rome. I mean it.") == [("user", "lives_in", "rome")]


@pytest.mark.parametrize("said", ["May 3rd", "May 3rd, 1990", "3rd of May", "3 May"])
def test_a_birthday_is_read_whole(said: str) -> None:
    for article in ("", "the ") if said[0] == "3" else ("",):
        assert triples(f"My birthday is {article}{said}.") == [("user", "birthday", said.casefold())]


@pytest.mark.parametrize(
    "text",
    [
        "We don't always use tabs.",
        "We don't only use tabs.",
        "We use Slack from next month.",
        "We use Slack starting Monday.",
        "We use Slack until 2019.",
        "We name our son Tom.",
        "The config no longer lives in /etc/app/config.yaml.",
        "My build is at 80%.",
        "The build is in 5 minutes.",
        "Our website is in 3 languages.",
        "I prefer neither.",
    ],
)
def test_what_a_team_does_not_do_always_or_not_yet_is_no_convention(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("text", ["We use Slack until Friday.", "Our db runs on db7:5433 until Friday."])
def test_what_a_team_uses_ends_when_it_is_said_to(text: str) -> None:
    assert day(only(text).valid_to) == "2024-03-23"


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("I upgraded from Node 18.2 to Node 20.1.", "20.1"),
        ("I downgraded to Node 18.2.", "18.2"),
        ("I downgraded from Node 20.1 to Node 18.2.", "18.2"),
    ],
)
def test_a_version_that_another_one_made_way_for_is_learnt(text: str, version: str) -> None:
    fact = only(text)
    assert (fact.subject, fact.object, fact.qualifiers["changed"]) == ("node", version, "yes")


@pytest.mark.parametrize(
    ("text", "until"),
    [
        ("I live in Rome until next year.", "2025-01-01"),
        ("I live in Rome until next month.", "2024-04-01"),
        ("I live in Rome until the end of next month.", "2024-05-01"),
        ("I live in Rome until the end of the week.", "2024-03-25"),
        ("I live in Rome through next week.", "2024-04-01"),
        ("Ich wohne in Berlin bis Ende nächsten Monats.", "2024-05-01"),
        ("Ich wohne in Berlin bis Ende des Jahres.", "2025-01-01"),
        ("J'habite à Lyon jusqu'à la fin de l'année.", "2025-01-01"),
        ("J'habite à Lyon jusqu'au mois prochain.", "2024-04-01"),
        ("Vivo en Madrid hasta fin de año.", "2025-01-01"),
        ("Vivo en Madrid hasta el mes que viene.", "2024-04-01"),
    ],
)
def test_a_week_a_month_and_a_year_end_or_begin_as_it_is_said(text: str, until: str) -> None:
    assert day(only(text).valid_to) == until


def test_no_period_begins_past_the_calendars_end() -> None:
    (fact,) = facts_in("I live in Rome until next year.", said_at=datetime(9999, 12, 31, tzinfo=UTC))
    assert fact.valid_to is None


@pytest.mark.parametrize(
    "text",
    [
        "I couldn't move my meeting to Friday.",
        "I tried to move my meeting to Friday.",
        "Tom suggested moving our meeting to Friday.",
        "We might be moving our meeting to Friday.",
        "If I move my meeting to Friday, Tom can come.",
        "We can't raise our budget to $500.",
        "They refused to raise our budget to $500.",
        "My boss promised to raise my salary to $5000.",
        "I could earn $5,000 a month.",
        "I'd earn $5,000 a month.",
    ],
)
def test_what_could_not_be_moved_or_is_only_proposed_is_not_there(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("My wife's birthday party is on June 3rd.", ("party", "time")),
        ("Our launch party is on June 3.", ("party", "time")),
        ("I can't come, so I moved my meeting to Friday.", ("meeting", "time")),
        ("My boss raised my salary to $5000.", ("user", "salary")),
    ],
)
def test_a_party_is_no_birthday_and_what_was_moved_is_there(text: str, key: tuple[str, str]) -> None:
    assert (only(text).subject, only(text).predicate) == key


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("My gig is cancelled.", "The user's gig is cancelled."),
        ("The gig's off, the Lantern flooded.", "The user's gig is off."),
        ("The gig on 8 November got called off.", "The user's gig is called off."),
        ("My first gig was cancelled.", "The user's first gig is cancelled."),
        ("They cancelled my gig because of the flood.", "The user's gig is cancelled."),
    ],
)
def test_an_event_that_is_off_is_on_its_day_no_more(text: str, says: str) -> None:
    off = only(text)
    assert (off.subject, off.predicate, off.statement) == ("gig", "time", says)
    assert may_replace(off, only("Our first gig is on 8 November."))
    assert may_replace(only("My gig is now on Friday."), off)


@pytest.mark.parametrize("text", ["The meeting on Friday is cancelled.", "They cancelled my flight on Friday."])
def test_the_day_of_what_is_cancelled_is_not_told(text: str) -> None:
    assert [what for *_, what in triples(text)] == ["cancelled"]


@pytest.mark.parametrize(
    "text",
    [
        "Is my flight cancelled?",
        "If my flight is cancelled, what do I do?",
        "Write a mail that the meeting is cancelled.",
        "My flight isn't cancelled.",
        "My flight was cancelled last year.",
        "My call was off the record.",
        "Her meeting is cancelled.",
        "The company cancelled the contract.",
    ],
)
def test_an_event_that_is_not_said_to_be_off_is_not(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("whose", ["Her", "His", "Their"])
def test_an_event_of_another_is_not_the_users(whose: str) -> None:
    assert triples(f"{whose} wedding is on 5 May.") == []
    assert triples(f"I know when {whose.casefold()} exam is: the exam is on Friday.") != []


@pytest.mark.parametrize(
    ("text", "name", "says"),
    [
        ("My boss is Tom Ashby.", "tom", "The user's boss is called Tom Ashby."),
        ("I met my new supervisor, Karen Lee, at work.", "karen", "The user's supervisor is called Karen Lee."),
        ("My friend Ana da Silva is here.", "ana", "The user's friend is called Ana da Silva."),
        ("Meine Frau heißt Sabine Müller.", "sabine", "The user's wife is called Sabine Müller."),
        ("My friend Tom Monday is free.", "tom", "The user's friend is called Tom."),
        ("My friend Tom and I work.", "tom", "The user's friend is called Tom."),
    ],
)
def test_a_person_is_shown_by_the_whole_name_and_known_by_the_first(text: str, name: str, says: str) -> None:
    assert (only(text).object, only(text).statement) == (name, says)


IN_GERMAN = "From now on please answer in German."


@pytest.mark.parametrize(
    "text",
    [
        "Back to English please, my colleague reads along.",
        "In English again please.",
        "Always answer in English.",
        "Ab jetzt bitte auf Englisch antworten.",
        "Bitte wieder auf Englisch.",
        "À partir de maintenant, réponds-moi en anglais.",
        "A partir de ahora responde en inglés.",
    ],
)
def test_one_is_answered_in_the_language_that_was_asked_for_last(text: str) -> None:
    assert may_replace(only(text), only(IN_GERMAN))
    assert contradict(statement_of(only(text)), statement_of(only(IN_GERMAN)))


@pytest.mark.parametrize(
    "text",
    [
        "Always answer in English when I paste code.",
        "Always answer in German or English.",
        "Never answer in German.",
        "Always use metric units.",
    ],
)
def test_what_is_more_than_a_language_stands_beside_it(text: str) -> None:
    assert not contradict(statement_of(only(text)), statement_of(only(IN_GERMAN)))


@pytest.mark.parametrize("text", ["Back to English literature: who wrote it?", "I'm going back to English class."])
def test_who_goes_back_to_a_subject_asks_for_no_language(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("where", ["in the new service", "for FastAPI in the new service", "on one of the hosts"])
def test_a_tool_that_is_dropped_in_one_place_is_not_out_of_use(where: str) -> None:
    assert triples(f"We dropped Django {where}.") == []


@pytest.mark.parametrize("why", ["", " for FastAPI", " from our stack", " for the moment", " because it was slow"])
def test_a_tool_that_is_dropped_is_out_of_use(why: str) -> None:
    assert [(one.object, one.negated) for one in facts_in(f"We dropped Django{why}.", said_at=WEDNESDAY)] == [
        ("django", True)
    ]


@pytest.mark.parametrize("text", ["I'm smoking again, sadly.", "I started smoking again."])
def test_what_one_had_stopped_and_does_again_is_so(text: str) -> None:
    again, stopped = only(text), only("I quit smoking three weeks ago.")
    assert again.statement == "The user is smoking again."
    assert (again.predicate, again.object) == (stopped.predicate, stopped.object)
    assert contradict(statement_of(again), statement_of(stopped))


@pytest.mark.parametrize("text", ["I'm running late again.", "Are you smoking again?", "I wish I was running again."])
def test_what_only_sounds_like_a_habit_is_none(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Help my daughter with her homework: My name is Tim. I live in London. I have a dog called Spot.",
        "Continue the story: I woke up in a cave. My name is Arven.",
        "Here is my friend's dating profile: I'm Sam, 29, I love dogs and hiking. Rate it.",
        "Is this sentence correct? I have been living in Madrid since five years.",
        "Correct: I am agree with you, I live in Valencia since 2010.",
        "Let's play 20 questions. I live in Africa.",
        "Asking for a friend: I'm pregnant, what should I do?",
        "Hilf meiner Tochter bei den Hausaufgaben: Ich heiße Tim und wohne in London.",
        "Ist dieser Satz richtig? Ich wohne seit fünf Jahren in Madrid.",
        "Ich frage für eine Freundin: Ich bin verheiratet und wohne in Kiel.",
        "Voici le profil de ma sœur : je suis végétarienne et j'habite à Lyon.",
        "Cette phrase est-elle correcte ? J'habite à Madrid depuis cinq ans.",
        "Continúa la historia: me llamo Arven y vivo en Praga.",
        "¿Es correcta esta frase? Vivo en Madrid desde hace cinco años.",
        "这句话对吗？我住在马德里。",
        "Movie quote: I live in Casablanca. My name is Rick.",
        "Le message de mon frère : j'habite à Nice maintenant.",
        "Job ad answer of a candidate: I work at Siemens and I live in Graz.",
        "Aus der Sicht eines Hundes: Ich heiße Bello und wohne in Ulm.",
        "以一只猫的口吻：我叫咪咪，我住在北京。",
    ],
)
def test_what_a_lead_names_as_a_text_is_not_said_of_the_user(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "lead",
    [
        *(
            "My story",
            "Here is my profile",
            "Update my profile",
            "Long story short",
            "Facts about me",
            "Quick question",
        ),
        *("My answer", "Answer", "I wrote him"),
    ],
)
def test_a_lead_that_names_no_text_of_another_introduces_ones_own_words(lead: str) -> None:
    assert triples(f"{lead}: I live in Rome.") == [("user", "lives_in", "rome")]


@pytest.mark.parametrize(
    "lead", ["He texted", "My boss said", "Mein Chef hat geschrieben", "Mon voisin dit", "Mi vecina escribió"]
)
def test_what_another_says_goes_to_the_end_of_the_line(lead: str) -> None:
    assert triples(f"{lead}: I live in Oslo. My phone is a Nokia.") == []
    assert triples(f"{lead}: I live in Oslo.\n\nI live in Rome.") == [("user", "lives_in", "rome")]


def test_whose_divorce_is_final_is_not_married() -> None:
    divorced = only("The divorce is final.")
    assert divorced.statement == "The user is divorced."
    assert contradict(statement_of(divorced), statement_of(only("I'm married.")))
    assert triples("If the divorce is final, can I marry again?") == triples("The divorce is final in the film.") == []


def test_who_does_not_speak_a_language_any_more_does_not_speak_it() -> None:
    assert contradict(statement_of(only("I don't speak Dutch any more.")), statement_of(only("I speak Dutch.")))


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (
            "I was wrong about the dentist appointment, it's on 14 March.",
            "The user's dentist appointment is on 14 March.",
        ),
        ("I have an interview, it's on Monday.", "The user's interview is on Monday."),
        ("I have an exam, but it's moved to Friday.", "The user's exam is on Friday."),
        ("I had planned a trip and it's cancelled.", "The user's trip is cancelled."),
    ],
)
def test_it_is_the_event_named_right_before(text: str, says: str) -> None:
    assert only(text).statement == says
    assert may_replace(only(text), only("My dentist appointment is on 12 March.")) is ("wrong" in text)


@pytest.mark.parametrize(
    "text",
    [
        "I don't have a meeting, it's on Friday.",
        "My sister has an exam, it's on Friday.",
        "I watched the show about the wedding, it's on Friday.",
        "I have a party in a week and a cold, it's Friday.",
    ],
)
def test_it_is_no_event_that_is_denied_anothers_or_beside(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("My phone is a Pixel 7.", "pixel 7"),
        ("My new phone is a Pixel 9 Pro now.", "pixel 9 pro"),
        ("My car is a BMW 320d and it leaks.", "bmw 320d"),
        ("My phone is no longer a Pixel 7.", "pixel 7"),
        ("My doctor is Dr Shah 2 days a week.", "dr shah"),
        ("My phone is a Nokia 3.5 years old.", "nokia"),
    ],
)
def test_a_make_has_its_number(text: str, what: str) -> None:
    assert only(text).object == what


@pytest.mark.parametrize(
    ("first", "then", "replaces"),
    [
        ("I'm vegetarian.", "I'm more of a pescatarian now.", True),
        ("I'm vegan.", "I'm vegetarian.", True),
        ("Ich bin Veganer.", "Ich bin jetzt Vegetarier.", True),
        ("I'm vegetarian.", "I'm lactose intolerant.", False),
        ("I'm lactose intolerant.", "I'm diabetic.", False),
    ],
)
def test_one_has_one_diet_beside_all_else_that_one_is(first: str, then: str, replaces: bool) -> None:
    older, newer = only(first), only(then)
    assert (may_replace(newer, older) and contradict(statement_of(newer), statement_of(older))) is replaces


def test_two_things_that_one_is_are_two() -> None:
    both = [("user", "status", "vegetarian"), ("user", "status", "lactose intolerant")]
    assert triples("I'm vegetarian and lactose intolerant, keep that in mind.") == both


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Started at Wise this week as a senior analyst!", [("user", "works_at", "wise")]),
        ("I started at Wise last month.", [("user", "works_at", "wise")]),
        ("Got laid off from Meta last week.", [("user", "works_at", "meta")]),
        ("Got married in May.", [("user", "marital_status", "married")]),
        ("I started at Harvard University this week.", []),
        ("Started at 9 today.", []),
        ("My landlord put the rent up to £1,230 from March.", [("user", "rent", "£1,230")]),
        ("I put a cup down to $5.", []),
    ],
)
def test_news_of_work_and_home_is_heard_as_it_is_told(text: str, expected: list[tuple[str, str, str]]) -> None:
    assert triples(text) == expected


@pytest.mark.parametrize(
    ("then", "replaces"),
    [
        ("I prefer spaces over tabs now.", True),
        ("I prefer spaces rather than tabs.", True),
        ("I prefer tea over coffee.", False),
        ("I prefer spaces.", False),
    ],
)
def test_of_two_one_is_preferred_at_a_time(then: str, replaces: bool) -> None:
    first, newer = only("I prefer tabs over spaces in all my Python files."), only(then)
    assert (may_replace(newer, first) and contradict(statement_of(newer), statement_of(first))) is replaces


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("My wedding is on 5 May.", "The user's wedding is on 5 May."),
        ("My exam is at 3 p.m.", "The user's exam is at 3 p.m."),
    ],
)
def test_a_sentence_ends_with_one_stop(text: str, says: str) -> None:
    assert only(text).statement == says


@pytest.mark.parametrize("text", ["J'aime plus le café.", "Ich liebe es, wenn es regnet.", "J'adore quand il pleut."])
def test_a_liking_that_ended_or_is_of_a_moment_is_none(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("text", ["J'aime bien le café.", "Me gusta mucho el café.", "Ich mag sehr gerne café."])
def test_how_much_one_likes_a_thing_is_not_its_name(text: str) -> None:
    assert triples(text) == [("user", "likes", "café")]


@pytest.mark.parametrize(
    "text",
    [
        "I had a meeting with Bob on Friday.",
        "I missed my meeting with Bob on Friday.",
        "I passed my exam on Friday.",
        "My meeting with Bob on Friday went well.",
        "My exam on Friday was hard.",
        "My meeting on Friday fell through.",
        "My interview on Monday has been postponed.",
    ],
)
def test_an_event_that_is_over_is_not_to_come(text: str) -> None:
    assert triples(text) == []
    assert [one.predicate for one in facts_in("I won my first race on Friday!", said_at=WEDNESDAY)] == ["won"]


def test_an_event_that_was_moved_is_at_its_new_time_alone() -> None:
    assert triples("My interview on Monday got moved to Tuesday.") == [("interview", "time", "tuesday")]
    assert triples("I had my interview scheduled for Monday.") == [("interview", "time", "monday")]
    assert triples("My flight on Friday was confirmed.") == [("flight", "time", "friday")]


def test_where_somebody_is_from_is_not_who_they_are() -> None:
    assert triples("My doctor is Dr. Meier.") == [("user", "doctor", "dr. meier")]
    assert triples("My bank is American Express.") == [("user", "bank", "american express")]
    assert triples("My doctor is Italian.") == triples("My car is German.") == []


def test_an_exception_and_a_half_are_no_things_of_their_own() -> None:
    assert triples("I don't eat meat, except on Sundays.") == [("user", "eats", "meat")]
    assert triples("I am 7 and a half hours ahead of you.") == []


@pytest.mark.parametrize(
    "text", ["My ex-wife lives in Berlin.", "My co-worker uses Linux.", "My mother-in-law lives in Rome."]
)
def test_a_person_with_a_hyphen_is_no_service(text: str) -> None:
    assert triples(text) == []
    assert triples("billing-api lives on db7") == [("billing-api", "runs_on", "db7")]


@pytest.mark.parametrize(
    "text",
    ["I'm not married to Anna.", "I'm married to my job.", "I'm engaged in a debate.", "I'm engaged with the topic."],
)
def test_whom_one_is_not_married_to_and_what_one_is_engaged_in_is_no_status(text: str) -> None:
    assert triples(text) == []
    assert triples("I'm married with two kids.") == [("user", "marital_status", "married")]


@pytest.mark.parametrize(
    "text", ["I'm a former nurse.", "I'm an aspiring writer.", "I work for Google's rival.", "I live in Anna's house."]
)
def test_what_one_was_or_is_beside_is_neither_job_nor_home(text: str) -> None:
    assert triples(text) == []
    assert triples("I work at McDonald's in Berlin.") == [("user", "works_at", "mcdonald's")]


@pytest.mark.parametrize(
    "text",
    [
        "I bought a house but sold it.",
        "I quit smoking but started again.",
        "I started working at Google but quit.",
        "I decided to move to Rome but changed my mind.",
        "I cancelled my subscription but renewed it.",
        "I play guitar no more.",
        "My dog is called Rex, but not really.",
    ],
)
def test_what_did_not_last_is_not_so(text: str) -> None:
    assert triples(text) == []
    assert triples("I like Rome but left my keys there.") == [("user", "likes", "rome")]


@pytest.mark.parametrize("text", ["I turned 34 pages.", "I turned 90 degrees to the left.", "I turned 18 notes down."])
def test_what_one_turns_is_not_ones_age(text: str) -> None:
    assert triples(text) == []
    assert triples("I just turned 34 and feel old.") == triples("I turned 34 last week.") == [("user", "age", "34")]


def test_a_birthday_is_a_day_of_the_year() -> None:
    assert triples("My birthday is next week.") == triples("My anniversary is tomorrow.") == []
    assert triples("My birthday is on May 5.") == [("user", "birthday", "may 5")]


def test_what_is_liked_again_or_sold_for_something_is_the_thing_itself() -> None:
    assert triples("I like pizza again.") == [("user", "likes", "pizza")]
    assert triples("I love tea, unlike coffee.") == [("user", "likes", "tea")]
    assert triples("I sold my car to buy a boat.") == [("user", "has", "car")]


@pytest.mark.parametrize(
    "text",
    [
        "I stopped using Python 2.7.",
        "I was using Python 3.8 back then.",
        "I used Python 3.8 at my last job.",
        "We were running Node 16.4 until May.",
    ],
)
def test_a_version_that_was_in_use_is_not_in_use(text: str) -> None:
    assert triples(text) == []
    assert triples("I've been using Python 3.11.") == [("python", "version", "3.11")]
    assert triples("My app was built with React 18.2.") == [("react", "version", "18.2")]


@pytest.mark.parametrize(
    "text", ["We run out of money.", "We always run late.", "We test positive for covid.", "We use to meet on Mondays."]
)
def test_a_turn_of_phrase_is_no_convention(text: str) -> None:
    assert triples(text) == []
    assert triples("We commit to main.") == [("team", "convention_commit", "to main")]


def test_new_york_is_not_york() -> None:
    assert triples("I live in New York City.") == [("user", "lives_in", "new york city")]
    assert triples("I come from nowhere. I'm from New Mexico.") == [("user", "comes_from", "new mexico")]
    assert normalised("My new Car") == normalised("the car") == "car"
    assert normalised("New Relic") == "new relic"


@pytest.mark.parametrize(
    "text",
    [
        "I live in Berlin starting next month.",
        "I live in Berlin from next month on.",
        "I work at Google from Monday.",
        "I'm a teacher starting next week.",
        "My sister works at Fiat starting in May.",
    ],
)
def test_what_is_yet_to_begin_is_not_so_now(text: str) -> None:
    assert triples(text) == []
    assert triples("I work at Google from Monday to Friday.") == [("user", "works_at", "google")]
    assert triples("I live in Berlin next to the park.") == [("user", "lives_in", "berlin")]


@pytest.mark.parametrize(
    "text",
    [
        "My customer has a budget of $500.",
        "My client has a deadline of May 5.",
        "My patient has 3 kids.",
        "Our competitor has 500 users.",
        "My student has an exam on Friday.",
    ],
)
def test_what_a_client_has_is_not_the_users(text: str) -> None:
    assert triples(text) == []
    assert only("Our client's budget is $500.").statement == "The client's budget is $500."


def test_half_of_a_number_is_no_value() -> None:
    assert triples("My height is 1,80 m.") == triples("My height is 5'10\".") == triples("My GPA is 3,5.") == []
    assert only("My weight is 80,5 kg.").qualifiers["value"] == "80.5 kg"
    assert only("My goal is 1,500.").qualifiers["value"] == "1500"


def test_the_user_has_no_capital_within_a_sentence() -> None:
    assert only("Pizza is my favorite food.").statement == "Pizza is the user's favourite food."
    assert facts_in("Pizza is my favorite food.", said_at=WEDNESDAY, speaker="Ann")[0].statement == (
        "Pizza is Ann's favourite food."
    )
    assert only("We use tabs.").statement == "The user's team uses tabs."


@pytest.mark.parametrize(
    ("told", "ended"),
    [
        ("My favorite color is blue.", "My favorite color is no longer blue."),
        ("My favorite color is blue.", "My favorite color isn't blue any more."),
        ("My doctor is Dr. Meier.", "My doctor is no longer Dr. Meier."),
        ("My boss is Anna.", "My boss is no longer Anna."),
    ],
)
def test_what_is_ones_own_ends_under_the_key_it_was_told_under(told: str, ended: str) -> None:
    before, after = only(told), only(ended)
    assert (after.subject, after.predicate, after.object) == (before.subject, before.predicate, before.object)
    assert (before.negated, after.negated) == (False, True)
    assert " no longer " in after.statement


@pytest.mark.parametrize(
    "text",
    [
        "Ich wohne in Köln, nein, in Bonn.",
        "Ich heiße Tim, ich meine Tom.",
        "Ich wohne in Köln, kleiner Scherz.",
        "J'habite à Lyon, non, à Paris.",
        "Je m'appelle Marie, pardon, Marion.",
        "Vivo en Madrid, perdón, en Sevilla.",
        "Vivo en Madrid, es broma.",
    ],
)
def test_what_is_taken_back_in_other_languages_was_not_said(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize("text", ["Nein, ich wohne in Bonn.", "Non, j'habite à Bonn.", "Perdón, vivo en Bonn."])
def test_a_correction_in_other_languages_is_one(text: str) -> None:
    assert (only(text).object, only(text).correction) == ("bonn", True)


def test_not_to_use_a_tool_for_one_thing_is_not_to_use_it_for_another() -> None:
    assert triples("We don't use Redis for sessions.") == [("team", "uses", "redis for sessions")]
    assert [f.statement for f in facts_in("We use Redis for caching and Postgres for storage.", said_at=WEDNESDAY)] == [
        "The user's team uses Redis for caching.", "The user's team uses Postgres for storage.",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "end", ["We dropped Kafka, too much work.", "We no longer use Kafka.", "We switched from Kafka to NATS.", "We replaced Kafka with NATS."]
)  # fmt: skip
def test_what_was_decided_for_ends_with_its_use(end: str) -> None:
    decided = only("We decided to go with Kafka for the event bus.")
    ended = next(one for one in facts_in(end, said_at=WEDNESDAY) if one.predicate == decided.predicate)
    assert contradict(statement_of(ended), statement_of(decided))


def test_what_took_the_place_of_a_tool_is_in_use() -> None:
    assert ("team", "uses", "nats") in triples("We replaced Kafka with NATS.")
    assert triples("I replaced Tom with Anna.") == triples("I replaced Python with care.") == []


@pytest.mark.parametrize(
    "end", ["We switched from Redis to Valkey.", "We no longer use Redis.", "We don't use Redis any more."]
)
@pytest.mark.parametrize("more", ["", " for the event bus", " for caching and Postgres for storage", " and Kafka"])
def test_what_a_team_used_ends_under_the_key_it_was_told_under(end: str, more: str) -> None:
    assert triples(f"We use Redis{more}.")[0] == ("team", "uses", "redis")
    ended = facts_in(end, said_at=WEDNESDAY)[0]
    assert (ended.subject, ended.predicate, ended.object, ended.negated) == ("team", "uses", "redis", True)


@pytest.mark.parametrize("port", ["runs on port 8080", "is on port 8080", "uses port 8080", "is listening on 8080"])
def test_a_port_takes_the_place_of_a_port_and_of_no_host(port: str) -> None:
    assert only(f"Our server {port}.").predicate == only("Our server listens on 9090 now.").predicate == "listens_on"
    assert only("Our server runs on db7.").predicate != "listens_on"


@pytest.mark.parametrize(
    "text",
    [
        "Docker runs on Linux.",
        "Redis listens on port 6379 by default.",
        "Redis runs on 1024 cores.",
        "Kafka uses Java.",
    ],
)
def test_what_is_so_of_a_tool_everywhere_is_not_where_it_runs_here(text: str) -> None:
    assert triples(text) == []


def test_nobody_lives_in_a_tool_or_uses_a_town() -> None:
    assert triples("We moved to Postgres last month.") == []
    assert triples("I moved from React to Vue.") == [("user", "uses", "react"), ("user", "chose_frontend", "react")]
    assert triples("We moved from Jenkins to CircleCI.") == [
        ("team", "uses", "jenkins"),
        ("user", "chose_ci", "jenkins"),
    ]
    assert triples("We moved from Boston to Denver.") == []
    assert triples("I work at GitHub.") == [("user", "works_at", "github")]


def test_an_end_without_its_year_lies_ahead() -> None:
    assert day(only("I live in Rome till 31 December.").valid_to) == "2025-01-01"
    assert day(only("I live in Rome until January 5.").valid_to) == "2025-01-06"


def test_one_way_of_writing_for_values_that_are_equal() -> None:
    written = ("April 5, 2024", "5 April 2024", "April 5th", "2024-04-05")
    assert {only(f"My deadline is {text}.").qualifiers["value"] for text in written} == {"2024-04-05"}
    assert {only(f"My budget is {text}.").qualifiers["value"] for text in ("$6,000", "$6k", "6000 dollars")} == {
        "$6000"
    }


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("this week", "2024-03-24"),
        ("this month", "2024-03-31"),
        ("this weekend", "2024-03-23"),
        ("next weekend", "2024-03-30"),
        ("February 29", "2024-02-29"),
    ],
)
def test_a_time_in_words_is_a_day_and_gives_way_to_a_date(text: str, value: str) -> None:
    fact = only(f"My deadline is {text}.")
    assert fact.qualifiers["value"] == value
    assert may_replace(only("My deadline is now April 12."), fact)


def test_only_the_same_thing_is_replaced() -> None:
    first = only("The deadline for the first sprint is April 1")
    assert may_replace(only("The sprint deadline is now April 5"), first)
    assert not may_replace(only("The deadline for the second sprint is May 5"), first)
    assert not may_replace(only("My goal is 33%"), only("My goal is 20,000"))
    assert not may_replace(only("I have a meeting on Monday"), only("I have a meeting with Ann on Friday"))
    assert may_replace(only("I moved my meeting to Monday"), only("I have a meeting with Ann on Friday"))


def test_normalised_makes_one_key_of_the_ways_to_name_a_thing() -> None:
    assert normalised("  My  Project Cards ") == normalised("the project card") == "project card"
    assert normalised("the boss") == "boss"
    assert normalised("Our Classes") == "class"


def test_of_a_very_long_text_both_ends_are_read_and_offsets_hold() -> None:
    middle = "I like rum. " * ((300_000) // 12)
    text = f"I live in Oslo.\n{middle}\nI'm allergic to nuts."
    facts = facts_in(text, said_at=WEDNESDAY)
    assert [f.object for f in facts] == ["oslo", "rum", "nuts"]
    assert text[slice(*facts[-1].span)] == "I'm allergic to nuts"
    assert CHARS_MAX > 2 * CHARS_KEPT + 1


HOSTILE = (
    "a", "I ", "my my my our ", "1,2,3/4.5:6 ", '"a ', "```", "\n", "... ", "I like a, b, c and d, ", "may 1 ", "number of ",
    "http://a ", "-a-b_c.", "write a ", "I'm really really ", "our the a.b-c ", " ", "the service service ", "İ", "\ue001", "$1,",
    "a_", "our service a_", "Our service " + "a_" * 40 + " is on x. ",
    "I have a a-b ", "we use a. b ", "my friend ", "as a a, I ", "and I and ", "\x00",
)  # fmt: skip


@pytest.mark.parametrize("part", HOSTILE)
def test_hostile_text_ends(part: str) -> None:
    for size in (CHARS_MAX, 300_000):
        facts_in((part * (size // len(part) + 1))[:size], said_at=WEDNESDAY)


_SAID = (
    "I my our we the a is are was like love live in deadline budget of for to now April 5 $5,000 95% 10 cards sprint and , . ! ?"
    " not no longer until since March Friday 3 pm at on with wife Anna named dog from Oslo Python 3.12 always use I'm I've"
)
WORDS = st.sampled_from(
    [*_SAID.split(), "\n", "’", "“", "”", "meeting", "moved", "completed", "kids", "allergic", "who's", "36", "v1.2.3"]
)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.text(max_size=300), st.lists(WORDS, max_size=60).map(" ".join)))
def test_every_fact_rests_on_its_own_words(text: str) -> None:
    facts = facts_in(text, said_at=WEDNESDAY)
    assert [f.span for f in facts] == sorted(f.span for f in facts)
    for fact in facts:
        start, end = fact.span
        assert 0 <= start < end <= len(text)
        said = " ".join(text[start:end].replace("’", "'").casefold().split())
        assert all(word in said for word in re.findall(r"[\w.,:/$%]+", fact.object)), (fact, said)
        assert fact.subject and fact.predicate and fact.object and fact.statement
        assert fact.valid_to is None or fact.valid_to > WEDNESDAY
        assert re.fullmatch(r"[^\W\d]\w*", fact.predicate), fact


@given(st.lists(WORDS, max_size=40).map(" ".join))
@settings(max_examples=100, deadline=None)
def test_the_same_text_gives_the_same_facts_each_once(text: str) -> None:
    facts = facts_in(text, said_at=WEDNESDAY)
    assert facts == facts_in(text, said_at=WEDNESDAY)
    keys = [(f.subject, f.predicate, f.object, f.negated) for f in facts]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("My sister Anna lives in Porto. She works at Halcyon Labs.", [("sister_name", "anna"), ("sister_lives_in", "porto"), ("sister_works_at", "halcyon labs")]),
        ("My brother is called Tom. He is 32 and he is allergic to nuts.", [("brother_name", "tom"), ("brother_age", "32"), ("brother_allergic_to", "nuts")]),
        ("My boss, Maria, works for Globex.", [("boss_name", "maria"), ("boss_works_at", "globex")]),
        ("My friend got a new job at Acme Corp.", [("friend_works_at", "acme corp")]),
        ("My dog Rex is allergic to chicken.", [("dog_name", "rex"), ("dog_allergic_to", "chicken")]),
        ("My brother works at Initech. She lives in Rome.", [("brother_works_at", "initech")]),
        ("My sister met Carla. She works at Initech.", []),
        ("My sister and my brother came. She lives in Graz.", []),
        ("She works at Initech.", []),
        ("If my sister comes she lives in Rome.", []),
        ("My mother is a teacher. Does she work at Initech?", [("mother_job", "teacher")]),
        ("My sister is called Anna. Maybe she works at Initech.", [("sister_name", "anna")]),
    ],
)  # fmt: skip
def test_a_pronoun_is_resolved_where_it_can_mean_one_person_alone(text: str, expected: list[tuple[str, str]]) -> None:
    assert [(predicate, thing) for _, predicate, thing in triples(text)] == expected


BIO = "My name is Bob and I live in Paris. Always answer in French."
WITH_CONTEXT = (
    "### Task:\nRespond to the user query using the provided context, incorporating inline citations in the format [id].\n"
    "### Guidelines:\n- Do not use XML tags in your response.\n\n<context>\n{found}\n</context>\n\n{asked}"
)
WITH_PIECES = (
    "Use the following pieces of context to answer the question at the end. If you don't know the answer, just say that"
    " you don't know.\n\n{found}\n\nQuestion: {asked}\nHelpful Answer:"
)
WITH_REFERENCES = (
    "Please answer the question based on the reference materials\n\n## Citation Rules:\n- Cite by number.\n\n"
    "## My question is:\n\n{asked}\n\n## Reference Materials:\n\n{found}\n\nPlease respond in the same language."
)
WITH_ONLY_CONTEXT = "Answer the question based only on the following context:\n{found}\n\nQuestion: {asked}\n"
WITH_DOCUMENTS = "Given these documents, answer the question.\nDocuments:\n    {found}\n\nQuestion: {asked}\nAnswer:"
WITH_SOURCES = (
    "Context information from multiple sources is below.\n---------------------\n{found}\n---------------------\nGiven the"
    " information from multiple sources and not prior knowledge, answer the query.\nQuery: {asked}\nAnswer: "
)
WITH_FIELDS = (
    "[[ ## context ## ]]\n{found}\n\n[[ ## question ## ]]\n{asked}\n\nRespond with the corresponding output fields,"
    " starting with the field `[[ ## answer ## ]]`."
)
ASSISTED = (
    "You are an assistant for question-answering tasks. Use the following pieces of retrieved context to answer the"
    " question. Keep the answer concise.\nQuestion: {asked} \nContext: {found} \nAnswer:"
)
REFINED = (
    "The original query is as follows: {asked}\nWe have provided an existing answer: {found}\nWe have the opportunity to"
    " refine the existing answer (only if needed) with some more context below.\n------------\n{found}\n------------\n"
    "Refined Answer: "
)
REWRITTEN = (
    "You are an expert Q&A system that strictly operates in two modes when refining existing answers:\n1. **Rewrite** an"
    " original answer using the new context.\nNew Context: {found}\nQuery: {asked}\nOriginal Answer: In Whitby.\nNew Answer: "
)
REASONED = (
    "Answer the following questions as best you can. You have access to the following tools:\n\nsearch: finds\n\nUse the"
    " following format:\n\nQuestion: the input question you must answer\nThought: you should always think about what to do\n"
    "Observation: the result of the action\n\nBegin!\n\nQuestion: {asked}\nThought: I search.\nAction: search\n"
    "Observation: {found}\nThought:"
)
TEMPLATES = (
    WITH_ONLY_CONTEXT, WITH_DOCUMENTS, WITH_SOURCES, WITH_FIELDS, ASSISTED, REFINED, REWRITTEN, REASONED
)  # fmt: skip
MARKS = (
    f"Question: {BIO}\nContext: none.",
    f"Query: {BIO}\nOriginal Answer: none.",
    f"Begin!\n\nQuestion: {BIO}\nThought: none.",
    f"[[ ## question ## ]]\n{BIO}",
)


@pytest.mark.parametrize("found", [BIO, *MARKS])
@pytest.mark.parametrize("template", TEMPLATES)
def test_what_a_template_put_around_a_question_is_nobodys_and_the_question_is_its_askers(
    template: str, found: str
) -> None:
    assert triples(template.format(found=found, asked="Where is she?")) == []
    text = template.format(found=found, asked="I live in Rome. Where is she?")
    assert triples(text) == [("user", "lives_in", "rome")]
    assert asked_in(text).strip().startswith("I live in Rome. Where is she?")


@pytest.mark.parametrize(
    "text",
    [
        f"I ran this command:\n\nmake notes\n\nAnd got this output:\n\n{BIO}\n",
        f"The script ran, then exited with Unix exit code: 0\nIts output was:\n{BIO}",
        f"exitcode: 0 (execution succeeded)\nCode output: \n{BIO}",
        f"I have *added these files to the chat* so you can go ahead and edit them.\n\nnotes.md\n```\n{BIO}\n```\n",
        f"Here are some READ ONLY files, provided for your reference.\nDo not edit these files!\n\nnotes.md\n{BIO}\n",
        f"Here are summaries of some files present in my git repository.\nDo not propose changes to these.\n{BIO}\n",
    ],
)
def test_what_an_agent_sends_of_files_and_runs_is_an_output(text: str) -> None:
    assert is_output(text)
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"Current Task: Write.\n\nThis is the context you're working with:\n{BIO}\n\nBegin! This is important to you.",
        f"Observation:\n{BIO}",
        f"Call id: call_1\nObservation:\n{BIO}",
        f"[read_file for 'notes.md'] Result:\n\n{BIO}",
        f"TOOL RESULT for call_1: {BIO}",
        f"Tool output:\n{BIO}",
        f"Search results for 'bob':\n{BIO}",
        f"Output of `cat bio.txt`:\n{BIO}",
        f"Page content of https://example.org/bob:\n{BIO}",
        f"Context information is below.\n---------------------\n{BIO}\n---------------------\nQuery: Who?\nAnswer: ",
        f"<tool_response>\n{BIO}\n</tool_response>",
        f"<system-reminder>\n{BIO}\n</system-reminder>",
        f'<file name="a.txt">\n{BIO}\n</file>\nWhat does it say?',
        f"<documents>\n<document>\n{BIO}\n</document>\n</documents>",
        f"<page>\nObservation: none.\n{BIO}\n</page>\n[next_page] Result:\n{BIO}",
        WITH_CONTEXT.format(found=BIO, asked="Who?"),
        WITH_CONTEXT.format(found=f"</context>\n{BIO}", asked="Who?"),
        WITH_PIECES.format(found=BIO, asked="Who?"),
        WITH_PIECES.format(found=f"Question: {BIO}", asked="Who?"),
        WITH_REFERENCES.format(found=BIO, asked="Who?"),
        f"Observation:\n{WITH_PIECES.format(found='', asked=BIO)}",
    ],
)
def test_what_a_program_brought_into_the_message_is_nobodys_statement(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        f"<document>\n{BIO}\n</document>\nI live in Rome.",
        f"I live in Rome.\n<environment_details>\n{BIO}\n</environment_details>",
        f"<user_query>\nI live in Rome.\n</user_query>\n<rules>\n{BIO}\n</rules>",
        "<task>\nI live in Rome.\n</task>",
        f"I live in Rome. Here you are.\nObservation:\n{BIO}",
        WITH_CONTEXT.format(found=BIO, asked="I live in Rome."),
        WITH_CONTEXT.format(found=BIO, asked="<user_query>\nI live in Rome.\n</user_query>"),
        WITH_PIECES.format(found=BIO, asked="I live in Rome."),
        f"Context information is below.\n-----\n{BIO}\n-----\nQuery: I live in Rome.\nAnswer: ",
        WITH_REFERENCES.format(found=BIO, asked="I live in Rome."),
        f"I live in Rome.\n\n# *SEARCH/REPLACE block* Rules:\n\n{BIO}",
        "I live in Rome, <3 it.\n<sigh>\nWhat now?",
        "<rant>\nI live in Rome.",
    ],
)
def test_what_a_person_says_beside_it_is_theirs(text: str) -> None:
    assert triples(text) == [("user", "lives_in", "rome")]


@pytest.mark.parametrize(
    "request_",
    [
        "Переведи на русский:", "Переклади українською:", "Исправь ошибки:", "Traduci in italiano:", "Correggi questo:",
        "Traduza para o português:", "Vertaal naar het Nederlands:", "Przetłumacz na polski:", "Přelož do češtiny:",
        "Översätt till svenska:", "Türkçeye çevir:", "Μετάφρασε στα ελληνικά:", "ترجم إلى العربية:", "תרגם לעברית:",
        "请翻译成中文：\n", "请把下面这句话翻译成中文：\n", "帮我润色：\n", "次の文を日本語に訳してください：\n",
        "다음 문장을 한국어로 번역해 줘:\n", "แปลเป็นภาษาไทย:\n", "हिंदी में अनुवाद करो:\n", "Dịch sang tiếng Việt:",
    ],
)  # fmt: skip
def test_what_is_to_be_translated_is_nobodys_statement_whoever_asks(request_: str) -> None:
    assert triples(f"{request_} My name is Anna, I live in Berlin and I work at Google.") == []


@pytest.mark.parametrize(
    "text",
    [
        "Kunde: Ich wohne in Berlin.",
        "Benutzerin: Ich heiße Anna.",
        "Utilisateur : j'habite à Lyon.",
        "Cliente: Vivo en Madrid y me llamo Juan.",
    ],
)
def test_what_stands_behind_a_role_is_said_by_another_in_other_languages(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "request_",
    [
        "Translate this to German.", "Please translate to French", "Can you proofread it?", "Correct my grammar, please.",
        "Übersetze das ins Englische.", "Bitte korrigieren!", "Traduis en français.", "Traduce esto al español.",
        "Переведи на русский.", "Traduci in italiano", "翻译成中文", "这段话怎么翻译？", "日本語に訳してください。", "한국어로 번역해 줘",
    ],
)  # fmt: skip
def test_what_stands_above_a_request_to_translate_it_is_nobodys_statement(request_: str) -> None:
    assert triples(f"My name is Anna and I live in Berlin.\n\n{request_}") == []


@pytest.mark.parametrize(
    "rest",
    [
        "Correct me if I'm wrong.", "Summarize the plan.", "I translate to French.", "Check the weather.",
        "Translate this letter: Ich heiße Bob.", "Corrijo exámenes.", "Traduje un libro.",
    ],
)  # fmt: skip
def test_what_stands_above_another_request_is_the_speakers_own(rest: str) -> None:
    assert ("user", "lives_in", "berlin") in triples(f"I live in Berlin.\n{rest}")


@pytest.mark.parametrize(
    "text",
    [
        "I live in Berlin？",
        "My name is Wang？",
        "I live in Rome?!",
        "I'm allergic to nuts (right?)",
        "I live in Cairo؟",
    ],
)
def test_a_question_is_one_whatever_its_mark(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "value"), [("My interest rate is 3,5%.", "3.5%"), ("our conversion rate is now 12,75 %", "12.75%")]
)
def test_a_share_with_a_decimal_comma_is_read_whole(text: str, value: str) -> None:
    assert only(text).qualifiers["value"] == value


@pytest.mark.parametrize(
    "text",
    [
        "Starting next month, I live in Rome.",
        "From Monday on, I work at Google.",
        "From 2015 to 2019, I live in Rome.",
        "À partir de lundi, je travaille chez Renault.",
        "Dès le mois prochain, j'habite à Lyon.",
        "A partir del 1 de julio, vivo en Madrid.",
        "Desde el mes que viene, trabajo para Google.",
    ],
)
def test_what_the_opening_of_a_sentence_puts_ahead_or_behind_is_not_so_now(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Jusqu'en juin, j'habite à Lyon.", "", "2024-07-01"),
        ("Hasta el 31 de mayo, vivo en Madrid.", "", "2024-06-01"),
        ("Since 2019, I work at Google.", "2019-01-01", ""),
        ("Depuis 2019, j'habite à Lyon.", "2019-01-01", ""),
        ("I left Google last year, I work at Meta.", "", ""),
        ("J'habite à Lyon jusqu'à fin juin.", "", "2024-07-01"),
        ("Ich wohne in Berlin bis Jahresende.", "", "2025-01-01"),
    ],
)
def test_since_when_and_until_when_is_read_before_a_statement_too(text: str, since: str, until: str) -> None:
    fact = only(text)
    assert (day(fact.valid_from), day(fact.valid_to)) == (since, until)


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("My name is प्रिया शर्मा.", "प्रिया शर्मा"),
        ("My name is กิตติ and I like tea.", "กิตติ"),
        ("My name is Łukasz Żak.", "łukasz żak"),
        ("My name is Ana Šimić.", "ana šimić"),
        ("My name is Maria da Silva.", "maria da silva"),
        ("My name is Ludwig van Beethoven.", "ludwig van beethoven"),
        ("Me llamo Juan Carlos de la Cruz.", "juan carlos de la cruz"),
        ("Je m'appelle Charles de Gaulle.", "charles de gaulle"),
        ("My name is Иван Петров.", "иван петров"),
        ("Ich heiße eigentlich Maria.", "maria"),
        ("Je m'appelle aussi Marie.", "marie"),
    ],
)
def test_a_name_is_learnt_whole_in_any_script(text: str, name: str) -> None:
    assert ("user", "name", name) in triples(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I live in Łódź.", ("lives_in", "łódź")),
        ("I moved to Żory.", ("lives_in", "żory")),
        ("I live in İzmir.", ("lives_in", "i̇zmir")),
        ("I live in दिल्ली.", ("lives_in", "दिल्ली")),
        ("I live in 東京.", ("lives_in", "東京")),
        ("I moved from Łódź to Berlin.", ("lives_in", "berlin")),
        ("My wife is called Émilie.", ("wife_name", "émilie")),
        ("My brother Óscar is here.", ("brother_name", "óscar")),
    ],
)
def test_a_place_and_a_person_are_learnt_whatever_letter_they_begin_with(text: str, expected: tuple[str, str]) -> None:
    assert triples(text) == [("user", *expected)]


def test_an_end_names_a_place_whatever_letter_it_begins_with() -> None:
    for place in ("Łódź", "दिल्ली"):
        fact = only(f"I no longer live in {place}.")
        assert (fact.predicate, fact.object, fact.negated) == ("lives_in", place.casefold(), True)


@pytest.mark.parametrize("name", ["Émilie", "Şule", "Jörg", "Zoë", "Łucja", "Анна", "प्रिया", "美咲"])
def test_she_is_nobody_where_another_was_named_in_any_script(name: str) -> None:
    assert triples(f"My sister visited {name} today. She lives in Paris.") == []


@pytest.mark.parametrize(
    "text",
    [
        "I live in Rome, sorry, Łódź.", "I live in Rome, no wait, Żory.", "I live in Rome, I mean Örebro.",
        "I moved to Rome in 2010 and to Łódź in 2015.", "I moved to Rome and then to Łódź.",
        "Ich wohne in Berlin, nein, Łódź.",
    ],
)  # fmt: skip
def test_what_is_taken_back_for_a_place_in_any_letters_was_not_said(text: str) -> None:
    assert ("user", "lives_in", "rome") not in triples(text)
    assert ("user", "lives_in", "berlin") not in triples(text)


@pytest.mark.parametrize(
    "text",
    [
        "Je m'appelle plus Durand.", "Ich heiße mit Nachnamen anders.", "Ich heiße wie Goethe.", "Me llamo igual que Ana.",
        "Ich mag gar nichts.", "Ich mag eigentlich nichts Süßes.", "J'aime peu le café.", "J'aime absolument rien.",
        "Ich liebe gar niemanden.", "No  vivo en Madrid.", "No  me gusta el café.", "Vivo en constante miedo.",
        "J'habite en pleine campagne.", "J'habite en maison.", "Vivo en familia.", "Ich lebe in Saus und Braus.",
        "Ich arbeite für Kunden in Berlin.", "Trabajo en Recursos Humanos.",
    ],
)  # fmt: skip
def test_a_denial_a_likeness_and_a_way_of_living_are_no_facts_in_other_languages(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "rest", [" (Italy)", " :)", " ;-)", " <3 :D", " (the one in Italy, not the one in Georgia, as people here think)"]
)
def test_a_line_that_ends_with_a_bracket_or_a_smile_is_said(rest: str) -> None:
    assert triples(f"I live in Rome{rest}") == [("user", "lives_in", "rome")]
    assert triples(f"My budget is $500{rest}") == [("user", "budget", "$500")]


@pytest.mark.parametrize(
    "line", ['print("I live in Rome")', '    "I live in Rome")', "greet(I live in Rome)", 'f("a", "I live in Rome"))']
)
def test_a_call_is_said_by_nobody(line: str) -> None:
    assert triples(line) == []


@pytest.mark.parametrize(
    "aside",
    ["btw", ", by the way", "lol", "tbh", "too", "as well", "of course", "please", "thanks", "still", "😀", "👍 ❤️", "…", "btw lol", ", just so you know", "if that helps"],
)  # fmt: skip
@pytest.mark.parametrize("behind", ["", ".", "!\nOk.", ", and I'm tired."])
def test_what_is_said_by_the_way_is_no_part_of_a_thing(aside: str, behind: str) -> None:
    for said in ("I prefer tea", "I like tea", "We use tabs", "My favourite colour is green", "I'm a nurse", "I'm 34"):
        found = triples(f"{said}{'' if aside[0] in ',…' else ' '}{aside}{behind}")
        assert found == triples(f"{said}."), found


def test_by_the_way_opens_a_sentence_too() -> None:
    assert triples("It is fine. By the way, I like tea. I'm fine 😀 We use tabs") == [
        ("user", "likes", "tea"),
        ("team", "uses", "tabs"),
    ]


@pytest.mark.parametrize("when", ["now", "right now", "these days", "at the moment", "for now", "nowadays"])
def test_at_present_is_no_part_of_a_thing(when: str) -> None:
    for said in ("I prefer tea", "I like tea", "We use tabs", "We deploy with Docker", "I'm allergic to nuts"):
        assert triples(f"{said} {when}") == triples(said)


@pytest.mark.parametrize(
    "text",
    [
        "A customer wrote this, can you draft a reply?\n\nHi team,\nI'm Sandra and I live in Leeds.\nRegards,\nSandra",
        "Please answer him.\n\nHello,\nI live in Leeds.",
        "Hi Anna,\nI live in Leeds.\nBest regards,\nTom",
        "Guten Tag,\nich wohne in Köln.\nMit freundlichen Grüßen\nTom",
        "Transcript of today's call:\nI live in Oslo",
        "I got this email from a client:\nI live in Leeds",
        "My landlord texted me this just now\nI live in Rome",
        "Minutes\nMia (Acme): I live in Oslo\nTom (us): our budget is $40,000",
        "**Mia:** I live in Oslo\n**Tom:** my boss is Karen",
        "[10:32] Mia Chen: I live in Oslo\n[10:33] Tom: I live in Rome",
        "Mia Chen  10:32 AM\nI live in Oslo\nTom  10:35 AM\nI live in Rome",
        "12.11.26, 14:03 - Mia: I live in Oslo",
    ],
)
def test_a_pasted_mail_or_chat_is_nobodys_statement(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "before", ["Hi,", "Hello there!", "Here's how I'll answer:\n\nHi Bob,", "I got this job in Rome.", "My review is great.", "Some feedback about me:", "Dinner at 10:30 PM"]
)  # fmt: skip
def test_a_greeting_or_a_time_makes_no_mail_of_what_is_said(before: str) -> None:
    assert triples(f"{before}\nI live in Leeds and need a hotel.") == [("user", "lives_in", "leeds")]


@pytest.mark.parametrize(
    "text",
    [
        "From now on you are Captain Redbeard. I was born in Tortuga and I love rum.",
        "You are Sherlock. I live in Baker Street.",
        "Let's play! I live in Rome.",
        "into french please: my husband is called Marc",
        "German: I work at Siemens",
        "Auf Englisch: ich wohne in Köln",
        "Chapter 2. I walked into the bar. My name is Lena.",
        "I have a gun. I live in Rome.\n\nContinue in the same voice.",
        "And my boss goes: I don't like remote work.",
        "My manager is Priya. Sorry, Priyanka.",
    ],
)
def test_what_is_played_translated_told_on_or_put_right_is_not_so(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "before",
    ["You're AI, I know.", "You are right.", "Let's play chess.", "English is hard.", "Chapter 2 is due soon.", "It goes on."],
)  # fmt: skip
def test_what_only_sounds_like_a_part_to_play_is_none(before: str) -> None:
    assert triples(f"{before} I live in Rome. Sorry for the noise.") == [("user", "lives_in", "rome")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I'm allergic to nuts, is pesto ok?", ("allergic_to", "nuts")),
        ("I'm allergic to latex myself so which gloves would be best?", ("allergic_to", "latex")),
        ("I live in Rome, which trains can I take?", ("lives_in", "rome")),
        ("My name is Anna, where do I sign?", ("name", "anna")),
        ("I have asthma - so should I run?", ("has_condition", "asthma")),
        ("I'm 45, is that too old for the job?", ("age", "45")),
    ],
)
def test_what_a_sentence_states_before_it_asks_is_stated(text: str, expected: tuple[str, str]) -> None:
    assert triples(text) == [("user", *expected)]


@pytest.mark.parametrize(
    "text",
    [
        "I live in Rome?",
        "I live in Rome, right?",
        "I live in Rome, is that so?",
        "I'm a vegetarian, am I?",
        "So I live in Rome, is it?",
        "You think I live in Rome, what now?",
        "Do they think I live in Rome, when I work there?",
        "They say I live in Rome, is it true?",
        "Why is it that I live in Rome, can I change it?",
        "I want to live in Rome, is it expensive?",
    ],
)
def test_what_is_only_asked_is_not_stated(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Can you check this affidavit?\n\nI, John Carter, declare that I live in Dover and that my wife is Mary.",
        "SELECT * FROM users;\n-- my boss is Karen\nreturns nothing",
        "name,city,note\nAna,Porto,I live in Porto\nBo,Malmo,my budget is $500",
        "Help with lyrics:\nI'm a rolling stone. I live in Rome",
        "Verse two: I live in Rome and I hate the rain",
        "Korean pls: I have a meeting on Monday",
        "My landlord Herr Wolf is loud.",
    ],
)
def test_a_table_a_comment_a_song_and_a_document_are_nobodys_statement(text: str) -> None:
    assert triples(text) == []


def test_a_version_is_named_whole_in_what_a_team_uses() -> None:
    assert ("team", "uses", "node 20.1.0") in triples("We use Node 20.1.0.")


def test_what_stands_behind_a_request_to_correct_this_is_nobodys_statement() -> None:
    assert triples("¿Puedes corregir esto? Vivo en Lima. Mi hermana se llama Eva.") == []
    assert triples("Corrige ça. J'habite à Lyon.") == []


def test_an_instruction_is_quoted_as_it_was_given() -> None:
    assert only("always cite in OSCOLA style please :)").statement.endswith("“always cite in OSCOLA style please :)”")


@pytest.mark.parametrize(
    ("text", "thing"),
    [
        ("Ich mag Jazz sehr, aber keine Oper.", "jazz"),
        ("J'aime le café beaucoup.", "café"),
        ("Ich mag Spinnen eigentlich ganz gern.", "spinnen"),
        ("J'aime bien le café quand même.", "café"),
        ("Me gusta el café la verdad.", "café"),
        ("Adoro il caffè davvero.", "caffè"),
        ("I like tea and work at night.", "tea"),
        ("I check this daily\nI like tea and have a lot.", "tea"),
    ],
)
def test_how_much_and_what_one_does_beside_is_nothing_liked(text: str, thing: str) -> None:
    assert triples(text) == [("user", "likes", thing)]


@pytest.mark.parametrize("then", ["actually it was cancelled, ignore that", "Scratch that.", "But it got cancelled!"])
def test_what_the_next_sentence_calls_off_is_not_to_come(then: str) -> None:
    assert triples(f"I have a meeting on Thursday. {then}") == []


def test_what_is_so_in_real_life_is_stated() -> None:
    assert triples("In real life I'm a nurse and in fact I live in Oslo.") == [
        ("user", "job", "nurse"),
        ("user", "lives_in", "oslo"),
    ]


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("Remember that I parked on level three, row B.", "I parked on level three, row B"),
        ("hey uh remember that I parked on level three row B", "I parked on level three row B"),
        ("Please don't forget my locker is next to the sauna.", "my locker is next to the sauna"),
        ("Keep in mind that our cleaner comes every second Monday!", "our cleaner comes every second Monday"),
        ("Merk dir bitte, dass mein Spind neben der Sauna ist.", "mein Spind neben der Sauna ist"),
        ("N'oublie pas que mon vélo est au garage.", "mon vélo est au garage"),
        ("Recuerda que mi taquilla es la cuarenta.", "mi taquilla es la cuarenta"),
        ("Não te esqueças que a minha avó faz anos em maio.", "a minha avó faz anos em maio"),
        ("Ricordati che la mia bici è in cantina.", "la mia bici è in cantina"),
        ("Onthoud dat mijn fiets in de kelder staat.", "mijn fiets in de kelder staat"),
    ],
)
def test_what_is_asked_to_be_remembered_is_kept_as_it_was_said(text: str, kept: str) -> None:
    fact = only(text)
    assert (fact.predicate, fact.statement) == ("asked_to_remember", f"The user asked to remember: “{kept}”")
    assert text[slice(*fact.span)] == kept


def test_what_a_rule_knows_is_not_kept_twice() -> None:
    assert triples("Remember that I live in Rome.") == [("user", "lives_in", "rome")]


@pytest.mark.parametrize(
    "text",
    [
        "Remember when we met?",
        "Remember, I told you about the boat.",
        "Do you remember that I parked on level three?",
        "Remember that water boils at 100 degrees.",
        "Remember that time we got lost.",
        "Can you remember my name?",
        "I remember that my father sang.",
        "Don't forget to call my sister.",
        "Remember how my dog used to bark.",
        "Translate: Remember that my train leaves soon.",
    ],
)
def test_what_nobody_asks_to_be_remembered_is_not_kept(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("so my name is uh Karen and I uh live in Boise", [("name", "karen"), ("lives_in", "boise")]),
        ("my name is um Karen", [("name", "karen")]),
        ("I work uh I work at at Target", [("works_at", "target")]),
        ("and i drive a i drive a Honda Odyssey", [("drives", "honda odyssey")]),
        ("im from Texas btw", [("comes_from", "texas")]),
        ("im 19", [("age", "19")]),
        ("im vegan and i dont eat honey", [("status", "vegan"), ("eats", "honey")]),
        ("ive moved to Boise", [("lives_in", "boise")]),
    ],
)
def test_what_is_dictated_or_typed_in_haste_is_read_as_it_is_meant(text: str, expected: list[tuple[str, str]]) -> None:
    facts = facts_in(text, said_at=WEDNESDAY)
    assert [(one.predicate, one.object) for one in facts] == expected
    assert all(one.object in text[slice(*one.span)].casefold() for one in facts)


@pytest.mark.parametrize(
    "text",
    ["Im Traum: ich wohne in Bonn.", "Ich ziehe um um 8.", "Um médico disse: moro em Faro.", "Im Not lernt man."],
)
def test_words_of_other_languages_are_no_haste(text: str) -> None:
    assert triples(text) == []


def test_a_name_that_is_said_twice_is_one() -> None:
    assert triples("I live in Walla Walla.") == [("user", "lives_in", "walla walla")]


@pytest.mark.parametrize("part", ["uh ", "i i ", "the the ", "im 1 ", "is um ", "a uh, "])
def test_endless_hesitation_ends(part: str) -> None:
    assert len(facts_in(part * 3_000, said_at=WEDNESDAY)) <= 40


@pytest.mark.parametrize(
    "text",
    [
        "Next ticket. Customer: I moved to York and my dog is called Rex. My name is Gordon.",
        "8 yo girl, allergic to eggs. Mother: I have asthma too.",
        "Customer #2: I'm vegan",
        "The patient reports I have asthma.",
        "Exercise 3: put it in the past. 1. I live in London.",
        "Übung: Setze ins Perfekt. 1. Ich wohne in Berlin. 2. Ich mag Kaffee.",
        "My homework: write the correct form. 1. I live in London.",
        "Fill in the gaps. I live in ___. My name is Bob.",
        "Ejercicio 2: completa. Me llamo Ana y vivo en Madrid.",
        "Bewerbung: Sehr geehrte Frau Klein, mein Name ist Timo Reuter, ich wohne in Essen.",
        "My reply: Dear Tom, my name is Bob and I live in Rome.",
        "I, the undersigned, Maria Gomez, hereby declare that I live in Toledo and my income is $40,000.",
        "Hiermit erkläre ich: ich wohne in Essen.",
        "Complétez: Je m'appelle Paul et j'ai 12 ans.",
        "I, John Doe, certify that my income is $90,000.",
        "Motivationsschreiben für Lena Vogt: Ich bin 17 Jahre alt und wohne in Gera. Ich liebe Tiere.",
        "Cover letter: I have 8 years of experience and I love fintech.",
        "I've been working at the same bank.",
    ],
)
def test_what_another_says_an_exercise_and_an_oath_are_nobodys_statement(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "My wife: she is kind. I live in Rome.",
        "I have to report that I live in Rome.",
        "Exercise: daily. I live in Rome.",
    ],
)
def test_a_note_and_ones_own_report_are_ones_own(text: str) -> None:
    assert ("user", "lives_in", "rome") in triples(text)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("I came with our daughter Fien.", ("daughter_name", "fien")),
        ("Our son lives in Oslo.", ("son_lives_in", "oslo")),
        ("We live in Bristol.", ("lives_in", "bristol")),
        ("Our accountant is Mr. Peeters.", ("accountant", "mr. peeters")),
        ("My landlord is Mr. Adeyemi.", ("landlord_name", "adeyemi")),
    ],
)
def test_what_two_have_is_of_the_one_who_says_so(text: str, expected: tuple[str, str]) -> None:
    assert triples(text) == [("user", *expected)]


def test_a_partner_of_ours_is_a_firm() -> None:
    assert triples("Our partner Acme is late. Our partner lives in Oslo.") == []


@pytest.mark.parametrize(
    ("told", "then"),
    [
        ("I don't eat pork.", "I eat pork now."),
        ("I don't eat meat or fish.", "I'm back to eating fish and meat."),
        ("I don't drink coffee, never have.", "I started drinking coffee, just at work."),
        ("I never drink alcohol.", "I drink alcohol again."),
    ],
)
def test_what_one_does_not_eat_or_drink_ends_when_one_does_again(told: str, then: str) -> None:
    denied, again = (facts_in(text, said_at=WEDNESDAY) for text in (told, then))
    assert denied
    assert all(one.negated for one in denied)
    assert all(any(contradict(statement_of(one), statement_of(other)) for other in again) for one in denied)


@pytest.mark.parametrize(
    "text",
    ["I never drink enough water.", "I don't drink like that.", "I don't eat out much.", "I started eating because I was bored.", "I started drinking again.", "I eat meat now and then.", "I eat like a pig now.", "I don't drink and drive.", "I eat healthier now.", "I drink it again.", "If I eat meat again, tell me.", "Can I eat meat again?", "I eat out now."],
)  # fmt: skip
def test_how_and_when_one_eats_is_not_what_one_eats(text: str) -> None:
    assert triples(text) == []


def test_a_season_opens_a_statement_and_a_name_goes_on_with_what_one_does() -> None:
    assert triples("We met there, and last autumn we moved to Basel.") == [("user", "lives_in", "basel")]
    assert triples("I'm Gary, I run a shop.") == [("user", "name", "gary")]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("moved to Porto last week!", ("lives_in", "porto")),
        ("Ok so just moved to Lyon.", ("lives_in", "lyon")),
        ("quit my job at Acme", ("works_at", "acme")),
        ("finally quit smoking!", ("does", "smoking")),
        ("got rid of my car", ("has", "car")),
        ("Broke up with Tom.", ("partner_name", "tom")),
        ("switched to Ableton after all, the other kept crashing", ("uses", "ableton")),
        ("update: adopted a dog named Rex", ("dog_name", "rex")),
        ("hmm I prefer tea", ("prefers", "tea")),
        ("tbh I hate coriander", ("likes", "coriander")),
    ],
)
def test_what_is_typed_without_who_did_it_was_done_by_the_one_who_types(text: str, expected: tuple[str, str]) -> None:
    fact = only(text)
    assert (fact.subject, fact.predicate, fact.object) == ("user", *expected)
    assert fact.object in text[slice(*fact.span)].casefold()


@pytest.mark.parametrize(
    "text",
    [
        "moved to tears",
        "switched to Friday",
        "moved to Rome?",
        "should have moved to Rome",
        "She left. Moved to Rome in May.",
        "Moved to Berlin in 2019\n- Worked at Acme\n- Left",
        "bought a house, good idea?",
        "Moved to Paris in 2010, worked at Renault, then left: rewrite this as a bio.",
        "switched off my phone",
    ],
)
def test_notes_questions_and_what_another_did_are_not_the_speakers(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("We dropped Stripe, we're going with Adyen after all.", [("uses", "stripe", True), ("chose", "adyen", False)]),
        ("We moved from pnpm to bun last week.", [("uses", "pnpm", True)]),
        ("We switched from pnpm to bun last week.", [("uses", "pnpm", True), ("uses", "bun", False)]),
        ("I ditched vim.", [("uses", "vim", True)]),
        ("We stopped using Jenkins in favour of Buildkite.", [("uses", "jenkins", True), ("chose_ci", "jenkins", True)]),
    ],
)  # fmt: skip
def test_a_tool_that_is_given_up_ends_and_the_one_in_its_place_is_used(
    text: str, expected: list[tuple[str, str, bool]]
) -> None:
    assert [(one.predicate, one.object, one.negated) for one in facts_in(text, said_at=WEDNESDAY)] == expected


@pytest.mark.parametrize(
    "text",
    [
        "We dropped Anna off at school.",
        "I dropped out of college.",
        "We dropped the ball.",
        "I'm going with my sister.",
    ],
)
def test_what_is_dropped_otherwise_is_no_tool(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Ich wohne in Kiel, kannst du mir einen Arzt nennen?", ("lives_in", "kiel")),
        ("Ich bin allergisch gegen Nüsse, welche Kuchen gehen?", ("allergic_to", "nüsse")),
        ("J'habite à Lyon, est-ce que c'est cher ?", ("lives_in", "lyon")),
        ("Vivo en Lima, ¿qué puedo ver?", ("lives_in", "lima")),
        ("Moro em Braga, onde posso nadar?", ("lives_in", "braga")),
        ("Abito a Torino, dove posso nuotare?", ("lives_in", "torino")),
        ("Ik woon in Utrecht, waar kan ik zwemmen?", ("lives_in", "utrecht")),
    ],
)
def test_what_a_sentence_states_before_it_asks_is_stated_in_other_languages(
    text: str, expected: tuple[str, str]
) -> None:
    assert triples(text) == [("user", *expected)]


@pytest.mark.parametrize(
    "text",
    [
        "Ich wohne in Kiel, oder?",
        "J'habite à Lyon, n'est-ce pas ?",
        "Vivo en Lima, no?",
        "Vivo en Lima, ¿no?",
        "¿Vivo en Lima, qué opinas?",
        "Was meinst du, ich wohne in Kiel, welche Stadt ist das?",
        "Wie kommt es, ich mag Kaffee, was sagst du?",
        "Onde é que moro em Braga, qual rua?",
    ],
)
def test_what_is_only_asked_in_other_languages_is_not_stated(text: str) -> None:
    assert triples(text) == []


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("In general I prefer tea.", ("prefers", "tea")),
        ("Usually I prefer tea.", ("prefers", "tea")),
        ("Hallo ich heiße Jana.", ("name", "jana")),
        ("hola me llamo Lucía", ("name", "lucía")),
        ("Bonjour je m'appelle Camille", ("name", "camille")),
    ],
)
def test_a_greeting_or_how_often_it_is_so_may_open_a_statement(text: str, expected: tuple[str, str]) -> None:
    assert triples(text) == [("user", *expected)]


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("Decision: events go through Kafka.", ("user", "decided", "events go through kafka")),
        ("For this project we indent with tabs.", ("team", "convention_indent_with", "tabs")),
        ("Also we now use feature flags (Unleash).", ("team", "uses", "feature flags")),
        ("I use Neovim, my colleague uses Emacs.", ("user", "uses", "neovim")),
        ("I've worked at Sonos since 2019.", ("user", "works_at", "sonos")),
    ],
)
def test_what_is_decided_and_used_is_learnt(text: str, key: tuple[str, str, str]) -> None:
    assert triples(text) == [key]


def test_never_is_an_order_of_a_developer_too() -> None:
    assert only("Never force-push to main, and always squash.").predicate == "instruction"


@pytest.mark.parametrize(
    "text",
    [
        "Decision: which one?",
        "I use it.",
        "I use your idea.",
        "I've worked at Google.",
        "I've worked at Google and Meta.",
    ],
)
def test_a_question_a_pointer_and_what_was_are_nothing_decided_or_used(text: str) -> None:
    assert triples(text) == []
