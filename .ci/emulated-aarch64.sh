#!/usr/bin/env bash
# The tests of core and kernels, and forward passes of small models, as AArch64 programs, on emulated processors that
# differ in what they can do.
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

tests() { cargo test --locked --target aarch64-unknown-linux-gnu "$@"; }

# on CPU LEAVES: the kernels on a processor that must be able to run just these leaves.
on() {
  printf -- '-- %s: %s\n' "$1" "$2"
  QEMU_CPU=$1 SCANTLING_QUICK=1 SCANTLING_LEAVES=$2 \
    tests -p scantling-kernels --lib --test conformance --test int8 --test usable
}

# The emulator makes up /proc/self/smaps: it has every mapping, but nothing of any in memory.
tests -p scantling-core --lib --tests -- --skip paging::tests::a_prepared_file_is_there_and_reads_the_same
on cortex-a72 neon,neon-int8,scalar   # neither sdot nor smmla
on neoverse-n1 neon,neon-int8,scalar  # sdot
on max neon,neon-int8,scalar          # both
# Both packages, so that the kernels are those that have been built above.
QEMU_CPU=max tests -p scantling-kernels -p scantling-architectures --test forward -- \
  the_small_models_compute a_cache_gives_the_bits only_wanted_logits
