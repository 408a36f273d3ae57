"""Every knob of the checkpoint indexer."""

from typing import Annotated

from everstep_checkpoint.errors import UnusableRootError
from everstep_checkpoint.retention import Retention
from everstep_checkpoint.storage import storage_at
from everstep_runtime.settings import ServiceSettings
from pydantic import AfterValidator, Field

from everstep_checkpoint_indexer.model import Policy


def _writable(root: str) -> str:
    try:
        storage_at(root, to_write=True)
    except UnusableRootError as error:
        raise ValueError(str(error)) from error
    return root


class Settings(ServiceSettings):
    """What the checkpoint indexer can be told, each as ``EVERSTEP_<FIELD>``."""

    checkpoint_root: Annotated[str, AfterValidator(_writable)]
    """Folder or URL, shared with every trainer, below which all jobs' checkpoints lie."""
    keep_last: int = Field(default=2, ge=2, description="Newest verified ones that stay.")
    keep_every: int = Field(default=0, ge=0, description="Steps of which multiples stay; 0: none.")
    keep_bytes: int | None = Field(
        default=None, ge=0, description="Older ones stay while a lineage has no more; unset: go."
    )

    def policy(self) -> Policy:
        """What the operator chose."""
        return Policy(retention=Retention(self.keep_last, self.keep_every, self.keep_bytes))
