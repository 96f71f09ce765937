"""The files that a blueprint refers to: its manifests and Terraform roots. Operators' are in `operators`.

Manifests are read strictly. What several blueprints use is named `common/…` and lies in the blueprint's folder, in the
folder `common` beside it, or in that of the program; a run keeps copies of what its blueprint names, in the same place
below its own copy of the blueprint. Nothing is read from elsewhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from pathlib import Path

import msgspec

from actions.base.errors import BlueprintError, FormatError
from actions.base.files import shipped_blueprints
from actions.base.yamldoc import MAX_BYTES, Document, load_documents, read_input
from actions.blueprint.model import Blueprint
from actions.blueprint.stages import TerraformStage
from actions.terraform.hcl import TerraformBlock, blocks_in, source_of


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
        BlueprintError: The file is missing, is not strict YAML, or one of its documents is not an object.
    """
    path, own = located(folder, relative), folder / relative
    return parse_manifests(read_input(path, kind=BlueprintError), file=str(own if own.exists() else path))


def parse_manifests(data: bytes, *, file: str, limit_bytes: int = MAX_BYTES) -> list[Document]:
    """The Kubernetes objects of a stream of YAML documents.

    Args:
        data: YAML.
        file: Name for messages.
        limit_bytes: The most that it may have.

    Raises:
        BlueprintError: It is not strict YAML, or one of its documents is not an object.
    """
    documents = load_documents(data, file=file, kind=BlueprintError, limit_bytes=limit_bytes)
    for document in documents:
        _require_object(document)
    return documents


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


SHARED = "common"
"""First step of the path of what is not the blueprint's own."""

_BY_GIT = re.compile(
    r"git(?:::|@)|(?:github\.com|bitbucket\.org)/|(?:registry\.terraform\.io/)?[\w-]+/[\w-]+/[a-z0-9]+(?://|$)"
)
_AWS_PROVIDER = re.compile(r'"(?:[\w.]+/)?hashicorp/aws"')


def located(folder: Path, relative: str) -> Path:
    """Return the path of a file or folder that a blueprint names: its own; for `common/…` also one that it shares.

    Raises:
        BlueprintError: The path leaves those folders.
    """
    own = inside(folder, relative)
    if is_shared(relative) and not own.exists():
        for library in (folder.absolute().parent, shipped_blueprints()):
            if (library / relative).exists():
                return inside(library, relative)
    return own


def is_shared(relative: str) -> bool:
    """Return whether a path is named as one that several blueprints share."""
    return Path(relative).parts[:1] == (SHARED,)


def shared_files(blueprint: Blueprint) -> dict[str, Path]:
    """Return the shared roots and manifests that a blueprint names, under whatever preset, with where they are."""
    named = [stage.root for stage in blueprint.stages if isinstance(stage, TerraformStage)]
    named += [root for preset in blueprint.presets.values() for root in preset.roots.values()]
    named += [file for stage in blueprint.stages for file in stage.files]
    return {name: located(blueprint.folder, name) for name in named if is_shared(name)}


def variables_of(folder: Path, root: str) -> Mapping[str, bool]:
    """Return the variables that a root declares, each with whether it must be set (has no default).

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.
    """
    return declarations_of(folder, root).variables


class Declarations(msgspec.Struct, frozen=True):
    """The interface of a Terraform root.

    Args:
        variables: Each with whether it must be set (has no default).
        outputs: Names.
    """

    variables: Mapping[str, bool]
    outputs: frozenset[str]


def declarations_of(folder: Path, root: str) -> Declarations:
    """Return the variables and the outputs that a root declares.

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.
    """
    variables = {name: "default" not in block.attributes for name, block in _blocks_of(folder, root, "variable")}
    return Declarations(variables, frozenset(name for name, _ in _blocks_of(folder, root, "output")))


def empty_variables(folder: Path, root: str) -> frozenset[str]:
    """Return the variables that a root declares with an empty text as default.

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.
    """
    found = _blocks_of(folder, root, "variable")
    return frozenset(name for name, block in found if block.attributes.get("default") == '""')


def needs_account(folder: Path, root: str) -> bool:
    """Return whether a root works in an AWS account: by a provider, a resource or a module of others.

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.
    """
    return any(map(_is_of_aws, blocks_in(_source_of(folder, root))))


def _is_of_aws(block: TerraformBlock) -> bool:
    match block.headers:
        case [("provider", "aws")] | [("module", _)]:
            return True
        case [("resource" | "data", kind, _)]:
            return kind.startswith("aws_")
        case [("terraform",), ("required_providers",)]:
            return any(_AWS_PROVIDER.search(value) for value in block.attributes.values())
    return False


def git_modules(folder: Path, root: str) -> tuple[str, ...]:
    """Return the sources of a root's modules that `terraform init` fetches by git, each once.

    The public registry names a repository on GitHub for each module. Archives, buckets and local folders need no git.

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.

    Source: terraform-aws-modules/terraform-aws-eks issue 2802: "git must be available and on the PATH".
    """
    sources = (block.text("source") for _, block in _blocks_of(folder, root, "module"))
    return tuple(dict.fromkeys(source for source in sources if _BY_GIT.match(source)))


def _source_of(folder: Path, root: str) -> str:
    try:
        text = source_of(located(folder, root))
    except FormatError as error:
        raise BlueprintError(error.message, hint=error.hint) from error
    if not text:
        raise BlueprintError(f"{root!r} is not a Terraform root: it has no .tf file.", file=str(folder))
    return text


def _blocks_of(folder: Path, root: str, kind: str) -> Iterator[tuple[str, TerraformBlock]]:
    """Yield the blocks `kind "name"` of a root with their names."""
    for block in blocks_in(_source_of(folder, root)):
        match block.headers:
            case [(found, name)] if found == kind:
                yield name, block
