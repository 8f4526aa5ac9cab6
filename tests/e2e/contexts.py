"""Code contexts of a sandbox, and what a run in one of them has told."""
import json
import time

import atoll
from harness import until

# A compiler's first run reads all of it from the disk.
START_SECONDS = 120 * atoll.SLOWNESS


def texts(events, kind='stdout'):
    return ''.join(e.get('text', '') for e in events if e['type'] == kind)


def error(events):
    return next((e['error'] for e in events if e['type'] == 'error'), None)


def result(events):
    return next((e['results'] for e in events if e['type'] == 'result'), None)


class Contexts:
    """For a TestCase that has a `box`, which is meant where no other is named."""

    def create(self, language='python', box=None, **members):
        box = box or self.box
        answer = box.call('POST', '/code/context', {'language': language, **members})
        self.assertEqual(answer.status, 200, answer.body)
        context = answer.json['id']
        self.addCleanup(box.call, 'DELETE', f'/code/contexts/{context}')
        return context

    def run_in(self, context, code, box=None):
        return (box or self.box).events('/code', {'code': code, 'context': {'id': context}})

    def interrupt(self, context, code, runs=None, seconds=15):
        """The events of a run that is interrupted when it has said "ready", or when `runs`; within `seconds` it ends."""
        response = self.box.open('POST', '/code', {'code': code, 'context': {'id': context}})
        seen, deadline = b'', time.monotonic() + START_SECONDS
        while not runs and b'ready' not in seen:
            part = response.read1(65536)
            self.assertTrue(part, seen)
            seen += part
            self.assertLess(time.monotonic(), deadline)
        if runs:
            until(runs, START_SECONDS, 'it runs')
        began = time.monotonic()
        self.assertEqual(self.box.call('DELETE', f'/code?id={context}').status, 200)
        seen += response.read()
        self.assertLess(time.monotonic() - began, seconds * atoll.SLOWNESS)
        return [json.loads(part) for part in seen.decode().split('\n\n') if part]
