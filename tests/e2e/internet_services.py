#!/usr/bin/python3
"""The other side of internet.py: a process in a network namespace of its own, which serves every
address of the fake internet and writes down whatever arrives. Commands are lines of JSON on
standard input, [name, arguments]; each is answered with one line."""
import base64
import ctypes
import http.server
import ipaddress
import json
import os
import pathlib
import select
import socket
import ssl
import struct
import subprocess
import sys
import threading

import dns_wire

CLONE_NEWNET = 0x40000000
ECHO_PORT = 7
PKTINFO = {socket.AF_INET: (socket.IPPROTO_IP, 8, 8), socket.AF_INET6: (socket.IPPROTO_IPV6, 49, 50)}
MAX_LOG = 200_000
# What is not served by name goes to the echo servers: any port of any address answers.
RULES = f"""
table inet internet {{
  chain prerouting {{
    type nat hook prerouting priority dstnat
    tcp dport {{ 53, 80, 443 }} accept
    udp dport 53 accept
    meta l4proto {{ tcp, udp }} redirect to :{ECHO_PORT}
  }}
}}
"""


class Log:
    """Lists by name, filled from many threads."""

    def __init__(self):
        self.lock = threading.Lock()
        self.lists = {'packets': [], 'questions': [], 'web': []}
        self.witness = True

    def add(self, name, entry):
        with self.lock:
            if len(self.lists[name]) < MAX_LOG:
                self.lists[name].append(entry)

    def read(self, name, since):
        with self.lock:
            return self.lists[name][since:]

    def clear(self):
        with self.lock:
            for entries in self.lists.values():
                entries.clear()


LOG = Log()
ZONES = {}


# ---- what arrives, whatever it is

def packet_entry(data):
    """Of one IP packet; None for what a link does by itself."""
    if data[0] >> 4 == 4:
        size, protocol = (data[0] & 15) * 4, data[9]
        fragment = struct.unpack_from('>H', data, 6)[0]
        source, destination = data[12:16], data[16:20]
        offset, more = fragment & 0x1fff, bool(fragment & 0x2000)
    else:
        size, protocol, offset, more = 40, data[6], 0, False
        source, destination = data[8:24], data[24:40]
        if protocol == 44:
            protocol, fragment = data[40], struct.unpack_from('>H', data, 42)[0]
            size, offset, more = 48, fragment >> 3, bool(fragment & 1)
        if protocol in (0, 58) and (data[24] == 0xff or data[7] == 255):
            return None  # multicast listeners, neighbours; what was routed here has fewer hops left
    payload, ports = data[size:], (0, 0)
    if protocol in (6, 17, 132) and offset == 0 and len(payload) >= 4:
        ports = struct.unpack_from('>HH', payload)
        skip = (payload[12] >> 4) * 4 if protocol == 6 and len(payload) > 12 else 8
        payload = payload[skip:]
    return {'protocol': protocol, 'source': str(ipaddress.ip_address(source)),
            'destination': str(ipaddress.ip_address(destination)), 'from_port': ports[0],
            'port': ports[1], 'fragment': bool(offset or more), 'payload': payload[:64].hex()}


class Watcher:
    """Of what arrives. A packet is in its socket before whoever it is for has it; so who asks what
    arrived has all of it taken out of the socket first."""

    def __init__(self):
        self.lock = threading.Lock()
        self.socket = socket.socket(socket.AF_PACKET, socket.SOCK_DGRAM, socket.htons(3))
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
        self.socket.bind(('eth0', 3))

    def run(self):
        while True:
            select.select([self.socket], [], [])
            self.drain()

    def drain(self):
        with self.lock:
            while True:
                try:
                    data, (_, protocol, direction, *_rest) = self.socket.recvfrom(
                        2048, socket.MSG_DONTWAIT)
                except BlockingIOError:
                    return
                if (direction != socket.PACKET_OUTGOING and LOG.witness
                        and protocol in (0x0800, 0x86dd)):
                    entry = packet_entry(data)
                    if entry:
                        LOG.add('packets', entry)


# ---- names

def zone_of(name):
    """The zone of a name, or of the nearest "*." above it."""
    if name in ZONES:
        return ZONES[name]
    while '.' in name:
        name = name.partition('.')[2]
        if '*.' + name in ZONES:
            return ZONES['*.' + name]
    return None


def resolve(name, kind, depth=0):
    """(rcode, records as bytes), following CNAMEs of zones that have them."""
    zone = zone_of(name.lower())
    if zone is None:
        return 3, []
    ttl = zone.get('ttl', 60)
    if zone.get('rcode'):
        return zone['rcode'], []
    if 'CNAME' in zone:
        records = [dns_wire.record(name, 'CNAME', ttl, zone['CNAME'])]
        rcode, more = resolve(zone['CNAME'], kind, depth + 1) if depth < 20 else (0, [])
        return (0 if depth == 0 and more else rcode), records + more
    values = zone.get(kind, [])
    if kind in zone.get('turns', {}):  # one list after the other, the last stays
        turns = zone['turns'][kind]
        values = turns.pop(0) if len(turns) > 1 else turns[0]
    return 0, [dns_wire.record(name, kind, ttl, value) for value in values]


def reply_to(data, transport, server):
    asked = dns_wire.Message(data)
    name, kind = asked.question
    LOG.add('questions', {'name': name, 'type': kind, 'transport': transport, 'server': server,
                          'edns': {code: value.hex() for code, value in asked.edns_options.items()},
                          'bytes': data.hex()})
    zone = zone_of(name.lower()) or {}
    if zone.get('silent'):
        return None
    rcode, records = resolve(name, kind)
    records += [dns_wire.record(owner, type_, 60, value)
                for owner, type_, value in zone.get('answer_more', [])]
    extra = [dns_wire.record(owner, type_, 60, value)
             for owner, type_, value in zone.get('additional', [])]
    authority = [] if records else [dns_wire.record(name, 'SOA', zone.get('negative_ttl', 30),
                                                    zone.get('negative_ttl', 30))]
    whole = dns_wire.answer(data, rcode, records, authority, extra=extra)
    limit = 1232 if asked.has_edns else 512
    if transport == 'udp' and (len(whole) > limit or zone.get('truncate')):
        return dns_wire.answer(data, rcode, truncated=True)
    return whole


def serve_dns_udp(server):
    family = server.family
    level, _, info = PKTINFO[family]
    while True:
        data, ancillary, _, peer = server.recvmsg(4096, 128)
        own = next(value for at, kind, value in ancillary if (at, kind) == (level, info))
        if family == socket.AF_INET:
            address, own = own[8:12], struct.pack('i', 0) + own[8:12] + own[8:12]
        else:
            address, own = own[:16], own[:16] + struct.pack('i', 0)
        try:
            reply = reply_to(data, 'udp', str(ipaddress.ip_address(address)))
        except (IndexError, struct.error, TypeError, ValueError):
            continue
        if reply:
            server.sendmsg([reply], [(level, info, own)], 0, peer)


def receive_exactly(peer, size):
    data = b''
    while len(data) < size:
        piece = peer.recv(size - len(data))
        if not piece:
            raise OSError('it has closed')
        data += piece
    return data


def serve_dns_tcp(peer):
    while True:
        data = receive_exactly(peer, struct.unpack('>H', receive_exactly(peer, 2))[0])
        reply = reply_to(data, 'tcp', _plain(peer.getsockname()[0]))
        if reply:
            peer.sendall(struct.pack('>H', len(reply)) + reply)


# ---- everything else

def serve_echo_udp(server):
    while True:
        data, peer = server.recvfrom(65536)
        server.sendto(data, peer)


def serve_echo_tcp(peer):
    while data := peer.recv(65536):
        peer.sendall(data)


def serve_tcp(server, serve):
    """One thread for each connection."""
    def one(peer):
        with peer:
            try:
                serve(peer)
            except (OSError, IndexError, struct.error, TypeError, ValueError):
                pass

    while True:
        peer, _ = server.accept()
        threading.Thread(target=one, args=(peer,), daemon=True).start()


# ---- web servers

def _plain(address):
    return address.partition('%')[0]


PAGES = {}  # path → type and content; every server has them


class Web(http.server.BaseHTTPRequestHandler):
    """Says who was asked for what; `/bytes/N` are so many bytes, `/mirror` has what
    came in its own header; Upgrade makes an echo of it."""
    protocol_version = 'HTTP/1.1'
    server_name, tls = None, False

    def log_message(self, *_):  # pylint: disable=arguments-differ
        pass

    def _chunks(self):
        """A body in chunks, as far as it came; trailers are dropped."""
        body = b''
        if self.headers.get('Transfer-Encoding'):
            while size := int(self.rfile.readline().split(b';')[0] or b'0', 16):
                body += self.rfile.read(size)
                self.rfile.readline()
            while self.rfile.readline().strip():
                pass
        return body

    def _answer(self):
        size = self.headers.get('Content-Length')
        body = self.rfile.read(int(size)) if size else self._chunks()
        entry = {'method': self.command, 'path': self.path, 'host': self.headers.get('Host'),
                 'address': _plain(self.connection.getsockname()[0]), 'tls': self.tls,
                 'sni': self.server_name, 'body': body[:4000].decode('latin-1'),
                 'headers': self.headers.items()}
        LOG.add('web', entry)
        if self.headers.get('Upgrade'):
            self.wfile.write(b'HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\n'
                             b'Upgrade: ' + self.headers['Upgrade'].encode() + b'\r\n\r\n')
            self.close_connection = True
            serve_echo_tcp(self.connection)
            return
        data = json.dumps(entry).encode()
        if self.path.startswith('/bytes/'):
            data = bytes(int(self.path[7:]))
        kind, data = PAGES.get(self.path, (None, data))
        self.send_response(200)
        if kind:
            self.send_header('Content-Type', kind)
        if self.path.startswith('/mirror'):
            for name, value in self.headers.items():
                self.send_header(f'X-Mirrored-{name}', value)
            self.send_header('X-Mirrored-Path', self.path)
        self.send_header('Content-Length', str(len(data)))
        self.end_headers()
        if self.command != 'HEAD':
            self.wfile.write(data)

    do_GET = do_POST = do_PUT = do_DELETE = do_HEAD = do_OPTIONS = do_CONNECT = _answer


class Certificates:
    """One for each name that was asked for with the command `certificate`; TLS needs one for those
    too that say no name."""

    def __init__(self, directory):
        self.directory = pathlib.Path(directory)
        self.contexts = {}
        self.default = self.make('unnamed.example')

    def make(self, name):
        file = self.directory / f'{name}.pem'
        subprocess.run(['openssl', 'req', '-x509', '-newkey', 'ec', '-pkeyopt',
                        'ec_paramgen_curve:prime256v1', '-nodes', '-days', '30', '-subj',
                        f'/CN={name}'[:60], '-addext', f'subjectAltName=DNS:{name}', '-keyout',
                        f'{file}.key', '-out', file], check=True, stderr=subprocess.DEVNULL)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(file, f'{file}.key')
        # Not the one that clients have a key for in their first hello: each sends a second one.
        context.set_ecdh_curve('prime256v1')
        context.sni_callback = self._choose
        self.contexts[name] = context
        return context

    def _choose(self, connection, name, _):
        connection.context = self.contexts.get((name or '').lower(), self.default)
        connection.server_name = name

    def serve(self, peer):
        peer.settimeout(30)
        with self.default.wrap_socket(peer, server_side=True) as secure:
            # The name of the handshake, and whether anybody came this far.
            handler = type('TlsWeb', (Web,), {'tls': True,
                                              'server_name': getattr(secure, 'server_name', None)})
            handler(secure, secure.getpeername(), None)


def serve_http(peer):
    Web(peer, peer.getpeername(), None)


# ---- set-up and commands

def ip(*arguments):
    subprocess.run(['ip', *arguments], check=True)


def bound(family, kind, port):
    """A socket that listens: whoever comes before its thread runs waits there."""
    server = socket.socket(family, kind)
    if family == socket.AF_INET6:
        server.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
    if kind == socket.SOCK_STREAM:
        server.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    else:
        server.setsockopt(*PKTINFO[family][:2], 1)
    server.bind(('', port))
    if kind == socket.SOCK_STREAM:
        server.listen(4096)
    return server


def set_up(options):
    """After the link has been moved here."""
    ip('link', 'set', 'lo', 'up')
    for address in options['own']:
        ip('address', 'add', address, 'dev', 'eth0', *(['nodad'] if ':' in address else []))
    ip('link', 'set', 'eth0', 'up')
    for prefix in options['prefixes']:
        # Every address of the prefix is an address of this host.
        ip(*(['-6'] if ':' in prefix else []), 'route', 'add', 'local', prefix, 'dev', 'lo')
    subprocess.run(['nft', '-f', '-'], input=RULES.encode(), check=True)
    certificates = Certificates(options['directory'])
    watcher = Watcher()
    starts = [(watcher.run,)]
    for family in (socket.AF_INET, socket.AF_INET6):
        starts += [(serve, bound(family, socket.SOCK_DGRAM, port))
                   for serve, port in ((serve_dns_udp, 53), (serve_echo_udp, ECHO_PORT))]
        starts += [(serve_tcp, bound(family, socket.SOCK_STREAM, port), serve)
                   for port, serve in ((53, serve_dns_tcp), (80, serve_http),
                                       (443, certificates.serve), (ECHO_PORT, serve_echo_tcp))]
    for function, *arguments in starts:
        threading.Thread(target=function, args=arguments, daemon=True).start()
    return certificates, watcher


def raw_packet(destination, packet):
    """An IP packet as it is, from wherever it says."""
    family = socket.AF_INET6 if ':' in destination else socket.AF_INET
    with socket.socket(family, socket.SOCK_RAW, socket.IPPROTO_RAW) as sender:
        sender.sendto(bytes.fromhex(packet), (destination, 0))


def strike(destination, port, from_address, from_port, times):
    """Opens connections to somebody who did not ask, again and again: how many came about."""
    family = socket.AF_INET6 if ':' in destination else socket.AF_INET
    reached = 0
    for _ in range(times):
        with socket.socket(family, socket.SOCK_STREAM) as striker:
            striker.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            # Not in the socket module: IP_FREEBIND, IPV6_FREEBIND.
            striker.setsockopt(*((socket.IPPROTO_IPV6, 78, 1) if ':' in destination else
                                 (socket.IPPROTO_IP, 15, 1)))
            striker.bind((from_address, from_port))
            striker.settimeout(0.02)
            try:
                striker.connect((destination, port))
                reached += 1
            except OSError:
                pass
    return reached


class Commands:
    """Each method is a command."""
    certificates = watcher = None

    def set_up(self, options):
        self.certificates, self.watcher = set_up(options)

    def zone(self, name, zone):
        ZONES[name] = zone

    def certificate(self, name):
        if name not in self.certificates.contexts:
            self.certificates.make(name)
        return (self.certificates.directory / f'{name}.pem').read_text(encoding='ascii')

    def page(self, path, kind, data):
        PAGES[path] = kind, base64.b64decode(data)

    def read(self, name, since):
        self.watcher.drain()
        return LOG.read(name, since)

    def clear(self):
        self.watcher.drain()
        LOG.clear()

    def witness(self, on):
        self.watcher.drain()
        LOG.witness = on

    def raw_packet(self, destination, packet):
        raw_packet(destination, packet)

    def strike(self, *arguments):
        return strike(*arguments)

    def route(self, prefix, gateway):
        ip(*(['-6'] if ':' in prefix else []), 'route', 'replace', prefix, 'via', gateway)


def main():
    if ctypes.CDLL(None, use_errno=True).unshare(CLONE_NEWNET) != 0:
        raise OSError(ctypes.get_errno(), 'unshare')
    commands = Commands()
    print('null', flush=True)
    for line in sys.stdin:
        name, arguments = json.loads(line)
        try:
            result = {'ok': getattr(commands, name)(*arguments)}
        except (OSError, subprocess.CalledProcessError) as error:
            result = {'error': str(error)}
        print(json.dumps(result), flush=True)
    os._exit(0)  # its threads wait for strangers


if __name__ == '__main__':
    main()
