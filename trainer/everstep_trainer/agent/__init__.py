"""The agent: the one process of a member that speaks to the bus and owns its workers."""
