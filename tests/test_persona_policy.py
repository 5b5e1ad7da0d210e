"""Personas: what a header may say, and what a prompt is given of it."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from policies.injection.judge import judge
from policies.persona import BUILT_IN, FACETS, LANGUAGES, NOTHING, Style, checked, name_of, rendered, style_of


@pytest.mark.parametrize(
    ("text", "style"),
    [
        ("concise", Style("concise")),
        ("tone=dry", Style("", {"tone": "dry"})),
        ("tone=dry;verbosity=short", Style("", {"tone": "dry", "verbosity": "short"})),
        ("my own;language=sl", Style("my own", {"language": "sl"})),
        ("tone = dry ; format = tables", Style("", {"tone": "dry", "format": "tables"})),
    ],
)
def test_a_name_facets_or_both(text: str, style: Style) -> None:
    assert style_of(text) == style


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("tone=sarcastic", "known: neutral, warm, dry"),
        ("mood=dry", "known: tone, verbosity, formality, format, language"),
        ("language=klingon", "known: ar"),
        ("tone=dry;tone=warm", "given twice"),
        ("tone=dry;concise", "facet=value"),
        ("interests=sailing", "save a persona"),
        ("a/b", "none of /"),
        ("", "1 to 64"),
        (";tone=dry", "1 to 64"),
    ],
)
def test_what_is_not_known_is_refused_with_what_is(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        style_of(text)


@given(st.text(max_size=80))
def test_whatever_a_header_says_is_understood_or_refused(text: str) -> None:
    try:
        style = style_of(text)
    except ValueError:
        return
    assert checked(style.facets) == style.facets
    assert style.name == "" or name_of(style.name) == style.name


def test_every_value_is_a_wish_and_addresses_nobody() -> None:
    several = [dict(zip(FACETS, values, strict=True)) for values in itertools.product(*FACETS.values())]
    for facets in [*several, *({"language": code} for code in LANGUAGES), *BUILT_IN.values()]:
        text = rendered(facets)
        assert text.startswith("The user asks for ") and text.endswith(".")
        assert not judge(text, "foreign").quarantined, text


def test_the_same_facets_give_the_same_bytes_in_whatever_order() -> None:
    assert rendered({"tone": "dry", "verbosity": "short"}) == rendered({"verbosity": "short", "tone": "dry"})
    assert rendered({"tone": "dry", "verbosity": "short", "language": "de"}) == (
        "The user asks for a dry tone, short answers and answers in German."
    )
    assert rendered({}, " Likes puns. ") == "Likes puns."
    assert rendered({"tone": "dry"}, "Likes puns.", ["sailing", "old maps"]) == (
        "The user asks for a dry tone. The user is interested in sailing and old maps. Likes puns."
    )
    assert rendered({}) == NOTHING


def test_every_built_in_persona_is_made_of_known_facets_and_has_a_name() -> None:
    for name, facets in BUILT_IN.items():
        assert checked(facets) == facets and name_of(name) == name
