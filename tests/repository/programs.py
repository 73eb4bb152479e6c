#!/usr/bin/env python3
"""Prints the lowered program of every shipped scenario as a digest, or compares those of two binaries.

    programs.py --binary FILE                   one line per scenario: SHA-256 of `run --print-program`, and its path
    programs.py --binary FILE --against OTHER   the scenarios whose programs differ, with the first line that does

A change that moves code and no behaviour leaves every program byte-identical: build the commit before it beside the one
behind it, and compare."""
import argparse
import concurrent.futures
import hashlib
import itertools
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
FOLDERS = ["scenarios", "tests/emulate", "tests/scenarios"]


def scenarios():
    for folder in FOLDERS:
        for path in sorted((ROOT / folder).rglob("*.json")):
            if "schema" not in path.parts and '"layout"' in path.read_text():
                yield path


def program(binary, path):
    done = subprocess.run([binary, "run", "--print-program", str(path)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    return done.stdout


def digest(binary, path):
    return hashlib.sha256(program(binary, path)).hexdigest()


def first_difference(binary, other, path):
    pairs = itertools.zip_longest(program(other, path).splitlines(), program(binary, path).splitlines(), fillvalue=b"")
    for number, (before, after) in enumerate(pairs, 1):
        if before != after:
            return f"line {number}\n  - {before.decode()}\n  + {after.decode()}"
    return "nowhere"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--against")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    options = parser.parse_args()
    paths = list(scenarios())
    with concurrent.futures.ThreadPoolExecutor(options.jobs) as pool:
        digests = list(pool.map(lambda p: digest(options.binary, p), paths))
        if options.against is None:
            for path, sha in zip(paths, digests):
                print(sha, path.relative_to(ROOT))
            return 0
        others = list(pool.map(lambda p: digest(options.against, p), paths))
    different = [p for p, a, b in zip(paths, digests, others) if a != b]
    for path in different:
        print(f"{path.relative_to(ROOT)}: {first_difference(options.binary, options.against, path)}")
    print(f"{len(paths) - len(different)} of {len(paths)} programs are identical")
    return 1 if different else 0


sys.exit(main())
