"""`atoll open` and `atoll forward`: ports of a sandbox, for a browser and for any program."""
import contextlib
import http.client
import json
import os
import random
import re
import socket
import subprocess
import threading
import unittest
import urllib.parse

import atoll
from atoll import BUILD, SLOWNESS, at_a_terminal, until


class Ports(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.environment = {'PATH': os.environ['PATH'], 'ATOLL_RUN_DIR': str(cls.daemon.run_dir)}
        cls.image = cls.daemon.import_busybox()
        cls.sandbox = cls.daemon.create(cls.image, metadata={'name': 'box'})
        # What comes is sent back; the end of what comes is the end of what goes.
        cls.daemon.run(cls.sandbox, 'exec nc -ll -p 4000 -e cat', background=True)
        cls.daemon.run(cls.sandbox, 'mkdir /www && echo page >/www/index.html && '
                                    'exec httpd -f -p 8000 -h /www', background=True)
        for port in (4000, 8000):
            until(lambda port=port: f':{port:04X} ' in cls.daemon.run(
                cls.sandbox, 'cat /proc/net/tcp /proc/net/tcp6').stdout)

    def cli(self, *words, expect=0):
        done = subprocess.run([BUILD / 'atoll', *words], env=self.environment, text=True,
                              capture_output=True, timeout=60 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, expect, (words, done))
        return done

    @contextlib.contextmanager
    def forward(self, port, *local):
        """(the port of ours, the client); its standard error is read to its end afterwards."""
        client = subprocess.Popen([BUILD / 'atoll', 'forward', 'box', str(port), *local, '--json'],
                                  env=self.environment, stdout=subprocess.PIPE,
                                  stderr=subprocess.PIPE, text=True)
        try:
            yield json.loads(client.stdout.readline())['port'], client
        finally:
            client.terminate()
            self.said = client.communicate(timeout=20 * SLOWNESS)[1]

    def connect(self, port):
        one = socket.create_connection(('127.0.0.1', port), timeout=30 * SLOWNESS)
        self.addCleanup(one.close)
        return one

    def echo(self, port, data):
        one = self.connect(port)

        def send():
            one.sendall(data)
            one.shutdown(socket.SHUT_WR)
        sender = threading.Thread(target=send)
        sender.start()
        back = b''.join(iter(lambda: one.recv(1 << 16), b''))
        sender.join()
        return back

    def test_bytes_pass_both_ways_at_once(self):
        data = random.Random(3).randbytes(20_000_000)
        with self.forward(4000, '0') as (port, _):
            self.assertEqual(self.echo(port, data), data)
            self.assertEqual(self.echo(port, b'again'), b'again')
        self.assertEqual(self.said, '')

    def test_a_reader_that_waits_holds_up_nobody_else(self):
        with self.forward(4000, '0') as (port, _):
            stuck = self.connect(port)
            stuck.setblocking(False)
            sent = 0
            with contextlib.suppress(BlockingIOError):
                while sent < 1 << 30:
                    sent += stuck.send(bytes(1 << 16))
            crowd = [self.connect(port) for _ in range(40)]
            for number, one in enumerate(crowd):
                one.sendall(b'%d\n' % number)
            for number, one in enumerate(crowd):
                self.assertEqual(one.recv(100), b'%d\n' % number)
            # What a stuck one holds is bounded on the way: it did not take a GiB.
            self.assertLess(sent, 256 << 20)

    def test_ports_of_this_host_are_the_sandboxs(self):
        serve = ('sh', '-c', 'mkdir /www && echo published >/www/index.html && exec httpd -f -p 80 -h /www')
        with socket.create_server(('127.0.0.1', 0)) as taken:
            free = taken.getsockname()[1]
            said = self.cli('run', '-d', '-p', f'{free}:80', self.image, *serve, expect=125).stderr
            self.assertIn(f'-p {free}:80: listen on 127.0.0.1 port {free}: Address already in use', said)
        # Refused before anything was made.
        self.assertEqual(self.cli('ps', '-aq').stdout.split(), [self.sandbox])

        def page(port):
            with contextlib.closing(http.client.HTTPConnection('127.0.0.1', port, timeout=20 * SLOWNESS)) as one:
                try:
                    one.request('GET', '/')
                    return one.getresponse().read()
                except OSError:
                    return None
        for form, ended in ((f'{free}:80', 'stop'), (f'127.0.0.1:{free}:80/tcp', 'rm')):
            said = self.cli('run', '-d', '--rm', '--name', 'published', '-p', form, self.image, *serve).stderr
            self.assertIn(f'port 80 is reached at 127.0.0.1:{free}', said)
            until(lambda: page(free) == b'published\n', 30 * SLOWNESS, 'the page is there')
            self.assertEqual([page(free) for _ in range(3)], [b'published\n'] * 3)
            self.cli(ended, 'published')
            # Nothing listens any more, so the port can be used again.
            until(lambda: self.is_free(free), 20 * SLOWNESS, 'the port is free')

    def test_a_port_of_a_run_in_the_foreground(self):
        with subprocess.Popen([BUILD / 'atoll', 'run', '-i', '-p', 'localhost::4000', self.image, 'nc', '-l', '-p', '4000'],
                              env=self.environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                              text=True) as client:
            port = int(re.search(r'127\.0\.0\.1:(\d+)', client.stderr.readline())[1])

            def sent():
                with contextlib.suppress(OSError), socket.create_connection(('127.0.0.1', port)) as one:
                    one.sendall(b'through\n')
                    one.shutdown(socket.SHUT_WR)
                    while one.recv(100):
                        pass
                return client.poll() is not None
            until(sent, 60 * SLOWNESS, 'the command has read it')
            self.assertEqual((client.stdout.read(), client.returncode), ('through\n', 0))
        until(lambda: self.is_free(port), 20 * SLOWNESS, 'the port is free')

    @staticmethod
    def is_free(port):
        try:
            socket.create_server(('127.0.0.1', port)).close()
        except OSError:
            return False
        return True

    def test_nobody_listens(self):
        with self.forward(4001, '0') as (port, _):
            self.assertEqual(self.connect(port).recv(1), b'')
            self.assertEqual(self.connect(port).recv(1), b'')  # and it goes on
        self.assertIn('no tcp: no server on port 4001: connect: Connection refused (', self.said)
        with socket.create_server(('127.0.0.1', 0)) as taken:
            said = self.cli('forward', 'box', '4000', str(taken.getsockname()[1]), expect=1).stderr
            self.assertIn('listen on 127.0.0.1 port', said)
        self.cli('forward', 'box', '65536', expect=2)
        self.cli('forward', 'nobody', '4000', expect=2)

    def test_only_who_may_reach_execd(self):
        address = urllib.parse.urlsplit(self.daemon.url).netloc
        upgrade = {'Connection': 'Upgrade', 'Upgrade': 'tcp'}
        for port, headers, status in (('4000', upgrade, 401), ('0', {}, 400), ('x', {}, 400),
                                      ('4000', {}, 426), ('4000', {'Upgrade': 'websocket'}, 426)):
            with self.subTest(port=port, headers=headers):
                if status != 401:
                    headers = {**headers, **self.daemon.execd_headers(self.sandbox)}
                one = http.client.HTTPConnection(address, timeout=20 * SLOWNESS)
                one.request('GET', f'/sandboxes/{self.sandbox}/proxy/44772/forward/{port}',
                            headers=headers)
                self.assertEqual(one.getresponse().status, status)
                one.close()

    def get(self, url):
        """As a browser does, which asks nobody where names below localhost are."""
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', url.port, timeout=20 * SLOWNESS)) as one:
            one.request('GET', url.path, headers={'Host': url.netloc})
            answer = one.getresponse()
            return answer.status, answer.read()

    def test_open(self):
        url = self.cli('open', 'box', '8000').stdout.strip()
        parts = urllib.parse.urlsplit(url)
        self.assertEqual(parts.hostname, f'{self.sandbox}-8000.localhost')
        self.assertEqual(self.get(parts), (200, b'page\n'))
        self.assertEqual(json.loads(self.cli('open', 'box', '8000', '--json').stdout), {'url': url})
        self.assertIn('without a key', self.cli('open', 'box', '8000').stderr)
        # Nothing would end with such a link.
        said = self.cli('open', 'box', '8000', '--expires', '60', expect=1)
        self.assertEqual(said.stdout, '')
        self.assertIn('run --secure', said.stderr)
        secure = self.cli('run', '-d', '--secure', '-p', '8000', self.image, 'sleep', '1000')
        self.assertIn("'atoll port'", secure.stderr)
        secure = secure.stdout.strip()
        self.addCleanup(self.daemon.delete, secure)
        said = self.cli('open', secure, '8000', expect=1).stderr
        self.assertIn('--expires', said)
        self.assertIn('atoll forward', said)
        signed = urllib.parse.urlsplit(
            self.cli('open', secure, '8000', '--expires', '60').stdout.strip())
        self.daemon.run(secure, 'mkdir /www && echo shared >/www/index.html && '
                                'exec httpd -f -p 8000 -h /www', background=True)
        until(lambda: self.get(signed) == (200, b'shared\n'))
        # An address of its own: a page that needs an origin works there.
        self.assertTrue(signed.hostname.startswith(f'{secure}-8000-'), signed)
        self.assertTrue(signed.hostname.endswith('.localhost'), signed)
        name = signed.hostname.removesuffix('.localhost')
        wrong = name[:-1] + ('0' if name[-1] != '0' else '1')
        self.assertEqual(self.get(signed._replace(netloc=signed.netloc.replace(name, wrong)))[0], 401)
        # The path form of the link tells a browser where that is.
        path = '/' + '/'.join((secure, *name.removeprefix(secure + '-').split('-'))) + '/'
        self.daemon.run(secure, 'echo "<script type=module src=a.js></script>" >/www/index.html')
        with contextlib.closing(http.client.HTTPConnection('127.0.0.1', signed.port, timeout=20 * SLOWNESS)) as one:
            one.request('GET', path, headers={'Sec-Fetch-Dest': 'document'})
            answer = one.getresponse()
            said = answer.read().decode()
        self.assertEqual((answer.status, answer.headers['Content-Type']), (409, 'text/html; charset=utf-8'), said)
        self.assertIn(f'<a href="{signed.geturl()}">', said)
        self.daemon.run(secure, 'echo shared >/www/index.html')
        brief = urllib.parse.urlsplit(self.cli('open', secure, '8000', '--expires', '2').stdout.strip())
        until(lambda: self.get(brief)[0] == 401, 20 * SLOWNESS, 'the link has ended')
        # Nor is there another way in: the same address without the signature.
        bare = brief._replace(netloc=f'{secure}-8000.localhost:{brief.port}', path='/')
        self.assertEqual(self.get(bare)[0], 401)
        path = urllib.parse.urlsplit(self.cli('port', secure, '8000').stdout.split()[0])
        self.assertEqual(self.get(path)[0], 401)
        self.assertEqual(self.get(signed), (200, b'shared\n'))

    def test_open_in_the_browser(self):
        """The desktop's own program for it gets the URL, which is printed, too, once a server is there."""
        opener = self.daemon.top / 'opener'
        opener.mkdir()
        self.environment = {**self.environment, 'PATH': str(opener)}
        self.assertIn('xdg-utils', self.cli('open', 'box', '8000', '--browser', expect=1).stderr)
        (opener / 'xdg-open').write_text('#!/bin/sh\nexec /usr/bin/curl -s "$@"\n', encoding='utf-8')
        (opener / 'xdg-open').chmod(0o755)
        # A program that takes its time to start.
        self.daemon.run(self.sandbox, 'sleep 1; exec httpd -f -p 8100 -h /www', background=True)
        url = self.cli('open', 'box', '8100').stdout
        self.assertEqual(self.cli('open', 'box', '8100', '--browser').stdout, f'{url}page\n')

    def test_open_at_a_terminal(self):
        """Once it has ended, whoever goes there finds the server."""
        self.daemon.run(self.sandbox, 'sleep 1; exec httpd -f -p 8200 -h /www', background=True)
        seen, client = at_a_terminal(b'', 'open', 'box', '8200', env=self.environment)
        self.assertEqual(client.wait(), 0)
        url, who, told = seen.decode().splitlines()
        self.assertTrue(who.startswith('atoll: whoever reaches the server opens this port'), who)
        self.assertEqual(told, 'atoll: nobody listens on port 8200 yet; waiting')
        self.assertEqual(self.get(urllib.parse.urlsplit(url)), (200, b'page\n'))


if __name__ == '__main__':
    unittest.main()
