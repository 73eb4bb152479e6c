#!/usr/bin/env bash
# Sets Meshweave up on Debian 12: installs what is missing, builds, and runs or tests it.
#
#   ./setup.sh run      builds and runs the quick start; ends with its report
#   ./setup.sh test     builds and runs every test but the long ones
#   ./setup.sh install  installs the packages only
#
# All may be repeated: packages that are there are skipped, and only what changed is built again.
set -euo pipefail
cd "$(dirname "$0")"

packages=(
  g++ cmake ninja-build pkg-config                                    # the tools
  libsimgrid-dev libboost-graph-dev nlohmann-json3-dev libeigen3-dev  # the libraries
  libcli11-dev libfmt-dev zlib1g-dev
  catch2 python3 python3-jsonschema clang-format-14                   # the tests
)
build=build/release

say() { printf '\n== %s\n' "$*" >&2; }

usage() {
  sed -n '2,8s/^# \{0,1\}//p' "$0"
  exit "$1"
}

as_root() {
  if [ "$(id -u)" -eq 0 ]; then
    "$@"
  elif command -v sudo >/dev/null; then
    sudo "$@"
  else
    echo "setup.sh: needs root or sudo to install packages" >&2
    exit 1
  fi
}

is_installed() { [ "$(dpkg-query -W -f='${Status}' "$1" 2>/dev/null)" = "install ok installed" ]; }

apt_install() { as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y --no-install-recommends "$@"; }

install_packages() {
  local missing=() package
  for package in "${packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
  if [ ${#missing[@]} -eq 0 ]; then
    say "Packages: all ${#packages[@]} are installed"
    return
  fi
  say "Packages: installing ${missing[*]}"
  # The package lists are fetched only when they are absent or too old to install from.
  if ! { apt-cache show "${missing[@]}" >/dev/null 2>&1 && apt_install "${missing[@]}"; }; then
    as_root apt-get update
    apt_install "${missing[@]}"
  fi
}

build_release() {
  say "Build: preset release into $build"
  local launcher=()
  if command -v ccache >/dev/null; then
    launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
  fi
  cmake --preset release "${launcher[@]}"
  cmake --build --preset release --parallel "$(nproc)"
}

case "${1:-}" in
  install) install_packages ;;
  run)
    install_packages
    build_release
    say "Run: scenarios/quickstart.json"
    "$build/meshweave" run scenarios/quickstart.json
    ;;
  test)
    install_packages
    build_release
    say "Test: everything but the label long"
    ctest --test-dir "$build" -LE long --output-on-failure --no-tests=error --timeout 600 --parallel "$(nproc)"
    ;;
  -h | --help) usage 0 ;;
  *) usage 2 >&2 ;;
esac
