"""tools/examples/agent as who has read its README runs it: an agent mends a repository, in an image of the daemon's."""
import subprocess

import atoll


def mends(test, daemon, image, agent):
    """What it has printed; the repository, asked by the example and not by the agent, is mended, and nothing left."""
    done = subprocess.run([atoll.BUILD / 'conformance/python/bin/python',
                           atoll.TOP / 'tools/examples/agent/agent.py', agent],
                          env=daemon.example_env(image),
                          stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
                          timeout=180 * atoll.SLOWNESS)
    test.assertEqual(done.returncode, 0, done.stdout)
    test.assertIn('it is the mean of the two in the middle now, and the tests pass', done.stdout)
    test.assertRegex(done.stdout, r'median\.py \| 2 \+-\n 1 file changed[^\n]*\n\.\.\n-+\nRan 2 tests[^\n]*\n\nOK\n$')
    test.assertEqual(daemon.request('GET', '/v1/sandboxes')['items'], [])
