import assert from "node:assert/strict";
import { test } from "node:test";
import { chosenAddress, chosenToken, parseAddress } from "#internal/address.js";

const withEnv = (env: Record<string, string>, work: () => void) => {
  const before = { ...process.env };
  Object.assign(process.env, env);
  try {
    work();
  } finally {
    for (const name of Object.keys(env)) delete process.env[name];
    Object.assign(process.env, before);
  }
};

test("every form of an address is understood", () => {
  const table: [string, string][] = [
    ["unix:/run/cay/cay.sock", "unix:/run/cay/cay.sock"],
    ["unix:///run/cay/cay.sock", "unix:/run/cay/cay.sock"],
    ["/tmp/s", "unix:/tmp/s"],
    ["http://localhost:3111/", "http://localhost:3111"],
    ["http://h", "http://h:80"],
    ["https://h/cay/", "https://h:443/cay"],
    ["h", "http://h:3111"],
    ["h:80", "http://h:80"],
    ["[::1]:9", "http://[::1]:9"],
  ];
  for (const [address, url] of table) assert.equal(parseAddress(address).url, url, address);
  assert.equal(parseAddress("[::1]:9").host, "::1");
  assert.throws(() => parseAddress("http://a b"), /no address of a daemon/);
  assert.throws(() => parseAddress("ftp://h"), /no address of a daemon/);
});

test("an argument wins over the environment, whose names have an order", () => {
  withEnv({ CAY_HOST: "a", CAY_URL: "b", III_SANDBOX_URL: "c" }, () => {
    assert.equal(chosenAddress("d")?.host, "d");
    assert.equal(chosenAddress()?.host, "a");
  });
  withEnv({ CAY_URL: "b", III_SANDBOX_URL: "c" }, () => assert.equal(chosenAddress()?.host, "b"));
  withEnv({ III_SANDBOX_URL: "c" }, () => assert.equal(chosenAddress()?.host, "c"));
  withEnv({ CAY_TOKEN: "t", CAY_AUTH_TOKEN: "u" }, () => assert.equal(chosenToken(), "t"));
  withEnv({ III_AUTH_TOKEN: "v" }, () => assert.deepEqual([chosenToken(), chosenToken("w")], ["v", "w"]));
});
