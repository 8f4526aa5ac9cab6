#!/bin/sh
# An image with a JVM, Node and Python from Debian packages:  runtimes.sh OUT.tar   (root; minutes)
set -eu
[ $# = 1 ] || { echo "usage: $0 OUT.tar" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
. "$here/debian.sh"
require python3
out=$(readlink -f "$1")
work=$(mktemp -d "$(dirname "$out")/.atoll-runtimes.XXXXXX")
trap 'rm -rf "$work"' EXIT

debian_rootfs "$work/rootfs.tar" openjdk-17-jre-headless,nodejs,python3
python3 "$here/oci_archive.py" --output "$out" --name runtimes:latest --cmd '["bash"]' \
  --env LANG=C.UTF-8 "$work/rootfs.tar"
