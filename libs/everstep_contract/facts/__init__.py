"""Facts: events about nodes, members, workers, jobs, incidents and checkpoints."""
