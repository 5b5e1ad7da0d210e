"""Whether a candidate is worth the reader's tokens: features of (query, candidate) in, a probability and a verdict out.

An unrelated question gets nothing. The score of the ranking cannot tell (it is relative to its scope); these features
are absolute. A logistic model, fitted by `python -m bench.tune_recall --fit` on gold turns against the best candidates
of questions asked of the wrong scope. Pure; refuses nothing.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class Features:
    """What is known of one candidate; `dense` and `dense_margin` are None on the rung without an embedder."""

    dense: float | None  # cosine of its best window, -1..1
    dense_margin: float | None  # the same in standard deviations above the mean of what is visible
    coverage: float  # share of the query's idf that its words (context included) hold, 0..1
    terms_held: float  # ln(1 + query terms held)


@dataclass(frozen=True, slots=True)
class Coefficients:
    """Log-odds per unit of each feature."""

    intercept: float
    dense: float
    dense_margin: float
    coverage: float
    terms_held: float


@dataclass(frozen=True, slots=True)
class Model:
    """A rung's coefficients and the least probability that is admitted."""

    coefficients: Coefficients
    threshold: float


FULL: Final = Model(Coefficients(0.0, 0.0, 0.0, 0.0, 0.0), 0.0)
LEXICAL_ONLY: Final = Model(Coefficients(0.0, 0.0, 0.0, 0.0, 0.0), 0.0)


def probability(features: Features, coefficients: Coefficients) -> float:
    """How likely a candidate like this is evidence, 0..1; an absent feature counts as 0."""
    odds = (
        coefficients.intercept
        + coefficients.dense * (features.dense or 0.0)
        + coefficients.dense_margin * (features.dense_margin or 0.0)
        + coefficients.coverage * features.coverage
        + coefficients.terms_held * features.terms_held
    )
    return 1.0 / (1.0 + math.exp(-min(max(odds, -50.0), 50.0)))


def model_for(features: Features) -> Model:
    """The model of the rung these features come from."""
    return LEXICAL_ONLY if features.dense is None else FULL


def admit(features: Features) -> tuple[bool, float]:
    """The verdict and the probability it rests on."""
    model = model_for(features)
    chance = probability(features, model.coefficients)
    return chance >= model.threshold, chance
