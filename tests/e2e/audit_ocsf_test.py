"""What `atoll audit export --format ocsf` writes is what the public schema of OCSF demands: each line is checked
against the schema of its class, which a package of the registry brings (tests/conformance/prepare ocsf)."""
import json
import subprocess
import unittest

from atoll import BUILD, SLOWNESS
from audit_test import WithAudit

# Reads events, and prints what the schema refuses of each.
CHECK = r'''
import json, sys
from jsonschema import Draft202012Validator
from ocsf_json_schema import OcsfJsonSchemaEmbedded, get_ocsf_schema

schemas, validators = {}, {}
for line in sys.stdin:
    event = json.loads(line)
    of = event["metadata"]["version"], event["class_uid"]
    if of not in validators:
        if of[0] not in schemas:
            schemas[of[0]] = OcsfJsonSchemaEmbedded(get_ocsf_schema(version=of[0]))
        name = schemas[of[0]].lookup_class_name_from_uid(class_uid=of[1])
        schema = schemas[of[0]].get_class_schema(class_name=name, profiles=[])
        Draft202012Validator.check_schema(schema)
        validators[of] = Draft202012Validator(schema)
    for error in validators[of].iter_errors(event):
        print(event["unmapped"]["action"], error.json_path, error.message[:300])
'''


class Ocsf(WithAudit):

    def refusals(self, events):
        done = subprocess.run([BUILD / 'conformance/ocsf/bin/python', '-c', CHECK], input=events, text=True,
                              capture_output=True, timeout=120 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        return sorted(set(done.stdout.splitlines()))

    def test_the_schema_takes_every_line(self):
        daemon = self.start(audit_level=['file.*=full', 'exec.command=full'])
        image = daemon.import_busybox()
        box = daemon.create(image, metadata={'name': 'web'})
        token = daemon.execd_headers(box)
        execd = f'/sandboxes/{box}/proxy/44772'
        daemon.run(box, 'echo hello')
        for method, path, body in (
                ('GET', '/files/download?path=/etc/passwd', None), ('DELETE', '/files?path=/nothing', None),
                ('POST', '/session', {}), ('POST', '/entrypoint/signal', {'signal': 'SIGCONT'}),
                ('GET', '/nowhere', None)):
            daemon.send(method, execd + path, body, token).read()
        daemon.send('GET', f'/sandboxes/{box}/proxy/8080/').read()
        for method, path, body in (
                ('POST', f'/v1/sandboxes/{box}/pause', None), ('POST', f'/v1/sandboxes/{box}/resume', None),
                ('PATCH', f'/v1/sandboxes/{box}/metadata', {'a': 'b'}), ('POST', f'/v1/sandboxes/{box}/fork', {}),
                ('PUT', f'/v1/sandboxes/{box}/networkpolicy', {'defaultAction': 'deny'}),
                ('POST', '/v1/volumes', {'name': 'data'}), ('DELETE', '/v1/volumes/data', None),
                ('POST', '/v1/images?from=busybox&name=other', None), ('DELETE', '/v1/images/other', None),
                ('POST', '/v1/images/prune', None), ('GET', '/v1/backup', None), ('DELETE', '/v1/sandboxes/nobody', None),
                ('DELETE', f'/v1/sandboxes/{box}', None)):
            daemon.send(method, path, body).read()
        daemon.send('GET', '/v1/sandboxes', headers={'OPEN-SANDBOX-API-KEY': 'wrong'}).read()
        daemon.stop()
        daemon.start()
        done = subprocess.run([BUILD / 'atoll', 'audit', 'export', '--format', 'ocsf'], env=daemon.client_env(),
                              text=True, capture_output=True, timeout=60 * SLOWNESS, check=False)
        self.assertEqual(done.returncode, 0, done.stderr)
        events = [json.loads(line) for line in done.stdout.splitlines()]
        self.assertEqual({event['class_uid'] for event in events}, {1001, 1007, 3002, 6003})
        actions = {event['unmapped']['action'] for event in events}
        self.assertLessEqual({'exec.command', 'file.read', 'file.delete', 'login.failed', 'sandbox.create',
                              'policy.change', 'daemon.start', 'daemon.stop', 'exec.signal', 'port.open'}, actions)
        self.assertEqual(self.refusals(done.stdout), [])
        # A check that refuses nothing would prove nothing.
        events[0]['activity_id'] = 'started'
        self.assertNotEqual(self.refusals(json.dumps(events[0]) + '\n'), [])


if __name__ == '__main__':
    unittest.main()
