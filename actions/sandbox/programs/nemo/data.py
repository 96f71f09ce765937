"""The data of NeMo's GPT pre-training: the Pile, prepared by processes that mpirun starts, and the GPT-2 tokenizer.

The Pile is downloaded, extracted and tokenised. The sandbox's files are samples: the steps come in the real order and
with the real words, and take a fiftieth of the time. A failure in a step leaves a file out and the step succeeds all
the same, as with the real programs. The tokenizer's two files are fetched by a Job's shell script.

Source:
    `dataprep_scripts/pile_dataprep` of the NeMo launcher 24.01 and Megatron's preprocessing: messages, names of files,
    how files are dealt out to processes.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from actions.sandbox.programs.program import ContainerView, Program, ProgramStep

_FOLDER = "pile_dataprep/"
_HOST = "https://huggingface.co/"
_DATA = "/fsx_shared/data"
_MADE = {
    "download": ("{:02d}.jsonl.zst",),
    "extract": ("{:02d}.jsonl",),
    "preprocess": ("my-gpt3_{:02d}_text_document.bin", "my-gpt3_{:02d}_text_document.idx"),
}
"""Files of each step."""
_DOWNLOAD_SECONDS = 14.0
"""For each file, as the others."""
_EXTRACT_SECONDS = 8.0
_TOKENISE_SECONDS = 24.0
_REPORTS = 6
_DOCUMENTS = 210_000
_COMPRESSED_BYTES, _TEXT_BYTES, _TOKEN_BYTES, _INDEX_BYTES = 15_200_000_000, 45_900_000_000, 17_300_000_000, 141_000_000


def wants_pile(container: ContainerView) -> bool:
    """Return whether this is a process of the preparation, or of the check of its files."""
    script = _script(container)
    return script in _PROGRAMS and (_FOLDER in container.command_line or script == "verify.py")


def prepare_pile(container: ContainerView) -> Program:
    """Run one process of a step of the preparation."""
    return (yield from _PROGRAMS[_script(container)](container))


def files_of(container: ContainerView) -> list[int]:
    """The numbers of the files that this process works on: its share of `file_numbers`, in one piece."""
    given = re.search(r"file_numbers=(\d+)-(\d+)", container.command_line)
    first, last = (int(given.group(1)), int(given.group(2))) if given else (0, 0)
    numbers = list(range(first, last + 1))
    rank = int(container.environment.get("OMPI_COMM_WORLD_RANK", "0"))
    size = int(container.environment.get("OMPI_COMM_WORLD_SIZE", "1"))
    share, more = divmod(len(numbers), size)
    begin = rank * share + min(rank, more)
    return numbers[begin : begin + share + (1 if rank < more else 0)]


def _download(container: ContainerView) -> Program:
    yield ProgramStep(2.0)
    given = re.search(r"the_pile_url=(\S+)", container.command_line)
    url = given.group(1) if given else f"{_HOST}datasets/monology/pile-uncopyrighted/resolve/main/train/"
    for number in files_of(container):
        path = f"{_DATA}/{number:02d}.jsonl.zst"
        if container.files.file(path):
            yield ProgramStep(0.2, f"File {path} already exists, skipping download.\n")
            continue
        yield ProgramStep(0.2, f"Downloading {url}{number:02d}.jsonl.zst to {path}\n")
        if not url.startswith(_HOST):
            yield ProgramStep(
                1.0, f"curl: (22) The requested URL returned error: 404 for {url}{number:02d}.jsonl.zst\n", True
            )
            continue
        for done in range(1, 5):
            yield ProgramStep(_DOWNLOAD_SECONDS / 4, f"{number:02d}.jsonl.zst: {done * 25:3d}% of 15.2G\n", True)
        container.files.write(path, b"", size_bytes=_COMPRESSED_BYTES)
    return 0


def _extract(container: ContainerView) -> Program:
    yield ProgramStep(2.0)
    for number in files_of(container):
        source, path = f"{_DATA}/{number:02d}.jsonl.zst", f"{_DATA}/{number:02d}.jsonl"
        if container.files.file(path):
            yield ProgramStep(0.2, f"File {path} already exists, skipping extraction.\n")
            continue
        if not container.files.file(source):
            yield ProgramStep(
                0.5, f"FileNotFoundError: [Errno 2] No such file or directory: '{source}'\n", is_error=True
            )
            continue
        yield ProgramStep(_EXTRACT_SECONDS, f"Extracted {source} to {path}\n")
        container.files.write(path, b"", size_bytes=_TEXT_BYTES)
        if "rm_downloaded=true" in container.command_line:
            container.files.remove(source)
    return 0


def _preprocess(container: ContainerView) -> Program:
    yield ProgramStep(2.0)
    for number in files_of(container):
        source = f"{_DATA}/{number:02d}.jsonl"
        yield ProgramStep(0.5, f"Opening {source}\n")
        needed = [source, f"{_DATA}/bpe/vocab.json", f"{_DATA}/bpe/merges.txt"]
        missing = next((path for path in needed if not container.files.file(path)), "")
        if missing:
            yield ProgramStep(
                1.0, f"FileNotFoundError: [Errno 2] No such file or directory: '{missing}'\n", is_error=True
            )
            continue
        yield from _tokenise(container, number)
        if "rm_extracted=true" in container.command_line:
            container.files.remove(source)
    return 0


def _tokenise(container: ContainerView, number: int) -> Program:
    yield ProgramStep(1.0, "> building GPT2BPETokenizer tokenizer ...\n")
    for part in range(1, _REPORTS + 1):
        documents = _DOCUMENTS * part // _REPORTS
        pace = 3480.0 + 31.7 * (number % 5) + 12.0 * part
        text = f"Processed {documents} documents ({pace:.2f} docs/s, {pace * 0.00613:.4f} MB/s).\n"
        yield ProgramStep(_TOKENISE_SECONDS / _REPORTS, text, is_error=True)
    stem = f"{_DATA}/my-gpt3_{number:02d}_text_document"
    container.files.write(f"{stem}.bin", b"", size_bytes=_TOKEN_BYTES)
    container.files.write(f"{stem}.idx", b"", size_bytes=_INDEX_BYTES)
    return 0


def _verify(container: ContainerView) -> Program:
    """`verify.py` of the blueprint."""
    folder, first, last, step = container.argv[-4], int(container.argv[-3]), int(container.argv[-2]), container.argv[-1]
    paths = [f"{folder}/{name.format(number)}" for number in range(first, last + 1) for name in _MADE[step]]
    found = [container.files.file(path) for path in paths]
    missing = [path for path, file in zip(paths, found, strict=True) if file is None or not file.size_bytes]
    for path in missing:
        yield ProgramStep(0.1, f"missing: {path}\n", is_error=True)
    if missing:
        text = f"{len(missing)} of {len(paths)} files are missing after {step}: read what it has printed\n"
        yield ProgramStep(0.1, text, is_error=True)
        return 1
    yield ProgramStep(0.5, f"{len(paths)} files are there after {step}\n")
    return 0


_PROGRAMS: dict[str, Callable[[ContainerView], Program]] = {
    "download.py": _download,
    "extract.py": _extract,
    "preprocess.py": _preprocess,
    "verify.py": _verify,
}


def _script(container: ContainerView) -> str:
    """Return the name of the script that Python runs; empty if it is not Python, or there is no script."""
    argv = container.argv
    is_python = len(argv) > 1 and argv[0].rpartition("/")[2].startswith("python")
    return argv[1].rpartition("/")[2] if is_python else ""


_SOURCE = "https://huggingface.co/openai-community/gpt2/resolve/main"
_SIZES = {"vocab.json": 1_042_301, "merges.txt": 456_318}


def wants_vocabulary(container: ContainerView) -> bool:
    """Return whether this container fetches the vocabulary."""
    return "VOCABULARY_URL" in container.environment and "vocab.json" in container.command_line


def fetch_vocabulary(container: ContainerView) -> Program:
    """Fetch what is not there. Ends with 0, or with curl's 22 where the address has no such file."""
    url, folder = container.environment["VOCABULARY_URL"], container.environment.get("VOCABULARY_DIR", "/tmp")  # noqa: S108
    for name, size in _SIZES.items():
        if container.files.file(f"{folder}/{name}"):
            yield ProgramStep(0.2, f"{name} is there\n")
            continue
        if url != _SOURCE:
            yield ProgramStep(1.5, "curl: (22) The requested URL returned error: 404\n", is_error=True)
            return 22
        yield ProgramStep(4.0, f"{name} fetched, {size} bytes\n")
        container.files.write(f"{folder}/{name}", b"{}\n", size_bytes=size)
    return 0
