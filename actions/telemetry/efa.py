"""What `fi_info -p efa` lists: the EFA adapters that a process can see.

Source: libfabric 1.16 to 1.22 `util/info.c`; FORMATS 6.
"""

from __future__ import annotations

import re

import msgspec

from actions.telemetry.lines import PrefixReader, split_records, strip_controls

_FIELD = re.compile(r"^\s{0,8}(provider|fabric|domain|version|type|protocol): (\S{1,200})")
_ERROR = re.compile(r"fi_getinfo: -?\d{1,6} \([^)]{0,100}\)")
_ENDPOINT = re.compile(r"-(?:rdm|dgrm|dgram)$")


class EfaProvider(msgspec.Struct, frozen=True, gc=False):
    """One block of the list: an endpoint type of an adapter."""

    rank: int
    provider: str
    fabric: str = ""
    domain: str = ""
    """`rdmap79s0-rdm`: the adapter and the endpoint type."""
    version: str = ""
    """Of the provider: libfabric's as `122.0`."""
    type: str = ""
    protocol: str = ""


class EfaReading(msgspec.Struct, frozen=True, gc=False):
    """What the program listed."""

    providers: tuple[EfaProvider, ...] = ()
    error: str = ""
    """`fi_getinfo: -61 (No data available)`: no adapter can be seen here."""

    def adapters_of(self, rank: int) -> int:
        """Different EFA adapters that one rank sees; each may be listed once for every endpoint type."""
        return len({_ENDPOINT.sub("", one.domain) for one in self.providers if one.rank == rank and is_efa(one)})


def is_efa(provider: EfaProvider) -> bool:
    """Whether a block is about EFA; newer versions put more behind the name of the fabric."""
    return provider.provider.lower().startswith("efa") or provider.fabric.lower().startswith("efa")


def read_fi_info(text: str) -> EfaReading:
    """Read the list, of one process or of many behind mpirun's tags."""
    prefixes = PrefixReader()
    blocks: list[dict[str, str]] = []
    open_block: dict[int, dict[str, str]] = {}
    error = ""
    for line in text.splitlines():
        for piece in split_records(line):
            record = prefixes.read(strip_controls(piece), None)
            if record is None:
                continue
            field = _FIELD.match(record.text)
            if field and field[1] == "provider":
                open_block[record.rank] = {"rank": str(record.rank), "provider": field[2]}
                blocks.append(open_block[record.rank])
            elif field and record.rank in open_block:
                open_block[record.rank].setdefault(field[1], field[2])
            elif failure := _ERROR.search(record.text):
                error = error or failure[0]
    return EfaReading(tuple(msgspec.convert(block, EfaProvider, strict=False) for block in blocks), error)
