"""The group "tenants": what tenants, the audit log and metering cost a create and its first command. Two daemons, one
with all three and one with none, take turns, so that whatever else happens on the host happens to both."""
import time

import driver
import atoll  # pylint: disable=wrong-import-order
import tenants_test  # pylint: disable=wrong-import-order

ROUNDS = 500
KEY = 'the-key-of-the-team'
TENANTS = f'[[tenants]]\nname = "team"\napi_keys = ["{KEY}"]\n'
BODY = {'image': {'uri': 'busybox:latest'}, 'entrypoint': ['sleep', '100000'], 'timeout': 600,
        'resourceLimits': {'memory': '24Mi', 'pids': '16'}}
ROWS = [driver.row('without', 'create → the end of a first command, one key, no audit log', 'ms'),
        driver.row('with', 'the same, by a developer of a tenant, with the audit log and metering', 'ms',
                   {'at_most': 1.03, 'over': 'tenants/without'})]


class Client:
    """One connection to one daemon."""

    def __init__(self, daemon, key):
        self.daemon, self.key = daemon, key
        self.connection = daemon.connection()
        with open(atoll.image_archive('busybox'), 'rb') as archive:
            self.ask('POST', '/v1/images?name=busybox:latest', archive)

    def ask(self, method, path, body=None):
        answer = self.daemon.send(method, path, body, {'OPEN-SANDBOX-API-KEY': self.key}, self.connection)
        text = answer.read()
        if answer.status >= 300:
            raise AssertionError(f'{method} {path}: {answer.status} {text[:300]}')
        return answer.getheader('Location'), text

    def sample(self):
        """In milliseconds."""
        began = time.perf_counter()
        location, _ = self.ask('POST', '/v1/sandboxes', BODY)
        box = location.rpartition('/')[2]
        self.ask('POST', f'/sandboxes/{box}/proxy/44772/command', {'command': 'true'})
        took = time.perf_counter() - began
        self.ask('DELETE', f'/v1/sandboxes/{box}')
        return took * 1e3


def measure(take):
    with atoll.Daemon(audit_enabled='off') as plain, \
            tenants_test.TenantsDaemon(TENANTS, audit_enabled='on', usage_keep_days=90) as teams:
        clients = {'without': Client(plain, plain.key), 'with': Client(teams, KEY)}
        for client in clients.values():
            for _ in range(10):
                client.sample()
        for number in range(take.samples or ROUNDS):
            # Neither is always the first of a pair.
            for name in sorted(clients, reverse=number % 2 == 0):
                take.add(name, clients[name].sample())


if __name__ == '__main__':
    driver.Take('tenants', lambda _: ROWS).run(measure)
