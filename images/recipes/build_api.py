"""The part of the daemon's API that a Dockerfile build needs: sandboxes that run one step each, their files,
snapshots."""
import base64
import http.client
import io
import json
import os
import select
import ssl
import sys
import tarfile
import tempfile
import urllib.parse

import settings

_CHUNK = 1 << 18
MAX_ANSWER = 64 << 20
_LOOK_SECONDS = 0.02


class ApiError(Exception):
    """An error of the server, with its status and message."""

    def __init__(self, status, text):
        super().__init__(text)
        self.status = status


def quote(text):
    return urllib.parse.quote(text, safe='')


def _literal(path):
    """For upstream's routes, where $NAME is a variable."""
    return quote(path.replace('$', '$$'))


class Api:
    """One connection. It is opened again if it broke before anything was sent on it."""

    def __init__(self, url, key, cacert):
        self._url, self._key = urllib.parse.urlsplit(url), key
        self._context = ssl.create_default_context(cafile=cacert or None) if self._url.scheme == 'https' else None
        self._connection = None

    def _fresh(self):
        if self._connection is None:
            of = self._url.netloc
            self._connection = (http.client.HTTPSConnection(of, timeout=settings.SECONDS, context=self._context)
                                if self._context else http.client.HTTPConnection(of, timeout=settings.SECONDS))
        return self._connection

    def open(self, method, target, body=None, headers=None):
        """Returns the unread answer if its status is 2xx."""
        headers = {'OPEN-SANDBOX-API-KEY': self._key, **(headers or {})} if self._key else dict(headers or {})
        if isinstance(body, dict):
            body, headers['Content-Type'] = json.dumps(body), 'application/json'
        for again in (True, False):
            try:
                connection = self._fresh()
                connection.request(method, '/v1' + target, body, headers)
                answer = connection.getresponse()
                break
            except (http.client.RemoteDisconnected, BrokenPipeError, ConnectionResetError) as error:
                self._connection = None
                if not again or method != 'GET':
                    raise ApiError(0, f'the daemon does not answer: {error}') from error
            except OSError as error:
                raise ApiError(0, f'nobody answers at {self._url.geturl()}: {error}') from error
        if answer.status // 100 != 2:
            text = answer.read(MAX_ANSWER).decode('utf-8', 'replace')
            with_code = _object(text)
            raise ApiError(answer.status, with_code.get('message') or text[:500] or f'status {answer.status}')
        return answer

    def send(self, method, target, body=None, headers=None):
        """Returns the object in the answer, {} if it has no body."""
        data = self.open(method, target, body, headers).read(MAX_ANSWER)
        return _object(data.decode('utf-8', 'replace')) if data else {}


def _object(text):
    try:
        value = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


class Box:
    """A sandbox of an image or a snapshot that exists during the `with` block."""

    def __init__(self, api, parent, network):
        self._api, self._parent, self._network = api, parent, network
        self._base = self._token = ''
        self._passwd = None

    def __enter__(self):
        kind, name = self._parent
        body = {'resourceLimits': settings.limits(), 'timeout': settings.SECONDS, 'extensions': {'entrypoint': 'none'},
                'metadata': {'atoll.build': 'step'}}
        body |= {'image': {'uri': name}} if kind == 'image' else {'snapshotId': name}
        if not self._network:
            body['networkPolicy'] = {'defaultAction': 'deny', 'egress': []}
        made = self._api.send('POST', '/sandboxes', body)
        self.id = made['id']
        try:
            while made['status']['state'] == 'Pending':
                _look_again()
                made = self._api.send('GET', f'/sandboxes/{self.id}')
            if made['status']['state'] != 'Running':
                raise ApiError(0, made['status'].get('message', 'the sandbox of the step cannot run'))
            way = self._api.send('GET', f'/sandboxes/{self.id}/endpoints/44772?use_server_proxy=true')
            self._headers = way.get('headers', {})
            self._base = f'/sandboxes/{self.id}/proxy/44772'
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_):
        try:
            self._api.send('DELETE', f'/sandboxes/{self.id}')
        except ApiError as error:
            print(f'the sandbox {self.id} of the build is left: {error}', file=sys.stderr)

    def _ask(self, method, path, body=None, headers=None):
        return self._api.open(method, self._base + path, body, {**self._headers, **(headers or {})})

    # ---- programs

    def run(self, argv, env, cwd, ids):
        """Returns the exit code, or a text with what ended the program. Its output goes to standard error."""
        answer = self._ask('POST', '/command?encoding=base64',
                           {'argv': argv, 'envs': env, 'cwd': cwd, 'uid': ids[0], 'gid': ids[1]})
        outcome = 'the sandbox went away'
        while line := answer.readline(MAX_ANSWER):
            event = _object(line.decode('utf-8', 'replace'))
            if event.get('type') in ('stdout', 'stderr'):
                sys.stderr.buffer.write(base64.b64decode(event.get('base64', '')))
                sys.stderr.buffer.flush()
            elif event.get('type') == 'execution_complete':
                outcome = 0
            elif event.get('type') == 'error':
                error = event.get('error', {})
                outcome = ' '.join(map(str, error.get('traceback', []))) or str(error.get('evalue'))
        return outcome

    def trust(self):
        """Puts the operator's certificates into memory. Returns the variables that point to them."""
        data = settings.certificates()
        with tempfile.TemporaryFile() as file:
            with tarfile.open(fileobj=file, mode='w', format=tarfile.PAX_FORMAT) as tar:
                member = tarfile.TarInfo(os.path.basename(settings.CERTIFICATES))
                member.size, member.mode = len(data), 0o644
                tar.addfile(member, io.BytesIO(data))
            self.unpack(file, os.path.dirname(settings.CERTIFICATES))
        return settings.environment()

    # ---- files

    def unpack(self, tar, directory):
        """Extracts a tar, including owners, into a directory, which is created if it is missing."""
        size = tar.seek(0, os.SEEK_END)
        tar.seek(0)
        self._ask('POST', f'/directories/tar?owners=true&path={quote(directory)}', tar,
                  {'Content-Type': 'application/x-tar', 'Content-Length': str(size)}).read(MAX_ANSWER)

    def pack(self, directory):
        """Returns the content of a directory as such a tar."""
        return self._save(self._ask('GET', f'/directories/tar?owners=true&path={quote(directory)}'))

    def read(self, path):
        return self._save(self._ask('GET', f'/v1/filesystem/0/0/files/download?path={_literal(path)}'))

    @staticmethod
    def _save(answer):
        file = tempfile.TemporaryFile()
        while data := answer.read(_CHUNK):
            file.write(data)
        file.seek(0)
        return file

    def info(self, path):
        """Returns {type, owner, group, mode, …} of the entry itself, None if it does not exist."""
        try:
            told = json.loads(self._ask('GET', f'/v1/filesystem/0/0/files/info?path={_literal(path)}').read(MAX_ANSWER))
        except ApiError as error:
            if error.status == 404:
                return None
            raise
        return next(iter(told.values()), None)

    def names(self, directory):
        """Returns None if the path is not a directory."""
        try:
            told = json.loads(self._ask('GET', f'/v1/filesystem/0/0/directories/list?path={_literal(directory)}')
                              .read(MAX_ANSWER))
        except ApiError as error:
            if error.status in (400, 404, 500):
                return None
            raise
        return sorted(os.path.basename(entry['path']) for entry in told)

    # ---- accounts

    def _accounts(self, file):
        try:
            text = self.read(file).read(1 << 20).decode('utf-8', 'replace')
        except ApiError as error:
            if error.status == 404:
                return []
            raise
        return [line.split(':') for line in text.splitlines()]

    def account(self, said):
        """Returns (uid, gid, home) of USER[:GROUP], given as names or numbers. LookupError: no such name."""
        user, _, group = said.partition(':')
        uid, gid, home = (int(user), 0, '/') if user.isdigit() else (None, 0, '/')
        for fields in self._accounts('/etc/passwd'):
            if len(fields) > 5 and fields[2].isdigit() and fields[3].isdigit() and (
                    fields[0] == user or (user.isdigit() and fields[2] == user)):
                uid, gid, home = int(fields[2]), int(fields[3]), fields[5] or '/'
                break
        if user in ('', 'root', '0') and home == '/':
            uid, gid, home = 0, gid, '/root'
        if uid is None:
            raise LookupError(f"the image has no user '{user}'")
        if group.isdigit():
            gid = int(group)
        elif group:
            found = [int(fields[2]) for fields in self._accounts('/etc/group')
                     if len(fields) > 2 and fields[0] == group and fields[2].isdigit()]
            if not found:
                raise LookupError(f"the image has no group '{group}'")
            gid = found[0]
        if not 0 <= uid < 65536 or not 0 <= gid < 65536:
            raise LookupError(f"'{said}': ids are below 65536 here")
        return uid, gid, home

    # ---- snapshots

    def snapshot(self, name):
        """Takes a snapshot and returns its id when it is ready."""
        made = self._api.send('POST', f'/sandboxes/{self.id}/snapshots', {'name': name})
        while made['status']['state'] == 'Creating':
            _look_again()
            made = self._api.send('GET', f'/snapshots/{made["id"]}')
        if made['status']['state'] != 'Ready':
            raise ApiError(0, made['status'].get('message', 'no snapshot'))
        return made['id']


def _look_again():
    select.select([], [], [], _LOOK_SECONDS)
