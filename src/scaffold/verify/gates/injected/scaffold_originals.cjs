// Remembers the functions of node:assert and of some globals before any project code runs, and at exit writes which of them were replaced.
// Assertions that never fail make every test pass, and no report shows it.
"use strict";

const assert = require("node:assert");
const { writeFileSync } = require("node:fs");
const { join } = require("node:path");

const { ownKeys, getOwnPropertyDescriptor } = Reflect;
const folder = __dirname;
const process_id = process.pid;
const held = [];
const globals = { Math, JSON, Number, Object, Array, "Array.prototype": Array.prototype, "String.prototype": String.prototype };
const named = Object.entries(globals).map(([called, holder]) => [holder, called]);
for (const [holder, called] of [[assert, "assert"], [assert.strict, "assert.strict"], ...named]) {
  for (const name of ownKeys(holder)) {
    const value = getOwnPropertyDescriptor(holder, name).value;
    if (typeof name === "string" && typeof value === "function") {
      held.push({ holder, name, value, called: `${called}.${name}` });
    }
  }
}

process.on("exit", () => {
  let text = "";
  for (let at = 0; at < held.length; at += 1) {
    const { holder, name, value, called } = held[at];
    const now = getOwnPropertyDescriptor(holder, name);
    if (now === undefined || now.value !== value) text += `${called}\n`;
  }
  if (text) writeFileSync(join(folder, `replaced-${process_id}`), text);
});
