// What holds for the status page however it is shown.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";

const AXE = readFileSync(fileURLToPath(import.meta.resolve("axe-core/axe.min.js")), "utf8");

/** Asserts that axe finds nothing in this page or frame. */
export async function assertAccessible(frame, label) {
  await frame.evaluate(AXE);
  const found = await frame.evaluate(async () => {
    const { violations } = await axe.run({ runOnly: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] });
    return violations.flatMap(({ id, nodes }) => nodes.map((node) => `${id}: ${node.target}: ${node.failureSummary}`));
  });
  assert.deepEqual(found, [], `axe, ${label}`);
}

/** Asserts that nothing is wider than the page or its own box. */
export async function assertFits(frame, label) {
  const wide = await frame.evaluate(() => {
    const page = document.documentElement;
    const of = (element) => `${element.tagName} ${element.className} ${element.textContent.slice(0, 40)}`;
    const wide = page.scrollWidth > page.clientWidth ? [`page: ${page.scrollWidth} > ${page.clientWidth}`] : [];
    for (const element of document.querySelectorAll("main *, header *, footer")) {
      if (element.closest("svg, .unseen, pre") || !element.checkVisibility()) continue;
      const { left, right } = element.getBoundingClientRect();
      if (right > page.clientWidth + 1 || left < -1) wide.push(of(element));
      if (getComputedStyle(element).display !== "inline" && element.scrollWidth > element.clientWidth + 1) wide.push(`inside: ${of(element)}`);
    }
    return wide;
  });
  assert.deepEqual(wide, [], `too wide, ${label}`);
}

/** Asserts that no element moves or fades. */
export async function assertStill(frame) {
  const moving = await frame.evaluate(() =>
    [...document.querySelectorAll("*")].filter((element) => {
      const { transitionDuration, animationName } = getComputedStyle(element);
      return animationName !== "none" || transitionDuration.split(", ").some((time) => parseFloat(time) > 0);
    }).length,
  );
  assert.equal(moving, 0, "elements that move although the system asks for none");
}

/** Asserts that Tab reaches everything that can be pressed or scrolled, in the order of the page, and shows where it is. */
export async function assertKeyboard(page) {
  const expected = await page.evaluate(() => {
    const all = [...document.querySelectorAll("button, summary, [tabindex]")].filter((element) => element.checkVisibility());
    all.forEach((element, at) => { element.dataset.at = at; });
    return all.length;
  });
  assert.ok(expected > 5, `${expected} stops`);
  for (let at = 0; at < expected; at++) {
    await page.keyboard.press("Tab");
    const [stop, outline] = await page.evaluate(() => {
      const { outlineStyle, outlineWidth } = getComputedStyle(document.activeElement);
      return [document.activeElement.dataset.at, outlineStyle === "none" ? 0 : parseFloat(outlineWidth)];
    });
    assert.equal(stop, String(at), `stop ${at} of ${expected}`);
    assert.ok(outline >= 2, `no outline at stop ${at}`);
  }
}

/** Asserts that no text of a report became markup, and that no script of it ran. */
export async function assertOnlyText(frame) {
  const found = await frame.evaluate(() => ({
    pwned: typeof pwned !== "undefined",
    elements: document.querySelectorAll("img, a, iframe, form, [onerror], [href], [src]").length,
    scripts: document.scripts.length,
    shown: document.querySelector("main").innerText.includes("<img src=x onerror="),
    reversed: document.querySelector("main").innerText.includes("\u202e"),
  }));
  assert.deepEqual(found, { pwned: false, elements: 0, scripts: 2, shown: true, reversed: false });
}
