#!/usr/bin/env node
// Shortens long results of tools, expands "pls" in what the user writes, and marks each answer.

const readline = require('node:readline');

const MOST_LINES = 200;

const methods = {
  initialize: () => ({
    name: 'shorten',
    version: '1.0',
    priority: 900,
    hooks: ['post_user_input', 'post_llm_response', 'post_tool_execute'],
  }),
  'hook/post_user_input': ({ text }) => ({ text: text.replace(/\bpls\b/g, 'please') }),
  'hook/post_llm_response': ({ text, calls }) => (calls.length ? {} : { text: `${text}\n\n(checked by shorten)` }),
  'hook/post_tool_execute': ({ result }) => {
    const lines = result.split('\n');
    const rest = lines.length - MOST_LINES;
    return rest > 0 ? { result: [...lines.slice(0, MOST_LINES), `... ${rest} more lines`].join('\n') } : {};
  },
  shutdown: () => ({}),
};

readline.createInterface({ input: process.stdin }).on('line', (line) => {
  const { id, method, params } = JSON.parse(line);
  const run = methods[method];
  const answer = run ? { result: run(params) } : { error: { code: -32601, message: `there is no method ${method}` } };
  process.stdout.write(`${JSON.stringify({ jsonrpc: '2.0', id, ...answer })}\n`, () => {
    if (method === 'shutdown') process.exit(0);
  });
});
