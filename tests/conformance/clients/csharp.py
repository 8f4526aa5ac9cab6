"""The requests of the C# SDK 0.1.2, in the order and form in which its public source makes them, and
what it reads of the answers. The SDK itself needs a .NET that no registry of ours has."""
import datetime
import os

import cases
from cases import FETCH, IMAGE, case, check, equal
from csharp_wire import Refused, Wire, escaped, form, json_text, query, repeated

TAG = f'csharp-{os.getpid()}'


def refused(status, call, *arguments):
    try:
        call(*arguments)
    except Refused as error:
        equal(error.status, status)
        check(error.answer['message'] and error.answer['code'], error.answer)
        return error
    raise AssertionError('it was not refused')


def time(text):
    return datetime.datetime.fromisoformat(text.replace('Z', '+00:00'))


class Sandbox:
    """Sandbox.ConnectAsync: both endpoints, then /ping."""

    def __init__(self, world, told, proxy=False):
        self.world, self.id, self.path = world, told, f'/sandboxes/{escaped(told)}'
        self.execd, self.egress = (self.through(port, proxy) for port in (44772, 18080))
        self.execd.send('GET', '/ping')

    def through(self, port, proxy=False):
        end = self.endpoint(port, use_server_proxy='true' if proxy else 'false')
        return Wire(end['endpoint'], headers=end.get('headers', {}))

    def endpoint(self, port, **asked):
        return self.world.api.ask('GET', f'{self.path}/endpoints/{port}{query(**asked)}')

    def info(self):
        return self.world.api.ask('GET', self.path)

    def kill(self):
        self.world.api.send('DELETE', self.path)

    def run(self, command, **options):
        return self.execd.stream('/command', {'command': command, **options})

    def out(self, command, **options):
        seen = self.run(command, **options)
        equal(seen[-1]['type'], 'execution_complete')
        return ''.join(event['text'] for event in seen if event['type'] == 'stdout')

    def write(self, *entries):
        parts = []
        for metadata, data in entries:
            parts.append(('metadata', 'metadata', 'application/json; charset=utf-8',
                          json_text(metadata).encode()))
            # Text has a type, bytes have none.
            text = isinstance(data, str)
            parts.append(('file', metadata['path'].split('/')[-1],
                          'text/plain; charset=utf-8' if text else '',
                          data.encode() if text else data))
        kind, body = form(parts)
        self.execd.send('POST', '/files/upload', body, kind)

    def read(self, path, **headers):
        return self.execd.send('GET', '/files/download' + query(path=path), **headers)[0]


class World:
    def __init__(self):
        self.api = Wire(f'{cases.DOMAIN}/v1')
        self.box = None

    def create(self, proxy=False, **options):
        made = self.api.ask('POST', '/sandboxes', {
            'image': {'uri': IMAGE}, 'entrypoint': ['tail', '-f', '/dev/null'], 'timeout': 600,
            'resourceLimits': {'cpu': '1', 'memory': '2Gi'}, 'secureAccess': False, **options})
        check(made['status']['state'] and time(made['createdAt']), made)
        equal(made['entrypoint'], ['tail', '-f', '/dev/null'])
        return Sandbox(self, made['id'], proxy)


@case('lifecycle/create_with_all_options')
def _(world):
    world.box = world.create(
        env={'GREETING': 'dès <vu> & "là" + 日本 😀'}, metadata={'suite': TAG},
        resourceLimits={'cpu': '500m', 'memory': '256Mi'}, platform={'os': 'linux', 'arch': 'amd64'},
        extensions={'access.renew.extend.seconds': '600'})
    equal(world.box.out('echo $GREETING'), 'dès <vu> & "là" + 日本 😀\n')


@case('lifecycle/get')
def _(world):
    info = world.box.info()
    equal((info['status']['state'], info['metadata'], info['image']['uri']), ('Running', {'suite': TAG}, IMAGE))
    check(time(info['expiresAt']) > time(info['createdAt']), info)


@case('lifecycle/renew')
def _(world):
    until = datetime.datetime.now(datetime.timezone.utc) + datetime.timedelta(minutes=30)
    # ToString("O"): seven digits behind the point.
    told = world.api.ask('POST', f'{world.box.path}/renew-expiration',
                         {'expiresAt': until.strftime('%Y-%m-%dT%H:%M:%S.%f0Z')})
    check(abs(time(told['expiresAt']) - until) < datetime.timedelta(seconds=1), told)


@case('lifecycle/manual_cleanup')
def _(world):
    box = world.create(timeout=None)
    equal(box.info().get('expiresAt'), None)
    box.kill()


@case('lifecycle/patch_metadata')
def _(world):
    equal(world.api.ask('PATCH', f'{world.box.path}/metadata', {'a': '1'})['metadata'],
          {'suite': TAG, 'a': '1'})
    # Of a dictionary null members are written.
    text, _ = world.api.send('PATCH', f'{world.box.path}/metadata', b'{"a":null}')
    check(b'"a"' not in text, text)


@case('lifecycle/pause_and_resume')
def _(world):
    box = world.create()
    world.api.send('POST', f'{box.path}/pause')
    equal(box.info()['status']['state'], 'Paused')
    world.api.send('POST', f'{box.path}/resume')
    equal(Sandbox(world, box.id).out('echo awake'), 'awake\n')
    box.kill()


@case('command/foreground')
def _(world):
    seen = world.box.run('echo out; echo; echo err >&2; exit 7')
    equal([(event['type'], event['text']) for event in seen if event['type'] in ('stdout', 'stderr')],
          [('stdout', 'out\n'), ('stdout', '\n'), ('stderr', 'err\n')])
    equal((seen[0]['type'], bool(seen[0]['text'])), ('init', True))
    equal((seen[-1]['type'], int(seen[-1]['error']['evalue'])), ('error', 7))


@case('command/options')
def _(world):
    equal(world.box.out('pwd; echo $A; id -u', cwd='/opt', envs={'A': 'b c'}, uid=1000, gid=1000,
                        timeout=60000), '/opt\nb c\n1000\n')


@case('command/background')
def _(world):
    seen = world.box.run('echo one; exit 3', background=True)
    told = seen[0]['text']
    status = {'running': True}
    while status['running']:
        status = world.box.execd.ask('GET', f'/command/status/{escaped(told)}')
    equal((status['exit_code'], status['content']), (3, 'echo one; exit 3'))
    check(time(status['finished_at']) >= time(status['started_at']), status)
    text, answer = world.box.execd.send('GET', f'/command/{escaped(told)}/logs?cursor=0')
    equal((text, int(answer.getheader('EXECD-COMMANDS-TAIL-CURSOR'))), (b'one\n', 4))


@case('command/interrupt')
def _(world):
    told = world.box.run('exec sleep 600', background=True)[0]['text']
    world.box.execd.send('DELETE', '/command' + query(id=told))
    while world.box.execd.ask('GET', f'/command/status/{escaped(told)}')['running']:
        pass


@case('command/session')
def _(world):
    # Without a directory there is no body at all.
    session = world.box.execd.ask('POST', '/session')['session_id']
    path = f'/session/{escaped(session)}'
    world.box.execd.stream(f'{path}/run', {'command': 'export KEPT=yes'})
    seen = world.box.execd.stream(f'{path}/run', {'command': 'echo $KEPT; pwd', 'cwd': '/opt'})
    equal([event['text'] for event in seen if event['type'] == 'stdout'], ['yes', '/opt'])
    world.box.execd.send('DELETE', path)


@case('command/metrics')
def _(world):
    told = world.box.execd.ask('GET', '/metrics')
    equal((told['mem_total_mib'], told['cpu_count']), (256, 0.5))
    check(told['mem_used_mib'] > 0 and told['timestamp'] > 0 and 'cpu_used_pct' in told, told)


@case('files/write_and_read')
def _(world):
    data = bytes(range(256)) * 4096
    world.box.execd.send('POST', '/directories', json_text({'/tmp/d': {'mode': 755}}).encode())
    world.box.write(({'path': '/tmp/d/a', 'mode': 640, 'owner': 'dev', 'group': 'dev'}, data),
                    ({'path': '/tmp/d/two words', 'mode': 644}, 'x y x'),
                    ({'path': '/tmp/d/là'}, 'ü'), ({'path': '/tmp/d/empty'}, b''))
    equal(world.box.out('cd /tmp/d; stat -c "%a %U %s" *'),
          '640 dev 1048576\n644 root 0\n644 root 2\n644 root 5\n')
    check(world.box.read('/tmp/d/a') == data, 'it came back otherwise')
    equal(world.box.read('/tmp/d/a', Range='bytes=10-19'), data[10:20])
    equal(world.box.read('/tmp/d/là'), 'ü'.encode())


@case('files/info_search_list')
def _(world):
    told = world.box.execd.ask('GET', repeated('/files/info', ['/tmp/d/a', '/tmp/d/two words']))
    equal({path: (info['size'], info['mode'], info['owner']) for path, info in told.items()},
          {'/tmp/d/a': (1048576, 640, 'dev'), '/tmp/d/two words': (5, 644, 'root')})
    check(time(told['/tmp/d/a']['modified_at']), told)
    found = world.box.execd.ask('GET', '/files/search' + query(path='/tmp/d', pattern='*w*'))
    equal([info['path'] for info in found], ['/tmp/d/two words'])
    listed = world.box.execd.ask('GET', '/directories/list' + query(path='/tmp/d', depth=1))
    check({'/tmp/d/a', '/tmp/d/là'} < {info['path'] for info in listed}, listed)


@case('files/change')
def _(world):
    path, to = '/tmp/d/two words', '/tmp/d/c'
    post = lambda route, body: world.box.execd.send('POST', route, json_text(body).encode())
    post('/files/permissions', {path: {'mode': 600, 'owner': 'dev'}})
    equal(world.box.out(f'stat -c "%a %U" "{path}"'), '600 dev\n')
    post('/files/replace', {path: {'old': 'x', 'new': "'"}})
    equal(world.box.execd.ask('POST', '/files/replace?verbose=true', {path: {'old': 'y', 'new': 'z'}}),
          {path: {'replacedCount': 1}})
    post('/files/mv', [{'src': path, 'dest': to}])
    equal(world.box.read(to), b"' z '")
    world.box.execd.send('DELETE', repeated('/files', [to, '/tmp/d/empty']))
    world.box.execd.send('DELETE', repeated('/directories', ['/tmp/d']))
    refused(404, world.box.read, '/tmp/d/a')


@case('network/policy')
def _(world):
    box = world.create(networkPolicy={'defaultAction': 'deny', 'egress': []})
    box.egress.send('PATCH', '/policy', json_text([{'action': 'allow', 'target': 'good.example'}]).encode())
    equal(box.egress.ask('GET', '/policy')['policy'],
          {'defaultAction': 'deny', 'egress': [{'action': 'allow', 'target': 'good.example'}]})
    reached = lambda name: f'"host": "{name}"' in box.out(FETCH.replace('NAME', name))
    equal((reached('good.example'), reached('evil.example')), (True, False))
    # With a body.
    box.egress.send('DELETE', '/policy', json_text(['good.example']).encode())
    equal(box.egress.ask('GET', '/policy')['policy'].get('egress', []), [])
    box.kill()


@case('endpoint/server_proxy')
def _(world):
    box = Sandbox(world, world.box.id, proxy=True)
    equal(box.out('httpd -p 8000 -h /srv; echo proxied'), 'proxied\n')
    text, _ = box.through(8000, proxy=True).send('GET', '/cgi-bin/show')
    check(text.startswith(b'GET /cgi-bin/show\n') and cases.KEY.encode() not in text, text)


@case('endpoint/signed')
def _(world):
    box = world.create(secureAccess=True)
    expires = int(datetime.datetime.now().timestamp()) + 300
    end = box.endpoint(8000, use_server_proxy='false', expires=expires)
    box.out('httpd -p 8000 -h /srv')
    text, _ = Wire(end['endpoint'], headers=end.get('headers', {})).send('GET', '/cgi-bin/show')
    check(text.startswith(b'GET /cgi-bin/show\n'), text)
    box.kill()


@case('volumes/named')
def _(world):
    volume = {'name': 'data', 'pvc': {'claimName': f'conformance-{TAG}'}, 'mountPath': '/mnt/data',
              'readOnly': False}
    for command, text in (('echo kept >/mnt/data/x', ''), ('cat /mnt/data/x', 'kept\n')):
        box = world.create(volumes=[volume])
        equal(box.out(command), text)
        box.kill()


@case('manager/list')
def _(world):
    told = world.api.ask('GET', f'/sandboxes?state=Running&metadata={escaped(f"suite={TAG}")}&page=1&pageSize=10')
    equal([item['id'] for item in told['items']], [world.box.id])
    equal(told['pagination'], {'page': 1, 'pageSize': 10, 'totalItems': 1, 'totalPages': 1,
                               'hasNextPage': False})


@case('snapshot/create_get_list_delete')
def _(world):
    world.box.out('echo kept >/root/kept')
    made = world.api.ask('POST', f'{world.box.path}/snapshots', {'name': TAG})
    path = f'/snapshots/{escaped(made["id"])}'
    while world.api.ask('GET', path)['status']['state'] == 'Creating':
        pass
    listed = world.api.ask('GET', '/snapshots' + query(sandboxId=world.box.id, state='Ready', page=1))
    equal([item['id'] for item in listed['items']], [made['id']])
    box = world.create(image=None, entrypoint=None, snapshotId=made['id'])
    equal(box.out('cat /root/kept'), 'kept\n')
    refused(409, world.api.send, 'DELETE', path)
    box.kill()
    world.api.send('DELETE', path)
    refused(404, world.api.ask, 'GET', path)


@case('errors/told')
def _(world):
    unknown = '/sandboxes/00000000-0000-4000-8000-000000000000'
    check(refused(404, world.api.ask, 'GET', unknown).request_id, 'no request id')
    refused(401, Wire(f'{cases.DOMAIN}/v1', key='wrong').ask, 'GET', world.box.path)


@case('lifecycle/kill')
def _(world):
    world.box.kill()
    refused(404, world.box.info)


if __name__ == '__main__':
    cases.run_plain(World())
