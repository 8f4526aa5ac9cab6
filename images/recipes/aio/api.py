"""The part of the HTTP API of this image that OpenSandbox's example calls.

Runs as the sandbox's user, who may do all of this anyway, on loopback, behind the page on port 8080.
"""
import base64
import http.server
import json
import os
import pathlib
import platform
import signal
import subprocess
import tempfile
import time
import urllib.request
import uuid

PORT = 8091
MOST_SENT = 64 << 20  # size of one request
MOST_READ = 32 << 20  # size of one file
MOST_SHOWN = 30_000  # the last characters of a command's output


class Refused(Exception):
    """An error that the client sees, like errors of the system."""


def sandbox(_):
    system = {'os': 'linux', 'os_version': platform.version(), 'arch': platform.machine(),
              'user': os.environ.get('USER', pathlib.Path.home().name), 'home_dir': str(pathlib.Path.home()),
              'workspace': os.environ['WORKSPACE'], 'timezone': time.tzname[0], 'occupied_ports': []}
    return {'home_dir': system['home_dir'], 'workspace': system['workspace'], 'version': 'atoll',
            'detail': {'system': system, 'runtime': {'python': [], 'nodejs': []}, 'utils': []}}


def sessions(_):
    # A command has ended when its answer is sent. Longer ones are commands of Atoll's own API.
    return {'data': {'sessions': {}}}


def execute(wanted):
    if wanted.get('async_mode'):
        raise Refused('async_mode: commands in the background are those of Atoll, POST /command')
    patience = min(filter(None, (wanted.get('timeout'), wanted.get('hard_timeout'))), default=None)
    # A file and not a pipe, because background processes would keep a pipe open.
    with tempfile.TemporaryFile() as said:
        with subprocess.Popen(['bash', '-c', wanted['command']], stdin=subprocess.DEVNULL, stdout=said,
                              stderr=subprocess.STDOUT, start_new_session=True,
                              cwd=wanted.get('exec_dir') or os.environ['WORKSPACE']) as process:
            try:
                process.wait(patience)
                status = 'completed'
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                status = 'hard_timeout'
        said.seek(max(0, said.tell() - MOST_SHOWN))
        output = said.read().decode(errors='replace')
    return {'data': {'session_id': wanted.get('id') or str(uuid.uuid4()), 'command': wanted['command'],
                     'status': status, 'output': output, 'exit_code': process.returncode}}


def read_file(wanted):
    with open(wanted['file'], 'rb') as file:
        data = file.read(MOST_READ + 1)
    if len(data) > MOST_READ:
        raise Refused(f'{wanted["file"]}: has more than {MOST_READ} bytes')
    lines = data.decode(errors='replace').splitlines(keepends=True)
    part = ''.join(lines[wanted.get('start_line') or 0:wanted.get('end_line')])
    return {'data': {'file': wanted['file'], 'content': part}}


def write_file(wanted):
    content = wanted['content']
    if wanted.get('encoding') == 'base64':
        data = base64.b64decode(content, validate=True)
    else:
        data = ''.join(('\n' if wanted.get('leading_newline') else '', content,
                        '\n' if wanted.get('trailing_newline') else '')).encode()
    with open(wanted['file'], 'ab' if wanted.get('append') else 'wb') as file:
        file.write(data)
    return {'data': {'file': wanted['file'], 'bytes_written': len(data)}}


def browser(headers):
    with urllib.request.urlopen('http://127.0.0.1:9222/json/version', timeout=10) as answer:
        told = json.load(answer)
    scheme = 'wss' if headers.get('X-Forwarded-Proto') == 'https' else 'ws'
    host = headers.get('X-Forwarded-Host') or headers['Host']
    path = told['webSocketDebuggerUrl'].partition('//')[2].partition('/')[2]
    return {'data': {'user_agent': told['User-Agent'], 'cdp_url': f'{scheme}://{host}/{path}',
                     'vnc_url': f'http{scheme[2:]}://{host}/vnc/index.html?autoconnect=true',
                     'viewport': {'width': int(os.environ['DISPLAY_WIDTH']),
                                  'height': int(os.environ['DISPLAY_HEIGHT'])}}}


def screenshot(_):
    return subprocess.run(['maim', '--format=png', '--hidecursor'], stdout=subprocess.PIPE, check=True,
                          timeout=30).stdout


ASKED = {'/v1/sandbox': sandbox, '/v1/shell/sessions': sessions, '/v1/browser/info': browser,
         '/v1/browser/screenshot': screenshot}  # GET, called with the request's headers
TOLD = {'/v1/shell/exec': execute, '/v1/file/read': read_file, '/v1/file/write': write_file}  # POST


class Handler(http.server.BaseHTTPRequestHandler):
    # A connection has one request, so an unread body is never taken for the next request.
    protocol_version = 'HTTP/1.0'

    def log_message(self, *_):
        pass

    def answer(self, status, body, kind='application/json'):
        self.send_response(status)
        self.send_header('Content-Type', kind)
        self.send_header('Content-Length', str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def serve(self, routes, given):
        path = self.path.partition('?')[0]
        try:
            # A page in this browser could not read the answer, but it could make the server run something.
            if self.headers.get('Origin') or self.headers.get('Sec-Fetch-Site', 'none') != 'none':
                return self.answer(403, b'{"success": false, "message": "this is for programs, not for pages"}')
            if path not in routes:
                known = f'{self.command} {path}: not here; there are {", ".join([*ASKED, *TOLD])}'
                return self.answer(404, json.dumps({'success': False, 'message': known}).encode())
            made = routes[path](given())
            if isinstance(made, bytes):
                return self.answer(200, made, 'image/png')
            answer = {'success': True, 'message': 'Operation successful', **made}
        except (Refused, OSError, subprocess.SubprocessError) as error:
            answer = {'success': False, 'message': str(error)}
        except (AttributeError, KeyError, TypeError, ValueError) as error:
            return self.answer(422, json.dumps({'success': False, 'message': f'{path}: {error!r}'}).encode())
        return self.answer(200, json.dumps(answer).encode())

    def sent(self):
        size = int(self.headers.get('Content-Length') or 0)
        if not 0 <= size <= MOST_SENT:
            raise ValueError(f'a request has at most {MOST_SENT} bytes, and says how many')
        return json.loads(self.rfile.read(size))

    def do_GET(self):  # pylint: disable=invalid-name
        self.serve(ASKED, lambda: self.headers)

    def do_POST(self):  # pylint: disable=invalid-name
        self.serve(TOLD, self.sent)


if __name__ == '__main__':
    http.server.ThreadingHTTPServer(('127.0.0.1', PORT), Handler).serve_forever()
