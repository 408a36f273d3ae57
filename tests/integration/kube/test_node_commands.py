"""Operators' words about nodes, answered by a rescaler on the simulated API server."""

from dataclasses import replace
from typing import Any

from everstep_contract.facts.job import ClusterWritten
from everstep_contract.facts.node import NodeQuarantined, NodeReleased, NodeWritten
from everstep_contract.node_queries import (
    DrainNode,
    NodeStatus,
    QuarantineNode,
    ReleaseNode,
)
from everstep_simcluster.metadata import DeleteOptions
from everstep_simcluster.misbehaviour import Refuse, Rule
from everstep_simcluster.patch import MERGE_PATCH, Patch
from everstep_simcluster.resources import BUDGETS
from everstep_simcluster.resources import NODES as KUBE_NODES
from everstep_simcluster.store import Ref
from support.polling import eventually
from support.rescaling_scene import OURS, POLICY, Scene
from support.simcluster import NAMESPACE, phases, uids

WHO = "ada@desk"
BRISK = replace(POLICY, eviction_pause_seconds=0.2)


def quarantine(node: str) -> QuarantineNode:
    return QuarantineNode(node=node, reason="its fan rattles", by=WHO)


def release(node: str) -> ReleaseNode:
    return ReleaseNode(node=node, reason="a new fan", by=WHO)


def drain(node: str, seconds: float = 30.0) -> DrainNode:
    return DrainNode(node=node, reason="new DIMMs", by=WHO, timeout_seconds=seconds)


def patch_node(scene: Scene, node: str, body: Any) -> None:
    scene.cluster.objects.patch(KUBE_NODES, Ref("", node), Patch(MERGE_PATCH, body))


async def test_a_persons_quarantine_is_written_on_the_node_and_release_takes_all_of_it_away(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    patch_node(scene, node, {"metadata": {"annotations": {"other/owner": "keep"}}})
    before = scene.cluster.node(node)["spec"]
    await scene.rescaler()
    standing = await scene.ask(quarantine(node))
    assert standing.record is not None
    incident = standing.record.quarantined_by or ""
    assert incident.startswith("operator-")
    assert (scene.cordoned(node), "everstep.dev/quarantined" in scene.taints(node)) == (True, True)
    marks = scene.annotations(node)
    assert marks["everstep.dev/quarantine-reason"] == "its fan rattles"
    assert marks["everstep.dev/quarantine-incident"] == incident
    assert marks["everstep.dev/quarantined-for"] == WHO
    assert marks["everstep.dev/quarantined-since"].startswith("20")
    (told,) = scene.facts(NodeQuarantined)
    assert (told.reason, told.by) == ("its fan rattles", WHO)
    said = await scene.ask(release(node))
    assert said.said == f"{node} is released ({incident})"
    assert scene.cluster.node(node)["spec"] == before
    assert [key for key in scene.annotations(node) if "everstep.dev" in key] == []
    assert scene.annotations(node)["other/owner"] == "keep"
    (ended,) = scene.facts(NodeReleased)
    assert (ended.reason, ended.by) == ("a new fan", WHO)
    audit = [(one.verb, one.outcome, one.by) for one in scene.facts(NodeWritten)]
    assert audit == [("taint", "done", WHO), ("cordon", "done", WHO), ("release", "done", WHO)]


async def test_a_persons_quarantine_outlives_rescalers_and_ends_by_a_persons_hand_only(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    quick = replace(POLICY, well_seconds=0.1)
    async with scene.other_stack():
        await scene.rescaler(quick, "one")
        await scene.ask(quarantine(node))
    await scene.rescaler(quick, "two")
    again = await scene.ask(quarantine(node))
    assert "was quarantined already" in again.said
    assert "the reason is yours now" in again.said
    assert (await scene.node_record(node)).quarantined_by is not None
    assert not scene.facts(NodeReleased)
    patch_node(scene, node, {"spec": {"unschedulable": None}})
    await eventually(lambda: scene.facts(NodeReleased))
    assert "everstep.dev/quarantined" not in scene.taints(node)


async def test_what_an_operator_may_not_have_is_refused_with_the_reason(scene: Scene) -> None:
    nodes = [one.node for one in scene.members]
    patch_node(scene, nodes[1], {"spec": {"unschedulable": True}})
    await scene.rescaler(replace(POLICY, max_quarantined=1))
    assert "no node 'node-99'" in await scene.refusal(quarantine("node-99"))
    assert "no node 'node-99'" in await scene.refusal(release("node-99"))
    assert "not quarantined by Everstep" in await scene.refusal(release(nodes[0]))
    assert "cordon is somebody else's" in await scene.refusal(release(nodes[1]))
    assert scene.cordoned(nodes[1])
    await scene.ask(quarantine(nodes[0]))
    assert "1 nodes are quarantined already" in await scene.refusal(drain(nodes[2]))
    assert scene.taints(nodes[2]) == set()
    await scene.ask(release(nodes[0]))
    await scene.ask(drain(nodes[2]))


async def test_who_only_observes_refuses_and_writes_nothing(scene: Scene) -> None:
    node = scene.members[0].node
    await scene.rescaler(replace(POLICY, act=False))
    for query in (quarantine(node), drain(node)):
        assert "only observes" in await scene.refusal(query)
    assert [one.outcome for one in scene.facts(NodeWritten)] == ["refused"] * 4
    assert scene.writes("", "") == 0


async def test_a_refused_write_says_what_to_do(scene: Scene) -> None:
    node = scene.members[0].node
    scene.cluster.api.misbehaviour.add(Rule(Refuse(403), method="PATCH", user_agent=OURS))
    await scene.rescaler()
    assert "kubectl apply -k deploy/k8s/overlays/act" in await scene.refusal(quarantine(node))
    assert not scene.facts(NodeQuarantined)


async def test_ec54_a_drain_evicts_the_member_and_is_over_when_its_job_goes_on_elsewhere(
    scene: Scene,
) -> None:
    leaving, *others = scene.members
    await scene.seat(3, *scene.members)
    await scene.rescaler(BRISK)
    standing = await scene.ask(drain(leaving.node))
    assert standing.members == (f"training/train {leaving.name}",)
    await eventually(lambda: ("evict", leaving.name, "done") in scene.told())
    (eviction,) = scene.cluster.audit.matching(path="/eviction", user_agent=OURS)
    assert eviction.body["deleteOptions"] == {"preconditions": {"uid": leaving.pod_uid}}
    await eventually(lambda: phases(scene.cluster).get(leaving.name) == "Pending")
    assert not (await scene.ask(NodeStatus(node=leaving.node))).drained
    await scene.seat(4, *others)
    assert (await scene.ask(NodeStatus(node=leaving.node))).drained
    (told,) = [one for one in scene.facts(ClusterWritten) if one.verb == "evict"]
    assert told.by == WHO
    assert "new DIMMs" in told.detail
    await scene.ask(release(leaving.node))
    assert not scene.cordoned(leaving.node)


async def test_a_drain_waits_for_a_disruption_budget_and_says_for_which(scene: Scene) -> None:
    leaving, node = scene.members[0], scene.members[0].node
    match = {"matchLabels": {"volcano.sh/job-name": "train"}}
    budget = {"metadata": {"name": "hold"}, "spec": {"minAvailable": 3, "selector": match}}
    scene.cluster.objects.create(BUDGETS, NAMESPACE, budget)
    await scene.seat(3, *scene.members)
    await scene.rescaler(BRISK)
    await scene.ask(drain(node))

    async def named() -> bool:
        waits = (await scene.ask(NodeStatus(node=node))).waiting_for
        return "disruption budget hold needs 3 healthy pods" in waits

    await eventually(named)
    await eventually(lambda: scene.writes("POST", "/eviction") > 2)
    assert scene.told().count(("evict", leaving.name, "refused")) <= 2  # one may be unprocessed
    assert uids(scene.cluster)[leaving.name] == leaving.pod_uid
    scene.cluster.objects.delete(BUDGETS, Ref(NAMESPACE, "hold"), DeleteOptions())
    await eventually(lambda: ("evict", leaving.name, "done") in scene.told())


async def test_a_drain_takes_nobody_from_a_job_at_its_floor_and_ends_in_time(scene: Scene) -> None:
    node = scene.members[0].node
    await scene.seat(3, *scene.members, min_member=3)
    await scene.rescaler(BRISK)
    await scene.ask(drain(node, seconds=0.5))

    async def waits(what: str) -> bool:
        return what in (await scene.ask(NodeStatus(node=node))).waiting_for

    await eventually(lambda: waits("at its floor of 3"))
    await eventually(lambda: waits("more time, its own is over"))
    await scene.seat(4, *scene.members, min_member=1)
    assert scene.writes("POST", "/eviction") == 0
    assert "its own is over" not in (await scene.ask(drain(node))).waiting_for
    await eventually(lambda: scene.writes("POST", "/eviction") == 1)


async def test_who_only_observes_goes_on_with_no_drain_of_before(scene: Scene) -> None:
    node = scene.members[0].node
    await scene.seat(3, *scene.members, min_member=3)
    async with scene.other_stack():
        await scene.rescaler(BRISK, "one")
        await scene.ask(drain(node))
    await scene.seat(4, *scene.members, min_member=1)
    await scene.rescaler(replace(BRISK, act=False), "two")

    async def says_so() -> bool:
        return "only observes" in (await scene.ask(NodeStatus(node=node))).waiting_for

    await eventually(says_so)
    assert scene.writes("POST", "/eviction") == 0


async def test_ec34_a_drain_stops_when_somebody_uncordons_the_node(scene: Scene) -> None:
    node = scene.members[0].node
    await scene.seat(3, *scene.members, min_member=3)
    await scene.rescaler(BRISK)
    await scene.ask(drain(node))
    patch_node(scene, node, {"spec": {"unschedulable": None}})
    await eventually(lambda: scene.facts(NodeReleased))
    await scene.seat(4, *scene.members, min_member=1)
    await scene.ask(NodeStatus(node=node))
    assert scene.writes("POST", "/eviction") == 0


async def test_an_eviction_that_always_fails_is_told_and_holds_up_no_other_drain(
    scene: Scene,
) -> None:
    first, second, _ = scene.members
    failing = Rule(Refuse(500), method="POST", path=f"/{first.name}/eviction", user_agent=OURS)
    scene.cluster.api.misbehaviour.add(failing)  # as of a pod that two budgets cover
    await scene.seat(3, *scene.members)
    await scene.rescaler(BRISK)
    await scene.ask(drain(first.node))
    await eventually(lambda: scene.writes("POST", f"/{first.name}/eviction") > 0)
    await scene.ask(drain(second.node))
    await eventually(lambda: ("evict", second.name, "done") in scene.told())
    assert "500" in (await scene.ask(NodeStatus(node=first.node))).waiting_for


async def test_a_drain_whose_time_is_over_is_not_taken_up_by_another_rescaler(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    await scene.seat(3, *scene.members, min_member=3)

    async def is_over() -> bool:
        return "is over" in (await scene.ask(NodeStatus(node=node))).waiting_for

    async with scene.other_stack():
        await scene.rescaler(BRISK, "one")
        await scene.ask(drain(node, seconds=0.5))
        await eventually(is_over)
    await scene.seat(4, *scene.members, min_member=1)
    await scene.rescaler(BRISK, "two")
    await eventually(is_over)
    assert scene.writes("POST", "/eviction") == 0


async def test_a_quarantine_of_a_node_with_our_taint_by_hand_is_made_whole_and_stays(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    by_hand = {"key": "everstep.dev/quarantined", "value": "me", "effect": "PreferNoSchedule"}
    patch_node(scene, node, {"spec": {"taints": [by_hand]}})
    await scene.rescaler()
    await scene.ask(quarantine(node))
    assert scene.cordoned(node)
    (taint,) = [one for one in scene.cluster.node(node)["spec"]["taints"] if "dev" in one["key"]]
    assert taint["effect"] == "NoSchedule"
    other = scene.members[1].node
    await scene.ask(quarantine(other))
    await scene.ask(release(other))
    assert (await scene.node_record(node)).quarantined_by is not None
    await scene.ask(release(node))
    assert not scene.cordoned(node)


async def test_what_was_written_right_before_a_crash_and_not_recorded_can_be_released(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    marks = {"everstep.dev/cordoned-by": "i-1", "everstep.dev/quarantine-incident": "i-1"}
    taint = {"key": "everstep.dev/quarantined", "value": "i-1", "effect": "NoSchedule"}
    spec = {"unschedulable": True, "taints": [taint]}
    patch_node(scene, node, {"metadata": {"annotations": marks}, "spec": spec})
    await scene.rescaler()
    said = (await scene.ask(release(node))).said
    assert said == f"{node} is released (i-1)"
    assert (scene.cordoned(node), scene.taints(node)) == (False, set())
    assert not any("everstep.dev" in key for key in scene.annotations(node))
    assert "not quarantined by Everstep" in await scene.refusal(release(node))


async def test_the_longest_reason_is_told_of_an_eviction(scene: Scene) -> None:
    leaving = scene.members[0]
    await scene.seat(3, *scene.members)
    await scene.rescaler(BRISK)
    await scene.ask(drain(leaving.node).model_copy(update={"reason": "ü" * 2000}))
    await eventually(lambda: ("evict", leaving.name, "done") in scene.told())


async def test_a_node_that_is_quarantined_twice_within_a_second_is_told_of_twice(
    scene: Scene,
) -> None:
    node = scene.members[0].node
    await scene.rescaler()
    for query in (quarantine(node), release(node)) * 2:
        await scene.ask(query)
    assert len({one.incident for one in scene.facts(NodeQuarantined)}) == 2
    assert len(scene.facts(NodeReleased)) == 2
