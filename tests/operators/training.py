"""Our PyTorchJob controller beside the recordings of training-operator 1.8.1."""

from __future__ import annotations

import re

from actions.sandbox.clientkit.kinds import DEPLOYMENTS, PYTORCH_JOBS, SERVICES
from actions.sandbox.controllers.kubeflow.pytorch_job import PyTorchJobController
from tests.operators.operator import Operator
from tests.operators.story import Document
from tests.unit.sandbox.controllers.server import pytorch_definition

_CLAIMS = re.compile(r" no new claims to deallocate,")
"""Said by schedulers of 1.34; the sandbox's is of 1.32."""


def _settled(account: Document) -> Document:
    """Without the order of roles: the operator keeps them in a map, and goes through it in another order each time.

    The order decides who is made first, and whether the workers of a job whose master has ended have a selector.
    """
    for status in account["statuses"].values():
        replicas = status.get("replicaStatuses") or {}
        if "Master" in replicas:
            replicas.get("Worker", {}).pop("selector", None)
    if "made" in account:
        for owner, made in account["made"].items():
            account["made"][owner] = sorted(made, key=lambda thing: "-master-" not in thing[1])
        account["events"] = {(*told[:2], _CLAIMS.sub("", told[2]), *told[3:]) for told in account["events"]}
    return account


TRAINING = Operator(
    version="training-operator-1.8.1",
    resources=(PYTORCH_JOBS,),
    made=(SERVICES,),
    watched=(DEPLOYMENTS,),
    definitions=lambda: [pytorch_definition()],
    controllers=lambda client, caches: [PyTorchJobController(client, caches, needs_operator=False)],
    sources=frozenset({"pytorchjob-controller"}),
    settled=_settled,
    left_out={
        "workers8-elastic-hpa": "no blueprint and no plain job lets a horizontal autoscaler decide on its workers",
        "fail-onfailure-backoff": (
            "a race in the real operator: it reads its own status too late, and makes the pods of the job that it has "
            "just ended once more; 1.7.0 does not"
        ),
    },
)
