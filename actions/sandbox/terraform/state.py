"""The state of a root in Terraform's own form: in the root's folder, or in the bucket that a backend file names.

Source: state format version 4, Terraform 0.12 to 1.14.
"""

from __future__ import annotations

import re
import uuid
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec

from actions.base.decoding import decode_json
from actions.base.errors import FormatError
from actions.base.files import read_file, write_private

VERSION = "1.11.0-standin"
STATE_FILE = "terraform.tfstate"
_BACKUP = "terraform.tfstate.backup"
_PROVIDER = 'provider["terraform.io/builtin/terraform"]'
_ADDRESS = re.compile(r"([\w-]+)\.([\w-]+)(?:\[(.+)\])?")


class State(msgspec.Struct):
    """A state: the addresses of what is made, and the outputs."""

    lineage: str = ""
    serial: int = 0
    addresses: list[str] = []
    outputs: dict[str, str] = {}

    def encoded(self) -> bytes:
        """Return its file."""
        outputs = {name: {"value": value, "type": "string"} for name, value in self.outputs.items()}
        head = {"version": 4, "terraform_version": VERSION, "serial": self.serial, "lineage": self.lineage}
        return msgspec.json.encode({**head, "outputs": outputs, "resources": _resources(self.addresses)})


def _resources(addresses: Iterable[str]) -> list[dict[str, Any]]:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for address in addresses:
        match = _ADDRESS.fullmatch(address)
        if match is None:
            raise FormatError(f"{address} is not the address of a resource.")
        kind, name, key = match.groups()
        index = {"index_key": msgspec.json.decode(key)} if key else {}
        found.setdefault((kind, name), []).append({"schema_version": 0, "attributes": {"id": address}, **index})
    head = {"mode": "managed", "provider": _PROVIDER}
    return [{**head, "type": kind, "name": name, "instances": each} for (kind, name), each in found.items()]


class _Instance(msgspec.Struct):
    index_key: str | int | None = None


class _Resource(msgspec.Struct):
    type: str
    name: str
    instances: list[_Instance] = []

    def addresses(self) -> Iterable[str]:
        for instance in self.instances:
            key = "" if instance.index_key is None else f"[{msgspec.json.encode(instance.index_key).decode()}]"
            yield f"{self.type}.{self.name}{key}"


class _Output(msgspec.Struct):
    value: Any = None


class _Document(msgspec.Struct):
    lineage: str = ""
    serial: int = 0
    resources: list[_Resource] = []
    outputs: dict[str, _Output] = {}


def read_state(data: bytes) -> State:
    """Read a state; empty data is that of a root that was never applied.

    Raises:
        FormatError: It is not a state.
    """
    if not data.strip():
        return State()
    try:
        found = decode_json(data, _Document)
    except msgspec.DecodeError as error:
        raise FormatError(f"The state cannot be read: {error}.") from error
    addresses = [address for resource in found.resources for address in resource.addresses()]
    return State(found.lineage, found.serial, addresses, {name: str(one.value) for name, one in found.outputs.items()})


def save(store: _Folder | _Bucket, state: State) -> None:
    """Write a state as the next one of its lineage."""
    state.lineage = state.lineage or str(uuid.uuid4())
    state.serial += 1
    store.write(state.encoded())


def store_of(folder: Path) -> _Folder | _Bucket:
    """Return the place of the state of the root in `folder`."""
    for path in sorted(folder.glob("*.tf.json")):
        settings = decode_json(read_file(path), _BackendFile).terraform.backend.get("s3")
        if settings is not None:
            return _Bucket(settings)
    return _Folder(folder)


class _Folder:
    def __init__(self, folder: Path) -> None:
        self._file = folder / STATE_FILE
        self._backup = folder / _BACKUP

    def read(self) -> bytes:
        try:
            return read_file(self._file)
        except FileNotFoundError:
            return b""

    def write(self, data: bytes) -> None:
        before = self.read()
        if before:
            write_private(self._backup, before)
        write_private(self._file, data)


class _BackendSettings(msgspec.Struct):
    bucket: str
    key: str
    region: str


class _Backends(msgspec.Struct):
    backend: dict[str, _BackendSettings] = {}


class _BackendFile(msgspec.Struct):
    terraform: _Backends = msgspec.field(default_factory=_Backends)


class _Bucket:
    """A state in S3. It is not locked: a run's own fence is all that keeps two machines apart."""

    def __init__(self, settings: _BackendSettings) -> None:
        from botocore.config import Config
        from botocore.session import Session

        config = Config(s3={"addressing_style": "path"})
        self._client = Session().create_client("s3", region_name=settings.region, config=config)
        self._place = {"Bucket": settings.bucket, "Key": settings.key}

    def read(self) -> bytes:
        try:
            return bytes(self._client.get_object(**self._place)["Body"].read())
        except self._client.exceptions.NoSuchKey:
            return b""

    def write(self, data: bytes) -> None:
        self._client.put_object(**self._place, Body=data)
