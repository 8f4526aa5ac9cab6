"""What the random test does with names that are one sandbox's alone, and with Idempotency-Keys: a request that
is repeated gets the same answer, however often, whoever has died in between."""
NAMES = ['web', 'db', 'queue']
KEYED = 12  # requests that are remembered, to be repeated


class Keyed:
    """A request that was carried out: what repeats it, and whom it has made or made anew."""

    def __init__(self, request, boxes):
        self.request = request
        self.boxes = boxes


class Keys:
    def setUp(self):
        super().setUp()
        self.keys = 0
        self.keyed = []

    def key_moves(self):
        return [(8, self.create_named), (3, self.create_with_key), (2, self.fork_with_key),
                (2, self.roll_back_with_key), (4, self.repeat)]

    def new_key(self):
        self.keys += 1
        return {'Idempotency-Key': f'random-{self.keys}'}

    def name_taken_by(self, name):
        """A sandbox that has ended has given its name up."""
        return [box for box, model in self.boxes.items()
                if model.metadata.get('name') == name and model.state in ('Running', 'Paused')]

    def named_fields(self):
        fields = self.fields()
        fields['metadata']['name'] = self.random.choice(NAMES)
        fields.setdefault('extensions', {})['uniqueName'] = 'true'
        return fields

    def create_named(self):
        """A name is free again as soon as the delete of the one that had it is answered."""
        fields = self.named_fields()
        holders = self.name_taken_by(fields['metadata']['name'])
        self.note(fields['metadata']['name'], *(holder[:8] for holder in holders))
        if holders and self.random.random() < 0.5:
            self.assertEqual(self.refused('POST', '/v1/sandboxes', fields), 409)
            return
        for holder in holders:
            self.delete_box(holder)
        if not self.is_full():
            self.adopt(self.persistently('POST', '/v1/sandboxes', fields), fields)

    def remember(self, request, boxes):
        self.keyed.append(Keyed(request, boxes))
        del self.keyed[:-KEYED]

    def create_with_key(self):
        if self.is_full():
            return self.delete()
        fields, key = self.fields(), self.new_key()
        request = ('POST', '/v1/sandboxes', fields, key)
        told = self.persistently(*request)
        self.adopt(told, fields)
        self.remember(request, [told['id']])
        other = ('POST', '/v1/sandboxes', {**fields, 'env': {'OTHER': 'yes'}}, key)
        self.assertEqual(self.refused(*other), 409)

    def fork_with_key(self):
        box, model = self.any_box('Running', 'Paused')
        if not box or self.is_full(2):
            return
        request = ('POST', f'/v1/sandboxes/{box}/fork', {'count': 2}, self.new_key())
        told = self.persistently(*request)['items']
        for item in told:
            self.adopt_child(item, model)
        self.remember(request, [item['id'] for item in told])

    def roll_back_with_key(self):
        box, _ = self.any_box('Running', 'Paused')
        snapshot = self.any_snapshot()
        if not box or not snapshot:
            return
        request = ('POST', f'/v1/sandboxes/{box}/rollback', {'snapshotId': snapshot}, self.new_key())
        self.persistently(*request)
        self.rolled_back(box, snapshot)
        self.remember(request, [box])

    def repeat(self):
        """None is carried out again; of one of which nothing is left that is said."""
        if not self.keyed:
            return
        keyed = self.random.choice(self.keyed)
        method, path, body, headers = keyed.request
        there = {box for box in keyed.boxes if box in self.boxes}
        self.note(path, headers['Idempotency-Key'], f'{len(there)} of {len(keyed.boxes)} are there')
        words = path.split('/')
        if len(words) > 4:  # of a fork, or a rollback
            source = self.boxes.get(words[3])
            if source is None or source.state not in ('Running', 'Paused'):
                return
        if 'snapshotId' in body and body['snapshotId'] not in self.snapshots:
            return
        if not there:
            self.assertEqual(self.refused(method, path, body, headers), 409)
            return
        told = self.request(method, path, body, headers)
        self.assertEqual({item['id'] for item in told.get('items', [told])}, there)
        if path.endswith('/rollback'):
            self.look(keyed.boxes[0])
