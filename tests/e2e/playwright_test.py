"""The image playwright: both packages steer the Chromium that is in it, as its user, with nothing to install."""
import json
import unittest

import atoll
from atoll import SLOWNESS
from box import Box

PAGE = 'data:text/html,<title>here</title><button onclick="document.title=`clicked`">go</button>'
PYTHON = '''
from playwright.sync_api import sync_playwright
with sync_playwright() as started:
    browser = started.chromium.launch()
    page = browser.new_page()
    page.goto(PAGE)
    page.click("button")
    print(page.title(), page.screenshot()[:4] == b"\\x89PNG")
    browser.close()
'''
NODE = '''
import { chromium } from "playwright";
const browser = await chromium.launch();
const page = await browser.newPage();
await page.goto(PAGE);
await page.click("button");
console.log(await page.title(), (await page.screenshot()).subarray(1, 4).toString());
await browser.close();
'''
# What an agent's client says to the server that the image has.
CALLS = [
    {'method': 'initialize', 'params': {'protocolVersion': '2025-03-26', 'capabilities': {},
                                        'clientInfo': {'name': 'test', 'version': '1'}}},
    {'method': 'tools/call', 'params': {'name': 'browser_navigate', 'arguments': {'url': PAGE}}}]


class Playwright(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.daemon = atoll.Daemon().__enter__()
        cls.addClassCleanup(cls.daemon.__exit__)
        cls.daemon.import_image(atoll.image_archive('playwright'), 'opensandbox/playwright:latest')
        cls.box = Box(cls.daemon, 'opensandbox/playwright:latest', entrypoint=['sleep', '99999'],
                      resourceLimits={'cpu': '2', 'memory': '2Gi', 'pids': '1000'})

    def run_in(self, program, name, text):
        text = text.replace('PAGE', json.dumps(PAGE))
        return self.box.out(f"cat >/tmp/{name} <<'END'\n{text}END\n"
                            f'cd /tmp && timeout {60 * SLOWNESS} {program} {name} 2>&1').splitlines()[-1]

    def test_it_is_its_user_that_runs(self):
        self.assertEqual(self.box.out('id -un; echo $HOME').split(), ['playwright', '/home/playwright'])

    def test_python(self):
        self.assertEqual(self.run_in('python3', 'steer.py', PYTHON), 'clicked True')

    def test_node(self):
        self.assertEqual(self.run_in('node', 'steer.mjs', NODE), 'clicked PNG')

    def test_its_server_for_agents(self):
        calls = [{'jsonrpc': '2.0', 'id': number, **call} for number, call in enumerate(CALLS, 1)]
        calls.insert(1, {'jsonrpc': '2.0', 'method': 'notifications/initialized'})
        said = self.run_in('sh', 'calls.sh', f"""
mkfifo /tmp/to /tmp/from
playwright-mcp --headless --no-sandbox </tmp/to >/tmp/from 2>/tmp/log &
exec 3>/tmp/to 4</tmp/from
cat >&3 <<'CALLS'
{chr(10).join(map(json.dumps, calls))}
CALLS
while read -r said <&4; do case $said in *'"id":2'*) break; esac; done
kill $!
printf '%s\\n' "$said"
""")
        self.assertRegex(json.loads(said)['result']['content'][0]['text'], 'Page Title: here')


if __name__ == '__main__':
    unittest.main()
