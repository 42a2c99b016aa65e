#!/usr/bin/env node
// Runs the binary of the package for this platform, which npm installed beside this one, as if it were this process: the
// same standard streams and arguments, the same exit code, and signals are passed on.
"use strict";

const { spawn } = require("node:child_process");
const { constants } = require("node:os");
const { dirname, join } = require("node:path");
const { name, bin, optionalDependencies } = require("../package.json");

function fail(message) {
  console.error(message);
  process.exit(1);
}

const [program] = Object.keys(bin);
const platform = `${name}-${process.platform}-${process.arch}`;
if (!optionalDependencies[platform]) {
  const known = Object.keys(optionalDependencies).map((other) => other.slice(name.length + 1));
  fail(`${program}: there is no build for ${process.platform}-${process.arch}, only for ${known.join(", ")}.`);
}
let folder;
try {
  folder = dirname(require.resolve(`${platform}/package.json`));
} catch {
  fail(`${program}: the package ${platform} is not installed. Install ${name} again, without --omit=optional.`);
}

// The console sends Ctrl-C and Ctrl-Break to the binary itself, so on Windows the handler only keeps this process alive.
const windows = process.platform === "win32";
const signals = windows ? ["SIGINT", "SIGBREAK"] : ["SIGINT", "SIGTERM", "SIGHUP", "SIGQUIT"];
let child;
for (const signal of signals) {
  process.on(signal, () => windows || child.kill(signal));
}
const file = join(folder, "bin", windows ? `${program}.exe` : program);
child = spawn(file, process.argv.slice(2), { stdio: "inherit", windowsHide: true });
child.on("error", (error) => fail(`${program}: ${error.message}`));
child.on("exit", (code, signal) => {
  if (signal === null) process.exit(code);
  for (const each of signals) process.removeAllListeners(each);
  process.kill(process.pid, signal);
  // Where the signal does not end this process, the code is that of a shell.
  process.exitCode = 128 + (constants.signals[signal] ?? 0);
});
