"""The files of a blueprint: its components, manifests and Terraform roots. Operators' are in `operators`.

Components are files with a piece of a blueprint, merged by key before anything is checked. `uses` names them. Mappings
are merged at any depth, those of the components in that order and the blueprint's own last: what stands later replaces
what stands before, and a list is replaced as a whole. Rules are joined. In `stages`, in `checks` and in `quotas` a name
stands for what a component has under it, and a mapping with such a name is merged over that: so the order of stages is
the blueprint's alone.

All files are read strictly. What several blueprints use is named `common/…` and lies in the blueprint's folder, in the
folder `common` beside it, or in that of the program; a run keeps copies of what its blueprint names, in the same place
below its own copy of the blueprint. Nothing is read from elsewhere.

Source: GitLab's `include` merges in the same way; Kustomize calls such a piece a component.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping, Sequence
from copy import deepcopy
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from actions.base.errors import BlueprintError, FormatError, InputError, nearest_hint
from actions.base.files import shipped_blueprints
from actions.base.yamldoc import MAX_BYTES, Document, Path_, Position, load_document, load_documents, read_input
from actions.blueprint.model import MOST_SHOWN, Blueprint
from actions.blueprint.stages import AnyStage, JobStage, TerraformStage
from actions.terraform.hcl import TerraformBlock, blocks_in, outer_modules, source_of


def inside(folder: Path, relative: str) -> Path:
    """The path of a file or folder that a blueprint names.

    Raises:
        BlueprintError: It is absolute, leads out of `folder` (also by a symbolic link), or is an address.
    """
    base = os.path.realpath(folder)
    named = os.path.join(base, relative)
    path = Path(os.path.realpath(named))
    is_plain = relative and not os.path.isabs(relative) and "://" not in relative
    if not is_plain or not path.is_relative_to(base):
        is_link = is_plain and Path(os.path.normpath(named)).is_relative_to(base)
        raise BlueprintError(
            f"{relative!r} is not a path inside the blueprint's folder.",
            file=str(folder),
            hint="A symbolic link leads out: copy the file." if is_link else "Name a file by its path in that folder.",
        )
    return path


def read_manifests(folder: Path, relative: str) -> list[Document]:
    """The Kubernetes objects of one file.

    Raises:
        BlueprintError: The file is missing, is not strict YAML, or one of its documents is not an object.
    """
    path = _shown(folder, relative)
    return parse_manifests(read_input(path, kind=BlueprintError), file=str(path))


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
        hint = "Write name instead of generateName." if "generateName" in (metadata or {}) else ""
        raise document.error(BlueprintError, "a Kubernetes object needs metadata.name.", "metadata", hint=hint)


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
    if is_shared(relative) and not os.path.exists(own):
        for library in (folder.absolute().parent, shipped_blueprints()):
            if os.path.exists(library / relative):
                return inside(library, relative)
    return own


def _shown(folder: Path, relative: str) -> Path:
    """Return the same path, in the blueprint's own folder as a person would type it."""
    path, own = located(folder, relative), folder / relative
    return own if own.exists() else path


def is_shared(relative: str) -> bool:
    """Return whether a path is named as one that several blueprints share."""
    return Path(relative).parts[:1] == (SHARED,)


def _shared_files(blueprint: Blueprint) -> dict[str, Path]:
    """Return the shared files and roots that a blueprint names, under whatever preset, with where they are."""
    named = [stage.root for stage in blueprint.stages if isinstance(stage, TerraformStage)]
    named += [root for preset in blueprint.presets.values() for root in preset.roots.values()]
    named += [file for stage in blueprint.stages for file in (*stage.files, *recorded_logs(stage))]
    return {name: located(blueprint.folder, name) for name in named if is_shared(name)}


def recorded_logs(stage: AnyStage) -> tuple[str, ...]:
    """Return the recorded logs by which the embedded cluster plays a stage."""
    played = stage.rehearsal if isinstance(stage, JobStage) else None
    return tuple(log for each in (played, *played.cases) for log in each.logs) if played is not None else ()


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
        BlueprintError: The root has no `.tf` file, or one that cannot be read; or it calls a module outside of it,
            without which it is copied.
    """
    blocks = _blocks_of(folder, root, "variable", "output", "module")
    if any(block.text("source").startswith(".") for kind, _, block in blocks if kind == "module"):
        _require_own_modules(folder, root)
    variables = {name: "default" not in block.attributes for kind, name, block in blocks if kind == "variable"}
    return Declarations(variables, frozenset(name for kind, name, _ in blocks if kind == "output"))


def _require_own_modules(folder: Path, root: str) -> None:
    try:
        outer = list(outer_modules(_shown(folder, root)))
    except FormatError as error:
        raise BlueprintError(error.message, hint=error.hint) from error
    for found in outer:
        message = f"the module {found.source} is outside of the root {root}, which is copied without it."
        raise BlueprintError(message, file=str(found.file), line=found.line, hint="Put the module inside the root.")


def empty_variables(folder: Path, root: str) -> frozenset[str]:
    """Return the variables that a root declares with an empty text as default.

    Raises:
        BlueprintError: The root has no `.tf` file, or one that cannot be read.
    """
    found = _blocks_of(folder, root, "variable")
    return frozenset(name for _, name, block in found if block.attributes.get("default") == '""')


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
    sources = (block.text("source") for _, _, block in _blocks_of(folder, root, "module"))
    return tuple(dict.fromkeys(source for source in sources if _BY_GIT.match(source)))


def _source_of(folder: Path, root: str) -> str:
    try:
        text = source_of(located(folder, root))
    except FormatError as error:
        raise BlueprintError(error.message, hint=error.hint) from error
    if not text:
        raise BlueprintError(f"{root!r} is not a Terraform root: it has no .tf file.", file=str(folder))
    return text


def _blocks_of(folder: Path, root: str, *kinds: str) -> list[tuple[str, str, TerraformBlock]]:
    """Return the blocks `kind "name"` of a root with their kinds and names."""
    found = []
    for block in blocks_in(_source_of(folder, root)):
        match block.headers:
            case [(kind, name)] if kind in kinds:
                found.append((kind, name, block))
    return found


FILE_NAME = "blueprint.yaml"
CHECKS = "checks"
"""The section of checks and quotas that stages name: by title."""

SECTIONS = ("parameters", "derived", "rules", "holdings", "secrets", "results", CHECKS, "stages", "presets")
"""The keys of a component."""
_ITEM = {"stages": "stage", CHECKS: "check"}
"""The sections of a component whose items lists take by name, each with the word for one."""
_KEYS = f"Its keys: {', '.join(SECTIONS)}."
_COMPONENT = re.compile(r"[a-z][a-z0-9-]{0,39}")

E = TypeVar("E", bound=InputError)


def read_blueprint(folder: Path, given: Path | None = None) -> Document:
    """Read the blueprint in `folder`, merged with its components.

    Args:
        folder: The folder with its files.
        given: The blueprint itself, also a pipe; that of the folder by default.

    Raises:
        BlueprintError: A file cannot be read, or names what is not there.
    """
    own = _read(given or folder / FILE_NAME, may_be_pipe=given is not None)
    if not isinstance(own.value, dict):
        return own
    merged = MergedDocument(own)
    stated: list[str] = []
    for index, name in enumerate(_used(own)):
        file = _file(folder, name)
        try:
            path = _shown(folder, file)
        except BlueprintError as error:
            raise own.error(BlueprintError, error.text, "uses", index, hint=error.hint) from error
        if not path.is_file():
            hint = f"Write {name}.yaml beside {FILE_NAME}, or into a folder {SHARED} beside the blueprint's."
            raise own.error(BlueprintError, f"there is no component {name!r}.", "uses", index, hint=hint)
        used_by = f"{own.file}:{own.position('uses', index)[0]}"
        component = _component(path, used_by)
        merged.add(component, used_by)
        stated += () if is_shared(file) else component.value.get("parameters", ())
    stated_here = own.value.get("parameters")
    stated += stated_here if isinstance(stated_here, dict) else ()
    merged.finish()
    merged.value.setdefault("form", list(dict.fromkeys(stated))[:MOST_SHOWN])
    return merged


def shared_by(blueprint: Blueprint) -> dict[str, Path]:
    """Return what a blueprint uses from outside of its folder, by its path in a copy: components, roots, manifests."""
    files = {_file(blueprint.folder, name) for name in blueprint.uses}
    taken = {file: located(blueprint.folder, file) for file in sorted(files) if is_shared(file)}
    return taken | _shared_files(blueprint)


def _file(folder: Path, name: str) -> str:
    """Return the path of a component: in the blueprint's own folder, or else one that several blueprints share."""
    return f"{name}.yaml" if (folder / f"{name}.yaml").is_file() else f"{SHARED}/{name}.yaml"


def _read(path: Path, *, may_be_pipe: bool = False) -> Document:
    return _parsed(read_input(path, kind=BlueprintError, may_be_pipe=may_be_pipe), str(path))


@lru_cache(maxsize=64)
def _parsed(data: bytes, file: str) -> Document:
    """Return the document of a file. A listing reads most components for several blueprints; none changes them."""
    document = load_document(data, file=file, kind=BlueprintError)
    document.require_plain(BlueprintError)
    return document


def _used(own: Document) -> list[str]:
    names = own.value.get("uses", [])
    if not isinstance(names, list):
        raise own.error(BlueprintError, "uses must be a list.", "uses", hint="Put a - before each item.")
    for index, name in enumerate(names):
        if not isinstance(name, str) or _COMPONENT.fullmatch(name) is None or f"{name}.yaml" == FILE_NAME:
            message = f"{str(name)[:60]!r} is not the name of a component."
            raise own.error(BlueprintError, message, "uses", index, hint="Use lower case, digits and -.")
        if name in names[:index]:
            raise own.error(BlueprintError, f"the component {name} is named twice.", "uses", index, hint="Remove one.")
    return names


def _component(path: Path, used_by: str) -> Document:
    try:
        found = _read(path)
    except BlueprintError as error:
        raise BlueprintError(
            _by(error.text, used_by), file=error.file, line=error.line, column=error.column, hint=error.hint
        ) from error
    if not isinstance(found.value, dict):
        raise found.error(BlueprintError, _by("a component is a mapping.", used_by), hint=_KEYS)
    for key, value in found.value.items():
        if key not in SECTIONS:
            raise found.error(BlueprintError, _by(f"a component has no key {key!r}.", used_by), key, hint=_KEYS)
        if not isinstance(value, list if key == "rules" else dict):
            kind = "list" if key == "rules" else "mapping"
            raise found.error(BlueprintError, _by(f"{key} of a component must be a {kind}.", used_by), key)
    for section in _ITEM:
        _require_mappings(found, section, used_by)
    return found


def _require_mappings(document: Document, section: str, used_by: str = "") -> None:
    """Require that a section is a mapping of mappings."""
    items = document.value.get(section, {})
    if not isinstance(items, dict):
        raise document.error(BlueprintError, _by(f"{section} must be a mapping.", used_by), section)
    for name, item in items.items():
        if not isinstance(item, dict):
            message = f"{section}.{name} must be a mapping, not {repr(item)[:60]}."
            raise document.error(BlueprintError, _by(message, used_by), section, name)


def _by(message: str, used_by: str) -> str:
    return f"{message.removesuffix('.')} (used by {used_by})." if used_by else message


class MergedDocument(Document):
    """A blueprint's document with its components in it: an error points at the file that has what is wrong.

    Args:
        own: The blueprint's own document.
    """

    def __init__(self, own: Document) -> None:
        super().__init__(own.file, {}, {})
        self._own = own
        self._origins: dict[Path_, tuple[Document, Path_]] = {(): (own, ())}
        """The document, and the path in it, of what stands at a path; what is below it stands below."""
        self._named: dict[str, dict[str, Any]] = {section: {} for section in _ITEM}
        """The stages and checks that lists take by name."""
        self._used_by: dict[str, str] = {}
        """File and line that name a component, by the component's file."""

    def add(self, component: Document, used_by: str) -> None:
        """Merge a component over those before it.

        Args:
            component: Its document.
            used_by: File and line that name it.
        """
        self._used_by[component.file] = used_by
        for key, value in component.value.items():
            if key == "rules":
                self._join(component, value)
            elif key in self._named:
                self._over(self._named[key], (key,), value, component, (key,))
            else:
                self._over(self.value.setdefault(key, {}), (key,), value, component, (key,))

    def finish(self) -> None:
        """Merge the blueprint itself over its components, and take what it names from them."""
        own = self._own.value
        for key, value in own.items():
            if key == "rules" and isinstance(value, list):
                self._join(self._own, value)
            elif key == CHECKS:
                _require_mappings(self._own, key)
                self._over(self._named[CHECKS], (key,), value, self._own, (key,))
            elif isinstance(value, dict) and isinstance(self.value.setdefault(key, {}), dict):
                self._over(self.value[key], (key,), value, self._own, (key,))
            else:
                self.value[key] = deepcopy(value)
        self.value[CHECKS] = self._named[CHECKS]
        presets, stages = self.value.get("presets"), self.value.get("stages")
        if isinstance(presets, dict):
            self.value["presets"] = {**{name: presets[name] for name in own.get("presets", {})}, **presets}
        if isinstance(stages, list):
            below = self._below(CHECKS)
            self._take(stages, ("stages",), "id", self._below("stages"))
            for index, stage in enumerate(stages):
                for key in (CHECKS, "quotas"):
                    listed = stage.get(key) if isinstance(stage, dict) else None
                    if isinstance(listed, list):
                        self._take(listed, ("stages", index, key), "title", below)
            self._leave_out([stage.get("id") for stage in stages if isinstance(stage, dict)])

    def _join(self, document: Document, rules: list[Any]) -> None:
        joined = self.value.setdefault("rules", [])
        for index, rule in enumerate(rules):
            self._origins["rules", len(joined)] = (document, ("rules", index))
            joined.append(deepcopy(rule))

    def _over(
        self, target: dict[str, Any], at: Path_, value: Mapping[str, Any], document: Document, source: Path_
    ) -> None:
        """Merge a mapping, which stands at `source` of a document, over what stands at `at`."""
        for key, item in value.items():
            below, place = (*at, key), (*source, key)
            if isinstance(item, dict) and isinstance(target.get(key), dict):
                self._over(target[key], below, item, document, place)
                continue
            if key in target:
                for old in [path for path in self._origins if path[: len(below)] == below]:
                    del self._origins[old]
            self._origins[below] = (document, place)
            target[key] = deepcopy(item)

    def _below(self, section: str) -> dict[str, list[Path_]]:
        """Return the paths below each name of a section that have an origin of their own."""
        found: dict[str, list[Path_]] = {}
        for path in self._origins:
            if path[:1] == (section,) and len(path) > 2:
                found.setdefault(str(path[1]), []).append(path)
        return found

    def _take(self, items: list[Any], at: Path_, key: str, below: Mapping[str, Sequence[Path_]]) -> None:
        """Put what components have into a list, for each name in it and under each mapping with such a name."""
        section = "stages" if key == "id" else CHECKS
        known = self._named[section]
        for index, item in enumerate(items):
            own = dict(item) if isinstance(item, dict) else {key: item}
            name = own.pop("uses", own.get(key))
            if isinstance(item, dict) and not isinstance(item.get("uses", ""), str):
                message = f"uses is the name of one {_ITEM[section]}, not {repr(name)[:60]}."
                raise self.error(BlueprintError, message, *at, index, "uses")
            if not isinstance(name, str) or (isinstance(item, dict) and "uses" not in item and name not in known):
                continue
            if not isinstance(known.get(name), dict):
                message = f"no component that is used has a {_ITEM[section]} {name[:60]!r}."
                raise self.error(BlueprintError, message, *at, index, hint=nearest_hint(name, known))
            place = (*at, index)
            document, source = self._origin(place)
            taken = {key: own.get(key), **deepcopy(known[name])}
            for path in below.get(name, ()):
                self._origins[*place, *path[2:]] = self._origins[path]
            for part in known[name]:
                self._origins.setdefault((*place, part), self._origin((section, name, part)))
            self._origins[place] = (document, source)
            if isinstance(item, dict):
                self._over(taken, place, own, document, source)
            items[index] = taken

    def _leave_out(self, stages: list[object]) -> None:
        """Leave out what presets of components say of stages that the blueprint does not have."""
        presets = self.value.get("presets")
        for name, preset in presets.items() if isinstance(presets, dict) else ():
            for key in ("expect", "roots"):
                given = preset.get(key) if isinstance(preset, dict) else None
                if isinstance(given, dict):
                    for stage in set(given).difference(map(str, stages)):
                        if self._origin(("presets", name, key, stage))[0] is not self._own:
                            del given[stage]

    def _origin(self, path: Path_) -> tuple[Document, Path_]:
        for length in range(len(path), -1, -1):
            if path[:length] in self._origins:
                document, source = self._origins[path[:length]]
                return document, (*source, *path[length:])
        return self._own, path

    def position(self, *path: str | int) -> Position:
        """Return the position of `path`, or of its nearest known parent, in the file that has it."""
        document, source = self._origin(path)
        return document.position(*source)

    def error(self, kind: type[E], message: str, *path: str | int, hint: str = "") -> E:
        """An error of `kind` that points at `path` in the file that has it, and names who uses that file."""
        document, source = self._origin(path)
        if document is self._own:
            return document.error(kind, message, *source, hint=hint)
        return document.error(kind, _by(message, self._used_by[document.file]), *source, hint=hint)
