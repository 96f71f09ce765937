"""The beginning of the blueprints that runs on a shared sandbox are made of."""

from __future__ import annotations

BLUEPRINT = """
schema: eksml/v1
id: small
title: A small run
summary: For tests.
cluster: {name: bionemo-on-eks, region: us-west-2, namespace: default}
stages:
  - {id: access, kind: kubeconfig, title: Access, expect: 1s..5s, cluster: bionemo-on-eks, region: us-west-2}
  - {id: objects, kind: manifests, title: Objects, needs: [access], expect: 1s..5s, manifests: [objects.yaml]}
"""
