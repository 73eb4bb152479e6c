#!/usr/bin/env python3
"""Chooses the settings that a published table does not state: the fastest that fits.

A scenario names them in its first line, for example

    // chosen: batch.micro, vpp, recompute (not published): the fastest that fits

For these the script crosses the candidates below with `meshweave run --vary`, takes the fastest point that fits into
the memory of the device, writes it into the file, and prints one line per row. The rule is the same for every row and
looks at no published result:

    batch.micro   1, 2, 4, 8 where it divides
    vpp           every divisor of the layers of a pipeline rank
    recompute     none; selective where none does not fit; full where neither does (less is never slower)

    scenarios/megatron/choose.py                 all rows and the quick start
    scenarios/megatron/choose.py FOLDER|FILE …   some of them
"""
import argparse
import json
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = "/layout/language/"
CHOSEN = re.compile(r"^// chosen: ([\w., ]+?) \(not published\)")
MICRO = "/batch/micro"
VPP = LAYOUT + "vpp"
RECOMPUTE = LAYOUT + "recompute"
POINTERS = {"batch.micro": MICRO, "vpp": VPP, "recompute": RECOMPUTE}


def meshweave(binary, *arguments):
    done = subprocess.run([binary, *map(str, arguments)], capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit(f"{' '.join(map(str, arguments))}: {done.stderr}")
    return json.loads(done.stdout)


def sweep(binary, path, vary):
    """The points of the crossed candidates that are possible, fastest first, those that fit before the others."""
    options = [option for pointer, values in vary.items() for option in ("--vary", f"{pointer}={','.join(values)}")]
    rows = meshweave(binary, "run", path, *options, "--json", "--no-timing")
    return [row for row in rows if "errors" not in row]


def candidates(resolved, keys):
    layout = resolved["layout"]["language"]
    per_rank = resolved["model"]["language"]["layers"] // layout["pp"]
    vary = {}
    if "batch.micro" in keys:
        vary[MICRO] = ["1", "2", "4", "8"]
    if "vpp" in keys:
        divisors = [v for v in range(1, per_rank + 1) if per_rank % v == 0]
        vary[VPP] = [str(v) for v in divisors if layout["pp"] > 1 or v == 1]
    return vary


def fastest_that_fits(binary, path, keys):
    """Pointer → value of the best point, and its result."""
    vary = candidates(meshweave(binary, "check", path, "--json"), keys)
    for recompute in ["none", "selective", "full"] if "recompute" in keys else [None]:
        fixed = {RECOMPUTE: [recompute]} if recompute else {}
        rows = sweep(binary, path, {**fixed, **vary})
        if rows and rows[0]["fits"]:
            return rows[0]["vary"], rows[0]
    sys.exit(f"{path}: nothing fits")


def with_value(text, pointer, value):
    """`text` with the value of a key of one of the one-line objects "batch" and "language" replaced or added."""
    key = pointer.rsplit("/", 1)[1]
    written = value if value.isdigit() else json.dumps(value)
    line = re.compile(r'^ +"batch": \{.*\}|(?<="layout": \{\n)^ +"language": \{.*\}', re.MULTILINE)
    wanted = '"batch"' if pointer == MICRO else '"language"'
    found = next(m for m in line.finditer(text) if m[0].lstrip().startswith(wanted))
    old = found[0]
    new = re.sub(rf'("{key}": )[^,}}]*?(?=,| \}})', rf"\g<1>{written}", old)
    if f'"{key}"' not in old:
        new = re.sub(r'("dp": )', f'"{key}": {written}, \\1', old)
    return text[: found.start()] + new + text[found.end():]


def choose(binary, path):
    text = path.read_text()
    chosen = CHOSEN.match(text)
    if not chosen:
        return
    values, result = fastest_that_fits(binary, path, [key.strip() for key in chosen[1].split(",")])
    for pointer, value in values.items():
        text = with_value(text, pointer, value)
    path.write_text(text)
    settings = "  ".join(f"{pointer.rsplit('/', 1)[1]} {value}" for pointer, value in values.items())
    print(f"{path.relative_to(ROOT)}: {settings}  {result['step_time_s']:.4g} s  "
          f"{result['peak_memory_bytes'] / 1e9:.1f} GB", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / "build/release/meshweave"))
    parser.add_argument("paths", nargs="*", type=pathlib.Path)
    arguments = parser.parse_args()
    paths = [p.resolve() for p in arguments.paths] or [ROOT / "scenarios/quickstart.json", ROOT / "scenarios/megatron"]
    for path in paths:
        for file in sorted(path.rglob("*.json")) if path.is_dir() else [path]:
            choose(arguments.binary, file)


if __name__ == "__main__":
    main()
