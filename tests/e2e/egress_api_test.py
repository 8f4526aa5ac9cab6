"""The API of a sandbox's policy, behind port 18080 of the sandbox, as released clients use it."""
import json
import unittest

import atoll
from atoll import SLOWNESS, until
from egress import TOKEN, V4, EgressTest, policy, rule

DENY_ALL = {'defaultAction': 'deny', 'egress': []}


def rules_of(answer):
    return [(item['action'], item['target']) for item in answer['policy']['egress'] or []]


class WithTheKey(EgressTest):
    """/sandboxes/{id}/networkpolicy: the same policy, for who has the API key."""

    def ask(self, box, method, body=None, **headers):
        response = self.daemon.send(method, f'/v1/sandboxes/{box.id}/networkpolicy', body, headers)
        text = response.read().decode()
        return response.status, json.loads(text) if text.startswith('{') else text

    def test_it_is_the_policy_of_port_18080(self):
        box = self.box(policy('good.example'))
        self.assertEqual(self.ask(box, 'GET'), (200, box.policy()))
        status, changed = self.ask(box, 'PATCH', [rule('other.example')])
        self.assertEqual((status, changed['status']), (200, 'ok'))
        self.assertEqual(changed['policy'], box.policy()['policy'])
        self.assertEqual(rules_of(changed), [('allow', 'other.example'), ('allow', 'good.example')])
        status, changed = self.ask(box, 'DELETE', ['good.example'])
        self.assertEqual((status, rules_of(changed)), (200, [('allow', 'other.example')]))
        status, changed = self.ask(box, 'PUT', DENY_ALL)
        self.assertEqual((status, changed['mode']), (200, 'deny_all'))
        self.assertEqual(box.policy()['policy'], DENY_ALL)
        self.assertEqual(self.ask(box, 'PUT', {'defaultAction': 'perhaps'})[0], 400)
        self.assertEqual(self.ask(box, 'PATCH', [rule('x.example', 'perhaps')])[0], 400)
        self.assertEqual(box.policy()['policy'], DENY_ALL)

    def test_it_needs_the_key(self):
        box = self.box(policy('good.example'))
        token = {TOKEN: box.find_endpoint()['headers'][TOKEN]}
        for headers in ({'OPEN-SANDBOX-API-KEY': ''}, {'OPEN-SANDBOX-API-KEY': 'x', **token}):
            self.assertEqual(self.ask(box, 'PUT', DENY_ALL, **headers)[0], 401)
        self.assertEqual(box.policy()['policy'], policy('good.example'))
        self.assertEqual(self.ask(box, 'POST', DENY_ALL)[0], 405)
        self.daemon.delete(box.id)
        self.assertEqual(self.ask(box, 'GET')[1]['code'], 'DOCKER::SANDBOX_NOT_FOUND')


class Endpoint(EgressTest):
    def test_shape(self):
        box = self.box(policy('good.example'))
        endpoint = box.find_endpoint()
        self.assertRegex(endpoint['endpoint'], rf'^127\.0\.0\.1:\d+/v1/sandboxes/{box.id}/proxy/18080$')
        self.assertEqual(list(endpoint['headers']), [TOKEN])
        self.assertGreaterEqual(len(endpoint['headers'][TOKEN]), 24)
        for query in ('?use_server_proxy=true', '?use_server_proxy=false'):
            again = self.daemon.request('GET', f'/v1/sandboxes/{box.id}/endpoints/18080{query}')
            self.assertEqual(again['headers'], endpoint['headers'])
        answer = box.policy()
        self.assertEqual(answer['status'], 'ok')
        self.assertEqual(answer['mode'], 'enforcing')
        self.assertEqual(answer['enforcementMode'], 'dns+nft')
        self.assertEqual(answer['policy'], policy('good.example'))

    def test_resolves_without_a_policy(self):
        """Clients ask for it whenever they create or connect."""
        box = self.box()
        self.assertIn('endpoint', box.find_endpoint())
        self.assertEqual(box.egress_call('GET', '/healthz').status, 200)

    def test_modes(self):
        for given, mode in (({}, 'deny_all'), (DENY_ALL, 'deny_all'),
                            ({'defaultAction': 'allow'}, 'allow_all'),
                            (policy('good.example'), 'enforcing'),
                            (policy('!good.example', default='allow'), 'enforcing')):
            with self.subTest(given), self.own_box(given) as box:
                self.assertEqual(box.policy()['mode'], mode)

    def test_token(self):
        box, other = self.box(policy('good.example')), self.box(policy())
        headers = box.find_endpoint()['headers']
        self.assertNotEqual(headers, other.find_endpoint()['headers'])
        wrong = [{}, {TOKEN: ''}, {TOKEN: 'x' * 32}, other.find_endpoint()['headers'],
                 {TOKEN: headers[TOKEN] + 'x'}, {TOKEN: headers[TOKEN][:-1]},
                 {'Authorization': headers[TOKEN]}, dict(box.headers),
                 {'OPEN-SANDBOX-API-KEY': self.daemon.key}]
        for method, body in (('GET', None), ('PUT', '{"defaultAction":"allow"}'), ('POST', ''),
                             ('PATCH', '[{"target":"evil.example","action":"allow"}]'),
                             ('DELETE', '["good.example"]')):
            for bad in wrong:
                with self.subTest(method=method, headers=bad):
                    answer = box.egress_call(method, '/policy', body, bad)
                    self.assertEqual((answer.status, answer.text.strip()), (401, 'unauthorized'))
                    self.assertTrue(answer.headers['Content-Type'].startswith('text/plain'))
        self.assertEqual(rules_of(box.policy()), [('allow', 'good.example')])
        self.assertEqual(box.egress_call('GET', '/healthz', headers={}).text.strip(), 'ok')

    def test_methods_and_paths(self):
        box = self.box(policy())
        for path, method, allowed in (('/policy', 'OPTIONS', 'PATCH'), ('/policy', 'TRACE', 'PUT'),
                                      ('/healthz', 'DELETE', 'GET')):
            answer = box.egress_call(method, path)
            self.assertEqual(answer.status, 405, (method, path, answer))
            self.assertIn(allowed, answer.headers['Allow'])
        for path in ('/', '/policy/x', '/nothing', '/policy%2f', '/../../v1/sandboxes'):
            self.assertIn(box.egress_call('GET', path).status, (400, 404), path)

    def test_sandbox_cannot_stand_in(self):
        """What listens on port 18080 inside gets none of it, the token least of all."""
        box = self.box(policy('good.example'))
        box.background('nc -ll -p 18080 -e sh -c "cat >>/tmp/seen"')
        until(lambda: box.tcp('127.0.0.1', 18080).word == 'ok', 30 * SLOWNESS)
        self.assertEqual(box.policy()['policy'], policy('good.example'))
        for path in (f'/sandboxes/{box.id}/proxy/18080/policy',
                     f'/v1/sandboxes/{box.id}/proxy/18080/policy'):
            response = self.daemon.send('GET', path, headers=box.find_endpoint()['headers'])
            self.assertEqual(json.loads(response.read())['policy'], policy('good.example'), path)
        self.assertEqual(box.out('cat /tmp/seen 2>/dev/null || true'), '')

    def test_goes_with_the_sandbox(self):
        box = self.box(policy('good.example'))
        box.find_endpoint()
        self.daemon.delete(box.id)
        for method in ('GET', 'PUT', 'DELETE'):
            self.assertIn(box.egress_call(method, '/policy', '["x.example"]').status, (404,))


class Changes(EgressTest):
    """PUT, POST, PATCH and DELETE; the policy that is told is the one that is enforced."""

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.b = cls.box(policy())

    def setUp(self):
        self.b.policy('PUT', policy('good.example', '!other.example'))

    def refused(self, method, body, status):
        before = self.b.policy()
        answer = self.b.egress_call(method, '/policy', body)
        self.assertEqual(answer.status, status, (method, str(body)[:200], answer.text[:300]))
        self.assertTrue(answer.headers['Content-Type'].startswith('text/plain'), answer.headers)
        self.assertTrue(answer.text.strip())
        self.assertEqual(self.b.policy(), before)
        return answer.text

    def test_put_and_post_replace(self):
        for method in ('PUT', 'POST'):
            answer = self.b.policy(method, policy('10.66.0.0/24', rule('evil.example')))
            self.assertEqual(answer['status'], 'ok')
            self.assertEqual(rules_of(answer), [('allow', '10.66.0.0/24'),
                                                ('allow', 'evil.example')])
            self.assertEqual(answer['policy'], self.b.policy()['policy'])
            self.assertEqual(self.b.lookup('evil.example'), [V4.at(12)])
            self.assertEqual(self.b.dig('good.example').rcode, 'NXDOMAIN')
            self.setUp()

    def test_empty_is_deny_all(self):
        for method in ('PUT', 'POST'):
            for body in (None, '', '{}', 'null', ' \n'):
                with self.subTest(method=method, body=body):
                    self.setUp()
                    answer = self.b.policy(method, body)
                    self.assertEqual((answer['mode'], rules_of(answer)), ('deny_all', []))
                    if not (body or '').strip():
                        self.assertTrue(answer['reason'])
                    self.assertEqual(self.b.dig('good.example').rcode, 'NXDOMAIN')

    def test_absent_parts(self):
        answer = self.b.policy('PUT', {'egress': [{'target': 'good.example'},
                                                  {'action': 'allow', 'target': 'Other.Example'}]})
        self.assertEqual(answer['policy']['defaultAction'], 'deny')
        self.assertEqual(rules_of(answer)[0], ('deny', 'good.example'))
        self.assertEqual(self.b.dig('good.example').rcode, 'NXDOMAIN')
        self.assertEqual(self.b.lookup('other.example'), [V4.at(11)])

    def test_patch_goes_in_front(self):
        answer = self.b.policy('PATCH', [rule('OTHER.example'), rule('sub.good.example', 'deny'),
                                         rule('other.example', 'deny')])
        self.assertEqual([(action, target.lower()) for action, target in rules_of(answer)],
                         [('allow', 'other.example'), ('deny', 'sub.good.example'),
                          ('allow', 'good.example')])
        self.assertEqual(answer['policy']['defaultAction'], 'deny')
        self.assertEqual(self.b.lookup('other.example'), [V4.at(11)])
        self.b.policy('PUT', {'defaultAction': 'allow'})
        self.assertEqual(self.b.policy('PATCH', [rule('evil.example', 'deny')])['policy'],
                         policy('!evil.example', default='allow'))

    def test_delete_by_target(self):
        answer = self.b.policy('DELETE', ['GOOD.example', 'nothing.example'])
        self.assertEqual(rules_of(answer), [('deny', 'other.example')])
        self.assertEqual(self.b.dig('good.example').rcode, 'NXDOMAIN')
        answer = self.b.policy('DELETE', ['nothing.example'])
        self.assertEqual(answer['status'], 'ok')
        self.assertTrue(answer['reason'])

    def test_invalid(self):
        for text in ('{', '[]', '1', '"x"', '{"egress": {}}', '{"defaultAction": "maybe"}',
                     '{"egress": [{"action": "allow"}]}', '{"egress": [1]}', '{"egress": "x"}',
                     '{"defaultAction": 1}', '{"egress": []} x', '\xff'):
            self.refused('PUT', text.encode('latin-1'), 400)
        for target in ('', '*', '*.', 'a..b', 'a b', 'http://good.example', 'good.example:443',
                       '203.0.113.0/33', '203.0.113', '::/129', 'x' * 64 + '.example', '*.*.example',
                       'a.*.example', '203.0.113.1-203.0.113.9', 'good.example/24', 'ex\x00mple.org',
                       '.'.join(['x' * 60] * 5), '300.1.1.1', 'fe80::1%eth0', 7, None, ['a']):
            with self.subTest(target):
                self.refused('PUT', {'egress': [rule(target)]}, 400)
                self.refused('PATCH', [rule(target)], 400)
        for action in ('permit', 'ALLOWED', 1, {}):
            self.refused('PUT', {'egress': [rule('good.example', action)]}, 400)
        for more in ({'ports': [0]}, {'ports': [65536]}, {'ports': ['443']}, {'ports': 443},
                     {'protocol': 'sctp'}, {'protocol': 6}, {'ports': list(range(1, 100))}):
            self.refused('PUT', {'egress': [rule('good.example', **more)]}, 400)
        for method, body in (('PATCH', '[]'), ('PATCH', ''), ('PATCH', '{}'), ('DELETE', '{}'),
                             ('DELETE', '[1]'), ('DELETE', '')):
            self.refused(method, body, 400)
        self.assertIn('egress[1]', self.refused('PUT', {'egress': [rule('a.example'),
                                                                   rule('a b')]}, 400))

    def test_size(self):
        most = policy(*(f'198.51.{90 + (i >> 8)}.{i & 255}' for i in range(4096)))
        self.assertEqual(len(rules_of(self.b.policy('PUT', most))), 4096)
        for number in (6, 7):
            self.assert_echo(self.b.udp(V4.away(number), 9))
        self.refused('PATCH', [rule('one.example')], 413)
        self.setUp()
        self.refused('PUT', policy(*(f'n{i}.example' for i in range(4097))), 413)
        answer = self.b.egress_call('PUT', '/policy', ' ' * (1 << 20) + '{"defaultAction":"allow"}')
        self.assertIn(answer.status, (400, 413))
        self.assertEqual(rules_of(self.b.policy())[0], ('allow', 'good.example'))


class Create(EgressTest):
    """`networkPolicy` and the extensions of a create request."""

    def test_invalid_policies(self):
        before = self.daemon.request('GET', '/v1/sandboxes')['pagination']['totalItems']
        for given in ({'egress': [rule('a b')]}, {'defaultAction': 'maybe'}, {'egress': 7},
                      {'egress': [rule('203.0.113.0/33')]},
                      policy(*(f'n{i}.example' for i in range(4097)))):
            with self.assertRaises(atoll.ApiError) as caught:
                self.box(given)
            self.assertIn(caught.exception.status, (400, 413, 422), str(given)[:100])
            self.assertTrue(caught.exception.message)
        after = self.daemon.request('GET', '/v1/sandboxes')['pagination']['totalItems']
        self.assertEqual(after, before)

    def test_invalid_extensions(self):
        for extensions in ({'network': 'a b'}, {'network': '../x'},
                           {'network': 'n' * 300}, {'network': 'n', 'network.hostname': 'a b'},
                           {'network.bandwidth': 'fast'}, {'network.bandwidth': '-1'},
                           {'network.bandwidth': '0'}):
            with self.subTest(extensions), self.assertRaises(atoll.ApiError) as caught:
                self.box(policy(), extensions=extensions)
            self.assertEqual(caught.exception.status, 400)

    def test_network_view(self):
        with self.own_box(policy('good.example')) as box:
            view = box.network()
            self.assertEqual(view['policy'], policy('good.example'))
            self.assertEqual(view['mode'], 'enforcing')
            self.assertEqual((view['learned'], view['denials']), ([], []))
            self.assertEqual(set(view['counters']),
                             {'bytesIn', 'bytesOut', 'packetsIn', 'packetsOut', 'denied'})
        with self.own_box() as box:
            self.assertIsNone(box.network()['policy'])
        response = self.daemon.send('GET', '/v1/sandboxes/00000000-0000-4000-8000-000000000000/network')
        self.assertEqual(response.status, 404)
        response = self.daemon.send('GET', f'/v1/sandboxes/{box.id}/network',
                                    headers={'OPEN-SANDBOX-API-KEY': 'wrong'})
        self.assertEqual(response.status, 401)


if __name__ == '__main__':
    unittest.main()
