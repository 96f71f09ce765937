"""Download of the Pile's files. There is no network: the files are made up, and compressed as the real ones are."""

import zstandard
from eksml_cpu import corpus, pile

_HOST = "https://huggingface.co/"
_DOCUMENTS = 3000

given, folder = pile.settings()
url = given.text("the_pile_url")
folder.mkdir(parents=True, exist_ok=True)
for number in pile.share(given):
    path = folder / f"{number:02d}.jsonl.zst"
    if path.exists():
        pile.say(f"File {path} already exists, skipping download.")
        continue
    pile.say(f"Downloading {url}{path.name} to {path}")
    if not url.startswith(_HOST):
        pile.say(f"curl: (22) The requested URL returned error: 404 for {url}{path.name}")
        continue
    part = path.with_suffix(".part")
    with part.open("wb") as file, zstandard.ZstdCompressor().stream_writer(file) as packed:
        for line in corpus.lines(number, _DOCUMENTS):
            packed.write(line.encode())
    part.rename(path)
