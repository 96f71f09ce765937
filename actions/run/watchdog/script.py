"""The program of a watchdog's pod. Python's standard library alone: its text is the pod's command.

It reads the run's Lease. When that was not renewed for longer than allowed, it suspends the objects that it was given,
each by name and uid, and notes on the Lease why. It deletes what cannot be suspended. What has ended is left alone.

Its configuration is JSON in `EKSML_WATCHDOG`: `run`, `minutes`, `lease` (a path of the API), and `targets`, each with
`path`, `name`, `uid`, `patch` (`null` to delete) and `command` (the path and the object to create instead, or `null`).
"""

from __future__ import annotations

import json
import os
import ssl
import sys
import urllib.error
import urllib.request
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

NOTE = "eksml.dev/parked"
"""The annotation with the reason."""
LEASE = "eksml.dev/lease"
"""The annotation with what the runner says of the run."""
MANAGER = "eksml-watchdog"
QUIET = ("parked", "torn down")
"""States of a run that holds no accelerators."""
ENDED = {"Complete", "Completed", "Succeeded", "Failed", "Terminated", "Aborting", "Aborted", "Finished"}
_SECONDS = 20.0
_MISSING = 404
_CONFLICT = 409


class Api:
    """The API server, with the credentials of the pod's service account."""

    def __init__(self) -> None:
        folder = Path(os.environ.get("EKSML_SERVICE_ACCOUNT", "/var/run/secrets/kubernetes.io/serviceaccount"))
        host, port = os.environ["KUBERNETES_SERVICE_HOST"], os.environ["KUBERNETES_SERVICE_PORT"]
        self._base = f"https://{f'[{host}]' if ':' in host else host}:{port}"
        self.headers = {"Authorization": f"Bearer {(folder / 'token').read_text().strip()}"}
        self._tls = ssl.create_default_context(cafile=str(folder / "ca.crt"))

    def call(self, method: str, path: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Return the answer to a request.

        Raises:
            OSError: No answer, or a refusal, as `urllib.error.HTTPError` with its code.
        """
        kind = "application/merge-patch+json" if method == "PATCH" else "application/json"
        request = urllib.request.Request(  # noqa: S310 - the scheme is fixed above
            self._base + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind, "Accept": "application/json", **self.headers},
        )
        with urllib.request.urlopen(request, timeout=_SECONDS, context=self._tls) as answer:  # noqa: S310 - as above
            found = json.load(answer)
        return found if isinstance(found, dict) else {}


def moment_of(text: object) -> datetime | None:
    """Return a timestamp of RFC 3339; `None` for anything else."""
    try:
        found = datetime.fromisoformat(str(text).replace("Z", "+00:00"))
    except ValueError:
        return None
    return found if found.tzinfo is not None else None


def sign_of_life(lease: dict[str, Any]) -> datetime | None:
    """Return the newest sign of the runner: its renewal, or the API server's time of its last write.

    The clocks of two machines may differ: the later of both counts.
    """
    renewed = moment_of((lease.get("spec") or {}).get("renewTime"))
    if renewed is None:
        return None
    fields = (lease.get("metadata") or {}).get("managedFields") or ()
    written = [moment_of(entry.get("time")) for entry in fields if entry.get("manager") != MANAGER]
    return max([renewed, *(moment for moment in written if moment is not None)])


def state_of(lease: dict[str, Any]) -> str:
    """Return the run's state as its runner wrote it; empty if it cannot be read."""
    annotations = (lease.get("metadata") or {}).get("annotations") or {}
    try:
        said = json.loads(annotations.get(LEASE) or "{}")
        return str(said["status"]["state"])
    except (ValueError, KeyError, TypeError):
        return ""


def has_ended(document: dict[str, Any]) -> bool:
    """Return whether a job has ended by itself, or is suspended or going already."""
    status, spec = document.get("status") or {}, document.get("spec") or {}
    if (document.get("metadata") or {}).get("deletionTimestamp"):
        return True
    if spec.get("suspend") or (spec.get("runPolicy") or {}).get("suspend") or spec.get("replicas") == 0:
        return True
    true = {one.get("type") for one in status.get("conditions") or () if one.get("status") == "True"}
    phase = status.get("state") or {}
    words = {
        status.get("jobDeploymentStatus"),
        status.get("phase"),
        phase.get("phase") if isinstance(phase, dict) else "",
    }
    return bool(ENDED & (true | words))


def stop(api: Api, target: dict[str, Any]) -> str:
    """Suspend or delete one object, if it is the one that was meant and has not ended.

    Returns:
        What was done, in a few words; empty if there was nothing to do.

    Raises:
        OSError: It could not be done.
    """
    path, uid = target["path"], target["uid"]
    try:
        found = api.call("GET", path)
        if (found.get("metadata") or {}).get("uid") != uid or has_ended(found):
            return ""
        if target.get("command"):
            api.call("POST", *target["command"])
            return f"suspended {target['name']}"
        if target["patch"] is None:
            options = {"propagationPolicy": "Background", "preconditions": {"uid": uid}}
            api.call("DELETE", path, {"apiVersion": "v1", "kind": "DeleteOptions", **options})
            return f"deleted {target['name']}"
        api.call("PATCH", f"{path}?fieldManager={MANAGER}", {"metadata": {"uid": uid}, **target["patch"]})
    except urllib.error.HTTPError as error:
        if error.code in (_MISSING, _CONFLICT):  # gone, or another one by now
            return ""
        raise
    return f"suspended {target['name']}"


def watch(api: Api, config: dict[str, Any], now: datetime) -> str:
    """Look once, and act if the heartbeat stays away. Returns what was found or done, in one sentence.

    Raises:
        OSError: The API server does not answer, or refuses.
    """
    try:
        lease = api.call("GET", config["lease"])
    except urllib.error.HTTPError as error:
        if error.code == _MISSING:
            return f"Run {config['run']} is not known here: nothing was done."
        raise
    seen, state = sign_of_life(lease), state_of(lease)
    if seen is None or not state:
        return f"The heartbeat of run {config['run']} cannot be read: nothing was done."
    silent = (now - seen).total_seconds() / 60
    if silent < config["minutes"] or state in QUIET:
        return f"The last heartbeat of run {config['run']} is {max(0.0, silent):.0f} min old: nothing was done."
    done, failed = [], []
    for target in config["targets"]:
        try:
            done += [word for word in [stop(api, target)] if word]
        except OSError as error:
            failed.append(f"{target['name']}: {error}")
    if not (done or failed):
        return f"Run {config['run']} is silent for {silent:.0f} min, and none of its jobs is at work."
    why = (
        f"{now:%Y-%m-%dT%H:%M:%SZ} The runner's heartbeat was {silent:.0f} min old, "
        f"{config['minutes']} min are allowed: "
        f"{', '.join(done) or 'nothing was stopped'}{'; failed: ' if failed else ''}{'; '.join(failed)}."
    )
    note = {"metadata": {"annotations": {NOTE: why}}}
    api.call("PATCH", f"{config['lease']}?fieldManager={MANAGER}", note)
    if failed:
        raise OSError(why)
    return why


def main() -> int:
    """Look once; return the exit code: 1 if it could not be done, and the CronJob tries again."""
    try:
        sentence = watch(Api(), json.loads(os.environ["EKSML_WATCHDOG"]), datetime.now(UTC))  # noqa: TID251 - alone in a pod
    except (OSError, KeyError, ValueError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(f"{sentence}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
