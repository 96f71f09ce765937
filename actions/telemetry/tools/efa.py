"""The list of `fi_info -p efa`: the EFA adapters that a process can see.

Source: libfabric 1.16 to 1.22 `util/info.c`; `docs/facts/nodes.md#fi_info`.
"""

from __future__ import annotations

import re

import msgspec

from actions.base.decoding import convert
from actions.telemetry.log_records import LogRecord, PrefixReader, split_records, strip_controls

_FIELD = re.compile(r"^\s{0,8}(provider|fabric|domain|version|type|protocol): (\S{1,200})")
_SECTION = re.compile(r"^\s{0,40}(fi_info|nic|fi_[a-z_]{2,40}_attr):$")
_DETAIL = re.compile(r"^\s{1,40}([a-z_]{2,40}): (\S{1,200})")
_DETAILS = {
    ("fi_ep_attr", "type"): "type",
    ("fi_ep_attr", "protocol"): "protocol",
    ("fi_domain_attr", "name"): "domain",
    ("fi_fabric_attr", "name"): "fabric",
    ("fi_fabric_attr", "prov_name"): "provider",
    ("fi_fabric_attr", "prov_version"): "version",
}
"""The short form's names for fields of `fi_info --verbose`."""
_ERROR = re.compile(
    r"fi_getinfo: -?\d{1,6} \([^)]{0,100}\)"
    r"|fi_info: (?:command not found|error while loading shared libraries.{0,200})|exec: \"fi_info\".{0,200}"
)
_ENDPOINT = re.compile(r"-(?:rdm|dgrm|dgram)$")


class EfaProvider(msgspec.Struct, frozen=True, gc=False):
    """A block of the list: an endpoint type of an adapter."""

    rank: int
    provider: str
    fabric: str = ""
    domain: str = ""
    """`rdmap79s0-rdm`: the adapter and the endpoint type."""
    version: str = ""
    """Version of the provider: libfabric's as `122.0`."""
    type: str = ""
    protocol: str = ""


class EfaReading(msgspec.Struct, frozen=True, gc=False):
    """The list, or the error in its place."""

    providers: tuple[EfaProvider, ...] = ()
    error: str = ""
    """`fi_getinfo: -61 (No data available)`: no adapter can be seen here."""

    def adapters_of(self, rank: int) -> int:
        """Return how many different EFA adapters one rank sees; each may be listed once for every endpoint type."""
        return len({_ENDPOINT.sub("", one.domain) for one in self.providers if one.rank == rank and is_efa(one)})


def is_efa(provider: EfaProvider) -> bool:
    """Return whether a block is about EFA; newer versions put more behind the name of the fabric."""
    return provider.provider.lower().startswith("efa") or provider.fabric.lower().startswith("efa")


def read_fi_info(text: str) -> EfaReading:
    """Read the list, of one process or of many behind mpirun's tags, short or with all details."""
    prefixes, lister = PrefixReader(), _Lister()
    for line in text.splitlines():
        for piece in split_records(line):
            record = prefixes.read(strip_controls(piece), None)
            if record is not None:
                lister.feed(record)
    return EfaReading(
        tuple(convert(block, EfaProvider, strict=False) for block in lister.blocks if "provider" in block),
        lister.error,
    )


class _Lister:
    """Collects the blocks of every rank."""

    def __init__(self) -> None:
        self.blocks: list[dict[str, str]] = []
        self.error = ""
        self._open: dict[int, dict[str, str]] = {}
        self._section: dict[int, str] = {}
        """By rank, of a block with all details: the part that is being listed."""

    def feed(self, record: LogRecord) -> None:
        """Take one line."""
        section = _SECTION.match(record.text)
        if section:
            if section[1] == "fi_info":
                self._begin(record.rank)
            self._section[record.rank] = section[1]
        elif self._section.get(record.rank):
            self._read_detail(record)
        elif field := _FIELD.match(record.text):
            if field[1] == "provider":
                self._begin(record.rank)
            if record.rank in self._open:
                self._open[record.rank].setdefault(field[1], field[2])
        elif failure := _ERROR.search(record.text):
            self.error = self.error or failure[0]

    def _begin(self, rank: int) -> None:
        self._open[rank] = {"rank": str(rank)}
        self.blocks.append(self._open[rank])

    def _read_detail(self, record: LogRecord) -> None:
        detail = _DETAIL.match(record.text)
        name = _DETAILS.get((self._section[record.rank], detail[1])) if detail else None
        if detail and name and record.rank in self._open:
            self._open[record.rank].setdefault(name, detail[2])
