"""Manifests for the rules of preflight, and what the rules find in them."""

from textwrap import dedent, indent

from everstep_preflight.catalogue import check
from everstep_preflight.fixing import Fixed, fix
from everstep_preflight.model import Finding
from everstep_preflight.reading import read

GOOD_JOB = """\
apiVersion: batch.volcano.sh/v1alpha1
kind: Job
metadata:
  name: llama
  namespace: training
spec:
  schedulerName: volcano
  minAvailable: 6
  tasks:
  - name: worker
    replicas: 8
    minAvailable: 6
    template:
      metadata:
        labels:
          app: llama
      spec:
        restartPolicy: Never
        terminationGracePeriodSeconds: 60
        volumes:
        - name: shm
          emptyDir:
            medium: Memory
        containers:
        - name: trainer
          image: registry.example/train:1
          command: [everstep, run, "--nnodes=6:8", "--nproc-per-node=8", /app/train.py]
          envFrom:
          - configMapRef:
              name: everstep
          volumeMounts:
          - name: shm
            mountPath: /dev/shm
          resources:
            limits:
              nvidia.com/gpu: 8
"""
"""Nothing is wrong with it."""

TORCHRUN_JOB = GOOD_JOB.replace(
    '[everstep, run, "--nnodes=6:8"',
    '[torchrun, "--nnodes=6:8", --rdzv_backend=c10d, "--rdzv_endpoint=ENDPOINT"',
)
"""The same, started by torchrun; ENDPOINT stands for its rendezvous."""


def with_policies(*policies: str, before: str = "  tasks:") -> str:
    """The good job with policies such as ``PodFailed -> RestartTask``, before a line of it."""
    margin = " " * (len(before) - len(before.lstrip()))
    lines = [f"{margin}policies:"]
    for policy in policies:
        event, action = policy.split(" -> ")
        lines += [f"{margin}- event: {event!r}", f"{margin}  action: {action}"]
    return GOOD_JOB.replace(before, "\n".join([*lines, before]))


def found(*texts: str) -> tuple[Finding, ...]:
    """The findings in these texts, given together."""
    return check([read(f"{number}.yaml", text) for number, text in enumerate(texts)])


def rules(*texts: str) -> list[str]:
    """Which rules find something in these texts."""
    return sorted(finding.rule.id for finding in found(*texts))


def fixed(*texts: str) -> Fixed:
    """These texts, put right."""
    return fix([read(f"{number}.yaml", text) for number, text in enumerate(texts)], check)


def fixed_text(text: str) -> str:
    """This text, put right."""
    return fixed(text).sources[0].text


def pod_group(name: str, more: str = "minMember: 6") -> str:
    """A PodGroup made by hand."""
    head = f"""\
    apiVersion: scheduling.volcano.sh/v1beta1
    kind: PodGroup
    metadata:
      name: {name}
      namespace: training
    spec:
    """
    return dedent(head) + indent(dedent(more), "  ").rstrip() + "\n"
