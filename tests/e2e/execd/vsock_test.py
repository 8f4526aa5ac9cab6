"""execd behind a virtual machine's boundary: vsock in the place of inherited sockets.

Over vsock loopback, which the guest's kernel has: the peer's CID is then 1.
"""
import http.client
import json
import os
import socket
import struct
import subprocess
import unittest

from harness import EXECD, TOKEN_HEADER, parse_events, start_message

PORT = 44772
LOOPBACK = 1


class VsockConnection(http.client.HTTPConnection):
    def connect(self):
        self.sock = connect(PORT)


def connect(port):
    peer = socket.socket(socket.AF_VSOCK)
    peer.settimeout(60)
    peer.connect((LOOPBACK, port))
    return peer


class Vsock(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        subprocess.run(['modprobe', 'vsock_loopback'], check=True)

    def start(self, peer):
        execd = subprocess.Popen([EXECD, f'--vsock-port={PORT}', f'--vsock-peer={peer}'],
                                 stdin=subprocess.DEVNULL, env={})
        self.addCleanup(execd.wait)
        self.addCleanup(execd.kill)
        return execd

    def control(self):
        """Starts an execd and returns the connection that it makes for control."""
        with socket.socket(socket.AF_VSOCK) as listener:
            listener.settimeout(60)
            listener.bind((socket.VMADDR_CID_ANY, PORT + 1))
            listener.listen()
            self.start(LOOPBACK)
            control = listener.accept()[0]
            control.settimeout(60)
            return control

    def test_start_and_commands(self):
        with self.control() as control:
            control.sendall(start_message(['/bin/sleep', '1000'], ['PATH=/usr/bin:/bin'],
                                          token='secret'))
            size = struct.unpack('<I', control.recv(4, socket.MSG_WAITALL))[0]
            self.assertEqual(control.recv(size, socket.MSG_WAITALL)[0], 1)  # started
        # The daemon's end has gone, as in a restart; it serves on.
        for headers, status in (({}, 401), ({TOKEN_HEADER: 'secret'}, 200)):
            connection = VsockConnection('execd')
            connection.request('POST', '/command', json.dumps({'command': 'echo over vsock'}), headers)
            response = connection.getresponse()
            body = response.read()
            self.assertEqual(response.status, status)
            connection.close()
        self.assertIn('over vsock\n', [e.get('text') for e in parse_events(body)])

    def test_ends_if_it_cannot_reach_its_peer(self):
        self.assertEqual(self.start(2).wait(60), 126)  # the host, which this machine has none of


if __name__ == '__main__':
    unittest.main()
