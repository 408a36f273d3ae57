"""What was done in the recorded timelines is done again, and the same has to follow.

A timeline is read as data. Its requests are sent, and before each the cluster has to come to rest
as it had in the recording: phase, counts and retries of the job, the phase of every pod by name,
the phase of the PodGroup. Since the rest before, the job must have gone through the same phases,
the same pods must have been remade, and the PodGroup must have gained the same conditions.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conformance.fake_nodes import FakeNodes
from support.conformance.ground import Ground
from support.conformance.kubelet import Kubelet
from support.conformance.playing import Player
from support.conformance.probing import Probes
from support.conformance.timelines import section

RECORDS = Path(__file__).parent / "records"

pytestmark = pytest.mark.timeout(400)

RESTARTS = [{"event": "PodEvicted", "action": "RestartPod"}]


@pytest.fixture
def player(probes: Probes, ground: Ground, nodes: FakeNodes, kubelet: Kubelet) -> Iterator[Player]:
    probes.need("volcano")
    player = Player(ground, nodes, kubelet)
    yield player
    player.close()


def test_a_forced_pod_comes_back_and_a_cordoned_place_stays_empty_until_a_restart(
    player: Player,
) -> None:
    """Timeline a: A force-deletes a pod, B cordons and deletes another, C restarts the job."""
    player.play(section(RECORDS / "a-schedule-delete-restart.jsonl", "A", "B", "C"))


def test_the_third_restart_of_a_pod_fails_the_job(player: Player) -> None:
    """Timeline b, D: PodEvicted -> RestartPod, three deletions."""
    one = section(RECORDS / "b-policies-maxretry-abort-scale.jsonl", "D")
    player.play(one, policies=RESTARTS)


def test_a_failed_pod_a_gang_below_its_minimum_and_an_abort_with_resumption(
    player: Player,
) -> None:
    """Timeline b: E a failed container, F below the minimum, G AbortJob and ResumeJob."""
    player.play(section(RECORDS / "b-policies-maxretry-abort-scale.jsonl", "E", "E2", "F", "G"))


def test_a_dead_host_holds_its_member_until_it_is_forced_also_in_a_restart(
    player: Player,
) -> None:
    """Timeline d: O a dead host, P RestartJob with one, Q a Command with a foreign uid."""
    player.play(section(RECORDS / "d-dead-host-command-edge-cases.jsonl", "O", "P", "Q"))
