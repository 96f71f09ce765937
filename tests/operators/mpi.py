"""Our MPIJob controller, with our Job controller, beside the recordings of mpi-operator 0.6.0."""

from __future__ import annotations

from actions.base.files import asset
from actions.sandbox.clientkit.kinds import DEPLOYMENTS, JOBS, MPI_JOBS
from actions.sandbox.controllers.core.jobs import JobController
from actions.sandbox.controllers.kubeflow.mpi_job import MADE, MPIJobController
from tests.operators.operator import Operator, definitions_in

MPI = Operator(
    version="mpi-operator-0.6.0",
    resources=(MPI_JOBS,),
    made=MADE,
    followed=(JOBS,),
    watched=(DEPLOYMENTS,),
    definitions=lambda: definitions_in(asset("mirror/mpi-operator/0.8.0/manifest.yaml")),
    controllers=lambda client, caches: [
        MPIJobController(client, caches, needs_operator=False),
        JobController(client, caches),
    ],
    sources=frozenset({"mpi-job-controller", "job-controller"}),
    left_out={"intel": "every blueprint has Open MPI; a plain job of another one is refused by name"},
)
