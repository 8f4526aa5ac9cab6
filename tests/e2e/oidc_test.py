#!/usr/bin/python3
"""Tokens of identity providers as keys: a real provider, its rotation and its absence; forged tokens; what a token has
opened ends with it."""
import base64
import contextlib
import http.client
import json
import pathlib
import re
import shutil
import tempfile
import time
import unittest
import urllib.parse

from jwcrypto import jwk

import atoll
import idp
import tls_test
from tenant_ingress_test import Daemon
from box import shell_image
from until import until

RULES = '''
[[tenants]]
name = "red"
[[tenants.oidc]]
issuer = "{provider}"
audience = "atoll"
jwks = "{provider}/jwks"
when = {{ groups = "team-red" }}
role = "developer"
[[tenants.oidc]]
issuer = "{provider}"
audience = "atoll"
jwks = "{provider}/jwks"
when = {{ groups = "hosts" }}
role = "operator"

[[tenants]]
name = "blue"
[[tenants.oidc]]
issuer = "https://forge.example"
audience = "atoll"
jwks = "file://{keys}"
when = {{ groups = "team-blue", email = "verified@example.org" }}
role = "developer"
[[tenants.oidc]]
issuer = "https://forge.example"
audience = "atoll"
jwks = "file://{keys}"
when = {{ groups = "team-blue" }}
role = "viewer"
'''


class OidcDaemon(Daemon):
    """Trusts the certificate of the provider, and keeps an audit log."""

    def __init__(self, top, text):
        super().__init__(text, audit_enabled='on')
        self.certificate = top / 'cert.pem'

    def start(self, *wrapper):
        return super().start('env', f'SSL_CERT_FILE={self.certificate}', *wrapper)

    def audit(self, action):
        lines = [json.loads(line) for path in sorted((self.top / 'audit').glob('*.jsonl'))
                 for line in path.read_text(encoding='utf-8').splitlines()]
        return [line for line in lines if line['action'] == action]


class Oidc(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix='atoll-oidc.', dir='/var/tmp'))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.top.chmod(0o755)
        tls_test.make_pair(cls.top)
        cls.forge = idp.Forge(cls.top / 'keys.json')
        cls.provider = cls.enterClassContext(idp.Provider(cls.top))
        cls.rules = RULES.format(provider=cls.provider.issuer, keys=cls.forge.path)
        cls.daemon = cls.enterClassContext(OidcDaemon(cls.top, cls.rules))
        cls.daemon.key = cls.admin = cls.daemon.new_key('admin')
        cls.image = shell_image(cls.daemon)

    def claims(self, **changes):
        now = int(time.time())
        claims = {'iss': self.forge.issuer, 'sub': 'bob', 'aud': 'atoll', 'iat': now, 'exp': now + 600,
                  'groups': ['team-blue'], 'email': 'verified@example.org', **changes}
        return {name: value for name, value in claims.items() if value is not None}

    def ask(self, token, method='GET', path='/v1/whoami', body=None, source='127.0.0.1', header='Authorization'):
        """Status and body of an answer to `source`, whose guesses count together."""
        address = urllib.parse.urlsplit(self.daemon.url)
        connection = http.client.HTTPConnection(address.hostname, address.port, timeout=60 * atoll.SLOWNESS,
                                                source_address=(source, 0))
        credential = {header: f'Bearer {token}' if header == 'Authorization' else token}
        with contextlib.closing(connection):  # whoever polls would soon have all that the daemon takes
            connection.request(method, path, json.dumps(body) if body else None,
                               {'X-Request-ID': 'fixed', **(credential if token else {})})
            response = connection.getresponse()
            return response.status, response.read().decode()

    def create(self, token, *command):
        status, text = self.ask(token, 'POST', '/v1/sandboxes', {
            'image': {'uri': self.image}, 'resourceLimits': {}, 'entrypoint': list(command)})
        self.assertEqual(status, 202, text)
        return json.loads(text)['id']

    def test_claims_of_a_real_provider_are_tenant_and_role(self):
        for client, wanted in {'red-ci': {'role': 'developer', 'tenant': 'red', 'subject': 'red-ci'},
                               'host-ci': {'role': 'operator', 'subject': 'host-ci'}}.items():
            token = self.provider.token(client)
            for header in ('Authorization', 'OPEN-SANDBOX-API-KEY'):
                with self.subTest(client=client, header=header):
                    status, text = self.ask(token, header=header)
                    self.assertEqual(status, 200, text)
                    told = json.loads(text)
                    self.assertRegex(told.pop('key'), '^o_[0-9a-f]{16}$')
                    self.assertEqual(told, wanted)
        self.assertEqual(self.ask(self.provider.token('other-ci'), source='127.0.1.1')[0], 401)

    def test_the_first_rule_that_fits_counts(self):
        role = lambda **changes: json.loads(self.ask(self.forge.sign(self.claims(**changes)))[1]).get('role')
        self.assertEqual(role(), 'developer')
        self.assertEqual(role(email='other@example.org'), 'viewer')
        self.assertEqual(role(email=None), 'viewer')
        self.assertEqual(role(groups='team-blue', aud=['x', 'atoll']), 'developer')
        self.assertEqual(role(groups=[f'g{i}' for i in range(199)] + ['team-blue']), 'developer')

    def test_forged_tokens_get_the_answer_of_an_unknown_key(self):
        now, sign, claims = int(time.time()), self.forge.sign, self.claims()
        good = sign(claims)
        head, payload, signature = good.split('.')
        by_hand = lambda header, rest='.AAAA': idp.base64url(json.dumps(header)) + '.' + payload + rest
        stranger = jwk.JWK.generate(kty='RSA', size=2048, kid='rsa')
        other_curve = jwk.JWK.generate(kty='EC', crv='P-384', kid='ec')
        public = self.forge.rsa.export_public()
        secret = lambda text: jwk.JWK(kty='oct', k=idp.base64url(text), kid='rsa')
        forged = {
            'alg none': by_hand({'alg': 'none', 'kid': 'rsa'}, '.'),
            'alg none with a signature': by_hand({'alg': 'none', 'kid': 'rsa'}, '.' + signature),
            'HS256 with the public key': sign(claims, secret(public)),
            'HS256 with the PEM': sign(claims, secret(self.forge.rsa.export_to_pem())),
            'another key': sign(claims, stranger),
            'a changed payload': f'{head}.{idp.base64url(json.dumps(claims | {"sub": "eve"}))}.{signature}',
            'another audience': sign(claims | {'aud': 'other'}),
            'no audience': sign(self.claims(aud=None)),
            'an audience that begins alike': sign(claims | {'aud': 'atoll2'}),
            'another issuer': sign(claims | {'iss': 'https://evil.example'}),
            'the issuer with a slash': sign(claims | {'iss': self.forge.issuer + '/'}),
            'the provider as issuer': sign(claims | {'iss': self.provider.issuer}),
            'expired': sign(claims | {'exp': now - 61}),
            'no expiry': sign(self.claims(exp=None)),
            'an expiry that is text': sign(claims | {'exp': str(now + 600)}),
            'not yet': sign(claims | {'nbf': now + 120}),
            'of the future': sign(claims | {'iat': now + 120}),
            'no subject': sign(self.claims(sub=None)),
            'crit': by_hand({'alg': 'RS256', 'kid': 'rsa', 'crit': ['exp']}, '.' + signature),
            'jku': sign(claims, stranger, jku='https://evil.example/jwks'),
            'x5u': sign(claims, stranger, x5u='https://evil.example/cert'),
            'jwk': sign(claims, stranger, jwk=stranger.export_public(as_dict=True)),
            'jku beside a right signature': sign(claims, jku='https://evil.example/jwks'),
            'a logout token': sign(claims, typ='logout+jwt'),
            'an unknown key id': sign(claims, kid='none-such'),
            'no key id': by_hand({'alg': 'RS256'}, '.' + signature),
            'larger than 8 KiB': sign(claims | {'padding': 'x' * 8192}),
            'more than 200 groups': sign(claims | {'groups': ['g'] * 200 + ['team-blue']}),
            'ES256 with a key of RSA': by_hand({'alg': 'ES256', 'kid': 'rsa'}, '.' + idp.base64url(bytes(64))),
            'RS256 with a key of a curve': by_hand({'alg': 'RS256', 'kid': 'ec'}, '.' + signature),
            'another curve': sign(claims, other_curve, alg='ES384'),
            'a header with alg twice': idp.base64url('{"alg":"HS256","alg":"RS256","kid":"rsa"}')
                                       + f'.{payload}.{signature}',
            'claims with aud twice': sign('{"aud":"other",' + json.dumps(claims)[1:]),
            'a short signature': good[:-4],
            'a long signature': good + 'AAAA',
            'no signature': f'{head}.{payload}.',
            'no parts': 'eyJ.eyJ.eyJ',
            'deep': idp.base64url('{"alg":' + '[' * 3000 + ']' * 3000 + '}') + '.e30.AAAA',
            'bytes': '%s.%s.%s' % (head, idp.base64url(b'{"iss":"\xff\xfe"}'), signature),
        }
        self.assertEqual(self.ask(good)[0], 200)
        refusal = self.ask('atl_abcdefgh_' + 'x' * 43, source='127.0.2.1')
        self.assertEqual(refusal[0], 401)
        for number, (name, token) in enumerate(forged.items()):
            with self.subTest(name):
                self.assertEqual(self.ask(token, source=f'127.0.2.{number + 2}'), refusal)
        # Once more in the other header, from memory or not.
        for number, (name, token) in enumerate(forged.items()):
            with self.subTest(name, again=True):
                self.assertEqual(self.ask(token, source=f'127.0.3.{number + 2}', header='OPEN-SANDBOX-API-KEY'),
                                 refusal)
        self.assertEqual(self.ask(good)[0], 200)
        self.assertEqual(self.ask(sign(claims, self.forge.ec))[0], 200)
        self.assertEqual(self.ask(sign(claims, alg='PS512'))[0], 200)

    def test_a_signature_has_one_form(self):
        """Some signers leave out zero bytes of r and s, others add them."""
        while True:
            token = self.forge.sign(self.claims(), self.forge.ec)
            front, _, signature = token.rpartition('.')
            halves = base64.urlsafe_b64decode(signature + '==')
            if halves[0] == 0:
                break
        for number, form in enumerate([halves[1:], bytes(1) + halves[:32] + bytes(1) + halves[32:]]):
            self.assertEqual(self.ask(f'{front}.{idp.base64url(form)}', source=f'127.0.4.{number + 1}')[0], 401)
        self.assertEqual(self.ask(token)[0], 200)

    def test_a_source_that_guesses_is_limited(self):
        source, known = '127.0.5.1', self.forge.sign(self.claims(sub='known'))
        self.assertEqual(self.ask(known, source=source)[0], 200)
        stranger = jwk.JWK.generate(kty='RSA', size=2048, kid='rsa')
        statuses = [self.ask(self.forge.sign(self.claims(n=n), stranger), source=source)[0] for n in range(25)]
        self.assertEqual(statuses[:20], [401] * 20)
        self.assertEqual(statuses[-1], 429)
        # Nothing is verified for it any more; what was verified counts.
        self.assertEqual(self.ask(known, source=source)[0], 200)
        self.assertEqual(self.ask(self.forge.sign(self.claims(sub='new')), source=source)[0], 429)
        self.assertEqual(self.ask(self.forge.sign(self.claims(sub='new')), source='127.0.5.2')[0], 200)

    def stream(self, target, headers, body=None):
        """An answer that has begun, and goes on."""
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.request('POST' if body else 'GET', target, json.dumps(body) if body else None, headers)
        response = connection.getresponse()
        self.assertEqual(response.status, 200)
        seen = b''
        while b'begun' not in seen:
            piece = response.read1()
            self.assertTrue(piece, seen)
            seen += piece
        return response

    @staticmethod
    def rest_of(response):
        seen = b''
        try:
            while piece := response.read1():
                seen += piece
        except (ConnectionError, http.client.HTTPException):  # cut, not ended
            pass
        return seen

    def test_what_a_token_has_opened_ends_a_minute_after_it(self):
        now = int(time.time())
        lasting = self.forge.sign(self.claims(sub='lasting'))
        box = self.create(lasting, 'sh', '-c', 'echo begun; exec sleep 100000')
        # Its minute of grace ends in some seconds.
        ending = self.forge.sign(self.claims(sub='ending', iat=now - 600, exp=now - 60 + 15 * atoll.SLOWNESS))
        endpoint = lambda token: json.loads(
            self.ask(token, path=f'/v1/sandboxes/{box}/endpoints/44772')[1])['headers']
        follow, execd = f'/v1/sandboxes/{box}/diagnostics/logs?follow=true', f'/sandboxes/{box}/proxy/44772'
        wait = {'command': 'echo begun; exec sleep 100000'}
        token = endpoint(ending)
        self.assertRegex(token['X-EXECD-ACCESS-TOKEN'], rf'^e1\.o_[0-9a-f]{{16}}\.{box}\.')
        opened = [self.stream(follow, {'Authorization': f'Bearer {ending}'}),
                  self.stream(execd + '/command', token, wait)]
        kept = self.stream(follow, {'Authorization': f'Bearer {lasting}'})
        for response in opened:
            self.rest_of(response)
        self.assertGreaterEqual(time.time(), now + 14)
        self.assertEqual(self.ask(ending, source='127.0.6.1')[0], 401)
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.request('GET', execd + '/ping', headers=token)
        self.assertEqual(connection.getresponse().status, 401)
        self.assertEqual(self.ask(lasting)[0], 200)
        # The other holder's stream goes on until its sandbox ends.
        self.assertEqual(self.ask(lasting, 'DELETE', f'/v1/sandboxes/{box}')[0], 204)
        self.rest_of(kept)

    def test_the_server_in_a_sandbox_does_not_get_the_token(self):
        token = self.forge.sign(self.claims(sub='careful'))
        box = self.create(token, 'sh', '-c', 'echo begun; nc -l -p 8000 | while read line; do echo "$line"; done')
        # An application's token of the same issuer is the application's.
        of_app = self.forge.sign(self.claims(aud='an-app'))
        headers = json.loads(self.ask(token, path=f'/v1/sandboxes/{box}/endpoints/8000')[1])['headers']
        log = self.stream(f'/v1/sandboxes/{box}/diagnostics/logs?follow=true', {'Authorization': f'Bearer {token}'})
        endpoint = json.loads(self.ask(token, path=f'/v1/sandboxes/{box}/endpoints/44772')[1])['headers']
        self.stream(f'/sandboxes/{box}/proxy/44772/command', endpoint,
                    {'command': 'until cat /proc/net/tcp* | grep -q ":1F40 .* 0A "; do :; done; echo begun'})
        unseen = self.forge.sign(self.claims(sub='careful', n=1))
        connection = self.daemon.connection()
        self.addCleanup(connection.close)
        connection.putrequest('GET', f'/sandboxes/{box}/proxy/8000/')
        for name, value in headers.items():
            connection.putheader(name, value)
        connection.putheader('Authorization', f'Bearer {unseen}')
        connection.putheader('X-App', of_app)
        connection.endheaders()
        seen = b''
        while b'X-App' not in seen and b'x-app' not in seen or not seen.endswith(b'\n'):
            piece = log.read1()
            self.assertTrue(piece, seen)
            seen += piece
        self.assertIn(of_app.encode(), seen)
        self.assertNotIn(unseen.encode(), seen)
        self.assertNotIn(b'Authorization', seen)
        self.ask(token, 'DELETE', f'/v1/sandboxes/{box}')

    def test_the_audit_log_names_the_person_and_no_token(self):
        token = self.forge.sign(self.claims(sub='carol'))
        key_id = json.loads(self.ask(token)[1])['key']
        box = self.create(token, 'sleep', '100000')
        self.ask(token, 'DELETE', f'/v1/sandboxes/{box}')
        [created] = [line for line in self.daemon.audit('sandbox.create') if line['target'].get('id') == box]
        self.assertEqual(created['actor'], {'kind': 'oidc', 'id': key_id, 'sub': 'carol', 'role': 'developer'})
        self.assertEqual(created['tenant'], 'blue')
        # People put tokens into paths and queries by mistake.
        expired = self.forge.sign(self.claims(exp=int(time.time()) - 3600))
        for shown in (token, expired):
            self.ask(shown, path=f'/v1/sandboxes/{shown}', source='127.0.7.1')
            self.ask(shown, 'DELETE', f'/v1/sandboxes/{shown}?token={shown}', source='127.0.7.1')
            self.ask('', path=f'/v1/{shown}', source='127.0.7.1')
            self.ask(shown, 'POST', '/v1/sandboxes', {'image': {'uri': shown}, 'resourceLimits': {},
                                                      'entrypoint': [shown], 'env': {'A': shown}},
                     source='127.0.7.1')
        written = self.daemon.log.read_text(encoding='utf-8') + ''.join(
            path.read_text(encoding='utf-8') for path in (self.daemon.top / 'audit').glob('*.jsonl'))
        for shown in (token, expired):
            for part in (shown.rpartition('.')[0], shown.rpartition('.')[2]):
                self.assertEqual([line for line in written.splitlines() if part in line], [])

    def test_a_rule_that_goes_ends_what_it_let_in(self):
        token = self.forge.sign(self.claims(sub='leaving'))
        box = self.create(token, 'sh', '-c', 'echo begun; exec sleep 100000')
        follow = self.stream(f'/v1/sandboxes/{box}/diagnostics/logs?follow=true', {'Authorization': f'Bearer {token}'})
        self.addCleanup(self.daemon.reload)
        self.addCleanup(self.daemon.write, self.rules)
        self.daemon.write(self.rules.replace('"team-blue"', '"team-green"'))
        self.daemon.reload()
        self.rest_of(follow)
        self.assertEqual(self.ask(token, source='127.0.8.1')[0], 401)
        self.daemon.write(self.rules.replace('"viewer"', '"boss"'))
        self.assertRegex(self.daemon.reload(), r"tenants.toml line \d+: tenants.oidc.role 'boss': use viewer")
        self.assertEqual(self.ask(token, source='127.0.8.1')[0], 401)

    def test_keys_rotate_and_the_provider_goes_away(self):
        """Waits for the half minute in which unknown keys cause one fetch."""
        patience = 60 * atoll.SLOWNESS
        self.assertEqual(self.ask(self.provider.token('red-ci'))[0], 200)
        self.provider.rotate()
        rotated = self.provider.token('red-ci')
        until(lambda: self.ask(rotated, source='127.0.9.1')[0] == 200, patience, 'the new keys count')
        unused = self.provider.token('red-ci')
        self.provider.kill()
        self.assertEqual(self.ask(unused, source='127.0.9.1')[0], 200, 'the keys of before count')
        self.daemon.stop()
        self.daemon.start()
        status, text = self.ask(rotated, source='127.0.9.1')
        self.assertEqual((status, json.loads(text)['code']), (503, 'TENANT_PROVIDER_UNAVAILABLE'))
        self.assertEqual(self.provider_up(), 0)
        until(lambda: 'identity provider' in self.troubles().get('tenants_provider', ''), patience, 'health tells it')
        self.assertNotIn(self.provider.issuer, json.dumps(self.troubles()), 'anybody may read it')
        self.assertEqual(self.ask(self.forge.sign(self.claims()))[0], 200, 'another issuer is not held up')
        self.provider.start()
        again = self.provider.token('red-ci')
        until(lambda: self.ask(again, source='127.0.9.1')[0] == 200, patience, 'the provider is back')
        self.assertEqual(self.provider_up(), 1)
        self.assertRegex(self.metrics(), r'(?m)^atoll_oidc_jwks_age_seconds\{issuer="%s"\} \d+$'
                         % re.escape(self.provider.issuer))
        until(lambda: 'tenants_provider' not in self.troubles(), patience, 'health is clear')

    def metrics(self):
        return self.daemon.ask(self.admin, 'GET', '/v1/metrics')[1]

    def provider_up(self):
        return int(re.search(r'(?m)^atoll_identity_provider_up\{issuer="%s"\} ([01])$'
                             % re.escape(self.provider.issuer), self.metrics())[1])

    def troubles(self):
        return json.loads(self.daemon.ask(self.admin, 'GET', '/health')[1]).get('troubles', {})


if __name__ == '__main__':
    unittest.main()
