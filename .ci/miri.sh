#!/usr/bin/env bash
# The views of core/src/matrix.rs under Miri, which tells of any read or write outside of what a view borrows, and of
# two views that overlap.
#
# Miri comes with a nightly compiler alone: rustup toolchain install nightly --component miri,rust-src
# Fails where it cannot be had: a suite that was left out looks like one that passed.
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

if ! cargo +nightly miri --version >/dev/null 2>&1; then
  rustup toolchain install nightly --profile minimal --component miri,rust-src
fi
cargo +nightly miri test --locked -p scantling-core --lib matrix::
