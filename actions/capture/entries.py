"""The format of a capture: one gzip stream of a first line, then entries, each with its length in front.

The first line is `eksml-capture 1`. An entry is four bytes of length, big-endian, and so many bytes of MessagePack: a
map whose key `type` names its class here. Times are seconds since the begin of the capture, of a clock that never goes
backwards. The stream may end anywhere: a console that was killed has written everything up to its last second.

docs/capture.md describes it for readers.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping

import msgspec

from actions.base.decoding import msgpack_decoder
from actions.base.errors import AccessError, ConfigError, ConsoleError, MissingError, RefusedError, UnreachableError
from actions.cluster.http.errors import ApiError, ApiStatus, SilenceError, error_of

VERSION = 1
FIRST_LINE = b"eksml-capture %d\n" % VERSION
FIRST_WORD = b"eksml-capture "
ENTRY_BYTES = 2 << 20
"""A longer entry is refused: what is longer is written in parts."""
PART_BYTES = 1 << 20
_LENGTH = struct.Struct(">I")
LENGTH_BYTES = _LENGTH.size


class CaptureEntry(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, tag_field="type"):
    """The base of all entries.

    Args:
        at: Seconds since the begin of the capture.
    """

    at: float = 0.0


class Began(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="began"):
    """The first entry."""

    wall: float
    """Seconds since the epoch."""
    program: str = ""
    """Version of the program that wrote it."""
    system: str = ""
    region: str = ""
    """AWS region of the console, for prices."""
    demo_speed: float = 0.0
    """Of the embedded cluster's workloads; 0 for any other cluster."""


class Ticked(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="ticked"):
    """A sign of life, every few seconds: how far the capture reaches although nothing has come."""

    wall: float


class Stopped(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="stopped"):
    """The last entry: the capture was ended on purpose, or has reached its limit."""

    why: str = ""


class Connected(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="connected"):
    """A session with a cluster began; requests name it by its number."""

    session: int
    context: str
    cluster: str
    server: str
    namespace: str = ""


class Asked(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="asked"):
    """A request was sent. Of a request that changes something only method and path are kept."""

    id: int
    session: int
    form: str
    """`call`, `stream`, `exec`, or `act` for one that changes something."""
    method: str = "GET"
    path: str
    query: tuple[tuple[str, str], ...] = ()
    accept: str = ""
    digest: str = ""
    """Of the body, for requests that only ask although they have one."""


class Answered(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="answered"):
    """The answer has begun."""

    id: int
    content_type: str = ""
    """Of a stream; of an exec the subprotocol."""


class AnswerPart(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="part"):
    """A part of the answer's body: whole lines of a stream, one message of an exec, or a piece of any other body."""

    id: int
    data: bytes


class AnswerEnded(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="ended"):
    """The answer is complete, or will never be.

    Args:
        error: Empty for a complete one; else `api`, `silent`, `unreachable`, `access`, `missing`, `refused`, `config`,
            `other`, `cut` for one that the console itself ended, `withheld` for one that is not kept.
    """

    id: int
    error: str = ""
    code: int = 0
    reason: str = ""
    message: str = ""


class IdentityAnswer(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="identified"):
    """The answer of STS about the caller, or the reason why there is none."""

    account: str = ""
    arn: str = ""
    region: str = ""
    profile: str = ""
    expires_at: float = 0.0
    """Seconds since the epoch; 0 for never, or unknown."""
    ends_at: float = 0.0
    trouble: str = ""


class JournalRow(msgspec.Struct, frozen=True, omit_defaults=True):
    """A record of a run's journal, as it is stored."""

    seq: int
    at: float
    writer: str
    stage: str
    attempt: int
    kind: str
    json: str


class RunWritten(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="run"):
    """Records that were new in a run's journal."""

    run: str
    rows: tuple[JournalRow, ...]


class RunLived(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="life"):
    """The state of a run's runner has changed."""

    run: str
    is_alive: bool
    token: str = ""
    """Of its lease, as in what it has written: it distinguishes an earlier runner's intents from this one's."""
    is_stalled: bool = False
    notes: Mapping[str, str] = msgspec.field(default_factory=dict)
    troubles: Mapping[str, str] = msgspec.field(default_factory=dict)


class RunShown(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="shown"):
    """Another run was put on screen; an empty text for none."""

    run: str


class RunFile(CaptureEntry, frozen=True, kw_only=True, omit_defaults=True, tag_field="type", tag="file"):
    """A file of a run's folder has grown, or was replaced."""

    run: str
    path: str
    """Below the run's folder, with `/`."""
    data: bytes = b""
    is_new: bool = False
    """The data replace what was there before; else they follow it."""


AnyEntry = (
    Began
    | Ticked
    | Stopped
    | Connected
    | Asked
    | Answered
    | AnswerPart
    | AnswerEnded
    | IdentityAnswer
    | RunWritten
    | RunLived
    | RunShown
    | RunFile
)
_encoder = msgspec.msgpack.Encoder()
decoder: msgspec.msgpack.Decoder[AnyEntry] = msgpack_decoder(AnyEntry)


def encoded(entry: AnyEntry) -> bytes:
    """Return an entry with its length in front."""
    data = _encoder.encode(entry)
    return _LENGTH.pack(len(data)) + data


def length_in(head: bytes) -> int:
    """Return the length of the entry behind these four bytes."""
    return int(_LENGTH.unpack(head)[0])


_KINDS: tuple[tuple[type[ConsoleError], str], ...] = (
    (SilenceError, "silent"),
    (UnreachableError, "unreachable"),
    (AccessError, "access"),
    (MissingError, "missing"),
    (RefusedError, "refused"),
    (ConfigError, "config"),
)
_ERRORS = {name: kind for kind, name in _KINDS}


def ended_by(error: ConsoleError, *, id: int, at: float, clean: Mapping[str, str] | None = None) -> AnswerEnded:
    """Return the entry of an answer that ended with an error.

    Args:
        error: The error.
        id: The request's number.
        at: Seconds since the begin.
        clean: Its message without secrets, under `message`.
    """
    message = (clean or {}).get("message", error.message)
    if isinstance(error, ApiError):
        status = error.status
        return AnswerEnded(id=id, at=at, error="api", code=status.code, reason=status.reason, message=message)
    name = next((name for kind, name in _KINDS if isinstance(error, kind)), "other")
    return AnswerEnded(id=id, at=at, error=name, message=message)


def error_in(ended: AnswerEnded, *, asked: str, context: str) -> ConsoleError | None:
    """Return the error that an answer ended with; `None` for a complete one, or one that the console ended."""
    if ended.error in ("", "cut"):
        return None
    if ended.error == "withheld":
        return MissingError(f"{asked} is not kept in a capture: it holds secrets.")
    if ended.error == "api":
        status = ApiStatus(ended.code, ended.reason, ended.message)
        kind = type(error_of(status, asked=asked, context=context))
        return kind(ended.message, status=status)
    return _ERRORS.get(ended.error, UnreachableError)(ended.message)
