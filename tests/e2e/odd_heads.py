"""Requests that known readers of HTTP judge differently, and the one verdict on each: the daemon's,
execd's and the splice proxy's, which read with the same grammar.

Each is a message in full. {path}, {host} and {lines} (further lines of the head) are whatever the
reader serves. The verdict shows on the next request of the same connection: it is answered, or
nothing behind the odd message is read.
"""

START = 'POST {path} HTTP/1.1\r\nHost: {host}\r\n{lines}'
CHUNKED = START + 'Transfer-Encoding: chunked\r\n\r\n'
END = 'Content-Length: 1\r\n\r\nx'

REFUSED = {
    # fields
    'folded with a blank': START + 'X: a\r\n b\r\n' + END,
    'folded with a tab': START + 'X: a\r\n\tb\r\n' + END,
    'folded first line': 'POST {path} HTTP/1.1\r\n X: a\r\nHost: {host}\r\n{lines}' + END,
    'blank before the colon': START + 'Transfer-Encoding : chunked\r\n\r\n0\r\n\r\n',
    'blank in a name': START + 'X Y: 1\r\n' + END,
    'no name': START + ': 1\r\n' + END,
    'no colon': START + 'X\r\n' + END,
    'name that is no token': START + 'X(Y): 1\r\n' + END,
    'name above ASCII': START + 'X\xe4: 1\r\n' + END,
    'CR within a value': START + 'X: a\rY: b\r\n' + END,
    'LF ends a line': START + 'X: a\nY: b\r\n' + END,
    'LF ends all lines': (START + END).replace('\r\n', '\n'),
    'NUL within a value': START + 'X: a\0b\r\n' + END,
    'DEL within a value': START + 'X: a\x7f\r\n' + END,
    'too many fields': START + 'X: y\r\n' * 257 + END,
    # where the body ends
    'two equal lengths': START + 'Content-Length: 1\r\n' + END,
    'two lengths': START + 'Content-Length: 0\r\n' + END,
    'list of lengths': START + 'Content-Length: 1, 1\r\n\r\nx',
    'length with a sign': START + 'Content-Length: +1\r\n\r\nx',
    'hexadecimal length': START + 'Content-Length: 0x1\r\n\r\nx',
    'empty length': START + 'Content-Length:\r\n\r\n',
    'length beyond 64 bits': START + 'Content-Length: 18446744073709551617\r\n\r\n',
    'length before chunked': START + 'Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'length behind chunked': START + 'Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n',
    'gzip': START + 'Transfer-Encoding: gzip\r\n\r\n0\r\n\r\n',
    'gzip, then chunked': START + 'Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n',
    'chunked, then identity': START + 'Transfer-Encoding: chunked, identity\r\n\r\n0\r\n\r\n',
    'identity': START + 'Transfer-Encoding: identity\r\n' + END,
    'chunked twice': START + 'Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n',
    'chunked and an empty element': START + 'Transfer-Encoding: chunked,\r\n\r\n0\r\n\r\n',
    'chunked behind a VT': START + 'Transfer-Encoding:\x0bchunked\r\n\r\n0\r\n\r\n',
    'chunked in quotes': START + 'Transfer-Encoding: "chunked"\r\n\r\n0\r\n\r\n',
    'chunked in HTTP/1.0': CHUNKED.replace('HTTP/1.1\r\n', 'HTTP/1.0\r\n'
                                           'Connection: keep-alive\r\n') + '0\r\n\r\n',
    # which server is meant
    'no Host': 'POST {path} HTTP/1.1\r\n{lines}' + END,
    'two Hosts': START + 'Host: evil.example\r\n' + END,
    'two equal Hosts': START + 'Host: {host}\r\n' + END,
    'Host with a path': START.replace('{host}', '{host}/x') + END,
    'Host with a user': START.replace('{host}', 'x@{host}') + END,
    'Host with a blank': START.replace('{host}', '{host} x') + END,
    'target of another host': START.replace('{path}', 'http://evil.example{path}') + END,
    'target with a user': START.replace('{path}', 'http://{host}@evil.example{path}') + END,
    'target without a host': START.replace('{path}', 'http://{path}') + END,
    'target of https': START.replace('{path}', 'https://{host}{path}') + END,
    'target without a Host': 'POST http://{host}{path} HTTP/1.1\r\n{lines}' + END,
    # the first line
    'blank in the target': START.replace('{path}', '{path}?a b') + END,
    'fragment in the target': START.replace('{path}', '{path}#x') + END,
    'target above ASCII': START.replace('{path}', '{path}?\xe4') + END,
    'NUL in the target': START.replace('{path}', '{path}?\0') + END,
    'target without a slash': START.replace('{path}', 'x') + END,
    'asterisk': START.replace('{path}', '*') + END,
    'CONNECT': 'CONNECT {host}:80 HTTP/1.1\r\nHost: {host}\r\n{lines}' + END,
    'CONNECT to a path': 'CONNECT {path} HTTP/1.1\r\nHost: {host}\r\n{lines}' + END,
    'two blanks': START.replace('POST ', 'POST  ') + END,
    'tab for a blank': START.replace('POST ', 'POST\t') + END,
    'blank behind the version': START.replace('HTTP/1.1', 'HTTP/1.1 ') + END,
    'version in small letters': START.replace('HTTP', 'http') + END,
    'HTTP/1.2': START.replace('HTTP/1.1', 'HTTP/1.2') + END,
    'HTTP/2.0': START.replace('HTTP/1.1', 'HTTP/2.0') + END,
    'HTTP/01.1': START.replace('HTTP/1.1', 'HTTP/01.1') + END,
    'no version': START.replace(' HTTP/1.1', '') + END,
    'method that is no token': START.replace('POST', 'PO(ST') + END,
    'blank in front': ' ' + START + END,
    'empty line in front': '\r\n' + START + END,
    'unknown expectation': START + 'Expect: miracle\r\n' + END,
    # chunks
    'no size': CHUNKED + '\r\n\r\n',
    'size with a sign': CHUNKED + '+1\r\nx\r\n0\r\n\r\n',
    'size with a prefix': CHUNKED + '0x1\r\nx\r\n0\r\n\r\n',
    'size with a blank': CHUNKED + '1 \r\nx\r\n0\r\n\r\n',
    'size behind a blank': CHUNKED + ' 1\r\nx\r\n0\r\n\r\n',
    'size beyond 60 bits': CHUNKED + '10000000000000001\r\nx\r\n0\r\n\r\n',
    'size that ends in LF': CHUNKED + '1\nx\r\n0\r\n\r\n',
    'chunk that is longer': CHUNKED + '1\r\nxy\r\n0\r\n\r\n',
    'chunk that ends in LF': CHUNKED + '1\r\nx\n0\r\n\r\n',
    'no LF behind a size': CHUNKED + '1\r1x\r\n0\r\n\r\n',
    'no CR behind a chunk': CHUNKED + '1\r\nxy\n0\r\n\r\n',
    'no LF behind a chunk': CHUNKED + '1\r\nx\ry0\r\n\r\n',
    'no LF behind a trailer': CHUNKED + '0\r\nX: y\rz\r\n',
    'no LF at the end': CHUNKED + '0\r\n\rx',
    'control byte in an extension': CHUNKED + '1;a=\x01\r\nx\r\n0\r\n\r\n',
    'CR in an extension': CHUNKED + '1;a\rb\r\nx\r\n0\r\n\r\n',
    'LF in an extension': CHUNKED + '1;a\nx\r\n0\r\n\r\n',
    'extension without end': CHUNKED + '1;' + 'a' * 2000 + '\r\nx\r\n0\r\n\r\n',
    'body that ends in LF': CHUNKED + '1\r\nx\r\n0\n\n',
    'trailer without a colon': CHUNKED + '0\r\nX\r\n\r\n',
    'trailer with a blank': CHUNKED + '0\r\nX : y\r\n\r\n',
    'trailer that ends in LF': CHUNKED + '0\r\nX: y\n\r\n',
    'folded trailer': CHUNKED + '0\r\nX: y\r\n z\r\n\r\n',
    'Host in a trailer': CHUNKED + '0\r\nHost: evil.example\r\n\r\n',
    'length in a trailer': CHUNKED + '0\r\nContent-Length: 5\r\n\r\n',
    'Connection in a trailer': CHUNKED + '0\r\nConnection: upgrade\r\n\r\n',
    'Upgrade in a trailer': CHUNKED + '0\r\nUpgrade: x\r\n\r\n',
    'chunked in a trailer': CHUNKED + '0\r\ntransfer-encoding: chunked\r\n\r\n',
}

TAKEN = {
    'a length': START + END,
    'no body': START + '\r\n',
    'length of 0': START + 'Content-Length: 0\r\n\r\n',
    'length with zeros in front': START + 'Content-Length: 0001\r\n\r\nx',
    'names in any case': START.replace('Host', 'hOST') + 'CONTENT-length: 1\r\n\r\nx',
    'no blank behind the colon': START.replace('Host: ', 'Host:') + END,
    'blanks and tabs around values': START.replace('{host}', '\t{host} \t') + END,
    'an empty value': START + 'X:\r\n' + END,
    'a value above ASCII': START + 'X: \xe4\tb\r\n' + END,
    'every byte of a token': START + "!#$%&'*+-.^_`|~09azAZ: 1\r\n" + END,
    'target of the same host': START.replace('{path}', 'http://{host}{path}') + END,
    'target with the usual port': START.replace('{path}', 'HTTP://{host}:80{path}') + END,
    'chunks': CHUNKED + '1\r\nx\r\nA\r\n0123456789\r\n0\r\n\r\n',
    'chunked in capitals': CHUNKED.replace('chunked', 'CHUNKED') + '0\r\n\r\n',
    'size with zeros in front': CHUNKED + '001\r\nx\r\n00\r\n\r\n',
    'extensions': CHUNKED + '1;a="b";c\r\nx\r\n0;d\r\n\r\n',
    'trailers': CHUNKED + '1\r\nx\r\n0\r\nX: y\r\nZ:\r\n\r\n',
    'a request within a body': START + 'Content-Length: 40\r\n\r\n'
                               'GET /smuggled HTTP/1.1\r\nHost: evil.e\r\n\r\n',
}


def message(template, path='/', host='h', lines=''):
    # Not str.format: braces within are rare, a message of bytes is what counts.
    for name, value in (('path', path), ('host', host), ('lines', lines)):
        template = template.replace('{' + name + '}', value)
    return template.encode('latin-1')


def next_request(path='/', host='h', lines=''):
    return (f'GET {path}?next HTTP/1.1\r\nHost: {host}\r\n{lines}'
            'Connection: close\r\n\r\n').encode()
