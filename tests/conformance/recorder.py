"""Relays HTTP between a client and the daemon, byte for byte, and notes every exchange.

What a client claims to have done is one thing; what crossed the wire is what the feature table is
made of. The client is given this relay's address and does not notice: endpoints that the daemon
hands out carry the Host that the client asked.
"""
import select
import socket
import threading

LIMIT = 1 << 20  # of a head; the peers are a test's own


class Ended(Exception):
    """One of the two sides has closed."""


class Peer:
    """A socket with what was read of it too early."""

    def __init__(self, sock):
        self.sock, self.pending = sock, b''

    def more(self):
        data = self.sock.recv(65536)
        if not data:
            raise Ended
        self.pending += data

    def until(self, mark):
        """Everything up to and including `mark`."""
        while mark not in self.pending:
            if len(self.pending) > LIMIT:
                raise Ended
            self.more()
        found, _, self.pending = self.pending.partition(mark)
        return found + mark

    def take(self, most):
        """1 to `most` bytes."""
        if not self.pending:
            self.more()
        data, self.pending = self.pending[:most], self.pending[most:]
        return data

    def relay(self, length, to):
        while length:
            data = self.take(length)
            to.sendall(data)
            length -= len(data)

    def relay_chunks(self, to):
        while True:
            line = self.until(b'\r\n')
            to.sendall(line)
            size = int(line.split(b';')[0], 16)
            if size == 0:
                while line != b'\r\n':  # trailers, then the empty line
                    line = self.until(b'\r\n')
                    to.sendall(line)
                return
            self.relay(size + 2, to)


class WatchedPeer(Peer):
    """The daemon's side. A client that leaves while the daemon is silent must be noticed: leaving
    is how a client stops a stream."""

    def __init__(self, sock, client):
        super().__init__(sock)
        self.client = client
        self.body = None  # the thread that sends the request's

    def more(self):
        while True:
            # While the body is on its way, its thread is the one to see the client's end.
            sending = self.body is not None and self.body.is_alive()
            watched = [self.sock] if sending else [self.sock, self.client]
            ready, _, _ = select.select(watched, [], [], 0.1 if sending else None)
            if self.sock in ready:
                return super().more()
            if self.client in ready:  # it has ended, or asks on before it was answered
                raise Ended


def fields(head):
    """The head's first line, and its fields by name in lower case."""
    first, *lines = head.decode('latin-1').split('\r\n')
    return first, {name.strip().lower(): value.strip() for name, _, value in
                   (line.partition(':') for line in lines if line)}


def relay_body(source, named, to):
    """The body that follows a request's head."""
    if 'chunked' in named.get('transfer-encoding', '').lower():
        source.relay_chunks(to)
    else:
        source.relay(int(named.get('content-length', 0)), to)


class Recorder:
    """Listens on a port of its own until it is closed."""

    def __init__(self, host, port):
        self.daemon = (host, port)
        self.listener = socket.create_server(('127.0.0.1', 0), backlog=256)
        self.domain = f'127.0.0.1:{self.listener.getsockname()[1]}'
        self.exchanges, self.lock = [], threading.Lock()
        threading.Thread(target=self.accept, daemon=True).start()

    def take(self):
        """(method, target, status) of what was answered since the last call."""
        with self.lock:
            taken, self.exchanges = self.exchanges, []
        return taken

    def close(self):
        # A close alone does not wake the thread that accepts.
        self.listener.shutdown(socket.SHUT_RDWR)
        self.listener.close()

    def accept(self):
        while True:
            try:
                client, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(client,), daemon=True).start()

    def serve(self, client):
        try:
            with client, socket.create_connection(self.daemon) as daemon:
                for sock in (client, daemon):
                    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                asking, answering = Peer(client), WatchedPeer(daemon, client)
                while self.exchange(asking, answering):
                    pass
        except (Ended, OSError, ValueError):
            pass  # both sockets are closed, as an end-to-end connection would be

    def exchange(self, asking, answering):
        """One request and its answer; whether the connection goes on."""
        head = asking.until(b'\r\n\r\n')
        first, named = fields(head)
        method, target, _ = first.split(' ', 2)
        answering.sock.sendall(head)
        body = threading.Thread(target=self.send_body, args=(asking, named, answering.sock),
                                daemon=True)
        answering.body = body
        body.start()  # beside the answer, which may begin before the body ends
        status, head, told = self.answer_head(answering, asking.sock)
        with self.lock:  # before the client can see it
            self.exchanges.append((method, target, status))
        asking.sock.sendall(head)
        if status == 101:
            self.tunnel(asking, answering)
            return False
        if method != 'HEAD' and status not in (204, 304):
            if 'chunked' in told.get('transfer-encoding', '').lower():
                answering.relay_chunks(asking.sock)
            elif 'content-length' in told:
                answering.relay(int(told['content-length']), asking.sock)
            else:
                self.pump(answering, asking.sock)
        body.join()
        return 'close' not in (told.get('connection', '') + named.get('connection', '')).lower()

    @staticmethod
    def answer_head(answering, client):
        while True:
            head = answering.until(b'\r\n\r\n')
            first, named = fields(head)
            status = int(first.split(' ')[1])
            if status // 100 != 1 or status == 101:
                return status, head, named
            client.sendall(head)

    @staticmethod
    def send_body(asking, named, to):
        try:
            relay_body(asking, named, to)
        except (Ended, OSError, ValueError):
            # The daemon sees a cut body; its answer, or its end, ends the exchange.
            try:
                to.shutdown(socket.SHUT_WR)
            except OSError:
                pass

    @staticmethod
    def pump(source, to):
        try:
            while True:
                to.sendall(source.take(65536))
        except (Ended, OSError):
            pass
        try:
            to.shutdown(socket.SHUT_WR)
        except OSError:
            pass

    def tunnel(self, asking, answering):
        plain = Peer(answering.sock)
        plain.pending = answering.pending
        there = threading.Thread(target=self.pump, args=(asking, plain.sock), daemon=True)
        there.start()
        self.pump(plain, asking.sock)
        there.join()
