"""The cluster under test: a simulated one, or the one of ``--kubeconfig``."""

import warnings
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.conformance.api import Api
from support.conformance.fake_nodes import FakeNodes
from support.conformance.ground import PREFIX, Ground, TakenError, new_run, wait_until_gone
from support.conformance.kubelet import Kubelet
from support.conformance.probing import Probes
from support.conformance.simulated import simulated_cluster

NODES = 8


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if config.getoption("--kubeconfig") is None:
        return
    skip = pytest.mark.skip(reason="would disturb others; run on a simulated cluster only")
    for item in items:
        if item.get_closest_marker("simulated"):
            item.add_marker(skip)


@pytest.fixture(scope="session")
def kubeconfig(request: pytest.FixtureRequest) -> Iterator[Path]:
    """Of the cluster under test."""
    given = request.config.getoption("--kubeconfig")
    if given is not None:
        yield given
        return
    with simulated_cluster() as path:
        yield path


@pytest.fixture(scope="session")
def simulated(request: pytest.FixtureRequest) -> bool:
    """Whether the cluster is simulated: answers are then compared in full."""
    return request.config.getoption("--kubeconfig") is None


@pytest.fixture(scope="session")
def api(kubeconfig: Path) -> Api:
    """The server, as the user of the kubeconfig."""
    return Api(kubeconfig)


@pytest.fixture(scope="session")
def run(api: Api) -> Iterator[str]:
    """The name of this run, on everything that the suite makes."""
    try:
        run = new_run(api)
    except TakenError as error:
        pytest.exit(str(error), returncode=1)
    yield run
    if not wait_until_gone(api, run):
        warnings.warn(f"namespaces {PREFIX}{run}-* are not gone yet", stacklevel=1)


@pytest.fixture(scope="session")
def all_nodes(api: Api, run: str) -> Iterator[FakeNodes]:
    """Fake nodes for the whole session; tests ask for ``nodes``."""
    nodes = FakeNodes(api, run, [f"{PREFIX}{run}-{index}" for index in range(NODES)])
    try:
        nodes.start()
        yield nodes
    finally:
        nodes.close()


@pytest.fixture
def nodes(all_nodes: FakeNodes) -> Iterator[FakeNodes]:
    """Fake nodes, without cordon or taint before each test."""
    yield all_nodes
    all_nodes.restore()


@pytest.fixture(scope="module")
def ground(api: Api, run: str) -> Iterator[Ground]:
    """A namespace of this module."""
    ground = Ground(api, run)
    try:
        yield ground
    finally:
        ground.close()


@pytest.fixture(scope="module")
def module_kubelet(ground: Ground, all_nodes: FakeNodes) -> Iterator[Kubelet]:
    kubelet = Kubelet(ground.api, ground.namespace, all_nodes.names)
    yield kubelet
    kubelet.close()


@pytest.fixture
def kubelet(module_kubelet: Kubelet) -> Iterator[Kubelet]:
    """Makes the pods of the module's namespace run on the fake nodes."""
    yield module_kubelet
    module_kubelet.revive()


@pytest.fixture(scope="session")
def probes(api: Api, run: str) -> Iterator[Probes]:
    """What the cluster has; a test that needs more is skipped with the reason."""
    probes = Probes(api, run)
    yield probes
    probes.close()
