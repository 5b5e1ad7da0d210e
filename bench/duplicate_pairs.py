"""Pairs of facts to judge by: triples with their sentences in two ways of saying, and whether they are the same.

Our own, written to be hard: whoever widens policies/same_meaning.py adds the pairs that would go wrong. A side is
`predicate | object | sentence`, of the subject user, with `!` before the predicate where it is denied.
"""

from __future__ import annotations

from typing import Final

from policies.same_meaning import Meant

SAME: Final = (
    ("lives_in | berlin | The user lives in Berlin.", "home_in | berlin | The user's home is in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "resides_in | berlin | The user resides in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "home_city | berlin | The user's home city is Berlin."),
    ("based_in | berlin | The user is based in Berlin.", "lives_in | berlin | The user lives in Berlin."),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "has_condition | peanut allergy | The user has a peanut allergy.",
    ),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "allergy | peanut | The user has an allergy to peanut.",
    ),
    (
        "is_allergic_to | the peanuts | The user is allergic to the peanuts.",
        "allergic_to | peanuts | The user is allergic to peanuts.",
    ),
    ("works_at | google | The user works at Google.", "employer | google | The user's employer is Google."),
    ("works_for | google | The user works for Google.", "employed_by | google | The user is employed by Google."),
    ("job | nurse | The user is a nurse.", "occupation | nurse | The user's occupation is nurse."),
    ("job | nurse | The user is a nurse.", "works_as | a nurse | The user works as a nurse."),
    ("wife_name | ann | The user's wife is called Ann.", "wife | ann | The user's wife is Ann."),
    ("dog_name | rex | The user's dog is called Rex.", "dog_named | rex | The user's dog is named Rex."),
    ("birthday | may 3 | The user's birthday is May 3.", "birthday | 3 may | The user's birthday is 3 May."),
    (
        "birthday | may 3 | The user's birthday is May 3.",
        "date_of_birth | 3rd of may | The user's date of birth is 3rd of May.",
    ),
    ("born_in | porto | The user was born in Porto.", "born_in | the porto | The user was born in the Porto."),
    ("hometown | porto | The user's hometown is Porto.", "home_town | porto | The user's home town is Porto."),
    ("speaks | german | The user speaks German.", "speaks_language | german | The user speaks the language German."),
    ("likes | tea | The user likes tea.", "enjoys | tea | The user enjoys tea."),
    ("likes | tea | The user likes tea.", "fond_of | tea | The user is fond of tea."),
    ("married_to | ann | The user is married to Ann.", "spouse | ann | The user's spouse is Ann."),
    ("email | a b | The user's email is a b.", "email_address | a b | The user's email address is a b."),
    ("count | two | The user has two kids.", "count | 2 | The user has 2 kids."),
    ("weekly_run | 5 km | The user's weekly run is 5 km.", "weekly_run | 5km | The user's weekly run is 5km."),
    (
        "weekly_run | 5 km | The user's weekly run is 5 km.",
        "weekly_run | 5 kilometers | The user's weekly run is 5 kilometers.",
    ),
    ("budget | $1,200 | The user's budget is $1,200.", "budget | $1200 | The user's budget is $1200."),
    ("likes | the sea | The user likes the sea.", "likes | sea | The user likes sea."),
    ("!likes | tea | The user does not like tea.", "!enjoys | tea | The user does not enjoy tea."),
    ("located_at | lisbon | The user is located at Lisbon.", "located_in | lisbon | The user is located in Lisbon."),
    ("age | 30 | The user's age is 30.", "years_old | 30 | The user is 30 years old."),
    ("comes_from | rome | The user comes from Rome.", "originally_from | rome | The user is originally from Rome."),
    ("boss | ann | The user's boss is Ann.", "boss_name | ann | The user's boss's name is Ann."),
    ("weight | 80 kg | The user's weight is 80 kg.", "weight | 80 kilos | The user's weight is 80 kilos."),
)
OTHER: Final = (
    # whether
    ("lives_in | berlin | The user lives in Berlin.", "!home_in | berlin | The user's home is not in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "home_in | berlin | The user's home is no longer in Berlin."),
    ("likes | tea | The user likes tea.", "enjoys | tea | The user never enjoys tea."),
    ("likes | tea | The user likes tea.", "dislikes | tea | The user dislikes tea."),
    ("likes | tea | The user likes tea.", "enjoys | tea | The user hardly enjoys tea."),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "allergy | peanuts | The user has no allergy to peanuts.",
    ),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "has_allergy_to | peanuts | The user may have an allergy to peanuts.",
    ),
    ("works_at | google | The user works at Google.", "employer | google | The user's employer was Google."),
    ("works_at | google | The user works at Google.", "employer | google | The user's employer will be Google."),
    ("lives_in | berlin | The user lives in Berlin.", "lives_in | the berlin | The user used to live in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "home_in | berlin | The user's former home is in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "home_in | berlin | The user wants a home in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "resides_in | berlin | The user would reside in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "based_in | berlin | The user is based in Berlin until May."),
    ("lives_in | berlin | The user lives in Berlin.", "based_in | berlin | The user is based in Berlin since 2020."),
    ("lives_in | berlin | The user lives in Berlin.", "living_in | berlin | The user is living in Berlin for now."),
    (
        "prefers | tea | The user prefers tea.",
        "has_preference_for | tea | The user has a preference for tea over coffee.",
    ),
    ("likes | tea | The user likes tea.", "enjoys | tea | The user enjoys tea without sugar."),
    ("likes | tea | The user likes tea.", "enjoys | tea | If it is cold, the user enjoys tea."),
    ("likes | tea | The user likes tea.", "loves | tea | The user loves tea."),
    # how often, how much
    ("likes | tea | The user likes tea.", "enjoys | tea | The user sometimes enjoys tea."),
    ("likes | tea | The user always likes tea.", "enjoys | tea | The user often enjoys tea."),
    (
        "works_at | google | The user works at Google.",
        "employed_by | google | The user is employed part-time by Google.",
    ),
    ("weekly_run | 5 km | The user's weekly run is 5 km.", "weekly_run | 5 miles | The user's weekly run is 5 miles."),
    ("weekly_run | 5 km | The user's weekly run is 5 km.", "weekly_run | 50 km | The user's weekly run is 50 km."),
    ("weekly_run | 5 km | The user runs 5 km weekly.", "weekly_run | the 5 km | The user runs 5 km daily."),
    ("budget | $1,200 | The user's budget is $1,200.", "budget | €1,200 | The user's budget is €1,200."),
    ("budget | 1.200 | The user's budget is 1.200.", "budget | 1200 | The user's budget is 1200."),
    ("rate | 5% | The user's rate is 5%.", "rate | 5 | The user's rate is 5."),
    ("rate | -5 | The user's rate is -5.", "rate | 5 | The user's rate is 5."),
    ("budget | over 500 | The user's budget is over 500.", "budget | under 500 | The user's budget is under 500."),
    ("budget | 500 | The user's budget is 500.", "budget | the 500 | The user's budget is almost 500."),
    ("speaks | c | The user speaks C.", "speaks_language | c++ | The user speaks the language C++."),
    ("count | two | The user has two kids.", "count | 3 | The user has 3 kids."),
    ("age | 30 | The user's age is 30.", "years_old | 31 | The user is 31 years old."),
    # plural
    ("has | dog | The user has a dog.", "has | dogs | The user has dogs."),
    ("likes | cat | The user likes the cat.", "enjoys | cats | The user enjoys cats."),
    ("employer | partner | The user's employer is a partner.", "works_for | partners | The user works for partners."),
    # date
    ("birthday | may 3 | The user's birthday is May 3.", "birth_date | may 4 | The user's birth date is May 4."),
    ("birthday | may 3 | The user's birthday is May 3.", "birth_date | march 3 | The user's birth date is March 3."),
    (
        "deadline | may 3 | The user's deadline is May 3.",
        "due_date | may 3, 2025 | The user's due date is May 3, 2025.",
    ),
    ("deadline | 3/5 | The user's deadline is 3/5.", "due_date | 5/3 | The user's due date is 5/3."),
    ("deadline | friday | The user's deadline is Friday.", "due_date | friday | The user's due date is next Friday."),
    ("deadline | may 3 | The user's deadline is May 3.", "due_by | may 3 | The user's report is due by May 3."),
    ("deadline | 3 pm | The user's deadline is 3 pm.", "due | 3 am | The user is due 3 am."),
    # who
    ("wife_name | ann | The user's wife is called Ann.", "wife | anna | The user's wife is Anna."),
    ("wife_name | ann | The user's wife is called Ann.", "sister_name | ann | The user's sister is called Ann."),
    ("wife_name | ann | The user's wife is called Ann.", "wife | ann | The user's friend's wife is Ann."),
    ("brother | bob | The user's brother is Bob.", "brother_name | bob | The user's boss's brother is called Bob."),
    ("spouse | ann | The user's spouse is Ann.", "married_to | ann | The user's brother is married to Ann."),
    ("cat | siamese | The user's cat is Siamese.", "cat_name | siamese | The user's cat is called Siamese."),
    ("dog_name | rex | The user's dog is called Rex.", "cat_name | rex | The user's cat is called Rex."),
    ("works_for | ann | The user works for Ann.", "employed_by | bob | The user is employed by Bob."),
    ("lent_to | ann | The user lent money to Ann.", "borrowed_from | ann | The user borrowed money from Ann."),
    (
        "knows | sister of bob | The user knows the sister of Bob.",
        "knows | bob of sister | The user knows Bob of sister.",
    ),
    ("knows | ann and bob | The user knows Ann and Bob.", "knows | ann or bob | The user knows Ann or Bob."),
    ("reports_to | ann | The user reports to Ann.", "manages | ann | The user manages Ann."),
    ("likes | ann | The user likes Ann.", "enjoys | ann | Ann enjoys the user and Eve."),
    ("name | ada | The user's name is Ada.", "called | ada | The user called Ada."),
    ("deadline | friday | The user's deadline is Friday.", "due | friday | The user is due Friday."),
    # what
    ("lives_in | berlin | The user lives in Berlin.", "home_in | bern | The user's home is in Bern."),
    ("lives_in | new york | The user lives in New York.", "home_in | york | The user's home is in York."),
    ("lives_in | paris, texas | The user lives in Paris, Texas.", "home_in | paris | The user's home is in Paris."),
    ("lives_in | berlin | The user lives in Berlin.", "works_in | berlin | The user works in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "born_in | berlin | The user was born in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "hometown | berlin | The user's hometown is Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "lives_near | berlin | The user lives near Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "lives_in | the berlin | The user lives in Berlin with Ann."),
    ("works_at | google | The user works at Google.", "likes | google | The user likes Google."),
    ("works_at | google | The user works at Google.", "employer | google cloud | The user's employer is Google Cloud."),
    ("job | nurse | The user is a nurse.", "occupation | head nurse | The user's occupation is head nurse."),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "has_condition | peanut intolerance | The user has a peanut intolerance.",
    ),
    (
        "allergic_to | nuts | The user is allergic to nuts.",
        "has_condition | peanut allergy | The user has a peanut allergy.",
    ),
    ("allergic_to | asthma | The user is allergic to asthma.", "has_condition | asthma | The user has asthma."),
    (
        "allergic_to | peanuts | The user is allergic to peanuts.",
        "has_condition | mild peanut allergy | The user has a mild peanut allergy.",
    ),
    ("drives | tesla | The user drives a Tesla.", "owns | tesla | The user owns a Tesla."),
    ("born_in | 1990 | The user was born in 1990.", "birthplace | 1991 | The user's birthplace is 1991."),
    ("written_in | go | The user's tool is written in Go.", "coded_in | rust | The user's tool is coded in Rust."),
    ("version | 3.1 | The user's version is 3.1.", "version | 3.10 | The user's version is 3.10."),
    ("email | a@b.de | The user's email is a@b.de.", "email_address | a@b.com | The user's email address is a@b.com."),
    ("lives_in | straße 5 | The user lives in Straße 5.", "home_in | straße 6 | The user's home is in Straße 6."),
    ("lives_in | 北京 | 用户住在北京。", "home_in | 北京 | 用户的家不在北京。"),
    ("lives_in | berlin | Der Nutzer wohnt in Berlin.", "home_in | berlin | Der Nutzer wohnte in Berlin."),
    # written when the table was done: 3 of 39 were merged, and the table lost what merged two of them
    ("lives_in | berlin | The user lives in Berlin.", "residence | berlin | The user's summer residence is Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "home_in | berlin | The user has two homes in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "based_in | berlin | The user's company is based in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "resides_in | berlin | The user's mother resides in Berlin."),
    ("lives_in | berlin | The user lives in Berlin.", "living_in | berlin | The user is living alone in Berlin."),
    ("works_at | google | The user works at Google.", "employer | google | The user's biggest employer is Google."),
    ("works_at | google | The user works at Google.", "employed_by | google | The user is self employed by Google."),
    ("works_for | google | The user works for Google.", "works_at | google | The user works at a Google office."),
    ("job | teacher | The user is a teacher.", "job_title | teacher | The user's job title is assistant teacher."),
    ("job | teacher | The user is a teacher.", "profession | teacher | The user's dream profession is teacher."),
    ("job | teacher | The user is a teacher.", "works_as | teacher | The user works as a teacher on Mondays."),
    (
        "allergic_to | milk | The user is allergic to milk.",
        "has_condition | milk allergy | The user's son has a milk allergy.",
    ),
    (
        "allergic_to | milk | The user is allergic to milk.",
        "allergies | milk | The user has allergies, milk among others.",
    ),
    (
        "allergic_to | milk | The user is allergic to milk.",
        "has_condition | milk allergy | The user had a milk allergy.",
    ),
    (
        "birthday | june 1 | The user's birthday is June 1.",
        "date_of_birth | june 1 1990 | The user's date of birth is June 1 1990.",
    ),
    (
        "birthday | june 1 | The user's birthday is June 1.",
        "birth_date | 1 june | The user's wife's birth date is 1 June.",
    ),
    ("born_in | rome | The user was born in Rome.", "birthplace | rome | The user's birthplace is near Rome."),
    ("comes_from | rome | The user comes from Rome.", "comes_from | the rome | The user comes to Rome."),
    (
        "speaks | french | The user speaks French.",
        "speaks_language | french | The user speaks the French language badly.",
    ),
    ("likes | running | The user likes running.", "enjoys | running | The user enjoys running more than swimming."),
    ("likes | running | The user likes running.", "fond_of | running | The user is less fond of running."),
    ("prefers | tea | The user prefers tea.", "has_preference_for | tea | The user has no preference for tea."),
    ("married_to | ann | The user is married to Ann.", "spouse | ann | The user's late spouse is Ann."),
    ("married_to | ann | The user is married to Ann.", "spouse_name | ann | The user's ex spouse name is Ann."),
    ("age | 40 | The user's age is 40.", "years_old | 40 | The user's car is 40 years old."),
    ("age | 40 | The user's age is 40.", "years_old | 40 | The user is over 40 years old."),
    ("email | x@y.z | The user's email is x@y.z.", "email_address | x@y.z | The user's work email address is x@y.z."),
    ("deadline | monday | The user's deadline is Monday.", "due_on | monday | The user's rent is due on Monday."),
    ("deadline | monday | The user's deadline is Monday.", "due_date | monday | The user's due date is Monday."),
    ("depends_on | redis | The user depends on Redis.", "relies_on | redis | The user relies only on Redis."),
    ("located_at | paris | The user is located at Paris.", "located_in | paris | The user is located in Paris today."),
    ("wife_name | ann | The user's wife is called Ann.", "wife_called | ann | The user's wife called Ann."),
    ("brother | tom | The user's brother is Tom.", "brother_name | tom | The user's brother Tom's name is Tom."),
    ("doctor | ann | The user's doctor is Ann.", "doctor_name | ann | The user's doctor for Ann is Ann."),
    ("count | two | The user has two kids.", "count | 2 | The user has 2 grown kids."),
    ("weight | 80 kg | The user's weight is 80 kg.", "weight | 80 | The user's weight is 80 lbs."),
    ("run | 5 km | The user's run is 5 km.", "run | 5 k | The user's run is 5 k."),
    ("name | ann lee | The user's name is Ann Lee.", "name | lee ann | The user's name is Lee Ann."),
    ("deadline | may 3 | The user's deadline is May 3.", "due_date | may 3rd | The user's due date is May 3rd."),
)


def meant(side: str) -> Meant:
    """One side of a pair."""
    predicate, words, sentence = (part.strip() for part in side.split(" | "))
    return Meant("user", predicate.removeprefix("!"), words, sentence, negated=predicate.startswith("!"))
