"""The subject of a command: the object that is named, or the one under the cursor."""

from __future__ import annotations

import msgspec

from actions.cluster.kinds import KubeKind, find_kind, find_word


class Subject(msgspec.Struct, frozen=True):
    """An object of a cluster, a stage, a blueprint, a run or a whole cluster.

    Args:
        kind: Full name of a Kubernetes kind with a row, else its kind; `Stage` for a stage of the run on screen,
            `Blueprint`, `Run` and `Cluster` for those.
        name: Its name or id.
        namespace: Empty for what has none.
        container: Of a pod, the selected container, if there is one.
        api_version: As in manifests, where the kind has no row: of an object that was selected in a table of its kind.
        uid: Of the object that was selected; empty if it was named.
        cluster: The context of its cluster, where objects of several are on screen; else empty.
    """

    kind: str
    name: str
    namespace: str = ""
    container: str = ""
    api_version: str = ""
    uid: str = ""
    cluster: str = ""

    @property
    def row(self) -> KubeKind | None:
        """The kind's row in the table of kinds; `None` for a stage, a blueprint, a run or a kind without one."""
        return find_kind(self.kind)

    def title(self) -> str:
        """As a heading: `Pod default/train-worker-0`."""
        return f"{self.kind} {self.namespace}/{self.name}" if self.namespace else f"{self.kind} {self.name}"


def parse_subject(text: str, *, default_namespace: str) -> Subject:
    """Read what an operator types: `namespace/pod`, `pod`, `kind/name` or `kind/namespace/name`.

    Kinds are those of `actions.cluster.kinds`. A first part that is not one of them is a namespace.
    """
    match text.split("/"):
        case [word, namespace, name]:
            row = find_word(word)
            return Subject(word, name, namespace) if row is None else _subject(row, name, namespace)
        case [word, name] if (row := find_word(word)) is not None:
            return _subject(row, name, default_namespace)
        case [namespace, name]:
            return Subject("Pod", name, namespace)
        case _:
            return Subject("Pod", text, default_namespace)


def _subject(row: KubeKind, name: str, namespace: str) -> Subject:
    return Subject(row.name, name, namespace if row.is_namespaced else "")
