"""One reading of HTTP: the same odd messages to the daemon, to execd through an endpoint, and from a
sandbox through the splice proxy. For execd alone see execd/http_test.py."""
import re
import unittest

from odd_heads import REFUSED, TAKEN, message, next_request
from egress import PATIENCE_MS, V4, EgressTest, policy

TOKEN = 'X-EXECD-ACCESS-TOKEN'


class OddHeads(EgressTest):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.a = cls.box(policy('good.example'))

    def check(self, taken, **reader):
        """`taken(messages)`: of each, which ends in a second request, whether that was answered."""
        for verdict, table in ((False, REFUSED), (True, TAKEN)):
            data = [message(text, **reader) + next_request(**reader) for text in table.values()]
            wrong = [name for name, was in zip(table, taken(data)) if was != verdict]
            self.assertEqual(wrong, [], f'expected to be {"taken" if verdict else "refused"}')

    def answered(self, data):
        """By the daemon."""
        answer = b''
        with self.a.raw() as peer:
            try:
                peer.sendall(data)
                while piece := peer.recv(65536):
                    answer += piece
            except ConnectionError:  # closed with something of ours unread
                pass
        statuses = re.findall(rb'HTTP/1\.1 (\d\d\d) ', answer)
        return len(statuses) == 2 and statuses[1] == b'200'

    def test_daemon(self):
        self.check(lambda all_of: map(self.answered, all_of), path='/health')

    def test_execd_through_its_endpoint(self):
        self.check(lambda all_of: map(self.answered, all_of),
                   path=f'/sandboxes/{self.a.id}/proxy/44772/ping',
                   lines=f'{TOKEN}: {self.a.headers[TOKEN]}\r\n')

    def test_splice_proxy(self):
        def arrived(all_of):
            # Many at once: each call of the probe is a command in the sandbox.
            for first in range(0, len(all_of), 20):
                for outcome in self.a.probe(*(
                        self.a.action('tcp', V4.at(10), 80, send=data, all=1, wait=PATIENCE_MS)
                        for data in all_of[first:first + 20])):
                    yield b'"path": "/?next"' in outcome.data

        self.check(arrived, host='good.example')


if __name__ == '__main__':
    unittest.main()
