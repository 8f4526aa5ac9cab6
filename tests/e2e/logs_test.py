"""What an entrypoint writes, and what happens to its sandbox, can be read: while it runs, after it has
ended, and whatever happened to the daemon meanwhile."""
import http.client
import json
import os
import pathlib
import re
import subprocess
import threading
import time
import unittest

import atoll
from atoll import SLOWNESS, until

# One pipe a step: a reader that is quick would find the writer of the step before.
STEPS = ('mkfifo /go /on; echo one; read x </go; echo two >&2; read x </on; echo three; '
         'exec sleep 99999')
COUNT = 'i=0; while :; do echo $i; i=$((i+1)); sleep 0.005; done'


class Logs(unittest.TestCase):
    SETTINGS = {}

    def setUp(self):
        self.daemon = atoll.Daemon(**self.SETTINGS)
        self.addCleanup(self.daemon.__exit__)
        self.daemon.start()
        self.image = self.daemon.import_busybox()

    def box(self, script, **fields):
        return self.daemon.create(self.image, entrypoint=['sh', '-c', script], **fields)

    def get(self, box, path):
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/{path}')
        return response.status, response.headers, response.read().decode()

    def text(self, box, path='logs?tail=10000'):
        status, _, text = self.get(box, path)
        self.assertEqual(status, 200, text)
        return text

    def lines(self, box, path='logs?tail=10000'):
        """The log's lines without their times."""
        text = self.text(box, path)
        if text == '(no logs)':
            return []
        lines = []
        for line in text.removesuffix('\n').split('\n'):
            stamp, _, rest = line.partition(' ')
            self.assertRegex(stamp, r'^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{6}Z$')
            lines.append(rest)
        return lines

    def await_lines(self, box, wanted):
        until(lambda: self.lines(box) == wanted, 30 * SLOWNESS, f'the log is {wanted}')

    def go(self, box, pipe='/go'):
        """Lets the entrypoint do its next step, which may be its last."""
        try:
            self.daemon.run(box, f'echo >{pipe}')
        except http.client.IncompleteRead:
            pass

    def state(self, box):
        return self.daemon.request('GET', f'/v1/sandboxes/{box}')['status']

    def await_end(self, box, state='Terminated'):
        until(lambda: self.state(box)['state'] == state, 30 * SLOWNESS, f'{box} is {state}')

    def log_dir(self, box=''):
        return self.daemon.data_dir / 'state/logs' / box


def running(word):
    """Whether a process with that argument runs."""
    for name in filter(str.isdigit, os.listdir('/proc')):
        try:
            if word.encode() in pathlib.Path('/proc', name, 'cmdline').read_bytes().split(b'\0'):
                return True
        except OSError:
            pass
    return False


class Reading(Logs):
    def test_both_streams_in_the_order_of_time(self):
        box = self.box(STEPS)
        self.await_lines(box, ['one'])
        self.go(box)
        self.await_lines(box, ['one', 'two'])
        self.go(box, '/on')
        self.await_lines(box, ['one', 'two', 'three'])
        stamps = [line.split()[0] for line in self.text(box).splitlines()]
        self.assertEqual(stamps, sorted(stamps))

    def test_after_the_exit_until_the_deletion(self):
        box = self.box('echo last words; exit 3')
        self.await_end(box, 'Failed')
        self.await_lines(box, ['last words'])
        self.assertEqual((self.log_dir(box) / 'log').stat().st_mode & 0o777, 0o600)
        self.assertEqual(self.log_dir().stat().st_mode & 0o777, 0o700)
        self.assertEqual(self.log_dir(box).stat().st_mode & 0o777, 0o700)
        self.daemon.delete(box)
        self.assertEqual(self.get(box, 'logs')[0], 404)
        self.assertTrue((self.log_dir(box) / 'log').exists(), 'the history has it')

    def test_an_exit_at_once_loses_nothing(self):
        boxes = [self.box(f'echo {n}; echo e{n} >&2') for n in range(20)]
        for n, box in enumerate(boxes):
            self.await_end(box)
            until(lambda b=box, n=n: sorted(self.lines(b)) == [str(n), f'e{n}'], 30 * SLOWNESS,
                  f'both lines of {n}')

    def test_a_burst_before_the_exit_is_whole(self):
        # Four times what execd keeps and the socket holds.
        box = self.box('seq 1 60000')
        self.await_end(box)
        def whole():
            return json.loads(self.text(box, 'logs?scope=container'))['content'].endswith(' 60000\n')
        until(whole, 30 * SLOWNESS, 'the last line')
        told = json.loads(self.text(box, 'logs?scope=container'))
        # The text with its times is more than is sent, so the beginning is left out, and only that.
        numbers = [int(line.split()[1]) for line in told['content'].splitlines()]
        self.assertEqual(numbers, list(range(numbers[0], 60001)))
        self.assertTrue(told['truncated'])
        self.assertNotIn('warnings', told)

    def test_silence(self):
        box = self.box('exec sleep 99999')
        self.assertEqual(self.text(box), '(no logs)')
        self.assertFalse(self.log_dir(box).exists())

    def test_tail_and_since(self):
        box = self.box('seq 1 300; exec sleep 99999')
        until(lambda: len(self.lines(box)) == 300, 30 * SLOWNESS, 'all lines')
        self.assertEqual(len(self.lines(box, 'logs')), 100)
        self.assertEqual(self.lines(box, 'logs?tail=2'), ['299', '300'])
        self.assertEqual(len(self.lines(box, 'logs?tail=10000&since=1h')), 300)
        self.assertEqual(len(self.lines(box, 'logs?tail=10000&since=nonsense')), 300)
        for bad in ('0', '10001', 'x', '-1'):
            self.assertEqual(self.get(box, f'logs?tail={bad}')[0], 422, bad)

    def test_binary_and_huge_lines(self):
        box = self.box(r"head -c 100000 /dev/zero | tr '\0' x; echo; printf '\377\376\0\033[31mend'")
        self.await_end(box)
        def ended():
            return self.lines(box)[-1:] == ['\ufffd\ufffd\0\033[31mend']
        until(ended, 30 * SLOWNESS, 'the last line')
        told = json.loads(self.text(box, 'logs?scope=container'))
        self.assertEqual(told['content'], self.text(box))
        parts = self.lines(box)[:-1]
        self.assertEqual(''.join(parts), 'x' * 100000)
        self.assertLessEqual(max(map(len, parts)), 16 << 10)

    def test_stable_descriptor(self):
        box = self.box('echo hello; exec sleep 99999')
        self.await_lines(box, ['hello'])
        status, headers, text = self.get(box, 'logs?scope=container')
        told = json.loads(text)
        content = told.pop('content')
        self.assertRegex(content, r'^\S+Z hello\n$')
        self.assertEqual(told, {'sandboxId': box, 'kind': 'logs', 'scope': 'container',
                                'delivery': 'inline', 'contentType': 'text/plain; charset=utf-8',
                                'contentLength': len(content), 'truncated': False})
        self.assertEqual((status, headers['Deprecation']), (200, None))
        self.assertEqual(self.get(box, 'logs')[1]['Deprecation'], 'true')
        self.assertEqual(json.loads(self.text(box, 'logs?scope=all'))['scope'], 'all')
        self.assertEqual(json.loads(self.text(box, 'logs?scope=Container'))['scope'], 'container')
        self.assertEqual(json.loads(self.text(box, 'events?scope=ALL'))['scope'], 'all')

    def test_refusals(self):
        box = self.box('exec sleep 99999')
        for path in ('logs?scope=', 'logs?scope=lifecycle', 'events?scope=container', 'logs?scope=x'):
            status, _, text = self.get(box, path)
            self.assertEqual((status, json.loads(text)['code']),
                             (400, 'DIAGNOSTICS_SCOPE_UNSUPPORTED'), path)
        nobody = '00000000-0000-4000-8000-000000000000'
        for path in ('logs', 'logs?scope=container', 'logs?follow=true', 'events', 'events?scope=all',
                     'inspect', 'summary'):
            for name in (nobody, '..', '%2e%2e', 'x'):
                status, _, text = self.get(name, path)
                self.assertEqual(status, 404, (name, path, text))
            key = self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/{path}',
                                   headers={'OPEN-SANDBOX-API-KEY': 'wrong'})
            self.assertEqual(key.status, 401, path)

    def test_no_secret_is_shown(self):
        secrets = {'MY_TOKEN': 'hush1', 'db_password': 'hush2', 'AWS_SECRET_ID': 'hush3',
                   'ApiKey': 'hush4'}
        box = self.box('exec sleep 99999', env={**secrets, 'PLAIN': 'seen'},
                       metadata={'team': 'red'})
        token = self.daemon.execd_headers(box)['X-EXECD-ACCESS-TOKEN']
        for path in ('inspect', 'summary', 'events', 'events?scope=all'):
            text = self.text(box, path)
            self.assertNotIn('hush', text, path)
            self.assertNotIn(token, text, path)
            self.assertNotIn(self.daemon.execd_secret(box), text, path)
            self.assertNotIn(self.daemon.key, text, path)
        self.assertIn('PLAIN=seen', self.text(box, 'inspect'))
        self.assertIn('MY_TOKEN=***', self.text(box, 'inspect'))
        self.assertIn('team=red', self.text(box, 'inspect'))

    def test_what_happened(self):
        box = self.box('mkfifo /go; read x </go; exit 9', timeout=3600)
        self.assertIn('(no notable events)', self.text(box, 'events'))
        later = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 7200))
        self.daemon.request('POST', f'/v1/sandboxes/{box}/renew-expiration', {'expiresAt': later})
        self.go(box)
        self.await_end(box, 'Failed')
        for restarted in (False, True):
            if restarted:
                self.daemon.kill()
                self.daemon.start()
            told = json.loads(self.text(box, 'events?scope=lifecycle'))['content'].splitlines()
            self.assertEqual([line.split()[3] for line in told],
                             ['Created', 'Running', 'Renewed', 'Failed'])
            self.assertTrue(told[-1].endswith('CONTAINER_EXITED_ERROR: exit code 9'), told)
            text = self.text(box, 'events')
            self.assertRegex(text, r'Started: +\S+Z\n')
            self.assertRegex(text, r'Finished: +\S+Z\n')
            self.assertIn('exit code 9', text)
        self.assertEqual(len(self.text(box, 'events?limit=1').splitlines()), 6)
        summary = self.text(box, 'summary')
        self.assertTrue(summary.startswith('=' * 72 + '\n') and summary.endswith('\n'))
        for part in ('INSPECT', 'EVENTS', 'LOGS'):
            self.assertIn(f'\n{part}\n{"-" * 40}\n', summary)


class Kept(Logs):
    SETTINGS = {'logs_keep_after_removal_seconds': 3600, 'logs_max_bytes': '64Ki'}

    def test_after_the_removal(self):
        box = self.box('seq 1 50000; exit 3')
        self.await_end(box, 'Failed')
        until(lambda: self.lines(box)[-1:] == ['50000'], 30 * SLOWNESS, 'the last line')
        size = sum(file.stat().st_size for file in self.log_dir(box).iterdir())
        self.assertLessEqual(size, 64 << 10)
        self.daemon.delete(box)
        for restarted in (False, True):
            if restarted:
                self.daemon.kill()
                self.daemon.start()
            self.assertEqual(self.lines(box)[-1], '50000')
            self.assertEqual(self.get(box, 'inspect')[0], 404)
            self.assertEqual(self.get(box, 'events')[0], 404)


class Following(Logs):
    def follow(self, box):
        response = self.daemon.send('GET', f'/v1/sandboxes/{box}/diagnostics/logs?follow=true')
        self.assertEqual(response.status, 200)
        return response

    @staticmethod
    def line(response):
        return response.readline().decode().rstrip('\n').partition(' ')[2]

    def test_lines_come_as_they_are_written(self):
        box = self.box(STEPS.replace('exec sleep 99999', 'exit 0'))
        stream = self.follow(box)
        self.assertEqual(self.line(stream), 'one')
        self.go(box)
        self.assertEqual(self.line(stream), 'two')
        self.go(box, '/on')
        self.assertEqual(self.line(stream), 'three')
        self.assertEqual(stream.read(), b'')  # the end, because the sandbox has ended
        # One that comes too late gets all of it.
        self.assertEqual([self.line(stream) for stream in [self.follow(box)] for _ in range(3)],
                         ['one', 'two', 'three'])

    def test_what_has_no_newline_comes_with_the_end(self):
        stream = self.follow(self.box('printf unfinished'))
        self.assertEqual(self.line(stream), 'unfinished')
        self.assertEqual(stream.read(), b'')

    def test_ends_with_the_deletion(self):
        box = self.box('echo one; exec sleep 99999')
        stream = self.follow(box)
        self.assertEqual(self.line(stream), 'one')
        self.daemon.delete(box)
        self.assertEqual(stream.read(), b'')

    def test_a_client_that_does_not_read_holds_up_nobody(self):
        box = self.box('yes')
        stuck = [self.follow(box) for _ in range(4)]
        self.assertTrue(all(stream.readline() for stream in stuck))
        before = self.memory()
        other = self.box('echo here; exec sleep 99999')
        self.await_lines(other, ['here'])
        stream = self.follow(box)
        for _ in range(20_000):  # of some that comes in between nothing is held for the stuck
            stream.readline()
        self.assertLess(self.memory() - before, 16 << 10)
        for stream in [*stuck, stream]:
            stream.close()

    def memory(self):
        """KiB."""
        status = pathlib.Path(f'/proc/{self.daemon.process.pid}/status').read_text(encoding='ascii')
        return int(re.search(r'VmRSS:\s+(\d+)', status)[1])


class Restarts(Logs):
    def numbers(self, box):
        return [int(line) for line in self.lines(box)]

    def test_nothing_is_lost_or_doubled_by_kills(self):
        box = self.box(COUNT)
        last = 5
        for _ in range(4):
            until(lambda: len(self.numbers(box)) > last, 30 * SLOWNESS, f'{last} lines')
            self.daemon.kill()
            self.daemon.start()
            last = len(self.numbers(box)) + 5
        until(lambda: len(self.numbers(box)) > last, 30 * SLOWNESS, 'goes on')
        seen = self.numbers(box)
        self.assertEqual(seen, list(range(len(seen))))

    def test_clean_restart(self):
        box = self.box(COUNT)
        until(lambda: len(self.numbers(box)) > 5, 30 * SLOWNESS)
        self.daemon.stop()
        self.daemon.start()
        last = len(self.numbers(box)) + 5
        until(lambda: len(self.numbers(box)) > last, 30 * SLOWNESS, 'goes on')
        seen = self.numbers(box)
        self.assertEqual(seen, list(range(len(seen))))

    def test_last_words_while_the_daemon_is_away(self):
        box = self.box('echo first; sleep 2.0017; echo last words; exit 7')
        self.await_lines(box, ['first'])
        self.daemon.kill()
        until(lambda: not running('2.0017'), 30 * SLOWNESS, 'the entrypoint has ended')
        self.daemon.start()
        self.await_end(box, 'Failed')
        self.assertEqual(self.state(box)['message'], 'exit code 7')
        self.await_lines(box, ['first', 'last words'])

    def test_logs_of_nobody_are_removed(self):
        box = self.box('echo one; exec sleep 99999')
        self.await_lines(box, ['one'])
        self.daemon.stop()
        orphan = self.log_dir('00000000-0000-4000-8000-000000000000')
        orphan.mkdir()
        (orphan / 'log').write_bytes(b'x')
        (self.log_dir() / 'litter').write_bytes(b'x')
        owner = self.log_dir().stat()
        for path in (orphan, orphan / 'log', self.log_dir() / 'litter'):
            os.chown(path, owner.st_uid, owner.st_gid)
        self.daemon.start()
        until(lambda: os.listdir(self.log_dir()) == [box], 30 * SLOWNESS, 'only its log is left')
        self.assertEqual(self.lines(box), ['one'])


class Hostile(Logs):
    def test_floods_are_bounded_and_fair(self):
        floods = [self.box('exec yes xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx') for _ in range(8)]
        for box in floods:
            until(lambda b=box: (self.log_dir(b) / 'log.1').exists(), 30 * SLOWNESS, 'rotation')
        took = []
        connection = self.daemon.connection()
        for _ in range(300):
            began = time.monotonic()
            self.daemon.send('GET', f'/v1/sandboxes/{floods[0]}', connection=connection).read()
            took.append(time.monotonic() - began)
        print(f'# get while 8 flood: p50 {sorted(took)[150] * 1000:.2f} ms, '
              f'p99 {sorted(took)[297] * 1000:.2f} ms', flush=True)
        self.assertLess(sorted(took)[297], 0.5 * SLOWNESS)
        began = time.monotonic()
        quiet = self.box('echo here; exec sleep 99999')
        self.await_lines(quiet, ['here'])
        self.assertLess(time.monotonic() - began, 20 * SLOWNESS)
        for box in floods:
            files = list(self.log_dir(box).iterdir())
            self.assertLessEqual(sum(file.stat().st_size for file in files), 2 << 20)
            self.assertEqual(self.daemon.run(box, 'echo alive').stdout, 'alive')
            def warned(box=box):
                return json.loads(self.text(box, 'logs?scope=container')).get('warnings')
            warning = until(warned, 30 * SLOWNESS, 'the oldest is gone')[0]
            self.assertRegex(warning, r'^\d+ bytes of output are missing')

    def test_the_way_of_the_daemon_is_not_for_clients(self):
        box = self.box('echo secret; exec sleep 99999')
        headers = {**self.daemon.execd_headers(box), 'X-Atoll-Internal': '1'}
        for path in ('/.atoll/entrypoint/output?offset=0', '/.atoll/entrypoint/output/?offset=0',
                     '/%2eatoll/entrypoint/output?offset=0', '/.atoll%2Fentrypoint/output?offset=0',
                     '/x/../.atoll/entrypoint/output?offset=0'):
            response = self.daemon.send('GET', f'/sandboxes/{box}/proxy/44772{path}',
                                        headers=headers)
            self.assertEqual(response.status, 404, path)
            self.assertNotIn(b'secret', response.read())
        # The sandbox itself has no way to it at all.
        inside = self.daemon.run(box, 'wget -q -O- http://127.0.0.1:44772/ping; find / -type s')
        self.assertEqual(inside.stdout, '')
        # And whoever had its socket would still have to be the daemon.
        listening = next(self.daemon.run_dir.glob(f'sandboxes/{box}.sock'))
        headers = {'X-EXECD-ACCESS-TOKEN': self.daemon.execd_secret(box)}
        self.assertEqual(self.direct(listening, headers).status, 404)

    @staticmethod
    def direct(path, headers):
        import socket
        connection = http.client.HTTPConnection('execd', timeout=10)
        connection.sock = socket.socket(socket.AF_UNIX)
        connection.sock.connect(str(path))
        connection.request('GET', '/.atoll/entrypoint/output?offset=0', headers=headers)
        return connection.getresponse()

    def test_a_full_disk_loses_lines_and_nothing_else(self):
        self.daemon.stop()
        owner = self.log_dir().stat()
        subprocess.run(['mount', '-t', 'tmpfs', '-o',
                        f'size=64k,mode=700,uid={owner.st_uid},gid={owner.st_gid}', 'tmpfs',
                        self.log_dir()], check=True)
        self.addCleanup(subprocess.run, ['umount', self.log_dir()], check=True)
        self.addCleanup(self.daemon.kill)
        self.daemon.start()
        box = self.box('seq 1 100000; mkfifo /go; read x </go; echo after; exec sleep 99999')
        until(lambda: 'cannot write a log' in self.daemon.log.read_text(encoding='utf-8'),
              30 * SLOWNESS, 'the disk is full')
        self.assertEqual(self.daemon.run(box, 'echo alive').stdout, 'alive')
        self.assertEqual(self.state(box)['state'], 'Running')
        until(lambda: self.daemon.run(box, 'test -p /go && echo yes').stdout == 'yes',
              30 * SLOWNESS, 'all has been written')
        # Room again: the log goes on, and says what is missing.
        subprocess.run(['mount', '-o', 'remount,size=4m', self.log_dir()], check=True)
        self.go(box)
        until(lambda: self.lines(box)[-1:] == ['after'], 30 * SLOWNESS, 'the log goes on')
        # The newest 64 KiB were still in the sandbox: more lines than a tail has.
        told = json.loads(self.text(box, 'logs?scope=container'))['content']
        self.assertTrue(re.search(r'\[\d+ bytes of output are missing here\]\n', told), told[:200])
        self.daemon.shutdown()

    def test_many_write_at_once(self):
        boxes = [self.box(f'seq 1 2000; echo end{n}; exec sleep 99999') for n in range(12)]
        def read(n):
            wanted = [str(i) for i in range(1, 2001)] + [f'end{n}']
            until(lambda: self.lines(boxes[n]) == wanted, 30 * SLOWNESS, f'all of {n}')
        threads = [threading.Thread(target=read, args=(n,)) for n in range(12)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for n in range(12):
            self.assertEqual(len(self.lines(boxes[n])), 2001)
