#!/usr/bin/env bash
# The kernels on an emulated processor with AVX-512, VNNI and AVX-VNNI (a Sapphire Rapids), for machines that have none
# of them.
#
# No user-mode emulator knows these instructions. Bochs does, but emulates whole machines: so Debian's kernel is
# started in it, with the test programs in its initial file system and nothing else. What they print comes through
# the serial port. Such a processor is known to Bochs from 3.0 on, which is that of Debian 13: it is unpacked with all
# that it needs into a folder, and nothing of it is installed.
#
#   SCANTLING_AVX512   the folder for the kernel and its files; ~/.cache/scantling-avx512 where it is not set
#   SCANTLING_MINUTES  after how long to give up; 60 where it is not set
#
# Fails where the emulator cannot be had: a suite that was left out looks like one that passed.
set -euo pipefail
unset CDPATH
cd -- "$(dirname -- "${BASH_SOURCE[0]}")/.."

dir=${SCANTLING_AVX512:-$HOME/.cache/scantling-avx512}
mkdir -p -- "$dir"
dir=$(cd -- "$dir" && pwd)
libraries=$dir/bochs/usr/lib/x86_64-linux-gnu
leaves=avx2,avx2-int8,avx512,avx512-int8,scalar

say() { printf 'emulated-avx512: %s\n' "$*"; }

set_up() {
  local root=()
  ((EUID == 0)) || root=(sudo)
  "${root[@]}" apt-get update -qq
  "${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
    debian-archive-keyring isolinux syslinux-common xorriso cpio busybox-static >/dev/null
  rm -rf -- "$dir/kernel" "$dir/apt" "$dir/bochs"
  mkdir -p -- "$dir/kernel" "$dir/apt/state/lists/partial" "$dir/apt/cache/archives/partial" "$dir/bochs"
  (
    cd -- "$dir/kernel"
    # The package of that name only asks for the newest kernel.
    local package
    package=$(apt-cache depends linux-image-cloud-amd64 | sed -n 's/ *Depends: //p' | head -n 1)
    apt-get download -qq -o APT::Sandbox::User=root "$package"
    dpkg-deb -x ./*.deb .
    rm -- ./*.deb
    mv -- boot/vmlinuz-* vmlinuz
  )
  # An index of its own, of a system on which nothing is installed: so all libraries come with it.
  touch -- "$dir/apt/status"
  # From wherever this system has its packages.
  local archive
  archive=$(apt-get indextargets --format '$(REPO_URI)' 'Created-By: Packages' 'Origin: Debian' 'Component: main' |
    sed -n 1p)
  printf 'deb [signed-by=%s] %s trixie main\n' /usr/share/keyrings/debian-archive-keyring.gpg "$archive" \
    >"$dir/apt/sources.list"
  local options=(-qq -o "Dir::State=$dir/apt/state" -o "Dir::State::status=$dir/apt/status" -o APT::Sandbox::User=root
    -o "Dir::Cache=$dir/apt/cache" -o "Dir::Etc::sourcelist=$dir/apt/sources.list" -o Dir::Etc::sourceparts=/dev/null)
  apt-get "${options[@]}" update
  apt-get "${options[@]}" install -y --no-install-recommends --download-only \
    bochs bochs-term bochsbios vgabios >/dev/null
  local package
  for package in "$dir"/apt/cache/archives/*.deb; do dpkg-deb -x "$package" "$dir/bochs"; done
  rm -rf -- "$dir/apt"
}

# The test programs, each linked statically: there is no C library in there. Prints their paths.
build() {
  RUSTFLAGS='-C target-feature=+crt-static' CARGO_TARGET_DIR=${CARGO_TARGET_DIR:-target}/avx512 \
    cargo test --locked -p scantling-kernels --lib --test conformance --test int8 --test usable \
    --target x86_64-unknown-linux-gnu --no-run --message-format json |
    python3 -c '
import json, sys
for line in sys.stdin:
    message = json.loads(line)
    if message.get("executable"):
        print(message["executable"])
'
}

# The initial file system: the programs, the files they read where they look for them, and a shell.
pack() {
  rm -rf -- "$dir/files"
  mkdir -p -- "$dir/files/tests" "$dir/files/proc" "$dir/files/tmp" "$dir/files$PWD/testdata" "$dir/files$PWD/kernels"
  cp -- "$@" "$dir/files/tests"
  cp -r -- testdata/quants "$dir/files$PWD/testdata/"
  cp -- /bin/busybox "$dir/files/busybox"
  cat >"$dir/files/init" <<INIT
#!/busybox sh
/busybox mount -t proc proc /proc
export SCANTLING_QUICK=1 SCANTLING_LEAVES=$leaves RUST_BACKTRACE=0
failed=0
for test in /tests/*; do
  echo "-- \$test"
  \$test --test-threads 1 --nocapture || failed=1
done
echo "emulated-avx512: \$failed"
/busybox sleep 1000000
INIT
  chmod +x "$dir/files/init"
  mkdir -p -- "$dir/disc"
  (cd -- "$dir/files" && find . | cpio -o -H newc --quiet) >"$dir/disc/files.cpio"
  cp -- "$dir/kernel/vmlinuz" /usr/lib/ISOLINUX/isolinux.bin /usr/lib/syslinux/modules/bios/ldlinux.c32 "$dir/disc"
  # What the emulated processor says of itself does not fit together, and the kernel takes offence: with FSRM but not
  # ERMS its memmove runs wild, and sizes of saved registers that do not add up make it do without AVX. Mitigations and
  # security modules only cost time, printing most of all.
  local fixes='clearcpuid=fsrm,erms,xsaves,xsavec,pku,ospke'
  local quick='quiet nokaslr mitigations=off nopti no5lvl lsm=none random.trust_cpu=on'
  printf 'default tests\nprompt 0\ntimeout 0\nlabel tests\nkernel vmlinuz\nappend %s\n' \
    "initrd=files.cpio console=ttyS0,115200 $fixes $quick panic=-1" >"$dir/disc/isolinux.cfg"
  xorriso -as mkisofs -quiet -o "$dir/disc.iso" -b isolinux.bin -c boot.cat -no-emul-boot -boot-load-size 4 \
    -boot-info-table "$dir/disc" 2>/dev/null
  # `ips` says how many instructions make an emulated second: the fewer, the less is spent on waiting for the serial
  # port.
  cat >"$dir/bochsrc" <<RC
display_library: term
memory: guest=512, host=512
romimage: file=$dir/bochs/usr/share/bochs/BIOS-bochs-latest
vgaromimage: file=$dir/bochs/usr/share/bochs/VGABIOS-lgpl-latest
cpu: model=sapphire_rapids, count=1, ips=8000000, reset_on_triple_fault=0
clock: sync=none
ata0-master: type=cdrom, path=$dir/disc.iso, status=inserted
boot: cdrom
com1: enabled=1, mode=file, dev=$dir/serial
panic: action=fatal
vga: extension=none, update_freq=1
log: $dir/bochs.log
RC
  # Debian's Bochs begins in its debugger.
  printf 'c\n' >"$dir/debugger"
}

# Runs the machine until the tests are done. Its screen wants a terminal, which `script` makes up; at the end of its
# input that would stop reading, and the machine would wait for ever to draw.
run() {
  rm -f -- "$dir/serial"
  touch -- "$dir/serial"
  cat >"$dir/start" <<START
export TERM=xterm LTDL_LIBRARY_PATH=$libraries/bochs/plugins
exec $libraries/ld-linux-x86-64.so.2 --library-path $libraries $dir/bochs/usr/bin/bochs-bin -q -f $dir/bochsrc \\
  -rc $dir/debugger
START
  # shellcheck disable=SC2016
  setsid bash -c 'sleep infinity | script -qc "sh $0" /dev/null >"$1"' "$dir/start" "$dir/screen" 2>/dev/null &
  bochs=$! # not local: the trap outlives this function
  local until=$((SECONDS + 60 * ${SCANTLING_MINUTES:-60}))
  trap 'kill -9 -- "-$bochs" 2>/dev/null || true' EXIT
  tail -n +1 -f --pid "$bochs" -- "$dir/serial" &
  until grep -aq '^emulated-avx512: [01]' "$dir/serial"; do
    if ((SECONDS > until)) || ! kill -0 "$bochs" 2>/dev/null; then
      say "the machine did not get to the end; see $dir/serial and $dir/bochs.log" >&2
      exit 1
    fi
    sleep 1
  done
  grep -aq '^emulated-avx512: 0' "$dir/serial"
}

[[ -f $dir/kernel/vmlinuz && -x $dir/bochs/usr/bin/bochs-bin && -d /usr/lib/ISOLINUX ]] &&
  command -v xorriso cpio busybox >/dev/null || set_up
mapfile -t programs < <(build)
if ((${#programs[@]} != 4)); then
  say "expected four test programs, got ${#programs[@]}" >&2
  exit 1
fi
pack "${programs[@]}"
run
say "passed with $leaves, in $SECONDS s"
