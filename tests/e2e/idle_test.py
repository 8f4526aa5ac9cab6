"""Sandboxes that nobody uses: paused until the next request, or ended; and what use is."""
import concurrent.futures
import json
import os
import signal
import subprocess
import time
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image

AFTER = 2 * SLOWNESS
PAUSE = {'idle.after': str(AFTER)}
END = {'idle.after': str(AFTER), 'idle.action': 'end'}
# More than the time to idleness and all looks within it.
LONG = 2 * AFTER
SOON = LONG + 20 * SLOWNESS


class Idle(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.image = shell_image(cls.daemon)

    def box(self, extensions=None, daemon=None, **fields):
        box = Box(daemon or self.daemon, self.image, extensions=PAUSE if extensions is None
                  else extensions, **fields)
        self.addCleanup(self.gone, box)
        return box

    def gone(self, box):
        response = box.daemon.send('DELETE', f'/v1/sandboxes/{box.id}')
        self.assertIn(response.status, (204, 404))

    def paused(self, box):
        """It falls idle. Asking about it is no use of it."""
        until(lambda: box.state()['reason'] == 'IDLE_PAUSED', SOON, 'it falls idle')
        self.assertEqual(box.state()['state'], 'Paused')

    def falls_idle_beside(self, box, path, status):
        """Requests of that path go on meanwhile, seldom enough to be no computing."""
        asked = 0

        def paused():
            nonlocal asked
            if time.monotonic() > asked + AFTER / 2:
                self.assertEqual(box.daemon.send('GET', path).status, status)
                asked = time.monotonic()
            return box.state()['reason'] == 'IDLE_PAUSED'
        until(paused, SOON, 'it falls idle')

    def stays(self, box):
        began = time.monotonic()
        while time.monotonic() - began < LONG:
            self.assertEqual(box.state()['state'], 'Running')

    def connection(self, box, state):
        """There is a socket of port 4000 in that state, as the kernel numbers them."""
        until(lambda: box.out(f"cat /proc/net/tcp* | grep -c ':0FA0 .* {state} '; true") != '0',
              20 * SLOWNESS, f'port 4000 is {state}')

    def test_wakes_with_the_next_request_and_all_that_ran_goes_on(self):
        # On a slow host it may be paused, and woken, between two of the requests to come.
        before = self.daemon.metric('pauses_total{by="idle"}')
        box = self.box()
        # Both ends of a connection, a timer, and a value in memory.
        box.out('mkfifo /tmp/say /tmp/hold')
        box.background('exec 3<>/tmp/hold; nc -l -p 4000 <&3 >/tmp/heard')
        self.connection(box, '0A')
        box.background('exec 3<>/tmp/say; nc 127.0.0.1 4000 <&3')
        self.connection(box, '01')
        box.background(f'value=kept; sleep {2 * AFTER}; echo $value >/tmp/rang')
        self.paused(box)
        self.assertGreater(self.daemon.metric('pauses_total{by="idle"}'), before)
        woken = self.daemon.metric('wakes_total')
        self.assertGreaterEqual(self.daemon.metric('paused{by="idle"}'), 1)
        box.out('echo hello >/tmp/say')
        self.assertEqual(box.state()['state'], 'Running')
        self.assertEqual(self.daemon.metric('wakes_total'), woken + 1)
        until(lambda: box.out('cat /tmp/heard') == 'hello', 20 * SLOWNESS, 'the connection stands')
        until(lambda: box.out('cat /tmp/rang 2>/dev/null; true') == 'kept', SOON, 'the timer rings')
        self.paused(box)

    def test_each_way_in_wakes_it_and_any_number_at_once(self):
        box = self.box()
        box.background('httpd -f -p 8000 -h /etc')
        until(lambda: box.daemon.send('GET', box.port(8000) + '/passwd').status == 200,
              20 * SLOWNESS)
        self.paused(box)
        ways = [lambda: box.call('GET', '/ping').status,
                lambda: box.daemon.send('GET', box.port(8000) + '/passwd').status,
                lambda: box.daemon.send('GET', '/passwd', headers={
                    'OpenSandbox-Ingress-To': f'{box.id}-8000'}).status]
        with concurrent.futures.ThreadPoolExecutor(24) as pool:
            answers = [pool.submit(ways[n % 3]) for n in range(24)]
            self.assertEqual({answer.result() for answer in answers}, {200})

    def test_what_is_refused_does_not_wake_it(self):
        box = self.box(secureAccess=True)
        self.paused(box)
        for path in (box.port(8000) + '/', box.port(8000) + '/../44772/ping',
                     box.port(99999) + '/', f'{box.base}/?{box.daemon.key}'):
            response = box.daemon.send('GET', path, headers={'OPEN-SANDBOX-API-KEY': ''})
            self.assertGreaterEqual(response.status, 400, path)
            self.assertEqual(box.state()['reason'], 'IDLE_PAUSED', path)

    def test_nor_does_a_wrong_token_by_any_way_in(self):
        box = self.box()
        self.paused(box)
        woken = self.daemon.metric('wakes_total')
        upgrade = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13',
                   'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}
        ways = [(box.base, {}), ('/v1' + box.base, {}), (f'/{box.id}/44772', {}),
                ('', {'OpenSandbox-Ingress-To': f'{box.id}-44772'}),
                ('', {'Host': f'{box.id}-44772.localhost'})]
        for prefix, headers in ways:
            for token in ({}, {'X-EXECD-ACCESS-TOKEN': 'wrong'}):
                for method, rest, more in (('GET', '/ping', {}), ('POST', '/pty', {}),
                                           ('GET', '/pty/x/ws', upgrade),
                                           ('GET', '/proxy/8000/', {}), ('GET', '/forward/8000', {
                                               'Connection': 'Upgrade', 'Upgrade': 'tcp'})):
                    sent = {'OPEN-SANDBOX-API-KEY': '', **headers, **token, **more}
                    response = box.daemon.send(method, prefix + rest, headers=sent)
                    self.assertEqual(response.status, 401, (prefix, rest, token))
                    self.assertEqual(json.loads(response.read()), {
                        'error': 'Unauthorized: invalid or missing header X-EXECD-ACCESS-TOKEN'})
        self.assertEqual(box.state()['reason'], 'IDLE_PAUSED')
        self.assertEqual(self.daemon.metric('wakes_total'), woken)

    def test_what_the_sandbox_refuses_keeps_it_awake_no_longer(self):
        box = self.box()
        box.background('httpd -f -p 8000 -h /etc')
        until(lambda: box.daemon.send('GET', box.port(8000) + '/passwd').status == 200,
              20 * SLOWNESS)
        for path, status in ((box.port(9) + '/', 502), (box.port(8000) + '/nope', 404)):
            self.falls_idle_beside(box, path, status)
            # And it is woken for the answer alone.
            woken = self.daemon.metric('wakes_total')
            self.assertEqual(box.daemon.send('GET', path).status, status)
            self.assertGreater(self.daemon.metric('wakes_total'), woken)
            self.paused(box)
            self.assertEqual(box.out('echo awake'), 'awake')

    def test_who_computes_is_not_idle(self):
        box = self.box()
        command = box.background('while :; do :; done')
        self.stays(box)
        box.call('DELETE', f'/command?id={command}')
        self.paused(box)

    def test_who_waits_for_an_answer_is_not_idle(self):
        box = self.box()
        box.out('mkfifo /tmp/go')
        response = box.open('POST', '/command', {'command': 'cat /tmp/go'})
        self.stays(box)
        box.out('echo now >/tmp/go')
        self.assertIn(r'now', response.read().decode())
        self.paused(box)

    def test_nor_is_an_open_terminal(self):
        box = self.box()
        terminal = box.call('POST', '/pty', {}).json['session_id']
        socket = box.websocket(f'/pty/{terminal}/ws')
        self.stays(box)
        socket.sock.close()
        # Its shell waits on, and nobody for it.
        self.paused(box)
        again = box.websocket(f'/pty/{terminal}/ws')
        again.send(2, b'\x00echo $((6*7))\n')
        again.until(lambda o: isinstance(o, bytes) and b'42' in o)
        again.sock.close()

    def test_no_request_ends_the_pause_of_a_client(self):
        box = self.box()
        self.paused(box)
        before = self.daemon.metric('pauses_total{by="request"}')
        for _ in range(2):
            self.daemon.send('POST', f'/v1/sandboxes/{box.id}/pause').read()
            self.assertEqual(box.state()['reason'], 'CONTAINER_PAUSED')
            answer = box.call('GET', '/ping')
            self.assertEqual((answer.status, answer.json['code']),
                             (409, 'DOCKER::SANDBOX_NOT_RUNNING'))
            self.daemon.request('POST', f'/v1/sandboxes/{box.id}/resume')
        self.assertEqual(self.daemon.metric('pauses_total{by="request"}'), before + 2)
        self.paused(box)
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/resume')
        self.assertEqual(box.state()['state'], 'Running')

    def test_or_it_ends(self):
        box = self.box(END)
        box.out('true')
        until(lambda: self.daemon.send('GET', f'/v1/sandboxes/{box.id}').status == 404, SOON)
        self.assertEqual(box.call('GET', '/ping').status, 404)
        self.assertGreaterEqual(self.daemon.metric('sandbox_ends_total{reason="idle"}'), 1)

    def test_a_crash_of_the_daemon_changes_nothing(self):
        daemon = self.enterContext(atoll.Daemon())
        shell_image(daemon)
        paused, running = (self.box(daemon=daemon) for _ in range(2))
        self.paused(paused)
        running.out('true')
        daemon.kill()
        daemon.start()
        self.assertEqual(paused.state()['reason'], 'IDLE_PAUSED')
        self.paused(running)
        for box in (paused, running):
            self.assertEqual(box.out('echo again'), 'again')
        # And of the spawner: the next one lets it go on.
        self.paused(paused)
        os.kill(daemon.spawner_pid(), signal.SIGKILL)
        until(lambda: paused.call('GET', '/ping').status == 200, 20 * SLOWNESS)

    def test_the_operators_is_for_who_says_nothing(self):
        daemon = self.enterContext(atoll.Daemon(idle_after_seconds=AFTER))
        shell_image(daemon)
        silent, never = self.box({}, daemon), self.box({'idle.after': '0'}, daemon)
        self.paused(silent)
        self.stays(never)

    def test_what_it_says_of_itself(self):
        for wrong in ({'idle.after': 'soon'}, {'idle.action': 'end'},
                      {'idle.after': '5', 'idle.action': 'stop'}):
            with self.assertRaises(atoll.ApiError) as refused:
                self.daemon.create(self.image, extensions=wrong)
            self.assertEqual(refused.exception.status, 400)
        run = subprocess.run([atoll.BUILD / 'atoll', 'run', '-d', '--idle', f'{AFTER}:pause',
                              self.image, 'sleep', '1000'], check=True, stdout=subprocess.PIPE,
                             env=self.daemon.client_env(), text=True)
        box = run.stdout.strip()
        self.addCleanup(self.daemon.delete, box)
        path = f'/v1/sandboxes/{box}/diagnostics/inspect'
        told = self.daemon.request('GET', path + '?format=json')
        self.assertEqual(told['idle'], {'after': AFTER, 'action': 'pause'})
        text = self.daemon.send('GET', path).read().decode()
        self.assertIn(f'paused after {AFTER} s without use', text)


if __name__ == '__main__':
    unittest.main()
