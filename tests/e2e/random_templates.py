"""What the random test does with a template's sandboxes, which stand ready and are claimed."""
import atoll
from atoll import SLOWNESS, until

PATIENCE = 60 * SLOWNESS


class Templates:
    def template_moves(self):
        return [(4, self.claim_of_template)]

    def make_template(self, entrypoint):
        self.template = self.request('POST', '/v1/templates', {
            'image': self.image, 'entrypoint': entrypoint, 'readiness': {'probe': 'cmd://test -p /tmp/end'},
            'warmup': {'command': ['sh', '-c', 'echo warm >/marker']}})['templateId']
        until(lambda: self.request('GET', f'/v1/templates/{self.template}')['status']['ready'], PATIENCE,
              'the first member is ready')

    def claim_fields(self):
        metadata = self.fields()['metadata']
        return {'templateId': self.template, 'timeout': self.random.choice([3600, 86400]), 'metadata': metadata}

    def claimed(self, *request):
        """A member that was being made when a process died is made again, with pauses."""
        def told():
            try:
                return self.request(*request)
            except atoll.ApiError as error:
                if error.status not in (429, 503):
                    raise
                return None
        return until(told, PATIENCE, 'a claim')

    def adopt_claimed(self, told, fields):
        self.note(told['id'][:8])
        self.adopt(told, fields)
        model = self.boxes[told['id']]
        # The spawner that has made it may have died meanwhile.
        model.adopted, model.marker = None, 'warm'
        self.look(told['id'])

    def claim_of_template(self):
        if not self.is_full():
            fields = self.claim_fields()
            self.adopt_claimed(self.claimed('POST', '/v1/sandboxes', fields), fields)

    def cut_off_claim(self):
        """The daemon dies somewhere in a claim; the repeated request has one sandbox, not two."""
        if self.is_full():
            return
        fields = self.claim_fields()
        request = ('POST', '/v1/sandboxes', fields, self.new_key())
        self.cut_off(lambda: self.request(*request), 0.006)
        told = self.claimed(*request)
        self.assertEqual(self.request(*request)['id'], told['id'])
        self.adopt_claimed(told, fields)
        self.remember(request, [told['id']])
