// Uses the endpoint with a genuine iii-sdk of npm, whichever generation is in the folder:
//   client.mjs FOLDER steps    every step of steps.txt, with III_SIZE bytes through channels
//   client.mjs FOLDER stay     stays connected, while its daemon comes and goes
import assert from 'node:assert/strict'
import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { createInterface } from 'node:readline'
import { pathToFileURL } from 'node:url'

const [folder, mode] = process.argv.slice(2)
const sdkFolder = `${folder}/node_modules/iii-sdk`
const version = JSON.parse(readFileSync(`${sdkFolder}/package.json`, 'utf8')).version
const generation = Number(version.split('.')[1])
const load = (name) => import(pathToFileURL(`${sdkFolder}/dist/${name}.mjs`))
const sdk = await load('index')
const { ChannelReader } = generation >= 22 ? await load('channel') : sdk
const helpers = generation >= 22 ? await load('helpers') : null

const url = process.env.III_URL
const size = Number(process.env.III_SIZE ?? 1 << 20)
console.debug = () => {} // generation 9 tells there how it connects

const connect = (workerName) =>
  sdk.registerWorker(url, { workerName, reconnectionConfig: { initialDelayMs: 50, maxDelayMs: 200, jitterFactor: 0 } })

// ---- what differs from one generation to the next ----

const register = (iii, id, handler, options) =>
  generation >= 11 ? iii.registerFunction(id, handler, options) : iii.registerFunction({ id, ...options }, handler)

const makeChannel = (iii) => (helpers ? helpers.createChannel(iii) : iii.createChannel())

// 9 rejects with the bare {code, message}, 11 with IIIInvocationError, 22 with InvocationError; the later two put the code first.
const textOf = (error) => (generation >= 11 ? error.message.replace(/^[A-Za-z_]+: /, '') : error.message)

// ---- calls ----

const call = (iii, function_id, payload = {}) => iii.trigger({ function_id, payload, timeoutMs: 60_000 })

async function failure(promise) {
  const error = await promise.then(
    (result) => assert.fail(`it gave ${JSON.stringify(result)}`),
    (error) => error,
  )
  if (error instanceof assert.AssertionError) throw error
  assert.equal(typeof error.code, 'string')
  return error
}

// The S-code and all else that a sandbox function says, cut out as the public pages show it.
async function envelope(promise) {
  const error = await failure(promise)
  assert.equal(error.code, 'invocation_failed')
  const match = error.message.match(/handler error:\s*(\{.*\})/s)
  assert.ok(match, error.message)
  return JSON.parse(match[1])
}

async function code(promise) {
  return (await envelope(promise)).code
}

const done = (step) => console.log(`ok ${step}`)
const digest = (data) => createHash('sha256').update(data).digest('hex')
const nobody = '00000000-0000-4000-8000-000000000000'

// Registrations are not acknowledged: it is there when it is listed.
async function listed(iii, id) {
  for (;;) {
    const { functions } = await call(iii, 'engine::functions::list', { prefix: id })
    const found = functions.find((f) => f.function_id === id)
    if (found) return found
  }
}

// ---- the steps ----

async function functions(a, b) {
  const seen = []
  register(
    a,
    'cay.test::add',
    async (input, metadata) => {
      seen.push({ input, metadata })
      if (input.fail) throw new Error('on purpose')
      return { sum: input.x + input.y }
    },
    { description: 'adds', metadata: { of: 'tests' } },
  )
  const row = await listed(b, 'cay.test::add')
  assert.equal(row.description, 'adds')
  assert.deepEqual(row.metadata, { of: 'tests' })
  done('register')

  assert.deepEqual(await call(b, 'cay.test::add', { x: 2, y: 3 }), { sum: 5 })
  assert.equal(seen[0].input.x, 2)
  const error = await failure(call(b, 'cay.test::add', { fail: true }))
  assert.equal(error.code, 'invocation_failed')
  assert.match(textOf(error), /on purpose/)
  const many = await Promise.all(Array.from({ length: 50 }, (_, x) => call(b, 'cay.test::add', { x, y: 1 })))
  assert.deepEqual(many.map((m) => m.sum), Array.from({ length: 50 }, (_, x) => x + 1))
  done('call')

  await b.trigger({ function_id: 'cay.test::add', payload: { x: 1, y: 1 }, metadata: { tenant: 'blue' } })
  if (generation >= 22) assert.deepEqual(seen.at(-1).metadata, { tenant: 'blue' })
  done('metadata')

  const arrived = new Promise((resolve) => register(a, 'cay.test::void', async (input) => resolve(input)))
  await listed(b, 'cay.test::void')
  const nothing = await b.trigger({ function_id: 'cay.test::void', payload: { word: 'fire' }, action: sdk.TriggerAction.Void() })
  assert.equal(nothing, undefined)
  assert.equal((await arrived).word, 'fire')
  done('void')

  await enqueue(b)
  await trigger(b)
  assert.equal((await failure(call(b, 'cay.test::no-such'))).code, 'function_not_found')
  done('unknown')
}

async function enqueue(b) {
  const action = sdk.TriggerAction.Enqueue({ queue: 'jobs' })
  const error = await failure(b.trigger({ function_id: 'cay.test::add', payload: { x: 1, y: 1 }, action }))
  assert.equal(error.code, 'enqueue_error')
  assert.match(error.message, /genuine iii engine/)
  done('enqueue')
}

// A trigger and a type of triggers are refused or ignored, and the connection goes on.
async function trigger(b) {
  const bound = b.registerTrigger({ type: 'cron', function_id: 'cay.test::add', config: { expression: '* * * * * *' } })
  b.registerTriggerType({ id: 'cay.test.type', description: 'of tests' }, {
    registerTrigger: async () => {},
    unregisterTrigger: async () => {},
  })
  assert.deepEqual((await call(b, 'engine::registered-triggers::list')).registered_triggers, [])
  bound.unregister()
  b.unregisterTriggerType({ id: 'cay.test.type', description: 'of tests' })
  assert.equal((await call(b, 'cay.test::add', { x: 1, y: 2 })).sum, 3)
  done('trigger')
}

async function commands(iii, id) {
  const exec = (fields) => call(iii, 'sandbox::exec', { sandbox_id: id, ...fields })
  const out = await exec({ cmd: 'python3', args: ['-c', 'import sys; print("hi"); print("there", file=sys.stderr); sys.exit(3)'] })
  assert.equal(out.stdout, 'hi\n')
  assert.equal(out.stderr, 'there\n')
  assert.deepEqual([out.exit_code, out.success, out.timed_out], [3, false, false])
  assert.equal(typeof out.duration_ms, 'number')
  const typed = await exec({ cmd: 'cat', stdin: Buffer.from('typed\n').toString('base64') })
  assert.equal(typed.stdout, 'typed\n')
  assert.equal((await exec({ cmd: 'no-such-program' })).exit_code, 127)
  assert.equal((await exec({ cmd: 'pwd', workdir: '/usr' })).stdout, '/usr\n')
  done('exec')

  assert.equal((await exec({ argv: ['echo', 'a  b'] })).stdout, 'a  b\n')
  assert.equal((await exec({ cmd: "echo 'c  d' e" })).stdout, 'c  d e\n')
  assert.equal(await code(exec({ cmd: 'echo x', args: ['y'] })), 'S001')
  done('exec-shapes')

  const env = { cmd: 'sh', args: ['-c', 'echo $A-$B-$C'] }
  assert.equal((await exec(env)).stdout, '1-2-\n')
  assert.equal((await exec({ ...env, env: ['B=3', 'C=4'] })).stdout, '1-3-4\n')
  assert.equal((await exec({ ...env, env: { C: '5' } })).stdout, '1-2-5\n')
  done('env')

  const lost = await envelope(call(iii, 'sandbox::exec', { sandbox_id: nobody, cmd: 'true' }))
  assert.deepEqual([lost.type, lost.code, lost.retryable], ['validation', 'S002', false])
  assert.match(lost.docs_url, /#S002$/i)
  assert.equal(await code(call(iii, 'sandbox::exec', { sandbox_id: 'no-uuid', cmd: 'true' })), 'S001')
  assert.equal(await code(exec({ cmd: 'true', stdin: '!!!' })), 'S001')
  const slow = await envelope(exec({ cmd: 'sleep', args: ['1000'], timeout_ms: 100 }))
  assert.deepEqual([slow.type, slow.code], ['execution', 'S200'])
  assert.equal(await code(call(iii, 'sandbox::create', { image: 'no.such.host.invalid/x:1' })).then((c) => /^S10[02]$/.test(c)), true)
  done('errors')
}

async function files(iii, id) {
  const fs = (what, fields) => call(iii, `sandbox::fs::${what}`, { sandbox_id: id, ...fields })
  assert.deepEqual(await fs('mkdir', { path: '/tmp/d/e', parents: true }), { created: true })
  assert.equal(await code(fs('mkdir', { path: '/tmp/d' })), 'S213')
  done('mkdir')

  const wrote = await fs('write', { path: '/tmp/d/a.txt', content: 'one\ntwo\nthree\n', mode: '0600' })
  assert.deepEqual(wrote, { bytes_written: 14, path: '/tmp/d/a.txt' })
  const raw = await fs('write', { path: '/tmp/d/b.bin', content_b64: Buffer.from([0, 255, 1]).toString('base64') })
  assert.equal(raw.bytes_written, 3)
  const parent = await envelope(fs('write', { path: '/tmp/none/x', content: '' }))
  assert.equal(parent.code, 'S211')
  assert.deepEqual(parent.fix, { parents: true })
  done('write')

  const about = await fs('stat', { path: '/tmp/d/a.txt' })
  assert.deepEqual([about.name, about.is_dir, about.is_symlink, about.size, about.mode], ['a.txt', false, false, 14, '0600'])
  assert.ok(Number.isInteger(about.mtime))
  assert.equal(await code(fs('stat', { path: '/tmp/none' })), 'S211')
  done('stat')

  const { entries } = await fs('ls', { path: '/tmp/d' })
  assert.deepEqual(entries.map((e) => e.name).sort(), ['a.txt', 'b.bin', 'e'])
  assert.equal(await code(fs('ls', { path: '/tmp/d/a.txt' })), 'S212')
  done('ls')

  const got = await fs('read', { path: '/tmp/d/a.txt' })
  assert.deepEqual([got.size, got.mode, got.body], [14, '0600', 'one\ntwo\nthree\n'])
  assert.equal((await new ChannelReader(url, got.content).readAll()).toString(), 'one\ntwo\nthree\n')
  assert.equal(await code(fs('read', { path: '/tmp/d' })), 'S212')
  done('read')

  const found = await fs('grep', { path: '/tmp/d', pattern: '^t' })
  assert.deepEqual(found.matches.map((m) => [m.path, m.line, m.content]), [
    ['/tmp/d/a.txt', 2, 'two'],
    ['/tmp/d/a.txt', 3, 'three'],
  ])
  assert.equal(found.truncated, false)
  assert.equal(await code(fs('grep', { path: '/tmp/d', pattern: '(' })), 'S217')
  done('grep')

  const swapped = await fs('sed', { files: ['/tmp/d/a.txt'], pattern: 't(\\w)', replacement: 'T$1' })
  assert.equal(swapped.total_replacements, 2)
  assert.deepEqual([swapped.results[0].path, swapped.results[0].success], ['/tmp/d/a.txt', true])
  assert.equal((await fs('read', { path: '/tmp/d/a.txt' })).body, 'one\nTwo\nThree\n')
  done('sed')

  assert.deepEqual(await fs('chmod', { path: '/tmp/d', mode: '0700', recursive: true }), { updated: 4 })
  assert.equal((await fs('stat', { path: '/tmp/d/b.bin' })).mode, '0700')
  done('chmod')

  assert.deepEqual(await fs('mv', { src: '/tmp/d/a.txt', dst: '/tmp/d/c.txt' }), { moved: true })
  assert.equal(await code(fs('mv', { src: '/tmp/d/c.txt', dst: '/tmp/d/b.bin' })), 'S213')
  done('mv')

  assert.equal(await code(fs('rm', { path: '/tmp/d' })), 'S214')
  assert.deepEqual(await fs('rm', { path: '/tmp/d', recursive: true }), { removed: true })
  assert.equal(await code(fs('rm', { path: '/tmp/d' })), 'S211')
  done('rm')
}

async function oneShots(iii) {
  const ran = await call(iii, 'sandbox::run', {
    image: 'host',
    lang: 'python',
    code: 'import helper; print(helper.word)',
    files: [{ path: '/tmp/helper.py', content: 'word = "from a file"\n' }],
  })
  assert.deepEqual([ran.stdout, ran.exit_code, ran.sandbox_id], ['from a file\n', 0, undefined])
  const inner = await envelope(call(iii, 'sandbox::run', { image: 'no.such.host.invalid/x:1', lang: 'sh', code: 'true' }))
  assert.equal(inner.fix.inner_code, inner.code)
  assert.equal(inner.fix.sandbox_id, '')
  done('run')

  const { images } = await call(iii, 'sandbox::catalog::list')
  assert.deepEqual(images.slice(0, 2).map((i) => [i.name, i.kind]), [
    ['python', 'preset'],
    ['node', 'preset'],
  ])
  assert.ok(images.every((i) => typeof i.oci_ref === 'string'))
  done('catalog')
}

async function bytes(a, b, id) {
  const data = randomBytes(size)
  const up = await makeChannel(a)
  const writing = call(a, 'sandbox::fs::write', { sandbox_id: id, path: '/tmp/big', content: up.readerRef })
  up.writer.stream.end(data)
  assert.equal((await writing).bytes_written, size)
  const sum = await call(a, 'sandbox::exec', { sandbox_id: id, cmd: 'sha256sum', args: ['/tmp/big'] })
  assert.equal(sum.stdout.split(' ')[0], digest(data))
  done('upload')

  const got = await call(a, 'sandbox::fs::read', { sandbox_id: id, path: '/tmp/big' })
  assert.equal(got.size, size)
  assert.equal(digest(await new ChannelReader(url, got.content).readAll()), digest(data))
  await call(a, 'sandbox::fs::rm', { sandbox_id: id, path: '/tmp/big' })
  done('download')

  // From one client to another: text beside bytes, and refs in what a handler is given are live ends.
  register(a, 'cay.test::drain', async (input) => {
    const texts = []
    input.from.onMessage((text) => texts.push(text))
    const all = await input.from.readAll()
    return { bytes: all.length, digest: digest(all), texts }
  })
  await listed(b, 'cay.test::drain')
  const between = await makeChannel(b)
  const draining = call(b, 'cay.test::drain', { from: between.readerRef })
  between.writer.sendMessage('first')
  between.writer.stream.end(data.subarray(0, 300_000))
  const drained = await draining
  assert.deepEqual([drained.bytes, drained.digest], [Math.min(size, 300_000), digest(data.subarray(0, 300_000))])
  assert.deepEqual(drained.texts, ['first'])
  done('channel')
}

async function introspection(a, b) {
  const info = await call(b, 'engine::functions::info', { function_id: 'cay.test::add' })
  assert.equal(info.worker_name, 'cay-test-a')
  const { functions } = await call(b, 'engine::functions::list')
  const ids = functions.map((f) => f.function_id)
  assert.ok(ids.includes('sandbox::create') && ids.includes('sandbox::fs::sed'))
  const { workers } = await call(b, 'engine::workers::list')
  const me = workers.find((w) => w.name === 'cay-test-a')
  assert.deepEqual([me.runtime, me.version], ['node', version])
  done('functions')
}

async function steps() {
  const [a, b] = [connect('cay-test-a'), connect('cay-test-b')]
  await functions(a, b)
  const { sandbox_id: id, image } = await call(a, 'sandbox::create', { image: 'host', name: 'steps', env: ['A=1', 'B=2'] })
  assert.match(id, /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/)
  assert.equal(image, 'host')
  done('create')
  await commands(a, id)
  const { sandboxes } = await call(b, 'sandbox::list')
  const row = sandboxes.find((s) => s.sandbox_id === id)
  assert.deepEqual([row.name, row.image, row.exec_in_progress, row.stopped], ['steps', 'host', false, false])
  assert.equal(typeof row.age_secs, 'number')
  done('list')
  await files(a, id)
  await oneShots(a)
  await bytes(a, b, id)
  await introspection(a, b)
  assert.deepEqual(await call(a, 'sandbox::stop', { sandbox_id: id, wait: true }), { sandbox_id: id, stopped: true })
  assert.equal(await code(call(a, 'sandbox::stop', { sandbox_id: id })), 'S002')
  done('stop')
  for (const iii of [a, b]) await iii.shutdown() // one after the other: they share their telemetry
}

// ---- while the daemon comes and goes ----

// Commands, one a line: "create" and "exec ID COMMAND" (which is begun, not waited for), "list" (its ids), "leave".
async function stay() {
  const iii = connect('cay-test-stay')
  register(iii, 'cay.test::echo', async (input) => ({ word: input.word, from: version }))
  await listed(iii, 'cay.test::echo')
  console.log('here')
  const begun = []
  for await (const line of createInterface({ input: process.stdin })) {
    const [what, id, ...words] = line.split(' ')
    if (what === 'create') console.log(`created ${(await call(iii, 'sandbox::create', { image: 'host' })).sandbox_id}`)
    else if (what === 'exec') {
      begun.push(iii.trigger({ function_id: 'sandbox::exec', payload: { sandbox_id: id, argv: words }, timeoutMs: 600_000 }).catch((e) => e))
    } else if (what === 'list') {
      const { sandboxes } = await call(iii, 'sandbox::list')
      console.log(`listed ${sandboxes.map((s) => s.sandbox_id).join(' ')}`)
    } else if (what === 'leave') break
  }
  await iii.shutdown()
  for (const error of await Promise.all(begun)) console.log(`begun ${error instanceof Error ? 'failed' : `gave ${JSON.stringify(error)}`}`)
}

await { steps, stay }[mode]()
process.exit(0)
