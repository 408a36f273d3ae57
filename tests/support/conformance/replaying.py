"""A place to send recorded requests to, with names of its own for what they were about."""

import json
import secrets

from support.conformance.api import Api, Json
from support.conformance.fake_nodes import MARK, FakeNodes, taint
from support.conformance.ground import NAMESPACES, PREFIX
from support.recorded import Exchange, Translation

_NODES = range(8)
_COMPARED = ("kind", "apiVersion", "status", "reason", "code")


class Stage:
    """Sends exchanges with the recorded names translated.

    Args:
        api: The server.
        run: What makes the names of this stage its own.
        strict: Whether whole answers are to be compared.
        nodes: Fake nodes to use; without, the exchanges make their own.
    """

    def __init__(self, api: Api, run: str, *, strict: bool, nodes: FakeNodes | None = None) -> None:
        self.api = api
        self.strict = strict
        self.beside_controllers = nodes is not None
        self._run = run
        self.namespace = f"{PREFIX}{run}-{secrets.token_hex(2)}"
        self._own_nodes = [] if nodes else [f"{PREFIX}{run}-r{index}" for index in _NODES]
        self.translation = Translation()
        for index, name in zip(_NODES, nodes.names if nodes else self._own_nodes, strict=False):
            self.translation.learn(f"node-{index}", name)
        for recorded in ("everstep", "vj"):
            self.translation.learn(recorded, self.namespace)
        if not strict:
            self.translation.learn("volcano", "everstep-conformance")

    def translated(self, recorded: str) -> str:
        """A name of the recording as it is called here."""
        return self.translation.request_text(recorded)

    def safe(self, node: Json) -> Json:
        """``node`` as others' pods will not come to it; unchanged on a server without others."""
        if self.strict:
            return node
        metadata = {**node["metadata"]}
        metadata["labels"] = {**metadata.get("labels", {}), MARK: self._run}
        spec = {**(node.get("spec") or {}), "taints": [taint()]}
        return {**node, "metadata": metadata, "spec": spec}

    def send(self, exchange: Exchange) -> tuple[int, str | None, str]:
        """The status, the Retry-After header and the text of the answer."""
        body = None
        if exchange.body is not None:
            body = json.loads(self.translated(json.dumps(exchange.body)))
            if isinstance(body, dict) and (exchange.method, body.get("kind")) == ("POST", "Node"):
                body = self.safe(body)
        content_type = exchange.content_type or "application/json"
        path = self.translated(exchange.path)
        answer = self.api.call(exchange.method, path, body, content_type)
        text = answer.body if isinstance(answer.body, str) else json.dumps(answer.body)
        return answer.status, answer.headers.get("Retry-After"), text

    def learn(self, recorded: object, ours: object) -> None:
        """Which uid, revision or token of the recording is which here."""
        for _ in self.translation.differences(recorded, ours):
            pass  # only names are of interest; the rest is not compared in full

    def close(self) -> None:
        """Delete what the exchanges made."""
        pods = f"{NAMESPACES}/{self.namespace}/pods"
        listed = self.api.get(pods)
        for pod in listed.body.get("items", ()) if listed.status == 200 else ():
            self.api.delete(f"{pods}/{pod['metadata']['name']}", gracePeriodSeconds="0")
        self.api.delete(f"{NAMESPACES}/{self.namespace}")
        for name in self._own_nodes:
            self.api.delete(f"/api/v1/nodes/{name}")


def essence(recorded: object) -> object:
    """What an answer has to have whatever the server's version: kind, reason, causes, names."""
    if isinstance(recorded, list):
        return [
            {"type": event["type"], "object": essence(event["object"])} if "type" in event else {}
            for event in recorded
        ]
    if not isinstance(recorded, dict):
        return recorded
    kept: Json = {
        word: recorded[word]
        for word in _COMPARED
        if isinstance(recorded.get(word), (str, int)) and recorded.get("kind") == "Status"
    }
    if recorded.get("kind"):
        kept["kind"] = recorded["kind"]
    causes = (recorded.get("details") or {}).get("causes")
    if causes:
        told = {(cause.get("reason", ""), cause.get("field", "")) for cause in causes}
        kept["details"] = {"causes": [{"reason": r, "field": f} for r, f in sorted(told)]}
    return kept
