"""What a tenant of the test of two hostile ones tries with what the other has: with every route of docs/roles.md, in
bodies and queries, by every form of proxy, and with the other's tokens and signed routes. Each is asked twice, with
the other's and with what nobody has. The answers are equal, byte for byte, but for what was asked for."""
import json
import re
import uuid

import roles_page
from atoll import SLOWNESS, until
from hostile_moves import Worker
from hostile_team import UNDONE
from tenant_ingress_test import forms

ROUTES = roles_page.named_routes()
EXECD, EGRESS = roles_page.rows('Port 44772'), roles_page.rows('Port 18080')
NOBODYS = 'nonesuch'  # as long as the names of the teams
# Kind of a thing → where a team has it.
HELD = {'sandbox': 'boxes', 'snapshot': 'snapshots', 'volume': 'volumes', 'image': 'images', 'pool': 'pools',
        'template': 'templates'}
CREATE = {'entrypoint': ['true'], 'resourceLimits': {}}
# Requests that name a thing elsewhere than in the path. @ is the thing, BOX a sandbox of one's own.
ELSEWHERE = [
    ('sandbox', 'GET', '/v1/sandboxes/BOX/diff?against=@', None),
    ('sandbox', 'POST', '/v1/images/commit?name=x&snapshot=@', {}),
    ('sandbox', 'POST', '/v1/sandboxes', {**CREATE, 'snapshotId': '@'}),
    ('sandbox', 'GET', '/v1/events?after=0&sandbox=@', None),
    ('snapshot', 'POST', '/v1/sandboxes', {**CREATE, 'snapshotId': '@'}),
    ('snapshot', 'POST', '/v1/sandboxes/BOX/rollback', {'snapshotId': '@'}),
    ('snapshot', 'GET', '/v1/sandboxes/BOX/diff?against=@', None),
    ('snapshot', 'POST', '/v1/images/commit?name=x&snapshot=@', {}),
    ('image', 'POST', '/v1/images?from=@&name=y', None),
    ('image', 'POST', '/v1/images/commit?name=y&image=@', {}),
    ('image', 'POST', '/v1/sandboxes', {**CREATE, 'image': {'uri': '@'}}),
    ('image', 'POST', '/v1/pools', {'name': 'p', 'image': {'uri': '@'}, 'capacitySpec': {
        'bufferMin': 0, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 1}}),
    ('pool', 'POST', '/v1/sandboxes', {**CREATE, 'image': {'uri': 'busybox'}, 'extensions': {'poolRef': '@'}}),
    ('template', 'POST', '/v1/sandboxes', {'templateId': '@', 'timeout': 60}),
    ('stage', 'GET', '/v1/sandboxes?metadata=stage%3D@', None),
    ('tenant', 'GET', '/v1/sandboxes?tenant=@', None),
    ('tenant', 'GET', '/v1/images?tenant=@', None),
    ('tenant', 'GET', '/v1/images/busybox?tenant=@', None),
    ('tenant', 'GET', '/v1/volumes?tenant=@', None),
    ('tenant', 'GET', '/v1/audit?tenant=@&limit=1', None),
    ('tenant', 'GET', '/v1/volumes/@.data', None),
    ('tenant', 'GET', '/v1/pools/@%2Fwarm', None),
    ('tenant', 'GET', '/v1/images/busybox@@', None),
]
INSIDE = {'POST': {'command': 'true'}, 'PUT': {'defaultAction': 'allow'}, 'PATCH': []}
UPGRADE = {'Connection': 'Upgrade', 'Upgrade': 'websocket', 'Sec-WebSocket-Version': '13',
           'Sec-WebSocket-Key': 'dGhlIHNhbXBsZSBub25jZQ=='}


class Hostile(Worker):

    def probe(self):
        """One attempt of a random kind."""
        return self.random.choices([self.by_route, self.elsewhere, self.by_proxy, self.by_token, self.by_signature],
                                   [6, 6, 6, 2, 2])[0]()

    # ---- what the other has, and what nobody has

    def theirs(self, kind):
        """(a name of the other's, one that nobody has)"""
        other = self.other
        if kind == 'tenant':
            return other.name, NOBODYS
        if kind == 'key':
            theirs = self.some([identity for identity, _ in list(other.keys)])
            return theirs, 'k_' + ''.join(self.random.choices('abcdefghijklmnopqrstuvwxyz234567', k=8))
        if kind == 'stage':
            theirs = self.some([stage for box in list(other.boxes.values()) for stage in list(box.stages)])
            return (theirs, theirs.replace(other.name, NOBODYS)) if theirs and other.name in theirs else (None, None)
        theirs = self.some([name for name in list(getattr(other, HELD[kind]))])
        if theirs is None:
            return None, None
        if kind in ('sandbox', 'snapshot'):
            return theirs, str(uuid.UUID(int=self.random.getrandbits(128), version=4))
        if kind == 'template':
            return theirs, f'tpl-{uuid.UUID(int=self.random.getrandbits(128), version=4)}'
        # The names that both have lead each to its own.
        return (theirs, theirs.replace(other.name, NOBODYS)) if other.name in theirs else (None, None)

    def equal(self, kind, method, target, body=None, headers=None, key=True, audited=True):
        """`@` in the request is the other's, then nobody's."""
        theirs, nobodys = self.theirs(kind)
        if theirs is None:
            return

        def one(name):
            fill = lambda text: text.replace('@', name)
            told = self.ask(method, fill(target), json.loads(fill(json.dumps(body))) if body is not None else None,
                            {field: fill(value) for field, value in (headers or {}).items()}, key, self.own_address(),
                            audited)
            return told.status, re.sub(rf'{self.name}-request-\d+', 'request', told.whole()).replace(name, '*')

        def both():
            told = one(theirs), one(nobodys)
            return told if told[0][0] not in UNDONE and told[1][0] not in UNDONE else None
        of_theirs, of_nobodys = until(both, 30 * SLOWNESS, f'{method} {target} is answered')
        self.test.assertEqual(of_theirs, of_nobodys, f'{self.name}: {method} {target} {body} {headers} of {theirs}')

    # ---- the attempts

    def by_route(self):
        method, target, kind, body = self.random.choice(ROUTES)
        self.equal(kind, method, self.random.choice(['', '/v1']) + target, body)

    def elsewhere(self):
        kind, method, target, body = self.random.choice(ELSEWHERE)
        if 'BOX' in target:
            box = self.any_box('Running')
            if not box:
                return
            target = target.replace('BOX', box)
        if '@@' in target:
            target = target.replace('@@', '%40@')
        self.equal(kind, method, target, body)

    def by_proxy(self):
        """With the own key, the own token, or nothing."""
        port, routes = self.random.choice([(44772, EXECD), (18080, EGRESS), (8000, [('GET', '/', {})])])
        method, pattern, _ = self.random.choice(routes)
        method = self.random.choice(['GET', 'POST', 'DELETE']) if method == '*' else method
        method = self.random.choice([method] * 4 + ['HEAD', 'OPTIONS'])
        rest = self.random.choice(['', '', '/proxy/44772', '/%2e%2e', '/']) + re.sub(r'\{[^}]*\}', '1', pattern)
        form = self.random.choice(sorted(forms('@', port, rest)))
        target, headers = forms('@', port, rest)[form]
        key = self.random.random() < 0.6
        if not key and self.tokens:
            headers = {**headers, 'X-EXECD-ACCESS-TOKEN': self.random.choice(self.tokens)[1]}
        if self.random.random() < 0.2:
            headers = {**headers, **UPGRADE}
        # A refused entry has no line, because nothing has happened in any sandbox.
        self.equal('sandbox', method, target, INSIDE.get(method), headers, key, audited=False)

    def by_token(self):
        """A token of one sandbox of the other's opens no other one of the other's, none of ours, and no API."""
        if not self.other.tokens:
            return
        box, token = self.random.choice(list(self.other.tokens))
        stolen = {'X-EXECD-ACCESS-TOKEN': token}
        for another in [one for one in list(self.other.boxes) if one != box][:1]:
            target, headers = self.random.choice(list(forms(another, 44772, '/ping').values()))
            self.test.assertIn(self.ask('GET', target, headers={**stolen, **headers}, key=False,
                                        source=('127.9.9.9', 0)).status, (401, 404, 410, 429), target)
        for field in ('OPEN-SANDBOX-API-KEY', 'Authorization'):
            value = f'Bearer {token}' if field == 'Authorization' else token
            told = self.ask('GET', '/v1/sandboxes', headers={field: value}, key=False, source=('127.9.9.8', 0))
            self.test.assertIn(told.status, (401, 429), told.text)

    def by_signature(self):
        """A signed route says for which sandbox and port it is."""
        if not self.signed or not self.other.boxes:
            return
        box, target, headers = self.random.choice(self.signed)
        stranger = self.random.choice(list(self.other.boxes))
        self.equal_to_unsigned(target.replace(box, stranger), headers)
        if self.other.signed:
            theirs, target, headers = self.random.choice(list(self.other.signed))
            self.equal_to_unsigned(target.replace('8000', '8001'), headers)
            self.equal_to_unsigned(target.replace('8000', '44772') + 'ping', headers)
            if own := self.any_box('Running'):
                self.equal_to_unsigned(target.replace(theirs, own), headers)

    def equal_to_unsigned(self, target, headers):
        told = self.ask('GET', target, headers=headers, key=False, source=('127.9.9.7', 0))
        self.test.assertIn(told.status, (401, 403, 404, 410, 429), f'{target}: {told.text}')
