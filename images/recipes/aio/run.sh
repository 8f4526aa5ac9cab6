#!/bin/sh
# A desktop with a browser, an editor, and in front of them the page on port 8080. Settings have the names
# that clients of the image know: DISPLAY_WIDTH, DISPLAY_HEIGHT, WORKSPACE, HOMEPAGE, PROXY_SERVER,
# BROWSER_EXTRA_ARGS, DISABLE_CODE_SERVER, TZ; and the passwords of desktop and vscode.
set -eu
export RESOLUTION="${DISPLAY_WIDTH}x$DISPLAY_HEIGHT"
if [ "${DISABLE_CODE_SERVER:-false}" != true ]; then
  # The editor's parts give each other up on a very busy machine.
  env -u VNC_PASSWORD sh -c 'until start-editor 8200 "$WORKSPACE"; do sleep 1; done' &
fi
start-vnc 5900
# Executed as a program, because the environment of a shell is shown as it was at its start.
exec env -u VNC_PASSWORD -u PASSWORD /opt/gem/start-others
