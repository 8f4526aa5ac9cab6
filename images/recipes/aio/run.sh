#!/bin/sh
# A desktop with a browser on it, an editor, and in front of them the page of port 8080. Settings have the
# names that clients of the image know: DISPLAY_WIDTH, DISPLAY_HEIGHT, WORKSPACE, HOMEPAGE, PROXY_SERVER,
# BROWSER_EXTRA_ARGS, DISABLE_CODE_SERVER, TZ; and the passwords those of desktop and vscode.
set -eu
export RESOLUTION="${DISPLAY_WIDTH}x$DISPLAY_HEIGHT"
if [ "${DISABLE_CODE_SERVER:-false}" != true ]; then
  # On a machine that is very busy its parts give each other up.
  env -u VNC_PASSWORD sh -c 'until start-editor 8200 "$WORKSPACE"; do sleep 1; done' &
fi
start-vnc 5900
# A program of its own: the environment of a shell is told as it began.
exec env -u VNC_PASSWORD -u PASSWORD /opt/gem/start-others
