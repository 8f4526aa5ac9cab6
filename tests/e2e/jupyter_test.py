"""An image as OpenSandbox's own code interpreter has it: JUPYTER_HOST and a token in its environment, and
an entrypoint that registers kernels and starts a Jupyter server, here PyPI's (jupyter.toml)."""
import json
import threading
import unittest

import atoll
from box import Box
from harness import until

TOKEN = 'opensandboxcodeinterpreterjupyter'


class Jupyter(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        recipe = atoll.TOP / 'tests/e2e/jupyter.toml'
        cls.daemon.import_image(atoll.image_archive(recipe), 'jupyter:1')

    def box(self, **env):
        return Box(self.daemon, 'jupyter:1', env=env, resourceLimits={'cpu': '2', 'memory': '2Gi'},
                   entrypoint=['/opt/code-interpreter/code-interpreter.sh'])

    def asked(self, box, path, token):
        """What the image's server answers, from within."""
        code = ('import sys, urllib.request as r, urllib.error as e\n'
                f'q = r.Request("http://127.0.0.1:44771{path}", headers={{"Authorization": "token {token}"}})\n'
                'try: sys.stdout.write(r.urlopen(q, timeout=5).read().decode())\n'
                'except e.HTTPError as error: print(error.code)\n'
                'except OSError: print("not yet")\n')
        return box.out(f"python3 - <<'END'\n{code}END")

    def test_it_works_as_it_is(self):
        """A context waits for the set-up, keeps its state, and is beside the image's own server."""
        box = self.box(HOLD='/tmp/go')
        answers = []
        thread = threading.Thread(target=lambda: answers.append(
            box.call('POST', '/code/context', {'language': 'python'})))
        thread.start()
        self.addCleanup(thread.join)
        until(lambda: box.call('GET', '/code/contexts?language=python').json, 20 * atoll.SLOWNESS,
              'the context waits')
        self.assertEqual(answers, [])
        box.out('touch /tmp/go')
        thread.join()
        self.assertEqual(answers[0].status, 200, answers[0].body)
        context = {'id': answers[0].json['id']}
        box.events('/code', {'code': 'import numpy; kept = numpy.arange(4).sum()', 'context': context})
        events = box.events('/code', {'code': 'kept', 'context': context})
        self.assertEqual([e['results']['text'] for e in events if e['type'] == 'result'],
                         ['np.int64(6)'])

        # What released clients ask before they take a code interpreter for ready.
        box.out("bash -c 'until exec 3<>/dev/tcp/127.0.0.1/${JUPYTER_PORT:-44771}; do sleep 0.1; done'")
        until(lambda: self.asked(box, '/api/kernelspecs', TOKEN) != 'not yet', 60 * atoll.SLOWNESS,
              'the server answers')
        specs = json.loads(self.asked(box, '/api/kernelspecs', TOKEN))['kernelspecs']
        self.assertIn('python', specs)
        self.assertEqual(self.asked(box, '/api/kernelspecs', 'wrong'), '403')
        self.daemon.delete(box.id)

    def test_runs_without_a_context(self):
        """As clients send them: {"language": "python"}, at once."""
        box = self.box()
        events = box.events('/code', {'code': '6 * 7', 'context': {'language': 'python'}})
        self.assertEqual([e['results']['text'] for e in events if e['type'] == 'result'], ['42'])
        self.daemon.delete(box.id)


if __name__ == '__main__':
    unittest.main()
