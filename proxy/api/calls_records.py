"""The calls about records (checkpoints), as the OpenAPI document describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_checkpoint
from proxy.api.call import BODY, CALLER, Call

_PATH: Final = "/memory/v1/checkpoints"
_ONE: Final = f"{_PATH}/{{id}}"

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
)
