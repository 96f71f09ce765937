"""The CRDs of Karpenter, reduced to names, subresources and columns; their fields are not checked.

Source: karpenter-provider-aws 1.2.1 (names, scope, printer columns).
"""

from __future__ import annotations

from actions.sandbox.actors.kinds import NODE_CLAIMS, NODE_CLASSES, NODE_POOLS, Document, Kind

Column = tuple[str, str]
"""Name and JSON path."""

_READY: Column = ("Ready", '.status.conditions[?(@.type=="Ready")].status')
_AGE: Column = ("Age", ".metadata.creationTimestamp")


def karpenter_definitions() -> list[Document]:
    """NodePool, NodeClaim and EC2NodeClass."""
    pool = (("NodeClass", ".spec.template.spec.nodeClassRef.name"), ("Nodes", ".status.resources.nodes"), _READY, _AGE)
    claim = (
        ("Type", r".metadata.labels.node\.kubernetes\.io/instance-type"),
        ("Capacity", r".metadata.labels.karpenter\.sh/capacity-type"),
        ("Zone", r".metadata.labels.topology\.kubernetes\.io/zone"),
        ("Node", ".status.nodeName"),
        _READY,
        _AGE,
    )
    return [
        _definition(NODE_POOLS, ["karpenter"], [], pool),
        _definition(NODE_CLAIMS, ["karpenter"], [], claim),
        _definition(NODE_CLASSES, ["karpenter"], ["ec2nc", "ec2ncs"], (_READY, _AGE)),
    ]


def _definition(kind: Kind, categories: list[str], short: list[str], columns: tuple[Column, ...]) -> Document:
    group, _, version = kind.api_version.partition("/")
    free = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{kind.plural}.{group}"},
        "spec": {
            "group": group,
            "scope": "Cluster",
            "names": {
                "kind": kind.kind,
                "listKind": f"{kind.kind}List",
                "plural": kind.plural,
                "singular": kind.kind.lower(),
                "categories": categories,
                "shortNames": short,
            },
            "versions": [
                {
                    "name": version,
                    "served": True,
                    "storage": True,
                    "subresources": {"status": {}},
                    "additionalPrinterColumns": [
                        {"name": name, "jsonPath": path, "type": "date" if name == "Age" else "string"}
                        for name, path in columns
                    ],
                    "schema": {
                        "openAPIV3Schema": {"type": "object", "properties": {"spec": free, "status": free}},
                    },
                }
            ],
        },
    }
