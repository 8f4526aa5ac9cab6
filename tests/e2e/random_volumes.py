"""What the random test does with named volumes. The model has each volume, the sandbox that it goes with, if
any, and what is written in it."""
from atoll import SLOWNESS, ApiError, until

VOLUMES = 4


class VolumeModel:
    def __init__(self, owner=None):
        self.owner = owner
        self.marker = None


class Volumes:
    def setUp(self):
        super().setUp()
        self.volumes = {}
        # A volume whose last user but its owner may still be on its way out when the owner goes stays or goes.
        self.doubtful = set()
        self.left = set()  # volumes that some sandbox has left since all was last seen to agree

    def volume_moves(self):
        return [(3, self.use_volume), (2, self.make_volume), (3, self.remove_volume)]

    def volume_fields(self):
        return [{'name': 'v', 'mountPath': '/v', 'pvc': {
            'claimName': self.random_volume(), 'deleteOnSandboxTermination': self.random.random() < 0.5}}]

    def random_volume(self):
        return f'v{self.random.randrange(VOLUMES)}'

    def users(self, name):
        return [box for box, model in self.boxes.items() if name in model.volumes]

    def acquired(self, box, volumes):
        """A create of `box` with these was acknowledged."""
        for claim in (volume['pvc'] for volume in volumes if 'pvc' in volume):
            name = claim['claimName']
            self.settle(name)
            if name not in self.volumes:
                self.volumes[name] = VolumeModel(box if claim['deleteOnSandboxTermination'] else None)

    def settle(self, name):
        """A create that was acknowledged has found a doubtful volume, or has made it: nobody knows which."""
        if name in self.doubtful:
            self.doubtful.discard(name)
            told = {item['name']: item for item in self.request('GET', '/v1/volumes')['items']}
            if name in told and not told[name]['deleteOnSandboxTermination']:
                self.volumes[name] = VolumeModel()
                self.volumes[name].marker = ...  # whatever is in it

    def released(self, box, names):
        """`box`, which had these, is gone from `boxes`."""
        for name in names:
            volume = self.volumes[name]
            if volume.owner == box:
                volume.owner = None
                if not self.users(name):
                    del self.volumes[name]
                    if name in self.left:
                        self.doubtful.add(name)
            self.left.add(name)

    def check_volumes(self):
        def told():
            names = {item['name'] for item in self.request('GET', '/v1/volumes')['items']}
            return names - self.doubtful == set(self.volumes) - self.doubtful
        until(told, 20 * SLOWNESS, f'the volumes are {sorted(self.volumes)}, but for {sorted(self.doubtful)}')

    def volumes_agree(self):
        """All that was left has been let go."""
        told = {item['name'] for item in self.request('GET', '/v1/volumes')['items']}
        for name in self.doubtful & told:
            self.volumes[name] = VolumeModel()
            self.volumes[name].marker = ...
        self.doubtful.clear()
        self.left.clear()
        self.assertEqual(told, set(self.volumes))

    # ---- the moves

    def use_volume(self):
        box, model = self.any_box('Running')
        if not box or self.secure(box) or not model.volumes:
            return
        for name in model.volumes:
            volume = self.volumes[name]
            said = self.daemon.run(box, 'cat /v/*').stdout
            if volume.marker is not ...:
                self.assertEqual(said, volume.marker or '', name)
            volume.marker = str(self.random.randrange(10**9))
            self.daemon.run(box, f'echo {volume.marker} >/v/marker')

    def make_volume(self):
        name = self.random_volume()
        self.note(name)
        if name in self.doubtful:
            return
        if name in self.volumes:
            self.assertEqual(self.refused('POST', '/v1/volumes', {'name': name}), 409)
        else:
            self.persistently('POST', '/v1/volumes', {'name': name})
            self.volumes[name] = VolumeModel()

    def remove_volume(self):
        name = self.random_volume()
        self.note(name)
        if name in self.doubtful:
            return
        path = f'/v1/volumes/{name}'
        if name not in self.volumes:
            self.assertEqual(self.refused('DELETE', path), 404)
        elif self.users(name):
            self.assertEqual(self.refused('DELETE', path), 409)
        else:
            self.request('DELETE', path)
            del self.volumes[name]

    def remove_volumes(self):
        for item in self.request('GET', '/v1/volumes')['items']:
            try:
                self.request('DELETE', f'/v1/volumes/{item["name"]}')
            except ApiError as error:  # it has just gone with its sandbox
                self.assertEqual(error.status, 404)
