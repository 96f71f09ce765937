"""botocore's descriptions of services are read once in a process, and sessions stay apart in all else."""

from __future__ import annotations

import pytest

from actions.cloud.aws_session import AwsSession


def test_sessions_share_the_models_of_services_and_no_settings() -> None:
    loaders = []
    for region in ("us-west-2", "eu-west-1", "us-west-2"):
        session = AwsSession(region=region)
        assert session.raw().region_name == region
        loaders.append(session.core().get_component("data_loader"))
        session.close()
    assert loaders[0] is loaders[1] is loaders[2]
    assert len(loaders[0].search_paths) <= len(set(loaders[0].search_paths)) + 1  # boto3 adds its own each time


def test_further_folders_of_models_have_a_loader_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = AwsSession().core().get_component("data_loader")
    monkeypatch.setenv("AWS_DATA_PATH", "/models/of/mine")
    own = AwsSession().core().get_component("data_loader")
    assert own is not usual
    assert "/models/of/mine" in own.search_paths
