#!/usr/bin/env python3
"""Runs the commands that README.md shows, so that they cannot rot.

A fenced block marked sh holds one command a line (a trailing backslash continues it). A fenced block marked text that
follows a block of a single command shows that command's standard output and must equal it.

    readme_commands.py --binary FILE   runs all but ./setup.sh in a folder of links to the repository
    readme_commands.py --setup         clones the repository into an empty folder and runs the ./setup.sh commands there
    readme_commands.py --accept        as the first, and writes the outputs found into README.md
"""
import argparse
import os
import pathlib
import re
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parents[2]
README = ROOT / "README.md"
BINARY = "build/release/meshweave"  # as the README spells it
BLOCK = re.compile(r"^```(\w+)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


def commands_of(block):
    joined = block.replace("\\\n", " ")
    return [line.strip() for line in joined.splitlines() if line.strip() and not line.lstrip().startswith("#")]


def steps(text):
    """(command, match of the text block with its output or None), in the order of the README."""
    blocks = list(BLOCK.finditer(text))
    for i, block in enumerate(blocks):
        if block[1] != "sh":
            continue
        commands = commands_of(block[2])
        follower = blocks[i + 1] if i + 1 < len(blocks) and blocks[i + 1][1] == "text" else None
        for command in commands:
            yield command, follower if len(commands) == 1 else None


def run(command, folder):
    print(f"$ {command}", flush=True)
    done = subprocess.run(["bash", "-ec", command], cwd=folder, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        sys.exit(f"{done.stdout}exit code {done.returncode}: {command}")
    return done.stdout


def linked_copy(folder, binary):
    """Fills `folder` with links to the repository, so that what a command writes stays out of it."""
    for entry in ROOT.iterdir():
        if entry.name not in ("build", ".git"):
            (folder / entry.name).symlink_to(entry)
    target = folder / BINARY
    target.parent.mkdir(parents=True)
    target.symlink_to(pathlib.Path(binary).resolve())


def check_commands(binary, accept):
    text = README.read_text()
    wrong = 0
    replaced = text
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)
        linked_copy(folder, binary)
        for command, shown in steps(text):
            if command.startswith("./setup.sh"):
                continue
            output = run(command, folder)
            if shown is None or shown[2] == output:
                continue
            replaced = replaced.replace(shown[0], f"```text\n{output}```")
            if not accept:
                wrong += 1
                print(f"README.md shows another output than this command prints; it prints:\n{output}")
    if accept and replaced != text:
        README.write_text(replaced)
        print("wrote the outputs into README.md")
    if wrong:
        sys.exit("after review: python3 tests/repository/readme_commands.py --accept")


def check_setup():
    commands = [c for c, _ in steps(README.read_text()) if c.startswith("./setup.sh")]
    if set(commands) != {"./setup.sh run", "./setup.sh test"}:
        sys.exit(f"README.md should show ./setup.sh run and ./setup.sh test, not {commands}")
    with tempfile.TemporaryDirectory() as name:
        clone = os.path.join(name, "meshweave")
        subprocess.run(["git", "clone", "--quiet", str(ROOT), clone], check=True)
        for command in commands:
            print(run(command, clone))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", default=str(ROOT / BINARY))
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--accept", action="store_true")
    arguments = parser.parse_args()
    if arguments.setup:
        check_setup()
    else:
        check_commands(arguments.binary, arguments.accept)


if __name__ == "__main__":
    main()
