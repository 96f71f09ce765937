"""The redaction of everything that is kept: texts, JSON documents, and lines of either.

Most bytes hold nothing that looks like a secret, and one search finds that out. Of the others, JSON is decoded, each of
its texts is redacted, and it is encoded again, so that it stays JSON whatever was replaced. Values of environment
variables with names such as `WANDB_API_KEY` are replaced too, wherever their form shows the name.
"""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import msgspec

from actions.base.untrusted import KNOWN, REDACTED, redact

_NAMES = "TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?"
_IS_SECRET_NAME = re.compile(rf"(?:[A-Za-z0-9_]*_)?(?:{_NAMES})(?:_ID)?", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"""(?P<head>\b(?:[A-Z0-9]+_)*(?:{_NAMES})(?:\\*["'])?\s?[=:]\s?(?:\\*["'])?)(?P<value>[^\s"'\\,;}}]{{12,}})"""
)
"""`WANDB_API_KEY=…` in a line, a script or a document in a text; shorter values are words and numbers."""
_LISTED = re.compile(
    rf"""(?P<head>\\*"name\\*":\s?\\*"[A-Za-z0-9_]*(?:{_NAMES})[A-Za-z0-9_]*\\*",\s?\\*"value\\*":\s?\\*")(?P<value>[^"\\]+)"""
)
"""The same in the JSON that an annotation holds as a text."""
_SUSPECT = (
    rb"k8s-aws-v1|AKIA|ASIA|eyJ[A-Za-z0-9_-]{10}|hf_[A-Za-z0-9]{20}|nvapi-|gh[pousr]_[A-Za-z0-9]{30}|X-Amz-S"
    rb"|(?i:authorization|aws_secret_access_key|aws_session_token)"
    rb"|\"name\\?\":\s?\\?\"[A-Za-z0-9_]*(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIAL)"
    rb"|(?:TOKEN|SECRET|PASSWORD|PASSWD|API_?KEY|ACCESS_?KEY|PRIVATE_?KEY|CREDENTIALS?)[\\\"']{0,3}\s?[=:]"
)
_SLICE_BYTES = 1 << 18
"""So much is searched at once: Python's expressions keep other threads from running meanwhile."""


@cache
def _suspect() -> Any:
    import re2  # not before something is captured

    options = re2.Options()
    options.log_errors = False
    options.encoding = re2.Options.Encoding.LATIN1  # bytes, which need not be text
    return re2.compile(_SUSPECT, options)


def is_suspect(data: bytes) -> bool:
    """Return whether there may be a secret in it."""
    if _suspect().search(data) is not None:
        return True
    return not KNOWN.is_empty and any(KNOWN.spans(data.decode("utf-8", "replace")))


def redacted_text(text: str) -> str:
    """Return a text with likely credentials, known secrets and values of secret variables replaced."""
    text = redact(text)
    text = _LISTED.sub(lambda match: f"{match['head']}{REDACTED}", text)
    return _ASSIGNED.sub(lambda match: f"{match['head']}{REDACTED}", text)


def redacted_lines(data: bytes) -> bytes:
    """Return lines of text without secrets; bytes that are no UTF-8 stay as they are in lines without any."""
    pieces = [data] if len(data) <= _SLICE_BYTES else _slices(data)
    return b"".join(_redacted(piece) if is_suspect(piece) else piece for piece in pieces)


def _redacted(piece: bytes) -> bytes:
    lines = piece.splitlines(keepends=True)
    return b"".join(
        redacted_text(line.decode("utf-8", "replace")).encode() if is_suspect(line) else line for line in lines
    )


def _slices(data: bytes) -> list[bytes]:
    """Cut at ends of lines, into pieces of a quarter of a megabyte or one long line."""
    pieces: list[bytes] = []
    begin = 0
    while begin < len(data):
        end = data.find(b"\n", min(begin + _SLICE_BYTES, len(data))) + 1 or len(data)
        pieces.append(data[begin:end])
        begin = end
    return pieces


def redacted_document(data: bytes) -> bytes:
    """Return a JSON document without secrets; anything else is redacted as text."""
    if not is_suspect(data):
        return data
    try:
        document = msgspec.json.decode(data)
    except msgspec.DecodeError:
        return _redacted(data)
    return msgspec.json.encode(_walked(document))


def redacted_documents(data: bytes) -> bytes:
    """Return lines that are one JSON document each, without secrets."""
    pieces = [data] if len(data) <= _SLICE_BYTES else _slices(data)
    return b"".join(_each(piece) if is_suspect(piece) else piece for piece in pieces)


def _each(piece: bytes) -> bytes:
    ended = [(line.rstrip(b"\n"), line.endswith(b"\n")) for line in piece.splitlines(keepends=True)]
    return b"".join(redacted_document(line) + (b"\n" if is_whole else b"") for line, is_whole in ended)


def _walked(value: Any) -> Any:
    match value:
        case str():
            return redacted_text(value)
        case dict():
            return _walked_object(value)
        case list():
            return [_walked(item) for item in value]
    return value


def _walked_object(value: dict[str, Any]) -> dict[str, Any]:
    name = value.get("name")
    hides = isinstance(name, str) and isinstance(value.get("value"), str) and _IS_SECRET_NAME.fullmatch(name)
    return {
        redacted_text(key): REDACTED
        if (hides and key == "value") or (isinstance(item, str) and item and _is_secret_key(key))
        else _walked(item)
        for key, item in value.items()
    }


def _is_secret_key(key: str) -> bool:
    """Return whether a key is the name of a secret variable, as in a mapping of them: `HF_TOKEN`."""
    return key.isupper() and _IS_SECRET_NAME.fullmatch(key) is not None
