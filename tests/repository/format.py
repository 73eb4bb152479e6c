#!/usr/bin/env python3
"""Checks that every C++ file is formatted by .clang-format; with --fix formats them.

Versions of clang-format differ in details; setup.sh installs the one that counts."""
import pathlib
import shutil
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
VERSION = 14
FOLDERS = ["sim", "models", "topologies", "gui", "validation", "tests", "examples"]
SKIPPED = 77


def formatter():
    for name in [f"clang-format-{VERSION}", "clang-format"]:
        path = shutil.which(name)
        if path and f"version {VERSION}." in subprocess.run([path, "--version"], stdout=subprocess.PIPE, text=True).stdout:
            return path
    print(f"clang-format {VERSION} is not installed")
    sys.exit(SKIPPED)


files = sorted(str(f.relative_to(ROOT)) for folder in FOLDERS for f in (ROOT / folder).rglob("*") if f.suffix in [".h", ".cpp"])
how = ["-i"] if "--fix" in sys.argv[1:] else ["--dry-run", "-Werror"]
sys.exit(subprocess.run([formatter(), "--style=file", *how, *files], cwd=ROOT).returncode)
