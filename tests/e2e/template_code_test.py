"""Templates with a kernel started ahead: the first context of a claim has it."""
import unittest

import atoll
from box import Box
from template_test import claim, filled, make

LIMITS = {'cpu': '2', 'memory': '1Gi'}


class TemplateCode(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('kernels'), 'kernels:latest')

    def claimed(self, language):
        template = make(self.daemon, 'kernels:latest', entrypoint=['sleep', '100000'], resourceLimits=LIMITS,
                        warmup={'kernel': language})['templateId']
        self.addCleanup(self.daemon.request, 'DELETE', f'/v1/templates/{template}')
        filled(self.daemon, template)
        box = Box.of(self.daemon, claim(self.daemon, template)['id'])
        self.addCleanup(self.daemon.delete, box.id)
        return box

    def run_in(self, box, code, **context):
        events = box.events('/code', {'code': code, 'context': context})
        self.assertEqual([event for event in events if event['type'] == 'error'], [])
        return ''.join(event['text'] for event in events if event['type'] == 'stdout').strip()

    def test_python(self):
        box = self.claimed('python')
        spare, = box.out('grep -lx kernel-spare /proc/[0-9]*/comm').split()
        self.assertEqual(box.call('GET', '/code/contexts').json, [])
        pid = self.run_in(box, 'import os; print(os.getpid())', language='python')
        self.assertEqual(pid, spare.split('/')[2])

    def test_bash(self):
        box = self.claimed('bash')
        context, = box.call('GET', '/code/contexts').json
        kernels = box.out('grep -l kernels/bash/kernel.py /proc/[0-9]*/cmdline').split()
        parent = self.run_in(box, 'echo $PPID', language='bash')
        self.assertIn(f'/proc/{parent}/cmdline', kernels)
        self.assertEqual(context['language'], 'bash')

    def test_too_little_memory_says_so(self):
        template = make(self.daemon, 'kernels:latest', entrypoint=['sleep', '100000'],
                        resourceLimits={'memory': '200Mi'}, warmup={'kernel': 'python'})['templateId']
        self.addCleanup(self.daemon.request, 'DELETE', f'/v1/templates/{template}')
        status = lambda: self.daemon.request('GET', f'/v1/templates/{template}')['status']
        atoll.until(lambda: status()['phase'] == 'Failed', 60 * atoll.SLOWNESS, 'it fails')
        self.assertIn('memory', status()['message'])


if __name__ == '__main__':
    unittest.main()
