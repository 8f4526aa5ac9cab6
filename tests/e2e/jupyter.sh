#!/bin/sh
# Kernels are registered while the sandbox runs already; with HOLD, not before that file is there.
[ -z "$HOLD" ] || until [ -e "$HOLD" ]; do sleep 0.05; done
python3 -m ipykernel install --name python --prefix /usr/local &
exec python3 -m jupyter_server --ip=127.0.0.1 --port="$JUPYTER_PORT" --allow-root --no-browser \
  --IdentityProvider.token="$JUPYTER_TOKEN" --ServerApp.root_dir=/
