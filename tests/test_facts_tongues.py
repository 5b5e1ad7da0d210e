"""What people say of themselves in German, French, Spanish, Portuguese, Italian and Dutch is learnt; what they ask,
suppose, deny or report is not. Of languages without rules nothing is.
"""

# ruff: noqa: E501  the cases of one kind in few lines
from __future__ import annotations

from datetime import UTC, datetime

import pytest

from policies.extraction import facts_in
from policies.fact import Fact

SAID_AT = datetime(2024, 3, 20, 12, tzinfo=UTC)


def found(text: str) -> list[Fact]:
    return facts_in(text, said_at=SAID_AT)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Oi, meu nome é Rafael e moro em Curitiba.", [("name", "rafael"), ("lives_in", "curitiba")]),
        ("Chamo-me Inês e trabalho na Galp como engenheira civil.", [("name", "inês"), ("works_at", "galp")]),
        ("Tenho 38 anos, sou médica e sou casada.", [("age", "38"), ("job", "médica"), ("marital_status", "casada")]),
        ("Minha esposa se chama Beatriz, o meu gato chama-se Pingo.", [("wife_name", "beatriz"), ("cat_name", "pingo")]),
        ("Sou alérgico a camarão e não como carne de porco.", [("allergic_to", "camarão")]),
        ("Não como carne de porco.", [("eats", "carne de porco")]),
        ("Gosto de café e de música, mas odeio coentro.", [("likes", "café"), ("likes", "coentro")]),
        ("Me mudei para Recife. Já não trabalho na Petrobras.", [("lives_in", "recife"), ("works_at", "petrobras")]),
        ("Ciao! Mi chiamo Giulia, abito a Torino e lavoro per Intesa Sanpaolo.", [("name", "giulia"), ("lives_in", "torino"), ("works_at", "intesa sanpaolo")]),
        ("Ho 27 anni e sono vegetariana.", [("age", "27"), ("status", "vegetariana")]),
        ("Sono allergica alle noci. Mi piace il jazz.", [("allergic_to", "noci"), ("likes", "jazz")]),
        ("Mia sorella si chiama Marta. Sono un'infermiera da due anni.", [("sister_name", "marta"), ("job", "infermiera")]),
        ("Mi sono appena trasferita a Genova.", [("lives_in", "genova")]),
        ("Hoi, ik heet Daan en ik woon in Utrecht.", [("name", "daan"), ("lives_in", "utrecht")]),
        ("Ik ben 31 jaar en ik werk bij Bol als ontwikkelaar.", [("age", "31"), ("works_at", "bol")]),
        ("Mijn vriendin heet Sanne. Ik eet geen vlees. Ik hou van schaatsen.", [("girlfriend_name", "sanne"), ("eats", "vlees"), ("likes", "schaatsen")]),
        ("Ik ben allergisch voor pinda's. Sinds 2019 woon ik in Den Haag.", [("allergic_to", "pinda's"), ("lives_in", "den haag")]),
        ("Ich heiße Jana und wohne in Kiel.", [("name", "jana"), ("lives_in", "kiel")]),
        ("Ich bin 34 und arbeite als Krankenschwester.", [("age", "34"), ("job", "krankenschwester")]),
        ("Seit 2019 arbeite ich bei Siemens, ich bin verheiratet.", [("works_at", "siemens"), ("marital_status", "verheiratet")]),
        ("Ich bin gegen Haselnüsse allergisch. Ich esse kein Fleisch.", [("allergic_to", "haselnüsse"), ("eats", "fleisch")]),
        ("Ich bin Vegetarierin, ich hasse Koriander.", [("status", "vegetarierin"), ("likes", "koriander")]),
        ("J'ai 41 ans, je suis infirmière au CHU.", [("age", "41"), ("job", "infirmière")]),
        ("Je ne mange pas de porc. Je déteste le céleri.", [("eats", "porc"), ("likes", "céleri")]),
        ("Tengo 29 años y soy diseñadora gráfica.", [("age", "29"), ("job", "diseñadora gráfica")]),
        ("Recuerda que soy alérgica a las nueces. No como carne.", [("allergic_to", "nueces"), ("eats", "carne")]),
        ("Me mudé a Bilbao la semana pasada.", [("lives_in", "bilbao")]),
        ("Ich selbst komme aus Ghana und wohne in Hamm.", [("comes_from", "ghana"), ("lives_in", "hamm")]),
        ("Unser Sohn heißt Emil. Ich selbst bin Elektriker.", [("son_name", "emil"), ("job", "elektriker")]),
        ("Moi c'est Karim, ma copine s'appelle Léa.", [("name", "karim"), ("girlfriend_name", "léa")]),
        ("J'ai déménagé à Pau. Ahora soy autónomo.", [("lives_in", "pau"), ("job", "autónomo")]),
        ("Wir sind letzte Woche nach Bonn gezogen.", [("lives_in", "bonn")]),
        ("Wir wohnen jetzt in Bonn.", [("lives_in", "bonn")]),
        ("On a déménagé à Lille.", [("lives_in", "lille")]),
        ("Me he mudado a Alicante por el trabajo nuevo.", [("lives_in", "alicante")]),
        ("Nos hemos mudado a Alicante.", [("lives_in", "alicante")]),
        ("Nous avons déménagé à Lille. Nous habitons à Roubaix.", [("lives_in", "lille"), ("lives_in", "roubaix")]),
        ("Nos mudamos a Madrid en abril.", [("lives_in", "madrid")]),
        ("Vivimos en Madrid.", [("lives_in", "madrid")]),
        ("Moramos em Lisboa. Nos mudamos para Faro.", [("lives_in", "lisboa"), ("lives_in", "faro")]),
        ("Abitiamo a Roma. Ci siamo trasferiti a Milano.", [("lives_in", "roma"), ("lives_in", "milano")]),
        ("Wij wonen in Gent. We zijn verhuisd naar Aalst.", [("lives_in", "gent"), ("lives_in", "aalst")]),
        ("Olá, sou a Marta, trabalho no Lidl. Faccio l'insegnante.", [("name", "marta"), ("works_at", "lidl"), ("job", "insegnante")]),
    ],
)  # fmt: skip
def test_what_people_say_of_themselves_is_learnt(text: str, expected: list[tuple[str, str]]) -> None:
    facts = found(text)
    assert [(one.predicate, one.object) for one in facts][: len(expected)] == expected
    assert all(one.subject == "user" and one.object in text[slice(*one.span)].casefold() for one in facts)


@pytest.mark.parametrize(
    "text",
    [
        "Moro em que cidade?", "Não moro em Lisboa.", "O meu irmão diz que moro em Lisboa.", "Se eu morasse em Lisboa, seria feliz.", "Talvez, moro em Lisboa.",
        "Trabalho em equipa.", "Trabalho na área de vendas.", "Gosto disso.", "Gosto da tua ideia.", "Não gosto de café.", "Gosto de quando chove.", "Sou do Benfica.", "Sou a favor.", "Je viens de manger.", "Moi, c'est le café.", "Komme ich aus Ghana?", "Tenho 10 anos de experiência.",
        "Moro na Rua Augusta.", "Eu vivo no mundo da lua.", "Sou médico de formação mas não exerço?", "Minha prima mora em Lisboa e trabalha na Galp.",
        "Escreva um conto: Meu nome é Ana e moro em Lisboa.", "Traduza: Meu nome é Ana.", "Você é um pirata. Meu nome é Jack.", "No meu sonho, moro em Paris.",
        "Non abito a Roma.", "Abito a Roma?", "Secondo mio padre abito a Roma.", "Mia madre dice: abito a Roma.", "Forse, abito a Roma.", "Se abito a Roma, pago di più.",
        "I miei amici sono simpatici e sono di Roma.", "Sono d'accordo.", "Sono stanca.", "Lavoro da casa.", "Lavoro di notte.", "Mi piace questo.", "Mi piace la tua risposta.", "Non mi piace il calcio.",
        "Un abito a righe.", "Mio fratello abita a Berlino e lavora per BMW.", "Scrivi una mail: Mi chiamo Anna e abito a Roma.", "Ho 10 anni di esperienza.", "Abito in Via Roma 3.", "Come si dice in inglese:\nVivo a Roma.",
        "Ik woon niet in Utrecht.", "Woon ik in Utrecht?", "Mijn baas zegt, ik woon in Utrecht.", "Stel, ik woon in Utrecht.", "Als ik in Utrecht woon, is het duur.", "Ik hou van dat.", "Ik hou niet van kaas.",
        "Ik werk voor vrienden.", "Ik ben 5 jaar jonger.", "Zij woont in Utrecht en werkt bij Bol.", "Schrijf een verhaal: Ik heet Daan en ik woon in Utrecht.", "Je bent een piraat. Ik heet Jack.",
        "Wir wohnen nicht in Bonn.", "Wenn wir in Bonn wohnen, fahre ich Rad.", "Wir sind nach Rom gefahren.", "Wir leben in Frieden.", "Wohnen wir in Bonn?",
        "Nous n'habitons pas à Lille.", "On a mangé à Lille.", "Vivimos en familia.", "¿Vivimos en Madrid?", "We zijn naar Gent gereden.",
        "Wohne ich in Berlin?", "Angenommen, seit 2019 wohne ich in Kiel.", "Meine Mutter sagt, jetzt wohne ich in Kiel.", "Ich bin Lehrer?", "Ich bin nicht Lehrer.", "Ich bin Autor dieses Textes.", "Er sagt, ich bin Arzt.",
        "Ich esse kein Mittag.", "Ich bin kein Vegetarier.", "Ich hasse es, wenn es regnet.", "Ich hasse das.", "Im Roman: ich bin Arzt.",
        "Je ne suis pas infirmière.", "Est-ce que je suis infirmière ?", "J'ai 10 ans d'expérience.", "Je déteste ça.", "Je déteste quand il pleut.", "Si je suis médecin, je gagne plus.",
        "No soy médico.", "¿Soy médico?", "No como antes.", "Odio esto.", "Odio cuando llueve.", "Mi hermano dice: soy médico.", "Tengo 10 años de experiencia.", "Como carne.", "Vi el concierto en vivo en Madrid.",
    ],
)  # fmt: skip
def test_what_is_asked_supposed_denied_or_another_s_gives_nothing(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    "text",
    [
        "Cześć, mam na imię Kasia i mieszkam w Krakowie. No, w sumie pod Krakowem.", "Nie jem mięsa. Mam 2 koty i 1 psa. Spotkanie mam 5 maja o 14:00.",
        "Привет, меня зовут Олег, я живу в Казани. Мне 36 лет.", "У меня аллергия на орехи. Дедлайн 15 апреля.", "안녕하세요, 제 이름은 민수이고 서울에 살아요. 회의는 4월 5일 15:00입니다.",
        "مرحبا، اسمي خالد وأعيش في عمّان. ميزانيتي $500.", "Merhaba, adım Elif, İzmir'de yaşıyorum. Et yemem, bütçe 1.500 €.", "नमस्ते, मेरा नाम अर्जुन है और मैं पुणे में रहता हूँ।",
    ],
)  # fmt: skip
def test_of_languages_without_rules_nothing_is_learnt(text: str) -> None:
    assert found(text) == []


@pytest.mark.parametrize(
    ("text", "since", "until"),
    [
        ("Moro em Braga até junho.", "", "2024-07-01"),
        ("Moro em Braga desde 2019.", "2019-01-01", ""),
        ("Abito a Torino fino al 5 maggio.", "", "2024-05-06"),
        ("Lavoro per Enel dal 2019.", "2019-01-01", ""),
        ("Ich bin seit 2019 Vater und arbeite bei Siemens.", "", ""),
        ("Ik woon in Utrecht tot eind juni.", "", "2024-07-01"),
        ("Ik werk bij Philips sinds drie jaar.", "2021-03-01", ""),
    ],
)
def test_since_when_and_until_when_is_read(text: str, since: str, until: str) -> None:
    (fact,) = found(text)
    days = [f"{one:%Y-%m-%d}" if one else "" for one in (fact.valid_from, fact.valid_to)]
    assert (days, " " in fact.object) == ([since, until], False)


@pytest.mark.parametrize(
    "text",
    [
        "Antworte mir bitte immer auf Deutsch.", "Merk dir bitte: antworte immer auf Deutsch.", "Ab jetzt bitte auf Deutsch.", "Réponds toujours en français.", "N'utilise jamais d'emojis.",
        "À partir de maintenant, réponds toujours en français.", "De ahora en adelante respóndeme siempre en español.", "Nunca uses emojis.", "A partir de agora, responda sempre em português.",
        "D'ora in poi rispondi sempre in italiano.", "Antwoord voortaan altijd in het Nederlands.", "Vanaf nu in het Nederlands.", "Vanaf nu graag korte antwoorden.", "From now on no bullet points.",
    ],
)  # fmt: skip
def test_an_instruction_is_quoted_as_it_was_given(text: str) -> None:
    (fact,) = found(text)
    assert (fact.predicate, fact.category) == ("instruction", "convention")
    assert text.strip(" .") in fact.statement


@pytest.mark.parametrize(
    "text",
    [
        "Antworte mir auf die Frage.",
        "Respondes siempre en español?",
        "Réponds à ma question.",
        "Ab jetzt wird es besser.",
    ],
)
def test_what_is_asked_for_once_is_no_instruction(text: str) -> None:
    assert [one for one in found(text) if one.predicate == "instruction"] == []


@pytest.mark.parametrize("part", ["moro ", "seit ", "ich bin ", "mi piace ", "woon met mijn ", "sono ", "no como "])
def test_hostile_text_ends(part: str) -> None:
    assert len(found(part * 2_000)) <= 40
