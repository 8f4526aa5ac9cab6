"""Policies through the life of sandboxes and daemons: restarts, crashes, upgrades, reused slots; and
networks that sandboxes share by name."""
import os
import signal
import unittest

from atoll import SLOWNESS, ApiError, until
from egress import FAMILIES, V4, EgressBox, EgressTest, policy, request

ALLOWED = policy('good.example', V4.at(1), '2001:db8:1::1')


class Endurance(EgressTest):
    def again(self, box):
        """The same sandbox; the daemon has a new address."""
        again = EgressBox.__new__(EgressBox)
        again.__dict__.update(box.__dict__, endpoint=None, headers=self.daemon.execd_headers(box.id))
        return again

    def check_enforced(self, box):
        """The policy that it was created with, to its letter."""
        for net in FAMILIES:
            self.assert_echo(box.udp(net.at(1), 9))
            self.assert_refused(box.udp(net.at(2), 9))
            self.assertEqual(box.dig('evil.example', net.kind).rcode, 'NXDOMAIN')
            self.assertEqual(box.lookup('good.example', net), [net.at(10)])
            self.assert_served(box.http(net.at(10), 'good.example'), 'good.example')
            self.assertEqual(box.http(net.at(10), 'evil.example').served, None)
        self.assertEqual(box.policy()['policy'], ALLOWED)

    def through(self, event):
        """`event` happens while sandboxes run: one that asked at create, one at runtime, one open."""
        created, changed, is_open = self.box(ALLOWED), self.box(policy()), self.box()
        changed.policy('PUT', ALLOWED)
        boxes = (created, changed)
        tokens = [box.find_endpoint()['headers'] for box in boxes]
        for box in boxes:
            for net in FAMILIES:
                box.lookup('good.example', net)
            box.flow('direct', V4.at(1), 7777)
        learned = [set(box.learned()) for box in boxes]
        event()
        boxes = tuple(map(self.again, boxes))
        for box, token, addresses in zip(boxes, tokens, learned):
            # Before anything is looked up again.
            self.assertEqual(set(box.learned()), addresses)
            for net in FAMILIES:
                self.assert_echo(box.udp(net.at(10), 9))
            self.assert_echo(box.poke('direct', b'kept'), b'kept')
            self.assertEqual(box.find_endpoint()['headers'], token)
            self.check_enforced(box)
            box.policy('PUT', policy())
            self.assert_refused(box.udp(V4.at(10), 9))
            self.assert_refused(box.udp(V4.at(1), 9))
            self.daemon.delete(box.id)
        is_open = self.again(is_open)
        self.assert_echo(is_open.udp(V4.at(2), 9))
        self.daemon.delete(is_open.id)

    def test_restart(self):
        self.through(lambda: (self.daemon.stop(), self.daemon.start()))

    def test_restart_with_many(self):
        """More than the kernel's answers to one transaction have room for."""
        box = self.box(ALLOWED)
        others = [self.daemon.create(self.image) for _ in range(150)]
        self.daemon.stop()
        self.daemon.start()
        self.check_enforced(self.again(box))
        for other in (*others, box.id):
            self.daemon.delete(other)

    def test_kill(self):
        self.through(lambda: (self.daemon.kill(), self.daemon.start()))

    def test_upgraded_spawner(self):
        def upgrade():
            # The old one goes on until the new program has been tried.
            self.daemon.upgrade_spawner()
            until(self.creates, 20 * SLOWNESS, 'the new spawner answers')

        self.through(upgrade)

    def creates(self):
        try:
            self.daemon.delete(self.daemon.create(self.image))
        except ApiError as error:
            self.assertEqual(error.status, 429)
            return False
        return True

    def test_killed_spawner(self):
        self.through(lambda: (os.kill(self.daemon.spawner_pid(), signal.SIGKILL),
                              self.daemon.stop(), self.daemon.start()))

    def test_while_the_daemon_is_dead(self):
        """What the kernel holds goes on; what needs the daemon is closed, not open."""
        box = self.box(ALLOWED)
        box.lookup('good.example')
        process = box.host_pid()
        box.process = process  # no daemon, no exec: from outside, in its namespace
        self.daemon.kill()
        try:
            options = {'send': b'hello', 'wait': 1000 * SLOWNESS}
            self.assert_echo(box.forge('udp', V4.at(1), 9, **options))
            self.assert_echo(box.forge('udp', V4.at(10), 9, **options))
            self.assertEqual(box.forge('tcp', V4.at(2), 7777, **options).word, 'refused')
            for host in ('good.example', 'evil.example'):
                ask = request(host, '/dead')
                outcome = box.forge('tcp', V4.at(10), 80, send=ask, wait=1000 * SLOWNESS)
                self.assertNotEqual(outcome.word, 'ok')
            self.assertEqual(self.internet.requests(path='/dead'), [])
            self.assertNotEqual(box.forge('udp', '203.0.113.53', 53, **options).word, 'ok')
        finally:
            self.daemon.start()
        self.check_enforced(self.again(box))

    def test_pause_and_resume(self):
        box = self.box(ALLOWED)
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/pause')
        state = lambda: box.state()['state']
        until(lambda: state() == 'Paused', 30 * SLOWNESS)
        self.daemon.request('POST', f'/v1/sandboxes/{box.id}/resume')
        until(lambda: state() == 'Running', 30 * SLOWNESS)
        self.check_enforced(self.again(box))

    def test_next_user_of_a_slot(self):
        """Gets nothing of what the one before was allowed or had learned."""
        addresses = set()
        for number in range(60):
            box = self.box(ALLOWED if number % 2 == 0 else policy())
            own = box.own_address(V4)
            if number % 2 == 0:
                box.lookup('good.example')
                self.assert_echo(box.udp(V4.at(10), 9))
            else:
                self.assertEqual(box.learned(), {})
                self.assert_refused(box.udp(V4.at(10), 9))
                self.assert_refused(box.udp(V4.at(1), 9))
                if own in addresses:
                    return
            addresses.add(own)
            self.daemon.delete(box.id)
        # Slots are used again only when all others were: then each of these was a new one.
        self.assertEqual(len(addresses), 60)


class Shared(EgressTest):
    """Networks by name."""

    def member(self, network, hostname=None, given=None):
        extensions = {'network': network}
        if hostname:
            extensions['network.hostname'] = hostname
        box = self.box(given, extensions=extensions)
        box.background('exec nc -ll -p 6379 -e cat')
        until(lambda: box.tcp('127.0.0.1', 6379, send=b'x').word == 'ok', 30 * SLOWNESS)
        return box

    def test_members_reach_each_other(self):
        for number, given in enumerate((None, policy(), policy('good.example'))):
            with self.subTest(given):
                self.internet.clear()
                # Names of their own: members of the last round may still be on their way out.
                shop, other = f'shop-{number}', f'other-{number}'
                database = self.member(shop, 'database', given)
                web = self.member(shop, None, given)
                stranger, outsider = self.member(other, 'web', given), self.box(given)
                for net in FAMILIES:
                    address = database.own_address(net)
                    self.assertEqual(web.lookup('database', net), [address])
                    self.assertEqual(database.lookup(web.id, net), [web.own_address(net)])
                    self.assert_echo(web.tcp(address, 6379, send=b'hello', want=5))
                    self.assert_echo(database.tcp(web.own_address(net), 6379, send=b'hello', want=5))
                    for alien in (stranger, outsider):
                        self.assertEqual(alien.lookup('database', net), [])
                        self.assert_refused(alien.tcp(address, 6379, send=b'x'))
                        self.assert_refused(web.tcp(alien.own_address(net), 6379, send=b'x'))
                self.assertEqual(stranger.lookup('web'), [stranger.own_address(V4)])
                if given:  # a stranger who may ask the world for any name does
                    self.assertEqual([item['name'] for item in self.internet.questions()
                                      if item['name'] in ('database', 'web', web.id)], [])
                self.daemon.delete(database.id)
                until(lambda web=web: web.lookup('database') == [], 30 * SLOWNESS)
                for box in (web, stranger, outsider):
                    self.daemon.delete(box.id)

    def test_survives_a_restart(self):
        database, web = self.member('shop', 'db', policy()), self.member('shop', 'web', policy())
        self.daemon.kill()
        self.daemon.start()
        web.headers = self.daemon.execd_headers(web.id)
        self.assertEqual(web.lookup('db'), [database.own_address(V4)])
        self.assert_echo(web.tcp(database.own_address(V4), 6379, send=b'hello', want=5))
        newcomer = self.member('shop', None, policy())
        self.assert_echo(newcomer.tcp(database.own_address(V4), 6379, send=b'hello', want=5))
        for box in (database, web, newcomer):
            self.daemon.delete(box.id)


if __name__ == '__main__':
    unittest.main()
