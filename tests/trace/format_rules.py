#!/usr/bin/env python3
"""Writes traces of real scenarios and holds every rule of sim/trace/FORMAT.md against the files, with nothing but a JSON
parser in between: what Perfetto relies on (nesting, ids, monotone times, flows, names) and what our own readers do."""
import argparse
import collections
import decimal
import gzip
import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]

# Scenario, what is asked for, and the file's name.
RUNS = [
    ("quickstart.json", [], "quickstart.json.gz"),
    ("examples/fixed-1f1b-interleaved.json", ["--ranks", "all"], "interleaved.json"),
    ("bench/w1-64.json", ["--ranks", "0,8-10,63"], "ranks.json"),
    ("bench/w1-64.json", ["--executor", "simgrid", "--ranks", "0,8,16", "--window", "100 ms,200 ms"], "window.json"),
]
ORDER = {"X": 0, "s": 1, "f": 1, "C": 2}


class Faults(list):
    def check(self, fine, text):
        if not fine and len(self) < 20:
            self.append(text)


def slice_name(op):
    """What FORMAT.md says of a slice's name."""
    suffix = {"backward-data": " dgrad", "backward-weight": " wgrad", "recompute": " recompute"}.get(op["phase"], "")
    if op["phase"] != "recompute" and ("gradient" in op["label"] or "backward" in op["label"]):
        suffix = ""
    return op["label"] + suffix


def nanoseconds(time, faults):
    """Times are decimals of microseconds with exactly three decimals, or the integer 0 of none."""
    exact = isinstance(time, decimal.Decimal) and time.as_tuple().exponent == -3
    faults.check(exact, f"time {time!r} does not have three decimals")
    return int(decimal.Decimal(time) * 1000)


def check_names(events, tables, faults):
    processes, threads = {}, {}
    for e in events:
        if e["ph"] == "M" and e["name"] == "process_name":
            faults.check(e["pid"] not in processes, f"process {e['pid']} is named twice")
            processes[e["pid"]] = e["args"]["name"]
        if e["ph"] == "M" and e["name"] == "thread_name":
            faults.check((e["pid"], e["tid"]) not in threads, f"thread {e['pid']}.{e['tid']} is named twice")
            threads[e["pid"], e["tid"]] = e["args"]["name"]
    for rank in tables["ranks"]:
        name = f"rank {rank['rank']} [{rank['label']}]"
        if rank["stands_for"] > 1:
            name += f", like {rank['stands_for'] - 1} other" + ("s" if rank["stands_for"] > 2 else "")
        faults.check(processes.get(rank["rank"]) == name, f"{processes.get(rank['rank'])!r} should be {name!r}")
    faults.check(len(processes) == len(tables["ranks"]), "there are other processes than ranks")
    for e in events:
        if e["ph"] in "Xsf":
            name = tables["streams"][e["tid"]]["name"]
            faults.check(threads.get((e["pid"], e["tid"])) == name, f"thread {e['pid']}.{e['tid']} is not named {name}")
        elif e["ph"] == "C":
            faults.check(e["pid"] in processes, f"a counter of process {e['pid']}, which has no name")


def check_order(events, faults):
    before = (0, 0)
    metadata_over = False
    for e in events:
        if e["ph"] == "M":
            faults.check(not metadata_over, "metadata behind the first event")
            continue
        metadata_over = True
        now = (nanoseconds(e["ts"], faults), ORDER[e["ph"]])
        faults.check(now >= before, f"{e['ph']} at {e['ts']} stands behind a later event")
        before = now


def slices_of(events, tables, faults):
    slices = {}
    busy = collections.defaultdict(int)
    for e in events:
        if e["ph"] != "X":
            continue
        start = nanoseconds(e["ts"], faults)
        end = start + nanoseconds(e["dur"], faults)
        number = e["args"]["id"]
        faults.check(number not in slices, f"slice {number} occurs twice")
        faults.check(end >= start >= busy[e["pid"], e["tid"]], f"slice {number} overlaps the one before it")
        busy[e["pid"], e["tid"]] = end
        slices[number] = (e, start, end)
        op = tables["ops"][e["args"]["op"]]
        faults.check(e["name"] == slice_name(op) and e["cat"] == f"{op['phase']},{op['kind']}", f"slice {number} is not its op")
    faults.check(sorted(slices) == list(range(len(slices))), "ids are not 0 to n - 1")
    faults.check(len(slices) > 100, "hardly a slice")
    return slices


def check_links_between(slices, faults):
    issued = collections.defaultdict(int)
    for number, (e, start, end) in sorted(slices.items()):
        args = e["args"]
        faults.check(set(args) <= {"id", "op", "layer", "micro_batch", "chunk", "release", "cause", "previous_step",
                                   "wait", "peer"}, f"slice {number} has other keys: {sorted(args)}")
        faults.check(args.get("release") in (None, "stream", "wait", "host"), f"slice {number}: release")
        # Ids go by rank, and within a stream by time.
        lane = (e["pid"], e["tid"])
        faults.check(start >= issued[lane], f"slice {number} starts before an earlier one of its stream")
        issued[lane] = start
        faults.check(0 <= nanoseconds(args["wait"], faults) <= end - start if "wait" in args else True,
                     f"slice {number} waits longer than it takes")
        if "cause" in args:
            cause, _, cause_end = slices[args["cause"]]
            faults.check(cause["pid"] == e["pid"], f"the cause of slice {number} is on another rank")
            if not args.get("previous_step") and args["release"] != "host":
                faults.check(cause_end == start, f"slice {number} does not start when its cause ends")
        if "peer" in args:
            peer, peer_start, _ = slices[args["peer"]]
            faults.check(peer["pid"] != e["pid"] and peer_start >= start, f"the peer of slice {number} did not come last")


def check_flows(events, slices, faults):
    ends = collections.defaultdict(list)
    for e in events:
        if e["ph"] not in "sf":
            continue
        faults.check(e["ph"] == "s" or e.get("bp") == "e", f"flow {e['id']} does not bind to the slice around its end")
        ends[e["id"]].append(e["ph"])
        slice_, start, end = slices[e["args"]["slice"]]
        faults.check((slice_["pid"], slice_["tid"]) == (e["pid"], e["tid"]), f"flow {e['id']} is not at its slice")
        faults.check(start <= nanoseconds(e["ts"], faults) <= end, f"flow {e['id']} lies outside its slice")
    for number, kinds in ends.items():
        faults.check(kinds == ["s", "f"], f"flow {number} has {kinds}")
    return len(ends)


def check_counters(events, tables, faults):
    ranks = set()
    for e in events:
        if e["ph"] != "C":
            continue
        ranks.add(e["pid"])
        faults.check(e["name"] == "memory" and list(e["args"]) == tables["memory_categories"], "other memory categories")
        faults.check(all(isinstance(v, int) and v >= 0 for v in e["args"].values()), f"memory {e['args']}")
    faults.check(ranks == {rank["rank"] for rank in tables["ranks"]}, "a rank has no memory")


def check_file(path, faults):
    text = (gzip.open if path.suffix == ".gz" else open)(path, "rt").read()
    trace = json.loads(text, parse_float=decimal.Decimal)
    faults.check(list(trace) == ["displayTimeUnit", "meshweave", "traceEvents"], f"keys {list(trace)}")
    faults.check(trace["displayTimeUnit"] == "ns", "displayTimeUnit")
    tables, events = trace["meshweave"], trace["traceEvents"]
    faults.check(tables["format"] == 1, "format")
    check_names(events, tables, faults)
    check_order(events, faults)
    slices = slices_of(events, tables, faults)
    check_links_between(slices, faults)
    flows = check_flows(events, slices, faults)
    check_counters(events, tables, faults)
    if "slices" not in tables["provenance"]["left_out"]:
        last = max(end for _, _, end in slices.values())
        faults.check(last <= tables["step_end_ns"], "a slice ends behind the step")
    return len(tables["ranks"]), len(slices), flows


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", default=str(ROOT / "build/release/meshweave"))
    arguments = parser.parse_args()
    wrong = False
    all_flows = 0
    with tempfile.TemporaryDirectory() as folder:
        for scenario, options, name in RUNS:
            path = pathlib.Path(folder) / name
            command = [arguments.binary, "run", str(ROOT / "scenarios" / scenario), "--trace", str(path), *options]
            subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
            faults = Faults()
            ranks, slices, flows = check_file(path, faults)
            all_flows += flows
            print(" ".join([scenario, *options]) + f": {ranks} ranks, {slices} slices, {flows} flows")
            for fault in faults:
                print(f"    {fault}")
            wrong |= bool(faults)
    if all_flows == 0:
        print("no flow in any trace")
        wrong = True
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
