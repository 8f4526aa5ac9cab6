"""Steers a browser in a sandbox over DevTools: opens a page, fills its form, takes a picture.

    SANDBOX_DOMAIN=127.0.0.1:8080 SANDBOX_API_KEY=… shop.py [PICTURE.png]
"""
import datetime
import os
import sys

from opensandbox import SandboxSync
from opensandbox.config import ConnectionConfigSync
from playwright.sync_api import sync_playwright

CONFIG = ConnectionConfigSync(domain=os.environ['SANDBOX_DOMAIN'], use_server_proxy=True,
                              api_key=os.environ.get('SANDBOX_API_KEY', ''))
PAGE = '''<title>shop</title>
<form onsubmit="total.textContent = 'to pay: ' + 3 * this.pieces.value; return false">
  <label>Pieces <input name="pieces"></label> <button>Count</button></form><p id="total"></p>'''


def answers(box):
    """Whether the browser can be spoken to, which is later than whether the sandbox can."""
    return box.commands.run('curl -sf http://127.0.0.1:9222/json/version').error is None


def main(picture):
    box = SandboxSync.create(os.environ.get('SANDBOX_IMAGE', 'opensandbox/chrome:latest'),
                             connection_config=CONFIG, timeout=datetime.timedelta(minutes=5),
                             entrypoint=['/entrypoint'], health_check=answers,
                             resource={'cpu': '2', 'memory': '2Gi', 'pids': '1000'})
    try:
        endpoint = box.get_endpoint(9222)
        with sync_playwright() as playwright:
            browser = playwright.chromium.connect_over_cdp(f'http://{endpoint.endpoint}',
                                                           headers=endpoint.headers)
            page = browser.contexts[0].pages[0]
            page.set_content(PAGE)
            page.get_by_label('Pieces').fill('14')
            page.get_by_role('button', name='Count').click()
            print(page.title(), page.locator('#total').inner_text(), sep='\n')
            page.screenshot(path=picture)
            browser.close()
    finally:
        box.kill()
        box.close()


if __name__ == '__main__':
    main(sys.argv[1] if len(sys.argv) > 1 else 'shop.png')
