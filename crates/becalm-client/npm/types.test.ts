// Never run: the compiler of TypeScript reads it, and each call must fit index.d.ts.

import { BecalmError, Service, describe, load, type Client, type IntegerType, type SecretKey } from './index.js';
async function main(wasm: Uint8Array<ArrayBuffer>) {
  const client: Client = await load(wasm);
  const secret: SecretKey = client.generate('tfhe_2_2');
  const type: IntegerType = 'uint7';
  const files: Uint8Array[] = secret.encryptIntegers(type, [1n, 2, true]);
  const [v]: bigint[] = secret.decryptIntegers(type, files);
  const service = new Service(client, 'http://127.0.0.1', 'x', { seen: ({ method, sent }) => void [method, sent] });
  const keys: string = await service.put(secret.evaluationKey());
  const out = await service.run({ program: client.program.operation('tfhe_2_2', 'ge', type, 18), keys, inputs: files, lanes: 1 });
  const real = client.generateCkks();
  const { digest, file } = real.evaluationKeys((done, all) => void (done / all));
  await service.put(file, digest);
  const y: Float64Array = real.decrypt(real.encrypt([0.5]));
  console.log(v, out.map((f) => describe(f).kind), y[0], secret.facts().security.toFixed(1));
  // @ts-expect-error: no such type
  secret.encryptIntegers('float8', [1]);
  // @ts-expect-error: a text is no value
  secret.encrypt(['a']);
  try { client.secretKey(new Uint8Array(1)); } catch (e) { if (e instanceof BecalmError) { const k: string = e.kind; console.log(k); } }
}
void main;
