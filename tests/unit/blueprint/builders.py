"""Small blueprints on disk, to break one at a time."""

from __future__ import annotations

from pathlib import Path

TEXT = """\
schema: eksml/v1
id: small
title: Small
summary: One job.
cluster: {name: small, region: us-west-2}
parameters:
  workers:
    type: integer
    title: Workers
    default: 2
    minimum: 1
    maximum: 8
    sets:
      - {file: manifests/job.yaml, kind: Job, name: work, path: spec.parallelism}
      - {file: manifests/job.yaml, kind: Job, name: work, container: main, arg: "--workers="}
      - {file: manifests/job.yaml, kind: Job, name: work, container: main, env: WORKERS}
      - {tfvar: size}
  instance_type: {type: text, title: Type, default: g5.12xlarge}
  token: {type: secret, title: Token, default: ""}
derived:
  gpus: {title: GPUs, lookup: {instance: instance_type, column: gpu}}
  last:
    title: Last
    sum: [workers, -1]
    sets:
      - {file: manifests/job.yaml, kind: Job, name: work, container: main, arg: "range=", format: "'x_%03d'"}
rules:
  - at_most: [workers, gpus]
    message: "${workers} workers want more than ${gpus} GPUs."
    hint: Lower workers.
holdings:
  base: {kind: flat, title: Base, usd_per_hour: 0.5}
  secretive: {kind: flat, title: Secretive, usd_per_hour: null}
secrets:
  token: {parameter: token, key: value}
stages:
  - {id: provision, kind: terraform, title: P, root: root, expect: 1m..2m, holds: [base], outputs: [answer]}
  - id: work
    kind: job
    title: W
    needs: [provision]
    expect: 1h..2h
    holds: [base, secretive]
    secrets: [token]
    manifests: [manifests/job.yaml]
    target: {api_version: batch/v1, kind: Job, name: work}
    sets:
      - from: provision.answer
        file: manifests/job.yaml
        kind: Job
        name: work
        path: 'metadata.annotations."example.test/a"'
presets:
  quick: {title: Quick, set: {workers: 1}, expect: {work: 1s..2s}, roots: {provision: other}}
"""

JOB = """\
apiVersion: batch/v1
kind: Job
metadata:
  name: work
  annotations: {example.test/a: unset}
spec:
  parallelism: 1
  template:
    spec:
      nodeSelector: {node.kubernetes.io/instance-type: g5.12xlarge}
      containers:
        - name: main
          image: example.test/image
          args: [run, --workers=1, "range='x_000'"]
          env:
            - {name: WORKERS, value: "1"}
          resources: {limits: {nvidia.com/gpu: 3}}
"""

ROOT = """\
variable "size" {
  type = number
}

output "answer" {
  value = "42"
}
"""


def a_blueprint(folder: Path, *replacements: tuple[str, str], job: str = JOB) -> Path:
    """Write a good small blueprint into `folder`, with parts of its text replaced; each must be there."""
    text = TEXT
    for old, new in replacements:
        assert old in text, old
        text = text.replace(old, new, 1)
    (folder / "manifests").mkdir(parents=True)
    (folder / "manifests" / "job.yaml").write_text(job, encoding="utf-8")
    for name in ("root", "other"):
        (folder / name).mkdir()
        (folder / name / "main.tf").write_text(ROOT, encoding="utf-8")
    (folder / "blueprint.yaml").write_text(text, encoding="utf-8")
    return folder
