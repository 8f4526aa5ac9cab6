"""Registries on loopback, with certificates of an authority of their own: Debian's, which asks for a
password, and one that does what a test wants, good or bad."""
import base64
import crypt
import hashlib
import http.server
import json
import socket
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
    """In `top`: server.crt and server.key for 127.0.0.1, and certs/ca.crt to believe in."""

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
        (top / 'names').write_text('subjectAltName=IP:127.0.0.1\n')
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
    """Has the busybox image under every name. `odd(handler, path)` answers first, if it likes, and then
    returns true; `heard` is (path, the Authorization field) of each request."""

    def __init__(self, authority):
        self.blobs = {}
        with tarfile.open(image_archive('busybox')) as archive:
            for member in archive.getmembers():
                if member.isfile():
                    content = archive.extractfile(member).read()
                    self.blobs[digest_of(content)] = content
                    if member.name == 'index.json':
                        index = json.loads(content)
        self.manifest = self.blobs[index['manifests'][0]['digest']]
        self.layers = [layer['digest'] for layer in json.loads(self.manifest)['layers']]
        self.heard = []
        self.odd = lambda handler, path: False
        self.server = Server(('127.0.0.1', 0), Handler)
        self.server.registry = self
        self.server.socket = authority.context().wrap_socket(
            self.server.socket, server_side=True, do_handshake_on_connect=False)
        self.host = f'127.0.0.1:{self.server.server_address[1]}'
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

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
            handler.give(404)

    def close(self):
        self.server.shutdown()
        self.server.server_close()
