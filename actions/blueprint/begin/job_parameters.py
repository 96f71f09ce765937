"""The parameters of a job that was written elsewhere: what a person may want to change, and a target can set.

Numbers that restate others (`-np 16`, `--nnodes`, `minAvailable`) follow from their parameters. What no target can set
stays as it is, and is named in the remarks.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any

import msgspec

from actions.blueprint.begin.job_manifests import job_containers, main_container, places_of
from actions.blueprint.parts import Scalar, Where
from actions.blueprint.targets import Manifest, argument_text
from actions.cluster.kinds import KubeKind
from actions.cluster.pod_roles import at, place_text
from actions.fleet.node_offers import INSTANCE_TYPE

_WORD = re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]*=)([^\s\"'\\$`;|&<>()]+)(?=\s|$)")
"""An argument with its value, in a text or by itself."""
_NUMBER = re.compile(r"(?<!\S)(--?[A-Za-z][\w.-]*)[ \t]+(\d+)(?=\s|$)")
_FLAG = re.compile(r"--?[A-Za-z][\w.-]*")
_PAIRED = re.compile(r"(?!-|python|torchrun|.*\.(?:py|sh)$)[^\s=/$]+")
"""A word that may be the value of the flag before it."""
_NODES = frozenset({"nnodes", "num_nodes", "num_machines", "nodes"})
_RANKS = frozenset({"np", "n"})
_PER_NODE = frozenset({"nproc_per_node", "num_gpus_per_node", "gpus_per_node", "npernode", "N"})
_OF_ALL = frozenset({"num_processes"})
"""Of accelerate, which counts those of all machines."""
_QUEUE = "kueue.x-k8s.io/queue-name"
UNQUEUED: dict[str, Scalar] = {"queue": "", "suspend": False}
"""The values with which a job starts where no Kueue is."""
_TYPES = {bool: "boolean", int: "integer", float: "number"}


Restated = tuple[frozenset[str], int | None, dict[str, Any]]
"""Names of arguments, the number that they may restate, and the parameter or derived value that sets them then."""


class JobParameters:
    """The parameters of one job, found in its manifest.

    Args:
        job: The object.
        row: The row of its kind.
        objects: All objects of its manifests, each with its file in the blueprint's folder.
        namespace: For a job that names none.
        taken: Names that are taken.
    """

    def __init__(
        self,
        job: Manifest,
        row: KubeKind,
        objects: Sequence[tuple[Manifest, str]],
        namespace: str,
        taken: Sequence[str],
    ) -> None:
        self.found: dict[str, dict[str, Any]] = {}
        """Parameters by name, as a blueprint has them."""
        self.derived: dict[str, dict[str, Any]] = {}
        self.remarks: list[str] = []
        self.containers = job_containers(job)
        self.main = main_container(self.containers)
        devices: tuple[str, Any] = next(iter(self.main.devices.items()), ("", None))
        self.devices, self._amount = devices
        """The resource of the accelerators; empty without any."""
        self._roles = list({one.role.path: one.role for one in self.containers}.values())
        self._job, self._row, self._objects, self._taken = job, row, objects, {*UNQUEUED, "namespace", *taken}
        self._workers = ""
        self._images()
        self._counts()
        self._accelerators()
        self._instance_types()
        self._namespace(namespace)
        self._queue()
        self._arguments()

    def _target(self, path: Where, item: Manifest | None = None, **more: str) -> dict[str, Any]:
        item = item or self._job
        file = next(file for each, file in self._objects if each is item)
        return {"file": file, "kind": item["kind"], "name": item["metadata"]["name"], "path": place_text(path), **more}

    def _add(self, name: str, default: Scalar, title: str, targets: Sequence[dict[str, Any]], **more: Any) -> str:
        """Add a parameter under a name that is free, which is returned; empty for a text that is not one line."""
        if not str(default).isprintable():
            return ""
        name = self._free_name(name)
        more = {key: value for key, value in more.items() if value is not None}
        kind = _TYPES.get(type(default), "text")
        self.found[name] = {"type": kind, "title": title, "default": default, **more, "sets": list(targets)}
        return name

    def _free_name(self, text: str) -> str:
        plain = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:50] or "value"
        plain = plain if plain[0].isalpha() else f"n_{plain}"
        taken = {*self.found, *self.derived, *self._taken}
        return next(name for name in (plain, *(f"{plain}_{i}" for i in range(2, 999))) if name not in taken)

    def _images(self) -> None:
        found: dict[str, list[Where]] = {}
        for one in sorted(self.containers, key=lambda one: one is not self.main):
            if isinstance(image := one.spec.get("image"), str):
                found.setdefault(image, []).append((*one.path, "image"))
        for image, paths in found.items():
            of = "" if image == self.main.spec.get("image") else at(self._job, (*paths[0][:-1], "name"))
            title = f"Image of {of}" if of else "Image"
            self._add(f"{of} image", image, title, [self._target(path) for path in paths])

    def _counts(self) -> None:
        for role in sorted(self._roles, key=lambda role: role is not self.main.role):
            is_main = role is self.main.role
            if not role.counts or (role.is_lead and role.count <= 1 and not is_main):
                continue
            name, title = f"{role.name}_replicas", f"Replicas of {role.name}"
            if is_main:
                name, title = ("replicas", "Replicas") if self._row.kind == "Deployment" else ("workers", "Workers")
            low = role.low if role.low is not None else min(1, role.count)
            targets = [self._target(path) for path in role.counts]
            name = self._add(name, role.count, title, targets, minimum=low, maximum=role.high)
            self._workers = name if is_main else self._workers

    def _accelerators(self) -> None:
        number = _whole_number(self._amount)
        if number is None:
            return
        places: list[Where] = [("spec", "nprocPerNode"), ("spec", "slotsPerWorker")]
        for one in self.containers:
            resources = (*one.path, "resources" if one.role.is_template else "resourcesPerNode")
            places += [(*resources, part, self.devices) for part in ("requests", "limits")]
            places.append((*one.role.path[:-1], "rayStartParams", "num-gpus"))
        written = {place: at(self._job, place) for place in places}
        targets = [
            self._target(place) if isinstance(value, int) else self._target(place, format="%s")
            for place, value in written.items()
            if _whole_number(value) == number
        ]
        self._add("accelerators", number, f"{self.devices} per pod", targets, minimum=min(1, number))

    def _instance_types(self) -> None:
        own = at(self.main.role.spec, ("nodeSelector", INSTANCE_TYPE))
        places = [(*role.path, "spec", "nodeSelector", INSTANCE_TYPE) for role in self._roles]
        targets = [self._target(path) for path in places if at(self._job, path) == own]
        if isinstance(own, str):
            self._add("instance_type", own, "Instance type", targets)

    def _everywhere(self, key: str, value: str) -> list[dict[str, Any]]:
        """Return what sets all fields of a name and value in all objects."""
        return [
            self._target(path, item)
            for item, _ in self._objects
            for path, found in places_of(item)
            if found == value and (path[-1] == key or (item["kind"].lower() == key and path == ("metadata", "name")))
        ]

    def _namespace(self, default: str) -> None:
        here = self._job["metadata"].get("namespace")
        form = {"type": "text", "title": "Namespace", "pattern": "[a-z0-9]([a-z0-9-]*[a-z0-9])?"}
        targets = {"sets": self._everywhere("namespace", here)} if here else {}
        self.found["namespace"] = {**form, "default": here or default, **targets}

    def _queue(self) -> None:
        queue = at(self._job, ("metadata", "labels", _QUEUE))
        of_cluster = {"group": "Cluster"}
        if queue:
            text = {"type": "text", "title": "Queue", "help": "A LocalQueue of Kueue; empty for none."}
            self.found["queue"] = {**text, "default": queue, **of_cluster, "sets": self._everywhere(_QUEUE, queue)}
        path = tuple(self._row.suspended_by.split("."))
        if at(self._job, path) is True:
            flag = {"type": "boolean", "title": "Suspended until a queue admits it", "default": True}
            self.found["suspend"] = {**flag, **of_cluster, "sets": [self._target(path)]}

    # Arguments

    def _command_lines(self) -> Iterator[tuple[list[tuple[Where, str]], str, bool]]:
        """Yield the words of each command line with their paths, the pods in words, and whether it trains."""
        entry = self._job["spec"].get("entrypoint")
        if isinstance(entry, str):
            yield [(("spec", "entrypoint"), entry)], "The entrypoint", True
        for one in self.containers:
            for key in ("command", "args"):
                words = [((*one.path, key, index), str(word)) for index, word in enumerate(one.spec.get(key) or ())]
                yield words, f"The {one.role.name}", one.spec.get("image") == self.main.spec.get("image")

    def _arguments_in(self, words: Sequence[tuple[Where, str]]) -> Iterator[tuple[str, str, dict[str, Any] | None]]:
        """Yield flag, value and target of each argument; without a target where none can set it."""
        for (path, word), (after, value) in pairwise([*words, ((), "")]):
            for flag, text in _WORD.findall(word):
                yield flag, text, self._target(path, arg=flag) if word.count(flag) == 1 else None
            for flag, text in _NUMBER.findall(word):
                yield flag, text, None
            if _FLAG.fullmatch(word) and (_PAIRED.fullmatch(value) if word.startswith("--") else value.isdigit()):
                yield word, value, self._target(after, format="%s")

    def _arguments(self) -> None:
        """Add the arguments of the program that trains, and let those follow that restate other numbers."""
        rules = list(self._restated())
        chosen: dict[str, tuple[str, list[dict[str, Any]]]] = {}
        for words, place, is_own in self._command_lines():
            for name, text, target in self._arguments_in(words):
                flag = name.strip("-=").replace("-", "_")
                if self._let_follow(rules, flag, text, target, place):
                    continue
                if is_own and target and chosen.setdefault(flag, (text, []))[0] == text:
                    chosen[flag][1].append(target)
        for flag, (text, targets) in chosen.items():
            self._add(flag, _typed(text), f"{flag} of the program", targets, group="Arguments")
        if not chosen:
            self._command()
        found = (value for _, _, value in rules if value["sets"] and value not in self.found.values())
        self.derived |= {self._free_name(value["title"]): value for value in found}

    def _command(self) -> None:
        """Add a command line as a whole, if there is one, and that is one line of text."""
        found: dict[str, list[dict[str, Any]]] = {}
        for words, _, is_own in self._command_lines():
            for path, word in words:
                if is_own and " " in word:
                    found.setdefault(word, []).append(self._target(path))
        if len(found) == 1:
            line, targets = found.popitem()
            self._add("command", line, "Command", targets)

    def _let_follow(
        self, rules: Sequence[Restated], flag: str, text: str, target: dict[str, Any] | None, place: str
    ) -> bool:
        """Let an argument follow the number that it restates, if it does."""
        found = [value for flags, number, value in rules if flag in flags and text == str(number)]
        for value in found:
            if target:
                value["sets"].append(target)
            else:
                inside = f"{place} has {flag} {text} inside of a text, which does not follow {value['title']}"
                self.remarks.append(f"{inside}: change both.")
        return bool(found)

    def _restated(self) -> Iterator[Restated]:
        count, slots = self.main.role.count, _whole_number(at(self._job, ("spec", "slotsPerWorker"))) or 1
        more = sum(role.count for role in self._roles if role.name != "submitter") - count
        if self._workers:
            workers, least = self.found[self._workers], ("spec", "minAvailable")
            pods: dict[str, Any] = {"title": "Pods", "sum": [self._workers, more], "sets": []} if more else workers
            if at(self._job, least) == count + more:
                pods["sets"].append(self._target(least))
            yield _NODES, count + more, pods
            ranks = _RANKS if self._row.kind == "MPIJob" else frozenset()
            each = "accelerators" if slots == _whole_number(self._amount) else slots
            processes = {"title": "Processes", "product": [self._workers, each], "sets": []} if slots > 1 else workers
            yield ranks, count * slots, processes
        if "accelerators" in self.found:
            amount, every = _whole_number(self._amount) or 0, self.found["accelerators"]
            yield _PER_NODE, amount, every
            if self._workers:
                every = {"title": "Processes of all", "product": [self._workers, "accelerators"], "sets": []}
            yield _OF_ALL, count * amount, every


def _whole_number(value: object) -> int | None:
    """Return a number from 0 on, also one that is written as a text; `None` for anything else."""
    text = str(value)
    return int(text) if text.isascii() and text.isdigit() and len(text) < 16 else None


def _typed(text: str) -> Scalar:
    """Return an argument as the type that writes it in the same way."""
    try:
        value = msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text
    is_written_so = len(text) < 16 and isinstance(value, bool | int | float) and argument_text(value) == text
    return value if is_written_so else text
