"""The parameters of a job that was written elsewhere: what a person may want to change, and a target can set.

Numbers that restate others (`-np 16`, `--nnodes`, `minAvailable`) follow from their parameters. What no target can set
stays as it is, and is named in the remarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec.structs import replace

from actions.base.errors import BlueprintError
from actions.base.untrusted import is_plain
from actions.blueprint.begin.job_manifests import (
    DEVICES,
    devices_of,
    instance_types_of,
    is_secret,
    main_container,
    main_role,
    places_of,
    roles_of,
)
from actions.blueprint.model import Derived, Parameter, ParameterType
from actions.blueprint.parts import FieldTarget, Scalar, Where
from actions.blueprint.targets import Manifest, argument_text
from actions.cluster.kinds import KubeKind
from actions.cluster.pod_roles import at, place_text
from actions.fleet.node_amounts import GPU

_MOST_ARGUMENTS = 24
_LONGEST_TEXT = 300
_NUMBER = r"(?<!\S)(--?[A-Za-z][\w.-]*){}(\d+)(?=\s|$)"
_FLAG = re.compile(r"(--?[A-Za-z][\w.-]*)(?:=(.*))?")
_PAIRED = re.compile(r"(?!-|python|torchrun|.*\.(?:py|sh)$)[^\s=/]+")
"""A word that may be the value of the flag before it."""
_WORD = re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]*=)([^\s\"'\\$`;|&<>()]+)(?=\s|$)")
_NODES = frozenset({"nnodes", "num_nodes", "num_machines", "nodes"})
_RANKS = frozenset({"np", "n"})
_PER_NODE = frozenset({"nproc_per_node", "num_gpus_per_node", "gpus_per_node", "npernode"})
_FOLLOWING = _NODES | _RANKS | _PER_NODE
_PLACING = frozenset({"node_rank", "rank", "master_addr", "master_port", "rdzv_endpoint", "rdzv_backend", "rdzv_id"})
"""Arguments that place a process among the others: no choices of an operator."""
_QUEUE = "kueue.x-k8s.io/queue-name"
UNQUEUED: dict[str, Scalar] = {"queue": "", "suspend": False}
"""The values with which a job starts where no Kueue is."""
_TAKEN = ("cluster_name", "region", "install_operator", "stand_ins", "namespace", *UNQUEUED)
_TYPES = {bool: ParameterType.BOOLEAN, int: ParameterType.INTEGER, float: ParameterType.NUMBER}


class Argument(msgspec.Struct):
    """An argument of a program, wherever it stands.

    Args:
        flag: Its name without hyphens, `-` as `_`.
        text: Its value as it stands there.
        place: The pods, in words.
        target: What sets it; `None` if nothing can.
        where: The place of its list item or text.
    """

    flag: str
    text: str
    place: str
    target: FieldTarget | None
    where: Where


class JobParameters:
    """The parameters of one job, found in its manifest.

    Args:
        job: The object.
        row: The row of its kind.
        file: Its file in the blueprint's folder.
        taken: Names that are taken.
    """

    def __init__(self, job: Manifest, row: KubeKind, file: str, taken: Sequence[str]) -> None:
        self.found: dict[str, Parameter] = {}
        self.derived: dict[str, Derived] = {}
        self.remarks: list[str] = []
        self.devices = ""
        """The resource of the accelerators; empty without any."""
        self.workers = ""
        """The name of the parameter with the number of pods; empty if none sets it."""
        self.roles = roles_of(job)
        self.main = main_role(self.roles)
        self._job, self._row, self._file, self._taken = job, row, file, taken
        self._images()
        self._counts()
        self._accelerators()
        self._instance_types()

    def namespace(self, objects: Sequence[tuple[Manifest, str]], default: str) -> None:
        """Add the namespace, which sets that of all objects that are in the job's.

        Args:
            objects: Each with its file.
            default: For a job that names none.
        """
        here = self._job["metadata"].get("namespace")
        targets = []
        for item, file in objects if here else ():
            named = FieldTarget(file=file, kind=item["kind"], name=item["metadata"]["name"])
            for path, value in places_of(item):
                is_own = path == ("metadata", "namespace") or (path[-1:] == ("namespace",) and "subjects" in path)
                if value == here and is_own:
                    targets.append(replace(named, path=place_text(path)))
            if item["kind"] == "Namespace" and item["metadata"]["name"] == here:
                targets.append(replace(named, path="metadata.name"))
        self.found["namespace"] = Parameter(
            type=ParameterType.TEXT, title="Namespace", default=here or default, sets=tuple(targets),
            pattern="[a-z0-9]([a-z0-9-]*[a-z0-9])?",
        )  # fmt: skip

    def queue(self, objects: Sequence[tuple[Manifest, str]]) -> None:
        """Add the queue of Kueue, of all objects with their files, and whether the job waits for it."""
        here = str((self._job["metadata"].get("labels") or {}).get(_QUEUE, ""))
        named = [(item, file, path) for item, file in objects if here for path, value in places_of(item)
                 if path[-1] == _QUEUE and value == here]  # fmt: skip
        targets = [
            FieldTarget(file=file, kind=item["kind"], name=item["metadata"]["name"], path=place_text(path))
            for item, file, path in named
        ]
        if targets:
            self.found["queue"] = Parameter(
                type=ParameterType.TEXT, title="Queue", default=here, sets=tuple(targets), group="Cluster",
                help="A LocalQueue of Kueue; empty for none.",
            )  # fmt: skip
        path = tuple(self._row.suspended_by.split("."))
        if at(self._job, path) is True:
            self.found["suspend"] = Parameter(
                type=ParameterType.BOOLEAN, title="Suspended until a queue admits it", default=True, group="Cluster",
                sets=(self._target(path),),
            )  # fmt: skip

    def arguments(self) -> None:
        """Add the arguments of the program that trains, and let those follow that restate other numbers.

        Raises:
            BlueprintError: One is a secret.
        """
        every = list(self._every_argument())
        own = {path for path, _ in self._programs()} | {("spec", "entrypoint")}
        mine = [each for each in every if any(each.where[: len(path)] == path for path in own)]
        for each in every:
            self._refuse_secret(each)
        chosen: dict[str, list[Argument]] = {}
        for each in mine:
            is_choice = each.target is not None and each.flag not in _FOLLOWING | _PLACING and "$" not in each.text
            if is_choice and each.text in ("", chosen.get(each.flag, [each])[0].text):
                chosen.setdefault(each.flag, []).append(each)
        for flag, few in list(chosen.items())[:_MOST_ARGUMENTS]:
            targets = [each.target for each in few if each.target is not None]
            self._add(flag, _typed(few[0].text), f"{flag} of the program", targets, group="Arguments")
        if len(chosen) > _MOST_ARGUMENTS:
            self.remarks.append(f"{len(chosen) - _MOST_ARGUMENTS} more arguments stay as they are.")
        if not chosen:
            self._command()
        self._follow(every)

    def free_name(self, text: str) -> str:
        """Return a name for a parameter that is not taken yet."""
        plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50] or "value"
        plain = plain if plain[0].isalpha() else f"n_{plain}"
        taken = {*self.found, *self.derived, *_TAKEN, *self._taken}
        return next(name for name in (plain, *(f"{plain}_{i}" for i in range(2, 999))) if name not in taken)

    def _target(self, path: Where, pattern: str = "", *, arg: str = "") -> FieldTarget:
        kind, name = str(self._job["kind"]), str(self._job["metadata"]["name"])
        return FieldTarget(file=self._file, kind=kind, name=name, path=place_text(path), format=pattern, arg=arg)

    def _add(
        self, name: str, default: Scalar, title: str, targets: Sequence[FieldTarget], *, group: str = "",
        low: float | None = None, high: float | None = None, pattern: str = "",
    ) -> str:  # fmt: skip
        name = self.free_name(name)
        kind = _TYPES.get(type(default), ParameterType.TEXT)
        self.found[name] = Parameter(
            type=kind, title=title, default=default, minimum=low, maximum=high, pattern=pattern, group=group,
            sets=tuple(targets),
        )  # fmt: skip
        return name

    def _also_sets(self, name: str, targets: Sequence[FieldTarget]) -> None:
        parameter = self.found[name]
        self.found[name] = replace(parameter, sets=(*parameter.sets, *targets))

    def _images(self) -> None:
        found: dict[str, list[Where]] = {}
        names: dict[str, str] = {}
        for role in self.roles:
            for path, container in role.containers():
                image = container.get("image")
                if isinstance(image, str) and image.isprintable():
                    found.setdefault(image, []).append((*path, "image"))
                    names.setdefault(image, str(container.get("name") or role.name))
        main = main_container(self.main)[1].get("image")
        for image in sorted(found, key=lambda image: image != main):
            targets = [self._target(path) for path in found[image]]
            if image == main:
                self._add("image", image, "Image", targets)
            else:
                self._add(f"{names[image]}_image", image, f"Image of {names[image]}", targets, group="Images")

    def _counts(self) -> None:
        for role in sorted(self.roles, key=lambda role: role is not self.main):
            if not role.counts or (role is not self.main and role.is_lead and role.count <= 1):
                continue
            name, title = f"{role.name}_replicas", f"Replicas of {role.name}"
            if role is self.main:
                name, title = ("replicas", "Replicas") if self._row.kind == "Deployment" else ("workers", "Workers")
            low = role.low if role.low is not None else min(1, role.count)
            targets = [self._target(path) for path in role.counts]
            added = self._add(name, role.count, title, targets, low=low, high=role.high)
            self.workers = added if role is self.main else self.workers

    def _accelerators(self) -> None:
        self.devices, amount = next(iter(devices_of(main_container(self.main)[1]).items()), ("", None))
        number = whole_number(amount)
        if number is None:
            return
        places: list[Where] = []
        for role in self.roles:
            for path, _ in role.containers():
                resources = (*path, "resourcesPerNode" if path[-1] == "trainer" else "resources")
                places += [(*resources, *below, self.devices) for below in (("requests",), ("limits",), ())]
            places += [(*role.path[:-1], "rayStartParams", "num-gpus")] if self.devices == GPU else []
        written = {place: at(self._job, place) for place in places}
        targets = [
            self._target(place, "" if isinstance(value, int) else "%s")
            for place, value in written.items()
            if whole_number(value) == number
        ]
        self._add("accelerators", number, f"{DEVICES[self.devices]} per pod", targets, low=min(1, number))

    def _instance_types(self) -> None:
        found: dict[str, list[Where]] = {}
        for role in self.roles:
            for path, name in instance_types_of(role):
                found.setdefault(name, []).append(path)
        own = [name for _, name in instance_types_of(self.main)]
        for name, paths in sorted(found.items(), key=lambda one: one[0] not in own):
            title = "Instance type" if name in own else f"Instance type instead of {name}"
            self._add("instance_type", name, title, [self._target(path) for path in paths])

    # Arguments

    def _programs(self) -> Iterator[tuple[Where, Mapping[str, Any]]]:
        """Yield the containers that run the program that trains: of a master beside its workers, too."""
        main, own = main_container(self.main)
        yield main, own
        for role in self.roles:
            for path, each in role.containers():
                is_same = (each.get("image"), each.get("name")) == (own.get("image"), own.get("name"))
                if is_same and path != main:
                    yield path, each
                elif role.name == "launcher" and not (own.get("command") or own.get("args")):
                    yield path, each  # it starts the program on the workers

    def _every_argument(self) -> Iterator[Argument]:
        entry = self._job["spec"].get("entrypoint")
        if isinstance(entry, str):
            yield from self._in_text(("spec", "entrypoint"), entry, "the entrypoint")
        for role in self.roles:
            for path, container in role.containers():
                for key in ("command", "args"):
                    words = [word if isinstance(word, str) else "" for word in container.get(key) or ()]
                    yield from self._in_list((*path, key), words, f"the {role.name}")

    def _in_list(self, path: Where, words: Sequence[str], place: str) -> Iterator[Argument]:
        for index, word in enumerate(words):
            if " " in word or "\n" in word:
                yield from self._in_text((*path, index), word, place)
                continue
            match = _FLAG.fullmatch(word)
            if match is None:
                continue
            flag, value, here, prefix = match[1], match[2], (*path, index), f"{match[1]}=".replace("%", "%%")
            if value is None and index + 1 < len(words):
                value, here, prefix = words[index + 1], (*path, index + 1), ""
                if not (_PAIRED.fullmatch(value) if flag.startswith("--") else value.isdigit()):
                    continue  # the flag has no value, and the word is another one
            if value and value.isprintable() and len(value) <= _LONGEST_TEXT:
                yield Argument(_plain(flag), value, place, self._target(here, f"{prefix}%s"), here)

    def _in_text(self, path: Where, text: str, place: str) -> Iterator[Argument]:
        """Yield the arguments in a command line: a target sets those `--name=value` that stand there once."""
        for flag, value in _WORD.findall(text):
            is_single = len(re.findall(rf"(?<!\S){re.escape(flag)}", text)) == 1 and len(value) <= _LONGEST_TEXT
            target = self._target(path, arg=flag) if is_single else None
            yield Argument(_plain(flag[:-1]), value, place, target, path)
        for flag, value in re.findall(_NUMBER.format(r"[ \t]+"), text):
            yield Argument(_plain(flag), value, place, None, path)

    def _refuse_secret(self, argument: Argument) -> None:
        is_meant = len(argument.text) >= 16 and any(letter.isdigit() for letter in argument.text)
        if is_meant and is_secret(argument.flag, argument.text):
            raise BlueprintError(
                f"the argument {argument.flag} of {argument.place} holds a secret, which no blueprint may.",
                hint="Let the program read it from a variable, and the variable from a Secret.",
            )

    def _command(self) -> None:
        """Add a command line as a whole, if it is one line of text."""
        entry = self._job["spec"].get("entrypoint")
        texts: list[tuple[Where, str]] = [(("spec", "entrypoint"), entry)] if isinstance(entry, str) else []
        for path, each in self._programs() if not texts else ():
            for key in ("command", "args"):
                words = enumerate(each.get(key) or ())
                texts += [((*path, key, i), word) for i, word in words if isinstance(word, str) and " " in word]
        if len({text for _, text in texts}) == 1:
            text = texts[0][1]
            if text.isprintable() and len(text) <= _LONGEST_TEXT and is_plain(text):
                self._add("command", text, "Command", [self._target(path) for path, _ in texts])

    # Numbers that follow from others

    def _follow(self, arguments: Sequence[Argument]) -> None:
        count, job = self.main.count, self._job
        total = sum(role.count for role in self.roles if role.name != "submitter")
        slots = at(job, ("spec", "slotsPerWorker"))
        ranks = count * slots if isinstance(slots, int) else count
        per_node = self.found["accelerators"].default if "accelerators" in self.found else None
        nodes: list[FieldTarget] = []
        started: list[FieldTarget] = []
        devices: list[FieldTarget] = []
        if self.workers and at(job, ("spec", "minAvailable")) == total:
            nodes.append(self._target(("spec", "minAvailable")))
        for each in arguments:
            number = whole_number(each.text)
            if each.flag in _NODES and self.workers and number == total:
                self._take(each, self.workers, nodes)
            elif each.flag in _RANKS and self.workers and self._row.kind == "MPIJob" and number == ranks:
                self._take(each, self.workers, started)
            elif each.flag in _PER_NODE and number is not None and number == per_node:
                self._take(each, "accelerators", devices)
        self._compute(
            "pods", "Pods", nodes, Derived(title="", sum=(self.workers, total - count)), is_same=total == count
        )
        factor = ranks // count if count else 1
        product = Derived(title="", product=(self.workers, factor))
        self._compute("processes", "Processes", started, product, is_same=factor == 1)
        if devices:
            self._also_sets("accelerators", devices)

    def _take(self, argument: Argument, name: str, targets: list[FieldTarget]) -> None:
        if argument.target is not None:
            targets.append(argument.target)
        else:
            self.remarks.append(
                f"{argument.place.capitalize()} has {argument.flag} {argument.text} inside of a text, "
                f"which does not follow {name}: change both."
            )

    def _compute(self, name: str, title: str, targets: Sequence[FieldTarget], how: Derived, *, is_same: bool) -> None:
        if targets and is_same:
            self._also_sets(self.workers, targets)
        elif targets:
            self.derived[self.free_name(name)] = replace(how, title=title, sets=tuple(targets))


def whole_number(value: object) -> int | None:
    """Return a number from 0 on, also one that is written as a text; `None` for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _plain(flag: str) -> str:
    return flag.lstrip("-").replace("-", "_")


def _typed(text: str) -> Scalar:
    """Return an argument as the type that writes it in the same way."""
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            if argument_text(kind(text)) == text and len(text) < 16:
                return kind(text)
        except ValueError:
            continue
    return text
