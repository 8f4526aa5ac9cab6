#!/bin/sh
exec /opt/code-interpreter/code-interpreter.sh "$@"
