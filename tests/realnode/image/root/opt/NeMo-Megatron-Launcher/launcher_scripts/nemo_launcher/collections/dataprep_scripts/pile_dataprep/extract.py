"""Extraction of the Pile's files."""

import zstandard
from eksml_cpu import pile

given, folder = pile.settings()
for number in pile.share(given):
    source, path = folder / f"{number:02d}.jsonl.zst", folder / f"{number:02d}.jsonl"
    if path.exists():
        pile.say(f"File {path} already exists, skipping extraction.")
        continue
    part = path.with_suffix(".part")
    try:
        with source.open("rb") as packed, part.open("wb") as text:
            zstandard.ZstdDecompressor().copy_stream(packed, text)
    except FileNotFoundError as error:  # as in the real program, whose child process fails and who goes on
        pile.say(f"FileNotFoundError: {error}")
        continue
    part.rename(path)
    pile.say(f"Extracted {source} to {path}")
    if given.truth("rm_downloaded", otherwise=False):
        source.unlink()
