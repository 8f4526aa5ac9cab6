"""A WebSocket client for tests: sees every frame, and can send malformed ones."""
import base64
import hashlib
import json
import os
import struct


class Socket:
    """A WebSocket client, as small as will do."""

    def __init__(self, sandbox, path, headers=None):
        self.sock = sandbox.raw()
        more = ''.join(f'{name}: {value}\r\n' for name, value in (headers or {}).items())
        key = base64.b64encode(os.urandom(16)).decode()
        self.sock.sendall(f'GET {path} HTTP/1.1\r\nHost: x\r\nConnection: keep-alive, Upgrade\r\n'
                          f'Upgrade: WebSocket\r\nSec-WebSocket-Version: 13\r\n'
                          f'{more}Sec-WebSocket-Key: {key}\r\n\r\n'.encode())
        self.buffer = b''
        while b'\r\n\r\n' not in self.buffer:
            piece = self.sock.recv(4096)
            assert piece
            self.buffer += piece
        head, self.buffer = self.buffer.split(b'\r\n\r\n', 1)
        self.status = int(head.split()[1])
        if self.status == 101:
            accept = base64.b64encode(hashlib.sha1(
                (key + '258EAFA5-E914-47DA-95CA-C5AB0DC85B11').encode()).digest())
            assert accept in head

    def send(self, opcode, payload, fin=True, mask=True):
        head = bytes([(0x80 if fin else 0) | opcode])
        size = len(payload)
        bit = 0x80 if mask else 0
        head += (bytes([bit | size]) if size < 126 else bytes([bit | 126]) + struct.pack('>H', size)
                 if size < 65536 else bytes([bit | 127]) + struct.pack('>Q', size))
        key = os.urandom(4) if mask else b''
        masked = bytes(b ^ key[i % 4] for i, b in enumerate(payload)) if mask else payload
        self.sock.sendall(head + key + masked)

    def text(self, **message):
        self.send(1, json.dumps(message).encode())

    def exactly(self, size):
        while len(self.buffer) < size:
            piece = self.sock.recv(65536)
            if not piece:
                raise EOFError
            self.buffer += piece
        out, self.buffer = self.buffer[:size], self.buffer[size:]
        return out

    def frame(self):
        first, second = self.exactly(2)
        size = second & 0x7f
        if size == 126:
            size = struct.unpack('>H', self.exactly(2))[0]
        elif size == 127:
            size = struct.unpack('>Q', self.exactly(8))[0]
        return first & 0x0f, self.exactly(size)

    def until(self, condition):
        """Frames up to one that satisfies the condition; the output between as bytes."""
        output = b''
        while True:
            opcode, payload = self.frame()
            if opcode == 2 and payload[0] in (1, 2, 3):
                output += payload[9:] if payload[0] == 3 else payload[1:]
                if condition(output):
                    return output
            elif condition((opcode, payload)):
                return output, opcode, payload

    def message(self, kind):
        while True:
            opcode, payload = self.frame()
            if opcode == 1 and json.loads(payload)['type'] == kind:
                return json.loads(payload)

    def close_code(self):
        while True:
            opcode, payload = self.frame()
            if opcode == 8:
                return struct.unpack('>H', payload[:2])[0]
