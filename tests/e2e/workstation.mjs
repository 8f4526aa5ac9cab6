// Playwright at a browser behind a port of a sandbox: workstation.mjs KIT URL PAGE; prints its title.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [kit, url, page] = process.argv.slice(2);
// The package is in the build folder, where node does not look from here.
const { chromium } = createRequire(pathToFileURL(`${kit}/`))("playwright-core");
const browser = await chromium.connectOverCDP(url);
const tab = await (await browser.newContext()).newPage();
await tab.goto(page);
console.log(await tab.title());
await browser.close();
