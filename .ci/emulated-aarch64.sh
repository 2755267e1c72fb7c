#!/usr/bin/env bash
# The tests of core and kernels as AArch64 programs, on emulated processors that differ in what they can do.
#
# Fails where the emulator cannot be had: a suite that was left out looks like one that passed.
#
#   SCANTLING_NEON   the folder of the cross toolchain; ~/.cache/scantling-neon where it is not set
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

toolchain=${SCANTLING_NEON:-$HOME/.cache/scantling-neon}
.ci/neon-setup.sh "$toolchain"
# shellcheck source=/dev/null
. "$toolchain/env.sh"

tests() { cargo test --locked --target aarch64-unknown-linux-gnu --lib --tests "$@"; }

# on CPU LEAVES: the kernels on a processor that must be able to run just these leaves.
on() {
  printf -- '-- %s: %s\n' "$1" "$2"
  QEMU_CPU=$1 SCANTLING_LEAVES=$2 tests -p scantling-kernels
}

tests -p scantling-core
on cortex-a72 neon,scalar   # neither sdot nor smmla
on neoverse-n1 neon,scalar  # sdot
on max neon,scalar          # both
