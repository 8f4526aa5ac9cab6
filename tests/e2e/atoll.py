"""A daemon of a test's own, and the plainest client of its API.

    with Daemon() as daemon:
        image = daemon.import_busybox()
        box = daemon.create(image)
        daemon.run(box, 'echo hello').stdout == 'hello'

Its directories are new, its port is free, its log is printed when a test of it fails to start.
Leaving the block ends every sandbox, daemon and spawner, and removes the directories.
"""
import contextlib
import glob
import http.client
import itertools
import json
import os
import pathlib
import pty
import re
import shutil
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
sys.path.append(str(TOP / 'images/recipes'))

import build_box as boxes  # pylint: disable=wrong-import-position
import debian  # pylint: disable=wrong-import-position
import host_state  # pylint: disable=wrong-import-position
import recipe as recipes  # pylint: disable=wrong-import-position
from until import until  # pylint: disable=wrong-import-position

NUMBERS = itertools.count(1)  # of this program's daemons
BUILD = pathlib.Path(os.environ.get('ATOLL_BUILD', TOP / 'build'))
# In the guest's emulation everything takes several times as long.
SLOWNESS = 10 if 'ATOLL_GUEST' in os.environ else 1


class ApiError(AssertionError):
    """An answer with an error status; `status`, `code` and `message` as sent."""

    def __init__(self, what, status, text):
        super().__init__(f'{what}: {status} {text}')
        self.status = status
        body = json.loads(text) if text.startswith('{') else {}
        self.code, self.message = body.get('code'), body.get('message')


class Done:
    """One finished command: its output, and the exit code as the event stream tells it."""

    def __init__(self, events):
        self.events = events
        self.stdout = self._joined('stdout')
        self.stderr = self._joined('stderr')
        errors = [event['error'] for event in events if event['type'] == 'error']
        self.exit_code = int(errors[0]['evalue']) if errors else 0

    def _joined(self, kind):
        texts = [event['text'] for event in self.events if event['type'] == kind]
        return ''.join(texts).removesuffix('\n')


def image_archive(recipe):
    """The archive of a recipe (images/recipes), or of a TOML file; made once per build folder, and
    again when the recipe, one that it is made from, or a file that they name has changed."""
    path = pathlib.Path(recipe)
    # There is a recipe "desktop", and a file of that name.
    name = '-'.join(path.resolve().relative_to(TOP).with_suffix('').parts) if path.suffix else path.name
    archive = BUILD / 'archives' / f'{name}.tar'
    if not archive.exists() or archive.stat().st_mtime < _changed(recipes.load(str(recipe))):
        archive.parent.mkdir(exist_ok=True)
        # Programs that run side by side may each find that it is missing.
        with tempfile.TemporaryDirectory(dir=archive.parent) as work:
            new = pathlib.Path(work, 'image.tar')
            subprocess.run([sys.executable, '-B', TOP / 'images/recipes/build.py', recipe, new],
                           check=True, stdout=sys.stderr)
            new.rename(archive)
    return archive


def build_parts():
    """What each build of an image with Debian stands on, made where there is a network."""
    with tempfile.TemporaryDirectory() as work:
        base = debian.Base('bookworm', pathlib.Path(work))
        if not base.is_there():
            with boxes.daemon():
                base.make_tools(npm=False)
                base.make_tools(npm=True)


def _changed(recipe):
    """When what an image is made of has last changed."""
    named = [step.directory / source for step in recipe.steps for source in step.files]
    inside = [path for one in named if not one.is_symlink() for path in one.rglob('*')]
    return max(path.lstat().st_mtime for path in [*recipe.sources, *named, *inside])


def at_a_terminal(typed, *words, **options):
    """Runs the client there and types; (what the terminal shows until its end, the process). Its
    standard error is the terminal's, too, unless `options` say otherwise."""
    master, slave = pty.openpty()
    client = subprocess.Popen([BUILD / 'atoll', *words], stdin=slave, stdout=slave,
                              **{'stderr': slave, **options})
    os.close(slave)
    os.write(master, typed)
    seen = b''
    try:
        while chunk := os.read(master, 4096):
            seen += chunk
    except OSError:  # the terminal's other end is closed
        pass
    os.close(master)
    return seen, client


def groups_named(name):
    """Cgroups, of every hierarchy. Others' go meanwhile, which os.walk lets be."""
    return [pathlib.Path(folder, name) for folder, names, _ in os.walk('/sys/fs/cgroup') if name in names]


def fitting(pattern):
    """Paths that fit. A directory that goes meanwhile has none; Path.glob would raise."""
    return [pathlib.Path(path) for path in glob.glob(pattern, recursive=True)]


def children(pid):
    """Pids, or none if it has ended."""
    try:
        text = pathlib.Path(f'/proc/{pid}/task/{pid}/children').read_text(encoding='ascii')
    except OSError:
        return []
    return [int(child) for child in text.split()]


def comm(pid):
    """What a process calls itself; '' once it has ended."""
    try:
        return pathlib.Path(f'/proc/{pid}/comm').read_text(encoding='utf-8').strip()
    except OSError:
        return ''


class Daemon:
    """atolld with directories of its own; see the module's text."""

    def __init__(self, programs=BUILD, **settings):
        """`settings` become lines of the configuration: network_dns=[...] is dns in [network],
        secure_runtime__type='gvisor' is type in [secure_runtime].
        `programs`: the folder of atolld and what it starts."""
        self.programs = programs
        base = os.environ.get('TEST_TMPDIR', '/var/tmp')
        # Not mkdtemp's name: buildah makes a name of an image of the path, and such a name may not
        # hold '._' or '_/'. Short: podman takes no directory of more than 50 characters. The spawner,
        # and ids of sandboxes, must be able to pass.
        self.top = pathlib.Path(base) / f'{host_state.OWN}{next(NUMBERS)}'
        self.top.mkdir()
        self.top.chmod(0o755)
        self.data_dir, self.run_dir = self.top / 'data', self.top / 'run'
        self.log = self.top / 'atolld.log'
        self.process = None
        self.url = self.key = ''
        self.configured_key = settings.get('server_api_key')  # else one that the daemon makes
        self.config = self.top / 'atoll.toml'
        self._write_config({'server_port': 0, 'storage_data_dir': str(self.data_dir),
                            'runtime_run_dir': str(self.run_dir),
                            'audit_directory': str(self.top / 'audit'), **settings})

    def _write_config(self, settings):
        sections = {}
        for name, value in settings.items():
            section, _, key = name.partition('__' if '__' in name else '_')
            # Strings, numbers, booleans and lists are the same in JSON and TOML.
            sections.setdefault(section, []).append(f'{key} = {json.dumps(value)}\n')
        self.config.write_text(''.join(f'[{section}]\n{"".join(lines)}'
                                       for section, lines in sections.items()), encoding='utf-8')

    # ---- the process

    def start(self, *wrapper):
        """`wrapper`: a program that becomes the daemon, as prlimit does, and its arguments."""
        with open(self.log, 'ab') as log:
            self.process = subprocess.Popen([*wrapper, self.programs / 'atolld', '--config', self.config],
                                            stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        until(self._is_up, 20 * SLOWNESS, f'the daemon answers; log: {self.log}')
        return self

    def _is_up(self):
        if self.process.poll() is not None:
            logs = [path.read_text(encoding='utf-8')
                    for path in (self.log, self.run_dir / 'spawner.log') if path.exists()]
            raise AssertionError('\n'.join([f'atolld ended with {self.process.returncode}:',
                                            *logs]))
        try:
            told = json.loads((self.run_dir / 'daemon.json').read_text(encoding='utf-8'))
        except (OSError, ValueError):
            return False
        if told['pid'] != self.process.pid:
            return False  # of the one before
        self.url = told['url']
        # At once: other threads may be using it.
        self.key = self.configured_key or (
            pathlib.Path(told['key_file']).read_text(encoding='utf-8').strip()
            if 'key_file' in told else '')
        try:
            return self.request('GET', '/health')['status'] in ('healthy', 'degraded')
        except OSError:
            return False

    def kill(self):
        """What no process can prepare for."""
        self.process.send_signal(signal.SIGKILL)
        self.process.wait()

    def stop(self):
        """A clean end of the daemon; sandboxes and the spawner live on."""
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait(20 * SLOWNESS) != 0:
            raise AssertionError(f'atolld ended with {self.process.returncode} after SIGTERM')

    def instance(self):
        """The number that cgroups and links of this run directory carry."""
        for path in pathlib.Path('/run/atoll-instances').iterdir():
            if str(self.run_dir) in path.read_text(encoding='utf-8'):
                return path.name
        raise AssertionError('no instance of this run directory')

    def healthy(self):
        return self.request('GET', '/health') == {'status': 'healthy'}

    def metric(self, name):
        text = self.send('GET', '/v1/metrics').read().decode()
        return int(re.search('^' + re.escape('atoll_' + name) + r' (\d+)$', text, re.M)[1])

    def kill_spawner(self):
        """Returns when there is another."""
        pid = self.spawner_pid()
        os.kill(pid, signal.SIGKILL)
        self.another_spawner(pid)

    def another_spawner(self, than):
        until(lambda: self.spawner_pid() not in (None, than), 20 * SLOWNESS, 'another spawner')

    def spawner_pid(self):
        """The spawner of this run directory, or None."""
        for name in os.listdir('/proc'):
            if name.isdigit():
                process = pathlib.Path('/proc', name)
                try:
                    # Its janitor and its slot builders have the same command line.
                    of_run_dir = (os.fsencode(self.run_dir) in
                                  (process / 'cmdline').read_bytes().split(b'\0'))
                    parent = (process / 'stat').read_text(encoding='utf-8').rpartition(')')[2]
                except OSError:
                    continue
                if (of_run_dir and comm(name) == 'atoll-spawner'
                        and comm(parent.split()[1]) != 'atoll-spawner'):
                    return int(name)
        return None

    def upgrade_spawner(self):
        """Returns when it executes its program anew."""
        log = self.run_dir / 'spawner.log'
        executed = lambda: log.read_bytes().count(b'executing the new program')
        before = executed()
        os.kill(self.spawner_pid(), signal.SIGHUP)
        until(lambda: executed() > before, 20 * SLOWNESS, 'the spawner executes the new program')

    def shutdown(self):
        """Ends everything, as a user would."""
        subprocess.run([BUILD / 'atoll', 'shutdown', '--all'], check=True, env=self.client_env(),
                       stdout=subprocess.DEVNULL, timeout=60 * SLOWNESS)
        self.process.wait(20 * SLOWNESS)
        until(lambda: self.spawner_pid() is None, 20 * SLOWNESS, 'the spawner has ended')

    def __enter__(self):
        try:
            return self.start()
        except BaseException:
            self.__exit__()
            raise

    def __exit__(self, *_):
        try:
            if self.process and self.process.poll() is None:
                self.shutdown()
            elif self.spawner_pid():
                self.start().shutdown()
        finally:
            if self.process and self.process.poll() is None:
                self.kill()
            shutil.rmtree(self.top)

    # ---- the API

    def client_env(self):
        return {**os.environ, 'ATOLL_SERVER': self.url, 'ATOLL_API_KEY': self.key}

    def example_env(self, image):
        """What programs of tools/examples read: an SDK's settings, and nothing else of ours."""
        return {'SANDBOX_DOMAIN': urllib.parse.urlsplit(self.url).netloc, 'SANDBOX_API_KEY': self.key,
                'SANDBOX_IMAGE': image, 'PATH': '/usr/bin:/bin', 'HOME': str(self.top)}

    def waiting(self):
        """The ids of sandboxes that a pool or a template keeps: each has a socket."""
        return {path.stem for path in (self.run_dir / 'sandboxes').glob('*-*-*-*-*.sock')}

    def connection(self):
        # The first answer of a machine waits for its boot, which may take so long under emulation.
        return http.client.HTTPConnection(urllib.parse.urlsplit(self.url).netloc,
                                          timeout=120 * SLOWNESS)

    def send(self, method, path, body=None, headers=None, connection=None):
        """One request; the response, body unread. The key goes with it unless `headers` has one."""
        headers = {'OPEN-SANDBOX-API-KEY': self.key, **(headers or {})}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
            headers['Content-Type'] = 'application/json'
        connection = connection or self.connection()
        connection.request(method, path, body, headers)
        return connection.getresponse()

    def request(self, method, path, body=None, headers=None):
        """The decoded answer of a request that must succeed; ApiError otherwise."""
        response = self.send(method, path, body, headers)
        text = response.read().decode()
        if response.status >= 400:
            raise ApiError(f'{method} {path}', response.status, text)
        return json.loads(text) if text else None

    def import_image(self, archive, name):
        with open(archive, 'rb') as file:
            return self.request('POST', f'/v1/images?name={name}', file)

    def import_busybox(self):
        self.import_image(image_archive('busybox'), 'busybox:latest')
        return 'busybox:latest'

    def create(self, image, **fields):
        """Creates a sandbox that idles until deleted; its id."""
        body = {'image': {'uri': image}, 'entrypoint': ['sleep', '100000'], 'resourceLimits': {},
                **fields}
        return self.request('POST', '/v1/sandboxes', body)['id']

    def delete(self, sandbox):
        self.request('DELETE', f'/v1/sandboxes/{sandbox}')

    def execd_headers(self, sandbox):
        path = f'/v1/sandboxes/{sandbox}/endpoints/44772?use_server_proxy=true'
        return self.request('GET', path).get('headers') or {}

    def execd_secret(self, sandbox):
        """What its execd asks for. Clients never see it: the daemon tells them a token that ends with
        the API key, and puts this in its place."""
        # The daemon has its store for itself.
        with tempfile.TemporaryDirectory(dir=self.top) as copy:
            for file in self.data_dir.glob('state/atoll.db*'):
                shutil.copy(file, copy)
            with contextlib.closing(sqlite3.connect(pathlib.Path(copy, 'atoll.db'))) as store:
                (record,), = store.execute('SELECT record FROM sandboxes WHERE id = ?', (sandbox,))
        return json.loads(record)['token']

    def run(self, sandbox, command, **fields):
        """Runs a shell command to its end."""
        path = f'/sandboxes/{sandbox}/proxy/44772/command'
        response = self.send('POST', path, {'command': command, **fields},
                             self.execd_headers(sandbox))
        text = response.read().decode()
        if response.status >= 400:
            raise ApiError(f'POST {path}', response.status, text)
        return Done([json.loads(line) for line in text.splitlines() if line])


def settled(measure, rest=0.5 * SLOWNESS, seconds=10 * SLOWNESS):
    """The value of `measure()` once it has not changed for `rest` seconds: pools refill, with
    pauses, after the answer."""
    last, since = measure(), time.monotonic()

    def rests():
        nonlocal last, since
        value = measure()
        if value != last:
            last, since = value, time.monotonic()
        return time.monotonic() - since >= rest

    until(rests, seconds, 'a stable value')
    return last


if __name__ == '__main__':
    for wanted in sys.argv[1:]:
        image_archive(wanted)
    build_parts()
