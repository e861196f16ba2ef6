// Tests of the package in Node: node test.mjs MODULE.wasm BECALM…, with whole paths. The command is the native half: it evaluates what the module
// encrypted, and each reads what the other wrote.

import assert from 'node:assert/strict';
import { execFileSync, spawn } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { BecalmError, Service, describe, filesOf, load } from './index.js';

const [wasm, ...becalm] = process.argv.slice(2);
const folder = mkdtempSync(join(tmpdir(), 'becalm-client-'));
let client;
let secret;

/** Runs the native command in the folder, on files that are given by name. */
function native(files, ...args) {
  Object.entries(files).forEach(([name, bytes]) => writeFileSync(join(folder, name), bytes));
  return execFileSync(becalm[0], [...becalm.slice(1), ...args], { cwd: folder, encoding: 'utf8', stdio: ['ignore', 'pipe', 'pipe'] });
}

const made = (name) => new Uint8Array(readFileSync(join(folder, name)));

/** The error of a call, by its kind. */
function kind(work) {
  try {
    work();
  } catch (error) {
    assert.ok(error instanceof BecalmError, String(error));
    assert.ok(error.wanted && error.got && error.remedy);
    return error.kind;
  }
  return assert.fail('no error');
}

before(async () => {
  client = await load(readFileSync(wasm));
  secret = client.generate('tfhe_2_2');
});
after(() => rmSync(folder, { recursive: true }));

test('values come back, and fresh noise is that of the formula', () => {
  const values = Array.from({ length: 200 }, (_, i) => i % 16);
  for (const seeded of [true, false]) {
    const file = secret.encrypt(values, { seeded });
    assert.deepEqual(secret.decrypt(file), values);
    assert.equal(describe(file).kind, 'becalm.lwe');
    const errors = secret.errors(file, values);
    const std = Math.sqrt(errors.reduce((sum, e) => sum + e * e, 0) / errors.length);
    // A standard deviation of 200 samples is within 20 % but for one case in 10^4.
    assert.ok(std > 0.7 * secret.facts().fresh && std < 1.3 * secret.facts().fresh, `${std}`);
  }
});

test('two encryptions of one value share no bytes', () => {
  const [a, b] = [0, 1].map(() => describe(secret.encrypt([3], { seeded: false })).tensors[0].bytes);
  const same = a.filter((byte, i) => byte === b[i]).length;
  assert.ok(a.length === 8 * 2049 && same < a.length / 100, `${same}`);
});

test('integers of every small type come back', () => {
  for (const [type, values] of [
    ['bool', [0n, 1n]],
    ['uint7', [0n, 100n, 127n]],
    ['int16', [-32768n, -1n, 32767n]],
    ['uint64', [2n ** 64n - 1n]],
  ]) {
    const files = secret.encryptIntegers(type, values);
    assert.deepEqual(secret.decryptIntegers(type, files), values, type);
  }
});

test('the command decrypts what the module encrypted, and the module what the command encrypted', () => {
  const key = secret.exposeSecret();
  const out = native({ key, x: secret.encrypt([3, 1, 2]) }, 'decrypt', '--secret', 'key', 'x');
  assert.equal(out.trim(), '3,1,2');
  native({}, 'encrypt', '--secret', 'key', '--values', '9,0,15', '--out', 'theirs');
  assert.deepEqual(secret.decrypt(made('theirs')), [9, 0, 15]);
  const again = client.secretKey(key);
  assert.deepEqual(again.decrypt(made('theirs')), [9, 0, 15]);
  again.free();
  assert.equal(kind(() => again.facts()), 'bad_input');
});

test('the command evaluates with a key of the module', () => {
  const table = Array.from({ length: 16 }, (_, x) => (x * x + 1) % 16);
  const files = {
    evaluation: secret.evaluationKey(),
    program: client.program.table('tfhe_2_2', table),
    x: secret.encrypt([0, 3, 15]),
  };
  native(files, 'eval', '--evaluation', 'evaluation', '--program', 'program', 'x', '--out', 'y');
  assert.deepEqual(secret.decrypt(made('y')), [1, 10, 2]);
  // The digits of an age, compared with 18.
  const digits = secret.encryptIntegers('uint7', [17, 18, 90]);
  const names = digits.map((_, i) => `digit${i}`);
  const inputs = Object.fromEntries(names.map((name, i) => [name, digits[i]]));
  const program = client.program.operation('tfhe_2_2', 'ge', 'uint7', 18);
  native({ program, ...inputs }, 'eval', '--evaluation', 'evaluation', '--program', 'program', ...names, '--out', 'old');
  assert.deepEqual(secret.decryptIntegers('bool', [made('old')]), [0n, 1n, 1n]);
});

test('errors are typed, and hold no value', () => {
  assert.equal(kind(() => client.generate('toy_2_2')), 'insecure');
  assert.equal(kind(() => client.generate('tfhe_9_9')), 'wrong_params');
  assert.equal(kind(() => secret.encrypt([16])), 'bad_input');
  assert.equal(kind(() => secret.encrypt([0.5])), 'bad_input');
  assert.equal(kind(() => secret.encryptIntegers('uint7', [128])), 'bad_input');
  assert.equal(kind(() => secret.encryptIntegers('uint65', [1])), 'bad_input');
  assert.equal(kind(() => client.program.operation('tfhe_2_2', 'no such', 'uint7', 1)), 'bad_input');
  const file = secret.encrypt([1]);
  file[file.length - 1] ^= 1;
  assert.equal(kind(() => secret.decrypt(file)), 'bad_file');
  assert.equal(kind(() => secret.decrypt(file.subarray(0, 100))), 'bad_file');
  const other = client.generate();
  assert.equal(kind(() => other.decrypt(secret.encrypt([1]))), 'wrong_key');
  assert.equal(kind(() => filesOf(new Uint8Array(9).fill(1))), 'bad_input');
  assert.equal(kind(() => describe(new Uint8Array(3))), 'bad_input');
});

test('a digest is that of BLAKE3', () => {
  const empty = 'af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262';
  assert.equal(client.digest(new Uint8Array(0)), empty);
});

test('without random numbers the module does not start, and a source that fails makes no key', async () => {
  const real = Object.getOwnPropertyDescriptor(globalThis, 'crypto');
  const replace = (value) => Object.defineProperty(globalThis, 'crypto', { value, configurable: true, writable: true });
  try {
    replace(undefined);
    await assert.rejects(load(readFileSync(wasm)), (error) => error.kind === 'unsupported');
    replace({ getRandomValues: () => { throw new Error('none'); } });
    const poor = await load(readFileSync(wasm));
    assert.equal(kind(() => poor.generate()), 'io');
  } finally {
    Object.defineProperty(globalThis, 'crypto', real);
  }
});

/** A demo of the command, which ends with the test. */
async function served(t) {
  const args = [...becalm.slice(1), 'demo', '--json', '--device', 'cpu', '--client', wasm];
  const child = spawn(becalm[0], args, { stdio: ['ignore', 'pipe', 'inherit'] });
  t.after(() => child.kill());
  let text = '';
  for await (const piece of child.stdout) {
    text += piece;
    if (text.trim().endsWith('}')) {
      break;
    }
  }
  const { origin, hash } = new URL(JSON.parse(text).address);
  return [origin, hash.slice(1)];
}

/** The first 256 bits of a key as they might stand in a request: in words, in bytes, and packed either way. */
function forms(bits) {
  const pack = (bit) => Buffer.from(Array.from({ length: 32 }, (_, i) => bits.slice(8 * i, 8 * i + 8).reduce(bit, 0)));
  return [
    Buffer.from(BigUint64Array.from(bits, BigInt).buffer),
    Buffer.from(bits),
    pack((byte, x, i) => byte | (x << i)),
    pack((byte, x, i) => byte | (x << (7 - i))),
  ];
}

test('a service computes, and no request holds the secret', async (t) => {
  const [address, token] = await served(t);
  const sent = [];
  const service = new Service(client, address, token, { seen: ({ sent: body }) => body && sent.push(body) });
  const keys = await service.put(secret.evaluationKey());
  const program = client.program.stretch('tfhe_2_2', 5);
  const inputs = [secret.encrypt([0, 1, 2, 3], { below: 4, seeded: false })];
  const files = await service.run({ program, keys, inputs, lanes: 4 });
  assert.deepEqual(files.map((file) => secret.decrypt(file)), [[0, 1, 2, 3], [0, 5, 10, 15], [0, 5, 10, 15]]);
  const { tensors } = describe(secret.exposeSecret());
  assert.deepEqual(tensors.map(({ name }) => name).sort(), ['big', 'small']);
  for (const { bytes } of tensors) {
    const bits = Array.from({ length: 256 }, (_, i) => bytes[8 * i]);
    assert.ok(bits.every((bit) => bit < 2) && new Set(bits).size === 2);
    for (const form of forms(bits)) {
      assert.ok(sent.every((body) => Buffer.from(body).indexOf(form) === -1));
    }
  }
  // The service refuses a secret before it keeps a byte of it.
  await assert.rejects(service.put(secret.exposeSecret()), (error) => error.kind === 'bad_input' && /secret/.test(error.got + error.remedy));
  await assert.rejects(new Service(client, address, 'x'.repeat(64)).put(inputs[0]), (error) => /token/.test(error.wanted));
  const page = await fetch(`${address}/`);
  assert.match(page.headers.get('content-security-policy'), /default-src 'none'/);
  assert.equal((await fetch(`${address}/nothing`)).status, 404);
});
