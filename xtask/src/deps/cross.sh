# Downloads a compiler for arm64 and unpacks it into the current directory, without installing it:
# Debian's Rust with the standard library of both architectures, GCC as linker and for C, the C
# library, and qemu to run the result. The machine's own lists of packages stay as they are.
set -e
place=$PWD
mkdir -p apt/lists/partial apt/cache/archives/partial tree
cat >apt/conf <<EOF
Dir::State::Lists "$place/apt/lists";
Dir::Cache "$place/apt/cache";
APT::Architectures { "amd64"; "arm64"; };
APT::Sandbox::User "root";
EOF
export APT_CONFIG=$place/apt/conf
apt-get update -qq
# What is installed is not downloaded: libraries of the machine serve these programs too.
wanted='rustc-web libstd-rust-web-dev gcc-aarch64-linux-gnu libc6-dev-arm64-cross qemu-user-static'
# shellcheck disable=SC2086
packages=$(apt-get install --simulate -qq --no-install-recommends $wanted | sed -n 's/^Inst \([^ ]*\) .*/\1/p')
[ -n "$packages" ] || packages=$wanted
cd apt
# shellcheck disable=SC2086
apt-get download -qq $packages libstd-rust-web-dev:arm64
for package in *.deb; do dpkg-deb -x "$package" "$place/tree"; done
cd "$place"
rm -r apt
bin=$place/tree/usr/bin
libraries=$place/tree/usr/lib/x86_64-linux-gnu
for llvm in "$place"/tree/usr/lib/llvm-*/lib; do libraries=$libraries:$llvm; done
# A program under another name, with the libraries that came with it.
wrap() {
    printf '#!/bin/sh\nLD_LIBRARY_PATH=%s exec %s "$@"\n' "$libraries" "$2" >"$1"
    chmod 755 "$1"
}
wrap rustc "$bin/rustc"
wrap ar "$bin/aarch64-linux-gnu-ar"
wrap cc "$bin/aarch64-linux-gnu-gcc"
wrap qemu "$bin/qemu-aarch64-static"
./rustc --version
./cc --version | head -1
