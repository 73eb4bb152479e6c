#!/usr/bin/env python3
"""Holds the JSON Schema against the reader: both accept the shipped scenarios, both refuse the broken ones.

Of the cases in tests/scenario/cases, those of the kind form break the schema; those of the kind sense keep to it and
are refused by the reader alone.
Exit code 77 means that Python's jsonschema is not there.
"""
import argparse
import json
import os
import pathlib
import re
import subprocess
import sys

import cases

try:
    import jsonschema
except ImportError:
    print("python3-jsonschema is not installed")
    sys.exit(77)

tests = pathlib.Path(__file__).resolve().parent
root = tests.parent.parent
library = {**os.environ, "MESHWEAVE_DATA": str(tests / "library")}


def load(text):
    """The document of a text with // and /* */ comments outside of strings."""
    token = re.compile(r'"(?:\\.|[^"\\])*"|//[^\n]*|/\*.*?\*/', re.DOTALL)
    text = token.sub(lambda m: m.group() if m.group().startswith('"') else " ", text)
    return json.loads(text)


def validator_of(binary, environment):
    schema = json.loads(subprocess.run([binary, "schema"], env=environment, check=True, capture_output=True).stdout)
    jsonschema.Draft7Validator.check_schema(schema)
    return jsonschema.Draft7Validator(schema)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True, help="the command meshweave")
    binary = parser.parse_args().binary
    failures = []

    def expect(name, text, validator, accepted):
        error = next(validator.iter_errors(load(text)), None)
        if (error is None) != accepted:
            failures.append(f"{name}: {error.message[:200] if error else 'is accepted by the schema'}")

    shipped = validator_of(binary, dict(os.environ))
    scenarios = [p for p in sorted((root / "scenarios").rglob("*.json")) if "schema" not in p.parts[-2:-1]]
    for path in scenarios:
        expect(path, path.read_text(), shipped, True)
        resolved = subprocess.run([binary, "check", str(path)], capture_output=True, text=True)
        if resolved.returncode != 0:
            failures.append(f"{path}: the reader refuses it: {resolved.stderr}")
        elif error := next(shipped.iter_errors(json.loads(resolved.stdout)), None):
            failures.append(f"{path}: resolved: {error.message[:200]}")

    toy = validator_of(binary, library)
    for kind, name, text in cases.broken_cases():
        if kind != "text":
            expect(f"case {name}", text.decode(), toy, kind == "sense")

    for path in sorted((tests.parent / "fuzz" / "seeds").glob("*.json")):
        expect(path, path.read_text(), toy, True)

    print("\n".join(failures) or f"{len(scenarios)} scenarios and the broken ones agree")
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
