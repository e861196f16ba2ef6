/** Values that a client encrypts. */
export type Values = ArrayLike<number | bigint | boolean>;

/** A type of encrypted integers: `bool`, `uint8`, `int16`, … of at most 64 bits. */
export type IntegerType = 'bool' | `uint${number}` | `int${number}`;

/** An error of becalm: the need, what came instead, and what to do. */
export declare class BecalmError extends Error {
  constructor(fault: { kind: string; op?: string; wanted: string; got: string; remedy: string; missing?: string[] });
  readonly kind: string;
  readonly op: string;
  readonly wanted: string;
  readonly got: string;
  readonly remedy: string;
  /** Digests of files that a service does not have. */
  readonly missing: string[];
}

/** Public facts of a key's parameter set. Standard deviations and margins are fractions of the torus. */
export interface Facts {
  set: string;
  key: string;
  /** Bits of security, the least over the attacks considered. */
  security: number;
  values: number;
  log2_pfail: number;
  dimension: number;
  ring: number;
  /** The largest 2-norm of a linear combination of bootstrapped ciphertexts that may enter a bootstrap. */
  norm: number;
  /** An error below it decrypts right. */
  margin: number;
  fresh: number;
  bootstrapped: number;
}

/** A secret key of TFHE. It lives in the memory of the module. */
export interface SecretKey {
  facts(): Facts;
  /** The file of the key. It is secret: whoever has it decrypts everything. */
  exposeSecret(): Uint8Array;
  /** The file of the evaluation key, which a server may have. */
  evaluationKey(): Uint8Array;
  /** Encrypts values from 0 to `below` − 1. `seeded` (the default) stores a seed in place of the masks. */
  encrypt(values: Values, options?: { below?: number; seeded?: boolean }): Uint8Array;
  decrypt(file: Uint8Array): number[];
  /** The noise of each ciphertext, beside its value. It is secret. */
  errors(file: Uint8Array, values: Values): Float64Array;
  /** Encrypts integers: a file for each digit of base 4, in the order in which a program takes them. */
  encryptIntegers(type: IntegerType, values: Values, options?: { seeded?: boolean }): Uint8Array[];
  decryptIntegers(type: IntegerType, files: Uint8Array[]): bigint[];
  /** Wipes the key. */
  free(): void;
}

/** Public facts of a CKKS key's parameter set. */
export interface CkksFacts {
  set: string;
  key: string;
  security: number;
  ring: number;
  /** Values in a ciphertext. */
  slots: number;
  /** The level that the bootstrap takes, and the one that it leaves. */
  level: number;
  levels: number;
  /** Bytes of the keys for the bootstrap. */
  stored: number;
  /** Bits of precision after the bootstrap, by the formula. */
  bits: number;
}

/** A secret key of CKKS, for one kind of bootstrap. */
export interface CkksSecretKey {
  facts(): CkksFacts;
  /** Makes the keys for the bootstrap: hundreds of megabytes, and half a minute or more. `progress` is told of each key. */
  evaluationKeys(progress?: (done: number, all: number) => void): { digest: string; file: Blob };
  /** The program of the bootstrap. */
  program(): Uint8Array;
  /** Encrypts a power of two of numbers from −1 to 1, at the level that the bootstrap takes. */
  encrypt(values: ArrayLike<number>): Uint8Array;
  decrypt(file: Uint8Array): Float64Array;
  /** Wipes the key. */
  free(): void;
}

/** Programs for a server. It sees them, with their tables and operands. */
export interface Programs {
  /** Looks values up in a table of an entry for each value. */
  table(set: string, table: Values): Uint8Array;
  /** An operation of the library, such as `ge`, on encrypted integers and one that the server sees. */
  operation(set: string, name: string, type: IntegerType, operand: number | bigint): Uint8Array;
  /** Bootstraps values, multiplies them by `factor`, and bootstraps them again: three results. */
  stretch(set: string, factor: number): Uint8Array;
}

/** Keys, files and programs. */
export interface Client {
  readonly version: string;
  readonly program: Programs;
  /** Makes a secret key; of the set `tfhe_2_2` unless another one of 128 bits is named. */
  generate(set?: string): SecretKey;
  /** Makes a secret key of CKKS for a kind of bootstrap; `ckks_n15` has the smallest keys of 128 bits. */
  generateCkks(set?: string, bootstrap?: string): CkksSecretKey;
  /** Reads the file of a secret key. */
  secretKey(file: Uint8Array): SecretKey;
  /** The BLAKE3 digest of a file in hexadecimal digits. */
  digest(file: Uint8Array): string;
}

/** The claims of a file about itself. Anyone who sees the file can read them. */
export interface Description {
  kind: string;
  facts: Record<string, string>;
  tensors: { name: string; shape: number[]; bytes: Uint8Array }[];
  headerBytes: number;
}

/** A request and its answer, as they went over the wire. */
export interface Exchange {
  method: string;
  path: string;
  status: number;
  sent?: Uint8Array | Blob;
  received: Uint8Array;
  milliseconds: number;
}

/** Starts the module: its bytes, a compiled module, or the answer of `fetch`. Raises where there is no `crypto.getRandomValues`. */
export declare function load(
  wasm: BufferSource | WebAssembly.Module | Response | Promise<BufferSource | WebAssembly.Module | Response>,
): Promise<Client>;

export declare function describe(file: Uint8Array): Description;

/** The files of a body, each after its length in 8 bytes, as a service sends them. */
export declare function filesOf(bytes: Uint8Array): Uint8Array[];

/** The client of `becalm serve`. */
export declare class Service {
  /** `seen` is told of each request and its answer. */
  constructor(client: Client, address: string, token: string, options?: { seen?: (exchange: Exchange) => void });
  /** Stores a file that the service may see, and returns its digest. */
  put(file: Uint8Array | Blob, digest?: string): Promise<string>;
  /** Runs a program: `keys` is the digest of stored evaluation keys, `inputs` has a file for each argument. */
  run(job: {
    program: Uint8Array;
    keys: string;
    inputs: Uint8Array[];
    /** Ciphertexts in each input. */
    lanes: number;
    signal?: AbortSignal;
  }): Promise<Uint8Array[]>;
}
