"""A hostile server for a sandbox: pages and answers that reach for what is not theirs."""

# One connection of busybox's nc -e. Notes each request line and its Cookie in /tmp/seen.
SERVER = r"""#!/bin/sh
read -r method path rest
cookie= origin=
while IFS= read -r line; do
  line=${line%"$(printf '\r')"}
  [ -n "$line" ] || break
  case $line in
    [Cc]ookie:*) cookie=$line ;;
    [Oo]rigin:*) origin=${line#*: } ;;
  esac
done
echo "$method $path $origin [$cookie]" >>/tmp/seen
fields= type=text/plain body=ok status='200 OK'
case ${path%%\?*} in
  /page) type=text/html body=$(cat /tmp/page) fields='Set-Cookie: tossed=1; Path=/; Domain=localhost\r\n' ;;
  /lib.js) type=text/javascript body='self.lib = true; self.onfetch = () => {};' ;;
  /open) fields="Access-Control-Allow-Origin: $origin\r\n" ;;
  /evil) fields='Set-Cookie: a=b; Path=/\r\nSet-Cookie: c=d; Domain=localhost\r\nService-Worker-Allowed: /\r\n'
    fields=$fields'Strict-Transport-Security: max-age=99999\r\nClear-Site-Data: "*"\r\nPublic-Key-Pins: x\r\n'
    fields=$fields'Alt-Svc: h2=":1"\r\nNEL: {}\r\nReport-To: {}\r\nRefresh: 0; url=/v1/sandboxes\r\nX-Kept: yes\r\n'
    fields=$fields'Connection: Content-Security-Policy, X-Request-ID\r\nContent-Security-Policy: default-src *\r\n' ;;
  /cors) fields='Access-Control-Allow-Origin: https://app.example\r\nVary: Origin\r\n' ;;
  /away) status='307 Away' fields="Location: ${path#*\?}\r\n" ;;
esac
printf "HTTP/1.1 $status\r\nContent-Type: $type\r\nContent-Length: ${#body}\r\n${fields}Connection: close\r\n\r\n"
printf '%s' "$body"
"""

# Reports what worked, as /report?{…} of its own server. NEIGHBOUR and API are URLs.
PAGE = """<!doctype html><title>page</title><iframe name=frame></iframe><script src=lib.js></script>
<script>
const worked = {lib: !!window.lib};
const within = (promise) => Promise.race([promise, new Promise((_, no) => setTimeout(no, 5000))]);
const tried = async (name, what) => {
  try { worked[name] = (await within(what())) || true; } catch (e) { worked[name] = false; }
};
const read = async (url, options) => {
  const answer = await fetch(url, options);
  return answer.type !== 'opaque' && 'status ' + answer.status;
};
const create = JSON.stringify({image: {uri: 'IMAGE'}, resourceLimits: {}, entrypoint: ['sleep', '9']});
(async () => {
  await tried('own', () => read('open'));
  await tried('cookie', () => { document.cookie = 'mine=1; path=/'; return document.cookie.includes('mine'); });
  await tried('storage', () => { localStorage.x = 1; });
  await tried('worker', () => navigator.serviceWorker.register('lib.js').then(() => true));
  try { document.cookie = 'tossed=2; domain=localhost; path=/'; } catch (e) {}
  await tried('api', () => read('API/v1/sandboxes'));
  await tried('preflighted', () => read('API/v1/sandboxes', {headers: {'OPEN-SANDBOX-API-KEY': ''}}));
  await tried('posted', () => fetch('API/v1/sandboxes', {method: 'POST', mode: 'no-cors', body: create}).then(() => { throw 'opaque'; }));
  await tried('neighbour', () => read('NEIGHBOUR/page'));
  await tried('socket', () => new Promise((yes, no) => {
    const socket = new WebSocket('API/v1/sandboxes'.replace('http', 'ws'));
    socket.onopen = yes; socket.onerror = no; }));
  await tried('framed', () => new Promise((yes, no) => {
    const frame = document.createElement('iframe');
    frame.src = 'NEIGHBOUR/page';
    frame.onload = () => { try { yes(frame.contentWindow.document.title); } catch (e) { no(e); } };
    document.body.append(frame); }));
  await tried('form', () => new Promise((yes) => {
    const form = document.createElement('form'), field = document.createElement('input');
    form.action = 'API/v1/sandboxes'; form.method = 'post'; form.enctype = 'text/plain'; form.target = 'frame';
    field.name = create.slice(0, -1) + ',"x":"'; field.value = '"}';
    form.append(field); document.body.append(form);
    document.querySelector('iframe').onload = () => yes('sent'); form.submit(); }));
  new Image().src = 'report?' + encodeURIComponent(JSON.stringify(worked));
})();
</script>
"""


def serve(box, port, page):
    """The server on `port` of the sandbox, with this page; /tmp/seen has what came."""
    box.out(f"cat >/tmp/serve <<'END'\n{SERVER}END\nchmod 755 /tmp/serve; : >/tmp/seen")
    box.out(f"cat >/tmp/page <<'END'\n{page}END")
    box.background(f'busybox nc -ll -p {port} -e /tmp/serve')
