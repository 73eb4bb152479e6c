#!/usr/bin/env python3
"""The broken scenarios of tests/scenario/cases as files (their form: tests/scenario/broken_cases.h).

cases.py FOLDER writes every case to FOLDER/NAME.json, for the fuzz target and for trying one by hand.
"""
import pathlib
import re
import sys

tests = pathlib.Path(__file__).resolve().parent


def base_sections():
    header = (tests / "test_library.h").read_text()
    scenario = re.search(r'good_scenario = R"\((.*?)\)"', header, re.DOTALL).group(1)
    return dict(re.findall(r'^  "(\w+)": (.*?),?$', scenario, re.MULTILINE))


def text_of(body):
    text = "".join(line + "\n" for line in body)
    if body and body[0].startswith('"'):
        sections = base_sections()
        for line in body:
            key, _, value = line.partition(": ")
            key = key.strip('"')
            if value:
                sections[key] = value
            else:
                del sections[key]
        text = "{\n" + ",\n".join(f'  "{key}": {value}' for key, value in sections.items()) + "\n}\n"
    return re.sub(rb"\\x(..)", lambda match: bytes.fromhex(match.group(1).decode()), text.encode())


def broken_cases():
    """Yields kind, name and text of every case."""
    for path in sorted((tests / "cases").glob("*.txt")):
        for case in re.split(r"^=== ", path.read_text(), flags=re.MULTILINE)[1:]:
            heading, *lines = case.split("\n")
            kind, name = heading.split()
            yield kind, name, text_of(lines[:lines.index("---")])


if __name__ == "__main__":
    folder = pathlib.Path(sys.argv[1])
    folder.mkdir(parents=True, exist_ok=True)
    for _, name, text in broken_cases():
        (folder / f"{name}.json").write_bytes(text)
