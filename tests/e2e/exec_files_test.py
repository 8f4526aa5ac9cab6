"""Files, directories and their extensions in a real sandbox, through the daemon's proxy."""
import contextlib
import io
import json
import os
import tarfile
import unittest
import urllib.parse

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image
from exec_contract_test import TIME, Contract
from files_test import multipart


class FileContract(Contract):
    def setUp(self):
        self.dir = '/tmp/' + self.id().rsplit('.', 1)[1]
        self.s.out(f'mkdir -p {self.dir}')

    def write(self, name, content=b'x', **metadata):
        path = name if name.startswith('/') else f'{self.dir}/{name}'
        self.empty(self.s.upload(({'path': path, **metadata}, content)))
        return path

    def download(self, path, **headers):
        return self.s.call('GET', '/files/download?path=' + urllib.parse.quote(path),
                           headers={k.replace('_', '-'): v for k, v in headers.items()})

    def info(self, path):
        return self.s.get('/files/info', path=path).json[path]


class Files(FileContract):
    def test_info(self):
        path = self.write('f', b'12345', mode=640, owner='dev', group='audio')
        self.s.out(f'ln -s f {self.dir}/link; mkfifo {self.dir}/fifo')
        info = self.info(path)
        self.assertEqual({k: info[k] for k in ('path', 'type', 'size', 'owner', 'group', 'mode')},
                         {'path': path, 'type': 'file', 'size': 5, 'owner': 'dev', 'group': 'audio',
                          'mode': 640})
        for when in ('modified_at', 'created_at'):
            self.assertRegex(info[when], TIME)
        for name, kind in (('link', 'symlink'), ('fifo', 'other'), ('', 'directory')):
            self.assertEqual(self.info(f'{self.dir}/{name}')['type'], kind)
        self.assertEqual(self.s.call('GET', '/files/info').json, {})
        self.refused(self.s.get('/files/info', path=[path, '/nope']), 404, 'FILE_NOT_FOUND')

    def test_upload(self):
        path = f'{self.dir}/new/deep/f'
        self.empty(self.s.upload(({'path': path}, b'one'), ({'path': f'{self.dir}/g'}, b'two')))
        self.assertEqual(self.download(path).body + self.download(f'{self.dir}/g').body, b'onetwo')
        self.assertEqual(self.info(path)['mode'], 644)
        self.write('g', b'three', mode=755)
        self.assertEqual(self.info(f'{self.dir}/g')['mode'], 755)
        for pairs, options, code in (
                ([(None, b'x')], {}, 'INVALID_FILE'), ([({'path': path}, None)], {}, 'INVALID_FILE'),
                ([({'path': path}, b'x')], {'metadata_filename': False}, 'INVALID_FILE'),
                ([(b'{', b'x')], {}, 'INVALID_FILE_METADATA'), ([({}, b'x')], {}, 'INVALID_FILE_METADATA')):
            self.refused(self.s.upload(*pairs, **options), 400, code)
        self.refused(self.s.upload(({'path': '/tmp'}, b'x')), 500, 'RUNTIME_ERROR')

    def test_upload_replaces_in_one_step(self):
        path = self.write('f', b'old' * 1000)
        self.s.out(f'mkfifo {self.dir}/seen')
        self.s.background(f'torn=; while [ ! -e {self.dir}/stop ]; do n=$(wc -c <{path}); '
                          f'case $n in 3000|5000) ;; *) torn="$torn <$n>" ;; esac; done; '
                          f'echo "$torn" >{self.dir}/seen')
        for _ in range(50):
            self.write('f', b'newer' * 1000)
            self.write('f', b'old' * 1000)
        self.write('stop', b'')
        self.assertEqual(self.s.out(f'cat {self.dir}/seen').strip(), '')

    def test_chunked_upload_in_pieces(self):
        content = os.urandom(300_000)
        body = multipart([({'path': f'{self.dir}/c'}, content)])
        self.empty(self.s.call('POST', '/files/upload',
                               (body[i:i + 7001] for i in range(0, len(body), 7001)),
                               {'Content-Type': 'multipart/form-data; boundary=XbX'}))
        self.assertEqual(self.download(f'{self.dir}/c').body, content)

    def test_download(self):
        path = self.write('a \u20ac"', b'0123456789')
        answer = self.download(path)
        self.assertEqual((answer.status, answer.body), (200, b'0123456789'))
        self.assertEqual(answer.headers['Content-Type'], 'application/octet-stream')
        self.assertEqual(answer.headers['Content-Length'], '10')
        self.assertEqual(answer.headers['Content-Disposition'],
                         "attachment; filename*=UTF-8''a%20%E2%82%AC%22")
        for given, wanted in (('bytes=2-4', b'234'), ('bytes=7-', b'789'), ('bytes=-2', b'89'),
                              ('bytes=0-0,5-6', b'0')):
            part = self.download(path, Range=given)
            self.assertEqual((part.status, part.body), (206, wanted))
        self.assertRegex(self.download(path, Range='bytes=2-4').headers['Content-Range'],
                         'bytes 2-4/10')
        self.refused(self.download(path, Range='bytes=10-'), 416, 'UNKNOWN')
        modified = answer.headers['Last-Modified']
        self.assertEqual(self.download(path, If_Modified_Since=modified).status, 304)
        self.assertEqual(self.download(
            path, If_Unmodified_Since='Thu, 01 Jan 1970 00:00:00 GMT').status, 412)
        self.refused(self.s.call('GET', '/files/download'), 400, 'MISSING_QUERY')
        self.refused(self.download('/nope'), 404, 'FILE_NOT_FOUND')

    def test_download_of_lines(self):
        path = self.write('lines', b'one\r\ntwo\n\nfo\rur\r\r\nfive')
        lines = lambda **query: self.s.get('/files/download', path=path, **query)
        self.assertEqual(lines(offset=2, limit=2).body, b'two\n')
        self.assertEqual(lines(offset=2, limit=2).headers['Content-Type'],
                         'text/plain; charset=utf-8')
        self.assertEqual(lines(limit=1).body, b'one')
        self.assertEqual(lines(offset=4).body, b'fo\rur\nfive')
        self.assertEqual(lines(offset=5, limit=2 ** 63 - 1).body, b'five')
        self.assertEqual(lines(offset=6).body, b'')
        for query in ({'offset': 0}, {'offset': 'x'}, {'limit': -1}, {'limit': 2 ** 63}):
            self.refused(lines(**query), 400, 'INVALID_REQUEST_BODY')
        self.refused(self.s.call('GET', f'/files/download?path={path}&limit=1',
                                 headers={'Range': 'bytes=0-1'}), 400, 'INVALID_REQUEST_BODY')
        # Lines that cross the parts in which a file is read; one without end.
        long = b'\r' * 300000 + b'x'
        path = self.write('long', b'a' * 131071 + b'\r\n' + long + b'\n' + b'b' * 400000)
        self.assertEqual(lines(offset=1, limit=1).body, b'a' * 131071)
        self.assertEqual(lines(offset=2, limit=1).body, long)
        self.assertEqual(lines(offset=3).body, b'b' * 400000)

    def test_ten_gibibytes_at_constant_memory(self):
        path = f'{self.dir}/big'
        self.s.out(f'truncate -s 10G {path}')
        response = self.s.open('GET', f'/files/download?path={path}')
        self.assertEqual(response.headers['Content-Length'], str(10 << 30))
        response.read(64 << 20)
        self.assertLess(self.s.memory_kib(), 1024)
        response.close()
        part = self.download(path, Range=f'bytes={(10 << 30) - 3}-')
        self.assertEqual((part.status, part.body), (206, b'\0\0\0'))

        # The same way in: a body of 10 GiB is announced, a part of it comes, memory stays.
        def body():
            yield (b'--XbX\r\nContent-Disposition: form-data; name="metadata"; filename="m"\r\n\r\n'
                   b'{"path":"%s"}\r\n--XbX\r\nContent-Disposition: form-data; name="file"; '
                   b'filename="f"\r\n\r\n' % path.encode())
            for _ in range(64):
                yield bytes(1 << 20)
            self.used = self.s.memory_kib()
            raise ConnectionAbortedError
        with self.assertRaises(ConnectionAbortedError):
            self.s.call('POST', '/files/upload', body(),
                        {'Content-Type': 'multipart/form-data; boundary=XbX',
                         'Content-Length': str(10 << 30)})
        self.assertLess(self.used, 1024)
        self.assertEqual(self.info(path)['size'], 10 << 30)  # untouched by half an upload
        until(lambda: self.s.out(f'ls -A {self.dir}') == 'big', 30 * SLOWNESS, 'nothing is left')

    def test_permissions(self):
        path = self.write('f')
        self.empty(self.s.call('POST', '/files/permissions',
                               {path: {'owner': 'other', 'group': 'video', 'mode': 600}}))
        info = self.info(path)
        self.assertEqual((info['owner'], info['group'], info['mode']), ('other', 'video', 600))
        self.refused(self.s.call('POST', '/files/permissions', '['), 400, 'INVALID_REQUEST_BODY')
        self.refused(self.s.call('POST', '/files/permissions', {'/nope': {}}), 500, 'RUNTIME_ERROR')

    def test_names_are_the_sandboxes_own(self):
        self.s.out('echo "late:x:7777:7778::/:/bin/sh" >>/etc/passwd; echo "lateg:x:7778:" >>/etc/group')
        path = self.write('f', owner='late', group='lateg')
        self.assertEqual(self.s.out(f'stat -c %u:%g {path}'), '7777:7778')
        self.assertEqual((self.info(path)['owner'], self.info(path)['group']), ('late', 'lateg'))

    def test_move(self):
        one, two = self.write('one', b'1'), self.write('two', b'2')
        move = lambda a, b: self.s.call('POST', '/files/mv', [{'src': a, 'dest': b}])
        self.empty(move(one, f'{self.dir}/made/moved'))
        self.refused(move('/nope', f'{self.dir}/x'), 404, 'FILE_NOT_FOUND')
        self.refused(move(two, f'{self.dir}/made/moved'), 500, 'RUNTIME_ERROR')
        self.assertEqual(self.download(f'{self.dir}/made/moved').body, b'1')
        self.refused(self.s.call('POST', '/files/mv', '{}'), 400, 'INVALID_REQUEST_BODY')

    def test_search(self):
        for name in ('a.py', 'sub/b.py', 'sub/deep/c.txt'):
            self.write(name)
        found = lambda pattern: sorted(e['path'][len(self.dir) + 1:] for e in
                                       self.s.get('/files/search', path=self.dir, pattern=pattern).json)
        self.assertEqual(found('*.py'), ['a.py', 'sub/b.py'])
        self.assertEqual(found('**'), ['a.py', 'sub/b.py', 'sub/deep/c.txt'])
        self.assertEqual(found('{a,c}.*'), ['a.py', 'sub/deep/c.txt'])
        self.assertEqual(found('sub*'), [])  # base names of what is no directory
        self.refused(self.s.call('GET', '/files/search'), 400, 'MISSING_QUERY')
        self.refused(self.s.get('/files/search', path='/nope'), 404, 'FILE_NOT_FOUND')
        self.refused(self.s.get('/files/search', path=self.dir, pattern='['), 500, 'RUNTIME_ERROR')

    def test_replace(self):
        path, other = self.write('f', b'a-b-a', mode=600), self.write('g', b'x')
        answer = self.s.call('POST', '/files/replace?verbose=true',
                             {path: {'old': 'a', 'new': 'cc'}, other: {'old': 'zz', 'new': ''}})
        self.assertEqual(answer.json, {path: {'replacedCount': 2}, other: {'replacedCount': 0}})
        self.assertEqual((self.download(path).body, self.info(path)['mode']), (b'cc-b-cc', 600))
        self.empty(self.s.call('POST', '/files/replace', {path: {'old': 'b', 'new': 'd'}}))
        self.refused(self.s.call('POST', '/files/replace', {path: {'old': '', 'new': 'd'}}), 400,
                     'INVALID_REQUEST_BODY')
        self.refused(self.s.call('POST', '/files/replace', {'/nope': {'old': 'a', 'new': 'd'}}), 404,
                     'FILE_NOT_FOUND')

    def test_delete(self):
        path = self.write('f')
        self.empty(self.s.delete('/files', path=[path, '/tmp/absent']))
        self.refused(self.s.get('/files/info', path=path), 404, 'FILE_NOT_FOUND')
        self.refused(self.s.delete('/files', path=self.dir), 500, 'RUNTIME_ERROR')

    def test_paths_are_expanded(self):
        self.empty(self.s.upload(({'path': '~/home'}, b'1'), ({'path': '$HOME/${HOME}x'}, b'2')))
        self.assertEqual(self.s.out('cat /root/home /root/root/x 2>/dev/null; cat /root//rootx'), '12')
        self.assertEqual(self.s.get('/files/info', path='$UNSET_/x').status, 500)

    def test_a_dollar_twice_is_one_and_ours_are_literal(self):
        names = ('$postId.tsx', '$HOME', '${HOME}', 'a$$b', '$')
        twice = lambda name: f'{self.dir}/{name}'.replace('$', '$$')
        for name in names:
            with self.subTest(name):
                self.empty(self.s.upload(({'path': twice(name)}, name.encode())))
                self.assertEqual(self.s.get('/files/download', path=twice(name)).body, name.encode())
        self.assertEqual(sorted(os.path.basename(entry['path'])
                                for entry in self.s.get('/directories/list', path=self.dir).json), sorted(names))
        self.empty(self.s.call('POST', '/directories', {f'{self.dir}/$$dir': {}}))
        self.assertEqual(self.s.out('pwd', cwd=f'{self.dir}/$$dir'), f'{self.dir}/$dir')
        self.assertEqual(self.s.out('pwd', cwd='$HOME'), '/root')
        self.assertEqual(self.s.get('/directories/tar', path=f'{self.dir}/$dir').status, 200)
        self.assertEqual(self.s.get('/files/grep', path=f'{self.dir}/$dir', query='x').status, 200)
        with contextlib.closing(self.s.open('GET', f'/files/watch?path={self.dir}/$dir')) as watch:
            self.assertIn(b'ready', watch.readline())
        session = self.s.call('POST', '/session').json['session_id']
        run = lambda cwd: [event.get('text') for event in self.s.events(
            f'/session/{session}/run', {'command': 'pwd', 'cwd': cwd}) if event['type'] == 'stdout']
        self.assertEqual((run(f'{self.dir}/$$dir'), run('$HOME')), ([f'{self.dir}/$dir'], ['/root']))


class Directories(FileContract):
    def test_make(self):
        self.empty(self.s.call('POST', '/directories', {
            f'{self.dir}/a/b': {'mode': 700, 'owner': 'dev', 'group': 'dev'}, f'{self.dir}/c': {}}))
        info = self.info(f'{self.dir}/a/b')
        self.assertEqual((info['type'], info['mode'], info['owner']), ('directory', 700, 'dev'))
        self.assertEqual((self.info(f'{self.dir}/a')['mode'], self.info(f'{self.dir}/c')['mode']),
                         (755, 755))
        self.refused(self.s.call('POST', '/directories', '['), 400, 'INVALID_REQUEST_BODY')
        self.refused(self.s.call('POST', '/directories', {'/etc/passwd/x': {}}), 500, 'RUNTIME_ERROR')

    def test_delete(self):
        self.write('d/e/f')
        self.s.out(f'ln -s /etc {self.dir}/d/link')
        self.empty(self.s.delete('/directories', path=[f'{self.dir}/d', '/tmp/absent']))
        self.refused(self.s.get('/files/info', path=f'{self.dir}/d'), 404, 'FILE_NOT_FOUND')
        self.assertEqual(self.info('/etc/passwd')['type'], 'file')

    def test_list(self):
        for name in ('b/x', 'a', 'b/c/y'):
            self.write(name)
        listed = lambda **q: [e['path'][len(self.dir) + 1:] for e in
                              self.s.get('/directories/list', path=self.dir, **q).json]
        self.assertEqual(listed(), ['a', 'b'])
        self.assertEqual(listed(depth=2), ['a', 'b', 'b/c', 'b/x'])
        self.assertEqual(listed(depth=9), ['a', 'b', 'b/c', 'b/c/y', 'b/x'])
        self.assertEqual(listed(depth=0), [])
        self.s.out(f'ln -s {self.dir} {self.dir}-link')
        for path, depth in ((self.dir, -1), (self.dir, 'x'), (f'{self.dir}/a', 1),
                            (f'{self.dir}-link', 1)):
            self.refused(self.s.get('/directories/list', path=path, depth=depth), 400,
                         'INVALID_REQUEST_BODY')
        self.refused(self.s.get('/directories/list', path='/nope'), 404, 'FILE_NOT_FOUND')


class Extensions(FileContract):
    def test_watch(self):
        response = self.s.open('GET', f'/files/watch?path={self.dir}')
        event = lambda: json.loads(response.readline())
        self.assertEqual(event()['event'], 'ready')
        self.s.out(f'mkdir {self.dir}/new')
        self.assertEqual(event()['path'], f'{self.dir}/new')
        self.write('new/f', b'1')
        seen = []
        while not seen or seen[-1]['path'] != f'{self.dir}/new/f':
            seen.append(event())
        self.assertIn(seen[-1]['event'], ('create', 'moved_to'))
        response.close()

    def test_grep(self):
        self.write('a.txt', b'one\nTwo two\n')
        self.write('b/c.md', b'two\n')
        found = lambda **q: [(m['path'][len(self.dir) + 1:], m['line'], m['column'], m['text']) for m in
                             map(json.loads, self.s.get('/files/grep', path=self.dir,
                                                        **q).body.splitlines())]
        self.assertEqual(found(query='two'), [('a.txt', 2, 5, 'Two two'), ('b/c.md', 1, 1, 'two')])
        self.assertEqual(found(query='TWO', ignore_case='true', include='*.txt'),
                         [('a.txt', 2, 1, 'Two two')])
        self.refused(self.s.get('/files/grep', path=self.dir), 400, 'MISSING_QUERY')

    def test_tar_there_and_back(self):
        self.write('t/a', b'content', mode=640)
        self.s.out(f'mkdir {self.dir}/t/empty; ln -s a {self.dir}/t/link')
        archive = self.s.get('/directories/tar', path=f'{self.dir}/t').body
        with tarfile.open(fileobj=io.BytesIO(archive)) as tar:
            self.assertEqual(sorted(tar.getnames()), ['a', 'empty', 'link'])
        answer = self.s.call('POST', f'/directories/tar?path={self.dir}/u', archive)
        self.assertEqual((answer.status, answer.json), (200, {'entries': 3}))
        self.assertEqual(self.s.out(f'cd {self.dir}/u; ls; cat link; stat -c %a a'),
                         'a\nempty\nlink\ncontent640')

    def test_tar_that_leads_out(self):
        out = io.BytesIO()
        with tarfile.open(fileobj=out, mode='w') as tar:
            tar.addfile(tarfile.TarInfo('../../etc/evil'), None)
        answer = self.s.call('POST', f'/directories/tar?path={self.dir}', out.getvalue())
        self.refused(answer, 400, 'INVALID_FILE_CONTENT')


class ImageUser(FileContract):
    """Default user of everything: the image's, groups included."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.image = shell_image(cls.daemon, 'as-dev:latest', user='dev')
        cls.s = Box(cls.daemon, cls.image)

    def test_commands_sessions_terminals_code(self):
        wanted = '1000\n1000 29 44\n/home/dev'
        self.assertEqual(self.s.out('id -u; id -G; echo ~'), wanted)
        session = self.s.call('POST', '/session').json['session_id']
        for path, member in ((f'/session/{session}/run', 'command'), ('/code', 'code')):
            events = self.s.events(path, {member: 'id -u; id -G; echo ~'})
            self.assertEqual([e['text'].strip() for e in events if e['type'] == 'stdout'],
                             wanted.split('\n'))
        terminal = self.s.call('POST', '/pty', {'command': 'id -u; id -G; echo ~'}).json['session_id']
        ws = self.s.websocket(f'/pty/{terminal}/ws?pty=0')
        ws.until(lambda o: isinstance(o, bytes) and o.decode().strip() == wanted)

    def test_files(self):
        path = self.write('mine')
        self.assertEqual((self.info(path)['owner'], self.info(path)['group']), ('dev', 'dev'))
        self.s.out('echo secret >/opt/root; chmod 600 /opt/root', uid=0)
        self.refused(self.download('/opt/root'), 500, 'RUNTIME_ERROR')
        self.refused(self.s.upload(({'path': '/etc/new'}, b'x')), 500, 'RUNTIME_ERROR')
        self.refused(self.s.delete('/files', path='/etc/passwd'), 500, 'RUNTIME_ERROR')
        # A group that only the image's group file gives.
        self.s.out('mkdir /opt/shared; chgrp audio /opt/shared; chmod 770 /opt/shared', uid=0)
        self.write('/opt/shared/f')

    def test_files_of_whom_the_path_names(self):
        call = lambda who, method, route, body=None: self.s.call(
            method, f'/v1/filesystem/{who}/{who}{route}', body)
        self.assertEqual(call(4242, 'POST', '/directories', {'/tmp/theirs': {'mode': 700}}).status, 200)
        self.assertEqual(self.info('/tmp/theirs')['owner'], '4242')
        self.refused(self.s.get('/directories/list', path='/tmp/theirs'), 500, 'RUNTIME_ERROR')
        listing = '/directories/list?path=/tmp/theirs'
        self.refused(call(1000, 'GET', listing), 500, 'RUNTIME_ERROR')
        for who in (4242, 0):
            self.assertEqual(call(who, 'GET', listing).json, [])
        self.refused(call(65536, 'GET', listing), 501, 'FILESYSTEM_IDENTITY_UNAVAILABLE')
        self.assertEqual(self.s.out('id -u'), '1000')


class Hostile(FileContract):
    def test_what_is_no_file(self):
        self.s.out(f'mkfifo {self.dir}/fifo; busybox nc -l -p 9 -e true & ln -s /dev/zero {self.dir}/zero; kill $!')
        for path in (f'{self.dir}/fifo', f'{self.dir}/zero', '/dev/full', '/dev/pts/ptmx'):
            self.refused(self.download(path), 500, 'RUNTIME_ERROR')
            self.refused(self.s.call('POST', '/files/replace', {path: {'old': 'a', 'new': 'b'}}), 500,
                         'RUNTIME_ERROR')
        for path in (f'{self.dir}/fifo', '/dev/full'):
            self.refused(self.s.upload(({'path': path}, b'x')), 500, 'RUNTIME_ERROR')

    def test_kernel_files_and_magic_links(self):
        for path in ('/proc/1/environ', '/proc/1/mem', '/proc/kmsg', '/proc/1/root/etc/passwd',
                     '/proc/self/fd/5/cgroup.procs', '/proc/self/cwd/etc/passwd'):
            answer = self.download(path)
            self.assertFalse(answer.status == 200 and answer.body, (path, answer.body[:100]))
        before = self.s.out('cat /proc/1/oom_score_adj')
        for path in ('/proc/self/oom_score_adj', '/proc/1/oom_score_adj', '/proc/self/mem',
                     '/sys/fs/cgroup/cgroup.freeze', '/proc/self/fd/5/x'):
            self.assertEqual(self.s.upload(({'path': path}, b'500')).status, 500, path)
        self.assertEqual(self.s.out('cat /proc/1/oom_score_adj'), before)

    def test_odd_names(self):
        names = ['new\nline', 'tab\t"quote"', 'back\\slash', '\u2028', '-rf', ' ', '...']
        for name in names:
            self.write(name, name.encode())
            self.assertEqual(self.download(f'{self.dir}/{name}').body, name.encode())
        self.s.out(f"touch \"$(printf '{self.dir}/bad\\377')\"")
        listed = [e['path'].rpartition('/')[2] for e in
                  self.s.get('/directories/list', path=self.dir).json]
        self.assertEqual(sorted(listed), sorted(names + ['bad\ufffd']))

    def test_a_full_disk(self):
        path = self.write('/dev/shm/kept', b'old')
        self.refused(self.s.upload(({'path': path}, bytes(70 << 20))), 500, 'RUNTIME_ERROR')
        self.assertEqual(self.download(path).body, b'old')
        self.assertEqual(self.s.out('ls -A /dev/shm'), 'kept')

    def test_a_writer_that_races_the_walk(self):
        self.s.out(f'mkdir -p {self.dir}/t/a/b {self.dir}/t/c')
        stop = self.s.background(f'cd {self.dir}/t; while :; do mv a/b c/; ln -s /etc a/b; rm a/b; '
                                 'mv c/b a/; done')
        for _ in range(60):
            paths = [e['path'] for e in self.s.get('/directories/list', path=f'{self.dir}/t',
                                                   depth=5).json]
            self.assertFalse([p for p in paths if 'passwd' in p])
        self.s.call('DELETE', f'/command?id={stop}')
        self.empty(self.s.delete('/directories', path=f'{self.dir}/t'))
        self.assertEqual(self.info('/etc/passwd')['type'], 'file')


if __name__ == '__main__':
    unittest.main()
