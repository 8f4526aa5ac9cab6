"""A tenant of the test of two hostile ones: its client, and the model of what it has. Every answer is searched for
what the other tenant has. Every change that was answered is remembered, because the audit log must have it.

A request that a kill has cut off may have had its effect. The model then holds both outcomes until it is told."""
import http.client
import itertools
import json
import random
import re
import threading
import urllib.parse

from atoll import SLOWNESS, until

UUID = re.compile(r'[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}')
UNDONE = (429, 503)
LIVE = ('Running', 'Paused')
# Its answers have what the team, or a sandbox of it, has named before: lines of the log, names that were denied.
REMEMBERS = re.compile('/v1/(audit|sandboxes/[^/]*/(network|diagnostics))')
# Each kind of object that has a list: the path of the list, and the member that names an object.
KINDS = {'snapshots': ('snapshots?pageSize=200', 'id'), 'volumes': ('volumes', 'name'), 'pools': ('pools', 'name'),
         'templates': ('templates', 'templateId'), 'images': ('images', 'name')}


class Cut(Exception):
    """A process was killed before the answer."""


class Lives:
    """Kills the processes of a daemon, and knows when one may have been away."""

    def __init__(self, daemon):
        self.daemon = daemon
        self.up = threading.Event()
        self.up.set()
        self.moments = 0  # beginnings and ends of kills
        self.daemons = 1

    def kill_daemon(self):
        self.up.clear()
        self.moments += 1
        self.daemon.kill()
        self.daemon.start()
        self.daemons += 1
        self.moments += 1
        self.up.set()

    def kill_spawner(self):
        self.moments += 1
        until(self.daemon.spawner_pid, 20 * SLOWNESS, 'a spawner')
        self.daemon.kill_spawner()
        until(self.daemon.healthy, 30 * SLOWNESS, 'the daemon has the next spawner')
        self.moments += 1


class Answer:
    def __init__(self, response):
        self.status = response.status
        self.fields = sorted(field for field in response.getheaders() if field[0] != 'Date')
        self.text = response.read().decode(errors='replace')

    def json(self):
        return json.loads(self.text)

    def whole(self):
        return json.dumps([self.status, self.fields, self.text])


class Box:
    """A sandbox. `states`: those that are possible; None: gone. `stages`: values that its label may have."""

    def __init__(self, made, stages=('new',), marker=None, states=('Running',), host=None):
        self.made = made
        self.states = set(states)
        self.stages = set(stages)
        self.marker = marker  # what a command has written into its root; None: not known
        self.host = host      # its name in the network

    def is_surely(self, *states):
        return self.states <= set(states)


class Team:
    """Its name is in each name that this team alone gives. `most`: its quota of sandboxes."""

    def __init__(self, test, lives, name, key, seed, most=None):
        self.test, self.lives = test, lives
        self.name, self.key, self.most = name, key, most
        self.random = random.Random(f'{seed}/{name}')
        self.numbers = itertools.count(1)
        self.other = None
        self.ids = set()       # all that were ever told to it
        self.named = set()     # what it has tried of the other's
        self.answered = {}     # the requests that have changed something, or might have, by their names
        self.boxes = {}
        self.making = set()    # labels of sandboxes that cut off requests may have made
        self.unsure = set()    # KINDS of which a request was cut off
        self.snapshots, self.images = {}, {'busybox:latest'}
        self.volumes, self.pools, self.templates = set(), set(), set()
        self.keys, self.tokens, self.signed = [], [], []
        self.requests = 0

    # ---- requests

    def own_address(self):
        """Where a request may come from that shall be refused: such attempts are counted by address, and the 21st
        of a minute is answered 429."""
        return (f'127.{self.random.randrange(1, 255)}.{self.random.randrange(256)}.'
                f'{self.random.randrange(1, 255)}', 0)

    def ask(self, method, target, body=None, headers=None, key=True, source=None, audited=True):
        """Cut if a kill was in the way. `audited`: a change must have its line."""
        before = self.lives.moments
        if not self.lives.up.wait(60 * SLOWNESS):
            raise AssertionError('the daemon does not come back')
        self.requests += 1
        name = f'{self.name}-request-{next(self.numbers):07}'
        sent = {'X-Request-ID': name, **({'OPEN-SANDBOX-API-KEY': self.key} if key else {}), **(headers or {})}
        if isinstance(body, (dict, list)):
            body = json.dumps(body)
        connection = http.client.HTTPConnection(urllib.parse.urlsplit(self.lives.daemon.url).netloc,
                                                timeout=60 * SLOWNESS, source_address=source)
        try:
            connection.request(method, target, body, sent)
            answer = Answer(connection.getresponse())
        except (OSError, http.client.HTTPException) as error:
            if self.lives.up.is_set() and self.lives.moments == before:
                raise AssertionError(f'{method} {target}: {error!r}, and nothing was killed') from error
            raise Cut from error
        finally:
            connection.close()
        # Lines of what a role may not do are bounded.
        if key and audited and method not in ('GET', 'HEAD', 'OPTIONS') and '"needs"' not in answer.text:
            self.answered[name] = f'{method} {target}: {answer.status}'
        self.test.assertNotIn(answer.status, (500, 501), f'{method} {target}: {answer.text[:500]}')
        self.search(answer, target, f'{target} {json.dumps(sent)} {body}')
        return answer

    def search(self, answer, target, asked):
        """Nothing of the other's is in an answer, but what the request itself has named."""
        self.named |= self.names_in(asked)
        asked = self.named if REMEMBERS.match(target) else self.names_in(asked)
        seen = self.names_in(answer.whole()) - asked
        where = [line[:700] for line in answer.text.splitlines() if any(name in line for name in seen)]
        self.test.assertEqual(seen, set(), f'{self.name} asks {target} and sees what is not its own: {where}')

    def names_in(self, text):
        """Those of the other."""
        return self.other.ids.intersection(UUID.findall(text)) | set(re.findall(rf'{self.other.name}[-\w]*', text))

    def have(self, method, target, body=None):
        """The answer to what is not refused, once no process is away."""
        def answered():
            answer = self.ask(method, target, body)
            return None if answer.status in UNDONE else answer
        answer = until(answered, 30 * SLOWNESS, f'{method} {target}')
        self.test.assertLess(answer.status, 300, f'{method} {target}: {answer.text}')
        return answer.json() if answer.text else None

    def change(self, method, target, body=None, headers=None, unsure=lambda: None):
        """The answer. `unsure` tells the model that nobody knows whether this has had its effect."""
        try:
            answer = self.ask(method, target, body, headers)
        except Cut:
            unsure()
            raise
        if answer.status == 503:
            unsure()
        return answer

    def fresh(self, what):
        return f'{self.name}-{what}-{next(self.numbers)}'

    # ---- the model

    def surely_living(self):
        return [box for box, model in self.boxes.items() if None not in model.states]

    def any_box(self, *states):
        return self.some([box for box, model in self.boxes.items() if model.is_surely(*(states or LIVE))])

    def some(self, things):
        return self.random.choice(sorted(things)) if things else None

    def adopt(self, box, model):
        self.ids.add(box)
        self.boxes[box] = model
        if self.most:
            self.test.assertLessEqual(len(self.surely_living()), self.most, f'{self.name} is beyond its quota')

    def check(self):
        """All that was acknowledged is there, as it was left; nothing else is."""
        told, = until(self.settled, 30 * SLOWNESS, 'what was cut off has gone on, or back')
        self.ids |= set(told)
        for box, item in told.items():
            metadata = item.get('metadata', {})
            if box not in self.boxes:
                self.test.assertIn(metadata.get('made'), self.making, f'{self.name} has {item}')
                self.boxes[box] = Box(metadata['made'], [metadata.get('stage')], states=[item['status']['state']])
        for box, model in list(self.boxes.items()):
            state = told[box]['status']['state'] if box in told else None
            self.test.assertIn(state, model.states, f'{box} of {self.name}: {told.get(box)}')
            model.states = {state}
            if state is None:
                del self.boxes[box]
                continue
            metadata = told[box].get('metadata', {})
            self.test.assertEqual(metadata.get('made'), model.made, box)
            self.test.assertIn(metadata.get('stage'), model.stages, box)
            model.stages = {metadata.get('stage')}
        self.making.clear()  # what a cut off request has begun is there by now, or never
        for kind, (path, member) in KINDS.items():
            names = {item[member] for item in self.have('GET', f'/v1/{path}')['items']}
            self.ids |= {found for text in names for found in UUID.findall(text)}
            known = getattr(self, kind)
            if kind not in self.unsure:
                self.test.assertEqual(names, set(known), f'{kind} of {self.name}')
            setattr(self, kind, {name: known.get(name) for name in names} if kind == 'snapshots' else names)
        self.unsure.clear()

    def settled(self):
        """What the list of sandboxes tells; None while one is on its way."""
        told = {item['id']: item for item in self.have('GET', '/v1/sandboxes?pageSize=200')['items']}
        return None if any(item['status']['state'] == 'Pending' for item in told.values()) else [told]

    def remove_all(self):
        for box in list(self.boxes):
            self.have('DELETE', f'/v1/sandboxes/{box}')
            del self.boxes[box]
        for path, names in (('templates', self.templates), ('pools', self.pools)):
            for name in names:
                self.have('DELETE', f'/v1/{path}/{name}')
        self.templates, self.pools = set(), set()
        # The last user of each may still be on its way out.
        for path, names in (('snapshots', self.snapshots), ('volumes', self.volumes), ('images', self.images)):
            for name in names:
                until(lambda path=path, name=name: self.ask('DELETE', f'/v1/{path}/{name}').status < 300,
                      30 * SLOWNESS, f'{path}/{name} is removed')
        self.snapshots, self.volumes, self.images = {}, set(), set()
