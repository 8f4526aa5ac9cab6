# Sourced by the recipes: a Debian root file system as a tar stream, from the machine's own apt
# sources, without a registry.
#
#   debian_rootfs OUT.tar PACKAGE,PACKAGE…
#
# ATOLL_SUITE (bookworm) and ATOLL_APT_SOURCES (files in apt's format, separated by spaces) override
# where the packages come from.

require() {
  for tool in "$@"; do
    command -v "$tool" >/dev/null || {
      echo "$0: '$tool' is missing; install it with: apt-get install $tool" >&2
      exit 1
    }
  done
}

# Debian's own archives only: foreign repositories on the machine are none of the image's business.
debian_sources() {
  if [ -n "${ATOLL_APT_SOURCES:-}" ]; then
    echo "$ATOLL_APT_SOURCES"
    return
  fi
  for file in /etc/apt/sources.list /etc/apt/sources.list.d/debian.sources; do
    if [ -f "$file" ] && grep -Eq '^(deb |URIs:)' "$file"; then echo "$file"; fi
  done
}

debian_rootfs() {
  require mmdebstrap
  [ "$(id -u)" = 0 ] || { echo "$0: run as root (mmdebstrap --mode=root)" >&2; exit 1; }
  sources=$(debian_sources)
  # A proxy that the machine's apt needs is needed here as well, but not in the image: the last hook
  # removes what --aptopt writes.
  proxy=$(apt-config dump --format '%f "%v";%n' Acquire::http::Proxy 2>/dev/null | grep '"..*"' || true)
  # A JRE's alternatives put links to manual pages there, and fail where it is not.
  # shellcheck disable=SC2086  # a list of files
  mmdebstrap --mode=root --variant=minbase --format=tar --include="$2" \
    ${proxy:+--aptopt="$proxy"} \
    --aptopt='Acquire::Languages "none"' \
    --aptopt='Acquire::Retries "3"' \
    --dpkgopt='path-exclude=/usr/share/man/*' \
    --dpkgopt='path-exclude=/usr/share/doc/*' \
    --dpkgopt='path-include=/usr/share/doc/*/copyright' \
    --dpkgopt='path-exclude=/usr/share/locale/*' \
    --dpkgopt='path-exclude=/usr/share/info/*' \
    --dpkgopt='path-exclude=/usr/share/lintian/*' \
    --essential-hook='mkdir -p "$1"/usr/share/man/man1' \
    --customize-hook='rm -rf "$1"/var/lib/apt/lists/* "$1"/var/cache/apt/*.bin "$1"/var/cache/debconf/*-old "$1"/var/log/*.log "$1"/var/log/apt "$1"/etc/hostname "$1"/etc/resolv.conf' \
    --customize-hook='rm -f "$1"/etc/apt/apt.conf.d/99mmdebstrap' \
    ${ATOLL_SUITE:-bookworm} "$1" $sources
}
