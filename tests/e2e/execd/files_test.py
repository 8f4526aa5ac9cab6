"""/files and /directories: every row of the endpoint table, and hostile trees."""
import io
import json
import os
import random
import stat
import tarfile
import threading
import time
import unittest
import urllib.parse

from harness import Sandbox, until

CODE = lambda answer: (answer.status, answer.json['code'])


def multipart(pairs, boundary='XbX', metadata_filename=True, ending=True):
    out = []
    for metadata, content in pairs:
        if metadata is not None:
            raw = metadata if isinstance(metadata, bytes) else json.dumps(metadata).encode()
            name = b'; filename="metadata"' if metadata_filename else b''
            out.append(b'--%s\r\nContent-Disposition: form-data; name="metadata"%s\r\n'
                       b'Content-Type: application/json\r\n\r\n%s\r\n'
                       % (boundary.encode(), name, raw))
        if content is not None:
            out.append(b'--%s\r\nContent-Disposition: form-data; name="file"; filename="f"\r\n'
                       b'Content-Type: application/octet-stream\r\n\r\n%s\r\n'
                       % (boundary.encode(), content))
    if ending:
        out.append(b'--%s--\r\n' % boundary.encode())
    return b''.join(out)


class Base(unittest.TestCase):
    user = ''

    @classmethod
    def setUpClass(cls):
        cls.s = Sandbox(user=cls.user)

    @classmethod
    def tearDownClass(cls):
        cls.s.close()

    def setUp(self):
        self.dir = '/tmp/' + self.id().rsplit('.', 1)[1]
        self.s.out(f'mkdir -p {self.dir}')

    def get(self, route, /, **query):
        return self.s.call('GET', route + '?' + urllib.parse.urlencode(query, doseq=True))

    def delete(self, route, /, **query):
        return self.s.call('DELETE', route + '?' + urllib.parse.urlencode(query, doseq=True))

    def upload(self, pairs, **options):
        return self.s.call('POST', '/files/upload', multipart(pairs, **options),
                           {'Content-Type': 'multipart/form-data; boundary=XbX'})

    def write(self, name, content=b'x', **metadata):
        answer = self.upload([({'path': f'{self.dir}/{name}', **metadata}, content)])
        self.assertEqual((answer.status, answer.body), (200, b''))
        self.assertEqual(answer.headers['Content-Length'], '0')
        return f'{self.dir}/{name}'

    def download(self, path, **headers):
        return self.s.call('GET', '/files/download?path=' + urllib.parse.quote(path),
                           headers={k.replace('_', '-'): v for k, v in headers.items()})


class Info(Base):
    def test_members(self):
        path = self.write('a', b'hello', mode=644, owner='nobody', group='nogroup')
        self.s.out(f'ln -s a {self.dir}/l; mkfifo {self.dir}/p; mkdir {self.dir}/d')
        info = self.get('/files/info', path=[path, f'{self.dir}/l', f'{self.dir}/p',
                                             f'{self.dir}/d']).json
        self.assertEqual([info[k]['type'] for k in info],
                         ['file', 'symlink', 'other', 'directory'])
        got = info[path]
        self.assertEqual((got['path'], got['size'], got['owner'], got['group'], got['mode']),
                         (path, 5, 'nobody', 'nogroup', 644))
        self.assertRegex(got['modified_at'], r'^\d{4}-\d\d-\d\dT[\d:]{8}(\.\d+)?Z$')
        self.assertIn('created_at', got)

    def test_none_and_missing(self):
        self.assertEqual(self.s.call('GET', '/files/info').json, {})
        self.assertEqual(CODE(self.get('/files/info', path='/nope')), (404, 'FILE_NOT_FOUND'))

    def test_home_and_variables(self):
        self.assertEqual(list(self.get('/files/info', path='~').json.values())[0]['path'], '/root')
        self.assertIn('$HOME', self.get('/files/info', path='$HOME').json)
        self.assertEqual(CODE(self.get('/files/info', path='$NOT_SET/x'))[1], 'RUNTIME_ERROR')


class Upload(Base):
    def test_pairs_and_parents(self):
        answer = self.upload([({'path': f'{self.dir}/deep/er/{i}', 'mode': 640}, b'%d' % i * 100000)
                              for i in range(3)])
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.s.out(f'cd {self.dir}/deep/er; stat -c %a:%s 0 1 2').split(),
                         ['640:100000'] * 3)

    def test_default_mode_and_keeping_it(self):
        path = self.write('a')
        self.assertEqual(self.s.out(f'stat -c %a {path}'), '644')
        self.s.out(f'chown 1000:1001 {path}; chmod 4751 {path}')
        self.write('a', b'new')
        self.assertEqual(self.s.out(f'stat -c %a:%u:%g {path}; cat {path}'), '4751:1000:1001\nnew')

    def test_owner(self):
        path = self.write('a', owner='dev', group='audio', mode=755)
        self.assertEqual(self.s.out(f'stat -c %U:%G:%a {path}'), 'dev:audio:755')
        self.s.out(f'mkdir {self.dir}/there')
        self.write('there/new/er/f', owner='dev', group='audio')
        self.assertEqual(self.s.out(f'cd {self.dir}/there; stat -c %U:%G . new new/er new/er/f').split(),
                         ['root:root', *['dev:audio'] * 3])
        for who in ({'owner': 'nosuch'}, {'group': 'nosuch'}, {'owner': 'dev', 'group': 'nosuch'}):
            answer = self.upload([({'path': f'{self.dir}/no/b', **who}, b'x')])
            self.assertEqual(CODE(answer), (400, 'INVALID_FILE_METADATA'))
            self.assertIn("'nosuch'", answer.json['message'])
            for route, named in (('/directories', f'{self.dir}/no'), ('/files/permissions', path)):
                answer = self.s.call('POST', route, {f'{self.dir}/a': {'mode': 700}, named: who})
                self.assertEqual(CODE(answer), (400, 'INVALID_REQUEST_BODY'))
        self.assertEqual(self.s.out(f'cd {self.dir}; ls; stat -c %a a').split(), ['a', 'there', '755'])

    def test_replaces_atomically(self):
        path = self.write('a', b'a' * 100000)
        script = f'while :; do c=$(tr -d "\\n" < {path} | head -c 1; stat -c %s {path}); ' \
                 f'case "$c" in [ab]100000) ;; *) echo "BAD $c" ;; esac; done'
        command = self.s.events('/command', {'command': script, 'background': True})[0]['text']
        for i in range(100):
            self.write('a', b'ab'[i % 2:i % 2 + 1] * 100000)
        self.s.call('DELETE', f'/command?id={command}')
        self.assertEqual(self.s.call('GET', f'/command/{command}/logs').body, b'')

    def test_running_program_can_be_replaced(self):
        self.s.out(f'cp /bin/sleep {self.dir}/prog')
        command = self.s.events('/command', {'command': f'{self.dir}/prog 100',
                                             'background': True})[0]['text']
        self.write('prog', b'#!/bin/sh\necho new')
        self.assertEqual(self.s.out(f'{self.dir}/prog'), 'new')
        self.s.call('DELETE', f'/command?id={command}')

    def test_links_keep_their_identity(self):
        self.s.out(f'cd {self.dir}; echo old > real; ln -s real sym; ln real hard; ln -s no dangling')
        for name in ('sym', 'hard', 'dangling'):
            self.write(name, name.encode() * 3)
        self.assertEqual(self.s.out(f'cd {self.dir}; readlink sym dangling; cat real; echo; cat no; '
                                    'echo; stat -c %h real'),
                         'real\nno\nhardhardhard\ndanglingdanglingdangling\n2')

    def test_chunked_body(self):
        content = os.urandom(300000)
        body = multipart([({'path': f'{self.dir}/c'}, content)])
        answer = self.s.call('POST', '/files/upload',
                             (body[i:i + 7777] for i in range(0, len(body), 7777)),
                             {'Content-Type': 'multipart/form-data; boundary=XbX'})
        self.assertEqual(answer.status, 200)
        self.assertEqual(self.download(f'{self.dir}/c').body, content)

    def test_content_that_looks_like_boundaries(self):
        content = b'\r\n--XbY\r\n--Xb\r\n\r\n--X' + b'\r\n--Xb' * 1000 + b'\r\n'
        path = self.write('a', content)
        self.assertEqual(self.download(path).body, content)
        self.assertEqual(self.download(self.write('empty', b'')).body, b'')

    def test_refusals(self):
        path = {'path': f'{self.dir}/x'}
        for pairs, options, code in (
                ([], {}, 'INVALID_FILE'),
                ([(path, None)], {}, 'INVALID_FILE'),
                ([(None, b'x')], {}, 'INVALID_FILE'),
                ([(path, b'x'), (path, None)], {}, 'INVALID_FILE'),
                ([(path, b'x')], {'metadata_filename': False}, 'INVALID_FILE'),
                ([(path, b'x')], {'ending': False}, 'INVALID_FILE'),
                ([(b'{', b'x')], {}, 'INVALID_FILE_METADATA'),
                ([(b'{}', b'x')], {}, 'INVALID_FILE_METADATA'),
                ([({'path': '/tmp/x', 'mode': 899}, b'x')], {}, 'INVALID_FILE_METADATA'),
                ([({'path': '/tmp/x', 'mode': -1}, b'x')], {}, 'INVALID_FILE_METADATA'),
                ([(b'{"path":"' + b'x' * 70000 + b'"}', b'x')], {}, 'INVALID_FILE_METADATA')):
            with self.subTest(pairs=str(pairs)[:60]):
                self.assertEqual(CODE(self.upload(pairs, **options)), (400, code))
        answer = self.s.call('POST', '/files/upload', b'x', {'Content-Type': 'text/plain'})
        self.assertEqual(CODE(answer), (400, 'INVALID_FILE'))
        self.assertEqual(CODE(self.upload([({'path': '/dev/null/x'}, b'x')]))[0], 500)
        self.assertEqual(CODE(self.upload([({'path': '/tmp'}, b'x')]))[0], 500)

    def test_disconnect_leaves_nothing(self):
        self.write('a', b'old')
        with self.s.raw() as client:
            client.sendall(b'POST /files/upload HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n'
                           b'Content-Type: multipart/form-data; boundary=XbX\r\n\r\n'
                           + multipart([({'path': f'{self.dir}/a'}, b'new' * 1000)],
                                       ending=False)[:-20])
            until(lambda: self.s.out(f'ls -A {self.dir} | wc -l') == '2')
        until(lambda: self.s.out(f'ls -A {self.dir} | wc -l') == '1')
        self.assertEqual(self.s.out(f'cat {self.dir}/a'), 'old')

    def test_full_disk(self):
        with Sandbox(tmp_size='1m') as s:
            s.out('echo old > /tmp/a')
            body = multipart([({'path': '/tmp/a'}, b'x' * 2000000)])
            answer = s.call('POST', '/files/upload', body,
                            {'Content-Type': 'multipart/form-data; boundary=XbX'})
            self.assertEqual(CODE(answer), (500, 'RUNTIME_ERROR'))
            self.assertIn('No space left', answer.json['message'])
            self.assertEqual(s.out('cat /tmp/a; ls -A /tmp | wc -l'), 'old\n1')

    def test_special_files_are_not_written(self):
        self.s.out(f'mkfifo {self.dir}/p; python3 -c "import socket as s; '
                   f's.socket(s.AF_UNIX).bind(\'{self.dir}/s\')" || '
                   f'/usr/bin/python3 -c "import socket as s; s.socket(s.AF_UNIX).bind(\'{self.dir}/s\')"')
        for path in (f'{self.dir}/p', f'{self.dir}/s', '/dev/null', '/dev/full'):
            with self.subTest(path=path):
                self.assertEqual(CODE(self.upload([({'path': path}, b'x')]))[0], 500)
                self.assertEqual(CODE(self.download(path))[0], 500)

    def test_no_way_to_descriptors_of_execd(self):
        self.s.out(f'ln -s /proc/1/fd {self.dir}/fds; ln -s /proc/self/fd {self.dir}/own')
        for path in ('/proc/self/fd/5/x', '/proc/self/fd/5/cgroup.procs', f'{self.dir}/own/5/c0/x',
                     f'{self.dir}/fds/5/x', '/proc/self/cwd/tmp/x', '/proc/self/root/tmp/x',
                     '/proc/self/mem'):
            with self.subTest(path=path):
                self.assertEqual(self.upload([({'path': path}, b'x')]).status, 500)
                self.assertNotEqual(self.get('/directories/list', path=path).status, 200)
        for path in ('/proc/self/environ', '/proc/self/mem'):
            self.assertEqual(CODE(self.download(path))[0], 500)
        # Readable ones have no size, and nothing is read beyond it.
        self.assertEqual(self.download('/proc/self/status').body, b'')


class Download(Base):
    def test_whole(self):
        content = os.urandom(3_000_000)
        answer = self.download(self.write('a b"c', content))
        self.assertEqual(answer.body, content)
        self.assertEqual(answer.headers['Content-Type'], 'application/octet-stream')
        self.assertEqual(answer.headers['Content-Length'], '3000000')
        self.assertIn('attachment', answer.headers['Content-Disposition'])
        self.assertIn('Last-Modified', answer.headers)

    def test_names(self):
        for name, wanted in (('plain.txt', 'attachment; filename="plain.txt"'),
                             ('é', "attachment; filename*=UTF-8''%C3%A9"),
                             ('a\nb', "attachment; filename*=UTF-8''a%0Ab")):
            self.assertEqual(self.download(self.write(name)).headers['Content-Disposition'], wanted)

    def test_ranges(self):
        path = self.write('a', bytes(range(100)))
        for header, first, last in (('bytes=0-9', 0, 9), ('bytes=90-', 90, 99), ('bytes=-5', 95, 99),
                                    ('bytes=95-1000', 95, 99), ('bytes=-1000', 0, 99),
                                    ('bytes=3-4,7-9', 3, 4)):
            answer = self.download(path, Range=header)
            self.assertEqual((answer.status, answer.body), (206, bytes(range(first, last + 1))))
            self.assertEqual(answer.headers['Content-Range'], f'bytes {first}-{last}/100')
        for header in ('bytes=100-', 'bytes=5-4', 'bytes=x', 'lines=1-2', 'bytes=-0', 'bytes=-'):
            self.assertEqual(CODE(self.download(path, Range=header)), (416, 'UNKNOWN'))

    def test_conditions(self):
        path = self.write('a', b'abc')
        modified = self.download(path).headers['Last-Modified']
        self.assertEqual(self.download(path, If_Modified_Since=modified).status, 304)
        self.assertEqual(self.download(path, If_Modified_Since='junk').status, 200)
        old = 'Sun, 06 Nov 1994 08:49:37 GMT'
        self.assertEqual(self.download(path, If_Modified_Since=old).status, 200)
        self.assertEqual(self.download(path, If_Unmodified_Since=old).status, 412)
        self.assertEqual(self.download(path, Range='bytes=0-0', If_Range=old).status, 200)
        self.assertEqual(self.download(path, Range='bytes=0-0', If_Range=modified).status, 206)

    def test_refusals(self):
        self.assertEqual(CODE(self.s.call('GET', '/files/download')), (400, 'MISSING_QUERY'))
        self.assertEqual(CODE(self.download('/nope')), (404, 'FILE_NOT_FOUND'))
        self.assertEqual(CODE(self.download('/tmp')), (500, 'RUNTIME_ERROR'))

    def test_file_that_shrinks_is_cut_visibly(self):
        path = self.write('a', b'x' * 4_000_000)
        connection = self.s.connection()
        connection.request('GET', '/files/download?path=' + path)
        response = connection.getresponse()
        response.read(1000)
        self.s.out(f'truncate -s 0 {path}')
        with self.assertRaises(Exception):
            if len(response.read()) == 3_999_000:
                raise ConnectionError('was buffered whole')
        connection.close()


class Change(Base):
    def test_delete(self):
        path = self.write('a')
        self.assertEqual(self.delete('/files', path=[path, f'{self.dir}/nope',
                                                     f'{self.dir}/no/pe']).status, 200)
        self.assertEqual(self.s.out(f'ls -A {self.dir}'), '')
        self.assertEqual(CODE(self.delete('/files', path=self.dir)), (500, 'RUNTIME_ERROR'))

    def test_permissions(self):
        path = self.write('a')
        answer = self.s.call('POST', '/files/permissions',
                             {path: {'mode': 600, 'owner': 'dev', 'group': 'video'}})
        self.assertEqual((answer.status, answer.headers['Content-Length']), (200, '0'))
        self.assertEqual(self.s.out(f'stat -c %a:%U:%G {path}'), '600:dev:video')
        for body, wanted in (({f'{self.dir}/no': {'mode': 600}}, 500), ('[]', 400), ('{', 400),
                             ({path: {'mode': 888}}, 400), ({path: {'mode': 'x'}}, 400)):
            self.assertEqual(self.s.call('POST', '/files/permissions', body).status, wanted)

    def test_move(self):
        path = self.write('a', b'1')
        other = self.write('b', b'2')
        move = lambda *items: self.s.call('POST', '/files/mv',
                                          [{'src': s, 'dest': d} for s, d in items])
        self.assertEqual(move((path, f'{self.dir}/new/dir/c')).status, 200)
        self.assertEqual(self.s.out(f'cat {self.dir}/new/dir/c'), '1')
        self.assertEqual(CODE(move((path, f'{self.dir}/d'))), (404, 'FILE_NOT_FOUND'))
        self.assertEqual(CODE(move((other, f'{self.dir}/new/dir/c'))), (500, 'RUNTIME_ERROR'))
        self.assertEqual(self.s.out(f'cat {self.dir}/new/dir/c'), '1')
        self.assertEqual(CODE(self.s.call('POST', '/files/mv', '{}')), (400, 'INVALID_REQUEST_BODY'))

    def test_replace(self):
        path = self.write('a', b'one two one', mode=640)
        call = lambda body, query='': self.s.call('POST', '/files/replace' + query, body)
        answer = call({path: {'old': 'one', 'new': '1'}})
        self.assertEqual((answer.status, answer.body), (200, b''))
        self.assertEqual(self.s.out(f'cat {path}; stat -c :%a {path}'), '1 two 1:640')
        answer = call({path: {'old': '1', 'new': 'one'}, self.write('b', b'aaaa'):
                       {'old': 'aa', 'new': ''}, self.write('c'): {'old': 'no', 'new': 'x'}},
                      '?verbose=true')
        self.assertEqual([v['replacedCount'] for v in answer.json.values()], [2, 2, 0])
        self.assertEqual(CODE(call({path: {'old': '', 'new': 'x'}})), (400, 'INVALID_REQUEST_BODY'))
        self.assertEqual(CODE(call({'/nope': {'old': 'a', 'new': 'x'}})), (404, 'FILE_NOT_FOUND'))
        self.assertEqual(CODE(call('[]')), (400, 'INVALID_REQUEST_BODY'))

    def test_replace_in_large_files_and_links(self):
        content = (b'x' * 262140 + b'needle') * 3 + b'need'
        path = self.write('big', content)
        self.s.out(f'ln -s big {self.dir}/link')
        answer = self.s.call('POST', '/files/replace?verbose=true',
                             {f'{self.dir}/link': {'old': 'needle', 'new': 'pin'}})
        self.assertEqual(list(answer.json.values()), [{'replacedCount': 3}])
        self.assertEqual(self.download(path).body, content.replace(b'needle', b'pin'))
        self.assertEqual(self.s.out(f'readlink {self.dir}/link'), 'big')


class Directories(Base):
    def tree(self):
        self.s.out(f'cd {self.dir}; mkdir -p b/c; echo 1 > a.txt; echo 2 > b/b.txt; '
                   f'echo 3 > b/c/d.py; ln -s b z; mkfifo b/fifo')

    def test_make(self):
        answer = self.s.call('POST', '/directories', {
            f'{self.dir}/x/y': {'mode': 750, 'owner': 'dev', 'group': 'audio'},
            f'{self.dir}/plain': {'mode': 0}})
        self.assertEqual((answer.status, answer.headers['Content-Length']), (200, '0'))
        self.assertEqual(self.s.out(f'cd {self.dir}; stat -c %a:%U:%G x x/y plain').split(),
                         ['755:dev:audio', '750:dev:audio', '755:root:root'])
        self.assertEqual(CODE(self.s.call('POST', '/directories', '[]')),
                         (400, 'INVALID_REQUEST_BODY'))
        self.assertEqual(self.s.call('POST', '/directories', {'/etc/passwd/x': {}}).status, 500)

    def test_delete(self):
        self.tree()
        self.assertEqual(self.delete('/directories', path=[self.dir + '/b', self.dir + '/nope'])
                         .status, 200)
        self.assertEqual(self.s.out(f'ls {self.dir}').split(), ['a.txt', 'z'])
        self.assertEqual(self.delete('/directories', path=self.dir + '/z').status, 200)

    def test_delete_follows_no_link(self):
        self.s.out(f'mkdir {self.dir}/keep {self.dir}/go; echo > {self.dir}/keep/x; '
                   f'ln -s ../keep {self.dir}/go/link')
        self.assertEqual(self.delete('/directories', path=f'{self.dir}/go').status, 200)
        self.assertEqual(self.s.out(f'ls {self.dir}/keep'), 'x')

    def test_delete_deep_and_wide(self):
        self.s.out(f'cd {self.dir}; mkdir deep; cd deep; i=0; while [ $i -lt 600 ]; do '
                   'mkdir d; cd d; i=$((i+1)); done; cd /; cd ' + self.dir +
                   '; mkdir wide; seq 20000 | sed s,^,wide/, | xargs touch')
        self.assertEqual(self.delete('/directories', path=[f'{self.dir}/deep',
                                                           f'{self.dir}/wide']).status, 200)
        self.assertEqual(self.s.out(f'ls {self.dir}'), '')

    def test_list(self):
        self.tree()
        names = lambda **q: [e['path'][len(self.dir) + 1:] for e in
                             self.get('/directories/list', path=self.dir, **q).json]
        self.assertEqual(names(), ['a.txt', 'b', 'z'])
        self.assertEqual(names(depth=0), [])
        self.assertEqual(names(depth=2), ['a.txt', 'b', 'b/b.txt', 'b/c', 'b/fifo', 'z'])
        self.assertEqual(names(depth=9), ['a.txt', 'b', 'b/b.txt', 'b/c', 'b/c/d.py', 'b/fifo', 'z'])
        for query, status in (({'path': self.dir, 'depth': -1}, 400), ({'path': '/etc/passwd'}, 400),
                              ({'path': self.dir, 'depth': 'x'}, 400), ({'path': '/nope'}, 404),
                              ({'path': self.dir + '/z'}, 400), ({}, 400)):
            self.assertEqual(self.get('/directories/list', **query).status, status)

    def test_list_large(self):
        self.s.out(f'cd {self.dir}; seq -w 30000 | xargs touch')
        entries = self.get('/directories/list', path=self.dir).json
        self.assertEqual([e['path'][-5:] for e in entries], [f'{i:05}' for i in range(1, 30001)])

    def test_odd_names(self):
        self.s.out(f"cd {self.dir}; touch \"$(printf 'new\\nline')\" \"$(printf '\\377\\376')\" "
                   "'quo\"te' '<&>'")
        entries = self.get('/directories/list', path=self.dir).json
        self.assertEqual([e['path'][len(self.dir) + 1:] for e in entries],
                         ['<&>', 'new\nline', 'quo"te', '\ufffd\ufffd'])
        self.assertEqual(self.get('/files/info', path=f'{self.dir}/new\nline').status, 200)
        raw = self.s.call('DELETE', f'/files?path={self.dir}/%ff%fe')
        self.assertEqual(raw.status, 200)
        self.assertEqual(self.s.out(f'ls -A {self.dir} | grep -c . '), '4')

    def test_search(self):
        self.tree()
        found = lambda pattern, path=None: [
            e['path'][len(self.dir) + 1:] for e in
            self.get('/files/search', path=path or self.dir, pattern=pattern).json]
        self.assertEqual(found('*.txt'), ['a.txt', 'b/b.txt'])
        self.assertEqual(found('**'), ['a.txt', 'b/b.txt', 'b/c/d.py', 'b/fifo', 'z'])
        self.assertEqual(found('[ab].{txt,py}'), ['a.txt', 'b/b.txt'])
        self.assertEqual(found('[!a].txt'), ['b/b.txt'])
        self.assertEqual(found('?.py'), ['b/c/d.py'])
        self.assertEqual(found('b/*'), [])
        self.assertEqual(len(self.get('/files/search', path=self.dir).json), 5)
        self.assertEqual(self.get('/files/search', path=self.dir, pattern='[').status, 500)
        self.assertEqual(self.get('/files/search', path=self.dir, pattern='{a').status, 500)
        self.assertEqual(CODE(self.get('/files/search', pattern='x')), (400, 'MISSING_QUERY'))
        self.assertEqual(CODE(self.get('/files/search', path='/nope')), (404, 'FILE_NOT_FOUND'))
        begun = time.monotonic()
        self.write('a' * 200)
        self.assertEqual(found('*a' * 60 + 'b'), [])
        self.assertLess(time.monotonic() - begun, 10)

    def test_grep(self):
        self.s.out(f"cd {self.dir}; printf 'one\\nTwo needle\\n\\nneedle needle\\n' > a; mkdir d; "
                   f"printf 'xneedle' > d/b.py; printf 'needle\\0' > binary; mkfifo f; "
                   f"head -c 400000 /dev/zero | tr '\\0' '\\n' > d/c; echo needle >> d/c")
        lines = lambda **q: [
            (e['path'][len(self.dir) + 1:], e['line'], e['column'], e['text']) for e in map(
                json.loads, self.get('/files/grep', path=self.dir, **q).body.splitlines())]
        self.assertEqual(lines(query='needle'), [
            ('a', 2, 5, 'Two needle'), ('a', 4, 1, 'needle needle'), ('d/b.py', 1, 2, 'xneedle'),
            ('d/c', 400001, 1, 'needle')])
        self.assertEqual(len(lines(query='TWO NEEDLE', ignore_case='true')), 1)
        self.assertEqual(len(lines(query='needle', include='*.py')), 1)
        self.assertEqual(len(lines(query='needle', max_matches=2)), 2)
        self.assertEqual(lines(query='nothing of it'), [])
        self.assertEqual(self.get('/files/grep', path=self.dir).status, 400)

    def test_tree_that_changes_under_a_walk(self):
        self.s.out(f'cd {self.dir}; mkdir -p a/b/c outside; touch a/b/c/f outside/keep; '
                   'for i in 1 2 3 4 5 6 7 8; do mkdir -p a/b/c/$i/x; done')
        mover = self.s.events('/command', {
            'command': f'cd {self.dir}; while :; do mv a/b/c outside/; mv outside/c a/b/; done',
            'background': True})[0]['text']
        for _ in range(60):
            self.assertEqual(self.get('/files/search', path=f'{self.dir}/a').status, 200)
        for _ in range(20):
            self.s.call('DELETE', f'/directories?path={self.dir}/a/b/c')
            self.s.out(f'mkdir -p {self.dir}/a/b/c/1/x')
        self.assertEqual(self.s.out(f'ls {self.dir}/outside/keep'), f'{self.dir}/outside/keep')
        self.s.call('DELETE', f'/command?id={mover}')


class Tar(Base):
    def test_round_trip(self):
        long_name = 'n' * 90 + '/' + 'm' * 120
        self.s.out(f'cd {self.dir}; mkdir -p src/sub src/{"n" * 90}; echo hello > src/a; '
                   f'printf x > "src/{long_name}"; chmod 751 src/a; ln -s a src/link; '
                   f'head -c 100000 /dev/urandom > src/sub/big; mkfifo src/fifo; touch src/empty')
        answer = self.get('/directories/tar', path=f'{self.dir}/src')
        self.assertEqual(answer.headers['Content-Type'], 'application/x-tar')
        with tarfile.open(fileobj=io.BytesIO(answer.body)) as archive:
            self.assertEqual(archive.getnames(), ['a', 'empty', 'link', 'n' * 90, long_name, 'sub',
                                                  'sub/big'])
            self.assertEqual(archive.getmember('a').mode, 0o751)
        answer = self.s.call('POST', f'/directories/tar?path={self.dir}/dst/new', answer.body)
        self.assertEqual((answer.status, answer.json), (200, {'entries': 7}))
        self.s.out(f'rm {self.dir}/src/fifo; diff -r {self.dir}/src {self.dir}/dst/new')
        self.assertEqual(self.s.out(f'cd {self.dir}/dst/new; readlink link; stat -c %a a'),
                         'a\n751')

    def archive(self, *members):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w') as archive:
            for name, kind, link, content in members:
                info = tarfile.TarInfo(name)
                info.type, info.linkname, info.size = kind, link, len(content)
                info.mode = 0o4755
                archive.addfile(info, io.BytesIO(content))
        return out.getvalue()

    def test_archives_that_try_to_get_out(self):
        self.s.out(f'mkdir -p {self.dir}/victim')
        reg, sym, hard = tarfile.REGTYPE, tarfile.SYMTYPE, tarfile.LNKTYPE
        for members in ([('../victim/x', reg, '', b'x')], [('/tmp/victim-x', reg, '', b'x')],
                        [('l', sym, '../victim', b''), ('l/x', reg, '', b'x')],
                        [('a/../../victim/x', reg, '', b'x')],
                        [('h', hard, '../victim/../../../etc/passwd', b'')],
                        [('h', hard, '/etc/passwd', b'')],
                        [('l', sym, '/proc/self/fd/5', b''), ('l/x', reg, '', b'x')],
                        [('dev', tarfile.CHRTYPE, '', b'')], [('f', tarfile.FIFOTYPE, '', b'')]):
            with self.subTest(members=members):
                answer = self.s.call('POST', f'/directories/tar?path={self.dir}/in',
                                     self.archive(*members))
                self.assertNotEqual(answer.status, 200)
        self.assertEqual(self.s.out(f'ls {self.dir}/victim; ls /tmp/victim-x 2>&1 | grep -c "No such"'),
                         '1')

    def test_set_id_bits_do_not_travel(self):
        self.s.call('POST', f'/directories/tar?path={self.dir}',
                    self.archive(('a', tarfile.REGTYPE, '', b'x')))
        self.assertEqual(self.s.out(f'stat -c %a {self.dir}/a'), '755')

    def test_refusals(self):
        good = self.archive(('a', tarfile.REGTYPE, '', b'x' * 5000))
        for body in (b'junk' * 200, good[:1000]):
            answer = self.s.call('POST', f'/directories/tar?path={self.dir}', body)
            self.assertEqual(CODE(answer), (400, 'INVALID_FILE_CONTENT'))
        self.assertEqual(self.get('/directories/tar', path='/nope').status, 404)
        self.assertEqual(self.get('/directories/tar', path='/etc/passwd').status, 400)
        self.assertEqual(self.get('/directories/tar').status, 400)


class Watch(Base):
    def test_events(self):
        self.s.out(f'mkdir -p {self.dir}/sub/deep')
        connection = self.s.connection()
        connection.request('GET', f'/files/watch?path={self.dir}')
        response = connection.getresponse()
        lines = lambda: json.loads(response.readline())
        self.assertEqual(lines()['event'], 'ready')
        self.s.out(f'cd {self.dir}; echo x > sub/deep/f; mkdir -p n1/n2; echo y > n1/n2/g; '
                   f'mv sub/deep/f sub/h; rm sub/h')
        seen = []
        while ('delete', 'sub/h') not in seen:
            event = lines()
            seen.append((event['event'], event.get('path', '')[len(self.dir) + 1:]))
        for wanted in (('create', 'sub/deep/f'), ('modify', 'sub/deep/f'), ('create', 'n1'),
                       ('create', 'n1/n2'), ('create', 'n1/n2/g'), ('moved_from', 'sub/deep/f'),
                       ('moved_to', 'sub/h')):
            self.assertIn(wanted, seen)
        connection.close()

    def test_refusals(self):
        self.assertEqual(self.get('/files/watch', path='/nope').status, 404)
        self.assertEqual(self.get('/files/watch', path='/etc/passwd').status, 400)
        self.assertEqual(self.get('/files/watch').status, 400)


class AsUser(Base):
    """The image's User is who the file calls run as."""
    user = 'dev'

    def test_ownership_and_permissions(self):
        path = self.write('a')
        self.assertEqual(self.s.out(f'stat -c %U:%G {path}'), 'dev:dev')
        self.s.out('echo secret > /tmp/secret; chmod 600 /tmp/secret', uid=0)
        self.assertEqual(CODE(self.download('/tmp/secret')), (500, 'RUNTIME_ERROR'))
        self.assertEqual(self.upload([({'path': '/etc/x'}, b'x')]).status, 500)
        self.assertEqual(self.s.call('POST', '/directories', {'/opt/x': {}}).status, 500)
        self.assertEqual(self.delete('/directories', path='/opt').status, 500)
        answer = self.s.call('POST', '/files/permissions', {'/tmp/secret': {'mode': 777}})
        self.assertEqual(answer.status, 500)
        # Supplementary groups count.
        self.s.out('echo of-audio > /tmp/audio; chgrp audio /tmp/audio; chmod 640 /tmp/audio', uid=0)
        self.assertEqual(self.download('/tmp/audio').body, b'of-audio\n')
        self.assertEqual(list(self.get('/files/info', path='~').json.values())[0]['path'],
                         '/srv/dev')

    def test_file_in_a_directory_that_is_not_ours(self):
        self.s.out('mkdir /opt/shared; echo old > /opt/shared/f; chmod 666 /opt/shared/f', uid=0)
        self.assertEqual(self.upload([({'path': '/opt/shared/f'}, b'new\n')]).status, 200)
        self.assertEqual(self.s.out('cat /opt/shared/f; stat -c %U /opt/shared/f'), 'new\nroot')


class Speed(Base):
    def test_many_small_calls_and_a_large_file(self):
        path = self.write('a', b'x')
        connection = self.s.connection()
        begun = time.monotonic()
        for _ in range(300):
            self.s.call('GET', '/files/info?path=' + path, connection=connection)
        connection.close()
        self.assertLess(time.monotonic() - begun, 9)  # 12 where each waits for a delayed ACK

    def test_large_file_at_constant_memory(self):
        def memory():
            with open(f'/proc/{self.s.pid}/smaps_rollup', encoding='ascii') as file:
                return int([l for l in file if l.startswith('Anonymous')][0].split()[1])
        self.s.out('truncate -s 2G /opt/sparse')
        connection = self.s.connection()
        connection.request('GET', '/files/download?path=/opt/sparse')
        response = connection.getresponse()
        response.read(100 << 20)
        self.assertLess(memory(), 4096)
        connection.close()


if __name__ == '__main__':
    unittest.main()
