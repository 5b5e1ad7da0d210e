"""The calls of artifacts, as `/memory/openapi.json` describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_artifact as said
from proxy.api.call import BODY, CALLER, Call
from proxy.api.calls_documents import FORM

_PATH: Final = "/memory/v1/artifacts"
_ONE: Final = f"{_PATH}/{{id}}"
_PART: Final = (
    (206, "The bytes that Range asked for."),
    (304, "The client has them, by If-None-Match: none is sent."),
    (416, "`memory_invalid`: the file has no byte in the range; Content-Range says how many it has."),
)

ARTIFACT_CALLS: Final = (
    Call(
        "POST",
        _PATH,
        "addArtifact",
        "Keep a file outside the database, sealed; a prompt is given what it is and an excerpt. Bytes that the scope "
        "has already are answered with the file that has them.",
        said.ArtifactKept,
        body=said.ArtifactAsked,
        body_type=FORM,
        parameters=("scope", "session_header"),
        errors=(*CALLER, "memory_conflict", *BODY),
    ),
    Call(
        "GET",
        _PATH,
        "listArtifacts",
        "Files that are not deleted, newest first.",
        said.ArtifactList,
        parameters=("limit", "cursor", "order", "session", "scope"),
        errors=CALLER,
    ),
    Call(
        "GET",
        _ONE,
        "getArtifact",
        "What is known of one file; its version is the ETag.",
        said.ArtifactSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "GET",
        f"{_ONE}/content",
        "getArtifactContent",
        "Its bytes; Range, If-Match and If-None-Match are understood, by their sha256.",
        answer_type="*/*",
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict", "gone"),
        also=_PART,
    ),
    Call(
        "POST",
        f"{_ONE}/link",
        "linkArtifact",
        "A link that opens its bytes without a key until it expires.",
        said.LinkSaid,
        body=said.LinkAsked,
        parameters=("id", "scope"),
        errors=(*CALLER, *BODY, "not_found"),
    ),
    Call(
        "GET",
        "/memory/links/{tenant}/{scope}/{id}",
        "openLink",
        "The bytes that a link opens; no key is asked for.",
        answer_type="*/*",
        parameters=("link_tenant", "link_scope", "id", "expires", "sig"),
        errors=(
            "memory_invalid",
            "scope_denied",
            "not_found",
            "conflict",
            "gone",
            "store_unavailable",
            "internal_error",
        ),
        also=_PART,
    ),
    Call(
        "POST",
        f"{_ONE}/caption",
        "captionArtifact",
        "Have the chat model say what is in a picture; it stands in place of the caption.",
        said.ArtifactSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict", "gone", "unprocessable"),
    ),
    Call(
        "PATCH",
        _ONE,
        "changeArtifact",
        "What is said of a file from now on; its bytes stay.",
        said.ArtifactSaid,
        body=said.ArtifactPatch,
        parameters=("id", "if_match", "scope"),
        errors=(*CALLER, *BODY, "not_found", "conflict", "version_required"),
    ),
    Call(
        "DELETE",
        _ONE,
        "deleteArtifact",
        "Hide a file; it can be brought back for 30 days. Erasure is another call.",
        said.ArtifactDeleted,
        parameters=("id", "if_match_optional", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        f"{_ONE}/undelete",
        "undeleteArtifact",
        "Bring back a file that was deleted.",
        said.ArtifactSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found"),
    ),
)
