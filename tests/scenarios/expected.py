#!/usr/bin/env python3
"""Runs every shipped scenario and compares its result with the reviewed one in expected.jsonl.

expected.jsonl holds one scenario a line, sorted by file name, so that a change of results is a diff that can be
read. After a reviewed change of the models, this command writes the new results:

    python3 tests/scenarios/expected.py --accept

Results are compared within 1e-9 relative: far above the rounding of a printed double, far below any change of a
model.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
EXPECTED = pathlib.Path(__file__).with_name("expected.jsonl")
TOLERANCE = 1e-9
KEYS = [
    "step_time_s", "tokens_per_s", "tflops_per_gpu", "mfu", "hfu", "bubble_fraction", "exposed_comm_fraction",
    "fits", "peak_memory_bytes", "ranks", "ops",
]


def scenario_files():
    files = (f.relative_to(SCENARIOS).as_posix() for f in SCENARIOS.rglob("*.json"))
    return sorted(f for f in files if not f.startswith("schema/"))


def run(binary, name):
    """The result of one scenario, reduced to KEYS, or an error text."""
    command = [binary, "run", str(SCENARIOS / name), "--json", "--no-timing"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        return f"exit code {done.returncode}: {done.stderr.strip()}"
    try:
        result = json.loads(done.stdout)
        return {key: rounded(result[key]) for key in KEYS}
    except (ValueError, KeyError) as error:
        return f"not the promised JSON: {error!r}"


def rounded(value):
    return float(f"{value:.12g}") if isinstance(value, float) else value


def differences(expected, found):
    if isinstance(found, str):
        return [found]
    lines = []
    for key in KEYS:
        a, b = expected[key], found[key]
        numbers = not isinstance(a, (bool, str)) and not isinstance(b, (bool, str))
        same = abs(a - b) <= TOLERANCE * max(abs(a), abs(b)) if numbers else a == b
        if not same:
            change = f" ({100 * (b / a - 1):+.3g} %)" if numbers and a else ""
            lines.append(f"{key}: expected {a}, found {b}{change}")
    return lines


def read_expected():
    if not EXPECTED.exists():
        return {}
    rows = (json.loads(line) for line in EXPECTED.read_text().splitlines())
    return {row.pop("scenario"): row for row in rows}


def accept(found):
    lines = []
    for name, result in sorted(found.items()):
        if isinstance(result, str):
            sys.exit(f"{name}: {result}\nnothing was written")
        lines.append(json.dumps({"scenario": name, **result}) + "\n")
    EXPECTED.write_text("".join(lines))
    print(f"wrote {len(lines)} results to {EXPECTED.relative_to(ROOT)}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/meshweave"))
    parser.add_argument("--accept", action="store_true", help="run all and write the results as the expected ones")
    arguments = parser.parse_args()

    expected = read_expected()
    names = scenario_files()
    wrong = 0
    if not arguments.accept:
        for name in sorted(set(names) ^ set(expected)):
            wrong += 1
            print(f"{name}: " + ("has no expected result" if name in names else "is expected but not there"))
        names = [n for n in names if n in expected]

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        found = dict(zip(names, pool.map(lambda name: run(arguments.binary, name), names)))
    if arguments.accept:
        accept(found)
        return 0
    for name in names:
        lines = differences(expected[name], found[name])
        wrong += bool(lines)
        for line in lines:
            print(f"{name}: {line}")
    print(f"{len(names)} scenarios run, {wrong} differ")
    if wrong:
        print("after review: python3 tests/scenarios/expected.py --accept")
    return 1 if wrong or not names else 0


if __name__ == "__main__":
    sys.exit(main())
