"""Identity providers of tests: a real one (oidc-provider), and a forge of tokens, right and wrong ones."""
import base64
import html.parser
import http.cookiejar
import itertools
import json
import pathlib
import ssl
import subprocess
import urllib.parse
import urllib.request

from jwcrypto import jwk, jws

import atoll

KIT = atoll.BUILD / 'conformance' / 'idp'
# Below those that the kernel gives out: nobody takes the port while the provider is away.
PORTS = itertools.count(21400)


def base64url(data):
    return base64.urlsafe_b64encode(data if isinstance(data, bytes) else data.encode()).decode().rstrip('=')


class Forms(html.parser.HTMLParser):
    """The forms of a page: where each leads, and its fields."""

    def __init__(self, page):
        super().__init__()
        self.found = []
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        attrs = dict(attrs)
        if tag == 'form':
            self.found.append((attrs.get('action', ''), {}))
        elif tag == 'input' and self.found and 'name' in attrs:
            self.found[-1][1][attrs['name']] = attrs.get('value', '')


class Provider:
    """oidc-provider with TLS on a port of loopback. `top` has cert.pem and key.pem."""

    def __init__(self, top):
        self.top, self.process, self.port = top, None, next(PORTS)
        self.trust = ssl.create_default_context(cafile=top / 'cert.pem')

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.kill()

    def start(self):
        with open(self.top / 'idp.log', 'ab') as log:
            self.process = subprocess.Popen(
                ['node', pathlib.Path(__file__).with_name('idp.mjs'), KIT, self.top, str(self.port)],
                stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log, text=True)
        if self.process.stdout.readline() != 'serving\n':
            raise AssertionError((self.top / 'idp.log').read_text(encoding='utf-8'))

    def kill(self):
        self.process.kill()
        self.process.communicate()

    @property
    def issuer(self):
        return f'https://localhost:{self.port}'

    def rotate(self):
        """Returns when all tokens are signed by new keys."""
        self.process.stdin.write('rotate\n')
        self.process.stdin.flush()
        assert self.process.stdout.readline() == 'rotated\n'

    def token(self, client):
        """An access token of a client that is no person."""
        request = urllib.request.Request(
            self.issuer + '/token', b'grant_type=client_credentials&scope=atoll',
            {'Authorization': 'Basic ' + base64.b64encode(f'{client}:secret-of-{client}'.encode()).decode()})
        with urllib.request.urlopen(request, context=self.trust, timeout=60) as answer:
            return json.load(answer)['access_token']

    def approve(self, url, person):
        """What a person does in a browser after a look at the code: signs in, and says yes."""
        browser = urllib.request.build_opener(
            urllib.request.HTTPSHandler(context=self.trust),
            urllib.request.HTTPCookieProcessor(http.cookiejar.CookieJar()))
        answer = browser.open(url, timeout=60)
        for _ in range(8):
            page = answer.read().decode()
            forms = [form for form in Forms(page).found if form[0]]
            if not forms:
                return page
            action, fields = forms[0]
            fields |= {name: value for name, value in {'login': person, 'password': 'x'}.items() if name in fields}
            answer = browser.open(urllib.parse.urljoin(answer.url, action),
                                  urllib.parse.urlencode(fields).encode(), timeout=60)
        raise AssertionError(page)


class Forge:
    """An issuer whose keys are a file. Signs what a test says."""

    def __init__(self, path, issuer='https://forge.example'):
        self.path, self.issuer = path, issuer
        self.rsa = jwk.JWK.generate(kty='RSA', size=2048, kid='rsa', use='sig')
        self.ec = jwk.JWK.generate(kty='EC', crv='P-256', kid='ec', use='sig')
        self.write([self.rsa, self.ec])

    def write(self, keys):
        self.path.write_text(json.dumps({'keys': [key.export_public(as_dict=True) for key in keys]}),
                             encoding='utf-8')
        self.path.chmod(0o644)

    def sign(self, claims, key=None, **header):
        key = key or self.rsa
        signed = jws.JWS(claims if isinstance(claims, str) else json.dumps(claims))
        algorithm = 'RS256' if key.get('kty') == 'RSA' else 'ES256' if key.get('kty') == 'EC' else 'HS256'
        head = {'alg': algorithm, 'kid': key.get('kid'), **header}
        signed.allowed_algs = [head['alg']]
        signed.add_signature(key, protected=json.dumps(head))
        return signed.serialize(compact=True)
