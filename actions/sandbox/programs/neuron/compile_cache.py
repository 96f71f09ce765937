"""Neuron's compile cache on shared storage: the graphs in it, and the lines of compiler and wrapper about them.

Source: Neuron SDK 2.18 (neuronx-cc 2.13): layout of the cache, lines of the wrapper and of neuron_parallel_compile.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from hashlib import sha256

import msgspec

from actions.sandbox.programs.files import FileView

_COMPILER = "neuronxcc-2.13.72.0+78a426937"
_NEFF_BYTES = 41_000_000


class Graph(msgspec.Struct, frozen=True):
    """A graph that a program runs. Whatever shapes it is in its name, so that other flags miss the cache."""

    name: str

    def path(self, cache: str) -> str:
        """Return the path of its compiled form."""
        return f"{cache}/{_COMPILER}/{self.name}/model.neff"


def graphs_of(shape: dict[str, str], count: int) -> list[Graph]:
    """The graphs of a program, by all that shapes them."""
    text = json.dumps(shape, sort_keys=True)
    names = (sha256(f"{index}{text}".encode()).hexdigest() for index in range(count))
    return [Graph(f"MODULE_{int(name[:15], 16):020d}+{name[15:23]}") for name in names]


def is_cached(files: FileView, cache: str, graph: Graph) -> bool:
    """Return whether the cache holds a graph."""
    return files.file(graph.path(cache)) is not None


def keep(files: FileView, cache: str, graph: Graph) -> None:
    """Put a compiled graph into the cache."""
    files.write(graph.path(cache), b"", size_bytes=_NEFF_BYTES)


class CompilerLog:
    """Lines of Neuron's tools, with the time at which they are printed.

    Args:
        process_id: Of the process that prints.
    """

    def __init__(self, process_id: int) -> None:
        self._process_id = process_id

    def line(self, now: float, who: str, text: str) -> str:
        """Return a log line; `now` is in seconds since the epoch."""
        moment = datetime.fromtimestamp(now, UTC)
        return f"{moment:%Y-%m-%d %H:%M:%S}.{moment.microsecond:06d}:  {self._process_id}  INFO ||{who}||: {text}\n"

    def found(self, now: float, cache: str, graph: Graph) -> str:
        """Return the line for a graph that need not be compiled."""
        text = f"Using a cached neff at {graph.path(cache)}. Exiting with a successfully compiled graph."
        return self.line(now, "NEURON_CC_WRAPPER", text)

    def missing(self, now: float, cache: str, graph: Graph) -> str:
        """Return the line for a graph that has to be compiled while all processes wait."""
        text = f"Call compiler with cmd: neuronx-cc compile --target=trn1 --framework=XLA {graph.path(cache)}"
        return self.line(now, "NEURON_CC_WRAPPER", text)

    def summary(self, now: float, total: int, failed: int) -> Iterator[str]:
        """Yield the last lines of neuron_parallel_compile."""
        yield self.line(now, "PARALLEL_COMPILE", f"Total graphs: {total}")
        yield self.line(now, "PARALLEL_COMPILE", f"Total successful compilations: {total - failed}")
        yield self.line(now, "PARALLEL_COMPILE", f"Total failed compilations: {failed}")
