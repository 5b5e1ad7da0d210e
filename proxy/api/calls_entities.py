"""The calls of people and things, as `/memory/openapi.json` describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_entity as said
from proxy.api.call import BODY, CALLER, Call

_PATH: Final = "/memory/v1/entities"
_ONE: Final = f"{_PATH}/{{id}}"
_TIES: Final = "/memory/v1/relationships"

ENTITY_CALLS: Final = (
    Call(
        "POST",
        _PATH,
        "addEntity",
        "Keep a person or a thing; a name that another of its type has is refused unless they are namesakes.",
        said.EntitySaid,
        body=said.EntityAsked,
        parameters=("scope",),
        errors=(*CALLER, *BODY, "conflict"),
    ),
    Call(
        "GET",
        _PATH,
        "listEntities",
        "People and things, newest first: learnt of facts, or kept by hand.",
        said.EntityList,
        parameters=("limit", "cursor", "order", "entity_type", "entity_name", "scope"),
        errors=CALLER,
    ),
    Call(
        "GET",
        _ONE,
        "getEntity",
        "One of them; its version is the ETag.",
        said.EntitySaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/history",
        "getEntityHistory",
        "How one became what it is, oldest first.",
        said.EntityHistorySaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/neighbours",
        "getNeighbours",
        "Who is near one, and what ties them.",
        said.NeighboursSaid,
        parameters=("id", "hops", "relationship_types", "at", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/paths",
        "getPaths",
        "The ways from one to another, shortest first.",
        said.PathsSaid,
        parameters=("id", "path_to", "hops", "relationship_types", "at", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "PATCH",
        _ONE,
        "changeEntity",
        "The next version of one; a learnt one is kept by hand from then on.",
        said.EntitySaid,
        body=said.EntityPatch,
        parameters=("id", "if_match", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict", "version_required"),
    ),
    Call(
        "POST",
        f"{_ONE}/merge",
        "mergeEntity",
        "Both are one from now on.",
        said.EntitySaid,
        body=said.MergeAsked,
        parameters=("id", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/split",
        "splitEntity",
        "One that was merged stands for itself again.",
        said.EntitySaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "DELETE",
        _ONE,
        "deleteEntity",
        "Hide one; it is not learnt again, and can be brought back for 30 days.",
        said.EntityDeleted,
        parameters=("id", "if_match_optional", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/undelete",
        "undeleteEntity",
        "Bring back one that was deleted, with those that are merged into it. 409 where its name was taken since.",
        said.EntitySaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict", "too_large"),
    ),
    Call(
        "POST",
        _TIES,
        "addRelationship",
        "Tie two of them; a circle is refused where there can be none.",
        said.RelationshipSaid,
        body=said.RelationshipAsked,
        parameters=("scope",),
        errors=(*CALLER, *BODY, "not_found", "conflict"),
    ),
    Call(
        "DELETE",
        f"{_TIES}/{{id}}",
        "deleteRelationship",
        "Tie them no more.",
        said.RelationshipDeleted,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
)
