"""The description of the API is valid, and says of every route and error what there is."""

from __future__ import annotations

import json
from dataclasses import fields
from typing import Any, cast

from openapi_spec_validator import OpenAPIV31SpecValidator

from memory import errors
from memory.errors import Refused
from proxy.api.call import ERRORS
from proxy.api.openapi import CALLS, document
from proxy.api.own import MethodNotAllowed, OwnApi, OwnParts
from proxy.app import Unforeseen


def classes(root: type[Refused]) -> list[type[Refused]]:
    return [root, *(found for sub in root.__subclasses__() for found in classes(sub))]


def test_the_document_is_openapi_3_1() -> None:
    OpenAPIV31SpecValidator(cast(Any, document())).validate()
    assert document()["openapi"] == "3.1.0"


def test_every_route_is_described_and_nothing_else() -> None:
    nothing = OwnParts(**{one.name: cast(Any, None) for one in fields(OwnParts)})
    routes = {(route.method, route.path) for route in OwnApi(nothing).routes if route.method != "HEAD"}
    assert routes == {(call.method, call.path) for call in CALLS}


def test_every_error_has_the_status_that_its_class_has() -> None:
    every: list[type[Refused]] = [*classes(Refused), MethodNotAllowed, Unforeseen]
    known = {(one.code, one.status) for one in every}
    assert {(code, status) for code, (status, _) in ERRORS.items()} <= known
    elsewhere = known - {(code, status) for code, (status, _) in ERRORS.items() if code in ERRORS}
    # What the front and the head of any request are refused with, beside what the API's calls are.
    assert {one for one in elsewhere if one[0] in ERRORS} <= {
        ("memory_invalid", 415),
        ("memory_invalid", 416),
        ("too_large", 431),
        ("timeout", 408),
    }


def test_every_call_describes_each_error_once_and_what_it_is() -> None:
    for path, methods in document()["paths"].items():
        for method, operation in methods.items():
            assert "200" in operation["responses"], (method, path)
            for status, response in operation["responses"].items():
                said = response.get("description", response.get("$ref"))
                assert said, (method, path, status)


def test_errors_that_later_issues_bring_are_not_promised() -> None:
    later = {errors.Draining.code, errors.UpstreamUnreachable.code}
    assert later.isdisjoint(ERRORS)


def test_the_document_is_json() -> None:
    assert json.loads(json.dumps(document())) == document()
