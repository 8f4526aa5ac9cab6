# For the scripts beside it, which source it with the top folder as their current one: what they
# need, and where their tables go.

[ "$(id -u)" = 0 ] || { echo "bench: run me as root: namespaces and mounts need it" >&2; exit 2; }

# build PROGRAM: it and what it runs.
build() {
  tools/deps build run >&2
  [ -e build/build.ninja ] || meson setup build >&2
  ninja -C build atolld atoll-spawner atoll-execd atoll-unpack "bench/$1" >&2
}

# image RECIPE: prints the archive's path.
image() {
  local archive=build/images/$1.tar
  mkdir -p build/images
  if [ ! -e "$archive" ] || [ "images/recipes/$1.sh" -nt "$archive" ]; then
    echo "bench: making $archive" >&2
    # An archive under its final name is complete.
    "images/recipes/$1.sh" "$archive.new" >&2
    mv "$archive.new" "$archive"
  fi
  echo "$archive"
}

# splice NAME TABLES: the file TABLES in place of what bench/README.md has between the marks of NAME.
splice() {
  local new
  new=$(mktemp bench/README.XXXXXX)
  awk -v tables="$2" -v begin="<!-- bench/$1: begin -->" -v end="<!-- bench/$1: end -->" '
    $0 == end { inside = 0 }
    !inside { print }
    $0 == begin {
      inside = 1
      while ((getline line < tables) > 0) print line
    }' bench/README.md >"$new"
  chmod 644 "$new"
  mv "$new" bench/README.md
  echo "bench: wrote bench/README.md" >&2
}

# alone COMMAND...: in namespaces of its own, with a network that ends in a link whose other end has
# no addresses: what a sandbox sends leaves the host, and reaches nobody.
alone() {
  unshare --mount --pid --net --fork --kill-child --mount-proc bash -c '
    ip link set lo up
    ip link add uplink type veth peer name void
    ip link set void up
    ip address add 192.0.2.2/24 dev uplink
    ip link set uplink up
    ip neighbour add 192.0.2.1 lladdr 02:00:00:00:00:01 dev uplink
    ip route add default via 192.0.2.1
    "$@"
    exit $?' bash "$@"
}

# python_bench NAME ARGUMENT...: runs NAME.py, which measures through the tests' own daemon; its exit
# status. --write among the arguments puts its table into bench/README.md.
python_bench() {
  local name=$1 write='' status=0 tables argument
  local -a arguments=()
  shift
  for argument in "$@"; do
    case $argument in
      --write) write=1 ;;
      -h | --help) sed -n '2,/^set/s/^# \{0,1\}//p' "bench/$name" | sed '$d' && return ;;
      *) arguments+=("$argument") ;;
    esac
  done
  tools/deps build run >&2
  [ -e build/build.ninja ] || meson setup build >&2
  ninja -C build programs >&2
  tables=$(mktemp)
  alone python3 "bench/$name.py" --output "$tables" "${arguments[@]}" || status=$?
  if [ -s "$tables" ] && [ -n "$write" ]; then splice "$name" "$tables"; fi
  rm -f "$tables"
  return $status
}
