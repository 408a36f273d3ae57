"""What one worker process keeps, whatever the generation."""

from collections.abc import Callable

from everstep_trainer.library.loaders import BatchSource, Loader
from everstep_trainer.library.state import JobState
from everstep_trainer.link import ToAgent
from everstep_trainer.page import Page


class Worker:
    """This process: its state, its page, its way to its agent, and its place in the data."""

    def __init__(self, page: Page, state: JobState, tell: Callable[[ToAgent], None]) -> None:
        self.page = page
        self.state = state
        self.tell = tell
        self._source = BatchSource(None)

    def source_of(self, loader: Loader) -> BatchSource:
        """The batches of a loader, going on where the last generation was if it is the same one."""
        if self._source.loader is not loader:
            self._source = BatchSource(loader)
        return self._source
