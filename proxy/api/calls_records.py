"""The calls about records (checkpoints, personas), as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_checkpoint, schemas_persona
from proxy.api.call import BODY, CALLER, Call

_PATH: Final = "/memory/v1/checkpoints"
_ONE: Final = f"{_PATH}/{{id}}"
_PERSONAS: Final = "/memory/v1/personas"
_PERSONA: Final = f"{_PERSONAS}/{{id}}"

RECORDS: Final = (
    Call(
        "POST",
        _PATH,
        "saveCheckpoint",
        "Keep a conversation as it stands, and what is said here, under a name.",
        schemas_checkpoint.CheckpointSaid,
        body=schemas_checkpoint.CheckpointAsked,
        parameters=("session_of_checkpoint", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict"),
    ),
    Call(
        "GET",
        _PATH,
        "listCheckpoints",
        "Checkpoints, newest first.",
        schemas_checkpoint.CheckpointList,
        parameters=("limit", "cursor", "order", "session", "scope"),
        errors=CALLER,
    ),
    Call(
        "GET",
        _ONE,
        "getCheckpoint",
        "One checkpoint with its parts; its version is the ETag.",
        schemas_checkpoint.CheckpointSaid,
        parameters=("checkpoint", "version", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "PATCH",
        _ONE,
        "changeCheckpoint",
        "The next version of a checkpoint.",
        schemas_checkpoint.CheckpointSaid,
        body=schemas_checkpoint.CheckpointPatch,
        parameters=("checkpoint", "if_match", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict", "version_required"),
    ),
    Call(
        "DELETE",
        _ONE,
        "deleteCheckpoint",
        "Hide a checkpoint; it can be brought back for 30 days.",
        schemas_checkpoint.CheckpointDeleted,
        parameters=("checkpoint", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "POST",
        f"{_ONE}/undelete",
        "undeleteCheckpoint",
        "Bring back the checkpoint of this name that was deleted last.",
        schemas_checkpoint.CheckpointSaid,
        parameters=("checkpoint", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/branch",
        "branchCheckpoint",
        "Another name for what a checkpoint holds now, which goes on by itself.",
        schemas_checkpoint.CheckpointSaid,
        body=schemas_checkpoint.BranchAsked,
        parameters=("checkpoint", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/load",
        "loadCheckpoint",
        "Have a conversation be given the checkpoint with its next message, once.",
        schemas_checkpoint.CheckpointLoaded,
        body=schemas_checkpoint.LoadAsked,
        parameters=("checkpoint", "scope"),
        errors=(*CALLER, *BODY, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/diff",
        "diffCheckpoint",
        "What another checkpoint, or another version of it, holds more, less and otherwise.",
        schemas_checkpoint.CheckpointDiffSaid,
        parameters=("checkpoint", "with", "from_version", "to_version", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        _PERSONAS,
        "listPersonas",
        "The personas of the scope by name, then those that everybody has.",
        schemas_persona.PersonaList,
        parameters=("scope",),
        errors=CALLER,
    ),
    Call(
        "POST",
        _PERSONAS,
        "savePersona",
        "Keep how answers are asked to be under a name.",
        schemas_persona.PersonaSaid,
        body=schemas_persona.PersonaAsked,
        parameters=("scope",),
        errors=(*CALLER, *BODY, "conflict"),
    ),
    Call(
        "GET",
        _PERSONA,
        "getPersona",
        "One persona; its version is the ETag.",
        schemas_persona.PersonaSaid,
        parameters=("persona", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "PATCH",
        _PERSONA,
        "changePersona",
        "The next version of a persona.",
        schemas_persona.PersonaSaid,
        body=schemas_persona.PersonaPatch,
        parameters=("persona", "if_match", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict", "version_required"),
    ),
    Call(
        "DELETE",
        _PERSONA,
        "deletePersona",
        "Hide a persona; it can be brought back for 30 days.",
        schemas_persona.PersonaDeleted,
        parameters=("persona", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_PERSONA}/undelete",
        "undeletePersona",
        "Bring back the persona of this name that was deleted last.",
        schemas_persona.PersonaSaid,
        parameters=("persona", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
)
