"""Responses come whole out of bytes that are cut anywhere."""

from __future__ import annotations

import pytest

from actions.base.errors import FormatError
from actions.cluster.http.stream import HttpResponse

CHUNKED = (
    b"HTTP/1.1 200 OK\r\ncontent-type: application/json;stream=watch\r\nTransfer-Encoding: Chunked\r\n\r\n"
    b"5\r\nhello\r\n1;name=value\r\n \r\n0005\r\nworld\r\n0\r\nTrailer: x\r\n\r\n"
)
MEASURED = b"HTTP/1.1 429 Too Many Requests\r\nretry-after: 3\r\ncontent-length: 11\r\n\r\nhello world"
INFORMED = b"HTTP/1.1 103 Early Hints\r\nLink: </x>\r\n\r\n" + MEASURED
OPEN_ENDED = b"HTTP/1.0 200 OK\r\n\r\nhello world"


def _fed(*parts: bytes) -> tuple[HttpResponse, bytes]:
    response = HttpResponse()
    body = b""
    for part in parts:
        response.feed(part)
        body += response.take()
    return response, body


@pytest.mark.parametrize("whole", [CHUNKED, MEASURED, INFORMED, OPEN_ENDED])
def test_a_response_may_be_cut_at_every_byte(whole: bytes) -> None:
    for at in range(1, len(whole)):
        response, body = _fed(whole[:at], whole[at:])
        assert body == b"hello world"
        assert response.may_end
    response, body = _fed(*(whole[at : at + 1] for at in range(len(whole))))
    assert body == b"hello world"
    assert response.is_complete is (whole is not OPEN_ENDED)


def test_the_head_is_read_whatever_the_case_of_its_names() -> None:
    head = _fed(CHUNKED)[0].head
    assert head is not None
    assert (head.status, head.content_type) == (200, "application/json")
    refused = _fed(INFORMED)[0].head
    assert refused is not None
    assert (refused.status, refused.headers["Retry-After"]) == (429, "3")


@pytest.mark.parametrize("end", [len(CHUNKED) - 20, len(CHUNKED) - 30])
def test_a_body_that_is_cut_off_is_not_complete(end: int) -> None:
    response, _ = _fed(CHUNKED[:end])
    assert not response.may_end


@pytest.mark.parametrize(
    "data",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n\r\n",
        b"HTTP/1.1 all is well\r\n\r\n",
        b"x" * 70_000,
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\nhello\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n-5\r\n",
        b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n" + b"1" * 5000,
    ],
)
def test_what_is_no_http_is_an_error(data: bytes) -> None:
    with pytest.raises(FormatError):
        _fed(data)
