"""What an operator watches: Debian's Prometheus scrapes a daemon under load, takes the alert rules
and answers each expression of the dashboard (tools/monitoring)."""
import contextlib
import http.client
import json
import pathlib
import re
import subprocess
import unittest
import urllib.parse

from atoll import SLOWNESS, TOP, ApiError, Daemon, until
from tls_test import Pair, make_pair

MONITORING = TOP / 'tools/monitoring'
LISTEN = '127.0.0.1:9464'
PROMETHEUS = '127.0.0.1:9090'
# A family of metrics: what is left when the suffixes of a histogram's series are off.
NAME = re.compile(r'\b((?:atoll|process)_[a-z_]+?|up)(?:_bucket|_sum|_count)?(?=[{\[\s)<>=-]|$)')


def get(address, path, headers=None):
    """(status, body)"""
    with contextlib.closing(http.client.HTTPConnection(address, timeout=60 * SLOWNESS)) as connection:
        connection.request('GET', path, headers=headers or {})
        response = connection.getresponse()
        return response.status, response.read().decode()


class Prometheus:
    """Scrapes a daemon each second: on the listener of metrics, and on the API's port by the key."""

    def __init__(self, daemon):
        self.top = daemon.top / 'prometheus'
        self.top.mkdir()
        (self.top / 'key').write_text(daemon.key, encoding='ascii')
        config = self.top / 'prometheus.yml'
        config.write_text(f'''
global: {{scrape_interval: 1s, evaluation_interval: 1s}}
rule_files: [{MONITORING / 'rules.yml'}]
scrape_configs:
- job_name: atoll
  static_configs: [{{targets: ['{LISTEN}']}}]
- job_name: by-key
  authorization: {{credentials_file: {self.top / 'key'}}}
  static_configs: [{{targets: ['{urllib.parse.urlsplit(daemon.url).netloc}']}}]
''', encoding='utf-8')
        self.log = self.top / 'log'
        with open(self.log, 'wb') as log:
            self.process = subprocess.Popen(
                ['prometheus', f'--config.file={config}', f'--storage.tsdb.path={self.top / "data"}',
                 f'--web.listen-address={PROMETHEUS}'], stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        try:
            until(self.ready, 60 * SLOWNESS, 'Prometheus serves')
        except AssertionError as late:
            self.end()
            raise AssertionError(self.log.read_text(encoding='utf-8')) from late

    def end(self):
        self.process.kill()
        self.process.wait()

    def ready(self):
        try:
            return get(PROMETHEUS, '/-/ready')[0] == 200
        except OSError:
            return False

    def ask(self, path, **query):
        status, text = get(PROMETHEUS, f'/api/v1/{path}?{urllib.parse.urlencode(query)}')
        if status != 200:
            raise AssertionError(f'{path} {query}: {text}')
        return json.loads(text)['data']

    def values(self, expression):
        return [float(sample['value'][1]) for sample in self.ask('query', query=expression)['result']]


def panels():
    """Each expression of the dashboard, with its variable as Grafana fills it in."""
    board = json.loads((MONITORING / 'dashboard.json').read_text(encoding='utf-8'))
    return [target['expr'].replace('$instance', '.*')
            for panel in board['panels'] for target in panel.get('targets', [])]


class Monitoring(Pair):

    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        make_pair(cls.top, days=2)  # soon enough for the one alert that fires
        cls.daemon = cls.enterClassContext(Daemon(
            metrics_listen=LISTEN, audit_enabled='on', usage_keep_days=1, **cls.settings))
        cls.image = cls.daemon.import_busybox()

    def scrape(self):
        status, text = get(LISTEN, '/metrics')
        self.assertEqual(status, 200)
        return text

    def load(self):
        """Something of all that is counted."""
        daemon = self.daemon
        box = daemon.create(self.image, resourceLimits={'memory': '16Mi', 'pids': '16'},
                            networkPolicy={'defaultAction': 'deny', 'egress': []})
        daemon.run(box, 'nslookup refused.example')
        daemon.run(box, 'x=a; while :; do x=$x$x; done')
        daemon.run(box, 'i=0; while [ $i -lt 40 ]; do sleep 5 & i=$((i+1)); done')
        daemon.request('POST', f'/v1/sandboxes/{box}/pause')
        daemon.request('POST', f'/v1/sandboxes/{box}/resume')
        daemon.delete(box)
        with self.assertRaises(ApiError):
            daemon.create('no-such-image')
        self.assertEqual(daemon.send('GET', '/v1/sandboxes', headers={
            'OPEN-SANDBOX-API-KEY': 'wrong'}).status, 401)

    def test_prometheus_answers_the_rules_and_the_board(self):
        prometheus = Prometheus(self.daemon)
        self.addCleanup(prometheus.end)
        targets = lambda: {one['labels']['job']: one['lastError']
                           for one in prometheus.ask('targets')['activeTargets']}
        until(lambda: prometheus.values('up') == [1, 1], 60 * SLOWNESS, 'both ways are scraped')
        self.assertEqual(targets(), {'atoll': '', 'by-key': ''})
        self.load()

        def empty():
            return [expression for expression in panels()
                    if all(value != value for value in prometheus.values(expression))]
        self.assertGreater(len(panels()), 30)
        try:
            until(lambda: not empty(), 60 * SLOWNESS, 'no panel is empty')
        finally:
            self.assertEqual(empty(), [])

        known = set(prometheus.ask('metadata')) | {'up'}
        groups = prometheus.ask('rules')['groups']
        rules = {rule['name']: rule for group in groups for rule in group['rules']}
        self.assertGreater(len(rules), 10)
        for rule in rules.values():
            self.assertEqual((rule['health'], rule.get('lastError', '')), ('ok', ''), rule['name'])
            names = set(NAME.findall(rule['query']))
            self.assertTrue(names and names <= known, (rule['query'], names - known))
        until(lambda: {alert['labels']['alertname'] for alert in prometheus.ask('alerts')['alerts']
                       if alert['state'] == 'firing'} == {'AtollCertificateExpires'},
              60 * SLOWNESS, 'one alert fires, that of the certificate')

    def test_promtool_finds_nothing_to_say(self):
        self.load()
        for text in (self.scrape(),
                     self.daemon.send('GET', '/metrics').read().decode()):
            checked = subprocess.run(['promtool', 'check', 'metrics'], input=text, text=True,
                                     capture_output=True, check=False)
            self.assertEqual((checked.returncode, checked.stdout + checked.stderr), (0, ''))
            families = re.findall(r'^# TYPE (\S+) (\S+)$', text, re.M)
            self.assertEqual(len(families), len(dict(families)))
            self.assertNotIn('untyped', dict(families).values())
            # Whoever watches a hundred hosts pays for each series.
            self.assertLess(sum(not line.startswith('#') for line in text.splitlines()), 4000)
        checked = subprocess.run(['promtool', 'check', 'rules', MONITORING / 'rules.yml'],
                                 text=True, capture_output=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stderr)
        checked = subprocess.run(['promtool', 'test', 'rules', MONITORING / 'rules_test.yml'],
                                 text=True, capture_output=True, check=False)
        self.assertEqual(checked.returncode, 0, checked.stdout + checked.stderr)

    def test_what_the_kernel_counts(self):
        self.load()
        # The counts of a sandbox that is gone and of one that lives.
        gone = self.daemon.metric('sandbox_oom_kills_total')
        hits = self.daemon.metric('sandbox_pids_limit_hits_total')
        self.assertGreater(gone, 0)
        self.assertGreater(hits, 0)
        box = self.daemon.create(self.image, resourceLimits={'memory': '16Mi'})
        self.addCleanup(self.daemon.delete, box)
        self.daemon.run(box, 'x=a; while :; do x=$x$x; done')
        until(lambda: self.daemon.metric('sandbox_oom_kills_total') > gone, 30 * SLOWNESS,
              'the kill in the one that lives is counted')

    def test_what_the_name_server_counts(self):
        counted = lambda: {tuple(re.findall(r'"(\w+)"', labels)): int(value) for labels, value in re.findall(
            r'^atoll_dns_queries_total\{(.*)\} (\d+)$', self.daemon.send('GET', '/metrics').read().decode(), re.M)}
        before = counted()
        self.assertEqual(len(before), 12)
        box = self.daemon.create(self.image, networkPolicy={'defaultAction': 'deny', 'egress': []})
        self.addCleanup(self.daemon.delete, box)
        self.daemon.run(box, 'nslookup -type=a refused.example; nslookup -type=aaaa refused.example')
        after = counted()
        grown = {labels: after[labels] - before[labels] for labels in after if after[labels] != before[labels]}
        self.assertEqual(set(grown), {('denied', 'A'), ('denied', 'AAAA')}, grown)
        self.assertNotIn('refused.example', self.daemon.send('GET', '/metrics').read().decode())

    def test_what_the_host_has(self):
        """Pressure and tracked connections, as the kernel shows them."""
        def told():
            text = self.daemon.send('GET', '/v1/metrics').read().decode()
            return dict(re.findall(r'^(atoll_(?:host_pressure|conntrack)\S*) (\S+)$', text, re.M))
        until(told, 30 * SLOWNESS, 'the first sample')
        found = told()
        for resource in ('cpu', 'memory', 'io'):
            share = float(found[f'atoll_host_pressure_ratio{{resource="{resource}"}}'])
            self.assertTrue(0 <= share <= 1, share)
        limit = pathlib.Path('/proc/sys/net/netfilter/nf_conntrack_max').read_text(encoding='ascii')
        self.assertEqual(int(found['atoll_conntrack_limit']), int(limit))
        self.assertLessEqual(int(found['atoll_conntrack_entries']), int(limit))

    def test_refused_is_not_failed(self):
        creates = lambda result: self.daemon.metric(
            f'sandbox_creates_total{{result="{result}",start="cold"}}')
        failed, refused, made = creates('error'), creates('refused'), creates('ok')
        with self.assertRaises(ApiError):
            self.daemon.create('no-such-image')
        self.daemon.delete(self.daemon.create(self.image))
        self.assertEqual((creates('error'), creates('refused'), creates('ok')),
                         (failed, refused + 1, made + 1))

    def test_the_listener_has_nothing_else(self):
        self.assertEqual(get(LISTEN, '/v1/sandboxes')[0], 404)
        self.assertEqual(get(LISTEN, '/health')[0], 404)
        self.assertEqual(get(LISTEN, '/metrics', {'Origin': 'http://evil.example'})[0], 403)
        # The API's own port wants the key all the same.
        self.assertEqual(self.daemon.send('GET', '/metrics', headers={
            'OPEN-SANDBOX-API-KEY': ''}).status, 401)

    def test_the_start_of_the_process(self):
        started = float(re.search(r'^process_start_time_seconds (\S+)$', self.scrape(), re.M)[1])
        stat = pathlib.Path(f'/proc/{self.daemon.process.pid}/stat').read_text(encoding='utf-8')
        ticks = int(stat.rpartition(') ')[2].split()[19])
        boot = int(re.search(r'^btime (\d+)$', pathlib.Path('/proc/stat').read_text('utf-8'), re.M)[1])
        self.assertAlmostEqual(started, boot + ticks / 100, delta=2)


if __name__ == '__main__':
    unittest.main()
