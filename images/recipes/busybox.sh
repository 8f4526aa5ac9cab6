#!/bin/sh
# A one-layer image around Debian's static busybox:  busybox.sh OUT.tar   (no privilege; a second)
set -eu
[ $# = 1 ] || { echo "usage: $0 OUT.tar" >&2; exit 2; }
here=$(dirname "$(readlink -f "$0")")
. "$here/debian.sh"
require python3
busybox=${ATOLL_BUSYBOX:-/bin/busybox}
if ! [ -x "$busybox" ] || ldd "$busybox" >/dev/null 2>&1; then
  echo "$0: $busybox is missing or not static; apt-get install busybox-static" >&2
  exit 1
fi
out=$(readlink -f "$1")
work=$(mktemp -d "$(dirname "$out")/.atoll-busybox.XXXXXX")
trap 'rm -rf "$work"' EXIT

root=$work/root
mkdir -p "$root/bin" "$root/etc" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/root" \
  "$root/usr/bin" "$root/usr/sbin" "$root/sbin" "$root/var/tmp" "$root/home" "$root/run"
chmod 755 "$root"
chmod 1777 "$root/tmp" "$root/var/tmp"
chmod 700 "$root/root"
cp "$busybox" "$root/bin/busybox"
for applet in $("$busybox" --list-full); do
  case $applet in
    bin/busybox | linuxrc) continue ;;
  esac
  [ -e "$root/$applet" ] || ln -s /bin/busybox "$root/$applet"
done
# --list-full puts env and a few more only below /usr/bin, sh only below /bin: as scripts expect.
printf 'root:x:0:0:root:/root:/bin/sh\nnobody:x:65534:65534:nobody:/:/bin/false\n' >"$root/etc/passwd"
printf 'root:x:0:\ntty:x:5:\nnogroup:x:65534:\n' >"$root/etc/group"
python3 "$here/oci_archive.py" --output "$out" --name busybox:latest --cmd '["/bin/sh"]' "$root"
