// The SDK beside plain node:http, in one process: overhead.js ADDRESS ROUNDS [LIVES]. Prints JSON of what bench/clients.py asks of every language:
// exec_raw and exec (us, by turns), and lives (s for a hundred).

import { Agent, request } from "node:http";
import { Cay } from "@cay/sdk";
import { parseAddress } from "#internal/address.js";

const WARM = 50;

const [address = "http://127.0.0.1:3111", rounds = "300", count = "100"] = process.argv.slice(2);
const { socketPath, host, port } = parseAddress(address);
const cay = new Cay({ baseUrl: address });
const agent = new Agent({ keepAlive: true });

function post(path: string, body: object): Promise<{ exitCode: number }> {
  return new Promise((resolve, reject) => {
    const text = JSON.stringify(body);
    const headers = { "content-type": "application/json", "content-length": Buffer.byteLength(text) };
    const sent = request({ agent, socketPath, host, port, method: "POST", path, headers }, (answer) => {
      const pieces: Buffer[] = [];
      answer.on("data", (piece) => pieces.push(piece));
      answer.on("end", () => resolve(JSON.parse(Buffer.concat(pieces).toString())));
    });
    sent.on("error", reject);
    sent.end(text);
  });
}

async function timed(work: () => Promise<{ exitCode: number }>): Promise<number> {
  const began = process.hrtime.bigint();
  if ((await work()).exitCode !== 0) throw new Error("the command failed");
  return Number(process.hrtime.bigint() - began) / 1000;
}

/** By turns, so that both meet the same noise. */
async function execs(): Promise<{ exec_raw: number[]; exec: number[] }> {
  await using sandbox = await cay.create();
  const path = `/sandbox/sandboxes/${sandbox.id}/exec`;
  const [raw, ours]: [number[], number[]] = [[], []];
  for (let n = -WARM; n < Number(rounds); n++) {
    const one = await timed(() => post(path, { command: ["/bin/true"] }));
    const other = await timed(() => sandbox.exec(["/bin/true"]));
    if (n < 0) continue;
    raw.push(one);
    ours.push(other);
  }
  return { exec_raw: raw, exec: ours };
}

async function life(): Promise<void> {
  await using sandbox = await cay.create();
  await sandbox.exec(["/bin/true"]);
}

/** As somebody writes it who does not think about it: all at once. */
async function lives(): Promise<number> {
  const began = Date.now();
  await Promise.all(Array.from({ length: Number(count) }, life));
  return (Date.now() - began) / 1000;
}

const times = await execs();
await lives();
const hundreds: number[] = [];
for (let n = 0; n < 5; n++) hundreds.push(await lives());
console.log(JSON.stringify({ ...times, lives: hundreds }));
agent.destroy();
