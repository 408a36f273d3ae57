"""The words of Everstep: facts, verdicts, orders, queries, subjects; pydantic and nothing else."""
