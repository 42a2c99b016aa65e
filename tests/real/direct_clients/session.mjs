// What each script in JavaScript here does: node SCRIPT.mjs PLAN.json REPORT.json
//
// A script has a function that connects its library to a server, and returns the operations that the library offers:
// tools, call, resources, read, prompts, prompt, close. The report is what the library gives its user for each step of
// the plan, as JSON. session.py is the same for Python.
import { readFileSync, writeFileSync } from "node:fs";

const STEP_MS = 60_000;

// Is thrown for what a library has no way to do, such as calling a tool that was not listed.
export class NotOffered extends Error {}

// The tool of that name, for libraries whose tools are objects.
export function byName(tools, name) {
  const found = tools.find((tool) => tool.name === name);
  if (!found) {
    throw new NotOffered(name);
  }
  return found;
}

// An error as its user sees it.
function failure(error) {
  const code = typeof error?.code === "number" ? { code: error.code } : {};
  return { exception: error?.name ?? typeof error, text: String(error?.message ?? error), ...code };
}

// A value as JSON; functions are left out, bytes are base64.
export function plain(value) {
  const seen = [];
  const text = JSON.stringify(value, function (key, member) {
    if (key.startsWith("_") && key !== "_meta") {
      return undefined;
    }
    if (member instanceof Uint8Array) {
      return { base64: Buffer.from(member).toString("base64") };
    }
    if (member instanceof Error) {
      return failure(member);
    }
    if (member !== null && typeof member === "object") {
      while (seen.length > 0 && seen.at(-1) !== this) {
        seen.pop();
      }
      if (seen.includes(member)) {
        return "…";
      }
      seen.push(member);
    }
    return member;
  });
  return text === undefined ? null : JSON.parse(text);
}

async function step(operation, ...args) {
  if (!operation) {
    return { "not offered": true };
  }
  let timer;
  try {
    const late = new Promise((_, reject) => (timer = setTimeout(() => reject(new Error("the deadline")), STEP_MS)));
    return plain(await Promise.race([operation(...args), late]));
  } catch (error) {
    return error instanceof NotOffered ? { "not offered": true } : failure(error);
  } finally {
    clearTimeout(timer);
  }
}

async function call(session, planned) {
  const progress = [];
  const result = await step(session.call, planned.name, planned.arguments, (shown) => progress.push(plain(shown)));
  return progress.length > 0 ? { result, progress } : { result };
}

// The results of steps that are made one after another, by their labels.
async function inTurn(steps, label, make) {
  const results = {};
  for (const planned of steps) {
    results[label(planned)] = await make(planned);
  }
  return results;
}

export async function main(connect) {
  const plan = JSON.parse(readFileSync(process.argv[2], "utf8"));
  const session = await connect(plan.server);
  const report = {
    tools: await step(session.tools),
    calls: await inTurn(plan.calls, (planned) => planned.label, (planned) => call(session, planned)),
    resources: await step(session.resources),
    reads: await inTurn(plan.reads, (uri) => uri, (uri) => step(session.read, uri)),
    prompts: await step(session.prompts),
    "got prompts": await inTurn(plan.prompts, (planned) => planned.label, (planned) =>
      step(session.prompt, planned.name, planned.arguments)),
  };
  await session.close();
  writeFileSync(process.argv[3], JSON.stringify({ ...report, closed: true }));
}
