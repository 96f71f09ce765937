"""Groups and examples of the commands of the command line: for `--help`, the manual page and docs/command-line.md."""

from __future__ import annotations

GROUPS = {
    "nodes": "Look at a cluster",
    "blueprints": "Prepare and launch",
    "runs": "Control runs",
    "serve": "Serve, and explain",
}
"""The first command of each group, in the order of the parser."""

EXAMPLES: dict[str, tuple[str, ...]] = {
    "nodes": (
        "eksml-tui nodes                          all nodes with their use and cost",
        "eksml-tui nodes -o csv > nodes.csv       all fields, for a spreadsheet",
        "eksml-tui nodes -l team=a -L karpenter.sh/nodepool --sort-by=-requested.gpu",
    ),
    "pods": (
        "eksml-tui pods -n training               the pods of a namespace",
        "eksml-tui pods --node ip-10-0-1-7 -o json",
        "eksml-tui pods -A -l app=train -w        each change, until interrupted",
    ),
    "queues": (
        "eksml-tui queues                         quota, what has it, what waits",
        "eksml-tui queues trainjob/llama          its position, and what is before it",
    ),
    "events": (
        "eksml-tui events --warnings              what went wrong lately, newest last",
        "eksml-tui events -n training -o yaml",
    ),
    "cost": (
        "eksml-tui cost                           $/h by type, and what is idle",
        "eksml-tui cost -o json                   the same for programs",
    ),
    "audit": ("eksml-tui audit bionemo-on-eks           by runs that have no store either",),
    "why": (
        "eksml-tui why                            whatever is stuck in the cluster",
        "eksml-tui why pytorchjob/esm1nv          one job",
        "kubectl describe pod train-0 | eksml-tui why --from -",
    ),
    "watch": (
        "eksml-tui watch pytorchjob/esm1nv        its logs, accelerators and curves",
        "eksml-tui watch job/train --plain        its log alone, as text",
    ),
    "logs": (
        "eksml-tui logs mpijob/nccl-tests         all its pods, in the order of time",
        "eksml-tui logs -l app=train -f --tail 10",
        "eksml-tui logs job/train --to train.log   for a rehearsal",
    ),
    "help": ("eksml-tui help runs resume",),
    "version": ("eksml-tui version",),
    "forward": (
        "eksml-tui forward                        what can be forwarded",
        "eksml-tui forward tensorboard --local 6006",
    ),
    "read": (
        "eksml-tui read log train.log -o plot     curves of a log",
        "eksml-tui read nccl all_reduce.txt       bus bandwidth by size",
        "nvidia-smi -q | eksml-tui read nvidia-smi   also -q -x, the table…",
        "nvidia-smi topo -m | eksml-tui read topo -o json",
    ),
    "blueprints": (
        "eksml-tui blueprints                     all of them",
        "eksml-tui blueprints show bionemo-esm1nv   its stages and parameters",
    ),
    "blueprints list": ("eksml-tui blueprints list -o json        with their folders",),
    "blueprints new": (
        "eksml-tui blueprints new mnist --from pytorchjob.yaml --log train.log",
        "eksml-tui blueprints new mnist --from pytorchjob/mnist -n team-a",
        "kustomize build . | eksml-tui blueprints new mnist --from -",
    ),
    "blueprints add": (
        "eksml-tui blueprints add github.com/acme/training@v1.2//blueprints/llama",
        "eksml-tui blueprints add git@git.acme.com:ml/esm --yes",
    ),
    "blueprints update": ("eksml-tui blueprints update llama --ref v1.3    the diff first",),
    "blueprints remove": ("eksml-tui blueprints remove llama",),
    "blueprints show": ("eksml-tui blueprints show bionemo-esm1nv -o csv > parameters.csv",),
    "validate": (
        "eksml-tui validate my-blueprints/*       check each of them",
        "git show :blueprint.yaml | eksml-tui validate -",
    ),
    "mirror": (
        "eksml-tui mirror --check                 which downloads are there",
        "eksml-tui mirror bionemo-esm1nv          what this blueprint needs",
    ),
    "plan": (
        "eksml-tui plan bionemo-esm1nv workers=4  stages, time and cost",
        "eksml-tui plan bionemo-esm1nv --preset rehearsal -o json",
        "eksml-tui plan efa-nccl-tests --existing-cluster --manifests out",
    ),
    "launch": (
        "eksml-tui launch efa-nccl-tests --preset rehearsal --yes",
        "eksml-tui launch bionemo-esm1nv workers=4 --yes --auto-approve",
        "eksml-tui launch bionemo-esm1nv --until 22:30 --budget 500 --at-limit park",
    ),
    "runs takeover": (
        "eksml-tui runs takeover RUN --from cluster         its machine is gone",
        "eksml-tui runs takeover RUN --from s3://runs/team  a bucket; or an archive",
    ),
    "serve": (
        "eksml-tui serve                          prints the address with its token",
        "eksml-tui serve --port 8022 --allow-changes",
    ),
    "support": (
        "eksml-tui support latest                 eksml-support-RUN.tar.gz",
        "eksml-tui support latest report.tar.gz --mask",
    ),
    "prices": ("eksml-tui prices refresh us-west-2        ask AWS again",),
    "prices refresh": (
        "eksml-tui prices refresh                 the region of the session",
        "eksml-tui prices refresh us-east-1 eu-west-1 --no-spot",
    ),
    "doctor": (
        "eksml-tui doctor                         this machine, its account and cluster",
        "eksml-tui doctor bionemo-esm1nv workers=4   a launch",
    ),
    "runs": ("eksml-tui runs list                       all runs of this machine",),
    "runs list": (
        "eksml-tui runs list                      newest first",
        "eksml-tui runs list -o wide              with all fields",
        "eksml-tui runs list --store               those of the team's bucket",
        "eksml-tui runs list --cluster            also those of other machines",
    ),
    "runs show": (
        "eksml-tui runs show latest                stages, cost, what it holds",
        "eksml-tui runs show latest --commands     the same by hand, as Markdown",
    ),
    "runs logs": (
        "eksml-tui runs logs latest --follow      as kubectl logs -f, of all pods",
        "eksml-tui runs logs latest --stage train > train.log",
    ),
    "runs compare": (
        "eksml-tui runs compare latest bionemo-esm1nv-1122",
        "eksml-tui runs compare latest bionemo-esm1nv-1122 --metric val_loss -o csv",
        "eksml-tui runs compare latest bionemo-esm1nv-1122 --store",
    ),
    "runs curves": (
        "eksml-tui runs curves latest             its losses, drawn",
        "eksml-tui runs curves latest loss.svg -o svg",
    ),
    "runs resume": (
        "eksml-tui runs resume latest              asks if that costs money",
        "eksml-tui runs resume latest --yes        in a script",
    ),
    "runs cancel": ("eksml-tui runs cancel latest              stop its jobs, keep the cluster",),
    "runs park": ("eksml-tui runs park latest                free its accelerators, keep its data",),
    "runs pause": ("eksml-tui runs pause latest               begin no further stage",),
    "runs limit": (
        "eksml-tui runs limit latest              the limits that it has",
        "eksml-tui runs limit latest --until +8h --budget 500",
        "eksml-tui runs limit latest --none       remove all of them",
    ),
    "runs archive": ("eksml-tui runs archive latest esm1nv.tar  everything except credentials",),
    "runs rm": (
        "eksml-tui runs rm bionemo-esm1nv-1122-97b9          what would be forgotten",
        "eksml-tui runs rm bionemo-esm1nv-1122-97b9 --confirm bionemo-esm1nv-1122-97b9",
    ),
    "runs clean": ("eksml-tui runs clean --dry-run            what could go, and what needs it",),
    "runs approve": (
        "eksml-tui runs approve latest            the plan that waits for approval",
        "eksml-tui runs approve latest --plan 3f9a   only this plan",
    ),
    "runs results": ("eksml-tui runs results latest             files that it has written",),
    "runs export": ("eksml-tui runs export latest --to s3://my-bucket/esm1nv",),
    "runs terraform": ("eksml-tui runs terraform latest           what its states hold",),
    "runs waive": ("eksml-tui runs waive latest aws_vpc.this --confirm aws_vpc.this",),
    "runs teardown": ("eksml-tui runs teardown latest --confirm bionemo-on-eks",),
    "sandbox": (
        "eksml-tui sandbox --speed 6              until Ctrl-C; prints its kubeconfig",
        "eksml-tui sandbox faults                 those that are on",
    ),
    "sandbox faults": ("eksml-tui sandbox faults clear            clear all faults",),
    "guard": (
        "eksml-tui guard pytorchjob/llama         until the job ends",
        "eksml-tui guard job/train/llama --idle 30m --park   suspend it when idle",
    ),
    "alarms": (
        "eksml-tui alarms                         what waits, and whether it was sent",
        "eksml-tui alarms test                    does the webhook take one?",
    ),
    "alarms ack": ("eksml-tui alarms ack                     no console rings for them again",),
    "alarms test": ("eksml-tui alarms test                    by each way once; 0 if all took it",),
    "config": ("eksml-tui config                         each setting, with its source",),
    "completion": (
        "source <(eksml-tui completion bash)      in ~/.bashrc",
        "eksml-tui completion zsh > ~/.zfunc/_eksml-tui",
        "eksml-tui completion fish > ~/.config/fish/completions/eksml-tui.fish",
    ),
    "docs": (
        "eksml-tui docs                           the pages",
        "eksml-tui docs script                    one of them",
    ),
    "print": ("eksml-tui print rbac | kubectl apply -f -",),
    "print rbac": ("eksml-tui print rbac | kubectl apply -f -",),
    "print iam": ("eksml-tui print iam launch > launch.json",),
    "print schema": ("eksml-tui print schema blueprint > blueprint.schema.json",),
    "man": (
        "eksml-tui man > ~/.local/share/man/man1/eksml-tui.1",
        "eksml-tui man | man -l -                 read it here",
    ),
}
"""By the words of the command; a line has the command, two or more blanks, and what it is for."""


def epilog_of(words: str) -> str:
    """Return the examples of a command, for the end of its help; empty for none."""
    lines = EXAMPLES.get(words, ())
    return "\n".join(["examples:" if len(lines) > 1 else "example:", *(f"  {line}" for line in lines)]) if lines else ""
