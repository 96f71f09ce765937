"""The manifest files of a blueprint, read strictly and never from outside its folder."""

from __future__ import annotations

from pathlib import Path

from actions.base.errors import BlueprintError
from actions.base.yamldoc import Document, load_documents, read_input


def inside(folder: Path, relative: str) -> Path:
    """The path of a file or folder that a blueprint names.

    Raises:
        BlueprintError: It is absolute, leads out of `folder` (also by a symbolic link), or is an address.
    """
    base = folder.resolve()
    path = (base / relative).resolve()
    if not relative or Path(relative).is_absolute() or "://" in relative or not path.is_relative_to(base):
        raise BlueprintError(f"{relative!r} is not a path inside the blueprint's folder.", file=str(folder))
    return path


def read_manifests(folder: Path, relative: str) -> list[Document]:
    """The Kubernetes objects of one file.

    Raises:
        BlueprintError: The file is missing, is not strict YAML, or one of its documents is no object.
    """
    path = inside(folder, relative)
    return parse_manifests(read_input(path, kind=BlueprintError), file=_shown(folder, relative))


def parse_manifests(data: bytes, *, file: str) -> list[Document]:
    """The Kubernetes objects of a stream of YAML documents.

    Args:
        data: YAML.
        file: Name for messages.

    Raises:
        BlueprintError: It is not strict YAML, or one of its documents is no object.
    """
    documents = load_documents(data, file=file, kind=BlueprintError)
    for document in documents:
        _require_object(document)
    return documents


def _shown(folder: Path, relative: str) -> str:
    return str(folder / relative)


def _require_object(document: Document) -> None:
    value = document.value
    if not isinstance(value, dict):
        raise document.error(BlueprintError, "a Kubernetes object is a mapping.")
    for key in ("apiVersion", "kind"):
        if not isinstance(value.get(key), str):
            raise document.error(BlueprintError, f"a Kubernetes object needs {key}.", key)
    metadata = value.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        raise document.error(BlueprintError, "a Kubernetes object needs metadata.name.", "metadata")
