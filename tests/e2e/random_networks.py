"""What the random test does with networks by name, whose members find each other by their ids, and with
credential vaults, of which a daemon that is started knows none. The model has each one's network and vault."""
from atoll import SLOWNESS
from until import until

NETWORKS = ['shop', 'lab']
HOST = 'good.example'
POLICY = {'defaultAction': 'deny', 'egress': [{'action': 'allow', 'target': HOST}]}


def vault(secret):
    return {'credentials': [{'name': secret, 'source': {'type': 'inline', 'value': f'sk-{secret}'}}],
            'bindings': [{'name': 'api', 'match': {'hosts': [HOST]},
                          'auth': {'type': 'bearer', 'credential': secret}}]}


class Networks:
    def network_moves(self):
        return [(4, self.join_network), (5, self.find_members), (2, self.create_guarded), (4, self.write_vault)]

    def join_network(self):
        if self.is_full():
            return self.delete()
        fields = self.fields()
        fields.setdefault('extensions', {})['network'] = self.random.choice(NETWORKS)
        self.note(fields['extensions']['network'])
        self.adopt(self.persistently('POST', '/v1/sandboxes', fields), fields)

    def find_members(self):
        box, model = self.any_box('Running')
        if not box or self.secure(box) or model.network is None:
            return
        for other, of_other in self.boxes.items():
            if of_other.network == model.network and of_other.state in ('Running', 'Paused'):
                done = self.daemon.run(box, f'nslookup {other}')
                self.assertEqual(done.exit_code, 0, f'{box} finds {other}: {done.stdout} {done.stderr}')

    def create_guarded(self):
        if self.is_full():
            return self.delete()
        fields = {**self.fields(), 'networkPolicy': POLICY, 'credentialProxy': {'enabled': True},
                  'secureAccess': False}
        told = self.persistently('POST', '/v1/sandboxes', fields)
        self.note(told['id'][:8])
        self.adopt(told, fields)

    def ask_vault(self, box, method, body=None):
        headers = self.request('GET', f'/v1/sandboxes/{box}/endpoints/18080?use_server_proxy=true')['headers']
        answer = self.daemon.send(method, f'/sandboxes/{box}/proxy/18080/credential-vault', body, headers)
        return answer.status, answer.read().decode()

    def write_vault(self):
        guarded = [box for box, model in self.boxes.items() if model.guarded and model.state == 'Running']
        if not guarded:
            return
        box = self.random.choice(guarded)
        model = self.boxes[box]
        self.note(box[:8], model.vault)
        status, text = self.ask_vault(box, 'GET')
        if model.vault is None:
            self.assertEqual(status, 404, text)
            secret = f'token-{self.random.randrange(10**9)}'

            def made():
                """While the spawner is upgraded a client is told to come again."""
                status, text = self.ask_vault(box, 'POST', vault(secret))
                self.assertIn(status, (201, 503), text)
                return status == 201
            until(made, 20 * SLOWNESS, f'{box} has a vault')
            model.vault = secret
        else:
            self.assertEqual(status, 200, text)
            self.assertIn(f'"{model.vault}"', text)
            status, text = self.ask_vault(box, 'DELETE')
            self.assertEqual(status, 204, text)
            model.vault = None
