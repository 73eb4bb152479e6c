#!/usr/bin/env python3
"""Times work item W1 (GPT-3 175B, TP8 PP8 DPn, 8 micro-batches; scenarios/bench) as a user would: whole processes.

    python3 tests/bench/w1.py --binary build/release/meshweave [--runs 3]

Per scenario and executor: the step's ops (executions on all ranks), those that were played (the step twice, one rank
per class when folded) per second, wall and processor time of the whole process on one core, and peak memory, all of
the run that took the shortest time. Behind them stand the bars at 1,024 ranks, and how the time grows against the
ranks. Exits with 1 when a bar is missed; no test runs this, since times depend on the machine and its load: where wall
and processor time differ much, something else ran.
"""
import argparse
import json
import os
import pathlib
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
MODES = {
    "folded": [],
    "every rank": ["--no-fold"],
    "simgrid": ["--executor", "simgrid"],
}
RANKS = {"folded": [64, 256, 1024, 16384], "every rank": [64, 256, 1024], "simgrid": [64, 256, 1024]}
# At 1,024 ranks: seconds, and bytes of peak memory where it is limited.
BARS = {"folded": (0.1, None), "every rank": (1.5, 0.4e9), "simgrid": (8, 0.5e9)}


def on_one_core():
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def timed(command):
    """A process and the children it waited for: exit status, wall and processor seconds, peak resident bytes, output."""
    with tempfile.TemporaryFile() as out:
        start = time.perf_counter()
        child = os.fork()
        if child == 0:
            on_one_core()
            os.dup2(out.fileno(), 1)
            os.execv(command[0], command)
        _, status, usage = os.wait4(child, 0)
        seconds = time.perf_counter() - start
        out.seek(0)
        processor = usage.ru_utime + usage.ru_stime
        return os.waitstatus_to_exitcode(status), seconds, processor, usage.ru_maxrss * 1024, out.read()


def measure(binary, mode, ranks, runs):
    scenario = ROOT / f"scenarios/bench/w1-{ranks}.json"
    command = [binary, "run", str(scenario), "--json", *MODES[mode]]
    best = None
    for _ in range(runs):
        code, seconds, processor, peak, output = timed(command)
        if code != 0:
            sys.exit(f"{' '.join(command)}: exit code {code}")
        report = json.loads(output)
        # The simulation of simgrid runs in a child of its own, which reports its peak.
        peak = max(peak, report["timing"]["peak_rss_bytes"])
        if best is None or seconds < best["seconds"]:
            best = {"ops": report["ops"], "played": report["timing"]["replayed_ops"], "seconds": seconds,
                    "processor": processor, "peak": peak}
    return best


def verdict(mode, result):
    """The bars of a mode at 1,024 ranks against a result: a text, and whether all are kept."""
    seconds, memory = BARS[mode]
    kept = result["seconds"] <= seconds and (memory is None or result["peak"] <= memory)
    bar = f"bar {seconds} s" + (f", {memory / 1e9:.1f} GB" if memory else "")
    return f"{bar}: {'kept' if kept else 'MISSED'}", kept


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/meshweave"))
    parser.add_argument("--runs", type=int, default=3)
    arguments = parser.parse_args()
    binary = os.path.abspath(arguments.binary)

    all_kept = True
    print(f"{'':10} {'ranks':>6} {'ops':>12} {'played ops/s':>12} {'wall':>9} {'cpu':>9} {'peak':>9}")
    for mode, sizes in RANKS.items():
        first = None
        for ranks in sizes:
            result = measure(binary, mode, ranks, arguments.runs)
            line = (f"{mode:10} {ranks:6} {result['ops']:12,} {result['played'] / result['seconds']:12.3g} "
                    f"{result['seconds']:7.3f} s {result['processor']:7.3f} s {result['peak'] / 1e6:6.0f} MB")
            if ranks == 1024:
                text, kept = verdict(mode, result)
                all_kept &= kept
                line += f"   {text}"
            if first is None:
                first = result["seconds"]
            elif mode != "simgrid":
                growth, more = result["seconds"] / first, ranks / sizes[0]
                all_kept &= growth <= more
                line += f"   {more:.0f} × the ranks of {sizes[0]}, {growth:.2f} × the time"
                line += "" if growth <= more else ": MISSED"
            print(line, flush=True)
    return 0 if all_kept else 1


if __name__ == "__main__":
    sys.exit(main())
