// The owner's side: it makes the keys, encrypts and decrypts, and talks to the service. The page gets answers and never a key.

import { BecalmError, Service, describe, load } from './becalm-client.js';

const SET = 'tfhe_2_2';
/** Ages have 7 bits. */
const AGE = 'uint7';
/** Bytes of a request that the page shows. */
const SHOWN = 512;
/** Bytes of a request that are counted. */
const COUNTED = 1 << 20;

let client;
let service;
let secret;
let keys;
let real;
let realKeys;

/** What of an exchange the page shows: sizes, the kind, the first bytes, and how often each byte occurs in the ciphertexts. */
async function seen({ method, path, status, sent, received, milliseconds }) {
  const file = method === 'PUT' && path.startsWith('/v1/files/');
  const size = sent?.size ?? sent?.length ?? 0;
  const about = { method, path, status, milliseconds, sent: size, received: received.length };
  if (sent instanceof Blob) {
    about.head = new Uint8Array(await sent.slice(-COUNTED).arrayBuffer());
    Object.assign(about, { kind: 'becalm.ckks_evaluation_keys', counts: counted(about.head) });
  } else if (file) {
    Object.assign(about, facts(sent));
  } else if (method === 'GET' && path.includes('/chunks/') && received.length > 8) {
    // What the server made is no secret of the page: it is named, and not counted.
    Object.assign(about, facts(received.subarray(8)), { counts: undefined });
  }
  about.head = (about.head ?? sent ?? received).slice(0, SHOWN);
  postMessage({ exchange: about });
}

function counted(bytes) {
  const counts = new Uint32Array(256);
  bytes.subarray(0, COUNTED).forEach((byte) => counts[byte]++);
  return counts;
}

function facts(file) {
  const { kind, facts, tensors } = describe(file);
  const { format, version, checksum, params, ...rest } = facts;
  const found = { kind, facts: { ...rest, set: params ? JSON.parse(params).name : undefined } };
  const names = { 'becalm.lwe': 'words', 'becalm.evaluation_key': 'bootstrap', 'becalm.rlwe': 'c0' };
  const tensor = tensors.find((tensor) => tensor.name === names[kind]);
  if (tensor) {
    found.counts = counted(tensor.bytes);
    found.head = tensor.bytes;
  }
  return found;
}

/** The result of work, and how long it took. */
async function timed(work) {
  const began = performance.now();
  const result = await work();
  return [result, performance.now() - began];
}

const operations = {
  async start({ token, address }) {
    client = await load(fetch('becalm_client.wasm'));
    service = new Service(client, address, token, { seen });
    return { version: client.version };
  },

  async keys() {
    const [made, make] = await timed(() => {
      secret = client.generate(SET);
      return secret.evaluationKey();
    });
    const [digest, send] = await timed(() => service.put(made));
    keys = digest;
    return { facts: secret.facts(), bytes: made.length, make, send };
  },

  async age({ age, least }) {
    const program = client.program.operation(SET, 'ge', AGE, least);
    const inputs = secret.encryptIntegers(AGE, [age], { seeded: false });
    const [files, milliseconds] = await timed(() => service.run({ program, keys, inputs, lanes: 1 }));
    const [answer] = secret.decryptIntegers('bool', files);
    const sent = inputs.reduce((sum, file) => sum + file.length, 0);
    return { allowed: answer === 1n, milliseconds, ciphertexts: inputs.length, sent };
  },

  async table({ table }) {
    const values = table.map((_, i) => i);
    const program = client.program.table(SET, table);
    const inputs = [secret.encrypt(values, { seeded: false })];
    const [[file], milliseconds] = await timed(() =>
      service.run({ program, keys, inputs, lanes: values.length }),
    );
    return { results: secret.decrypt(file), milliseconds, sent: inputs[0].length };
  },

  async noise({ factor, count }) {
    const { values, bootstrapped, margin, fresh } = secret.facts();
    const below = Math.floor((values - 1) / factor) + 1;
    const plain = Array.from({ length: count }, (_, i) => i % below);
    const program = client.program.stretch(SET, factor);
    const inputs = [secret.encrypt(plain, { below, seeded: false })];
    const [files, milliseconds] = await timed(() =>
      service.run({ program, keys, inputs, lanes: count }),
    );
    const multiples = plain.map((x) => x * factor);
    const wanted = [plain, multiples, multiples];
    const wrong = files.flatMap((file, i) => secret.decrypt(file).filter((x, j) => x !== wanted[i][j]));
    const measured = files.map((file, i) => secret.errors(file, wanted[i]));
    const formula = [bootstrapped, factor * bootstrapped, bootstrapped];
    return { measured, formula, margin, fresh, wrong: wrong.length, milliseconds };
  },

  async ckksKeys() {
    real ??= client.generateCkks();
    const [{ digest, file }, make] = await timed(() =>
      real.evaluationKeys((done, all) => postMessage({ progress: done / all })),
    );
    const [stored, send] = await timed(() => service.put(file, digest));
    realKeys = stored;
    return { facts: real.facts(), bytes: file.size, make, send };
  },

  async ckks({ values }) {
    const x = real.encrypt(values);
    const before = real.decrypt(x);
    const [[file], milliseconds] = await timed(() =>
      service.run({ program: real.program(), keys: realKeys, inputs: [x], lanes: 1 }),
    );
    const level = (file) => Number(describe(file).facts.level);
    return { before, after: real.decrypt(file), levels: [level(x), level(file)], milliseconds, sent: x.length };
  },
};

onmessage = async ({ data: { id, op, args } }) => {
  try {
    postMessage({ id, result: await operations[op](args ?? {}) });
  } catch (error) {
    const known = error instanceof BecalmError;
    const { kind, wanted, got, remedy } = error;
    const fault = known ? { kind, wanted, got, remedy } : { kind: 'io', wanted: 'an answer', got: String(error), remedy: 'see whether `becalm demo` still runs' };
    postMessage({ id, fault });
  }
};
