// An identity provider: the npm package oidc-provider on a port of loopback, with TLS.
//
//   node idp.mjs KIT DIRECTORY PORT
//
// Of its releases, the last that runs with the Node.js of Debian 12.
//
// DIRECTORY has cert.pem and key.pem. Prints the line "serving". Each line "rotate" on standard
// input replaces its signing keys, and is answered with the line "rotated".
import { createServer } from 'node:https';
import { generateKeyPairSync, randomUUID } from 'node:crypto';
import { readFileSync } from 'node:fs';
import { createInterface } from 'node:readline';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const [kit, directory, port] = process.argv.slice(2);
const { default: Provider } = await import(pathToFileURL(createRequire(kit + '/').resolve('oidc-provider')));

// Standard output is for answers.
const answer = console.log;
console.log = console.info = console.warn;

const groups = { 'red-ci': ['staff', 'team-red'], 'host-ci': 'hosts', 'other-ci': ['staff'], alice: ['staff', 'team-red'] };
const key = (type, options, use, alg) => ({
  ...generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }), kid: randomUUID(), use, alg });
const keys = () => ({ keys: [
  key('rsa', { modulusLength: 2048 }, 'enc', 'RSA-OAEP'),
  key('rsa', { modulusLength: 2048 }, 'sig', 'RS256'),
  key('ec', { namedCurve: 'P-256' }, 'sig', 'ES256')] });
const machine = (id) => ({
  client_id: id, client_secret: 'secret-of-' + id, grant_types: ['client_credentials'], redirect_uris: [], response_types: [] });

let handle;
const server = createServer(
  { cert: readFileSync(directory + '/cert.pem'), key: readFileSync(directory + '/key.pem') },
  (request, response) => handle(request, response));
server.listen(Number(port), '127.0.0.1', () => {
  const issuer = `https://localhost:${port}`;
  const start = () => new Provider(issuer, {
    jwks: keys(),
    cookies: { keys: ['of-a-test'] },
    clients: [machine('red-ci'), machine('host-ci'), machine('other-ci'), {
      client_id: 'atoll-cli', token_endpoint_auth_method: 'none', application_type: 'native', redirect_uris: [],
      response_types: [], grant_types: ['urn:ietf:params:oauth:grant-type:device_code', 'refresh_token'] }],
    scopes: ['openid', 'offline_access', 'atoll'],
    features: {
      encryption: { enabled: true },
      clientCredentials: { enabled: true },
      deviceFlow: { enabled: true },
      revocation: { enabled: true },
      resourceIndicators: {
        enabled: true,
        defaultResource: () => 'urn:atoll',
        useGrantedResource: () => true,
        getResourceServerInfo: (_, __, client) => ({
          audience: 'atoll', scope: 'atoll', accessTokenFormat: 'jwt', accessTokenTTL: 600,
          jwt: { sign: { alg: client.clientId === 'host-ci' ? 'ES256' : 'RS256' } } }) } },
    extraTokenClaims: (_, token) => ({ groups: groups[token.accountId ?? token.clientId] }),
    findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
    issueRefreshToken: () => true,
    rotateRefreshToken: true,
  }).callback();
  handle = start();
  answer('serving');
  createInterface({ input: process.stdin }).on('line', () => {
    handle = start();
    answer('rotated');
  }).on('close', () => process.exit());
});
