#!/usr/bin/env bash
# Sets up, on x86_64 Debian or a relative of it, what is needed to build this workspace for aarch64 and to run
# its tests in an emulator.
#
# A rustup toolchain knows the standard library of other targets only where rustup can fetch it. So a second,
# private rustc, Debian's, with its library for arm64, is unpacked into one folder: nothing of it goes on PATH
# or into /usr, and the machine's own apt learns of no other architecture. Cargo stays the machine's own.
#
#   neon-setup.sh [DIR]   sets up DIR; ~/.cache/scantling-neon where it is not given
#   . DIR/env.sh          then: cargo test --target aarch64-unknown-linux-gnu
#
# A finished DIR is left as it is, without asking the network; remove it to have what is newest.
set -euo pipefail

# Where the cross compiler's C library lies: the root that the emulator gives to programs.
sysroot=/usr/aarch64-linux-gnu

dir=${1:-$HOME/.cache/scantling-neon}
mkdir -p -- "$dir"
dir=$(cd -- "$dir" && pwd)

say() { printf 'neon-setup: %s\n' "$*"; }

finished() {
  [[ -f $dir/.finished && -d $sysroot ]] && command -v qemu-aarch64 aarch64-linux-gnu-gcc >/dev/null &&
    "$dir/bin/rustc" --version >/dev/null
}

if finished; then
  say "$dir holds $("$dir/bin/rustc" --version)"
  exit 0
fi
rm -f -- "$dir/.finished"

root=()
((EUID == 0)) || root=(sudo)
"${root[@]}" apt-get update -qq
# The cross linker and its C library, the emulator, and the libraries that Debian's LLVM loads.
"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
  gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user libz3-4 libxml2 libedit2 libffi8 >/dev/null

# An index of packages of its own, which knows arm64 as well.
apt=$dir/.apt
mkdir -p -- "$apt/lists/partial" "$apt/cache/archives/partial"
options=(-o "Dir::State::Lists=$apt/lists" -o "Dir::Cache=$apt/cache" -o APT::Sandbox::User=root
  -o APT::Architectures::=amd64 -o APT::Architectures::=arm64)

# One package name out of what another depends on: depends PACKAGE PATTERN
depends() { apt-cache "${options[@]}" show "$1" | sed -n 's/^Depends: //p' | grep -om1 "$2" | head -n 1; }

apt-get "${options[@]}" update -qq
# Plain `rustc` is as old as the distribution; `rustc-web` follows what browsers are built with.
version=$(apt-cache "${options[@]}" policy rustc-web | sed -n 's/ *Candidate: //p')
if [[ -z $version || $version == '(none)' ]]; then
  say 'no package rustc-web here: Debian 12 or newer with its security suite is needed' >&2
  exit 1
fi
library=$(depends "libstd-rust-web-dev=$version" 'libstd-rust-web-[0-9.]*[0-9]')
llvm=$(depends "$library=$version" 'libllvm[0-9]*')

rm -rf -- "$dir/debs" "$dir/root"
mkdir -p -- "$dir/debs" "$dir/root" "$dir/bin"
(
  cd -- "$dir/debs"
  apt-get "${options[@]}" download -qq "rustc-web=$version" "$library=$version" "$llvm" \
    "libstd-rust-web-dev=$version" "libstd-rust-web-dev:arm64=$version"
)
for package in "$dir"/debs/*.deb; do dpkg-deb -x "$package" "$dir/root"; done
rm -rf -- "$dir/debs"

for tool in rustc rustdoc; do
  cat >"$dir/bin/$tool" <<TOOL
#!/bin/sh
LD_LIBRARY_PATH=$dir/root/usr/lib/x86_64-linux-gnu\${LD_LIBRARY_PATH:+:\$LD_LIBRARY_PATH} exec $dir/root/usr/bin/$tool "\$@"
TOOL
  chmod +x "$dir/bin/$tool"
done
# The target folder is one of its own, since cargo rebuilds everything whenever the compiler changes.
cat >"$dir/env.sh" <<ENV
export RUSTC=$dir/bin/rustc RUSTDOC=$dir/bin/rustdoc
export CARGO_TARGET_DIR=\${CARGO_TARGET_DIR:-target}/neon
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc
export CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_RUNNER="qemu-aarch64 -L $sysroot"
ENV

[[ -d $("$dir/bin/rustc" --print sysroot)/lib/rustlib/aarch64-unknown-linux-gnu ]]
touch -- "$dir/.finished"
finished
say "$dir holds $("$dir/bin/rustc" --version), $(du -sm -- "$dir" | cut -f 1) MB"
