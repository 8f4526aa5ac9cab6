"""What a tenant of the test of two hostile ones does with what it has. Both tenants give the same names, where each
may have one of that name, and the same Idempotency-Keys."""
import json
import time

import atoll
from atoll import SLOWNESS, until
from hostile_team import UNDONE, Box, Team
from tenant_ingress_test import forms

MEMORY = '64Mi'
NAMES = ['web', 'db']
BESIDE = 5  # sandboxes at once, of a tenant without a quota


class Worker(Team):

    def moves(self):
        """Weight and move."""
        moves = [(10, self.create), (7, self.delete), (3, self.pause), (3, self.resume), (2, self.renew),
                 (4, self.label), (4, self.fork), (4, self.snapshot), (2, self.remove_snapshot), (3, self.roll_back),
                 (8, self.run_command), (3, self.make_volume), (2, self.remove_volume), (2, self.make_pool),
                 (1, self.remove_pool), (2, self.tag), (1, self.remove_image), (1, self.export), (3, self.token),
                 (3, self.sign), (3, self.policy), (2, self.make_key), (1, self.revoke_key), (2, self.find_by_name),
                 (3, self.read)]
        if not self.most:
            moves += [(2, self.make_template), (1, self.remove_template)]
        return moves

    # ---- sandboxes

    def fields(self):
        made = self.fresh('made')
        fields = {'image': {'uri': self.some(self.images)}, 'entrypoint': ['sleep', '100000'],
                  'resourceLimits': {'memory': MEMORY}, 'metadata': {'made': made, 'stage': 'new'}, 'extensions': {}}
        draw = self.random.random
        if draw() < 0.3:
            fields['timeout'] = 3600
        if draw() < 0.3:
            fields['extensions']['uniqueName'] = 'true'
            fields['metadata']['name'] = self.random.choice(NAMES)
        if draw() < 0.4:
            fields['extensions'].update({'network': 'n', 'network.hostname': self.fresh('host')})
        if draw() < 0.4:
            fields['volumes'] = [{'name': 'v', 'mountPath': '/v', 'pvc': {'claimName': self.some(
                {'data', *self.volumes})}}]
        if draw() < 0.2 and self.snapshots:
            del fields['image']
            fields['snapshotId'] = self.some(self.snapshots)
        elif draw() < 0.2 and self.pools:
            del fields['image']
            fields['extensions']['poolRef'] = self.some(self.pools)
        elif draw() < 0.2 and self.templates:
            fields = {'templateId': self.some(self.templates), 'timeout': 3600, 'metadata': fields['metadata']}
        return fields

    def create(self):
        if not self.most and len(self.boxes) >= BESIDE:
            return self.delete()
        fields = self.fields()
        made = fields['metadata']['made']
        headers = {'Idempotency-Key': f'key-{next(self.numbers)}'} if self.random.random() < 0.5 else {}

        def unsure():
            self.making.add(made)
            self.unsure.add('volumes')
        answer = self.change('POST', '/v1/sandboxes', fields, headers, unsure)
        if answer.status == 202:
            told = answer.json()['id']
            self.volumes |= {volume['pvc']['claimName'] for volume in fields.get('volumes', [])}
            self.adopt(told, Box(made, marker=self.snapshots.get(fields.get('snapshotId')),
                                 host=fields.get('extensions', {}).get('network.hostname')))
            if headers:
                again = self.ask('POST', '/v1/sandboxes', fields, headers)
                if again.status not in UNDONE:
                    self.test.assertEqual(again.json().get('id'), told, again.text)
            return None
        return self.refused(answer)

    def refused(self, answer):
        """By the quota, by a name that is taken, or because something is away."""
        if answer.status == 403:
            self.test.assertTrue(self.most, answer.text)
            self.test.assertIn(answer.json()['quota'], ('sandboxes', 'memory'), answer.text)
        else:
            self.test.assertTrue(answer.status in (409, *UNDONE) or 'not built yet' in answer.text, answer.text)

    def delete(self):
        box = self.any_box()
        if not box:
            return
        model = self.boxes[box]
        answer = self.change('DELETE', f'/v1/sandboxes/{box}', unsure=lambda: model.states.add(None))
        if answer.status < 300:
            del self.boxes[box]
        else:
            self.test.assertIn(answer.status, UNDONE, answer.text)

    def change_state(self, verb, before, after):
        box = self.any_box(before)
        if not box:
            return
        model = self.boxes[box]
        answer = self.change('POST', f'/v1/sandboxes/{box}/{verb}', unsure=lambda: model.states.add(after))
        if answer.status < 300:
            model.states = {after}
        else:
            self.test.assertIn(answer.status, UNDONE, answer.text)

    def pause(self):
        self.change_state('pause', 'Running', 'Paused')

    def resume(self):
        self.change_state('resume', 'Paused', 'Running')

    def renew(self):
        if box := self.any_box():
            moment = time.strftime('%Y-%m-%dT%H:%M:%SZ', time.gmtime(time.time() + 7200))
            answer = self.change('POST', f'/v1/sandboxes/{box}/renew-expiration', {'expiresAt': moment})
            self.test.assertIn(answer.status, (200, 409, *UNDONE), answer.text)

    def label(self):
        if box := self.any_box():
            stage, model = self.fresh('stage'), self.boxes[box]
            answer = self.change('PATCH', f'/v1/sandboxes/{box}/metadata', {'stage': stage},
                                 unsure=lambda: model.stages.add(stage))
            if answer.status < 300:
                model.stages = {stage}

    def fork(self):
        box = self.any_box()
        if not box or (not self.most and len(self.boxes) >= BESIDE):
            return None
        model = self.boxes[box]
        answer = self.change('POST', f'/v1/sandboxes/{box}/fork', {'count': self.random.choice([1, 2])},
                             unsure=lambda: self.making.add(model.made))
        if answer.status >= 300:
            return self.refused(answer)
        for item in answer.json()['items']:
            self.adopt(item['id'], Box(model.made, model.stages, model.marker))
        return None

    # ---- copies

    def snapshot(self):
        box = self.any_box()
        if not box or len(self.snapshots) >= 3:
            return
        marker = self.boxes[box].marker
        answer = self.change('POST', f'/v1/sandboxes/{box}/snapshots', {}, unsure=lambda: self.unsure.add('snapshots'))
        if answer.status >= 300:
            self.test.assertIn(answer.status, UNDONE, answer.text)
            return
        snapshot = answer.json()['id']
        self.ids.add(snapshot)
        self.snapshots[snapshot] = marker
        state = lambda: self.have('GET', f'/v1/snapshots/{snapshot}')['status']['state']
        until(lambda: state() != 'Creating', 30 * SLOWNESS, f'{snapshot} is settled')
        if state() != 'Ready':  # a kill has cut it off
            self.remove_copy(snapshot)

    def remove_snapshot(self):
        if self.snapshots:
            self.remove_copy(self.some(self.snapshots))

    def remove_copy(self, snapshot):
        answer = self.change('DELETE', f'/v1/snapshots/{snapshot}', unsure=lambda: self.unsure.add('snapshots'))
        if answer.status < 300:
            del self.snapshots[snapshot]
        else:
            self.test.assertIn(answer.status, (409, *UNDONE), answer.text)

    def roll_back(self):
        box, snapshot = self.any_box(), self.some(self.snapshots)
        if not box or not snapshot:
            return
        model = self.boxes[box]

        def unsure():
            model.states.update(('Running', 'Paused'))
            model.marker = None
        answer = self.change('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot}, unsure=unsure)
        if answer.status < 300:
            model.states, model.marker = {'Running'}, self.snapshots[snapshot]
        else:
            self.test.assertIn(answer.status, (409, *UNDONE), answer.text)

    # ---- inside

    def run(self, box, command):
        """What a command prints, by any of the forms; None if something is away."""
        form = self.random.choice(sorted(forms(box, 44772, '')))
        target, headers = forms(box, 44772, '/command')[form]
        answer = self.ask('POST', target, {'command': command}, headers)
        if answer.status in (502, *UNDONE):
            return None
        self.test.assertEqual(answer.status, 200, f'{form}: {answer.text}')
        return atoll.Done([json.loads(line) for line in answer.text.splitlines() if line])

    def run_command(self):
        """The files are those that this team has left, in the root and in a volume."""
        box = self.any_box('Running')
        if not box:
            return
        model, marker = self.boxes[box], self.fresh('marker')
        if done := self.run(box, 'cat /marker; cat /v/marker 2>/dev/null'):
            if model.marker:
                self.test.assertEqual(done.stdout.splitlines()[0], model.marker, box)
            for line in done.stdout.splitlines():
                self.test.assertTrue(line.startswith(self.name), line)
        model.marker = None
        if done := self.run(box, f'echo {marker} >/marker; if [ -d /v ]; then echo {marker} >/v/marker; fi; echo done'):
            self.test.assertEqual(done.stdout, 'done', vars(done))
            model.marker = marker

    def find_by_name(self):
        """Nobody finds what the other has called."""
        seekers = [box for box, model in self.boxes.items() if model.host and model.is_surely('Running')]
        strangers = [model.host for model in list(self.other.boxes.values()) if model.host]
        if not seekers or not strangers:
            return
        box, host = self.random.choice(seekers), self.random.choice(strangers)
        if done := self.run(box, f'nslookup -type=a {host}'):
            self.test.assertNotEqual(done.exit_code, 0, vars(done))

    def token(self):
        if box := self.any_box('Running'):
            answer = self.ask('GET', f'/v1/sandboxes/{box}/endpoints/44772?use_server_proxy=true')
            if answer.status == 200:
                token = answer.json()['headers']['X-EXECD-ACCESS-TOKEN']
                target, headers = forms(box, 44772, '/ping')['uri']
                told = self.ask('GET', target, headers={**headers, 'X-EXECD-ACCESS-TOKEN': token}, key=False)
                self.test.assertIn(told.status, (200, 502, *UNDONE), told.text)
                self.tokens = [*self.tokens[-9:], (box, token)]

    def sign(self):
        if box := self.any_box('Running'):
            expires = int(time.time()) + 600
            answer = self.ask('GET', f'/v1/sandboxes/{box}/endpoints/8000?expires={expires}')
            if answer.status == 200:
                told = answer.json()
                target = '/' + told['endpoint'].partition('/')[2]
                told = self.ask('GET', target, headers=told.get('headers'), key=False)
                self.test.assertIn(told.status, (502, *UNDONE), told.text)
                self.signed = [*self.signed[-9:], (box, target, answer.json().get('headers') or {})]

    def policy(self):
        if box := self.any_box('Running'):
            rules = [{'action': 'allow', 'target': f'{self.fresh("host")}.example'}]
            path = f'/v1/sandboxes/{box}/networkpolicy'
            answer = self.change('PUT', path, {'defaultAction': 'deny', 'egress': rules})
            if answer.status < 300:
                self.test.assertIn(rules[0]['target'], json.dumps(self.have('GET', path)))

    # ---- what has a name

    def make(self, kind, name, method, path, body):
        answer = self.change(method, path, body, unsure=lambda: self.unsure.add(kind))
        if answer.status < 300:
            getattr(self, kind).add(name)
        else:
            self.test.assertIn(answer.status, (409, *UNDONE), answer.text)
        return answer

    def remove(self, kind):
        name = self.some(getattr(self, kind) - {'busybox:latest'})
        if name:
            answer = self.change('DELETE', f'/v1/{kind}/{name}', unsure=lambda: self.unsure.add(kind))
            if answer.status < 300:
                getattr(self, kind).discard(name)
            else:
                self.test.assertIn(answer.status, (409, *UNDONE), answer.text)

    def make_volume(self):
        if len(self.volumes) < 4:
            name = self.random.choice(['data', self.fresh('volume')])
            self.make('volumes', name, 'POST', '/v1/volumes', {'name': name})

    def remove_volume(self):
        self.remove('volumes')

    def make_pool(self):
        if len(self.pools) < 2:
            name = self.random.choice(['warm', self.fresh('pool')])
            self.make('pools', name, 'POST', '/v1/pools', {
                'name': name, 'image': {'uri': 'busybox:latest'}, 'resourceLimits': {'memory': MEMORY},
                'capacitySpec': {'bufferMin': 1, 'bufferMax': 1, 'poolMin': 0, 'poolMax': 4}})

    def remove_pool(self):
        self.remove('pools')

    def make_template(self):
        if self.templates:
            return
        answer = self.change('POST', '/v1/templates', {'image': 'busybox', 'env': {'OF': self.fresh('env')}},
                             unsure=lambda: self.unsure.add('templates'))
        if answer.status < 300:
            self.templates.add(answer.json()['templateId'])
            self.ids.add(answer.json()['templateId'].removeprefix('tpl-'))
        else:
            self.test.assertIn(answer.status, UNDONE, answer.text)

    def remove_template(self):
        self.remove('templates')

    def tag(self):
        if len(self.images) < 4:
            # The name of one is not so near to another's that an answer asks whether that was meant.
            name = self.random.choice(['tool:latest', f'{self.name}-{self.fresh("image")}:latest'])
            self.make('images', name, 'POST', f'/v1/images?from=busybox&name={name}', None)

    def remove_image(self):
        self.remove('images')

    def export(self):
        if name := self.some(self.images):
            self.test.assertIn(self.ask('GET', f'/v1/images/{name}?archive=oci').status, (200, *UNDONE))

    def make_key(self):
        if len(self.keys) < 3:
            answer = self.change('POST', f'/v1/tenants/{self.name}/keys', {'role': 'viewer', 'name': self.fresh('key')})
            if answer.status < 300:
                told = answer.json()
                self.keys.append((told['id'], told['key']))

    def revoke_key(self):
        if self.keys:
            identity, key = self.keys.pop()
            answer = self.change('DELETE', f'/v1/tenants/{self.name}/keys/{identity}')
            if answer.status < 300:
                told = self.ask('GET', '/v1/sandboxes', headers={'OPEN-SANDBOX-API-KEY': key}, key=False,
                                source=self.own_address())
                self.test.assertEqual(told.status, 401, told.text)

    def read(self):
        """Whatever lists; each answer is searched."""
        box = self.any_box()
        for path in ('events?after=0', 'metrics', 'tenants', f'tenants/{self.name}', f'tenants/{self.name}/keys',
                     'audit?limit=1000', 'whoami', 'sandboxes?state=Running',
                     *([f'sandboxes/{box}/{below}' for below in ('diagnostics/events', 'diagnostics/inspect', 'disk',
                                                                 'diff', 'network', 'networkpolicy')] if box else [])):
            answer = self.ask('GET', f'/v1/{path}')
            self.test.assertIn(answer.status, (200, 409, *UNDONE), f'{path}: {answer.text[:500]}')
