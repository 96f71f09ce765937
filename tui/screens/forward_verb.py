"""The verb that opens a port into a pod: the dashboards of a run, or any port of any pod."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from actions.base.errors import ConfigError, MissingError
from actions.command import verbs as registry
from actions.fleet.facts import PodFacts
from tui.live.desk import Desk
from tui.live.forwards import SERVICES, Forwards, Service, served_by
from tui.modals.viewer import Viewer
from tui.present.subject import parse_subject
from tui.screens.carrier import Verb
from tui.screens.hands import ScreenHands

_LINK = ":forward shows the link for a browser, with its token."
_NOTES = (
    "",
    "The token is good until the console ends; whoever has it can use these ports as you.",
    "Only programs of your own user get through. What is not HTTP, such as ssh or TLS, has no",
    "other protection than that: no token is asked for.",
)


class ForwardVerb:
    """Forwards for as long as the console is open.

    Args:
        desk: Where pods and the session are.
        hands: The app's doing.
    """

    def __init__(self, desk: Desk, hands: ScreenHands) -> None:
        self._desk = desk
        self._hands = hands
        self._forwards = Forwards(desk.cluster, desk.supervisor, hands.say)

    def verbs(self) -> Mapping[str, Verb]:
        """By command id."""
        return {"forward": self._forward}

    async def _forward(self, arguments: registry.Forward) -> None:
        if not arguments.to:
            self._hands.show(Viewer("forward", self._page()))
            return
        if arguments.stop:
            if not self._forwards.close(arguments.to):
                raise MissingError(f"Nothing is forwarded as {arguments.to!r}.")
            self._hands.say(f"{arguments.to} is not forwarded any more.")
            return
        await self._desk.cluster.wait_connected()
        service = next((one for one in SERVICES if one.name == arguments.to), None)
        if service is not None:
            await self._open(service, arguments.local)
        else:
            await self._open_port(arguments)

    async def _open(self, service: Service, local: int) -> None:
        pod = served_by(service, self._pods())
        if pod is None:
            raise MissingError(f"No running pod serves the {service.title}.", hint="Wait until its stage runs.")
        address = await self._forwards.open(
            service.name, pod.namespace, lambda: served_by(service, self._pods()), service.port, local
        )
        self._hands.say(
            f"{service.title}: {address} leads to {pod.key}:{service.port} while the console is open. {_LINK}"
        )

    async def _open_port(self, arguments: registry.Forward) -> None:
        target, _, port = arguments.to.rpartition(":")
        if not target or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65_536:
            known = ", ".join(service.name for service in SERVICES)
            raise ConfigError(f"{arguments.to!r} is nothing to forward.", hint=f"Write {known}, or NAMESPACE/POD:PORT.")
        subject = parse_subject(target, default_namespace=self._desk.cluster.namespace)
        find = self._named(f"{subject.namespace}/{subject.name}")
        if subject.kind != "Pod" or find() is None:
            raise MissingError(f"There is no pod {target}.", hint="Open pods to choose one.")
        address = await self._forwards.open(arguments.to, subject.namespace, find, int(port), arguments.local)
        self._hands.say(f"{address} leads to {target}:{port} while the console is open. {_LINK}")

    def _named(self, key: str) -> Callable[[], PodFacts | None]:
        def find() -> PodFacts | None:
            snapshot = self._desk.cluster.snapshot()
            return snapshot.pods.get(key) if snapshot else None

        return find

    def _pods(self) -> list[PodFacts]:
        """Pods of the run on screen first, then all others."""
        snapshot, run = self._desk.cluster.snapshot(), self._desk.runs.view
        pods = list(snapshot.pods.values()) if snapshot else []
        return sorted(pods, key=lambda pod: (run is None or pod.run != run.id, pod.key))

    def _page(self) -> str:
        lines = ["What can be forwarded:", ""]
        for service in SERVICES:
            pod = served_by(service, self._pods())
            where = f"{pod.key}:{service.port}" if pod else "no pod serves it at present"
            lines.append(f"  :forward {service.name:<12} {service.title}: {where}")
        lines += ["  :forward NAMESPACE/POD:PORT", "", "What is forwarded:", ""]
        opened = [f"  {name:<20} {port.link}" for name, port in self._forwards.opened.items()]
        return "\n".join([*lines, *(opened or ["  nothing"]), *(_NOTES if opened else ())])
