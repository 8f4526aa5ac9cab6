"""SIGKILL of the daemon or the spawner at any moment of a template's: while its sandboxes are built,
made ready, brought to rest or claimed, and while creates wait for them."""
import os
import signal
import threading
import unittest

import atoll
from atoll import SLOWNESS
from host_state import HostState
from template_test import UNTIL, claim, filled, make, phase, view

ROUNDS = 4


class TemplateCrashTest(unittest.TestCase):

    def round(self, kill):
        with atoll.Daemon() as daemon:
            daemon.delete(daemon.create(daemon.import_busybox()))
        before = HostState.capture()
        with atoll.Daemon() as daemon:
            template = make(daemon, daemon.import_busybox(), stock=2,
                            readiness={'probe': 'cmd://test -s /up'},
                            warmup={'command': ['sh', '-c', 'echo warm >/warmed']})['templateId']
            for number in range(ROUNDS):
                created, stopping = [], threading.Event()

                def client(created=created, stopping=stopping):
                    while not stopping.is_set():
                        try:
                            created.append(claim(daemon, template)['id'])
                        except (OSError, atoll.http.client.HTTPException, atoll.ApiError, ValueError):
                            return
                # The first finds a template of which nothing has been ready yet.
                if number:
                    filled(daemon, template, 2)
                threads = [threading.Thread(target=client) for _ in range(3)]
                for thread in threads:
                    thread.start()
                if number:
                    atoll.until(lambda created=created, most=2 * number: len(created) >= most, UNTIL)
                kill(daemon)
                stopping.set()
                for thread in threads:
                    thread.join()
                filled(daemon, template, 2)
                self.assertEqual(phase(daemon, template), 'Succeeded')
                atoll.until(daemon.healthy, UNTIL, 'all agrees')
                seeds = {daemon.run(box, 'cat /seed').stdout for box in created}
                self.assertEqual((len(set(created)), len(seeds)), (len(created), len(created)))
                for box in created:
                    self.assertEqual(daemon.run(box, 'cat /up /warmed').stdout, 'up\nwarm')
                for box in daemon.request('GET', '/v1/sandboxes?pageSize=100')['items']:
                    self.assertEqual(box['templateId'], template)
                    daemon.delete(box['id'])
                waiting = daemon.waiting()
                self.assertLessEqual(len(waiting), 2)
            self.kill_while_removed(daemon, template, kill)
        self.assertEqual(before.await_same(30 * SLOWNESS), [])

    def test_a_claim_that_fails_gives_its_key_back(self):
        """The spawner stands still, so that nothing goes on that is claimed."""
        with atoll.Daemon() as daemon:
            template = make(daemon, daemon.import_busybox())['templateId']
            filled(daemon, template)
            asked = {'templateId': template, 'timeout': 600, 'metadata': {'name': 'one'},
                     'extensions': {'uniqueName': 'true'}}
            again = lambda: daemon.request('POST', '/v1/sandboxes', asked,
                                           headers={'Idempotency-Key': 'k'})['id']
            spawner = daemon.spawner_pid()
            os.kill(spawner, signal.SIGSTOP)
            try:
                with self.assertRaises(atoll.ApiError) as refused:
                    again()
                self.assertEqual(refused.exception.status, 429)
            finally:
                os.kill(spawner, signal.SIGCONT)
            filled(daemon, template)
            box = again()
            self.assertEqual(again(), box)
            self.assertEqual(daemon.run(box, 'cat /up').stdout, 'up')

    def kill_while_removed(self, daemon, template, kill):
        daemon.request('DELETE', f'/v1/templates/{template}')
        kill(daemon)
        self.assertEqual(daemon.request('GET', '/v1/templates')['items'], [])
        atoll.until(lambda: not daemon.waiting(), UNTIL, 'nothing of it waits')
        atoll.until(daemon.healthy, UNTIL, 'all agrees')

    def test_of_the_daemon(self):
        def kill(daemon):
            daemon.kill()
            daemon.start()
        self.round(kill)

    def test_of_the_spawner(self):
        self.round(atoll.Daemon.kill_spawner)

    def test_of_the_daemon_while_one_is_made_ready(self):
        """What had begun inside ends with its asker, and another is built."""
        with atoll.Daemon() as daemon:
            template = make(daemon, daemon.import_busybox(),
                            readiness={'probe': 'cmd://sleep 3000'})['templateId']
            atoll.until(lambda: view(daemon, template)['status']['building'] == 1, UNTIL, 'it is built')
            sockets = daemon.waiting
            atoll.until(lambda: len(sockets()) == 1, UNTIL, 'it has a socket')
            old = sockets()
            daemon.kill()
            daemon.start()
            atoll.until(lambda: len(sockets()) == 1 and not old & sockets(), UNTIL, 'another is built')
            daemon.request('DELETE', f'/v1/templates/{template}')
            atoll.until(lambda: not sockets(), UNTIL, 'nothing is left')


if __name__ == '__main__':
    unittest.main()
