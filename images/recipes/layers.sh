#!/bin/sh
# Debian in N layers, for benchmarks:  layers.sh OUT.tar [N]   (root; N counts the base, default 12)
set -eu
[ $# = 1 ] || [ $# = 2 ] || { echo "usage: $0 OUT.tar [N]" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
. "$here/debian.sh"
require python3
out=$(readlink -f "$1")
count=${2:-12}
work=$(mktemp -d "$(dirname "$out")/.atoll-layers.XXXXXX")
trap 'rm -rf "$work"' EXIT

if [ -n "${ATOLL_ROOTFS:-}" ]; then
  cp "$ATOLL_ROOTFS" "$work/rootfs.tar"
else
  debian_rootfs "$work/rootfs.tar" ca-certificates
fi
set -- "$work/rootfs.tar"
number=2
while [ "$number" -le "$count" ]; do
  # Each layer adds files of its own and changes one that the layer below has: merged directories
  # and hidden files on every level, as in images that grew from a Dockerfile.
  layer=$work/layer$number
  mkdir -p "$layer/opt/layer$number" "$layer/etc"
  for file in 1 2 3 4 5 6 7 8 9 10; do
    echo "file $file of layer $number" >"$layer/opt/layer$number/file$file"
  done
  echo "$number" >"$layer/etc/top-layer"
  chmod 755 "$layer"
  set -- "$@" "$layer"
  number=$((number + 1))
done
python3 "$here/oci_archive.py" --output "$out" --name "debian:layers-$count" \
  --cmd '["/bin/bash"]' "$@"
