"""Personal data is found by its own check rules, and done with as the policy says; ordinary numbers stay.

Every number here is made up or a published sample.
"""

from __future__ import annotations

import random
from itertools import pairwise
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from memory.adapters.secret_rules import secret_detectors
from memory.envelope import DataKey
from memory.errors import EnvelopeUnreadable
from memory.write.personal import TOKEN, PersonalRedactor, SubjectTokens, revealed
from memory.write.redact import Redactor
from policies.personal import KINDS, Action, PersonalPolicy, find_personal, is_card, is_iban

TENANT, SUBJECT = UUID(int=1), UUID(int=2)
SECRETS = Redactor(secret_detectors())
FOUND = {
    "email": ["bob.smith+x@mail.example.co.uk", "jürgen@köln.de", "o'brien@example.com"],
    "phone": ["+44 20 7946 0958", "(415) 555-2671", "0049 30 1234567", "13800138000"],
    "iban": ["DE89 3704 0044 0532 0130 00", "GB29NWBK60161331926819", "FR14 2004 1010 0505 0001 3M02 606"],
    "card": ["4111 1111 1111 1111", "5500-0000-0000-0004", "378282246310005"],
    "national-id": [
        "12345678Z", "X1234567L", "RSSMRA85T10A562S", "1 84 12 76 451 089 46", "529.982.247-25", "11010519491231002X",
    ],
    "address": ["221B Baker Street, London", "Hauptstraße 12, 10115 Berlin", "12 rue de la Paix, 75002 Paris",
                "Calle Mayor 5", "1600 Amphitheatre Parkway, Mountain View, CA 94043"],
}  # fmt: skip
ORDINARY = [
    "version 1.2.3.4 of 2024-05-01 10:30:00, build 1234567890123456, commit 9f8e7d6c",
    "call 2024-01-05 and text 12; we sold 1,234,567 units for $12.50 in 2023",
    "the order of 30 rows, 4111 1111 1111 1112, GB29NWBK60161331926818, 12345678A, 529.982.247-26",
    "192.168.100.200, ISBN 978-3-16-148410-0, 50.1109, 8.6821, max_tokens=4096, user@localhost, @handle",
    "I walked down the street to the place where we met, 3 km on the way to Main Street.",
]


def policy(action: Action) -> PersonalPolicy:
    return PersonalPolicy(*[action] * len(KINDS))


def redactor(action: Action) -> PersonalRedactor:
    return PersonalRedactor(SECRETS, policy(action))


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FOUND.items() for value in values])
@pytest.mark.parametrize("around", ["{}", "it is {}, thanks", "({})", "a:\n{}\n"])
def test_what_has_a_check_rule_or_a_shape_is_masked_whole(kind: str, value: str, around: str) -> None:
    assert redactor("mask").redact(around.format(value)).text == around.format(f"[redacted:{kind}]")


@pytest.mark.parametrize(("kind", "value"), [(kind, value) for kind, values in FOUND.items() for value in values])
def test_it_is_found_in_scripts_that_set_no_blanks(kind: str, value: str) -> None:
    if kind != "address":
        around = "我的是{}吗，また{}です" if value[0] != "j" else "{}吗，{}"
        assert redactor("mask").redact(around.format(value, value)).text == around.format(*[f"[redacted:{kind}]"] * 2)


@pytest.mark.parametrize("kind", ["phone", "iban", "card", "national-id"])
@pytest.mark.parametrize("blank", ["\u00a0", "\u202f", "\u2009"])
def test_it_is_found_with_the_blanks_of_pages_and_of_print(kind: str, blank: str) -> None:
    for value in FOUND[kind]:
        assert redactor("mask").redact(f"it is {value.replace(' ', blank)}.").text == f"it is [redacted:{kind}]."


@pytest.mark.parametrize("kind", ["phone", "iban", "card", "national-id", "address"])
def test_it_is_found_behind_a_line_break_of_json(kind: str) -> None:
    for value in FOUND[kind]:
        said = f'{{"note": "x\\n{value}\\n{value}"}}'
        assert redactor("mask").redact(said).text == f'{{"note": "x\\n[redacted:{kind}]\\n[redacted:{kind}]"}}'


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("card", "４１１１１１１１１１１１１１１１"),
        ("phone", "＋８６１３８００１３８０００"),
        ("phone", "+٩٦٦٥٠١٢٣٤٥٦٧"),
    ],
)
def test_digits_of_other_scripts_are_digits(kind: str, value: str) -> None:
    assert redactor("mask").redact(f"是{value}。").text == f"是[redacted:{kind}]。"


@pytest.mark.parametrize("value", ["ada@почта.рф", "ada@xn--80a1acny.xn--p1ai", "ada@例子.com"])
def test_an_address_below_a_name_of_another_script_is_one(value: str) -> None:
    assert redactor("mask").redact(f"write to {value}, please").text == "write to [redacted:email], please"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_numbers_and_words_stay(text: str) -> None:
    assert redactor("mask").redact(text).text == text


def test_a_number_with_its_name_before_it_is_one() -> None:
    done = redactor("mask").redact("my phone is 030 1234567 and my PESEL: 44051401359").text
    assert done == "my phone is [redacted:phone] and my PESEL: [redacted:national-id]"


@pytest.mark.parametrize(
    "said",
    [
        "Mi teléfono es {}", "Mi número de teléfono: {}", "Telefonnummer: {}", "Meine Handynummer ist {}",
        "Meine Mobilnummer: {}", "Mijn telefoonnummer is {}", "Mój numer telefonu to {}", "Moje telefonní číslo je {}",
        "Il mio cellulare è {}", "Meu celular é {}", "O meu telemóvel é {}", "Мой телефон: {}", "Тел. {}",
        "номер телефона {}", "Το τηλέφωνό μου είναι {}", "رقم هاتفي هو {}", "הטלפון שלי הוא {}", "मेरा फ़ोन नंबर {}",
        "Số điện thoại của tôi là {}", "เบอร์โทรของฉันคือ {}", "휴대폰 번호는 {}", "手機號碼是{}",
    ],
)  # fmt: skip
def test_a_telephone_number_is_one_behind_its_name_in_any_language(said: str) -> None:
    assert redactor("mask").redact(said.format("0612 345 678")).text == said.format("[redacted:phone]")


@pytest.mark.parametrize("card", FOUND["card"])
@pytest.mark.parametrize("beside", ["{} 12/27", "{} 12/27 123", "{} 123", "12/27 {}", "{} 0928, Ada"])
def test_a_card_is_found_beside_its_end_and_its_check_number(card: str, beside: str) -> None:
    assert redactor("mask").redact(beside.format(card)).text == beside.format("[redacted:card]")


def test_by_default_personal_data_stays_and_secrets_go() -> None:
    token = "ghp_" + "".join(random.Random(3).choices("abcDEF0123456789", k=36))
    keeping = PersonalRedactor(SECRETS, PersonalPolicy())
    assert keeping.redact(f"bob@example.com has {token}").text == "bob@example.com has [redacted:github]"


def test_each_kind_has_its_own_action() -> None:
    one = PersonalRedactor(SECRETS, PersonalPolicy(email="drop", phone="mask"))
    assert one.redact("bob@example.com, +44 20 7946 0958, 4111 1111 1111 1111").text == (
        ", [redacted:phone], 4111 1111 1111 1111"
    )


def test_a_token_is_the_same_for_the_same_value_and_turns_back() -> None:
    key = DataKey(UUID(int=9), bytes(range(32)))
    tokens = SubjectTokens(key, TENANT, SUBJECT)
    clean = redactor("tokenise").keeping(tokens)
    first, second = (
        clean.redact("write to Bob@Example.com").text,
        clean.redact("bob@example.com, or +44 20 7946 0958").text,
    )
    token = first.removeprefix("write to ")
    assert TOKEN.fullmatch(token)
    assert second.startswith(token + ", or [kept:phone:")
    assert clean.redact(second).text == second
    assert len(tokens.kept) == 2
    assert revealed(key, TENANT, SUBJECT, token, tokens.kept[token].sealed) == "Bob@Example.com"
    assert b"Example" not in tokens.kept[token].sealed
    other = next(one for one in tokens.kept if one != token)
    with pytest.raises(EnvelopeUnreadable):  # another row's envelope under this token
        revealed(key, TENANT, SUBJECT, token, tokens.kept[other].sealed)
    with pytest.raises(EnvelopeUnreadable):
        revealed(DataKey(UUID(int=9), bytes(32)), TENANT, SUBJECT, token, tokens.kept[token].sealed)


def test_tokens_of_two_people_tell_nothing_of_each_other() -> None:
    made = [
        SubjectTokens(DataKey(UUID(int=n), bytes([n]) * 32), TENANT, UUID(int=n)).token("email", "a@example.com")
        for n in (1, 2)
    ]
    assert made[0] != made[1]


def test_without_somebody_who_keeps_values_a_token_is_a_mask() -> None:
    assert redactor("tokenise").redact("bob@example.com").text == "[redacted:email]"


@pytest.mark.parametrize("value", FOUND["iban"])
def test_an_iban_in_small_letters_is_one(value: str) -> None:
    assert redactor("mask").redact(f"to {value.lower()}, please").text == "to [redacted:iban], please"


@pytest.mark.parametrize("before", ["CPF ", "CPF: ", "cpf:"])
def test_a_cpf_without_its_signs_is_one_behind_its_name(before: str) -> None:
    assert redactor("mask").redact(f"{before}52998224725.").text == f"{before}[redacted:national-id]."


@pytest.mark.parametrize("value", FOUND["iban"])
def test_one_wrong_character_makes_no_iban(value: str) -> None:
    assert is_iban(value)
    at = len(value) - 1
    assert not is_iban(value[:at] + ("1" if value[at] != "1" else "2"))


@pytest.mark.parametrize("value", FOUND["card"])
def test_one_wrong_digit_makes_no_card(value: str) -> None:
    assert is_card(value)
    assert not is_card(value[:-1] + str((int(value[-1]) + 1) % 10))


@given(st.text(alphabet=st.sampled_from("0123456789 -.()+@aZ.x/:bB,ßé\n[]kept"), max_size=200))
@settings(max_examples=300, deadline=None)
def test_any_text_settles_and_findings_lie_in_it(text: str) -> None:
    for action in ("mask", "drop"):
        one = redactor(action)
        done = one.redact(text)
        assert all(0 <= found.start < found.end <= len(text) for found in done.findings)
    spans = find_personal(text, policy("mask"))
    assert all(a.end <= b.start for a, b in pairwise(spans))


@pytest.mark.parametrize("piece", ["@", "1 ", "a@b.", "+1 ", "Main ", "DE89 ", "1", "12 rue de "])
def test_hostile_input_costs_linear_time(piece: str) -> None:
    find_personal(piece * (200_000 // len(piece)), policy("mask"))
