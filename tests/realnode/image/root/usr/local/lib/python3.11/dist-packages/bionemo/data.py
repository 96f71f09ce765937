"""UniRef50's preparation. There is no network: the sequences are made up, with a structure that a model can learn."""

from __future__ import annotations

import csv
import gzip
import random
import sys
import time
from collections.abc import Iterator
from pathlib import Path

_URL = "https://ftp.uniprot.org/pub/databases/uniprot/uniref/uniref50/uniref50.fasta.gz"
_LETTERS = "ACDEFGHIKLMNPQRSTVWY"
_PROTEINS = 6000


def _say(line: int, text: str) -> None:
    sys.stdout.write(f"[NeMo I {time.strftime('%Y-%m-%d %H:%M:%S')} preprocess:{line}] {text}\n")
    sys.stdout.flush()


def _proteins() -> Iterator[str]:
    chosen = random.Random(50)
    for _ in range(_PROTEINS):
        place, letters = chosen.randrange(20), []
        for _ in range(chosen.randint(60, 300)):
            letters.append(_LETTERS[place])
            place = (place * 7 + chosen.choice((1, 1, 2))) % 20
        yield "".join(letters)


class UniRef50Preprocess:
    """Downloads, extracts and splits.

    Args:
        root_directory: Gets `raw` and `processed`.
    """

    def __init__(self, root_directory: str) -> None:
        self._root = Path(root_directory)

    def prepare_dataset(self, source: str, num_csv_files: int, val_size: int, test_size: int) -> None:
        """Write `num_csv_files` files for each split; a download that is there is taken up.

        Raises:
            EOFError: The download was cut off.
        """
        _say(85, f"Download and preprocess of UniRef50 data from {source} does not currently use GPU.")
        raw = self._root / "raw"
        raw.mkdir(parents=True, exist_ok=True)
        fasta, packed = raw / "uniref50.fasta", raw / "uniref50.fasta.gz"
        if fasta.exists():
            _say(64, f"{fasta} already exists...")
        else:
            if not packed.exists():
                _say(66, f"Downloading file from {_URL}...")
                _say(70, f"Downloading file to {packed}...")
                with gzip.open(packed, "wt", compresslevel=1, encoding="ascii") as file:
                    file.writelines(f">UniRef50_{row}\n{protein}\n" for row, protein in enumerate(_proteins()))
            _say(75, f"Extracting file to {fasta}...")
            with gzip.open(packed, "rt", encoding="ascii") as file:
                text = file.read()
            fasta.write_text(text, encoding="ascii")
            packed.unlink()
        _say(102, "UniRef50 data processing complete.")
        _say(105, "Indexing UniRef50 dataset.")
        found = fasta.read_text(encoding="ascii").split("\n")[1::2]
        _say(118, f"Writing processed dataset files to {self._root}/processed...")
        held = max(1, len(found) // 10)
        val, test = found[: min(val_size, held)], found[held : held + min(test_size, held)]
        for split, rows in (("train", found[2 * held :]), ("val", val), ("test", test)):
            _say(126, f"Creating {split} split...")
            folder = self._root / "processed" / split
            folder.mkdir(parents=True, exist_ok=True)
            for index in range(num_csv_files):
                with (folder / f"x{index:03d}.csv").open("w", encoding="ascii", newline="") as file:
                    writer = csv.writer(file)
                    writer.writerow(("record_id", "record_name", "sequence_length", "sequence"))
                    part = rows[index::num_csv_files]
                    writer.writerows((row, f"UniRef50_{row}", len(each), each) for row, each in enumerate(part))
