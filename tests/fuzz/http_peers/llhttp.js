// What llhttp, the parser in Node.js, makes of the bytes of a connection; the protocol is that of
// tests/support/http_verdict.cc. Hosts and methods are not its business but its caller's.
'use strict';
process.removeAllListeners('warning');
const {HTTPParser, methods} = process.binding('http_parser');

function verdict(bytes) {
  const parser = new HTTPParser();
  let out = '', line = '', start = '', body = [];
  parser.initialize(HTTPParser.REQUEST, {});
  // Of heads with many fields the target is told with the first of them; also called for trailers.
  parser[HTTPParser.kOnHeaders] = (headers, url) => { start += url; };
  parser[HTTPParser.kOnHeadersComplete] = (major, minor, headers, method, url) => {
    line = `${methods[method]} ${url ?? start}`;
    start = '';
    body = [];
    return 0;
  };
  parser[HTTPParser.kOnBody] = (piece) => { body.push(Buffer.from(piece)); };
  parser[HTTPParser.kOnMessageComplete] = () => {
    out += `${line} ${Buffer.concat(body).toString('hex')}\t`;
    start = '';
  };
  const result = parser.execute(bytes);
  parser.close();
  if (result instanceof Error) return out + 'refused: ' + result.reason;
  // Behind a change of protocol it stops.
  return result < bytes.length ? out + 'refused: another protocol' : out + 'ok';
}

let input = Buffer.alloc(0);
process.stdin.on('data', (piece) => {
  input = Buffer.concat([input, piece]);
  while (input.length >= 4 && input.length >= 4 + input.readUInt32LE(0)) {
    const size = input.readUInt32LE(0);
    process.stdout.write(verdict(Buffer.from(input.subarray(4, 4 + size))) + '\n');
    input = input.subarray(4 + size);
  }
});
