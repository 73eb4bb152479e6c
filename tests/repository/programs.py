#!/usr/bin/env python3
"""Prints the lowered program of every shipped scenario as a digest, or compares those of two binaries.

    programs.py --binary FILE                   one line per scenario: SHA-256 of `run --print-program`, and its path
    programs.py --binary FILE --against OTHER   the scenarios whose programs differ; OTHER is a second binary (the first
                                                line that differs is shown) or a file with what the first form printed

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


def start(binary, path):
    command = [binary, "run", "--print-program", str(path)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def digest(binary, path):
    sha = hashlib.sha256()
    with start(binary, path) as process:
        while piece := process.stdout.read(1 << 20):
            sha.update(piece)
    return sha.hexdigest()


def first_difference(binary, other, path):
    with start(other, path) as one, start(binary, path) as two:
        pairs = itertools.zip_longest(one.stdout, two.stdout, fillvalue=b"")
        for number, (before, after) in enumerate(pairs, 1):
            if before != after:
                one.kill(), two.kill()
                return f"line {number}\n  - {before.decode()}  + {after.decode()}"
    return "nowhere"


def known_digests(path):
    """What the first form printed, by scenario; None for a binary."""
    with open(path, "rb") as file:
        if file.read(4) == b"\x7fELF":
            return None
    return {name: sha for sha, name in (line.split() for line in pathlib.Path(path).read_text().splitlines())}


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
        known = known_digests(options.against)
        if known is None:
            others = list(pool.map(lambda p: digest(options.against, p), paths))
        else:
            others = [known.get(str(p.relative_to(ROOT))) for p in paths]
    different = [p for p, a, b in zip(paths, digests, others) if a != b]
    for path in different:
        what = "differs" if known else first_difference(options.binary, options.against, path)
        print(f"{path.relative_to(ROOT)}: {what}")
    print(f"{len(paths) - len(different)} of {len(paths)} programs are identical")
    return 1 if different else 0


sys.exit(main())
