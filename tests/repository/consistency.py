#!/usr/bin/env python3
"""Holds together what the repository says in two places: the quick start is a row of a table, every scenario names the
schema, and every script can be started."""
import os
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCENARIOS = ROOT / "scenarios"
SCHEMA = SCENARIOS / "schema/scenario.schema.json"


def without_schema(path):
    return [line for line in path.read_text().splitlines() if '"$schema"' not in line]


def problems():
    if without_schema(SCENARIOS / "quickstart.json") != without_schema(SCENARIOS / "megatron/readme-h100/70b.json"):
        yield "scenarios/quickstart.json is not the row scenarios/megatron/readme-h100/70b.json"
    for path in sorted(SCENARIOS.rglob("*.json")):
        if path == SCHEMA:
            continue
        expected = os.path.relpath(SCHEMA, path.parent)
        if f'"$schema": "{expected}"' not in path.read_text():
            yield f'{path.relative_to(ROOT)}: "$schema" should be "{expected}"'
    for name in ["setup.sh", ".ci/run", "scenarios/megatron/choose.py"]:
        if not os.access(ROOT / name, os.X_OK):
            yield f"{name} is not executable"


found = list(problems())
print("\n".join(found) or "consistent")
sys.exit(1 if found else 0)
