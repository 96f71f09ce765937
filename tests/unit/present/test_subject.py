"""The text that an operator types to name an object."""

from __future__ import annotations

import pytest

from tui.present.subject import Subject, parse_subject


@pytest.mark.parametrize(
    ("typed", "subject"),
    [
        ("train-0", Subject("Pod", "train-0", "ml")),
        ("team/train-0", Subject("Pod", "train-0", "team")),
        ("pod/team/train-0", Subject("Pod", "train-0", "team")),
        ("po/train-0", Subject("Pod", "train-0", "ml")),
        ("node/ip-10-0-0-1", Subject("Node", "ip-10-0-0-1")),
        ("jobset/train", Subject("JobSet", "train", "ml")),
        ("trainjob/x", Subject("TrainJob", "x", "ml")),
        ("TFJob/x", Subject("TFJob", "x", "ml")),
        ("svc/x", Subject("Service", "x", "ml")),
        ("queue/default", Subject("Queue", "default")),
        ("ec2nc/gpu", Subject("EC2NodeClass", "gpu")),
        ("job/x", Subject("Job", "x", "ml")),
        ("job.batch/x", Subject("Job", "x", "ml")),
        ("pytorchjob.kubeflow.org/team/x", Subject("PyTorchJob", "x", "team")),
        ("vcjob/x", Subject("Job.batch.volcano.sh", "x", "ml")),
        ("job.batch.volcano.sh/x", Subject("Job.batch.volcano.sh", "x", "ml")),
        ("jobs/train-0", Subject("Pod", "train-0", "jobs")),
        ("services/web-0", Subject("Pod", "web-0", "services")),
        ("widget/team/x", Subject("widget", "x", "team")),
    ],
)
def test_every_kind_of_the_table_can_be_named(typed: str, subject: Subject) -> None:
    assert parse_subject(typed, default_namespace="ml") == subject


def test_a_cluster_scoped_object_has_no_namespace_however_it_is_typed() -> None:
    assert parse_subject("node/team/n1", default_namespace="ml") == Subject("Node", "n1")
