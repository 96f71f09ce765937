"""The sandbox is a sub-package with a border: what it borrows is listed, and nothing in it is for tests alone."""

from __future__ import annotations

import ast
from collections import defaultdict
from functools import cache

from tests.support.sources import ROOT, modules_of

SANDBOX = "actions.sandbox"
ENTRANCES = frozenset({f"{SANDBOX}.__main__", f"{SANDBOX}.terraform.__main__", f"{SANDBOX}.locate"})
"""The two programs, and by what the product finds or starts the first."""
IMPORTER = ("tui.cli.sandbox", "demos")
"""The one function of the product that imports it."""
BORROWED = {
    # what every package uses
    "actions.base.backoff",
    "actions.base.clock",
    "actions.base.decoding",
    "actions.base.errors",
    "actions.base.executors",
    "actions.base.files",
    "actions.base.names",
    "actions.base.patterns",
    "actions.base.process",
    "actions.base.proxies",
    "actions.base.untrusted",
    "actions.base.yamldoc",
    # facts of instance types, the rules by which pods get nodes, and the sums that a scheduler compares
    "actions.fleet.instance_types",
    "actions.fleet.node_amounts",
    "actions.fleet.node_offers",
    "actions.fleet.placement",
    "actions.cluster.state.pod_requests",
    # the jobs that own pods
    "actions.cluster.kinds",
    "actions.cluster.pod_roles",
    # the client: controllers and kubelet reach the API server as any client does
    "actions.cluster.auth.kubeconfig",
    "actions.cluster.auth.session",
    "actions.cluster.auth.tls",
    "actions.cluster.http.errors",
    "actions.cluster.remote.port_forward",
    "actions.cluster.watch.health",
    "actions.cluster.watch.reflector",
    # the channels of `kubectl exec`, which client and server must agree on
    "actions.cluster.remote.exec",
}
"""All that the sandbox imports of the product."""


@cache
def imports() -> dict[str, set[str]]:
    """By module of `actions` and `tui`: the modules of the product that it imports, inside functions too."""
    by_name = {module.dotted: module for module in modules_of("actions", "tui")}
    found: dict[str, set[str]] = {}
    for name, module in by_name.items():
        names = {alias.name for node in module.nodes(ast.Import) for alias in node.names}
        for node in module.nodes(ast.ImportFrom):
            if node.module:
                inside = [f"{node.module}.{alias.name}" for alias in node.names]
                names |= {one if one in by_name else node.module for one in inside}
        found[name] = {one for one in names if one.partition(".")[0] in {"actions", "tui"}}
    return found


def is_inside(module: str) -> bool:
    return module == SANDBOX or module.startswith(f"{SANDBOX}.")


def folder_of(module: str) -> str:
    """Return the part of the sandbox that a module is in; a module beside the parts is one by itself."""
    part = module.split(".")[2]
    return part if (ROOT / "actions" / "sandbox" / part).is_dir() else ""


def test_the_sandbox_borrows_what_is_listed() -> None:
    borrowed = {name for module, names in imports().items() if is_inside(module) for name in names}
    assert {name for name in borrowed if not is_inside(name)} == BORROWED


def test_one_function_of_the_product_imports_it() -> None:
    entered = {(module, name) for module, names in imports().items() if not is_inside(module) for name in names}
    assert {pair for pair in entered if is_inside(pair[1])} == {(IMPORTER[0], f"{SANDBOX}.locate")}
    (module,) = (each for each in modules_of("tui") if each.dotted == IMPORTER[0])
    (function,) = (node for node in module.nodes(ast.FunctionDef) if node.name == IMPORTER[1])
    everywhere = [node for node in module.nodes(ast.ImportFrom) if is_inside(node.module or "")]
    assert [node for node in ast.walk(function) if node in everywhere] == everywhere


def test_nothing_in_the_sandbox_is_for_tests_alone() -> None:
    """Every module is reached from an entrance; `eksml-tui sandbox` starts the first of them."""
    reached: set[str] = set()
    ahead = set(ENTRANCES)
    while ahead:
        module = ahead.pop()
        reached.add(module)
        ahead |= {name for name in imports()[module] if is_inside(name)} - reached
    packages = {module.dotted for module in modules_of("actions") if module.path.name == "__init__.py"}
    assert {module for module in imports() if is_inside(module)} - packages - reached == set()


def test_the_parts_of_the_sandbox_use_each_other_in_one_direction() -> None:
    """The modules beside the parts count as one part: they put the others together."""
    used: defaultdict[str, set[str]] = defaultdict(set)
    for module, names in imports().items():
        if module.startswith(f"{SANDBOX}."):
            used[folder_of(module)] |= {folder_of(name) for name in names if is_inside(name)} - {folder_of(module)}
    order: list[str] = []
    while left := set(used) - set(order):
        free = {part for part in left if used[part] <= set(order)}
        assert free, f"these parts use each other: {sorted(left)}"
        order += sorted(free)
    assert order[-1] == ""
    assert used["model"] == set()
