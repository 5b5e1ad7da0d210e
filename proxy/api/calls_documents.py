"""The calls of documents, as `/memory/openapi.json` describes them."""

from __future__ import annotations

from typing import Final

from proxy.api import schemas_documents as said
from proxy.api.call import BODY, CALLER, Call

FORM: Final = "multipart/form-data"

DOCUMENT_CALLS: Final = (
    Call(
        "POST",
        "/memory/v1/documents",
        "uploadDocument",
        "Have a file remembered: it is read at once, then cut, embedded and stored behind the answer. 202 while that "
        "goes on; `wait=true` answers when it is over, 60 s at most.",
        said.DocumentSaid,
        or_answer=said.DocumentTaken,
        body=said.DocumentAsked,
        body_type=FORM,
        parameters=("wait_stored", "scope", "session_header"),
        errors=(*CALLER, "memory_conflict", *BODY, "conflict"),
        also=((202, "It is kept and will be stored; `upload` says how far it is."),),
    ),
    Call(
        "GET",
        "/memory/v1/documents",
        "listDocuments",
        "Documents that are not deleted, newest first, each with its last upload.",
        said.DocumentList,
        parameters=("limit", "cursor", "order", "session", "scope"),
        errors=CALLER,
    ),
    Call(
        "GET",
        "/memory/v1/documents/{id}",
        "getDocument",
        "One document with its progress and its chunks in order, each with its page and place.",
        said.DocumentShown,
        parameters=("id", "limit", "cursor", "scope"),
        errors=(*CALLER, "not_found"),
    ),
    Call(
        "DELETE",
        "/memory/v1/documents/{id}",
        "deleteDocument",
        "Hide a document and its chunks; `as_of` still sees them. Erasure is another call.",
        said.DocumentDeleted,
        or_answer=said.DocumentGone,
        parameters=("id", "if_match_optional", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
    Call(
        "POST",
        "/memory/v1/documents/{id}/undelete",
        "undeleteDocument",
        "Show a hidden document again, with the chunks that were hidden with it; until `undo_until`.",
        said.DocumentSaid,
        parameters=("id", "scope"),
        errors=(*CALLER, "not_found", "conflict"),
    ),
)
