"""A Jupyter kernel that does what its code says, and what no kernel should: fake_kernel.py FILE HOW"""
import hashlib
import hmac
import json
import os
import signal
import socket
import sys
import threading

HOW = sys.argv[2]
with open(sys.argv[1], encoding='utf-8') as file:
    INFO = json.load(file)
KEY = INFO['key'].encode()
DELIMITER = b'<IDS|MSG>'


def frame(body, flags=0):
    if len(body) < 256:
        return bytes([flags, len(body)]) + body
    return bytes([flags | 2]) + len(body).to_bytes(8, 'big') + body


def message(*frames):
    return b''.join(frame(f, 1 if i < len(frames) - 1 else 0) for i, f in enumerate(frames))


def jupyter(kind, parent, content, key=KEY):
    parts = [json.dumps(part).encode() if not isinstance(part, bytes) else part
             for part in ({'msg_id': 'k', 'msg_type': kind, 'session': 'kernel'}, parent, {}, content)]
    sign = hmac.new(key, b''.join(parts), hashlib.sha256).hexdigest().encode()
    return message(b'topic', DELIMITER, sign, *parts)


class Peer:
    """One connection, greeted."""

    def __init__(self, port, kind):
        if INFO['transport'] == 'ipc':
            self.listener = socket.socket(socket.AF_UNIX)
            # Jupyter's own kernels write "-", some others what they write for TCP.
            self.listener.bind(f'{INFO["ip"]}{":" if HOW == "colon" else "-"}{INFO[port]}')
        else:
            self.listener = socket.socket()
            self.listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            self.listener.bind(('127.0.0.1', INFO[port]))
        self.listener.listen()
        self.kind = kind.encode()
        self.lock = threading.Lock()

    def accept(self):
        self.socket = self.listener.accept()[0]
        hello = b'\xff' + bytes(8) + b'\x7f\x03\x00NULL'
        ready = b'\x05READY\x0bSocket-Type' + len(self.kind).to_bytes(4, 'big') + self.kind
        self.socket.sendall(hello + bytes(64 - len(hello)) + frame(ready, 4))
        self.read(64)
        self.frame()

    def read(self, size):
        out = b''
        while len(out) < size:
            piece = self.socket.recv(size - len(out))
            if not piece:
                os._exit(0)
            out += piece
        return out

    def frame(self):
        flags, size = self.read(2)
        if flags & 2:
            size = int.from_bytes(bytes([size]) + self.read(7), 'big')
        return flags, self.read(size)

    def frames(self):
        out = []
        while True:
            flags, body = self.frame()
            out.append(body)
            if not flags & 1:
                return out

    def send(self, data):
        with self.lock:
            self.socket.sendall(data)


def run(code, header):
    """What belongs on iopub between busy and idle; False: this kernel says no more."""
    def out(text, parent=header, key=KEY):
        iopub.send(jupyter('stream', parent, {'name': 'stdout', 'text': text}, key))

    word, _, rest = code.partition(' ')
    if word == 'echo':
        out(rest)
    elif word == 'foreign':
        out('of another', {'msg_id': 'x'})
        out('of none', {})
        out('not signed', key=b'guessed')
        iopub.send(message(b'junk'))
        out('mine')
    elif word == 'huge':
        out('x' * (33 << 20))
        out('after')
    elif word == 'deep':
        iopub.send(jupyter('display_data', header, b'{"data":{"a":' + b'[' * 100000 + b'}}'))
        out('after')
    elif word == 'garble':
        iopub.send(b'\xff' * 100)
        return False
    elif word == 'frames':
        iopub.send(b'\x01\x00' * 1000)
        return False
    elif word == 'flood':
        sent, iopub_data = 0, jupyter('stream', header, {'name': 'stdout', 'text': 'y' * 65536})
        while sent < int(rest):
            iopub.send(iopub_data)
            sent += 65536
            with open('/tmp/sent', 'w', encoding='ascii') as told:
                told.write(str(sent))
    elif word == 'hang':
        out('hanging')
        return False
    elif word == 'wait':
        out('waiting')
        INTERRUPTED.wait()
        INTERRUPTED.clear()
        out('interrupted')
    elif word == 'quiet':
        with open('/tmp/quiet', 'a', encoding='ascii') as begun:
            begun.write('x')
        INTERRUPTED.wait()
        INTERRUPTED.clear()
    elif word == 'die':
        os._exit(int(rest))
    elif word == 'child':
        os.system('setsid sleep 98765 &')
    return True


def serve():
    global ABORTS
    before = {}
    if HOW == 'forgetful':
        shell.frames()
    while True:
        frames = shell.frames()
        at = frames.index(DELIMITER)
        header, content = json.loads(frames[at + 2]), json.loads(frames[at + 5])
        kind, code = header['msg_type'], content.get('code', '')
        late = HOW == 'late' and kind == 'kernel_info_request'
        iopub.send(jupyter('status', before if late else header, {'execution_state': 'busy'}))
        before = header
        if kind == 'execute_request':
            iopub.send(jupyter('execute_input', header, {'code': code}))
            if not ABORTS and not run(code, header):
                continue
        reply = {'status': 'ok', 'execution_count': 1}
        if code.startswith('aborts '):
            ABORTS = int(code.split()[1])
        elif code == 'quiet':
            reply = {'status': 'abort'}
        elif ABORTS:
            ABORTS -= 1
            reply = {'status': 'aborted'}
        if code == 'refuse':
            reply = {'status': 'error', 'ename': 'Refused', 'evalue': 'by reply', 'traceback': []}
        if code != 'noreply':
            shell.send(jupyter(kind.replace('request', 'reply'), header, reply))
        if code != 'noidle' and not late:
            iopub.send(jupyter('status', header, {'execution_state': 'idle'}))


INTERRUPTED, ABORTS = threading.Event(), 0
signal.signal(signal.SIGINT, lambda *_: INTERRUPTED.set())
if HOW == 'exit':
    sys.exit('no such module')
if HOW == 'silent':
    threading.Event().wait()
if HOW == 'link':
    os.symlink('/tmp', f'{INFO["ip"]}-{INFO["shell_port"]}')
    threading.Event().wait()
shell, iopub, control = Peer('shell_port', 'ROUTER'), Peer('iopub_port', 'PUB'), Peer('control_port', 'ROUTER')
if HOW == 'stranger':
    connection = shell.listener.accept()[0]
    connection.sendall(b'HTTP/1.1 400 Bad Request\r\n\r\n' * 10)
    threading.Event().wait()
for peer in (shell, iopub):
    peer.accept()
threading.Thread(target=serve, daemon=True).start()
if HOW in ('message', 'colon'):
    control.accept()
    while True:
        asked = control.frames()
        if json.loads(asked[asked.index(DELIMITER) + 2])['msg_type'] == 'interrupt_request':
            INTERRUPTED.set()
while True:
    signal.pause()
