"""What tests of isolated sessions share."""
import unittest

import atoll
from box import Box, shell_image
from files_test import multipart

SESSION = '/v1/isolated/session'


def text_of(path):
    try:
        return path.read_text(encoding='ascii')
    except OSError:  # not there, or no more
        return ''


class Session:
    """One session and its routes."""

    def __init__(self, box, **request):
        request.setdefault('workspace', {'path': '/workspace', 'mode': 'rw'})
        self.box = box
        answer = box.call('POST', SESSION, request)
        assert answer.status == 201, (answer.status, answer.body)
        self.created = answer.json
        self.id = answer.json['session_id']
        self.path = f'{SESSION}/{self.id}'

    def call(self, method, path='', body=None, headers=None):
        return self.box.call(method, self.path + path, body, headers)

    def events(self, code, **members):
        return self.box.events(self.path + '/run', {'code': code, **members})

    def run(self, code, **members):
        """The texts of stdout, and the last event."""
        events = self.events(code, **members)
        return [e['text'] for e in events if e['type'] == 'stdout'], events[-1]

    def out(self, code, **members):
        lines, last = self.run(code, **members)
        assert last['type'] == 'execution_complete', (lines, last)
        return '\n'.join(lines)

    def code(self, code, **members):
        """What it exits with, and what it printed."""
        lines, last = self.run(code, **members)
        if last['type'] == 'execution_complete':
            return 0, '\n'.join(lines)
        return int(last['error']['evalue']), '\n'.join(lines)

    def state(self):
        return self.call('GET').json

    def delete(self):
        return self.call('DELETE')

    def upload(self, path, content):
        return self.call('POST', '/files/upload', multipart([({'path': path}, content)]),
                         {'Content-Type': 'multipart/form-data; boundary=XbX'})


class Isolated(unittest.TestCase):
    settings = {}

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon(**cls.settings).__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)
        cls.box = Box(cls.daemon, cls.image, env={'PLAIN': 'seen', 'MY_TOKEN': 'hidden',
                                                  'AWS_REGION': 'hidden'})
        cls.addClassCleanup(lambda: cls.daemon.delete(cls.box.id))
        cls.box.out('mkdir -p /workspace /data; chmod 777 /workspace /data')

    def session(self, **request):
        session = Session(self.box, **request)
        self.addCleanup(session.delete)
        return session

    def refused(self, answer, status, code):
        self.assertEqual((answer.status, answer.json.get('code')), (status, code), answer.body)
