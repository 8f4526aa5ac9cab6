#!/usr/bin/python3
"""atoll login, logout and whoami: with a real identity provider, and with one that answers as the test says."""
import http.server
import json
import os
import pathlib
import re
import shutil
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.error
import urllib.parse
import urllib.request

import atoll
import idp
import oidc_test
import tls_test
from json_request import JsonRequest

PATIENCE = 60 * atoll.SLOWNESS


class Person:
    """A home directory, and the client run in it."""

    def __init__(self, server, certificate):
        self.home = pathlib.Path(tempfile.mkdtemp(prefix='atoll-home.', dir='/var/tmp'))
        self.logins = self.home / '.config/atoll/login.json'
        self.env = {'HOME': str(self.home), 'PATH': f'{atoll.BUILD}:/usr/bin:/bin', 'ATOLL_SERVER': server,
                    'SSL_CERT_FILE': str(certificate)}

    def start(self, *words):
        return subprocess.Popen(['atoll', *words], env=self.env, text=True, stdin=subprocess.DEVNULL,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                executable=atoll.BUILD / 'atoll')

    def run(self, *words, code=0):
        """Standard output, or standard error if it fails."""
        process = self.start(*words)
        out, err = process.communicate(timeout=PATIENCE)
        assert process.returncode == code, (words, process.returncode, out, err)
        return err if code else out

    def kept(self):
        return json.loads(self.logins.read_text(encoding='utf-8'))[self.env['ATOLL_SERVER']]

    def change(self, **members):
        logins = json.loads(self.logins.read_text(encoding='utf-8'))
        logins[self.env['ATOLL_SERVER']].update(members)
        self.logins.write_text(json.dumps(logins), encoding='utf-8')


class FakeProvider(http.server.ThreadingHTTPServer):
    """Answers token requests with what `answers` says, one after the other, and notes when they came."""

    def __init__(self):
        super().__init__(('127.0.0.1', 0), FakeProviderRequest)
        self.answers, self.asked, self.forms = [], [], []
        self.issuer = self.name = f'http://127.0.0.1:{self.server_address[1]}'
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def close(self):
        self.shutdown()
        self.server_close()


class FakeProviderRequest(JsonRequest):
    def do_GET(self):
        issuer = self.server.issuer
        self.answer(200, {'issuer': self.server.name, 'token_endpoint': issuer + '/token',
                          'device_authorization_endpoint': issuer + '/device'})

    def do_POST(self):
        form = urllib.parse.parse_qs(self.rfile.read(int(self.headers['Content-Length'])).decode())
        self.server.forms.append(form)
        if self.path == '/device':
            self.answer(200, {'device_code': 'secret-code', 'user_code': 'AB\x1b[2JCD', 'interval': 1,
                              'verification_uri': self.server.issuer + '/go', 'expires_in': 600})
            return
        self.server.asked.append(time.monotonic())
        self.answer(*self.server.answers.pop(0))


class Login(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.top = pathlib.Path(tempfile.mkdtemp(prefix='atoll-login.', dir='/var/tmp'))
        cls.addClassCleanup(shutil.rmtree, cls.top)
        cls.top.chmod(0o755)
        tls_test.make_pair(cls.top)
        cls.provider = cls.enterClassContext(idp.Provider(cls.top))
        rules = oidc_test.RULES.format(provider=cls.provider.issuer, keys=cls.top / 'none.json')
        cls.daemon = cls.enterClassContext(oidc_test.OidcDaemon(cls.top, rules))

    def person(self):
        person = Person(self.daemon.url, self.top / 'cert.pem')
        self.addCleanup(shutil.rmtree, person.home)
        return person

    def login(self, person, name='alice', *words):
        """Signs in as a person with a browser does. Returns the process, and what it has asked for."""
        process = person.start('login', '--issuer', self.provider.issuer, '--client-id', 'atoll-cli', *words)
        self.addCleanup(process.communicate)
        self.addCleanup(process.kill)
        asked = process.stderr.readline() + process.stderr.readline()
        page = re.search(r'^or open (\S+)$', asked, re.M)
        self.assertTrue(page, asked)
        self.provider.approve(page[1], name)
        return process, asked

    def signed_in(self):
        person = self.person()
        process, _ = self.login(person)
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, err), (0, ''))
        return person

    def same(self, text):
        """Without what differs each time."""
        for pattern, word in {self.daemon.url: 'https://atoll.example', self.provider.issuer: 'https://idp.example',
                              r'\b[A-Z]{4}-[A-Z]{4}\b': 'CODE', r'o_[0-9a-f]{16}': 'ID',
                              r'\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ': 'TIME'}.items():
            text = re.sub(pattern, word, text)
        return text

    def test_the_page_shows_what_is_said(self):
        page = (atoll.TOP / 'docs/teams.md').read_text(encoding='utf-8')
        [shown] = re.findall(r'^```console\n(.*?)^```', page, re.M | re.S)
        self.assertIn(f'--issuer https://idp.example --client-id atoll-cli\n', shown)
        person = self.person()
        process, asked = self.login(person)
        out, err = process.communicate(timeout=PATIENCE)
        self.assertEqual((process.returncode, err), (0, ''))
        whoami = person.run('whoami')
        left = person.start('logout')
        said = ['export ATOLL_SERVER=https://atoll.example\n',
                'atoll login --issuer https://idp.example --client-id atoll-cli\n' + asked + out,
                'atoll whoami\n' + whoami, 'atoll logout\n' + left.communicate(timeout=PATIENCE)[1]]
        self.assertEqual(self.same(''.join('$ ' + one for one in said)), self.same(shown))

    def test_a_sign_in_is_kept_for_its_user_and_its_server(self):
        person = self.signed_in()
        self.assertEqual(person.logins.stat().st_mode & 0o777, 0o600)
        self.assertEqual(person.logins.parent.stat().st_mode & 0o777, 0o700)
        person.run('ps')
        # The same daemon by another name is another server.
        person.env['ATOLL_SERVER'] = self.daemon.url.replace('127.0.0.1', 'localhost')
        elsewhere = person.start('ps')
        self.assertIn('MISSING_API_KEY', elsewhere.communicate(timeout=PATIENCE)[1])
        person.env['ATOLL_SERVER'] = self.daemon.url
        # A key goes before it.
        person.env['ATOLL_API_KEY'] = self.daemon.new_key('viewer')
        self.assertRegex(person.run('whoami'), r'^viewer of red \(k_\w+\)\n$')
        del person.env['ATOLL_API_KEY']
        person.logins.chmod(0o640)
        self.assertIn('is not a file of yours that only you can read', person.run('ps', code=1))

    def test_a_sign_in_is_renewed_by_one_of_many(self):
        person = self.signed_in()
        before = person.kept()
        person.change(expires_s=0)
        many = [person.start('whoami') for _ in range(4)]
        told = {process.communicate(timeout=PATIENCE) for process in many}
        self.assertEqual([process.returncode for process in many], [0] * 4, told)
        after = person.kept()
        self.assertNotEqual(before['token'], after['token'])
        self.assertNotEqual(before['refresh_token'], after['refresh_token'])
        self.assertEqual(person.logins.stat().st_mode & 0o777, 0o600)
        # A refresh token that was used twice ends the sign-in, says the provider.
        person.change(expires_s=0, refresh_token=before['refresh_token'])
        self.assertRegex(person.run('ps', code=1), r"your sign-in has ended: .*\(invalid_grant\); run 'atoll login'")
        self.assertNotIn(before['refresh_token'], person.run('ps', code=1))

    def test_logout_ends_it_at_the_provider(self):
        person = self.signed_in()
        kept = person.kept()
        person.run('logout')
        self.assertNotIn('token', person.logins.read_text(encoding='utf-8'))
        form = {'grant_type': 'refresh_token', 'refresh_token': kept['refresh_token'], 'client_id': 'atoll-cli'}
        with self.assertRaises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(self.provider.issuer + '/token', urllib.parse.urlencode(form).encode(),
                                   context=self.provider.trust)
        self.assertEqual(json.load(refused.exception)['error'], 'invalid_grant')
        self.assertIn('you are not signed in at', person.start('logout').communicate(timeout=PATIENCE)[1])

    def test_whom_no_rule_lets_in_is_told(self):
        person = self.person()
        process, _ = self.login(person, 'mallory')
        _, err = process.communicate(timeout=PATIENCE)
        self.assertEqual(process.returncode, 1)
        self.assertRegex(err, 'the identity provider signed you in, but http://\\S+ does not let you in: .*INVALID_API_KEY')
        self.assertFalse(person.logins.exists())

    def test_words_that_are_wrong(self):
        person = self.person()
        self.assertIn('name the identity provider with --issuer URL and --client-id ID', person.run('login', code=2))
        login = lambda issuer, client='x': person.run('login', '--issuer', issuer, '--client-id', client, code=1)
        self.assertIn("is not the https:// address of an identity provider", login('http://192.0.2.1/idp'))
        self.assertIn('cannot be reached', login('https://127.0.0.1:1'))
        self.assertIn('there is no identity provider at', login(self.daemon.url))
        self.assertRegex(login(self.provider.issuer), r"refused the client 'x' a code: .*\(invalid_client\)")
        self.assertFalse(person.logins.exists())

    def fake(self, *answers):
        """A provider with these answers to the questions for tokens, and a login's words there."""
        provider = FakeProvider()
        self.addCleanup(provider.close)
        provider.answers = list(answers)
        return provider

    def refused_by(self, provider, code=1):
        return self.person().run('login', '--issuer', provider.issuer, '--client-id', 'c', code=code)

    def test_a_provider_may_slow_it_down_and_say_no(self):
        provider = self.fake((400, {'error': 'authorization_pending'}), (400, {'error': 'slow_down'}),
                             (500, {}), (400, {'error': 'access_denied'}))
        said = self.refused_by(provider)
        self.assertIn('the sign-in was refused in the browser', said)
        self.assertIn('enter the code AB?[2JCD\n', said)
        self.assertNotIn('secret-code', said)
        first, second, third, fourth = provider.asked
        self.assertGreaterEqual(second - first, 1)
        self.assertGreaterEqual(third - second, 6)
        self.assertGreaterEqual(fourth - third, 6)
        self.assertEqual(provider.forms[-1], {'grant_type': ['urn:ietf:params:oauth:grant-type:device_code'],
                                              'device_code': ['secret-code'], 'client_id': ['c']})

    def test_a_provider_that_answers_otherwise(self):
        self.assertIn("nobody entered the code in time; run 'atoll login' again",
                      self.refused_by(self.fake((400, {'error': 'expired_token'}))))
        self.assertIn("gives no signed tokens (JWT) to the client 'c'",
                      self.refused_by(self.fake((200, {'access_token': 'opaque', 'token_type': 'Bearer'}))))
        self.assertIn('the identity provider refused the sign-in: it answered with status 418',
                      self.refused_by(self.fake((418, []))))
        impostor = self.fake()
        impostor.name = 'https://other.example'
        self.assertIn('calls itself https://other.example', self.refused_by(impostor))

    def test_a_provider_that_is_away_is_told(self):
        person = self.signed_in()
        other = idp.Provider(self.top)
        other.start()
        person.change(expires_s=0, token_endpoint=other.issuer + '/token')
        other.kill()
        self.assertRegex(person.run('ps', code=1), r'the identity provider at https://localhost:\d+/token cannot be reached')
        # The sign-in is still there for when it is back.
        person.change(token_endpoint=self.provider.issuer + '/token')
        person.run('ps')


if __name__ == '__main__':
    unittest.main()
