"""A sandbox that runs untrusted code while an image is made."""
import contextlib
import json
import os
import pathlib
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import oci_archive
import settings
from programs import HERE, run

_START_SECONDS = 60
_VARIABLES = ('ATOLL_SERVER', 'ATOLL_API_KEY', 'ATOLL_API_KEY_FILE', 'ATOLL_CACERT', 'ATOLL_RUN_DIR')


def _programs():
    """The folder of atoll and atolld: beside the recipes, or where they are installed."""
    for place in (HERE.parent.parent / 'build', HERE.parent.parent.parent / 'bin'):
        if (place / 'atoll').is_file():
            return place
    found = shutil.which('atoll')
    if not found:
        sys.exit(f'there is no program atoll beside {HERE}: build it, or install it with the recipes')
    return pathlib.Path(found).parent


class Box:
    """Exists during the `with` block."""
    _client = None  # path of the client program
    _server = {}    # environment that selects the daemon

    def __init__(self, image, network):
        self._words = [image, 'sleep', 'infinity']
        self._network = [] if network else ['--network', 'none']
        self._env = {}

    def __enter__(self):
        limits = settings.limits()
        self._id = self.client('run', '-d', '--cpus', limits['cpu'], '--memory', limits['memory'], '--pids', limits['pids'],
                               '--timeout', str(settings.SECONDS), *self._network, *self._words,
                               stdout=subprocess.PIPE).decode().strip()
        return self

    def __exit__(self, *_):
        self.client('rm', '-f', self._id, stdout=subprocess.DEVNULL)

    @classmethod
    def client(cls, *words, env=None, **options):
        return run(cls._client, *words, env={**os.environ, **cls._server, **(env or {})}, **options)

    @classmethod
    def images(cls):
        """Returns the names of the daemon's images."""
        told = json.loads(cls.client('--json', 'image', 'ls', stdout=subprocess.PIPE))
        return [image['name'] for image in told['items']]

    def run(self, script, *words, env=None):
        """Runs a shell script as the sandbox's root."""
        env = {**self._env, **(env or {})}
        # Passed in the environment, because a proxy's address may hold a password, and everybody can see
        # arguments.
        names = [word for name in env for word in ('-e', name)]
        self.client('exec', '-u', '0:0', '-w', '/', *names, self._id, 'sh', '-c', script, 'sh', *words, env=env)

    def copy_in(self, source, place):
        self.client('cp', source, f'{self._id}:{place}')

    def copy_out(self, place, target):
        self.client('cp', f'{self._id}:{place}', target)

    def trust(self):
        """Allows later commands to use the network, with the operator's settings and certificates."""
        with tempfile.NamedTemporaryFile(prefix='atoll-certificates.') as file:
            file.write(settings.certificates())
            file.flush()
            self.copy_in(file.name, settings.CERTIFICATES)
        self._env = settings.environment()

    def diff(self, target):
        """Returns what was written, as a layer."""
        self.client('diff', '-o', target, self._id)


def import_image(name, layers):
    """Makes an image archive of directories and tars, lowest first, as the client's user."""
    with tempfile.TemporaryDirectory(prefix='atoll-import.') as work:
        archive = pathlib.Path(work, 'image.tar')
        with oci_archive.Archive(archive, compress=False) as written:
            for place, layer in enumerate(layers):
                written.add_layer(layer, place)
            written.finish(name, {'Cmd': ['sh']}, quiet=True)
        Box.client('image', 'import', archive, '--name', name)


@contextlib.contextmanager
def image_of(layers):
    """Imports the layers as an image for the duration of the block, and gives its name."""
    name = f'atoll/build:{os.getpid()}-{secrets.token_hex(4)}'
    import_image(name, layers)
    try:
        yield name
    finally:
        Box.client('image', 'rm', '--force', name)


@contextlib.contextmanager
def daemon():
    """Makes boxes with the daemon that the client finds, or else with a daemon of the build's own."""
    Box._client = str(_programs() / 'atoll')
    # Only this process knows the key, not the programs that a build starts.
    Box._server = {name: os.environ.pop(name) for name in list(os.environ) if name in _VARIABLES}
    known = subprocess.run([Box._client, 'image', 'ls', '-q'], env={**os.environ, **Box._server}, check=False,
                           stdin=subprocess.DEVNULL, capture_output=True, text=True)
    if known.returncode == 0:
        yield
        return
    if 'ATOLL_SERVER' in Box._server or os.geteuid() != 0:
        sys.exit(known.stderr.strip() + '\nAn image with Debian in it is made in sandboxes: start atolld, or run this '
                 'as root, for which a daemon is started that ends with the build')
    with tempfile.TemporaryDirectory(prefix='atoll-build.', dir=os.environ.get('TMPDIR', '/var/tmp')) as top, \
            _own_daemon(pathlib.Path(top)) as server:
        Box._server = server
        yield


@contextlib.contextmanager
def _own_daemon(top):
    """Starts a daemon with directories and a port of its own."""
    top.chmod(0o755)
    (top / 'atoll.toml').write_text(
        f'[server]\nport = 0\n[storage]\ndata_dir = "{top}/data"\n[runtime]\nrun_dir = "{top}/run"\n'
        'user = "daemon"\n', encoding='utf-8')
    log = top / 'log'
    with open(log, 'wb') as out, \
            subprocess.Popen([_programs() / 'atolld', '--config', top / 'atoll.toml'], stdin=subprocess.DEVNULL,
                             stdout=out, stderr=out, process_group=0) as process:
        server = {'ATOLL_RUN_DIR': f'{top}/run'}
        try:
            end = time.monotonic() + _START_SECONDS
            while subprocess.run([Box._client, 'image', 'ls', '-q'], env={**os.environ, **server}, check=False,
                                 stdin=subprocess.DEVNULL, capture_output=True).returncode != 0:
                if process.poll() is not None or time.monotonic() > end:
                    sys.exit('the daemon of the build does not start:\n' + log.read_text(encoding='utf-8'))
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(0.05)
            yield server
        finally:
            subprocess.run([Box._client, 'shutdown', '--all'], env={**os.environ, **server}, check=False,
                           stdin=subprocess.DEVNULL, capture_output=True)
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(_START_SECONDS)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
