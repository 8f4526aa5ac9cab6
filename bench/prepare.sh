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
