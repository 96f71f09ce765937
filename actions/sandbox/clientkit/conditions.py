"""Condition lists: found, added, changed, with the times that belong to them."""

from __future__ import annotations

from actions.sandbox.clientkit.kinds import Document


def condition_of(document: Document, name: str) -> Document | None:
    """The condition of that type, `None` if the object has none."""
    conditions = (document.get("status") or {}).get("conditions") or ()
    return next((one for one in conditions if one["type"] == name), None)


def is_true(document: Document, name: str) -> bool:
    """Return whether the object has that condition with status True."""
    found = condition_of(document, name)
    return found is not None and found["status"] == "True"


def condition(name: str, status: bool, reason: str, message: str, now: str) -> Document:
    """A condition that changed now."""
    return {
        "type": name,
        "status": "True" if status else "False",
        "reason": reason,
        "message": message,
        "lastTransitionTime": now,
    }


def with_condition(conditions: list[Document], new: Document) -> list[Document]:
    """The list with `new` in the place of the one of its type, or at the end; an equal one keeps its time."""
    if any(_is_same(old, new) for old in conditions):
        return conditions
    if not any(old["type"] == new["type"] for old in conditions):
        return [*conditions, new]
    return [_changed(old, new) if old["type"] == new["type"] else old for old in conditions]


def moved_to_end(conditions: list[Document], new: Document) -> list[Document]:
    """The list with `new` at its end in the place of the one of its type, as Kubeflow's operators keep theirs.

    The same list, if there is one of the same status and reason; one of the same status keeps its time.
    """
    old = next((one for one in conditions if one["type"] == new["type"]), None)
    if old is None:
        return [*conditions, new]
    if (old["status"], old["reason"]) == (new["status"], new["reason"]):
        return conditions
    return [*(one for one in conditions if one is not old), _changed(old, new)]


def _is_same(old: Document, new: Document) -> bool:
    return all(old.get(field) == new.get(field) for field in ("type", "status", "reason", "message"))


def _changed(old: Document, new: Document) -> Document:
    is_transition = old["status"] != new["status"]
    return new if is_transition else {**new, "lastTransitionTime": old.get("lastTransitionTime")}
