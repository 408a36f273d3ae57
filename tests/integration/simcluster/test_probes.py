"""Kubelets ask the probes of pods: who is ready, and who is started anew."""

import sys

from everstep_simcluster.cluster import Cluster, is_ready
from everstep_simcluster.resources import PODS, Object
from everstep_simcluster.store import Ref
from support.simcluster import NAMESPACE, phases, pod_manifest

POD = Ref(NAMESPACE, "one")
SERVER = """
import http.server, os, pathlib, sys
class Answer(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200 if pathlib.Path(self.path[1:]).exists() else 503)
        self.end_headers()
pathlib.Path('alive').touch()
http.server.HTTPServer((os.environ['ADDRESS'], 8080), Answer).serve_forever()
"""
QUICK = {"periodSeconds": 0.02, "failureThreshold": 2}


def asks(file: str, port: object = "health", **more: object) -> Object:
    return {"httpGet": {"path": f"/{file}", "port": port}, **QUICK, **more}


def start(cluster: Cluster, **probes: Object) -> None:
    pod = pod_manifest("one", (sys.executable, "-c", SERVER), restartPolicy="Always")
    container = pod["spec"]["containers"][0]
    container["ports"] = [{"name": "health", "containerPort": 8080}]
    container["env"] = [
        {"name": "ADDRESS", "valueFrom": {"fieldRef": {"fieldPath": "status.podIP"}}}
    ]
    container.update(probes)
    cluster.objects.create(PODS, NAMESPACE, pod)


def pod(cluster: Cluster) -> Object:
    return cluster.objects.get(PODS, POD)


def container(cluster: Cluster) -> Object:
    (found,) = pod(cluster)["status"].get("containerStatuses") or [{}]
    status: Object = found
    return status


def say(cluster: Cluster, file: str, *, well: bool) -> None:
    log = cluster.log_path(POD)
    assert log is not None
    if well:
        (log.parent / file).touch()
    else:
        (log.parent / file).unlink()


async def test_a_pod_is_ready_while_its_readiness_probe_says_so(cluster: Cluster) -> None:
    start(cluster, readinessProbe=asks("ready"))
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Running")
    assert not is_ready(pod(cluster))
    say(cluster, "ready", well=True)
    await cluster.wait_for(lambda: is_ready(pod(cluster)))
    say(cluster, "ready", well=False)
    await cluster.wait_for(lambda: not is_ready(pod(cluster)))
    assert container(cluster)["restartCount"] == 0


async def test_a_container_whose_liveness_probe_fails_is_started_anew(cluster: Cluster) -> None:
    start(cluster, startupProbe=asks("alive", failureThreshold=500), livenessProbe=asks("alive"))
    await cluster.wait_for(lambda: bool(container(cluster).get("started")))
    say(cluster, "alive", well=False)
    await cluster.wait_for(lambda: container(cluster).get("restartCount") == 1)
    await cluster.wait_for(lambda: bool(container(cluster).get("ready")))


async def test_a_container_that_does_not_start_in_time_is_started_anew(cluster: Cluster) -> None:
    start(cluster, startupProbe=asks("never"), readinessProbe=asks("alive"))
    await cluster.wait_for(lambda: container(cluster).get("restartCount", 0) >= 1)
    assert not container(cluster)["started"]
    assert not is_ready(pod(cluster))


async def test_a_probe_that_cannot_be_asked_keeps_the_pod_from_starting(cluster: Cluster) -> None:
    start(cluster, readinessProbe=asks("ready", port="metrics"))
    await cluster.wait_for(lambda: phases(cluster).get("one") == "Failed")
    assert "metrics" in container(cluster)["state"]["terminated"]["message"]
