"""/v1/filesystem/{uid}/{gid}/…: the file calls, carried out as whom the path names."""
import json
import unittest
import urllib.parse

from files_test import multipart
from harness import Sandbox

ALICE, BOB = 1000, 4242  # the second has no entry in passwd


class Identity(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox()
        cls.addClassCleanup(cls.s.close)

    def setUp(self):
        self.dir = f'/srv/{self._testMethodName}'
        self.s.out(f'mkdir -m 755 {self.dir}; mkdir -m 700 {self.dir}/alice;'
                   f'chown {ALICE}:{ALICE} {self.dir}/alice')

    def call(self, who, method, route, body=None, **query):
        uid, gid = who if isinstance(who, tuple) else (who, who)
        query = '?' + urllib.parse.urlencode(query) if query else ''
        return self.s.call(method, f'/v1/filesystem/{uid}/{gid}{route}{query}', body)

    def upload(self, who, path, content=b'x', **metadata):
        uid, gid = who if isinstance(who, tuple) else (who, who)
        return self.s.call('POST', f'/v1/filesystem/{uid}/{gid}/files/upload',
                           multipart([({'path': path, **metadata}, content)]),
                           {'Content-Type': 'multipart/form-data; boundary=XbX'})

    def owner(self, path):
        return self.s.out(f"stat -c '%u:%g' {path}")

    def denied(self, answer):
        self.assertEqual((answer.status, answer.json['code']), (500, 'RUNTIME_ERROR'))
        self.assertIn('ermi', answer.json['message'])

    def test_what_is_made_belongs_to_whom_the_path_names(self):
        self.s.out(f'chmod 777 {self.dir}')
        for who, owner in ((ALICE, '1000:1000'), ((ALICE, 44), '1000:44'), ((BOB, 7), '4242:7'),
                           ((0, 0), '0:0'), ((0, 5), '0:5')):
            with self.subTest(who=who):
                name = f'{self.dir}/made-{owner}'
                self.assertEqual(self.upload(who, f'{name}/deep/file').status, 200)
                self.assertEqual(self.call(who, 'POST', '/directories',
                                           {f'{name}/directory': {'mode': 700}}).status, 200)
                for path in (name, f'{name}/deep', f'{name}/deep/file', f'{name}/directory'):
                    self.assertEqual(self.owner(path), owner, path)

    def test_others_are_kept_out_of_every_call(self):
        path = f'{self.dir}/alice/f'
        self.assertEqual(self.upload(ALICE, path, b'one\ntwo\n').status, 200)
        self.assertEqual(self.call(ALICE, 'GET', '/files/download', path=path).body, b'one\ntwo\n')
        self.assertEqual(self.call(ALICE, 'GET', '/files/download', path=path, offset=2).body, b'two')
        parent = f'{self.dir}/alice'
        for who in (BOB, (BOB, ALICE)):
            for answer in (
                    self.call(who, 'GET', '/files/info', path=path),
                    self.call(who, 'GET', '/files/download', path=path),
                    self.call(who, 'GET', '/files/download', path=path, offset=1, limit=1),
                    self.call(who, 'GET', '/files/search', path=parent),
                    self.call(who, 'GET', '/directories/list', path=parent),
                    self.call(who, 'DELETE', '/files', path=path),
                    self.call(who, 'DELETE', '/directories', path=parent),
                    self.call(who, 'POST', '/files/permissions', {path: {'mode': 777}}),
                    self.call(who, 'POST', '/files/replace', {path: {'old': 'one', 'new': '1'}}),
                    self.call(who, 'POST', '/directories', {f'{parent}/d': {'mode': 755}}),
                    self.upload(who, path), self.upload(who, f'{parent}/new')):
                self.denied(answer)
            self.assertGreaterEqual(self.call(who, 'POST', '/files/mv', [
                {'src': path, 'dest': f'{self.dir}/x'}]).status, 400)
        self.assertEqual(self.s.out(f'cat {path}; ls -A {parent}'), 'one\ntwo\nf')
        self.assertEqual(self.call(ALICE, 'POST', '/files/replace?verbose=true',
                                   {path: {'old': 'one', 'new': '1'}}).json,
                         {path: {'replacedCount': 1}})
        self.assertEqual(self.call(ALICE, 'POST', '/files/mv', [
            {'src': path, 'dest': f'{parent}/g'}]).status, 200)
        self.assertEqual([e['path'] for e in self.call(ALICE, 'GET', '/files/search',
                                                       path=parent).json], [f'{parent}/g'])
        self.assertEqual(self.call(ALICE, 'DELETE', '/directories', path=f'{parent}/none').status, 200)
        self.assertEqual(self.call(ALICE, 'DELETE', '/files', path=f'{parent}/g').status, 200)

    def test_no_group_comes_along(self):
        # passwd and group put 1000 into audio (29).
        path = f'{self.dir}/audio'
        self.s.out(f'echo loud >{path}; chown 0:29 {path}; chmod 640 {path}')
        self.denied(self.call(ALICE, 'GET', '/files/download', path=path))
        self.assertEqual(self.call((ALICE, 29), 'GET', '/files/download', path=path).body, b'loud\n')

    def test_nothing_is_given_to_or_taken_from_somebody_else(self):
        path = f'{self.dir}/alice/f'
        self.assertEqual(self.upload(ALICE, path).status, 200)
        for change in ({'owner': 'root'}, {'owner': str(BOB)}, {'group': 'audio'}):
            self.denied(self.call(ALICE, 'POST', '/files/permissions', {path: change}))
            self.denied(self.upload(ALICE, f'{self.dir}/alice/g', **change))
        self.assertEqual(self.owner(path), '1000:1000')
        self.assertEqual(self.s.out(f'ls -A {self.dir}/alice'), 'f')
        # Where a rename would do: others' files in a directory that all may write to.
        self.s.out(f'mkdir {self.dir}/all; chmod 777 {self.dir}/all; echo root >{self.dir}/all/f')
        for mode in ('777', '1777'):
            self.s.out(f'chmod {mode} {self.dir}/all')
            answer = self.upload(ALICE, f'{self.dir}/all/f', b'alice')
            self.denied(answer)
            self.assertIn('permission', answer.json['message'])
        self.assertEqual(self.s.out(f'cat {self.dir}/all/f; ls -A {self.dir}/all'), 'root\nf')

    def test_the_next_call_is_the_users_own_again(self):
        self.upload(ALICE, f'{self.dir}/alice/f')
        info = self.s.call('GET', f'/files/info?path={self.dir}/alice/f')
        self.assertEqual(info.status, 200)
        self.assertEqual(self.s.out('id -u; id -G'), '0\n0')

    def test_names_are_known_to_whoever_asks(self):
        path = f'{self.dir}/alice/f'
        self.upload(ALICE, path)
        self.s.out('chmod 600 /etc/passwd; touch /etc/passwd')
        try:
            told = self.call(ALICE, 'GET', '/directories/list', path=f'{self.dir}/alice').json
            self.assertEqual(told[0]['owner'], 'dev')
        finally:
            self.s.out('chmod 644 /etc/passwd')

    def test_refusals(self):
        for who in (('x', 1), (1, ''), (-1, 1), (1, '+1'), ('0x1', 1), (4294967295, 1), (1, 4294967295),
                    (4294967296, 1), (1, '1 '), ('1.0', 1)):
            answer = self.call(tuple(urllib.parse.quote(str(part)) for part in who), 'GET',
                               '/files/info', path='/etc/passwd')
            with self.subTest(who=who):
                if '' in who:
                    self.assertEqual(answer.status, 404)
                else:
                    self.assertEqual((answer.status, json.loads(answer.body)['code']),
                                     (400, 'INVALID_REQUEST_BODY'))
        # Beyond the 65,536 ids of the sandbox; nothing is done as anybody else.
        for who in ((65536, 0), (0, 65536), (4294967294, 4294967294)):
            answer = self.upload(who, f'{self.dir}/never')
            self.assertEqual((answer.status, answer.json['code']),
                             (501, 'FILESYSTEM_IDENTITY_UNAVAILABLE'))
        self.assertEqual(self.s.out(f'ls {self.dir}'), 'alice')
        self.assertEqual(self.call((65535, 65535), 'GET', '/files/info', path='/etc').status, 200)

    def test_the_token_is_asked_for(self):
        with Sandbox(token='s3cret') as s:
            answer = s.call('GET', '/v1/filesystem/0/0/files/info', headers={
                'X-EXECD-ACCESS-TOKEN': 'other'})
            self.assertEqual(answer.status, 401)


if __name__ == '__main__':
    unittest.main()
