// A genuine iii-sdk of npm on both sides of a listener with rbac: the operator's worker at III_URL, which has the auth function, the hooks and
// the middleware, and a client of the listener at III_RBAC_URL.
//   rbac.mjs FOLDER
import assert from 'node:assert/strict'
import { pathToFileURL } from 'node:url'

const [folder] = process.argv.slice(2)
const { registerWorker } = await import(pathToFileURL(`${folder}/node_modules/iii-sdk/dist/index.mjs`))
const soon = { initialDelayMs: 50, maxDelayMs: 200, jitterFactor: 0 }
const done = (step) => console.log(`ok ${step}`)
const call = (iii, function_id, payload = {}) => iii.trigger({ function_id, payload, timeoutMs: 60_000 })
const refusal = (promise) => promise.then((got) => assert.fail(`it gave ${JSON.stringify(got)}`), (error) => error.code)

async function listed(iii, id) {
  for (;;) {
    const { functions } = await call(iii, 'engine::functions::list', { prefix: id })
    if (functions.some((f) => f.function_id === id)) return
  }
}

const operator = registerWorker(process.env.III_URL, { workerName: 'operator', reconnectionConfig: soon })
operator.registerFunction('ops::auth', async (input) => {
  const key = input.headers['authorization']?.replace(/^Bearer\s+/i, '')
  if (key !== 'of-the-tests') throw new Error('wrong key')
  return {
    allowed_functions: ['demo::allowed'],
    forbidden_functions: ['demo::secret'],
    allow_trigger_type_registration: false,
    function_registration_prefix: 'ann',
    context: { user_id: input.query_params.user[0], ip: input.ip_address },
  }
})
operator.registerFunction('ops::middleware', async (input) =>
  call(operator, input.function_id, { ...input.payload, by: input.context.user_id, from: input.context.ip }))
operator.registerFunction('ops::on-function', async (input) => {
  if (input.function_id.startsWith('denied::')) throw new Error('denied')
  return { metadata: { ...input.metadata, by: input.context.user_id } }
})
for (const id of ['demo::echo', 'demo::secret', 'demo::allowed', 'other::echo']) operator.registerFunction(id, async (input) => ({ id, ...input }))
await listed(operator, 'other::echo')

const client = registerWorker(`${process.env.III_RBAC_URL}/?user=ann`, {
  workerName: 'client',
  headers: { Authorization: 'Bearer of-the-tests' },
  reconnectionConfig: soon,
  otel: { enabled: false },
})
const { _caller_worker_id, ...echoed } = await call(client, 'demo::echo', { word: 'hello' })
assert.deepEqual(echoed, { id: 'demo::echo', word: 'hello', by: 'ann', from: '127.0.0.1' })
done('middleware')
assert.equal((await call(client, 'demo::allowed')).id, 'demo::allowed')
assert.equal(await refusal(call(client, 'demo::secret')), 'FORBIDDEN')
assert.equal(await refusal(call(client, 'other::echo')), 'FORBIDDEN')
assert.equal(await refusal(call(client, 'sandbox::list')), 'FORBIDDEN')
done('rules')

client.registerFunction('denied::mine', async () => 1)
client.registerFunction('mine', async (input) => ({ mine: input.word }))
await listed(operator, 'ann::mine')
const { metadata } = await call(operator, 'engine::functions::info', { function_id: 'ann::mine' })
assert.equal(metadata.by, 'ann')
assert.equal((await call(operator, 'ann::mine', { word: 'w' })).mine, 'w')
assert.equal(await refusal(call(operator, 'ann::denied::mine')), 'function_not_found')
done('registrations')
process.exit(0)
