"""An image for tests of the exec API, and one sandbox of it as its clients see it.

Everything goes through the daemon: its proxy, the sandbox's token, the real execd, a real image.
"""
import json
import os
import pathlib
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.parse

import atoll

sys.path.insert(0, str(atoll.TOP / 'tests/e2e/execd'))

# pylint: disable=wrong-import-position
from files_test import multipart
from harness import Answer, parse_events
from websocket_client import Socket

PASSWD = """root:x:0:0:root:/root:/bin/sh
dev:x:1000:1000::/home/dev:/bin/bash
other:x:1001:1001::/home/other:/bin/sh
nobody:x:65534:65534:nobody:/nonexistent:/bin/false
"""
GROUP = """root:x:0:
audio:x:29:dev
video:x:44:dev,other
dev:x:1000:
other:x:1001:
nogroup:x:65534:
"""
# Answers with what it was asked, as CGI of busybox's httpd.
CGI = r"""#!/bin/sh
case $QUERY_STRING in
  stream) printf 'Content-Type: text/plain\r\n\r\nfirst\n'; read -r line </tmp/go; echo "$line"; exit ;;
esac
printf 'Content-Type: text/plain\r\n\r\n'
echo "$REQUEST_METHOD $REQUEST_URI"
env | sort
echo "body $(wc -c)"
"""
# One WebSocket handshake (the answer to RFC 6455's own example key), then an echo of bytes. The
# body of a request without Upgrade is not read.
NC = r"""#!/bin/sh
cr=$(printf '\r') head=
while IFS= read -r line; do
  [ "$line" = "$cr" ] && break
  head="$head$line
"
done
case $head in
  *[Uu]pgrade:*) printf 'HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n'
    printf 'Sec-WebSocket-Accept: s3pPLMBiTxaQ9kYGzzhZRbK+xOo=\r\n\r\n'; exec cat ;;
  *) printf 'HTTP/1.1 200 OK\r\nConnection: close\r\n\r\n%s' "$head" ;;
esac
"""


def shared_libraries(program):
    listed = subprocess.run(['ldd', program], check=True, stdout=subprocess.PIPE, text=True).stdout
    return [word for word in listed.split() if word.startswith('/')]


def pack(root, name, out, *options):
    subprocess.run([sys.executable, atoll.TOP / 'images/recipes/oci_archive.py', '--output', out,
                    '--name', name, *options, root], check=True)


def shell_image(daemon, name='exec:latest', user='', cwd='', bash=True, env=(), programs=(),
                host_programs=()):
    """busybox, with bash, users, servers, the attack probe and `programs` of the build folder in
    /bin, and such of the host with their libraries; imported, its name."""
    with tempfile.TemporaryDirectory(dir=daemon.top) as work:
        root = pathlib.Path(work, 'root')
        for directory in ('bin', 'etc', 'dev', 'proc', 'sys', 'tmp', 'root', 'usr/bin', 'home/dev',
                          'home/other', 'opt', 'srv/cgi-bin', 'run'):
            (root / directory).mkdir(parents=True)
        (root / 'tmp').chmod(0o1777)
        shutil.copy('/bin/busybox', root / 'bin/busybox')
        applets = subprocess.run(['/bin/busybox', '--list'], check=True, stdout=subprocess.PIPE,
                                 text=True).stdout.split()
        for applet in applets:
            if applet != 'busybox':
                (root / 'bin' / applet).symlink_to('busybox')
        for program in [*(['/bin/bash'] if bash else []), *host_programs]:
            for file in [program, *shared_libraries(program)]:
                target = root / file.lstrip('/')
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(os.path.realpath(file), target)
        shutil.copy(atoll.BUILD / 'tests/support/attack-probe', root / 'bin/attack')
        for program in programs:
            shutil.copy(atoll.BUILD / program, root / 'bin')
        for file, text in (('etc/passwd', PASSWD), ('etc/group', GROUP),
                           ('srv/cgi-bin/show', CGI), ('srv/ws', NC)):
            (root / file).write_text(text, encoding='utf-8')
            (root / file).chmod(0o755)
        options = [item for pair in env for item in ('--env', pair)]
        if user:
            options += ['--user', user]
        if cwd:
            options += ['--workdir', cwd]
        archive = pathlib.Path(work, 'image.tar')
        pack(root, name, archive, *options)
        daemon.import_image(archive, name)
    return name


def static_image(daemon, program, name='scratch:latest'):
    """One static program and nothing else: no shell, no /etc, no /tmp."""
    with tempfile.TemporaryDirectory(dir=daemon.top) as work:
        root = pathlib.Path(work, 'root')
        root.mkdir()
        shutil.copy(program, root)
        archive = pathlib.Path(work, 'image.tar')
        pack(root, name, archive)
        daemon.import_image(archive, name)
    return name


class Box:
    """One sandbox and its exec API; `fields` as for Daemon.create."""

    def __init__(self, daemon, image, **fields):
        self._is(daemon, daemon.create(image, **fields))

    @classmethod
    def of(cls, daemon, sandbox):
        """One that is there already."""
        box = cls.__new__(cls)
        box._is(daemon, sandbox)
        return box

    def _is(self, daemon, sandbox):
        self.daemon = daemon
        self.id = sandbox
        self.headers = daemon.execd_headers(self.id)
        self.base = f'/sandboxes/{self.id}/proxy/44772'
        self.cgroup = None

    def call(self, method, path, body=None, headers=None, connection=None):
        own = connection or self.daemon.connection()
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        own.request(method, self.base + path, body, {**self.headers, **(headers or {})})
        answer = Answer(own.getresponse())
        if not connection:
            own.close()
        return answer

    def open(self, method, path, body=None):
        """The response, unread."""
        connection = self.daemon.connection()
        connection.request(method, self.base + path, json.dumps(body) if body else None,
                           self.headers)
        return connection.getresponse()

    def events(self, path, body):
        answer = self.call('POST', path, body)
        assert answer.status == 200, (answer.status, answer.body)
        return parse_events(answer.body)

    def run(self, command, **members):
        """stdout, stderr as lists of texts, and the terminal event."""
        events = self.events('/command', {'command': command, **members})
        pick = lambda kind: [e.get('text', '') for e in events if e['type'] == kind]
        return pick('stdout'), pick('stderr'), events[-1]

    def out(self, command, **members):
        stdout, stderr, last = self.run(command, **members)
        assert last['type'] == 'execution_complete', (last, stderr)
        return ''.join(stdout).removesuffix('\n')

    def background(self, command, **members):
        return self.events('/command', {'command': command, 'background': True,
                                        **members})[0]['text']

    def status(self, command):
        return self.call('GET', f'/command/status/{command}').json

    def get(self, route, /, **query):
        return self.call('GET', route + '?' + urllib.parse.urlencode(query, doseq=True))

    def delete(self, route, /, **query):
        return self.call('DELETE', route + '?' + urllib.parse.urlencode(query, doseq=True))

    def upload(self, *pairs, **options):
        return self.call('POST', '/files/upload', multipart(pairs, **options),
                         {'Content-Type': 'multipart/form-data; boundary=XbX'})

    def raw(self):
        """A connection for the WebSocket client."""
        address = urllib.parse.urlsplit(self.daemon.url)
        return socket.create_connection((address.hostname, address.port), 60 * atoll.SLOWNESS)

    def websocket(self, path):
        return Socket(self, self.base + path, self.headers)

    def port(self, port):
        return f'/sandboxes/{self.id}/proxy/{port}'

    def state(self):
        return self.daemon.request('GET', f'/v1/sandboxes/{self.id}')['status']

    def group(self):
        """Its cgroup of the v2 hierarchy, "/atoll0/s1", as the host sees it."""
        if self.cgroup is None:
            word = f'{os.getpid()}.{id(self)}'
            command = self.background(f'sleep {word}')
            found = lambda: [pid for pid in filter(str.isdigit, os.listdir('/proc'))
                             if _read(f'/proc/{pid}/cmdline') == f'sleep\0{word}\0']
            pid = atoll.until(found, 30 * atoll.SLOWNESS, f'sleep {word} runs')[0]
            self.cgroup = _group(pid).rpartition('/run/')[0]
            self.call('DELETE', f'/command?id={command}')
        return self.cgroup

    def pids(self):
        """Host pid → name of everything inside; execd is process 1."""
        group = self.group() + '/'
        return {int(pid): _read(f'/proc/{pid}/comm').strip()
                for pid in filter(str.isdigit, os.listdir('/proc'))
                if _group(pid).startswith(group)}

    def processes(self):
        """Names of everything inside but execd."""
        return sorted(name for name in self.pids().values() if name != 'execd')

    def memory_kib(self):
        """execd's own: the pages of its program belong to all sandboxes together."""
        lines = _read(f'/proc/{self.host_pid()}/smaps_rollup').splitlines()
        return int([line for line in lines if line.startswith('Anonymous:')][0].split()[1])

    def host_pid(self):
        """Of process 1."""
        return [pid for pid, name in self.pids().items() if name == 'execd'][0]


def _read(path):
    try:
        with open(path, encoding='utf-8') as file:
            return file.read()
    except OSError:  # it has ended meanwhile
        return ''


def _group(pid):
    return _read(f'/proc/{pid}/cgroup').rpartition('0::')[2].strip()
