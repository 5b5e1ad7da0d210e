"""An upload as it arrives: the bytes of its file are those that were sent, however the part is encoded."""

from __future__ import annotations

import base64
import binascii

import pytest
from aiohttp import web
from aiohttp.test_utils import TestClient, TestServer

from memory.errors import Unprocessable
from proxy.api.documents import document_name
from proxy.api.forms import read_form

CONTENT = "Grüße = größer.\r\n".encode() * 12_000


@pytest.mark.parametrize("into", [True, False], ids=["as it comes", "at once"])
@pytest.mark.parametrize(
    ("encoding", "sent"),
    [
        ("binary", CONTENT),
        ("base64", base64.encodebytes(CONTENT)),
        ("quoted-printable", binascii.b2a_qp(CONTENT, istext=False)),
        ("Quoted-Printable", b"=41" * 100_000),
    ],
)
async def test_a_file_arrives_as_it_was_before_it_was_encoded(encoding: str, sent: bytes, into: bool) -> None:
    """As by `curl -F 'file=@a;encoder=quoted-printable'`: a sign may be cut anywhere on its way."""
    taken = bytearray()

    async def take(piece: bytes) -> None:
        taken.extend(piece)

    async def handler(request: web.Request) -> web.Response:
        form = await read_form(request, (), file_bytes_max=1 << 20, idle_s=10, into=take if into else None)
        return web.Response(body=bytes(taken) if into else form.content)

    app = web.Application(client_max_size=0)
    app.router.add_post("/", handler)
    head = f'Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Transfer-Encoding: {encoding}\r\n\r\n'
    body = b"--edge\r\n" + head.encode() + sent + b"\r\n--edge--\r\n"
    async with TestClient(TestServer(app)) as client:
        answer = await client.post("/", data=body, headers={"Content-Type": "multipart/form-data; boundary=edge"})
        assert answer.status == 200
        assert await answer.read() == (b"A" * 100_000 if sent.startswith(b"=41") else CONTENT)


@pytest.mark.parametrize(
    "name",
    [
        "گزارش\u200cهای سال.pdf", "👩\u200d💻 notes.md", "\u200fדוח.pdf\u200f", "Scan at 9.41.00\u202fAM.pdf",
        "報告\u3000二.txt", "10\xa0000 names.csv",
    ],
)  # fmt: skip
def test_a_document_is_called_as_its_file_is_in_any_language(name: str) -> None:
    assert document_name(None, f"C:\\files/{name}") == name == document_name(name, "")


@pytest.mark.parametrize(
    "name", ["", " ", "\u200d", "\u200e\u200f", "a\x07b", "a\nb", "invoice\u202efdp.exe", "x" * 256]
)
def test_a_name_that_cannot_be_shown_or_turns_what_is_beside_it_is_refused(name: str) -> None:
    with pytest.raises(Unprocessable):
        document_name(name, "a.txt")
