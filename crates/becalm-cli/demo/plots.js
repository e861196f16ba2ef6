// Drawings in SVG, without a library.

const SVG = 'http://www.w3.org/2000/svg';

/** An element with attributes, in a parent. */
export function put(parent, name, attributes = {}, text = '') {
  const made = document.createElementNS(SVG, name);
  Object.entries(attributes).forEach(([key, value]) => made.setAttribute(key, value));
  made.textContent = text;
  return parent.appendChild(made);
}

function path(points) {
  return points.map(([x, y], i) => `${i ? 'L' : 'M'}${x.toFixed(1)} ${y.toFixed(1)}`).join('');
}

/** How often each of 256 bytes occurs. A flat line of ciphertexts says nothing about what they hold. */
export function histogramOfBytes(counts) {
  const svg = document.createElementNS(SVG, 'svg');
  const total = counts.reduce((sum, count) => sum + count, 0);
  const mean = total / 256;
  const [width, height] = [512, 90];
  svg.setAttribute('viewBox', `0 0 ${width} ${height + 20}`);
  svg.setAttribute('role', 'img');
  svg.setAttribute('aria-label', `How often each byte occurs among ${total}`);
  counts.forEach((count, byte) => {
    const h = Math.min(height, (count / mean) * 0.6 * height);
    put(svg, 'rect', { x: byte * 2, y: height - h, width: 1.6, height: h, class: 'fill-calm' });
  });
  put(svg, 'line', { x1: 0, x2: width, y1: 0.4 * height, y2: 0.4 * height, class: 'axis' });
  put(svg, 'text', { x: 0, y: height + 15 }, 'byte 00');
  put(svg, 'text', { x: width, y: height + 15, 'text-anchor': 'end' }, 'ff');
  return svg;
}

/** Pearson's statistic of 256 counts beside equal ones: about 255 if the bytes are uniform. */
export function chiSquare(counts) {
  const mean = counts.reduce((sum, count) => sum + count, 0) / 256;
  return counts.reduce((sum, count) => sum + (count - mean) ** 2 / mean, 0);
}

/** log2 of a standard deviation, as people of the field write noise. */
export function power(std) {
  return `2^${Math.log2(std).toFixed(1)}`;
}

export function deviation(errors) {
  return Math.sqrt(errors.reduce((sum, e) => sum + e * e, 0) / errors.length);
}

/** Histograms of noise, one above the other, on one axis, with the normal curves of the formulas. */
export function noise(svg, rows, formula, names, classes) {
  svg.replaceChildren();
  const [width, height, bins] = [560, 62, 57];
  const reach = 4 * Math.max(...formula);
  rows.forEach((errors, row) => {
    const base = 78 * row + 72;
    const counts = new Array(bins).fill(0);
    errors.forEach((e) => counts[Math.max(0, Math.min(bins - 1, Math.floor(((e / reach + 1) / 2) * bins)))]++);
    const scale = height / Math.max(...counts);
    const step = width / bins;
    counts.forEach((count, i) => {
      const h = count * scale;
      put(svg, 'rect', { x: i * step + 0.5, y: base - h, width: step - 1, height: h, class: classes[row] });
    });
    const density = (x) => Math.exp(-((x / formula[row]) ** 2) / 2) / (formula[row] * Math.sqrt(2 * Math.PI));
    const points = Array.from({ length: 281 }, (_, i) => {
      const x = reach * (i / 140 - 1);
      const expected = errors.length * density(x) * ((2 * reach) / bins);
      return [2 * i, base - Math.min(height + 6, expected * scale)];
    });
    put(svg, 'path', { d: path(points), class: 'curve' });
    put(svg, 'line', { x1: 0, x2: width, y1: base, y2: base, class: 'axis' });
    put(svg, 'text', { x: 0, y: base - height + 6 }, names[row]);
    const right = { x: width, y: base - height + 6, 'text-anchor': 'end' };
    put(svg, 'text', right, `σ ${power(deviation(errors))}, by the formula ${power(formula[row])}`);
  });
}

/** Vectors as curves, from −1 to 1. */
export function curves(svg, base, height, all) {
  const width = 560;
  put(svg, 'line', { x1: 0, x2: width, y1: base, y2: base, class: 'axis' });
  all.forEach(({ values, name, scale = 1 }) => {
    const points = values.map((value, i) => {
      const y = Math.max(-1, Math.min(1, value * scale));
      return [(i / (values.length - 1)) * width, base - y * height];
    });
    put(svg, 'path', { d: path(points), class: `curve ${name}` });
  });
}

/** A table of 16 values under the mouse and the arrow keys. `changed` is told of new values. */
export class Table {
  #bars = [];
  #slots = [];
  #dots = [];

  constructor(svg, values, changed) {
    this.values = values;
    this.changed = changed;
    const [left, top, step, unit] = [24, 10, 33, 12];
    this.place = { left, top, step, unit, floor: top + 15.5 * unit };
    [0, 5, 10, 15].forEach((value) => {
      const y = this.#y(value);
      put(svg, 'line', { x1: left, x2: left + 16 * step, y1: y, y2: y, class: 'axis' });
      put(svg, 'text', { x: 0, y: y + 4 }, value);
    });
    values.forEach((_, i) => {
      const x = left + i * step;
      this.#bars.push(put(svg, 'rect', { x: x + 4, width: step - 8, class: 'bar' }));
      this.#dots.push(put(svg, 'circle', { cx: x + step / 2, r: 5, class: 'dot', visibility: 'hidden' }));
      put(svg, 'text', { x: x + step / 2, y: this.place.floor + 26, 'text-anchor': 'middle' }, i);
      const slot = put(svg, 'rect', {
        x, y: 0, width: step, height: this.place.floor + 10, class: 'slot', tabindex: 0,
        role: 'slider', 'aria-label': `f(${i})`, 'aria-valuemin': 0, 'aria-valuemax': 15,
      });
      slot.addEventListener('keydown', (event) => this.#key(event, i));
      this.#slots.push(slot);
    });
    svg.addEventListener('pointerdown', (event) => {
      svg.setPointerCapture(event.pointerId);
      this.#draw(svg, event);
    });
    svg.addEventListener('pointermove', (event) => event.buttons & 1 && this.#draw(svg, event));
    this.set(values);
  }

  #y(value) {
    return this.place.floor - value * this.place.unit - 6;
  }

  #draw(svg, event) {
    const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(svg.getScreenCTM().inverse());
    const i = Math.floor((at.x - this.place.left) / this.place.step);
    const value = Math.round((this.place.floor - 6 - at.y) / this.place.unit);
    if (i >= 0 && i < 16) {
      this.#put(i, value);
    }
  }

  #key(event, i) {
    const steps = { ArrowUp: 1, ArrowDown: -1, PageUp: 4, PageDown: -4 };
    const turns = { ArrowLeft: -1, ArrowRight: 1 };
    if (event.key in steps) {
      this.#put(i, this.values[i] + steps[event.key]);
    } else if (event.key in turns) {
      this.#slots[(i + turns[event.key] + 16) % 16].focus();
    } else {
      return;
    }
    event.preventDefault();
  }

  #put(i, value) {
    const next = [...this.values];
    next[i] = Math.max(0, Math.min(15, value));
    this.set(next);
  }

  /** Shows other values; results of before go. */
  set(values) {
    this.values = values;
    values.forEach((value, i) => {
      const y = this.#y(value);
      this.#bars[i].setAttribute('y', y);
      this.#bars[i].setAttribute('height', this.place.floor - y);
      this.#slots[i].setAttribute('aria-valuenow', value);
      this.#dots[i].setAttribute('visibility', 'hidden');
    });
    this.changed();
  }

  /** Puts a dot on each result. */
  show(results) {
    results.forEach((value, i) => {
      this.#dots[i].setAttribute('cy', this.#y(value));
      this.#dots[i].setAttribute('visibility', 'visible');
    });
  }
}
