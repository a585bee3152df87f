// Runs code for cay in a sandbox's own Node, which needs nothing but this text. Requests come as
// lines of JSON on descriptor 3, answers go as lines of JSON to descriptor 4 (driver.h has both).
// Node cannot put descriptors in the place of others: what other programs print goes to 1 and 2, the
// command's stderr, and marks there say where the output of a run begins and ends. Code is evaluated
// as a debugger's console does it: names can be declared again, await stands anywhere, and the value
// of the last expression is known.
'use strict';
{
const fs = require('fs'), net = require('net'), util = require('util'), vm = require('vm');
const inspector = require('inspector');
const { StringDecoder } = require('string_decoder');

const IN = 3, OUT = 4;
const PIECE = 32 << 10;
const RESULT_MAX = 2 << 20;
const VALUES_MAX = 20000;
const HERE = 'cay:driver';
const SETTLE_MS = 5000;  // for who asked for a run to say that it has seen its end
const [, options, idle, ...imports] = process.argv.slice(1);
const end = process.exit.bind(process);
const state = { id: '', count: 0, group: 0, truncated: false, interrupt: null, pending: false };

// ---- what goes out ----

function give(frame) {
  // A surrogate without its other half has no form in UTF-8; only such are escaped.
  const text = JSON.stringify(frame).replace(/(?<!\\)((?:\\\\)*)\\ud[89a-f][0-9a-f]{2}/g, '$1\\ufffd');
  let data = Buffer.from(text + '\n');
  while (data.length > 0) {
    try {
      data = data.subarray(fs.writeSync(OUT, data));
    } catch (e) {
      if (e.code !== 'EAGAIN') process.reallyExit(70);  // closed by the code, or nobody is there
    }
  }
}

function say(stream, text) {
  for (let at = 0; at < text.length; at += PIECE)
    give({ t: 'out', id: state.id, s: stream, d: text.slice(at, at + PIECE) });
}

function take(stream, out) {
  const decoder = new StringDecoder('utf8');
  out.write = (chunk, encoding, done) => {
    say(stream, typeof chunk === 'string' ? chunk : decoder.write(Buffer.from(chunk)));
    const then = typeof encoding === 'function' ? encoding : done;
    if (then) process.nextTick(then);
    return true;
  };
}

// ---- results ----

const TYPES = {
  'text/plain': 'text', 'text/html': 'html', 'text/markdown': 'markdown', 'text/latex': 'latex',
  'application/json': 'json', 'image/svg+xml': 'svg',
};

function giveForm(mime, data, main) {
  const type = TYPES[mime] || (mime.startsWith('image/') ? 'image' : 'data');
  if (Buffer.isBuffer(data) || data instanceof Uint8Array) data = Buffer.from(data).toString('base64');
  if (type === 'text' && data.length > RESULT_MAX / 8) {
    data = data.slice(0, RESULT_MAX / 8) + '…';
    state.truncated = true;
  }
  if (JSON.stringify(data).length > RESULT_MAX) {
    state.truncated = true;
    return;
  }
  give({ t: 'result', id: state.id, r: { type, mime, data, main, group: state.group } });
}

// What JSON can say of a plain object or array; undefined when that is too much, or something else.
function plain(value) {
  const prototype = typeof value === 'object' && value && Object.getPrototypeOf(value);
  if (prototype !== Array.prototype && prototype !== Object.prototype && prototype !== null) return;
  if (!value) return;
  let left = VALUES_MAX;
  try {
    return JSON.parse(JSON.stringify(value, (key, v) => {
      if (--left < 0) throw new RangeError();
      return typeof v === 'bigint' ? Number(v) : v;
    }));
  } catch {
    return;
  }
}

function formsOf(value) {
  const forms = {};
  if (value === null || typeof value !== 'object') return forms;
  const methods = [[Symbol.for('Jupyter.display'), null], ['_toMime', null], ['_toHtml', 'text/html'],
                   ['_toSvg', 'image/svg+xml'], ['_toPng', 'image/png']];
  for (const [name, mime] of methods) {
    try {
      if (typeof value[name] !== 'function') continue;
      const got = value[name]();
      if (got && mime) forms[mime] = got;
      else if (got) Object.assign(forms, got);
    } catch {}
  }
  return forms;
}

function show(value, main) {
  state.group++;
  const forms = formsOf(value);
  try {
    forms['text/plain'] ??= util.inspect(value);
  } catch (e) {
    forms['text/plain'] = '[a value that cannot be shown]';
  }
  const json = plain(value);
  if (json !== undefined) forms['application/json'] ??= json;
  for (const [mime, data] of Object.entries(forms))
    if (typeof data === 'string' || typeof data === 'object') giveForm(mime, data, main);
}

function display(...values) {
  for (const value of values) show(value, false);
}

// ---- exceptions ----

// From the inside outwards, without what is ours.
function placesOf(e, lines, name) {
  const places = [];
  for (const line of isError(e) && typeof e.stack === 'string' ? e.stack.split('\n') : []) {
    const at = /^\s+at (?:(.*?) \()?([^()]*?):(\d+):\d+\)?$/.exec(line);
    if (!at) continue;
    if (at[2] === '[eval]') continue;
    if (at[2] === 'node:inspector' || at[2] === HERE || places.length === 100) break;
    places.push({ file: at[2], line: Number(at[3]), function: at[1] || '<anonymous>' });
  }
  for (const p of places) if (p.file === name) p.text = (lines[p.line - 1] || '').slice(0, 1000);
  return places;
}

function isError(e) {
  return util.types.isNativeError(e) || e instanceof Error;
}

function giveException(e, details, name, code) {
  const places = placesOf(e, code.split('\n'), name);
  const at = places.find((p) => p.file === name);
  const syntax = details && isError(e) && e.name === 'SyntaxError' && !at;
  const line = at ? at.line : syntax ? details.lineNumber + 1 : null;
  const value = isError(e) ? String(e.message) : util.inspect(e);
  const kind = isError(e) ? String(e.name) : 'Uncaught';
  let text = `${kind}: ${value}\n`;
  for (const p of places) text += `    at ${p.function} (${p.file}:${p.line})\n`;
  say(2, text.slice(0, 262144));
  give({ t: 'error', id: state.id, e: {
    name: kind, value: value.slice(0, 65536), line, text: text.slice(0, 65536), traceback: places.reverse() } });
}

// ---- running ----

const session = new inspector.Session();
session.connect();
let evaluated;  // the value of the last run, which the inspector hands over
const bridge = {
  load: (what) => import(what),
  take: (value) => { evaluated = value; },
  post: (code) => new Promise((resolve, reject) => session.post('Runtime.evaluate', {
    expression: code, replMode: true, awaitPromise: true, objectGroup: 'cay',
  }, (error, answer) => error ? reject(new Error(error.message)) : resolve(answer))),
};
Object.defineProperty(globalThis, Symbol.for('cay'), { value: bridge, enumerable: false });
const poster = new vm.Script(`globalThis[Symbol.for('cay')].post(globalThis[Symbol.for('cay')].code)`, { filename: HERE });

function valueOf(remote) {
  if (!remote.objectId) return 'unserializableValue' in remote ? primitive(remote) : remote.value;
  evaluated = undefined;
  session.post('Runtime.callFunctionOn', {
    functionDeclaration: `function (v) { globalThis[Symbol.for('cay')].take(v); }`,
    arguments: [{ objectId: remote.objectId }], objectId: remote.objectId,
  });
  session.post('Runtime.releaseObjectGroup', { objectGroup: 'cay' });
  return evaluated;
}

function primitive(remote) {
  if (remote.type === 'bigint') return BigInt(remote.unserializableValue.slice(0, -1));
  return Number(remote.unserializableValue);
}

// What is evaluated this way cannot import by itself: we do it.
function withoutImports(code) {
  const from = /^import\s+(?:(\*\s*as\s+[\w$]+)|([\w$]+))?\s*,?\s*(?:\{([^}]*)\})?\s*from\s*(['"][^'"\n]+['"])\s*;?/gm;
  return code.replace(from, (all, star, name, names, what) => {
    let text = '';
    if (star) text += `const ${star.replace(/\*\s*as\s+/, '')} = await import(${what});`;
    if (name) text += `const ${name} = (await import(${what})).default;`;
    if (names) text += `const {${names.replace(/\bas\b/g, ':')}} = await import(${what});`;
    return text;
  }).replace(/^import\s*(['"][^'"\n]+['"])\s*;?/gm, 'await import($1);').replace(/\bimport\s*\(/g, `globalThis[Symbol.for('cay')].load(`);
}

// An object and not a block, as whoever types it means.
function asExpression(code) {
  if (!/^\s*\{/.test(code) || /;\s*$/.test(code)) return code;
  try {
    new vm.Script(`(${code}\n)`);
    return `(${code}\n)`;
  } catch {
    return code;
  }
}

class Interrupted extends Error {
  constructor() {
    super('interrupted');
    this.name = 'KeyboardInterrupt';
  }
}

class Exit extends Error {
  constructor(code) {
    super(String(code ?? 0));
    this.name = 'ProcessExit';
  }
}

async function evaluate(code, name) {
  bridge.code = asExpression(withoutImports(code)) + `\n//# sourceURL=${name}`;
  const interrupted = new Promise((resolve, reject) => { state.interrupt = () => reject(new Interrupted()); });
  interrupted.catch(() => {});
  try {
    if (state.pending) throw new Interrupted();
    return await Promise.race([poster.runInThisContext({ breakOnSigint: true }), interrupted]);
  } catch (e) {
    throw e.code === 'ERR_SCRIPT_EXECUTION_INTERRUPTED' ? new Interrupted() : e;
  } finally {
    state.interrupt = null;
  }
}

async function run(code, name) {
  try {
    const answer = await evaluate(code, name);
    if (answer.exceptionDetails) {
      const details = answer.exceptionDetails;
      giveException(details.exception ? valueOf(details.exception) : new Error(details.text), details, name, code);
      return 1;
    }
    const value = valueOf(answer.result);
    if (value !== undefined && !/;\s*$/.test(code)) show(value, true);
    return 0;
  } catch (e) {
    giveException(e, null, name, code);
    return e instanceof Interrupted ? 130 : 1;
  }
}

// What other programs have printed until now is before it, and what they will behind it.
function mark() {
  try {
    fs.writeSync(1, `\x1e${state.id}\x1e`);
    return true;
  } catch {
    return false;
  }
}

async function serve(request) {
  Object.assign(state, { id: request.id, truncated: false, pending: false });
  const name = `cell-${++state.count}`;
  give({ t: 'start', id: state.id, mark: mark() });
  await new Promise(setImmediate);  // an interrupt that came since has its turn
  const began = performance.now();
  const exit = await run(request.code, name);
  await new Promise(setImmediate);  // what the last promises still print
  give({ t: 'done', id: state.id, exit, ms: performance.now() - began, truncated: state.truncated, mark: mark() });
  awaitOver(state.id);
  state.id = '';
}

// ---- what comes in ----

// Until who asked for the last run has seen its end, an interrupt may come that is meant for it. One
// that came before is handled in this turn of the loop.
let unsettled = '', over = () => {}, settled = null;

function awaitOver(id) {
  unsettled = id;
  settled = new Promise((resolve) => {
    const timer = setTimeout(resolve, SETTLE_MS);
    over = () => {
      clearTimeout(timer);
      setImmediate(resolve);
    };
  });
}

// Node keeps a signal that comes while it stops to watch for them, and gives it to the next script.
const spin = new vm.Script('for (const end = performance.now() + 20; performance.now() < end;);', { filename: HERE });

function forgetInterrupt() {
  try {
    spin.runInThisContext({ breakOnSigint: true });
  } catch {}
}

const parts = new Map();
let queue = [], busy = false;
const idleTimer = Number(idle) > 0 ? setTimeout(() => busy || end(0), Number(idle)) : null;

function takeLine(line) {
  const request = JSON.parse(line);
  const before = parts.get(request.id) || '';
  if (request.op === 'part') {
    parts.set(request.id, before + request.code);
    return;
  }
  parts.delete(request.id);
  if (request.op === 'over' && request.id === unsettled) {
    if (request.interrupted) forgetInterrupt();
    over();
  }
  if (request.op === 'cancel' && request.id !== state.id) {
    queue = queue.filter((r) => r.id !== request.id);
    give({ t: 'cancelled', id: request.id });
  }
  if (request.op === 'run') queue.push({ id: request.id, code: before + request.code });
}

async function serveAll() {
  if (busy) return;
  busy = true;
  while (queue.length > 0) {
    await settled;
    if (queue.length > 0) await serve(queue.shift());
    if (idleTimer) idleTimer.refresh();
  }
  busy = false;
}

function listen() {
  const decoder = new StringDecoder('utf8');
  let text = '';
  const input = new net.Socket({ fd: IN, readable: true, writable: false });
  input.on('data', (data) => {
    const lines = (text + decoder.write(data)).split('\n');
    text = lines.pop();
    lines.forEach(takeLine);
    void serveAll();
  });
  input.on('end', () => end(0));
  input.on('error', () => end(70));
}

take(1, process.stdout);
take(2, process.stderr);
process.on('SIGINT', () => {
  state.pending = true;
  if (state.interrupt) state.interrupt();
});
process.on('uncaughtException', (e) => {
  if (!(e instanceof Interrupted)) say(2, `Uncaught ${util.inspect(e)}\n`);
});
process.on('unhandledRejection', (e) => say(2, `Uncaught (in promise) ${util.inspect(e)}\n`));
process.exit = (code) => { throw new Exit(code); };
process.argv = [process.argv[0], ''];
globalThis.display = display;
for (const name of imports) {
  try {
    globalThis[name.replace(/^node:/, '').replace(/[^\w$]/g, '_')] = require(name);
  } catch (e) {
    say(2, `${e.message}\n`);
  }
}
give({ t: 'ready', id: '', pid: process.pid, version: process.versions.node, options });
listen();
}
