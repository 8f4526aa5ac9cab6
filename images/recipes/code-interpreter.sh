#!/bin/sh
# The entrypoint: checks the requested versions, and answers on the port of the Jupyter server that clients
# wait for, also beside another program. Atoll itself finds the kernels and manages contexts.

# LANGUAGE REQUESTED COMMAND…: warns if the command prints another version, which is the image's only one.
wanted() {
  language=$1 asked=$2
  [ -n "$asked" ] || return 0
  shift 2
  has=$("$@")
  case $asked in
    "$has" | "$has".*) ;;
    *) echo "code-interpreter: $language $asked was asked for; this image has $has only" >&2 ;;
  esac
}
wanted Python "${PYTHON_VERSION:-}" python3 -c 'import sys; print("%d.%d" % sys.version_info[:2])'
wanted Java "${JAVA_VERSION:-}" sh -c 'readlink -f "$JAVA_HOME" | cut -d- -f2'
wanted Node "${NODE_VERSION:-}" node -p 'process.versions.node.split(".")[0]'
wanted Go "${GO_VERSION:-}" sh -c 'go env GOVERSION | sed "s/^go\([0-9]*\.[0-9]*\).*/\1/"'
notebook_port() {
  exec python3 -IS /opt/code-interpreter/notebook_port.py
}
[ $# != 0 ] || notebook_port
notebook_port &
exec "$@"
