// noVNC's page in a browser of the host: desktop.mjs KIT URL PASSWORD WORDS PICTURE. Once the desktop is shown it
// types WORDS and Return, and moves the pointer to 900, 600; prints how the page says it is connected.
import { createRequire } from "node:module";
import { pathToFileURL } from "node:url";

const [kit, url, password, words, picture] = process.argv.slice(2);
// The package is in the build folder, where node does not look from here.
const { chromium } = createRequire(pathToFileURL(`${kit}/`))("playwright-core");
const browser = await chromium.launch({ executablePath: "/usr/bin/chromium", args: ["--no-sandbox"] });
const page = await browser.newPage({ viewport: { width: 1280, height: 800 } });
// On a busy machine the default, 30 s, is soon over; the test itself waits 120 s.
page.setDefaultTimeout(100000);
await page.goto(url);
await page.fill("#noVNC_password_input", password);
await page.press("#noVNC_password_input", "Enter");
await page.waitForSelector("html.noVNC_connected", { state: "attached" });
await page.waitForSelector("#noVNC_credentials_dlg", { state: "hidden" });
await page.waitForSelector("canvas");
await page.mouse.click(640, 400);
await page.keyboard.type(words);
await page.keyboard.press("Enter");
await page.mouse.move(900, 600, { steps: 20 });
await page.screenshot({ path: picture });
console.log(await page.evaluate(() => document.documentElement.className));
await browser.close();
