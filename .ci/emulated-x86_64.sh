#!/usr/bin/env bash
# The kernels on emulated x86-64 processors that lack what this one may have: what is found there decides which
# leaves may run, and what a program then chooses.
#
#   emulated-x86_64.sh SCANTLING   the program, whose choice is looked at as well
#
# Fails where the emulator cannot be had: a suite that was left out looks like one that passed.
set -euo pipefail
unset CDPATH
scantling=$(realpath -- "$1")
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

if ! command -v qemu-x86_64 >/dev/null; then
  printf 'emulated-x86_64: no qemu-x86_64 here; it comes with the package qemu-user\n' >&2
  exit 1
fi

# on CPU LEAVES: the kernels on a processor that must be able to run just these leaves.
on() {
  printf -- '-- %s: %s\n' "$1" "$2"
  local emulator="qemu-x86_64 -cpu $1"
  CARGO_TARGET_X86_64_UNKNOWN_LINUX_GNU_RUNNER=$emulator SCANTLING_LEAVES=$2 \
    cargo test --locked -p scantling-kernels --lib --tests
  $emulator "$scantling" plugins --json | python3 -c '
import json, sys
leaves = [k for k in json.load(sys.stdin)["kernels"] if k["kind"] == "leaf"]
usable = ",".join(sorted(k["name"] for k in leaves if k["usable"]))
sys.exit(usable != sys.argv[1] and f"emulated-x86_64: the program can run {usable}, not {sys.argv[1]}")
' "$2"
}

on Nehalem-v1 scalar
on Haswell-v1 avx2,scalar
on max,-fma scalar
on max,-f16c scalar
