"""On what rules rest: what was recorded of Volcano and Kubernetes, and public pages."""

from typing import Final

RECORDED: Final = "recorded from Volcano ed72c7c (1.16) on kube-apiserver 1.36"
WEBHOOK: Final = f"{RECORDED}: the answers of Volcano's admission webhook"
ADOPTING: Final = "docs/adopting.md"
_GUIDE: Final = "https://github.com/volcano-sh/volcano/blob/master/docs/user-guide"
JOB_POLICY: Final = f"{_GUIDE}/how_to_use_job_policy.md"
SVC_PLUGIN: Final = f"{_GUIDE}/how_to_use_svc_plugin.md"
PYTORCH_PLUGIN: Final = f"{_GUIDE}/how_to_use_pytorch_plugin.md"
PARTITIONS: Final = "https://github.com/volcano-sh/volcano/pull/5402"
BUDGETS: Final = "https://kubernetes.io/docs/tasks/run-application/configure-pdb/"
