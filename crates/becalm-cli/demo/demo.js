// The page: sliders, drawings and the record of requests. Keys and cryptography are in the worker.

import { Table, chiSquare, curves, deviation, histogramOfBytes, noise, power, put } from './plots.js';

const worker = new Worker('worker.js', { type: 'module' });
const waiting = new Map();
const exchanges = [];
let chosen = null;

const at = (id) => document.getElementById(id);

/** Calls the worker. */
function ask(op, args) {
  const id = waiting.size + Math.random();
  worker.postMessage({ id, op, args });
  return new Promise((resolve, reject) => waiting.set(id, { resolve, reject }));
}

worker.onmessage = ({ data }) => {
  if (data.exchange) {
    record(data.exchange);
    return;
  }
  if (data.progress !== undefined) {
    say('ckks-answer', `This page makes keys: ${(100 * data.progress).toFixed(0)} %.`);
    return;
  }
  const { resolve, reject } = waiting.get(data.id);
  waiting.delete(data.id);
  if (data.fault) {
    reject(data.fault);
  } else {
    resolve(data.result);
  }
};

worker.onerror = () => say('state', 'The worker did not start. Use a current browser.', true);

/** Text in an element; parts in bold come as [text]. */
function say(id, parts, error = false) {
  const place = at(id);
  place.replaceChildren();
  [parts].flat().forEach((part) => {
    if (Array.isArray(part) || typeof part === 'string') {
      place.append(part);
    } else {
      const strong = document.createElement('strong');
      strong.textContent = part.strong;
      place.append(strong);
    }
  });
  place.classList.toggle('error', error);
}

function size(bytes) {
  const [unit, power] = bytes < 1e4 ? ['B', 0] : bytes < 1e6 ? ['kB', 1] : ['MB', 2];
  return `${power ? (bytes / 1000 ** power).toFixed(1) : bytes} ${unit}`;
}

function seconds(milliseconds) {
  return `${(milliseconds / 1000).toFixed(milliseconds < 9950 ? 1 : 0)} s`;
}

/** Runs work behind a button, which waits meanwhile. */
function on(id, answer, work) {
  const button = at(id);
  button.addEventListener('click', async () => {
    button.disabled = true;
    say(answer, 'The server computes…');
    try {
      say(answer, await work());
    } catch (fault) {
      say(answer, `Wanted ${fault.wanted}, got ${fault.got}: ${fault.remedy}.`, true);
    }
    button.disabled = false;
  });
}

function shows(id, text = (value) => value) {
  const tell = () => (at(`${id}-shown`).textContent = text(at(id).value));
  at(id).addEventListener('input', tell);
  tell();
}

// What the server sees.

const NAMES = {
  'becalm.evaluation_key': 'evaluation key of TFHE',
  'becalm.lwe': 'ciphertexts of TFHE',
  'becalm.program': 'program',
  'becalm.ckks_evaluation_keys': 'evaluation keys of CKKS',
  'becalm.rlwe': 'ciphertext of CKKS',
  'becalm.ckks_program': 'program of CKKS',
};

function record(exchange) {
  exchanges.push(exchange);
  const row = document.createElement('tr');
  const name = `${exchange.method} ${exchange.path.replace(/[0-9a-f]{60}/, '…').replace(/\?.*/, '')}`;
  const button = document.createElement('button');
  button.type = 'button';
  button.textContent = name;
  button.addEventListener('click', () => detail(exchange, row));
  const contents = NAMES[exchange.kind] ?? (exchange.path.includes('/jobs/') && exchange.sent ? 'JSON' : '');
  const cells = [button, contents, size(exchange.sent), size(exchange.received), exchange.milliseconds.toFixed(0)];
  cells.forEach((cell, i) => {
    const td = document.createElement('td');
    td.className = i > 1 ? 'number' : '';
    td.append(cell);
    row.append(td);
  });
  row.dataset.kind = exchange.kind ?? '';
  at('wire').append(row);
  const scroll = at('wire').closest('.scroll');
  scroll.scrollTop = scroll.scrollHeight;
  // The last ciphertexts that left show themselves, until somebody chooses.
  if (exchange.kind === 'becalm.lwe' && exchange.sent && (chosen === null || chosen.byItself)) {
    detail(exchange, row, true);
  }
}

function hex(bytes) {
  const lines = [];
  for (let i = 0; i < bytes.length; i += 16) {
    const part = [...bytes.subarray(i, i + 16)];
    const digits = part.map((byte) => byte.toString(16).padStart(2, '0')).join(' ');
    const text = part.map((byte) => (byte > 31 && byte < 127 ? String.fromCharCode(byte) : '.'));
    lines.push(`${i.toString(16).padStart(4, '0')}  ${digits.padEnd(47)}  ${text.join('')}`);
  }
  return lines.join('\n');
}

function detail(exchange, row, byItself = false) {
  chosen = { byItself };
  at('wire').querySelectorAll('tr').forEach((other) => other.classList.toggle('chosen', other === row));
  const place = at('detail');
  place.replaceChildren();
  const say = (text) => {
    const p = document.createElement('p');
    p.textContent = text;
    place.append(p);
  };
  const facts = Object.entries(exchange.facts ?? {}).filter(([, value]) => value !== undefined);
  if (facts.length) {
    say(`Public facts in the file: ${facts.map(([key, value]) => `${key} ${value}`).join(', ')}.`);
  }
  const pre = document.createElement('pre');
  pre.tabIndex = 0;
  pre.textContent = exchange.head.length ? hex(exchange.head) : 'no bytes';
  place.append(pre);
  if (exchange.counts) {
    const statistic = chiSquare(exchange.counts);
    place.append(histogramOfBytes(exchange.counts));
    place.dataset.chiSquare = statistic;
    const flat = statistic < 400 ? 'occurs about equally often' : 'does not occur equally often';
    say(
      `Each of the 256 bytes ${flat} here: χ² is ${statistic.toFixed(0)}, and uniform bytes have 255 ± 45 in 95 of 100 cases.`,
    );
  } else if (exchange.sent) {
    say('The server needs these bytes to compute, and they depend on no secret.');
  } else {
    say('The server computed these bytes itself, without the key.');
  }
}

// The sections.

function age() {
  shows('age');
  shows('least');
  on('age-run', 'age-answer', async () => {
    const [own, least] = [Number(at('age').value), Number(at('least').value)];
    const { allowed, milliseconds, ciphertexts, sent } = await ask('age', { age: own, least });
    const text = allowed ? `Yes, at least ${least}.` : `No, below ${least}.`;
    at('age-answer').dataset.allowed = allowed;
    return [
      { strong: text },
      ` Decrypted here, after ${seconds(milliseconds)}. The server saw ${ciphertexts} ciphertexts of ${size(sent)} in all and the rule, and neither your age nor this answer.`,
    ];
  });
}

function table() {
  const tables = {
    square: (x) => (x * x) % 16,
    reverse: (x) => 15 - x,
    step: (x) => (x >= 8 ? 15 : 0),
  };
  const of = (f) => Array.from({ length: 16 }, (_, x) => f(x));
  const drawn = new Table(at('table'), of(tables.square), () => say('table-answer', ''));
  document.querySelectorAll('[data-table]').forEach((button) => {
    button.addEventListener('click', () => drawn.set(of(tables[button.dataset.table])));
  });
  on('table-run', 'table-answer', async () => {
    const asked = drawn.values;
    const { results, milliseconds, sent } = await ask('table', { table: asked });
    const right = results.filter((value, i) => value === asked[i]).length;
    if (drawn.values === asked) {
      drawn.show(results);
    }
    at('table-answer').dataset.results = results.join(',');
    return [
      { strong: `${right} of 16 entries are right. ` },
      `The dots are the values that this page decrypted: 16 bootstraps in ${seconds(milliseconds)}, for ${size(sent)} of ciphertexts.`,
    ];
  });
}

function noisy() {
  shows('factor');
  on('noise-run', 'noise-answer', async () => {
    const factor = Number(at('factor').value);
    const { measured, formula, margin, wrong, milliseconds } = await ask('noise', { factor, count: 64 });
    const std = measured.map(deviation);
    const names = ['after a bootstrap', `before the next one, times ${factor}`, 'after it'];
    noise(at('noise'), measured, formula, names, ['fill-calm', 'fill-wild', 'fill-good']);
    at('noise').removeAttribute('hidden');
    at('noise').setAttribute('aria-label', `Standard deviations: ${std.map(power).join(', ')}`);
    Object.assign(at('noise-answer').dataset, { std: std.join(','), formula: formula.join(','), wrong });
    return [
      { strong: `Noise ${power(std[1])} before, ${power(std[2])} after. ` },
      `The formulas say ${power(formula[1])} and ${power(formula[2])}, drawn as curves. Values decrypt right while the noise stays below ${power(margin)}. ${wrong} of 192 values were wrong. ${seconds(milliseconds)}.`,
    ];
  });
}

/** A bootstrap of CKKS, whose keys are made when somebody asks for them: they are long. */
function vectors() {
  shows('waves');
  shows('height', (value) => (value / 100).toFixed(2));
  const lead = (text) => (at('ckks-lead').textContent = text);
  lead(
    'CKKS computes on vectors of approximate numbers. Its bootstrap needs keys of 364 MB for 128 bits of security. This page makes them too, which takes half a minute or more, and sends them to your own machine.',
  );
  at('ckks-run').textContent = 'Make keys of CKKS, 364 MB';
  let ready = false;
  on('ckks-run', 'ckks-answer', async () => {
    if (!ready) {
      const { facts, bytes, make, send } = await ask('ckksKeys');
      ready = true;
      at('ckks-run').textContent = 'Bootstrap the vector';
      return [
        { strong: `${size(bytes)} of keys, made here in ${seconds(make)}. ` },
        `Sent in ${seconds(send)}. The set ${facts.set} has ${facts.security.toFixed(1)} bits of security and ${facts.slots} numbers in a ciphertext.`,
      ];
    }
    const [waves, height] = [Number(at('waves').value), Number(at('height').value) / 100];
    const wave = (x) => height * Math.sin(2 * Math.PI * waves * x) * (1 - 0.6 * x);
    const values = Array.from({ length: 1 << 14 }, (_, i) => wave(i / (1 << 14)));
    const { before, after, levels, milliseconds, sent } = await ask('ckks', { values });
    draw(values, before, after);
    const errors = [before, after].map((all) => deviation(all.map((x, i) => x - values[i])));
    Object.assign(at('ckks-answer').dataset, { levels: levels.join(','), errors: errors.join(',') });
    return [
      { strong: `Level ${levels[0]} before, level ${levels[1]} after. ` },
      `Each product takes a level, so nothing could be multiplied before. The error of a number was ${power(errors[0])} and is ${power(errors[1])} now: a bootstrap of CKKS costs precision. ${size(sent)} of ciphertext, ${seconds(milliseconds)}.`,
    ];
  });
}

function draw(values, before, after) {
  const svg = at('ckks');
  svg.removeAttribute('hidden');
  svg.replaceChildren();
  const some = (all) => Array.from({ length: 257 }, (_, i) => all[Math.min(all.length - 1, i * 64)]);
  const error = some(after.map((x, i) => x - values[i]));
  const scale = 0.9 / Math.max(...error.map(Math.abs));
  curves(svg, 62, 50, [{ values: some(before), name: 'wild' }]);
  curves(svg, 176, 50, [{ values: some(after), name: 'calm' }]);
  curves(svg, 288, 38, [{ values: error, name: '', scale }]);
  put(svg, 'text', { x: 0, y: 10 }, 'decrypted before the bootstrap');
  put(svg, 'text', { x: 0, y: 124 }, 'decrypted after it');
  put(svg, 'text', { x: 0, y: 240 }, `the difference from what was encrypted, ${scale.toFixed(0)} times as high`);
  svg.setAttribute('aria-label', 'The vector before and after its bootstrap, and the difference');
}

async function begin() {
  age();
  table();
  noisy();
  vectors();
  const token = location.hash.slice(1);
  if (!/^[0-9a-f]{64}$/.test(token)) {
    say('state', 'This address has no token. Open the address that `becalm demo` prints.', true);
    return;
  }
  const { version } = await ask('start', { token, address: location.origin });
  say('state', `becalm-client ${version} makes keys in this page…`);
  const { facts, bytes, make, send } = await ask('keys');
  say('state', 'The keys are made. The secret key stays in this page.');
  const list = [
    ['set', `${facts.set}, ${facts.security.toFixed(0)} bits of security`],
    ['secret key', `made here, id ${facts.key}, never sent`],
    ['evaluation key', `${size(bytes)}, made in ${seconds(make)}, sent in ${seconds(send)}`],
  ];
  at('facts').hidden = false;
  list.forEach(([term, text]) => {
    const row = document.createElement('div');
    const [dt, dd] = ['dt', 'dd'].map((name) => document.createElement(name));
    [dt.textContent, dd.textContent] = [term, text];
    row.append(dt, dd);
    at('facts').append(row);
  });
  ['age-run', 'table-run', 'noise-run', 'ckks-run'].forEach((id) => (at(id).disabled = false));
}

begin().catch((fault) => {
  say('state', `Wanted ${fault.wanted}, got ${fault.got ?? fault}: ${fault.remedy}.`, true);
});
