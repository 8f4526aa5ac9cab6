// Playwright at a browser behind a port of a sandbox: chrome.mjs KIT URL SITE PICTURES. Clicks the
// button of SITE's first page; prints its title, and whether it looked as the second one only then.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [kit, url, site, pictures] = process.argv.slice(2);
// The package is in the build folder, where node does not look from here.
const { chromium } = createRequire(pathToFileURL(`${kit}/`))("playwright-core");
const browser = await chromium.connectOverCDP(url);
// The context of the window that VNC shows, which is then left as it is.
const context = browser.contexts()[0];
// Of a part: Chromium's bars come and go, and all of the page is larger then.
const clip = { x: 0, y: 0, width: 600, height: 300 };
const shot = async (page, name) =>
  (await page.screenshot({ clip, path: `${pictures}/${name}.png` })).toString("base64");
const wanted = await context.newPage();
await wanted.goto(`${site}/clicked.html`);
const clicked = await shot(wanted, "wanted");
await wanted.close();
const page = context.pages()[0];
await page.goto(`${site}/index.html`);
const title = await page.title();
const before = await shot(page, "before");
await page.click("button");
const after = await shot(page, "after");
console.log(JSON.stringify({ title, before: before === clicked, after: after === clicked }));
await browser.close();
