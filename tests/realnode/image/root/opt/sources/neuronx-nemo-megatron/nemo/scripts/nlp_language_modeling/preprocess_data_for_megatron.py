"""Tokenisation of a file of JSON lines; a token is a byte."""

from __future__ import annotations

import argparse
import time
from pathlib import Path

from eksml_cpu import corpus, pile


def main() -> None:
    """Read the arguments of the real program, as far as they shape the result."""
    began, parser = time.monotonic(), argparse.ArgumentParser()
    for name in ("input", "tokenizer-library", "output-prefix"):
        parser.add_argument(f"--{name}", required=True)
    for name in ("tokenizer-type", "json-keys", "dataset-impl", "workers"):
        parser.add_argument(f"--{name}")
    for name in ("append-eod", "need-pad-id"):
        parser.add_argument(f"--{name}", action="store_true")
    given = parser.parse_args()
    pile.say(f"Opening {given.input}")
    if not Path(given.tokenizer_type, "tokenizer.model").is_file():
        raise OSError(f"{given.tokenizer_type} does not appear to have a file named tokenizer.model.")
    pile.say("Vocab size: 32000")
    pile.say(f"Output prefix: {given.output_prefix}\nTime to startup: {time.monotonic() - began:.4f}")
    corpus.tokenise(Path(given.input), Path(f"{given.output_prefix}_text_document"), every=5000)


if __name__ == "__main__":
    main()
