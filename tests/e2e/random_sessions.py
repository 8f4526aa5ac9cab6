"""What the random test does with isolated sessions: made, used, listed and ended, beside all that becomes of their
sandbox. The model has what each has in its shell and in its file; both end with it, and with its sandbox's processes:
a rollback ends sessions, a copy has none, a pause and the death of daemon or spawner do not touch them."""
import json

from atoll import SLOWNESS, until

SESSIONS = 3  # of a sandbox
PATH = '/v1/isolated/session'
KINDS = [{'workspace': {'path': '/w', 'mode': 'rw'}}, {'workspace': {'path': '/w', 'mode': 'overlay'}},
         {'overlays': [{'path': '/w', 'mode': 'overlay', 'persist': False}]}]


class Sessions:
    def session_moves(self):
        return [(10, self.make_session), (3, self.make_session_amid_upgrade), (10, self.use_session),
                (3, self.end_session)]

    def ask_execd(self, box, method, path, body=None):
        """(status, text)"""
        answer = self.daemon.send(method, f'/sandboxes/{box}/proxy/44772{path}', body)
        return answer.status, answer.read().decode()

    def box_of_sessions(self, fitting=lambda model: True):
        """One whose execd can be asked."""
        open_to_all = [box for box, model in self.boxes.items() if model.state == 'Running' and fitting(model)
                       and not self.secure(box)]
        if not open_to_all:
            return None, None
        box = self.random.choice(open_to_all)
        self.note(box[:8], *(session[:8] for session in self.boxes[box].sessions))
        return box, self.boxes[box]

    def try_session(self, box, statuses=(503,)):
        """A session that was acknowledged; None if it was refused as it should be."""
        status, text = self.ask_execd(box, 'POST', PATH, self.random.choice(KINDS))
        if status != 201:
            self.assertIn(status, statuses, text)
            self.note(status)
            return None
        session = json.loads(text)['session_id']
        self.note('made', session[:8])
        self.boxes[box].sessions[session] = str(self.random.randrange(10**9))
        return session

    def write_in(self, box, session):
        marker = self.boxes[box].sessions[session]
        said = self.run_in(box, session, f'export kept={marker}; echo {marker} >/w/of-{marker}; echo done')
        self.assertEqual(said, 'done', session)

    def run_in(self, box, session, code):
        status, text = self.ask_execd(box, 'POST', f'{PATH}/{session}/run', {'code': code})
        self.assertEqual(status, 200, text)
        events = [json.loads(line) for line in text.splitlines() if line]
        self.assertEqual(events[-1]['type'], 'execution_complete', events)
        return '\n'.join(event['text'] for event in events if event['type'] == 'stdout')

    def make_session(self):
        box, model = self.box_of_sessions()
        if box and len(model.sessions) < SESSIONS:
            self.write_in(box, until(lambda: self.try_session(box), 20 * SLOWNESS, f'a session of {box}'))

    def make_session_amid_upgrade(self):
        """Whatever is acknowledged lives on."""
        box, model = self.box_of_sessions()
        if not box or len(model.sessions) >= SESSIONS:
            return
        self.upgrade_spawner()
        self.wait_at_most(0.02)
        session = self.try_session(box)
        if session:
            self.write_in(box, session)
            until(self.daemon.healthy, 20 * SLOWNESS, 'the daemon has the new spawner')
            self.look_at_sessions(box)

    def use_session(self):
        box, _ = self.box_of_sessions(lambda model: model.sessions)
        if box:
            self.look_at_sessions(box)

    def look_at_sessions(self, box):
        sessions = self.boxes[box].sessions
        status, text = self.ask_execd(box, 'GET', '/v1/isolated/sessions')
        self.assertEqual(status, 200, text)
        self.assertEqual({each['session_id']: each['status'] for each in json.loads(text)['sessions']},
                         dict.fromkeys(sessions, 'active'), box)
        for session, marker in sessions.items():
            self.assertEqual(self.run_in(box, session, f'echo $kept; cat /w/of-{marker}'), f'{marker}\n{marker}',
                             session)

    def end_session(self):
        box, model = self.box_of_sessions(lambda model: model.sessions)
        if not box:
            return
        session = self.random.choice(list(model.sessions))
        self.note('end', session[:8])
        del model.sessions[session]

        def ended():
            status, text = self.ask_execd(box, 'DELETE', f'{PATH}/{session}')
            self.assertIn(status, (200, 404, 503), text)
            return status != 503
        until(ended, 20 * SLOWNESS, f'{session} has ended')
        self.look_at_sessions(box)
