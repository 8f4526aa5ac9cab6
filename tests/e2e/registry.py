"""Registries on loopback, with certificates of an authority of their own: Debian's, which asks for a
password, and one that does what a test wants, good or bad."""
import base64
import crypt
import gzip
import hashlib
import http.server
import io
import itertools
import json
import select
import socket
import socketserver
import ssl
import subprocess
import sys
import tarfile
import threading
import urllib.parse

from atoll import SLOWNESS, image_archive, until

CONFIG = '''
version: 0.1
storage: {filesystem: {rootdirectory: TOP/registry}}
http: {addr: 127.0.0.1:PORT, tls: {certificate: TOP/server.crt, key: TOP/server.key}}
auth: {htpasswd: {realm: test, path: TOP/htpasswd}}
'''
USER = 'somebody'
PASSWORD = 'not-for-argv'
ELSEWHERE = 'registry.example'  # a name that only the proxy knows
MANIFEST = 'application/vnd.oci.image.manifest.v1+json'
INDEX = 'application/vnd.oci.image.index.v1+json'


def free_port():
    with socket.socket() as one:
        one.bind(('127.0.0.1', 0))
        return one.getsockname()[1]


def basic(user, password):
    return base64.b64encode(f'{user}:{password}'.encode()).decode()


def digest_of(content):
    return 'sha256:' + hashlib.sha256(content).hexdigest()


class Authority:
    """In `top`: server.crt and server.key for 127.0.0.1 and ELSEWHERE, and certs/ca.crt to believe in."""

    def __init__(self, top):
        self.top = top
        self.certificates = top / 'certs'
        self.certificates.mkdir(parents=True)
        self.ca = self.certificates / 'ca.crt'
        curve = ['-newkey', 'ec', '-pkeyopt', 'ec_paramgen_curve:P-256', '-nodes']
        self._openssl('req', '-x509', *curve, '-days', '2', '-subj', '/CN=authority',
                      '-keyout', 'ca.key', '-out', 'certs/ca.crt')
        self._openssl('req', *curve, '-subj', '/CN=registry', '-keyout', 'server.key',
                      '-out', 'server.csr')
        (top / 'names').write_text(f'subjectAltName=IP:127.0.0.1,DNS:{ELSEWHERE}\n')
        self._openssl('x509', '-req', '-in', 'server.csr', '-CA', 'certs/ca.crt', '-CAkey', 'ca.key',
                      '-CAcreateserial', '-days', '2', '-extfile', 'names', '-out', 'server.crt')

    def _openssl(self, *words):
        subprocess.run(['openssl', *words], check=True, cwd=self.top, capture_output=True)

    def context(self):
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.top / 'server.crt', self.top / 'server.key')
        return context


class DebiansRegistry:
    """docker-registry, for USER with PASSWORD; `authfile` is what one writes that logs in."""

    def __init__(self, authority, port=None):
        self.top = authority.top
        self.host = f'127.0.0.1:{port or free_port()}'
        self.authfile = self.top / 'auth.json'
        self.write_auth(PASSWORD)
        (self.top / 'htpasswd').write_text(
            f'{USER}:' + crypt.crypt(PASSWORD, crypt.mksalt(crypt.METHOD_BLOWFISH, rounds=1 << 5)))
        config = self.top / 'config.yml'
        config.write_text(CONFIG.replace('TOP', str(self.top)).replace(
            'PORT', self.host.partition(':')[2]))
        with open(self.top / 'log', 'wb') as log:
            self.process = subprocess.Popen(['docker-registry', 'serve', config], stdout=log,
                                            stderr=log)
        until(lambda: b'listening on' in (self.top / 'log').read_bytes(), 20 * SLOWNESS,
              'the registry listens')

    def write_auth(self, password):
        self.authfile.write_text(json.dumps({'auths': {self.host: {'auth': basic(USER, password)}}}))
        self.authfile.chmod(0o600)

    def close(self):
        self.process.kill()
        self.process.wait()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        self.server.registry.answer(self)

    def log_message(self, *_):
        pass

    def give(self, status, content=b'', **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace('_', '-'), value)
        self.send_header('Content-Length', str(len(content)))
        self.end_headers()
        self.wfile.write(content)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request, client_address):
        """That a client breaks off is what some tests are about."""
        if not isinstance(sys.exc_info()[1], OSError):
            super().handle_error(request, client_address)


class OddRegistry:
    """Has the busybox image under every name, with layers that nobody else has. `odd(handler, path)`
    answers first, if it likes, and then returns true; `heard` is (path, the Authorization field) of each
    request."""

    def __init__(self, authority):
        self.blobs = {}
        self.renewals = itertools.count(1)
        with tarfile.open(image_archive('busybox')) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    content = archive.extractfile(member).read()
                    self.blobs[digest_of(content)] = content
                    if member.name == 'index.json':
                        index = json.loads(content)
        self.busybox = self.blobs[index['manifests'][0]['digest']]
        self.renew()
        self.heard = []
        self.odd = lambda handler, path: False
        self.server = Server(('127.0.0.1', 0), Handler)
        self.server.registry = self
        self.server.socket = authority.context().wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f'127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def renew(self):
        """From now on it is busybox alone, with other layers."""
        manifest = json.loads(self.busybox)
        for layer in manifest['layers']:
            content = gzip.compress(gzip.decompress(self.blobs[layer['digest']]), 1,
                                    mtime=next(self.renewals))
            layer.update(self._keep(content))
        self._have(manifest)

    def stack(self, content):
        """From now on the image has one layer more, with a file of that content."""
        plain, manifest = io.BytesIO(), json.loads(self.manifest)
        with tarfile.open(fileobj=plain, mode='w') as archive:
            member = tarfile.TarInfo('stacked')
            member.size = len(content)
            archive.addfile(member, io.BytesIO(content))
        config = json.loads(self.blobs[manifest['config']['digest']])
        config['rootfs']['diff_ids'].append(digest_of(plain.getvalue()))
        manifest['config'].update(self._keep(json.dumps(config).encode()))
        manifest['layers'].append({**manifest['layers'][0],
                                   **self._keep(gzip.compress(plain.getvalue(), mtime=0))})
        self._have(manifest)

    def _keep(self, content):
        self.blobs[digest_of(content)] = content
        return {'digest': digest_of(content), 'size': len(content)}

    def _have(self, manifest):
        self.manifest = json.dumps(manifest).encode()
        self._keep(self.manifest)
        self.layers = [layer['digest'] for layer in manifest['layers']]

    def answer(self, handler):
        path = urllib.parse.urlsplit(handler.path).path
        self.heard.append((handler.path, handler.headers.get('Authorization')))
        if self.odd(handler, path):
            return
        last = path.rpartition('/')[2]
        if '/blobs/' in path and last in self.blobs:
            handler.give(200, self.blobs[last])
        elif '/manifests/' in path and last in self.blobs:
            handler.give(200, self.blobs[last], Content_Type=MANIFEST)
        elif '/manifests/' in path:
            handler.give(200, self.manifest, Content_Type=MANIFEST)
        else:
            handler.give(200 if path == '/v2/' else 404)  # skopeo asks whether it is one

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Proxy:
    """Leads whoever names a place to `port` of this host; `asked` has the places."""

    def __init__(self, port):
        proxy, self.asked = self, []

        class Tunnel(socketserver.StreamRequestHandler):
            def handle(self):
                method, place, _ = self.rfile.readline().decode().split()
                assert method == 'CONNECT'
                proxy.asked.append(place)
                while self.rfile.readline().strip():
                    pass
                with socket.create_connection(('127.0.0.1', port)) as there:
                    self.wfile.write(b'HTTP/1.1 200 here\r\n\r\n')
                    other = {self.connection: there, there: self.connection}
                    while True:
                        for ready in select.select(other, [], [])[0]:
                            data = ready.recv(65536)
                            if not data:
                                return
                            other[ready].sendall(data)

        self.server = socketserver.ThreadingTCPServer(('127.0.0.1', 0), Tunnel)
        self.server.daemon_threads = True
        self.url = f'http://127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
