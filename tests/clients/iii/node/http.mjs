// Functions behind paths of HTTP that stream, with the helper of a genuine iii-sdk of npm, whichever generation is in the folder:
//   http.mjs FOLDER            each is at /cay-http/NAME; says "here" when all are bound, and then what they come to
import { createCipheriv, createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pipeline } from 'node:stream/promises'
import { setImmediate as turn } from 'node:timers/promises'
import { pathToFileURL } from 'node:url'

const [folder] = process.argv.slice(2)
const packages = `${folder}/node_modules`
const generation = Number(JSON.parse(readFileSync(`${packages}/iii-sdk/package.json`, 'utf8')).version.split('.')[1])
const load = (path) => import(pathToFileURL(`${packages}/${path}.mjs`))
const sdk = await load('iii-sdk/dist/index')
const { http } = generation >= 22 ? await load('@iii-dev/helpers/dist/http/index') : sdk
console.debug = () => {} // generation 9 tells there how it connects

const iii = sdk.registerWorker(process.env.III_URL, { workerName: 'cay-test-http' })
const say = (...words) => console.log(words.join(' '))

// What the test types is what the functions wait for.
const told = []
const waiting = []
createInterface({ input: process.stdin })
  .on('line', (line) => (waiting.length ? waiting.shift()(line) : told.push(line)))
  .on('close', () => process.exit(0))
const next = () => (told.length ? Promise.resolve(told.shift()) : new Promise((resolve) => waiting.push(resolve)))

// Bytes that nobody can make up: each piece another.
const stream = createCipheriv('aes-128-ctr', Buffer.alloc(16, 7), Buffer.alloc(16))
const bytes = (n) => stream.update(Buffer.alloc(n))

const functions = {
  // The digest of what is sent.
  up: http(async (req, res) => {
    const hash = createHash('sha256')
    let size = 0
    for await (const piece of req.request_body.stream) {
      hash.update(piece)
      size += piece.length
    }
    res.status(201)
    res.headers({ 'content-type': 'application/json', 'x-of': 'tests' })
    res.stream.end(JSON.stringify({ size, digest: hash.digest('hex'), body: req.body }))
    res.close()
  }),

  down: http(async (req, res) => {
    const hash = createHash('sha256')
    const size = Number(req.query_params.size)
    res.status(200)
    res.headers({ 'content-type': 'application/octet-stream', ...(req.query_params.told ? { 'content-length': String(size) } : {}) })
    for (let left = size; left > 0; ) {
      const piece = bytes(Math.min(left, 100_000))
      hash.update(piece)
      left -= piece.length
      if (!res.stream.write(piece)) await once(res.stream, 'drain')
    }
    res.stream.end()
    say('sent', hash.digest('hex'))
  }),

  echo: http(async (req, res) => {
    res.status(200)
    res.headers({ 'content-type': 'application/octet-stream' })
    await pipeline(req.request_body.stream, res.stream)
  }),

  // Each line that the test types is an event.
  events: http(async (_, res) => {
    res.status(200)
    res.headers({ 'content-type': 'text/event-stream' })
    say('open')
    for (let line; (line = await next()) !== 'end'; ) res.stream.write(`data: ${line}\n\n`)
    res.stream.end()
  }),

  // Nobody waits for it: the call is over before the channel is there.
  hasty: http(async (_, res) => {
    res.status(202)
    res.headers({ 'content-type': 'text/plain' })
    res.stream.end('said in haste')
    res.close()
  }),

  empty: http(async (_, res) => {
    res.status(404)
    res.headers({ 'x-of': 'tests' })
    res.close()
  }),

  plain: async (req) => ({ status_code: 203, headers: { 'content-type': 'text/plain' }, body: `plain ${req.body}` }),

  nothing: async () => {},

  throws: http(async () => {
    throw new Error('before anything was sent')
  }),

  late: http(async (_, res) => {
    res.status(200)
    res.headers({ 'content-type': 'text/plain' })
    res.stream.write('a part')
    await next()
    throw new Error('after the head was sent')
  }),

  breaks: http(async (_, res) => {
    res.status(200)
    res.headers({ 'content-type': 'text/plain' })
    res.stream.write('a part')
    await next()
    res.stream.destroy()
  }),

  dies: http(async (_, res) => {
    res.status(200)
    res.headers({ 'content-type': 'text/plain' })
    res.stream.write('a part')
    await next()
    process.kill(process.pid, 'SIGKILL')
  }),

  // Writes as long as somebody takes it.
  endless: http(async (_, res) => {
    res.status(200)
    res.headers({ 'content-type': 'application/octet-stream' })
    const piece = bytes(65536)
    const closed = new Promise((resolve) => res.stream.on('close', resolve))
    res.stream.on('error', () => {}) // it may have tried to come again
    let size = 0
    for (; !res.stream.destroyed; size += piece.length) {
      const written = new Promise((resolve) => res.stream.write(piece, resolve))
      await Promise.race([written, closed])
      await turn() // else it would not hear that the other end has gone
    }
    say('closed', size)
  }),

  // Reads as long as somebody sends.
  reads: http(async (req, res) => {
    let size = 0
    const closed = (stream) => new Promise((resolve) => stream.on('close', resolve))
    const both = Promise.all([closed(res.stream), closed(req.request_body.stream)])
    req.request_body.stream.on('data', (piece) => {
      if (size === 0) say('reading')
      size += piece.length
    })
    res.status(200)
    res.headers({})
    await both
    say('closed', size)
  }),

  // Answers while the client still sends.
  early: async () => ({ status_code: 409, headers: { 'content-type': 'text/plain' }, body: 'too early' }),
}

for (const [name, handler] of Object.entries(functions)) {
  const id = `cay.http::${name}`
  if (generation >= 11) iii.registerFunction(id, handler)
  else iii.registerFunction({ id }, handler)
  for (const http_method of ['GET', 'POST']) iii.registerTrigger({ type: 'http', function_id: id, config: { api_path: `/cay-http/${name}`, http_method } })
}
for (;;) {
  const { registered_triggers } = await iii.trigger({ function_id: 'engine::registered-triggers::list', payload: {} })
  if (registered_triggers.filter((t) => t.function_id.startsWith('cay.http::')).length === 2 * Object.keys(functions).length) break
}
say('here')
