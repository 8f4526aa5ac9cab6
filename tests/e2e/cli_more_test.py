"""The command line client's later verbs against a real daemon: copying, terminals, watching."""
import http.server
import json
import os
import pathlib
import random
import subprocess
import tempfile
import threading
import unittest

import atoll
import box
from atoll import BUILD, SLOWNESS, at_a_terminal
from json_request import JsonRequest


class Crowd(http.server.ThreadingHTTPServer):
    """Plays a daemon whose sandboxes are measured when all of them have been asked, and not before."""
    daemon_threads = True

    def __init__(self, ids):
        self.ids, self.all_asked = ids, threading.Barrier(len(ids))
        super().__init__(('127.0.0.1', 0), CrowdHandler)


class CrowdHandler(JsonRequest):
    protocol_version = 'HTTP/1.1'

    def do_GET(self):
        path = self.path.partition('?')[0]
        if path == '/v1/sandboxes':
            items = [{'id': name, 'status': {'state': 'Running'}} for name in self.server.ids]
            self.answer(200, {'items': items, 'pagination': {'hasNextPage': False}})
        elif path.endswith('/endpoints/44772'):
            self.answer(200, {'endpoint': 'unused', 'headers': {}})
        elif path.endswith('/metrics'):
            try:
                self.server.all_asked.wait(20 * SLOWNESS)
            except threading.BrokenBarrierError:
                return self.answer(500, {'code': 'ALONE', 'message': 'asked alone'})
            number = self.server.ids.index(path.split('/')[3])
            self.answer(200, {'cpu_used_pct': number, 'mem_used_mib': 1, 'mem_total_mib': 2})
        else:
            self.answer(404, {'code': 'NO', 'message': 'not here'})


class Stats(unittest.TestCase):
    def test_all_are_asked_together(self):
        ids = [f'{number:08x}-0000-4000-8000-000000000000' for number in range(12)]
        with Crowd(ids) as server:
            thread = threading.Thread(target=server.serve_forever)
            thread.start()
            self.addCleanup(thread.join)
            self.addCleanup(server.shutdown)
            done = subprocess.run([BUILD / 'atoll', 'stats', '--no-stream', '--json'], check=True,
                                  env={'PATH': os.environ['PATH'], 'ATOLL_API_KEY': 'key',
                                       'ATOLL_SERVER': f'http://127.0.0.1:{server.server_port}'},
                                  capture_output=True, timeout=60 * SLOWNESS)
        items = json.loads(done.stdout)['items']
        self.assertEqual([(item['id'], item['cpuPercent']) for item in items],
                         [(name, number) for number, name in enumerate(ids)])


class More(unittest.TestCase):
    """One daemon and one sandbox, named "box", for all cases."""

    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.environment = {'PATH': os.environ['PATH'], 'ATOLL_RUN_DIR': str(cls.daemon.run_dir)}
        cls.image = box.shell_image(cls.daemon)
        cls.sandbox = cls.daemon.create(cls.image, metadata={'name': 'box'},
                                   resourceLimits={'memory': '128Mi'})

    def cli(self, *arguments, expect=0, stdin=b'', text=True):
        done = subprocess.run([BUILD / 'atoll', *arguments], env=self.environment, input=stdin,
                              capture_output=True, timeout=60 * SLOWNESS, check=False)
        self.stderr = done.stderr.decode() if text else done.stderr
        self.assertEqual(done.returncode, expect, (arguments, done.stdout, self.stderr))
        return done.stdout

    def test_exit_codes_are_dockers(self):
        self.cli('exec', 'box', '--', '/srv', expect=126)
        self.cli('exec', 'box', '--', 'no-such-program', expect=127)
        self.cli('exec', 'absent', '--', 'true', expect=125)

    def test_exec_as_a_user_and_detached(self):
        self.assertEqual(self.cli('exec', '-u', 'dev', 'box', '--', 'id', '-u'), b'1000\n')
        self.assertEqual(self.cli('exec', '-u', '1001:dev', 'box', '--', 'sh', '-c',
                                  'id -u; id -g'), b'1001\n1000\n')
        self.cli('exec', '-u', 'nobody-knows', 'box', '--', 'true', expect=125)
        self.cli('exec', '-d', 'box', '--', 'sh', '-c', 'echo $$ >/tmp/detached; exec sleep 1000')
        self.cli('exec', 'box', '--', 'sh', '-c',
                 'until [ -s /tmp/detached ]; do sleep 0.01; done; kill $(cat /tmp/detached)')

    def test_standard_input_reaches_the_command(self):
        data = bytes(range(256)) * 3000
        out = self.cli('exec', '-i', '-e', "A=it's", '-w', '/tmp', 'box', '--', 'sh', '-c',
                       'cat >in; wc -c <in; echo "$A" >&2; exit 5', stdin=data, expect=5)
        self.assertEqual(out.strip(), str(len(data)).encode())
        self.assertEqual(self.stderr, "it's\n")

    def closed(self, streams, *arguments):
        """The client without these of its standard streams, as a shell closes them."""
        return subprocess.run(['sh', '-c', f'exec "$0" "$@" {streams}', BUILD / 'atoll', *arguments],
                              env=self.environment, stdin=subprocess.DEVNULL, capture_output=True,
                              timeout=60 * SLOWNESS, check=False)

    def test_closed_streams_are_no_connections(self):
        """Else its first socket is what it takes for its input, or writes its output into."""
        for words in (('exec', '-i', 'box'), ('run', '-i', '--rm', self.image)):
            done = self.closed('<&-', *words, '--', 'sh', '-c', 'cat; echo end')
            self.assertEqual((done.returncode, done.stdout), (0, b'end\n'), done.stderr)
        done = self.closed('<&-', 'cp', '-', 'box:/tmp')
        self.assertEqual(done.returncode, 0, done.stderr)
        done = self.closed('<&- >&-', 'cp', 'box:/etc/passwd', '-')
        self.assertNotEqual(done.returncode, 0, 'nothing could be written')
        done = self.closed('<&- >&- 2>&-', 'exec', '-i', 'box', '--', 'sh', '-c', 'exit 7')
        self.assertEqual(done.returncode, 7)
        self.assertEqual(self.cli('exec', 'box', '--', 'echo', 'well'), b'well\n')

    def test_bytes_pass_as_they_are(self):
        """Not text, over a line's bound, with and without an end; both ways."""
        data = random.Random(7).randbytes(5_000_000) + b'\r\n\n\xff'
        self.cli('exec', '-i', 'box', '--', 'sh', '-c', 'cat >/tmp/bytes', stdin=data)
        self.assertEqual(self.cli('exec', 'box', '--', 'cat', '/tmp/bytes'), data)
        self.assertEqual(self.cli('exec', '-i', 'box', '--', 'cat', stdin=data), data)
        self.assertEqual(self.cli('run', '-i', self.image, '--', 'cat', stdin=data), data)
        self.cli('exec', 'box', '--', 'sh', '-c', 'printf "\\200\\0x" >&2', text=False)
        self.assertEqual(self.stderr, b'\x80\0x')

    def test_a_terminal(self):
        seen, shell = at_a_terminal(b'tty && echo "size" $(stty size) && exit 9\n',
                                    'exec', '-it', 'box', '--', 'sh', env=self.environment)
        self.assertEqual(shell.wait(20 * SLOWNESS), 9)
        self.assertIn(b'/dev/pts/', seen)
        self.cli('exec', '-t', 'box', '--', 'true', expect=125)

    def test_copies_of_files_and_directories(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / 'tree/sub').mkdir(parents=True)
            (top / 'tree/sub/file').write_bytes(b'x' * 700000)
            (top / 'tree/run').write_text('#!/bin/sh\necho ran\n', encoding='utf-8')
            (top / 'tree/run').chmod(0o755)
            (top / 'tree/link').symlink_to('sub/file')
            self.cli('cp', str(top / 'tree'), 'box:/srv/copy')
            self.assertEqual(self.cli('exec', 'box', '--', '/srv/copy/run'), b'ran\n')
            self.cli('cp', str(top / 'tree/run'), 'box:/srv')
            self.assertEqual(self.cli('exec', 'box', '--', '/srv/run'), b'ran\n')
            self.cli('cp', 'box:/srv/copy', str(top / 'back'))
            self.assertEqual((top / 'back/sub/file').read_bytes(), b'x' * 700000)
            self.assertEqual(os.readlink(top / 'back/link'), 'sub/file')
            self.assertEqual((top / 'back/run').stat().st_mode & 0o777, 0o755)
            self.cli('cp', 'box:/srv/copy/run', str(top))
            self.assertTrue((top / 'run').exists())
            self.cli('cp', 'box:/absent', str(top), expect=2)
            self.cli('cp', 'a', 'b', expect=2)
        self.cli('cp', '-', 'box:/tmp/from-stdin', stdin=b'piped')
        self.assertEqual(self.cli('cp', 'box:/tmp/from-stdin', '-'), b'piped')

    def test_paths_are_literal(self):
        """$HOME is set inside, $postId is not."""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            for name in ('$postId.tsx', '$HOME', '${HOME}', 'a$$b'):
                with self.subTest(name):
                    (top / 'pages' / name).mkdir(parents=True)
                    (top / 'pages' / name / name).write_text(name, encoding='utf-8')
                    there = f'box:/srv/{name}/{name}'
                    self.cli('exec', 'box', '--', 'mkdir', '-p', f'/srv/{name}')
                    self.cli('cp', str(top / 'pages' / name / name), f'box:/srv/{name}')
                    self.assertEqual(self.cli('cp', there, '-').decode(), name)
                    self.cli('cp', f'box:/srv/{name}', str(top / f'back-{name}'))
                    self.assertEqual((top / f'back-{name}' / name).read_text(encoding='utf-8'), name)
                    self.assertEqual(self.cli('exec', '-w', f'/srv/{name}', 'box', 'pwd').decode(), f'/srv/{name}\n')
                    self.assertEqual(self.cli('exec', '-i', '-w', f'/srv/{name}', 'box', 'pwd').decode(),
                                     f'/srv/{name}\n')
                    self.assertEqual(self.cli('run', '-w', f'/new/{name}', self.image, '--', 'pwd').decode(),
                                     f'/new/{name}\n')

    def test_holes_stay_holes(self):
        size = 64 << 20
        with tempfile.TemporaryDirectory(dir='/var/tmp') as folder:
            top = pathlib.Path(folder)
            (top / 'tree').mkdir()
            sparse = top / 'tree/sparse'
            with open(sparse, 'wb') as file:
                file.truncate(size)
                file.seek(20 << 20)
                file.write(b'x' * 10000)
            for to, back in (('box:/srv/holes', 'box:/srv/holes/sparse'), ('box:/srv/hole', 'box:/srv/hole')):
                self.cli('cp', str(top / 'tree' if to.endswith('s') else sparse), to)
                told = self.cli('exec', 'box', '--', 'stat', '-c', '%s %b', back.partition(':')[2]).split()
                self.assertEqual(int(told[0]), size)
                self.assertLess(int(told[1]) * 512, 1 << 20, back)
                self.cli('cp', back, str(top / 'back'))
                self.assertEqual((top / 'back').read_bytes(), sparse.read_bytes())
                self.assertLess((top / 'back').stat().st_blocks * 512, 1 << 20, back)
            self.cli('cp', 'box:/srv/holes', str(top / 'all'))
            self.assertEqual((top / 'all/sparse').read_bytes(), sparse.read_bytes())
            self.assertLess((top / 'all/sparse').stat().st_blocks * 512, 1 << 20)

    def test_what_a_copy_leaves_out_is_told(self):
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / 'tree').mkdir()
            (top / 'tree/file').write_text('here', encoding='ascii')
            for number in range(7):
                os.mkfifo(top / f'tree/fifo{number}')
            self.cli('cp', str(top / 'tree'), 'box:/srv/partly')
            self.assertRegex(self.stderr, r'not copied, because it is no file, directory or link: fifo\d')
            self.assertIn('and 2 more', self.stderr)
            self.assertEqual(self.cli('exec', 'box', '--', 'ls', '/srv/partly'), b'file\n')

    def test_a_long_log_is_shown_whole(self):
        self.cli('run', '-d', '--name', 'long', self.image, 'sh', '-c',
                 'seq 30000; seq 1 20000 | sed s/$/-and-so-on-and-so-on-and-so-on-and-so-on/; echo end; exec sleep 1000')
        atoll.until(lambda: self.cli('logs', '-n', '1', 'long') == b'end\n', 60 * SLOWNESS, 'all is printed')
        lines = self.cli('logs', 'long').decode().splitlines()
        self.assertEqual((lines[0], lines[29999], len(lines)), ('1', '30000', 50001))
        self.assertEqual(self.cli('logs', '--tail', 'all', 'long').decode().splitlines(), lines)
        self.cli('rm', 'long')

    def test_a_hostile_directory_stays_beneath_its_copy(self):
        """A link out of the copy, and a file through it."""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / 'victim').mkdir()
            self.cli('exec', 'box', '--', 'sh', '-c',
                     f'mkdir -p /srv/evil && ln -s {top}/victim /srv/evil/out')
            self.cli('cp', 'box:/srv/evil', str(top / 'copy'))
            self.cli('exec', 'box', '--', 'sh', '-c',
                     'rm /srv/evil/out; mkdir /srv/evil/out; echo gotcha >/srv/evil/out/file')
            self.cli('cp', 'box:/srv/evil/.', str(top / 'copy'), expect=1)
            self.assertIn('is a link', self.stderr)
            self.assertEqual(list((top / 'victim').iterdir()), [])

    def test_a_planted_link_is_not_followed(self):
        """An earlier copy left links on the host; a later one comes to stand where they are."""
        with tempfile.TemporaryDirectory() as folder:
            top = pathlib.Path(folder)
            (top / 'victim').mkdir(mode=0o750)
            (top / 'secret').write_text('kept', encoding='utf-8')
            self.cli('exec', 'box', '--', 'sh', '-c',
                     f'mkdir -p /srv/bait && cd /srv/bait && ln -s {top}/secret file && '
                     f'ln -s {top}/victim dir && ln -s {top}/victim sub')
            self.cli('cp', 'box:/srv/bait', str(top / 'out'))
            self.assertTrue((top / 'out/file').is_symlink())
            self.cli('exec', 'box', '--', 'sh', '-c',
                     'cd /srv/bait && rm file dir sub && echo gotcha >file && mkdir -m 777 dir && '
                     'echo gotcha >dir/in && mkdir -p sub/deep && echo gotcha >sub/deep/in')
            # One file, and a whole directory, in the place of a link.
            self.cli('cp', 'box:/srv/bait/file', str(top / 'out'), expect=1)
            self.assertIn('is a link', self.stderr)
            self.cli('cp', 'box:/srv/bait/dir', str(top / 'out'), expect=1)
            self.assertIn('is a link', self.stderr)
            # And all of it over what is there.
            self.cli('cp', 'box:/srv/bait', str(top / 'out'))
            self.cli('cp', 'box:/srv/bait/.', str(top / 'out'), expect=1)
            self.assertEqual((top / 'secret').read_text(encoding='utf-8'), 'kept')
            self.assertEqual(list((top / 'victim').iterdir()), [])
            self.assertEqual((top / 'victim').stat().st_mode & 0o777, 0o750)
            self.assertEqual((top / 'out/bait/sub/deep/in').read_text(encoding='utf-8'), 'gotcha\n')
            self.assertEqual([path for path in top.rglob('.atoll-cp-*')], [])

    def test_a_file_is_replaced_as_a_whole(self):
        with tempfile.TemporaryDirectory() as folder:
            target = pathlib.Path(folder) / 'file'
            target.write_text('old', encoding='utf-8')
            target.chmod(0o640)
            with open(target, encoding='utf-8') as before:
                self.cli('exec', 'box', '--', 'sh', '-c', 'echo new >/srv/new')
                self.cli('cp', 'box:/srv/new', str(target))
                self.assertEqual(before.read(), 'old')
            self.assertEqual(target.read_text(encoding='utf-8'), 'new\n')
            self.assertEqual(target.stat().st_mode & 0o777, 0o640)
            self.cli('cp', 'box:/srv/new', '/dev/null')
            self.assertTrue(pathlib.Path('/dev/null').is_char_device())
            self.assertEqual(os.listdir(folder), ['file'])

    def test_who_fills_the_disk(self):
        full = self.daemon.create(self.image, metadata={'name': 'full'})
        self.addCleanup(self.daemon.delete, full)
        self.cli('exec', 'full', '--', 'sh', '-c', 'dd if=/dev/zero of=/srv/f bs=1M count=9; mkdir /srv/d')
        self.daemon.request('POST', '/v1/volumes', {'name': 'empty'})
        snapshot = self.cli('snapshot', 'create', 'full').decode().strip()
        items = json.loads(self.cli('du', '--json'))['items']
        sizes = [item['bytes'] for item in items]
        self.assertEqual(sizes, sorted(sizes, reverse=True))
        found = {(item['kind'], item['id']): item for item in items}
        for item in (found['sandbox', full], found['snapshot', snapshot]):
            self.assertTrue(9 << 20 <= item['bytes'] < 10 << 20, item)
        self.assertEqual((found['sandbox', full]['name'], found['sandbox', full]['complete']), ('full', True))
        self.assertLess(found['sandbox', self.sandbox]['bytes'], 9 << 20)
        self.assertLess(found['volume', 'empty']['bytes'], 1 << 20)
        self.assertGreater(found['image', self.image]['bytes'], 0)
        self.assertRegex(self.cli('du').decode(), rf'(?m)^9\.\d MiB +sandbox +{full} +full$')
        self.assertRegex(self.cli('ps', '-s').decode(), rf'(?m)^{full} .* 9\.\d MiB')
        self.assertRegex(self.cli('ps', '--format', '{{.Name}} {{.Size}}').decode(), r'(?m)^full 9\.\d MiB$')
        self.assertGreater(json.loads(self.cli('inspect', 'full'))[0]['disk']['bytes'], 9 << 20)
        (usage,) = json.loads(self.cli('stats', '--no-stream', '--json', 'full'))['items']
        self.assertGreater(usage['diskBytes'], 9 << 20)
        self.cli('stop', 'full')
        with self.assertRaises(atoll.ApiError) as refused:
            self.daemon.request('GET', f'/v1/sandboxes/{full}/disk')
        self.assertEqual(refused.exception.status, 409)
        self.cli('du')

    def test_inspect_renew_endpoint_stats(self):
        (told,) = json.loads(self.cli('inspect', 'box'))
        self.assertEqual(told['id'], self.sandbox)
        self.assertIn(self.sandbox.encode(), self.cli('endpoint', 'box', '8000'))
        self.cli('inspect', 'absent', expect=2)
        (usage,) = json.loads(self.cli('stats', '--no-stream', '--json', 'box'))['items']
        self.assertEqual(usage['memoryLimitBytes'], 128 << 20)
        self.assertIn(b'128.0 MiB', self.cli('stats', '--no-stream'))

    def test_pause_and_resume(self):
        self.assertEqual(self.cli('pause', 'box').decode().strip(), self.sandbox)
        try:
            self.assertEqual(json.loads(self.cli('inspect', 'box'))[0]['status']['state'],
                             'Paused')
        finally:
            self.cli('resume', 'box')
        self.assertEqual(self.cli('exec', 'box', '--', 'echo', 'awake'), b'awake\n')

    def test_logs(self):
        chatty = self.daemon.create('exec:latest', metadata={'name': 'chatty'}, entrypoint=[
            'sh', '-c', 'echo one; echo two; until [ -e /tmp/on ]; do sleep 0.01; done; echo end'])
        follow = subprocess.Popen([BUILD / 'atoll', 'logs', '-f', 'chatty'], env=self.environment,
                                  stdout=subprocess.PIPE, text=True)
        self.assertIn('one', follow.stdout.readline())
        self.assertIn('two', follow.stdout.readline())
        self.assertIn(b'two', self.cli('logs', '--tail', '1', 'chatty'))
        self.assertNotIn(b'one', self.cli('logs', '--tail', '1', 'chatty'))
        # The sandbox ends by it, and may do so before the command itself.
        subprocess.run([BUILD / 'atoll', 'exec', 'chatty', '--', 'touch', '/tmp/on'], check=False,
                       env=self.environment, capture_output=True, timeout=60 * SLOWNESS)
        self.assertIn('end', follow.stdout.read())
        self.assertEqual(follow.wait(20 * SLOWNESS), 0)
        follow.stdout.close()
        self.cli('rm', chatty)

    def test_volumes(self):
        self.cli('volume', 'create', 'data')
        self.assertIn(b'data', self.cli('volume', 'ls', '-q').split())
        self.assertEqual(json.loads(self.cli('volume', 'inspect', 'data'))['name'], 'data')
        self.cli('volume', 'rm', 'data')
        self.cli('volume', 'rm', 'data', expect=2)

    def test_pools(self):
        image = self.cli('image', 'ls', '-q').decode().split()[0]
        self.cli('pool', 'create', 'warm', image, '--parked', '1', '--at-most', '3')
        self.assertIn(b'warm', self.cli('pool', 'ls', '-q').split())
        self.assertIn(b'AT MOST', self.cli('pool', 'ls'))
        pool = json.loads(self.cli('pool', 'inspect', 'warm'))
        self.assertEqual((pool['capacitySpec']['bufferMax'], pool['capacitySpec']['poolMax']), (1, 3))
        self.cli('pool', 'create', 'warm', image, expect=1)
        of_it = self.cli('run', '-d', '--pool', 'warm', image, 'sleep', '1000').decode().strip()
        self.assertEqual(json.loads(self.cli('pool', 'inspect', 'warm'))['status']['allocated'], 1)
        self.assertEqual(self.cli('exec', of_it, 'echo', 'there'), b'there\n')
        self.cli('pool', 'rm', 'warm', expect=1)
        self.cli('rm', of_it)
        self.cli('run', '--pool', 'cold', image, 'true', expect=125)
        self.cli('pool', 'rm', 'warm')
        self.cli('pool', 'rm', 'warm', expect=2)

    def test_templates(self):
        image = self.cli('image', 'ls', '-q').decode().split()[0]
        template = self.cli('template', 'create', '--probe', 'cmd://test -p /up', '--warm-up', 'echo hot >/warm',
                            '--name', 'mine', '-e', 'A=b c', image, 'sh', '-c',
                            'mkfifo /up; exec sleep 1000').decode().strip()
        self.assertEqual(self.cli('template', 'ls', '-q').decode().split(), [template])
        self.assertRegex(self.cli('template', 'ls'), b'(?m)^' + template.encode() + b' +mine +.* Succeeded ')
        self.assertIn(template, self.cli('complete', '--', 'template', 'rm').decode().split())
        of_it = self.cli('run', '-d', '--template', template).decode().strip()
        self.assertEqual(self.cli('exec', of_it, 'sh', '-c', 'echo $A; cat /warm'), b'b c\nhot\n')
        self.cli('rm', of_it)
        self.assertEqual(self.cli('run', '--template', template, 'sh', '-c', 'test -p /up && cat; exit 3',
                                  stdin=b'typed', expect=3), b'')
        self.assertEqual(self.cli('run', '-i', '--template', template, 'cat', stdin=b'typed'), b'typed')
        self.cli('run', '-d', '--template', template, 'true', expect=125)
        self.assertIn('atoll exec -d', self.stderr)
        self.cli('run', '-m', '64Mi', '--template', template, 'true', expect=125)
        self.cli('template', 'rm', template)
        self.cli('run', '--template', template, 'true', expect=125)
        self.assertNotIn('atoll image', self.stderr)
        self.assertEqual(json.loads(self.cli('--json', 'template', 'ls'))['items'], [])

    def test_a_template_that_fails_says_why(self):
        image = self.cli('image', 'ls', '-q').decode().split()[0]
        self.cli('template', 'create', '--warm-up', 'echo broken >&2; exit 7', image, 'sleep', '1000', expect=1)
        self.assertRegex(self.stderr, '(?s)7.*broken')
        self.cli('template', 'rm', *self.cli('template', 'ls', '-q').decode().split())

    def test_a_template_whose_program_has_ended_is_not_ready(self):
        image = self.cli('image', 'ls', '-q').decode().split()[0]
        self.cli('template', 'create', image, 'sh', '-c', 'sleep 0.2; exit 3', expect=1)
        self.assertRegex(self.stderr, 'is not ready(.|\n)*it has ended: (.|\n)*exit code 3')
        self.cli('template', 'rm', *self.cli('template', 'ls', '-q').decode().split())

    def test_completion_knows_verbs_and_ids(self):
        words = self.cli('complete', '--').decode().split()
        self.assertIn('exec', words)
        self.assertNotIn('complete', words)
        self.assertIn(self.sandbox, self.cli('complete', '--', 'exec').decode().split())


if __name__ == '__main__':
    unittest.main()
