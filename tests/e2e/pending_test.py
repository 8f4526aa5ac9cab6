"""Creates whose image is arriving at that moment: Pending, then Running or Failed."""
import json
import pathlib
import socket
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, image_archive, until


class Upload:
    """An import of the busybox image by a client that sends as slowly as the test wants."""

    def __init__(self, daemon, name):
        self.bytes = pathlib.Path(image_archive('busybox')).read_bytes()
        address = urllib.parse.urlsplit(daemon.url)
        self.peer = socket.create_connection((address.hostname, address.port), 60 * SLOWNESS)
        self.sent = 0
        self.peer.sendall(f'POST /v1/images?name={name} HTTP/1.1\r\nHost: h\r\n'
                          f'OPEN-SANDBOX-API-KEY: {daemon.key}\r\nConnection: close\r\n'
                          f'Content-Length: {len(self.bytes)}\r\n\r\n'.encode())

    def send(self, size=None):
        piece = self.bytes[self.sent:None if size is None else self.sent + size]
        self.peer.sendall(piece)
        self.sent += len(piece)

    def answer(self):
        text = b''
        while piece := self.peer.recv(65536):
            text += piece
        self.peer.close()
        return int(text.split()[1])


class Pending(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = cls.daemon.import_busybox()

    def upload(self, name, size):
        """One of which `size` bytes have arrived."""
        upload = Upload(self.daemon, name)
        self.addCleanup(upload.peer.close)
        upload.send(size)
        return upload

    def create(self, image, **fields):
        """The whole answer of a create that must be accepted."""
        return self.daemon.request('POST', '/v1/sandboxes', {
            'image': {'uri': image}, 'entrypoint': ['sleep', '1000'], 'resourceLimits': {},
            **fields})

    def accepted(self, image, **fields):
        """Once the daemon has heard of the import."""
        def attempt():
            try:
                return self.create(image, **fields)
            except atoll.ApiError as error:
                self.assertEqual(error.status, 400)
                return None
        return until(attempt, 30 * SLOWNESS, 'the import has begun')

    def status(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']

    def becomes(self, box, state):
        until(lambda: self.status(box)['state'] == state, 20 * SLOWNESS, f'{box} is {state}')
        return self.status(box)

    def test_it_runs_when_the_image_is_there(self):
        upload = self.upload('slow', 1000)
        made = self.accepted('slow', metadata={'wait': 'yes'})
        box = made['id']
        self.assertEqual((made['status']['state'], made['status']['reason']),
                         ('Pending', 'IMAGE_IMPORTING'))
        until(lambda: '1000 of' in self.status(box)['message'], 30 * SLOWNESS, 'it says how far')
        self.assertIn('slow:latest', self.status(box)['message'])
        listed = self.daemon.request('GET', '/v1/sandboxes?state=Pending')['items']
        self.assertEqual([one['id'] for one in listed], [box])
        upload.send(50_000)
        until(lambda: '51000 of' in self.status(box)['message'], 30 * SLOWNESS, 'it goes on')
        # Nobody else waits for it, and nobody reaches it.
        other = self.daemon.create(self.image)
        self.assertEqual(self.daemon.run(other, 'echo meanwhile').stdout, 'meanwhile')
        answer = self.daemon.send('GET', f'/sandboxes/{box}/proxy/44772/ping')
        self.assertEqual(answer.status, 409, answer.read())
        self.assertEqual(self.status(box)['state'], 'Pending')

        upload.send()
        self.assertEqual(upload.answer(), 201)
        self.becomes(box, 'Running')
        self.assertEqual(self.daemon.run(box, 'echo at last').stdout, 'at last')
        # As any other from here on.
        self.daemon.kill()
        self.daemon.start()
        self.assertEqual(self.daemon.run(box, 'echo still').stdout, 'still')
        self.daemon.delete(box)

    def test_an_unknown_image_stays_unknown(self):
        self.upload('arriving', 1000)
        self.daemon.delete(self.accepted('arriving')['id'])
        for image in ('absent', 'arriving:other'):
            with self.assertRaises(atoll.ApiError) as refused:
                self.create(image)
            self.assertEqual(refused.exception.status, 400)

    def test_an_import_that_breaks_off(self):
        upload = self.upload('broken', 1000)
        box = self.accepted('broken')['id']
        upload.peer.close()
        status = self.becomes(box, 'Failed')
        self.assertEqual(status['reason'], 'PROVISIONING_ERROR')
        self.assertIn('broken:latest was not imported', status['message'])
        answer = self.daemon.send('GET', f'/sandboxes/{box}/proxy/44772/ping')
        self.assertEqual((answer.status, json.loads(answer.read())['code']),
                         (410, 'DOCKER::SANDBOX_NOT_RUNNING'))
        self.daemon.delete(box)

    def test_what_arrives_is_no_image(self):
        upload = self.upload('nonsense', 0)
        upload.bytes = bytes(len(upload.bytes))
        box = self.accepted('nonsense')['id']
        upload.send()
        self.assertGreaterEqual(upload.answer(), 400)
        self.becomes(box, 'Failed')

    def test_deleted_meanwhile(self):
        upload = self.upload('unloved', 1000)
        box = self.accepted('unloved')['id']
        self.daemon.delete(box)
        upload.send()
        self.assertEqual(upload.answer(), 201)
        self.assertEqual(self.daemon.send('GET', f'/v1/sandboxes/{box}').status, 404)

    def test_a_daemon_that_is_killed_meanwhile(self):
        self.upload('cut', 1000)
        box = self.accepted('cut')['id']
        self.daemon.kill()
        self.daemon.start()
        status = self.status(box)
        self.assertEqual(status['state'], 'Failed')
        self.assertIn('the daemon ended', status['message'])
        self.daemon.delete(box)


if __name__ == '__main__':
    unittest.main()
