"""What every bench prints: one document of figures, each with its limit and whether it holds."""

import argparse
import json
import os
import platform
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import median


@dataclass(frozen=True)
class Figure:
    """One figure: the median of its runs. ``limit`` is a most, or a least where ``least``."""

    name: str
    value: float | None
    unit: str
    limit: float | None
    holds: bool
    runs: int
    min: float | None
    max: float | None


def figure(
    name: str, unit: str, runs: Sequence[float], *, limit: float | None = None, least: bool = False
) -> Figure:
    """The median of ``runs``; without any, a figure with a limit does not hold."""
    if not runs:
        return Figure(name, None, unit, limit, limit is None, 0, None, None)
    value = median(runs)
    holds = limit is None or (value >= limit if least else value <= limit)
    return Figure(
        name,
        round(value, 4),
        unit,
        limit,
        holds,
        len(runs),
        round(min(runs), 4),
        round(max(runs), 4),
    )


def machine() -> dict[str, object]:
    """What it was measured on."""
    model = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    return {
        "cores": os.cpu_count(),
        "cpu": model[0] if model else platform.machine(),
        "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30, 1),
        "kernel": platform.release(),
        "load_1min_at_end": round(os.getloadavg()[0], 1),
    }


def parser(description: str | None) -> argparse.ArgumentParser:
    """Flags of every bench."""
    found = argparse.ArgumentParser(description=description)
    found.add_argument("--json", action="store_true", help="print one JSON document")
    return found


def show(bench: str, figures: Sequence[Figure], *, as_json: bool) -> None:
    """Print the figures, as one document or as a table."""
    if as_json:
        document = {
            "bench": bench,
            "machine": machine(),
            "figures": [asdict(figure) for figure in figures],
        }
        sys.stdout.write(json.dumps(document) + "\n")
        return
    sys.stdout.write(f"{bench} on {machine()}\n")
    for one in figures:
        mark = "  " if one.holds else "! "
        limit = "" if one.limit is None else f"  limit {one.limit:g}"
        spread = "" if one.min is None else f"  ({one.min:.4g} .. {one.max:.4g}, {one.runs} runs)"
        sys.stdout.write(f"{mark}{one.name}: {one.value} {one.unit}{limit}{spread}\n")
