"""What the rescaler says in Kubernetes Events, to who describes a Job, a pod or a node."""

from datetime import UTC, datetime, timedelta

from everstep_contract.examples import EXAMPLES
from everstep_contract.facts.incident import IncidentEnded
from everstep_contract.facts.node import NodeQuarantined, NodeReleased
from everstep_contract.node_queries import QuarantineNode, ReleaseNode
from everstep_contract.record import IncidentRecord, Outcome
from everstep_contract.verdicts import Evidence
from everstep_rescaler.incidents_told import ENDED
from everstep_simcluster.misbehaviour import Refuse, Rule
from support.polling import eventually
from support.rescaling_scene import JOB, OURS, Scene
from support.simcluster import NAMESPACE, phases


def incident(scene: Scene, outcome: Outcome, ago_seconds: float = 0.0) -> IncidentEnded:
    """How the loss of the second member ended, just now."""
    example = EXAMPLES[IncidentEnded.TYPE]
    assert isinstance(example, IncidentEnded)
    now, lost = datetime.now(UTC) - timedelta(seconds=ago_seconds), scene.members[1]
    evidence = Evidence(kind="connection_stale", incarnation=lost.incarnation, witness="w")
    record: IncidentRecord = example.incident.model_copy(
        update={
            "job": JOB,
            "job_uid": lost.job_uid,
            "suspected": (lost,),
            "evidence": (evidence,),
            "generation_after": 4,
            "reason": "3 incidents without a step beyond 20",
            "milestones": {"noticed": now, "first_new_step": now + timedelta(seconds=1.3)},
            "outcome": outcome,
            "ended_at": now,
        }
    )
    return IncidentEnded(at=now, job=JOB, job_uid=lost.job_uid, incident=record)


async def consuming(scene: Scene) -> None:
    """A rescaler works, and hears of incidents that end from now on."""
    scene.broker.consumer(ENDED, resume_after=None)
    await scene.rescaler()


async def test_the_job_says_how_an_incident_ended(scene: Scene) -> None:
    await consuming(scene)
    await scene.seat(4, scene.members[0], scene.members[2])
    ended = incident(scene, "resumed")
    await scene.bus.publish(ended)
    lost = scene.members[1]
    sentence = (
        f"Lost member {lost.name} on {lost.node} (node silent); 2 of 3 go on, 0 steps lost,"
        f" first step after 1.3 s (incident {ended.incident.id})"
    )
    await eventually(lambda: ("Job", "train", sentence) in scene.said())


async def test_ec74_the_job_says_why_it_was_given_up_and_where_to_read_on(scene: Scene) -> None:
    await consuming(scene)
    ended = incident(scene, "given_up")
    await scene.bus.publish(ended)
    await eventually(lambda: scene.said())
    ((_, _, message),) = scene.said()
    assert message.startswith("Gave up: 3 incidents without a step beyond 20")
    assert f"everstep incident {ended.incident.id}" in message


async def test_old_news_and_dismissed_suspicions_are_said_to_nobody(scene: Scene) -> None:
    await consuming(scene)
    await scene.bus.publish(incident(scene, "resumed", ago_seconds=3600))
    await scene.bus.publish(incident(scene, "dismissed"))
    fresh = incident(scene, "holding")
    other = fresh.incident.model_copy(update={"id": "the-last"})
    await scene.bus.publish(fresh.model_copy(update={"incident": other}))
    await eventually(lambda: scene.said())
    assert len(scene.said()) == 1


async def test_a_node_and_a_pod_say_what_was_done_to_them(scene: Scene) -> None:
    lost = scene.members[1]
    scene.cluster.faults.crash(lost.node)
    await eventually(lambda: phases(scene.cluster).get(lost.name) == "Failed")
    await scene.rule(4, lost, "hardware_fault")
    await scene.rescaler()
    why = f"Quarantined (incident-4): a hardware fault under {lost.name}"
    node = ("Node", lost.node, f"{why}; release with: everstep release {lost.node}")
    await eventually(lambda: node in scene.said("default"))
    pod = ("Pod", lost.name, "Deleted: its containers have terminated (incident-4)")
    await eventually(lambda: pod in scene.said())
    await scene.ask(ReleaseNode(node=lost.node, reason="a new riser", by="ada"))
    ended = "Released from its quarantine (incident-4): a new riser"
    await eventually(lambda: ("Node", lost.node, ended) in scene.said("default"))


async def test_events_that_are_refused_hold_up_nothing(scene: Scene) -> None:
    node = scene.members[0].node
    scene.cluster.api.misbehaviour.add(Rule(Refuse(403), method="POST", path="/events"))
    await scene.rescaler()
    for _ in range(3):
        await scene.ask(QuarantineNode(node=node, reason="its fan rattles", by="ada"))
        await scene.ask(ReleaseNode(node=node, reason="not so", by="ada"))
    assert len(scene.facts(NodeQuarantined)) >= 1
    assert len(scene.facts(NodeReleased)) >= 1
    assert scene.writes("POST", "/events") <= 1
    assert scene.cluster.audit.matching(method="PATCH", path=f"/nodes/{node}", user_agent=OURS)


async def test_events_that_one_namespace_refuses_hold_up_those_of_no_other(scene: Scene) -> None:
    node = scene.members[0].node
    path = f"/namespaces/{NAMESPACE}/events"
    scene.cluster.api.misbehaviour.add(Rule(Refuse(403), method="POST", path=path))
    await consuming(scene)
    await scene.seat(4, scene.members[0], scene.members[2])
    await scene.bus.publish(incident(scene, "resumed"))
    await eventually(lambda: scene.writes("POST", path) == 1)
    await scene.ask(QuarantineNode(node=node, reason="its fan rattles", by="ada"))
    await eventually(lambda: scene.said("default"))
