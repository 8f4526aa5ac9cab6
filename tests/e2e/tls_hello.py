"""TLS ClientHellos as bytes (RFC 8446 section 4.1.2, RFC 6066 section 3), honest and otherwise.

A server that accepts one answers with TLS 1.2, whose certificate can be read from the wire."""
import struct

ALERT, HANDSHAKE = 21, 22
SERVER_NAME, ECH, ESNI = 0, 0xfe0d, 0xffce
CIPHERS = (0xc02b, 0xc02c, 0xc023, 0xc009, 0x00ff)  # ECDHE-ECDSA


def extension(kind, data):
    return struct.pack('>HH', kind, len(data)) + data


def server_names(*names, kind=0):
    """The extension; a name may be bytes."""
    entries = b''
    for name in names:
        data = name if isinstance(name, bytes) else name.encode()
        entries += struct.pack('>BH', kind, len(data)) + data
    return extension(SERVER_NAME, struct.pack('>H', len(entries)) + entries)


def outer_ech():
    """An encrypted ClientHello of the outer kind: to whom it goes can only be seen by the key's
    owner."""
    return extension(ECH, b'\0' + struct.pack('>HHB', 1, 1, 7) + struct.pack('>H', 32) +
                     bytes(range(32)) + struct.pack('>H', 144) + bytes(144))


def hello(*extensions, version=0x0303):
    """The handshake message."""
    more = b''.join((extension(10, struct.pack('>HHH', 4, 29, 23)),  # x25519, secp256r1
                     extension(11, b'\1\0'),
                     extension(13, struct.pack('>HHHH', 6, 0x0403, 0x0503, 0x0804)),
                     *extensions))
    body = (struct.pack('>H', version) + bytes(range(32)) + b'\0' +
            struct.pack(f'>H{len(CIPHERS)}H', 2 * len(CIPHERS), *CIPHERS) + b'\1\0' +
            struct.pack('>H', len(more)) + more)
    return b'\1' + struct.pack('>I', len(body))[1:] + body


def records(message, pieces=(), kind=HANDSHAKE, version=0x0301):
    """In records of these sizes, the last takes the rest."""
    data, at = b'', 0
    for size in (*pieces, len(message)):
        piece = message[at:at + size]
        at += size
        if piece:
            data += struct.pack('>BHH', kind, version, len(piece)) + piece
    return data


def client_hello(name=None, *extensions, pieces=()):
    """In records; without `name` no name is said."""
    return records(hello(*([server_names(name)] if name else []), *extensions), pieces)


def is_alert(data):
    return len(data) >= 7 and data[0] == ALERT
