#!/bin/sh
# A Python image from Debian packages:  python.sh OUT.tar   (root; a minute or two)
set -eu
[ $# = 1 ] || { echo "usage: $0 OUT.tar" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
. "$here/debian.sh"
require python3
out=$(readlink -f "$1")
work=$(mktemp -d "$(dirname "$out")/.atoll-python.XXXXXX")
trap 'rm -rf "$work"' EXIT

debian_rootfs "$work/rootfs.tar" python3,ca-certificates,curl
python3 "$here/oci_archive.py" --output "$out" --name python:3.11 --cmd '["python3"]' \
  --env LANG=C.UTF-8 --env PYTHONUNBUFFERED=1 "$work/rootfs.tar"
