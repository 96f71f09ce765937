"""The meaning of a type is found by one thread at a time: msgspec ends the process where two find it at once."""

from __future__ import annotations

import subprocess
import sys

import msgspec
import pytest

from actions.base.decoding import convert, decode_json, decode_msgpack
from tests.support.sources import ROOT

_THREADS = """
import sys
import threading

import msgspec

from actions.base.decoding import convert, decode_json, decode_msgpack

sys.setswitchinterval(1e-6)
READ = {
    "json": lambda value, kind: decode_json(msgspec.json.encode(value), kind),
    "msgpack": lambda value, kind: decode_msgpack(msgspec.msgpack.encode(value), kind),
    "plain": convert,
}[sys.argv[1]]


def nested(depth):
    names = {}
    source = "import msgspec\\nclass Level0(msgspec.Struct):\\n"
    source += "".join(f"  field{index}: int | str | None = None\\n" for index in range(40))
    value = {"field39": 1}
    for level in range(1, depth):
        source += f"class Level{level}(msgspec.Struct):\\n"
        source += "".join(f"  field{index}: list[Level{level - 1}] | None = None\\n" for index in range(10))
        value = {"field9": [value]}
    exec(source, names)
    return names[f"Level{depth - 1}"], value


def together():
    kind, value = nested(6)
    begin, read = threading.Barrier(4), []

    def one():
        begin.wait()
        read.append(READ(value, kind))

    threads = [threading.Thread(target=one) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(read) == 4 and all(item == read[0] for item in read)


for _ in range(40):
    together()
"""


class Named(msgspec.Struct, forbid_unknown_fields=True):
    name: str


@pytest.mark.parametrize("what", ["json", "msgpack", "plain"])
def test_threads_that_use_a_type_for_the_first_time_at_once_all_read_it(what: str) -> None:
    done = subprocess.run([sys.executable, "-c", _THREADS, what], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_what_is_not_of_the_type_is_refused_with_its_place() -> None:
    assert decode_json(b'{"name": "a"}', Named) == Named("a")
    assert decode_msgpack(msgspec.msgpack.encode({"name": "a"}), Named) == Named("a")
    assert convert([{"name": "a"}, None], list[Named | None]) == [Named("a"), None]
    with pytest.raises(msgspec.ValidationError, match=r"Expected `str`, got `int` - at `\$\.name`"):
        decode_json(b'{"name": 1}', Named)
    with pytest.raises(msgspec.ValidationError, match=r"unknown field `x` - at `\$\[0\]`"):
        convert([{"name": "a", "x": 1}], list[Named])
