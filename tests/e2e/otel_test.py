"""What an OpenTelemetry collector is sent. In its place stands a server of the test's own: Debian
has no collector."""
import contextlib
import http.server
import json
import os
import socket
import threading
import time
import unittest
from unittest import mock

import atoll
from atoll import SLOWNESS, until

REQUESTS = 'server.http.request.duration'
CREATES = 'opensandbox.sandbox.create.duration'
BOUNDS = {REQUESTS: [1, 5, 10, 25, 50, 100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000],
          CREATES: [100, 250, 500, 1000, 2500, 5000, 10000, 30000, 60000]}
EVENT = {'eventType': 'sandbox.create', 'createDurationMs': 250, 'success': True}


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        self.server.taken.append((self.path, dict(self.headers), body))
        self.send_response(200)
        self.send_header('Content-Length', '2')
        self.end_headers()
        self.wfile.write(b'{}')

    def log_message(self, *_):
        pass


class CollectorStandIn(http.server.ThreadingHTTPServer):
    """Takes documents, and knows of OTLP what this test does."""

    def __init__(self, port=0):
        self.taken = []
        super().__init__(('127.0.0.1', port), Handler)
        threading.Thread(target=self.serve_forever, daemon=True).start()

    def __exit__(self, *_):
        self.shutdown()
        self.server_close()

    @property
    def url(self):
        return f'http://127.0.0.1:{self.server_port}/v1/metrics'

    def documents(self):
        return [json.loads(body) for _, _, body in self.taken]


def plain(attributes):
    """[{key, value: {stringValue: …}}] as a dictionary; integers are texts in this form."""
    kinds = {'stringValue': str, 'intValue': int, 'boolValue': bool}
    found = {}
    for item in attributes:
        (kind, value), = item['value'].items()
        found[item['key']] = kinds[kind](value)
    return found


def points(document, name):
    """[(attributes, data point)] of the metric of that name."""
    scope, = document['resourceMetrics'][0]['scopeMetrics']
    return [(plain(point['attributes']), point)
            for metric in scope['metrics'] if metric['name'] == name
            for point in metric['histogram']['dataPoints']]


def count(documents, name, **wanted):
    """How many there are of it by the last document."""
    if not documents:
        return 0
    return sum(int(point['count']) for attributes, point in points(documents[-1], name)
               if all(attributes.get(key) == value for key, value in wanted.items()))


def daemon_for(url, **settings):
    return atoll.Daemon(otel_enabled=True, otel_endpoint=url,
                        **{'otel_export_interval_millis': 1000, **settings})


class Sent(unittest.TestCase):

    def counted(self, collector, number, name=REQUESTS, **wanted):
        until(lambda: count(collector.documents(), name, **wanted) == number, 30 * SLOWNESS,
              f'{number} {name} {wanted}')

    def test_requests_and_creates(self):
        variables = {'OTEL_EXPORTER_OTLP_HEADERS': 'x-tenant=one%20two'}
        with CollectorStandIn() as collector, mock.patch.dict(os.environ, variables), \
                daemon_for(collector.url, otel_service_name='atoll one') as daemon:
            box = daemon.create(daemon.import_busybox())
            self.assertEqual(daemon.run(box, 'echo here').stdout, 'here')
            for _ in range(3):
                daemon.request('GET', f'/v1/sandboxes/{box}')
            for method, path in (('GET', '/some-secret'), ('BREW', '/some-secret')):
                self.assertEqual(daemon.send(method, path).status, 404)
            agent = {'User-Agent': 'OpenSandbox-Python-SDK/1.1.1'}
            for event in (EVENT, {**EVENT, 'createDurationMs': 251, 'success': False}):
                sent = daemon.send('POST', '/v1/metrics/events', event, agent)
                self.assertEqual(sent.status, 204)
            reads = {'http_method': 'GET', 'http_route': '/v1/sandboxes/{sandbox_id}'}
            self.counted(collector, 3, http_status_code=200, **reads)
            self.counted(collector, 1, http_method='OTHER', http_route='unknown')
            self.counted(collector, 1, http_method='POST', http_status_code=200,
                         http_route='/sandboxes/{sandbox_id}/proxy/44772/command')
            sdk = {'sdk.language': 'python', 'sdk.version': '1.1.1'}
            self.counted(collector, 1, CREATES, success=True, **sdk)
            self.counted(collector, 1, CREATES, success=False, **sdk)
            first = collector.documents()[-1]
            # The next has what came before as well.
            self.assertEqual(daemon.send('GET', f'/v1/sandboxes/{box}x').status, 404)
            daemon.request('GET', f'/v1/sandboxes/{box}')
            self.counted(collector, 4, http_status_code=200, **reads)
            self.counted(collector, 1, http_status_code=404, **reads)
            last = collector.documents()[-1]

            for path, headers, body in collector.taken:
                self.assertEqual((path, headers['Content-Type'], headers['x-tenant']),
                                 ('/v1/metrics', 'application/json', 'one two'))
                for stranger in (b'secret', b'BREW', box.encode(), daemon.key.encode()):
                    self.assertNotIn(stranger, body)
            resource = plain(last['resourceMetrics'][0]['resource']['attributes'])
            self.assertEqual(resource['service.name'], 'atoll one')
            version = daemon.request('GET', '/version')['version']
            self.assertEqual((resource['service.version'], resource['host.name']),
                             (version, os.uname().nodename))
            self.assertTrue(resource['service.instance.id'])
            scope, = last['resourceMetrics'][0]['scopeMetrics']
            told = {metric['name']: metric for metric in scope['metrics']}
            for name in BOUNDS:
                self.assertEqual((told[name]['unit'],
                                  told[name]['histogram']['aggregationTemporality']), ('ms', 2))
            # The families of Prometheus, without its requests: upstream's histograms have these.
            self.assertNotIn('atoll_http_requests_total', told)
            started = told['process_start_time_seconds']
            self.assertEqual(started['unit'], 's')
            self.assertLess(started['gauge']['dataPoints'][0]['asDouble'], time.time())
            creates = told['atoll_sandbox_creates_total']['sum']
            self.assertTrue(creates['isMonotonic'])
            self.assertIn(({'result': 'ok', 'start': 'cold'}, 1.0),
                          [(plain(point['attributes']), point['asDouble'])
                           for point in creates['dataPoints']])
            took = told['atoll_sandbox_create_duration_seconds']
            self.assertEqual(took['unit'], 's')
            self.assertIn('1', [point['count'] for point in took['histogram']['dataPoints']])
            for document in (first, last):
                for name, bounds in BOUNDS.items():
                    self.assertTrue(points(document, name))
                    for _, point in points(document, name):
                        self.assert_sound(point, bounds)
                        # One beginning for all that this daemon counts.
                        self.assertEqual(point['startTimeUnixNano'],
                                         points(first, name)[0][1]['startTimeUnixNano'])
            below, = [point for attributes, point in points(last, CREATES) if attributes['success']]
            self.assertEqual(below['bucketCounts'][:3], ['0', '1', '0'])

    def assert_sound(self, point, bounds):
        self.assertEqual(point['explicitBounds'], bounds)
        buckets = [int(number) for number in point['bucketCounts']]
        self.assertEqual((len(buckets), sum(buckets)), (len(bounds) + 1, int(point['count'])))
        self.assertTrue(point['min'] <= point['max'] <= point['sum'])
        began, now = (int(point[name]) / 1e9 for name in ('startTimeUnixNano', 'timeUnixNano'))
        self.assertTrue(time.time() - 600 * SLOWNESS < began < now <= time.time(), point)

    def test_what_a_daemon_has_last_it_sends(self):
        with CollectorStandIn() as collector, \
                daemon_for(collector.url, otel_export_interval_millis=60000) as daemon:
            daemon.request('GET', '/version')
            self.assertEqual(collector.taken, [])
            daemon.stop()
            self.assertEqual(count(collector.documents(), REQUESTS, http_route='/version'), 1)
            self.assertEqual(len(collector.taken), 1)


class NotSent(unittest.TestCase):

    def test_a_dead_collector_hurts_nobody(self):
        with socket.create_server(('127.0.0.1', 0)) as taken:
            port = taken.getsockname()[1]
        with daemon_for(f'http://127.0.0.1:{port}/v1/metrics') as daemon:
            until(lambda: 'cannot export metrics' in daemon.log.read_text(), 30 * SLOWNESS,
                  'the log says so')
            for _ in range(5):
                daemon.request('GET', '/version')
            with CollectorStandIn(port) as collector:
                until(lambda: count(collector.documents(), REQUESTS, http_route='/version') == 5,
                      30 * SLOWNESS, 'nothing was lost')
                until(lambda: 'exporting metrics works again' in daemon.log.read_text(), 30 * SLOWNESS,
                      'the log says that, too')
            self.assertEqual(daemon.log.read_text().count('cannot export metrics'), 1)

    def test_one_that_hangs_delays_nobody(self):
        with socket.create_server(('127.0.0.1', 0)) as silent, contextlib.ExitStack() as stack:
            port = silent.getsockname()[1]
            daemon = stack.enter_context(daemon_for(f'http://127.0.0.1:{port}/v1/metrics'))
            daemon.request('GET', '/version')
            stack.enter_context(silent.accept()[0])
            box = daemon.create(daemon.import_busybox())
            slowest = 0.0
            for _ in range(100):
                began = time.monotonic()
                daemon.request('GET', f'/v1/sandboxes/{box}')
                slowest = max(slowest, time.monotonic() - began)
            self.assertLess(slowest, 1 * SLOWNESS)
            began = time.monotonic()
            daemon.stop()
            # Its time limit is 5 s.
            self.assertLess(time.monotonic() - began, 2 * SLOWNESS)

    def test_nothing_unless_asked(self):
        with CollectorStandIn() as collector:
            variables = {'OTEL_EXPORTER_OTLP_ENDPOINT': collector.url.removesuffix('/v1/metrics')}
            for more, settings in (({}, {}),
                                   ({'OTEL_SDK_DISABLED': 'true'}, {'otel_enabled': True}),
                                   ({'OTEL_METRICS_EXPORTER': 'none'}, {'otel_enabled': True})):
                with self.subTest(more), mock.patch.dict(os.environ, {**variables, **more}), \
                        atoll.Daemon(**settings) as daemon:
                    self.assertEqual(daemon.send('POST', '/v1/metrics/events', EVENT).status, 204)
                    daemon.stop()
                    self.assertEqual(collector.taken, [])
            # It is they that made the difference.
            with mock.patch.dict(os.environ, variables), atoll.Daemon(otel_enabled=True) as daemon:
                self.assertEqual(daemon.send('POST', '/v1/metrics/events', EVENT).status, 204)
                daemon.stop()
                made = count(collector.documents(), CREATES, **{'sdk.language': 'unknown'})
                self.assertEqual(made, 1)


if __name__ == '__main__':
    unittest.main()
