"""A VNC client, as small as will do: looks at the screen."""
import struct
import zlib


class Screen:
    """`exactly(n)` reads and `send(bytes)` writes the stream of one connection."""

    def __init__(self, exactly, send):
        self.exactly, self.send = exactly, send
        send(exactly(12))  # the server's own version
        self.security = list(exactly(exactly(1)[0]))  # 1: none, 2: a password
        self.width = self.height = 0

    def enter(self):
        """Where no password is asked."""
        assert 1 in self.security, self.security
        self.send(b'\1')
        assert self.exactly(4) == bytes(4)
        self.send(b'\1')  # others may look, too
        self.width, self.height = struct.unpack('>HH', self.exactly(4))
        self.exactly(16)
        self.exactly(struct.unpack('>I', self.exactly(4))[0])
        # 32 bits a pixel: blue, green, red, unused. Raw alone.
        self.send(struct.pack('>B3xBBBBHHHBBB3x', 0, 32, 24, 0, 1, 255, 255, 255, 16, 8, 0))
        self.send(struct.pack('>BxHi', 2, 1, 0))
        return self

    def pixels(self, left=0, top=0, wide=None, high=None):
        """All of the screen as it is now, or a part of it: four bytes a pixel, row after row."""
        wide, high = wide or self.width, high or self.height
        self.send(struct.pack('>BBHHHH', 3, 0, left, top, wide, high))
        screen, missing = bytearray(4 * wide * high), wide * high
        while missing > 0:
            kind = self.exactly(1)[0]
            if kind == 2:  # a bell
                continue
            if kind == 3:  # what was cut
                self.exactly(struct.unpack('>3xI', self.exactly(7))[0])
                continue
            assert kind == 0, kind
            for _ in range(struct.unpack('>xH', self.exactly(3))[0]):
                x, y, width, height, encoding = struct.unpack('>HHHHi', self.exactly(12))
                assert encoding == 0, encoding
                for row in range(y - top, y - top + height):
                    at = 4 * (row * wide + x - left)
                    screen[at:at + 4 * width] = self.exactly(4 * width)
                missing -= width * height
        return bytes(screen)

    def png(self):
        """A picture of it as it is now, for people."""
        screen, width = self.pixels(), 4 * self.width
        rows = [screen[at:at + width] for at in range(0, len(screen), width)]
        rows = b''.join(b'\0' + bytes(row[at + colour] for at in range(0, width, 4) for colour in (2, 1, 0))
                        for row in rows)
        chunks = ((b'IHDR', struct.pack('>IIBBBBB', self.width, self.height, 8, 2, 0, 0, 0)),
                  (b'IDAT', zlib.compress(rows, 9)), (b'IEND', b''))
        return b'\x89PNG\r\n\x1a\n' + b''.join(
            struct.pack('>I', len(data)) + kind + data + struct.pack('>I', zlib.crc32(kind + data))
            for kind, data in chunks)

    def share(self, blue, green, red):
        """How much of the screen has just this colour, from 0 to 1."""
        screen = self.pixels()
        wanted = bytes([blue, green, red])
        return sum(screen[at:at + 3] == wanted for at in range(0, len(screen), 4)) * 4 / len(screen)

    def colours(self, *part):
        """The set of them: one at first, many once something is drawn."""
        screen = self.pixels(*part)
        return {screen[at:at + 3] for at in range(0, len(screen), 4)}


def over_socket(one):
    """A screen behind a plain connection."""
    stream = one.makefile('rb')
    return Screen(stream.read, one.sendall)


def over_websocket(one):
    """A screen behind noVNC's WebSocket."""
    rest = bytearray()

    def exactly(size):
        while len(rest) < size:
            opcode, data = one.frame()
            if opcode == 8:
                raise EOFError(data)
            if opcode == 2:
                rest.extend(data)
        out = bytes(rest[:size])
        del rest[:size]
        return out

    return Screen(exactly, lambda data: one.send(2, data))
