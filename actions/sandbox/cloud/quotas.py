"""Service Quotas answers: an account that may start plenty of everything."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

QUOTA_TARGET = "ServiceQuotasV20190624.GetServiceQuota"
"""`X-Amz-Target` of the one call that is served."""

_VALUE = 1152.0


def service_quota(asked: Mapping[str, Any]) -> dict[str, Any]:
    """`GetServiceQuota` for any service and code.

    Source: botocore's service model `service-quotas` (2019-06-24).
    """
    return {
        "Quota": {
            "ServiceCode": str(asked.get("ServiceCode", "")),
            "QuotaCode": str(asked.get("QuotaCode", "")),
            "Value": _VALUE,
            "Unit": "None",
            "Adjustable": True,
            "GlobalQuota": False,
        }
    }
