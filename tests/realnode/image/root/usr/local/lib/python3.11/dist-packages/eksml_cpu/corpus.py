"""Made-up text and tokens: what a download would bring, and the files that a training maps.

The text has structure that a small model finds: its words follow each other in a fixed order of preference.
A token is a byte. `STEM.bin` has two bytes for each token, `STEM.idx` the documents' lengths.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy

VOCABULARY = 256
_TEXT = (
    "the cluster waits for a node and then trains model after model while every rank adds its gradient to the sum of "
    "all others because no step ends before its slowest worker has sent what it knows over the wire of this machine"
)
_WORDS = _TEXT.split()


def documents(seed: int, count: int) -> Iterator[str]:
    """Yield documents, the same for the same seed."""
    chosen = random.Random(seed)
    for _ in range(count):
        place, words = chosen.randrange(len(_WORDS)), []
        for _ in range(chosen.randint(40, 120)):
            words.append(_WORDS[place])
            place = (place * 5 + chosen.choice((1, 1, 1, 2))) % len(_WORDS)
        yield " ".join(words) + "."


def lines(seed: int, count: int) -> Iterator[str]:
    """Yield documents as lines of JSON."""
    return (json.dumps({"text": text, "meta": {"source": "made up"}}) + "\n" for text in documents(seed, count))


def tokenise(source: Path, stem: Path, *, every: int) -> int:
    """Turn a file of JSON lines into tokens, with a line on stderr for each `every` documents. Return their number."""
    began, done, size, lengths = time.monotonic(), 0, 0, []
    with source.open(encoding="utf-8") as text, Path(f"{stem}.bin.part").open("wb") as tokens:
        for done, line in enumerate(text, start=1):
            encoded = json.loads(line)["text"].encode()
            size += len(line)
            lengths.append(len(encoded))
            tokens.write(numpy.frombuffer(encoded, numpy.uint8).astype(numpy.uint16).tobytes())
            if done % every == 0:
                _report(done, size, began)
    Path(f"{stem}.idx").write_bytes(numpy.array(lengths, numpy.int32).tobytes())
    Path(f"{stem}.bin.part").rename(f"{stem}.bin")
    if done % every or not done:
        _report(done, size, began)
    return done


def _report(done: int, size: int, began: float) -> None:
    seconds = max(time.monotonic() - began, 1e-6)
    text = f"Processed {done} documents ({done / seconds:.2f} docs/s, {size / seconds / 1e6:.4f} MB/s).\n"
    sys.stderr.write(text)
    sys.stderr.flush()


def tokens(stems: Iterable[str]) -> numpy.ndarray:
    """Map the tokens of several files, one behind the other."""
    return numpy.concatenate([numpy.memmap(f"{stem}.bin", numpy.uint16, "r") for stem in stems])


def mock_tokens() -> numpy.ndarray:
    """Tokens without a file."""
    return numpy.frombuffer(" ".join(documents(1, 200)).encode(), numpy.uint8)
