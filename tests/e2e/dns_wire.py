"""DNS messages as bytes (RFC 1035, 6891), for tests that ask and for the name server of the fake
internet. Trusts what it reads: the parser under test is the daemon's."""
import ipaddress
import struct

TYPES = {'A': 1, 'NS': 2, 'CNAME': 5, 'SOA': 6, 'NULL': 10, 'PTR': 12, 'MX': 15, 'TXT': 16,
         'AAAA': 28, 'SRV': 33, 'OPT': 41, 'SVCB': 64, 'HTTPS': 65, 'AXFR': 252, 'ANY': 255}
NAMES = {number: name for name, number in TYPES.items()}
RCODES = {0: 'NOERROR', 1: 'FORMERR', 2: 'SERVFAIL', 3: 'NXDOMAIN', 4: 'NOTIMP', 5: 'REFUSED'}
OWN_ID = 0x4154


def pack_name(name):
    labels = [label for label in name.rstrip('.').split('.') if label]
    return b''.join(bytes([len(label)]) + label.encode('latin-1') for label in labels) + b'\0'


def unpack_name(message, at):
    """(name, where the next field is)."""
    labels, after = [], None
    while message[at]:
        if message[at] >= 0xc0:
            after = after or at + 2
            at = struct.unpack_from('>H', message, at)[0] & 0x3fff
        else:
            labels.append(message[at + 1:at + 1 + message[at]].decode('latin-1'))
            at += 1 + message[at]
    return '.'.join(labels), after or at + 1


def query(name, kind='A', options=None, dnssec=False, identity=OWN_ID, recurse=True, edns=None):
    """`options`: {code: bytes} of EDNS; `edns`: size to say even without options."""
    number = TYPES.get(kind, kind)
    extra = b''
    if options or dnssec or edns:
        data = b''.join(struct.pack('>HH', code, len(value)) + value
                        for code, value in (options or {}).items())
        extra = b'\0' + struct.pack('>HHIH', TYPES['OPT'], edns or 1232, 0x8000 if dnssec else 0,
                                    len(data)) + data
    head = struct.pack('>6H', identity, 0x0100 if recurse else 0, 1, 0, 0, 1 if extra else 0)
    return head + pack_name(name) + struct.pack('>HH', number, 1) + extra


def record(name, kind, ttl, value):
    """`value` as text: an address, a name, or the text of TXT; of SOA the negative TTL."""
    if kind in ('A', 'AAAA'):
        data = ipaddress.ip_address(value).packed
    elif kind in ('CNAME', 'NS', 'PTR'):
        data = pack_name(value)
    elif kind == 'SOA':
        data = pack_name('ns.example') + pack_name('admin.example') + struct.pack(
            '>5I', 1, 3600, 600, 86400, int(value))
    else:
        text = value.encode('latin-1')
        data = b''.join(bytes([len(text[i:i + 255])]) + text[i:i + 255]
                        for i in range(0, len(text) or 1, 255))
    return pack_name(name) + struct.pack('>HHIH', TYPES[kind], 1, ttl, len(data)) + data


class Message:
    """Of a question or an answer: rcode, truncated, question (name, type), and `answers`,
    `authority`, `additional` as (name, type, ttl, value)."""

    def __init__(self, data):
        (self.identity, flags, questions, *counts) = struct.unpack_from('>6H', data)
        self.rcode = RCODES.get(flags & 15, flags & 15)
        self.truncated = bool(flags & 0x0200)
        self.is_answer = bool(flags & 0x8000)
        self.question, self.edns_options, self.has_edns = None, {}, False
        at = 12
        for _ in range(questions):
            name, at = unpack_name(data, at)
            kind = struct.unpack_from('>H', data, at)[0]
            self.question = (name, NAMES.get(kind, kind))
            at += 4
        sections = []
        for count in counts:
            records = []
            for _ in range(count):
                at = self._record(data, at, records)
            sections.append(records)
        self.answers, self.authority, self.additional = sections

    def _record(self, data, at, records):
        name, at = unpack_name(data, at)
        kind, _, ttl, size = struct.unpack_from('>HHIH', data, at)
        at += 10
        kind = NAMES.get(kind, kind)
        body = data[at:at + size]
        if kind == 'OPT':
            self.has_edns = True
            while body:
                code, length = struct.unpack_from('>HH', body)
                self.edns_options[code] = body[4:4 + length]
                body = body[4 + length:]
        elif kind in ('A', 'AAAA'):
            records.append((name, kind, ttl, str(ipaddress.ip_address(body))))
        elif kind in ('CNAME', 'NS', 'PTR'):
            records.append((name, kind, ttl, unpack_name(data, at)[0]))
        else:
            records.append((name, kind, ttl, body))
        return at + size

    def addresses(self):
        return sorted(value for _, kind, _, value in self.answers if kind in ('A', 'AAAA'))


def answer(question, rcode, answers=(), authority=(), truncated=False, extra=()):
    """The answer to the bytes `question`; records as bytes."""
    flags = 0x8180 | (0x0200 if truncated else 0) | rcode
    end = unpack_name(question, 12)[1] + 4
    return (question[:2] + struct.pack('>5H', flags, 1, len(answers), len(authority), len(extra)) +
            question[12:end] + b''.join((*answers, *authority, *extra)))
