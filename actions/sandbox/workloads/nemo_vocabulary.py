"""The Job that fetches the GPT-2 tokenizer's two files: what its shell script prints and leaves behind."""

from __future__ import annotations

from actions.sandbox.workloads.program import Container, Program, Step

_SOURCE = "https://huggingface.co/openai-community/gpt2/resolve/main"
_SIZES = {"vocab.json": 1_042_301, "merges.txt": 456_318}


def wants_vocabulary(container: Container) -> bool:
    """Whether this container fetches the vocabulary."""
    return "VOCABULARY_URL" in container.environment and "vocab.json" in container.command_line


def fetch_vocabulary(container: Container) -> Program:
    """Fetch what is not there. Ends with 0, or with curl's 22 where the address has no such file."""
    url, folder = container.environment["VOCABULARY_URL"], container.environment.get("VOCABULARY_DIR", "/tmp")  # noqa: S108
    for name, size in _SIZES.items():
        if container.files.file(f"{folder}/{name}"):
            yield Step(0.2, f"{name} is there\n")
            continue
        if url != _SOURCE:
            yield Step(1.5, "curl: (22) The requested URL returned error: 404\n", is_error=True)
            return 22
        yield Step(4.0, f"{name} fetched, {size} bytes\n")
        container.files.write(f"{folder}/{name}", b"{}\n", size_bytes=size)
    return 0
