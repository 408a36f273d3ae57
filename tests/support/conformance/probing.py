"""What is installed in the cluster under test, found out by trying."""

from collections.abc import Callable

import pytest
from support.conformance.api import Api, eventually
from support.conformance.fake_nodes import NODES, node_manifest
from support.conformance.ground import PREFIX, Ground
from support.conformance.volcano import COMMANDS_API, JOBS_API, POD_GROUPS_API, job_manifest

_PROBE_SECONDS = 10.0
_COLLECTION_SECONDS = 30.0


class Probes:
    """Each question is asked once; ``need`` skips the test with the answer, if there is one."""

    def __init__(self, api: Api, run: str) -> None:
        self._api = api
        self._run = run
        self._found: dict[str, str] = {}
        self._ground: Ground | None = None

    @property
    def ground(self) -> Ground:
        """A namespace to try things in."""
        if self._ground is None:
            self._ground = Ground(self._api, self._run)
        return self._ground

    def close(self) -> None:
        """Delete what was made to try."""
        if self._ground is not None:
            self._ground.close()

    def need(self, *what: str) -> None:
        """Skip the test unless the cluster has all of ``what``."""
        for one in what:
            missing = self.missing(one)
            if missing:
                pytest.skip(missing)

    def missing(self, what: str) -> str:
        """Why a test that needs ``what`` cannot be run; empty if it can."""
        if what not in self._found:
            self._found[what] = _QUESTIONS[what](self)
        return self._found[what]

    def _volcano_kinds(self) -> str:
        for group in (JOBS_API, POD_GROUPS_API, COMMANDS_API):
            if self._api.get(f"/apis/{group}").status != 200:
                return f"Volcano is not installed: no {group}"
        return ""

    def _volcano_webhook(self) -> str:
        return self.missing("volcano kinds") or self._try_job()[0]

    def _volcano(self) -> str:
        return self.missing("volcano kinds") or self._try_job()[1]

    def _try_job(self) -> tuple[str, str]:
        """What the webhook, and what the controllers make of a job that asks for nothing."""
        ground = self.ground
        jobs, groups = ground.path("jobs", JOBS_API), ground.path("podgroups", POD_GROUPS_API)
        body = job_manifest("probe", self._run, replicas=1, min_available=1)
        body["spec"].pop("maxRetry", None)
        pod = body["spec"]["tasks"][0]["template"]["spec"]
        pod["nodeSelector"] = {"everstep.dev/nowhere": "true"}
        made = self._api.post(jobs, body).expect(201)
        name, uid = made["metadata"]["name"], made["metadata"]["uid"]
        controllers = _within(
            lambda: self._api.get(f"{groups}/{name}-{uid}").status == 200,
            "Volcano's controllers do not run: a Job gets no PodGroup",
        )
        self._api.delete(f"{jobs}/{name}", propagationPolicy="Background")
        webhook = "" if made["spec"].get("maxRetry") else "Volcano's webhook is not installed"
        self._found |= {"volcano webhook": webhook, "volcano": controllers}
        return webhook, controllers

    def _node_controller(self) -> str:
        name = f"{PREFIX}{self._run}-probe"
        body = node_manifest(name, self._run)
        body["spec"]["unschedulable"] = True
        self._api.post(NODES, body).expect(201)

        def tainted() -> bool:
            taints = self._api.get(f"{NODES}/{name}").expect(200)["spec"].get("taints") or ()
            return any(taint["key"] == "node.kubernetes.io/unschedulable" for taint in taints)

        try:
            return _within(tainted, "no node controller runs: a cordon gets no taint")
        finally:
            self._api.delete(f"{NODES}/{name}")

    def _disruption_controller(self) -> str:
        path = self.ground.path("poddisruptionbudgets", "policy/v1")
        spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "nobody"}}}
        self._api.post(path, {"metadata": {"name": "probe"}, "spec": spec}).expect(201)

        def seen() -> bool:
            body = self._api.get(f"{path}/probe").expect(200)
            return bool(body["status"].get("observedGeneration"))

        return _within(seen, "no disruption controller runs: a budget gets no status")

    def _garbage_collector(self) -> str:
        maps = self.ground.path("configmaps")
        owner = self._api.post(maps, {"metadata": {"name": "owner"}}).expect(201)["metadata"]
        reference = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "name": owner["name"],
            "uid": owner["uid"],
        }
        owned = {"metadata": {"name": "owned", "ownerReferences": [reference]}}
        self._api.post(maps, owned).expect(201)
        self._api.delete(f"{maps}/owner", propagationPolicy="Background").expect(200)
        return _within(
            lambda: self._api.get(f"{maps}/owned").status == 404,
            "no garbage collector runs: what is owned stays",
            seconds=_COLLECTION_SECONDS,
        )

    def _tokens(self) -> str:
        accounts = self.ground.path("serviceaccounts")
        self._api.post(accounts, {"metadata": {"name": "probe"}}).expect(201)
        answer = self._api.post(f"{accounts}/probe/token", token_request(3600))
        return "" if answer.status == 201 else f"no tokens are issued ({answer.status})"


def token_request(seconds: int) -> dict[str, object]:
    """A request for a token that lives so long."""
    return {
        "apiVersion": "authentication.k8s.io/v1",
        "kind": "TokenRequest",
        "spec": {"expirationSeconds": seconds},
    }


def _within(
    condition: Callable[[], object], otherwise: str, *, seconds: float = _PROBE_SECONDS
) -> str:
    try:
        eventually(condition, otherwise, within_seconds=seconds)
    except AssertionError:
        return f"{otherwise} within {seconds:.0f} s"
    return ""


_QUESTIONS: dict[str, Callable[[Probes], str]] = {
    "volcano kinds": Probes._volcano_kinds,
    "volcano webhook": Probes._volcano_webhook,
    "volcano": Probes._volcano,
    "node controller": Probes._node_controller,
    "disruption controller": Probes._disruption_controller,
    "garbage collector": Probes._garbage_collector,
    "tokens": Probes._tokens,
}
