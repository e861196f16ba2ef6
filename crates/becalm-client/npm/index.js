// The client half of becalm. Keys are made, and values encrypted and decrypted, in this process: nothing here sends a secret.
// index.d.ts describes every function. The names of functions with a secret result say so.

/** An error of becalm: what was wanted, what came, and what to do. */
export class BecalmError extends Error {
  constructor({ kind, op = 'client', wanted, got, remedy, missing = [] }) {
    super(`${op}: wanted ${wanted}, got ${got}; ${remedy}`);
    this.name = 'BecalmError';
    Object.assign(this, { kind, op, wanted, got, remedy, missing });
  }
}

function bad(wanted, got, remedy) {
  return new BecalmError({ kind: 'bad_input', wanted, got, remedy });
}

/** The most bytes that `crypto.getRandomValues` fills at once. */
const RANDOM_PIECE = 65536;

/** Bytes from which on pieces of a file become a Blob. */
const BLOB_PIECE = 1 << 24;

/** The functions of the module, with bytes instead of numbers of objects. */
class Native {
  constructor(source) {
    this.source = source;
    this.utf8 = [new TextEncoder(), new TextDecoder()];
    /** Pieces of a file that is too long for memory: the browser may keep a Blob on the disk. */
    this.pieces = [];
    this.blobs = [];
    this.held = 0;
    this.progress = () => {};
  }

  static async start(wasm) {
    if (typeof globalThis.crypto?.getRandomValues !== 'function') {
      throw new BecalmError({
        kind: 'unsupported',
        wanted: 'crypto.getRandomValues',
        got: 'none',
        remedy: 'use a current browser, or Node 20',
      });
    }
    let made = null;
    let native = null;
    const random = (address, length) => {
      try {
        const all = new Uint8Array(made.memory.buffer, address >>> 0, length);
        for (let at = 0; at < length; at += RANDOM_PIECE) {
          crypto.getRandomValues(all.subarray(at, at + RANDOM_PIECE));
        }
        return 0;
      } catch {
        return 1;
      }
    };
    const take = (address, length) => {
      native.keep(new Uint8Array(made.memory.buffer, address >>> 0, length).slice());
    };
    const progress = (done, all) => native.progress(done, all);
    const imports = { becalm: { random, take, progress } };
    const source = await wasm;
    let instance;
    if (source instanceof WebAssembly.Module) {
      instance = await WebAssembly.instantiate(source, imports);
    } else {
      const bytes = typeof source.arrayBuffer === 'function' ? await source.arrayBuffer() : source;
      instance = (await WebAssembly.instantiate(bytes, imports)).instance;
    }
    made = instance.exports;
    native = new Native(made);
    return native;
  }

  keep(piece) {
    this.pieces.push(piece);
    this.held += piece.length;
    if (this.held > BLOB_PIECE) {
      this.blobs.push(new Blob(this.pieces));
      this.pieces = [];
      this.held = 0;
    }
  }

  /** The file of all pieces, which go. */
  kept() {
    const file = new Blob([...this.blobs, ...this.pieces]);
    this.pieces = [];
    this.blobs = [];
    this.held = 0;
    return file;
  }

  /** The bytes of an object, copied, before it is wiped. */
  take(number) {
    const { memory, address, length, release } = this.source;
    const bytes = new Uint8Array(memory.buffer, address(number) >>> 0, length(number) >>> 0).slice();
    release(number);
    return bytes;
  }

  /** A number of an object, or the error that it stands for. */
  checked(number) {
    if (number > 0) {
      return number;
    }
    throw new BecalmError(JSON.parse(this.utf8[1].decode(this.take(-number))));
  }

  give(bytes) {
    const number = this.checked(this.source.buffer(bytes.length));
    const { memory, address } = this.source;
    new Uint8Array(memory.buffer, address(number) >>> 0, bytes.length).set(bytes);
    return number;
  }

  /** Calls a function: bytes and texts go in as objects, numbers as they are. */
  call(name, ...args) {
    const numbers = args.map((x) => {
      if (typeof x === 'string') {
        return this.give(this.utf8[0].encode(x));
      }
      return x instanceof Uint8Array ? this.give(x) : Number(x);
    });
    let number;
    try {
      number = this.source[name](...numbers);
    } catch (error) {
      // The module has no memory left, and stopped in the middle of something.
      const remedy = 'load the module again, and close other pages';
      throw new BecalmError({ kind: 'memory', op: name, wanted: 'a result', got: String(error), remedy });
    }
    return this.checked(number);
  }

  bytes(name, ...args) {
    return this.take(this.call(name, ...args));
  }

  text(name, ...args) {
    return this.utf8[1].decode(this.bytes(name, ...args));
  }
}

/** Integers in 8 bytes each, for the module. */
function words(values) {
  const all = Array.from(values, (x) => {
    const whole = typeof x === 'bigint' ? x : typeof x === 'boolean' ? BigInt(x) : null;
    if (whole !== null || Number.isSafeInteger(x)) {
      return BigInt.asUintN(64, whole ?? BigInt(x));
    }
    throw bad('integers', 'another value', 'round them first');
  });
  return new Uint8Array(BigUint64Array.from(all).buffer);
}

function numbers(bytes) {
  return Array.from(new BigUint64Array(bytes.buffer), Number);
}

/** Files after their lengths, as one. */
function framed(files) {
  const total = files.reduce((sum, file) => sum + 8 + file.length, 0);
  const all = new Uint8Array(total);
  let at = 0;
  for (const file of files) {
    new DataView(all.buffer).setBigUint64(at, BigInt(file.length), true);
    all.set(file, at + 8);
    at += 8 + file.length;
  }
  return all;
}

/** Inverse of `framed`. */
export function filesOf(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const files = [];
  for (let at = 0; at < bytes.length; ) {
    const length = at + 8 <= bytes.length ? Number(view.getBigUint64(at, true)) : Infinity;
    if (at + 8 + length > bytes.length) {
      throw bad('whole files', 'a part of one', 'ask for the results again');
    }
    files.push(bytes.subarray(at + 8, at + 8 + length));
    at += 8 + length;
  }
  return files;
}

/** The claims of a file about itself. Anyone who sees the file can read them. */
export function describe(file) {
  const view = new DataView(file.buffer, file.byteOffset, file.byteLength);
  const length = file.length >= 8 ? Number(view.getBigUint64(0, true)) : Infinity;
  if (length > file.length - 8) {
    throw bad('a file of becalm', `${file.length} other bytes`, 'give bytes that becalm wrote');
  }
  const header = JSON.parse(new TextDecoder().decode(file.subarray(8, 8 + length)));
  const { __metadata__: facts, ...tensors } = header;
  const data = 8 + length;
  const parts = Object.entries(tensors).map(([name, { shape, data_offsets: [from, to] }]) => {
    return { name, shape, bytes: file.subarray(data + from, data + to) };
  });
  return { kind: facts.format, facts, tensors: parts, headerBytes: data };
}

const REGISTRY = new FinalizationRegistry(({ native, number }) => native.source.release(number));

/** A key in the memory of the module. */
class Held {
  #native;
  #number;

  constructor(native, number) {
    this.#native = native;
    this.#number = number;
    REGISTRY.register(this, { native, number }, this);
  }

  /** Calls a function whose first argument is the key. */
  bytes(name, ...args) {
    if (this.#number === 0) {
      throw bad('a secret key', 'one that was wiped', 'make or read a key');
    }
    return this.#native.bytes(name, this.#number, ...args);
  }

  get native() {
    return this.#native;
  }

  free() {
    REGISTRY.unregister(this);
    this.#native.source.release(this.#number);
    this.#number = 0;
  }
}

/** A secret key of TFHE. */
class SecretKey {
  #held;

  constructor(native, number) {
    this.#held = new Held(native, number);
  }

  facts() {
    return JSON.parse(new TextDecoder().decode(this.#held.bytes('tfhe_facts')));
  }

  exposeSecret() {
    return this.#held.bytes('tfhe_write');
  }

  evaluationKey() {
    return this.#held.bytes('tfhe_evaluation_key');
  }

  encrypt(values, { below = this.facts().values, seeded = true } = {}) {
    return this.#held.bytes('tfhe_encrypt', words(values), below, seeded);
  }

  decrypt(file) {
    return numbers(this.#held.bytes('tfhe_decrypt', file));
  }

  errors(file, values) {
    const bytes = this.#held.bytes('tfhe_errors', file, words(values));
    return new Float64Array(bytes.buffer);
  }

  encryptIntegers(type, values, { seeded = true } = {}) {
    const all = words(values);
    return filesOf(this.#held.bytes('tfhe_encrypt_integers', type, all, seeded));
  }

  decryptIntegers(type, files) {
    const bytes = this.#held.bytes('tfhe_decrypt_integers', type, framed(files));
    const signed = type.startsWith('int');
    return Array.from(signed ? new BigInt64Array(bytes.buffer) : new BigUint64Array(bytes.buffer));
  }

  free() {
    this.#held.free();
  }
}

/** A secret key of CKKS, for one kind of bootstrap. */
class CkksSecretKey {
  #held;

  constructor(native, number) {
    this.#held = new Held(native, number);
  }

  facts() {
    return JSON.parse(new TextDecoder().decode(this.#held.bytes('ckks_facts')));
  }

  evaluationKeys(progress = () => {}) {
    const { native } = this.#held;
    native.progress = progress;
    try {
      const digest = new TextDecoder().decode(this.#held.bytes('ckks_evaluation_keys'));
      return { digest, file: native.kept() };
    } finally {
      native.progress = () => {};
      native.kept();
    }
  }

  program() {
    return this.#held.bytes('ckks_program');
  }

  encrypt(values) {
    return this.#held.bytes('ckks_encrypt', new Uint8Array(Float64Array.from(values).buffer));
  }

  decrypt(file) {
    return new Float64Array(this.#held.bytes('ckks_decrypt', file).buffer);
  }

  free() {
    this.#held.free();
  }
}

/** Keys, files and programs. `load` makes one. */
class Client {
  #native;

  constructor(native) {
    this.#native = native;
    this.version = native.text('version');
    this.program = {
      table: (set, table) => native.bytes('tfhe_program_table', set, words(table)),
      operation: (set, name, type, operand) =>
        native.bytes('tfhe_program_operation', set, name, type, words([operand])),
      stretch: (set, factor) => native.bytes('tfhe_program_stretch', set, factor),
    };
  }

  generate(set = 'tfhe_2_2') {
    return new SecretKey(this.#native, this.#native.call('tfhe_generate', set));
  }

  generateCkks(set = 'ckks_n15', bootstrap = 'regular') {
    return new CkksSecretKey(this.#native, this.#native.call('ckks_generate', set, bootstrap));
  }

  secretKey(file) {
    return new SecretKey(this.#native, this.#native.call('tfhe_read', file));
  }

  digest(file) {
    return this.#native.text('digest', file);
  }
}

/** Starts the module: its bytes, a compiled module, or the answer of `fetch`. */
export async function load(wasm) {
  return new Client(await Native.start(wasm));
}

/** The client of `becalm serve`: it stores files under their digests and waits for jobs. */
export class Service {
  #client;
  #address;
  #token;
  #seen;

  constructor(client, address, token, { seen = () => {} } = {}) {
    this.#client = client;
    this.#address = address.replace(/\/$/, '');
    this.#token = token;
    this.#seen = seen;
  }

  async #ask(method, path, body) {
    const headers = { Authorization: `Bearer ${this.#token}` };
    const began = performance.now();
    const answer = await fetch(this.#address + path, { method, headers, body });
    const bytes = new Uint8Array(await answer.arrayBuffer());
    const milliseconds = performance.now() - began;
    this.#seen({ method, path, status: answer.status, sent: body, received: bytes, milliseconds });
    if (answer.ok) {
      return { status: answer.status, bytes };
    }
    const text = new TextDecoder().decode(bytes);
    throw new BecalmError({ op: 'serve', ...JSON.parse(text) });
  }

  /** Stores a file that the service may see, and returns its digest. */
  async put(file, digest = this.#client.digest(file)) {
    await this.#ask('PUT', `/v1/files/${digest}`, file);
    return digest;
  }

  /** Runs a program on encrypted inputs: a file for each of its arguments. The result has a file for each of its results. */
  async run({ program, keys, inputs, lanes, signal }) {
    const stored = [];
    for (const input of inputs) {
      stored.push(await this.put(input));
    }
    const request = { program: await this.put(program), keys, inputs: stored, chunk: lanes };
    const body = new TextEncoder().encode(JSON.stringify(request));
    const job = this.#client.digest(body);
    await this.#ask('PUT', `/v1/jobs/${job}`, body);
    try {
      for (;;) {
        signal?.throwIfAborted();
        const { status, bytes } = await this.#ask('GET', `/v1/jobs/${job}/chunks/0?wait=20`);
        if (status === 200) {
          return filesOf(bytes);
        }
        const { bytes: state } = await this.#ask('GET', `/v1/jobs/${job}/status`);
        const failed = JSON.parse(new TextDecoder().decode(state)).failed ?? {};
        const [failure] = Object.values(failed);
        if (failure !== undefined) {
          const got = failure.error ?? 'an error';
          throw new BecalmError({ kind: 'device', op: 'serve', wanted: 'results', got, remedy: 'ask the keeper of the service' });
        }
      }
    } finally {
      await this.#ask('DELETE', `/v1/jobs/${job}`).catch(() => {});
    }
  }
}
