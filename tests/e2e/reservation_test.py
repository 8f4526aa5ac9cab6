"""resourceRequests: what is kept for a sandbox, whether or not it uses it."""
import json
import os
import unittest

import atoll
from atoll import SLOWNESS, until
from box import Box, shell_image


class Reservations(unittest.TestCase):
    def setUp(self):
        self.daemon = atoll.Daemon()
        self.addCleanup(self.daemon.__exit__)
        self.daemon.start()
        self.image = shell_image(self.daemon)
        self.cores = os.sysconf('SC_NPROCESSORS_ONLN')

    def create(self, cpu, limit=None):
        return Box(self.daemon, self.image, entrypoint=['sleep', '99999'],
                   resourceLimits={'cpu': str(limit or self.cores), 'memory': '64Mi'},
                   resourceRequests={'cpu': cpu, 'memory': '32Mi'})

    def refused(self, requests, limits=None):
        response = self.daemon.send('POST', '/v1/sandboxes', {
            'image': {'uri': self.image}, 'entrypoint': ['sleep', '99999'],
            'resourceLimits': limits or {'cpu': str(self.cores), 'memory': '64Mi'},
            'resourceRequests': requests})
        return response.status, json.loads(response.read())

    def test_the_host_is_promised_once(self):
        first = self.create(f'{self.cores * 1000 - 500}m')
        status, told = self.refused({'cpu': '600m'})
        self.assertNotIn(status, (200, 202))
        self.assertIn('resourceRequests', told['message'])
        self.create('500m')
        self.assertNotIn(self.refused({'cpu': '10m'})[0], (200, 202))
        # What is promised to others is no business of one that asks for nothing.
        Box(self.daemon, self.image, entrypoint=['sleep', '99999'])
        # It is kept over a restart, and comes back with the end.
        self.daemon.kill()
        self.daemon.start()
        self.assertNotIn(self.refused({'cpu': '600m'})[0], (200, 202))
        self.daemon.delete(first.id)
        until(lambda: self.refused({'cpu': '600m'})[0] == 202, 20 * SLOWNESS, 'it is free again')

    def test_what_cannot_be_kept(self):
        for requests, word in (({'cpu': f'{self.cores + 1}'}, 'more than its limit'),
                               ({'memory': '65Mi'}, 'more than its limit'),
                               ({'memory': 'much'}, 'resourceRequests'),
                               ({'pids': '10'}, 'cpu and memory')):
            status, told = self.refused(requests)
            self.assertEqual((status, told['code']), (400, 'SANDBOX::INVALID_PARAMETER'), told)
            self.assertIn(word, told['message'])
        status, told = self.refused({'cpu': f'{self.cores + 1}'}, {'cpu': f'{self.cores + 1}'})
        self.assertEqual(status, 400, told)
        self.assertIn('this host', told['message'])
        self.assertEqual(self.refused({'cpu': 1})[0], 422)


if __name__ == '__main__':
    unittest.main()
