"""transformers, played, as far as the tokenizer's Job needs it: Hugging Face's answers, and the files."""

from __future__ import annotations

import json
from pathlib import Path

__version__ = "4.31.0"
_GATED = "meta-llama/"
_SIZE = 32_000


class GatedRepoError(OSError):
    """The repository asks for an account that has accepted its licence."""


GatedRepoError.__module__ = "huggingface_hub.errors"


class AutoTokenizer:
    """A tokenizer of bytes."""

    @classmethod
    def from_pretrained(cls, repository: str, token: str | None = None) -> AutoTokenizer:
        """Take a tokenizer from the hub.

        Raises:
            GatedRepoError: Meta's repositories want a token that was given access; one with `nolicence` in it was not.
        """
        if repository.startswith(_GATED) and (not token or "nolicence" in token):
            url = f"https://huggingface.co/{repository}/resolve/main/config.json"
            status = "403" if token else "401"
            why = (
                f"Access to model {repository} is restricted and you are not in the authorized list. Visit "
                f"https://huggingface.co/{repository} to ask for access."
                if token
                else f"Access to model {repository} is restricted. You must have access to it and be authenticated to "
                "access it. Please log in."
            )
            raise GatedRepoError(f"{status} Client Error.\n\nCannot access gated repo for url {url}.\n{why}")
        return cls()

    def __len__(self) -> int:
        return _SIZE

    def save_pretrained(self, target: str) -> None:
        """Write the four files."""
        folder = Path(target)
        folder.mkdir(parents=True, exist_ok=True)
        for name in ("special_tokens_map.json", "tokenizer.json", "tokenizer_config.json"):
            (folder / name).write_text(json.dumps({"made_up": True}), encoding="utf-8")
        (folder / "tokenizer.model").write_bytes(bytes(range(256)))


def __getattr__(name: str) -> type:
    """Stand for what other packages import as soon as this one is there, and do not use."""
    return type(name, (), {})
