"""Which decision stands against which: a decision as a rule found it in, the same under the key of what it decides out.

"We decided to go with Postgres" and, days later, "we stay with MySQL after all" decide one thing: the database. A tool
is decided on under its kind, so the later of two holds, and "against Postgres" ends the first. What each is for parts
them, as it does values: Postgres for orders and SQLite for the cache hold side by side. Of kinds that a team has one of
for each purpose alone; whatever is not listed stays a decision by itself. Pure; refuses nothing.
"""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from policies.fact_patterns_words import head_and_rest, word_set
from policies.fact_rule import Told

_KINDS: Final = {
    tool: kind
    for kind, tools in {
        "database": "postgres postgresql mysql mariadb sqlite mongodb mongo dynamodb cassandra",
        "broker": "kafka rabbitmq nats",
        "frontend": "react vue angular svelte",
        "cloud": "aws gcp azure",
        "ci": "jenkins circleci",
        "tracker": "jira trello asana",
        "bundler": "webpack vite",
        "warehouse": "snowflake bigquery databricks",
    }.items()
    for tool in word_set(tools)
}
_DECIDED: Final = re.compile(
    r"(?:to (?:go with|use|adopt|stay with|stick with|keep|switch to|move to)|on|for|(?P<no>against)) (?P<tool>\S+)"
    r"(?: (?:for|as) (?P<of>.+))?"
    r"|(?P<bare>\S+)"
)


def _as_choice(one: Told) -> Told:
    """A decision for or against a tool, under the tool's kind; any other as it is."""
    found = _DECIDED.fullmatch(one.object) if one.predicate in ("decided", "chose") else None
    tool = (found["tool"] or found["bare"]) if found else ""
    if found is None or tool not in _KINDS:
        return one
    of = " ".join((*head_and_rest(found["of"])[1], head_and_rest(found["of"])[0])) if found["of"] else ""
    return replace(
        one,
        predicate=f"chose_{_KINDS[tool]}",
        object=tool,
        cardinality="one",
        negated=one.negated or found["no"] is not None,
        qualifiers={**one.qualifiers, **({"of": of} if of else {})},
    )


def with_decision(one: Told, shown: str) -> list[Told]:
    """What a rule found, under the key of what it decides; behind a tool that is no longer in use, which its sentence
    shows so, the end of the decision for it.
    """
    kind = _KINDS.get(one.object)
    if kind is None or one.predicate != "uses" or "ended" not in one.qualifiers:
        return [_as_choice(one)]
    says = f"{{S}} dropped {shown}."
    ended = replace(one, subject="user", predicate=f"chose_{kind}", says=says, category="decision", cardinality="one")
    return [one, ended]
