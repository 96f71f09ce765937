"""A console that is used for long: memory and processor time while keys are pressed, panes opened, screens closed."""

from __future__ import annotations

import statistics
import time
from collections import Counter

from tests.bench.operator import ESCAPE, day
from tests.bench.program import Program

Figures = dict[str, object]


def use(program: Program, *, keys: int, pace_seconds: float) -> Figures:
    """Press so many keys, one every `pace_seconds`, and read resident memory about two hundred times on the way.

    Returns:
        Megabytes at the start, at most, at the end, and by how much they grew in the second half, by the straight line
        through its readings; the share of a core; what was done how often.
    """
    pressed, done = 0, Counter[str]()
    every = max(1, keys // 200)
    readings = [(0, round(program.memory_megabytes()[0], 1))]
    began, cpu = time.perf_counter(), program.cpu_seconds()
    for deed in day(keys=keys):
        done[deed.name] += 1
        if deed.size is not None:
            program.resize(*deed.size)
        for key in deed.keys:
            program.type(key)
            program.drain(pace_seconds)
            pressed += 1
            if pressed % every == 0:
                readings.append((pressed, round(program.memory_megabytes()[0], 1)))
    program.type(ESCAPE)
    took = time.perf_counter() - began
    half = [one for one in readings if one[0] >= pressed / 2]
    slope = statistics.linear_regression([at for at, _ in half], [size for _, size in half]).slope * pressed / 2
    return {
        "keys": pressed,
        "seconds": round(took, 1),
        "cpu_percent": round((program.cpu_seconds() - cpu) / took * 100, 1),
        "rss_start_mb": readings[0][1],
        "rss_end_mb": readings[-1][1],
        "rss_most_mb": max(size for _, size in readings),
        "rss_peak_mb": round(program.memory_megabytes()[1], 1),
        "last_half_growth_mb": round(slope, 1),
        "readings_mb": [size for _, size in readings[:: max(1, len(readings) // 40)]],
        "done": dict(done.most_common()),
    }
