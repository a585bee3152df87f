// Runs a block of the public page about sandboxes as it is printed, in a program that has connected a genuine iii-sdk:
//   run.mjs FOLDER BLOCK EXPRESSION    prints what the expression is at the block's end, as JSON
import { readFileSync } from 'node:fs'
import { pathToFileURL } from 'node:url'

console.debug = () => {} // where the SDK tells how it connects
const [folder, block, expression] = process.argv.slice(2)
const { registerWorker } = await import(pathToFileURL(`${folder}/node_modules/iii-sdk/dist/index.mjs`))
const iii = registerWorker(process.env.III_URL ?? 'ws://127.0.0.1:49134', { otel: { enabled: false } })
// Of a test framework, as far as the page uses it.
const vi = { fn: () => ({ mockImplementation: (body) => body }) }

const AsyncFunction = (async () => {}).constructor
const body = new AsyncFunction('iii', 'vi', `${readFileSync(block, 'utf8')}\nreturn ${expression}`)
const got = await body(iii, vi)
console.log(JSON.stringify(got) ?? 'undefined')
await iii.shutdown()
process.exit(0)
