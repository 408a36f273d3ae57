"""ACT: derives orders and cluster changes from the records of jobs."""
