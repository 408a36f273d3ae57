"""The words of Everstep: facts, verdicts, orders, telemetry, queries, subjects; pydantic and nothing else."""
