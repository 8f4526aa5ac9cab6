"""The sinks of the audit log: a real rsyslog over TLS, a real journald, an HTTPS receiver. Each gets each line, also
after it was away and after the daemon was killed."""
import gzip
import hashlib
import hmac
import http.server
import json
import pathlib
import re
import shutil
import ssl
import subprocess
import threading
import unittest

from atoll import SLOWNESS, Daemon, until
from tls_test import Pair

KEY = 'a key of the receiver'


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = 'HTTP/1.1'

    def do_POST(self):
        body = self.rfile.read(int(self.headers['Content-Length']))
        status = 503 if self.server.refuses else 200
        if status == 200:
            self.server.taken.append((self.path, dict(self.headers), body))
        self.send_response(status)
        self.send_header('Content-Length', '0')
        self.end_headers()

    def log_message(self, *_):
        pass


class Sinks(Pair):

    def setUp(self):
        self.logs = self.top / self._testMethodName
        self.logs.mkdir()
        self.logs.chmod(0o755)
        self.directory = self.logs / 'audit'

    def daemon(self, *sinks, **settings):
        return self.enterContext(Daemon(audit_enabled='on', audit_directory=str(self.directory),
                                        audit_sinks=list(sinks), **settings))

    def lines(self):
        return [line for path in sorted(self.directory.glob('*.jsonl'))
                for line in path.read_text(encoding='utf-8').splitlines()]

    def receiver(self):
        server = http.server.ThreadingHTTPServer(('127.0.0.1', 0), Handler)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(self.top / 'cert.pem', self.top / 'key.pem')
        server.socket = context.wrap_socket(server.socket, server_side=True)
        server.taken, server.refuses = [], False
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        self.addCleanup(server.server_close)
        self.addCleanup(thread.join)
        self.addCleanup(server.shutdown)
        return server, f'https://localhost:{server.server_address[1]}'

    def start(self, *command):
        log = open(self.logs / 'receiver.log', 'ab')  # pylint: disable=consider-using-with
        self.addCleanup(log.close)
        process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        return process

    def send_events(self, daemon, name, count=20):
        for number in range(count):
            daemon.send('DELETE', f'/v1/sandboxes/{name}{number}').read()

    def test_https_gets_each_line_signed_and_once_more_after_it_was_away(self):
        server, url = self.receiver()
        key = self.logs / 'key'
        key.write_text(KEY + '\n', encoding='ascii')
        shutil.chown(key, 'atoll')
        key.chmod(0o400)
        daemon = self.daemon(f'{url}/audit ca={self.top / "cert.pem"} key={key}')

        def taken():
            return [line for path, headers, body in server.taken if path == '/audit'
                    for line in gzip.decompress(body).decode().splitlines()]
        self.send_events(daemon, 'first')
        until(lambda: len(taken()) >= len(self.lines()), 30 * SLOWNESS, 'all lines')
        self.assertEqual(taken(), self.lines())
        _, headers, body = server.taken[0]
        self.assertEqual(headers['Content-Type'], 'application/x-ndjson')
        time, mac = re.fullmatch('t=([0-9]+),v1=([0-9a-f]{64})', headers['Atoll-Signature']).groups()
        self.assertEqual(mac, hmac.new(KEY.encode(), time.encode() + b'.' + body, hashlib.sha256).hexdigest())
        boot = json.loads(self.lines()[0])['boot']
        self.assertEqual(headers['Atoll-Batch'], f'{boot}-1')

        server.refuses = True
        self.send_events(daemon, 'second')
        name = r'https-+localhost-[0-9]+-audit'
        until(lambda: re.search(name, daemon.request('GET', '/health').get('troubles', {}).get('audit_sinks', '')),
              60 * SLOWNESS, 'health tells it')
        behind = re.search(r'(?m)^atoll_audit_sink_oldest_unsent_seconds\{sink="%s"\} (\S+)$' % name,
                           daemon.send('GET', '/v1/metrics').read().decode())
        self.assertGreater(float(behind[1]), 5)
        daemon.kill()
        daemon.start()
        self.send_events(daemon, 'third')
        server.refuses = False
        until(lambda: set(self.lines()) <= set(taken()), 120 * SLOWNESS, 'all lines after it was away')
        until(lambda: 'audit_sinks' not in daemon.request('GET', '/health').get('troubles', {}), 60 * SLOWNESS)
        ours = [line for line in dict.fromkeys(taken())]
        self.assertEqual(ours, self.lines())
        metrics = daemon.send('GET', '/v1/metrics').read().decode()
        self.assertRegex(metrics, r'(?m)^atoll_audit_lost_total\{sink="https-+localhost-[0-9]+-audit"\} 0$')

    def test_otlp_gets_log_records(self):
        server, url = self.receiver()
        daemon = self.daemon(f'otlp+{url}/v1/logs ca={self.top / "cert.pem"}')
        self.send_events(daemon, 'x', 3)

        def records():
            return [record for path, _, body in server.taken if path == '/v1/logs'
                    for resource in json.loads(gzip.decompress(body))['resourceLogs']
                    for scope in resource['scopeLogs'] for record in scope['logRecords']]
        until(lambda: len(records()) >= len(self.lines()), 30 * SLOWNESS, 'all lines')
        self.assertEqual([record['body']['stringValue'] for record in records()], self.lines())
        last = records()[-1]
        self.assertEqual((last['severityNumber'], last['eventName']), (13, 'atoll.sandbox.delete'))
        self.assertRegex(last['timeUnixNano'], '^[0-9]{19}$')

    def test_rsyslog_gets_each_line_over_tls(self):
        config = self.logs / 'rsyslog.conf'
        out = self.logs / 'messages'
        config.write_text(f'''
global(workDirectory="{self.logs}" defaultNetstreamDriver="ossl" maxMessageSize="16k"
       defaultNetstreamDriverCAFile="{self.top / 'cert.pem'}"
       defaultNetstreamDriverCertFile="{self.top / 'cert.pem'}"
       defaultNetstreamDriverKeyFile="{self.top / 'key.pem'}")
module(load="imtcp" streamDriver.name="ossl" streamDriver.mode="1" streamDriver.authMode="anon")
input(type="imtcp" port="6514" address="127.0.0.1")
template(name="all" type="string"
         string="%pri% %app-name% %msgid% %timereported:::date-rfc3339% %msg%\\n")
action(type="omfile" file="{out}" template="all" flushOnTXEnd="on")
''', encoding='utf-8')
        command = ['rsyslogd', '-n', '-f', config, '-i', self.logs / 'pid']
        receiver = self.start(*command)
        daemon = self.daemon(f'syslog://localhost:6514 ca={self.top / "cert.pem"}')

        def taken():
            text = out.read_text(encoding='utf-8') if out.exists() else ''
            return [line.split(' ', 4) for line in text.splitlines()]
        self.send_events(daemon, 'first')
        until(lambda: len(taken()) >= len(self.lines()), 60 * SLOWNESS, 'all lines')
        self.assertEqual([line[4].lstrip() for line in taken()], self.lines())
        self.assertEqual(taken()[-1][:3], ['110', 'atoll', 'sandbox.delete'])
        self.assertEqual(taken()[-1][3][:19], json.loads(self.lines()[-1])['time'][:19])

        receiver.kill()
        receiver.wait()
        self.send_events(daemon, 'second')
        self.start(*command)
        until(lambda: set(self.lines()) <= {line[4].lstrip() for line in taken()}, 120 * SLOWNESS,
              'all lines after it was away')

    def test_journald_gets_fields(self):
        for place in ('/run/systemd', '/run/log'):
            pathlib.Path(place).mkdir(exist_ok=True)
            subprocess.run(['mount', '-t', 'tmpfs', 'journal', place], check=True)
            self.addCleanup(subprocess.run, ['umount', '-l', place], check=True)
        pathlib.Path('/run/log/journal').mkdir()
        self.start('/lib/systemd/systemd-journald')
        until(pathlib.Path('/run/systemd/journal/socket').exists, 30 * SLOWNESS, 'the journal listens')
        daemon = self.daemon('journald')
        self.send_events(daemon, 'x', 3)

        def taken(*fields):
            text = subprocess.run(['journalctl', '--directory=/run/log/journal', '-o', 'json',
                                   'SYSLOG_IDENTIFIER=atoll-audit', *fields],
                                  capture_output=True, text=True, check=False).stdout
            return [json.loads(line) for line in text.splitlines() if line.startswith('{')]
        until(lambda: len(taken()) >= len(self.lines()), 60 * SLOWNESS, 'all lines')
        self.assertEqual([entry['MESSAGE'] for entry in taken()], self.lines())
        (entry,) = taken('ATOLL_TARGET=x1')
        self.assertEqual((entry['ATOLL_ACTION'], entry['ATOLL_OUTCOME'], entry['PRIORITY']),
                         ('sandbox.delete', 'refused', '4'))


if __name__ == '__main__':
    unittest.main()
