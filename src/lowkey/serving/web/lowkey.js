/* lowkey.js: recommendations from a lowkey release, computed where the history is. One ES module, no dependencies.
 *
 *   import { load } from "./lowkey.js";
 *   const model = await load("site/");                       // checks sizes and sha256 before anything is believed
 *   model.recommend({ "film 7": 5, "film 9": 1.5 }, { n: 10 });
 *   model.explain({ "film 7": 5, "film 9": 1.5 }, "film 3");  // score = base + offset + one part per item of yours
 *
 * It is the JavaScript half of lowkey's serving/rules.py, with the same names. After load it opens no connection and
 * stores nothing. Letters: F item factors, t the visitor's ratings less what an average visitor would give.
 */

export const FORMAT = "lowkey-web/1";
const FILES = { model: "model.safetensors", items: "items.json" };
const AGAIN = "Reload the page; if that does not help, ask whoever gave it to you for a fresh copy.";

/** Everything that this module throws on purpose: a sentence that a visitor can act on. */
export class LowkeyError extends Error {
  name = "LowkeyError";
}

const damaged = (what) => {
  throw new LowkeyError(`This copy is damaged or incomplete: ${what}. ${AGAIN}`);
};

/** The model in a folder (its address), or in files that are at hand: { manifest: text, model: bytes, items: text }. */
export async function load(source) {
  const files = typeof source === "string" || source instanceof URL ? await download(source) : source;
  const bytes = { model: new Uint8Array(files.model ?? []), items: new TextEncoder().encode(files.items ?? "") };
  const manifest = readManifest(files.manifest ?? "");
  for (const [key, name] of Object.entries(FILES)) {
    const { bytes: size } = manifest.files[name];
    if (bytes[key].length !== size) damaged(`${name} has ${bytes[key].length} bytes instead of ${size}`);
  }
  const checked = await checkHashes(manifest, files.manifest, bytes);
  const arrays = readTensors(bytes.model);
  return new Model(manifest, arrays, readItems(files.items, manifest.n_items), checked);
}

async function download(folder) {
  const base = new URL(String(folder).replace(/\/?$/, "/"), globalThis.location?.href);
  const get = async (name) => {
    const answer = await fetch(new URL(name, base)).catch(() => null);
    if (!answer?.ok) damaged(`${name} could not be loaded${answer ? ` (the server says ${answer.status})` : ""}`);
    return answer;
  };
  const answers = await Promise.all(["manifest.json", FILES.model, FILES.items].map(get));
  return { manifest: await answers[0].text(), model: await answers[1].arrayBuffer(), items: await answers[2].text() };
}

// ---- Reading: everything is checked before it is used ----

function parsed(text, name) {
  try {
    return JSON.parse(text);
  } catch {
    return damaged(`${name} is not what was written`);
  }
}

function readManifest(text) {
  const manifest = parsed(text, "manifest.json");
  if (typeof manifest?.format !== "string") damaged("manifest.json does not say its format");
  if (manifest.format !== FORMAT)
    throw new LowkeyError(
      `These files are of version "${manifest.format}", and this page reads "${FORMAT}". ` +
        "Ask whoever gave you the page to export the release again.",
    );
  if (!RULES[manifest.rule] || !manifest.settings || !Number.isInteger(manifest.n_items)) damaged("manifest.json lacks a rule");
  for (const name of Object.values(FILES)) if (!manifest.files?.[name]?.sha256) damaged(`manifest.json lacks ${name}`);
  return manifest;
}

/** Whether all hashes were compared. False where the browser has no crypto.subtle (a page from http, say). */
async function checkHashes(manifest, text, bytes) {
  const subtle = globalThis.crypto?.subtle;
  if (!subtle) return false;
  const sha256 = async (data) =>
    Array.from(new Uint8Array(await subtle.digest("SHA-256", data)), (byte) => byte.toString(16).padStart(2, "0")).join("");
  // The id is the hash of the manifest without the line of the id.
  const rest = text.replace(/^ "id": "[0-9a-f]{64}",\n/m, "");
  if ((await sha256(new TextEncoder().encode(rest))) !== manifest.id) damaged("manifest.json was changed after it was written");
  for (const [key, name] of Object.entries(FILES))
    if ((await sha256(bytes[key])) !== manifest.files[name].sha256) damaged(`${name} was changed after it was written`);
  return true;
}

function readItems(text, n) {
  const { ids, titles } = parsed(text, FILES.items);
  if (ids?.length !== n || (titles && titles.length !== n)) damaged(`${FILES.items} does not list ${n} items`);
  return { ids, titles: titles ?? ids.map(String) };
}

const WIDTHS = { F64: 8, F32: 4, F16: 2, I8: 1, U8: 1, I32: 4 };

/** safetensors: eight bytes with the length of a JSON header, the header, the numbers (little-endian, as browsers are). */
function readTensors(bytes) {
  const length = bytes.length < 8 ? Infinity : Number(new DataView(bytes.buffer, bytes.byteOffset).getBigUint64(0, true));
  if (length > bytes.length - 8) damaged(`${FILES.model} has no header`);
  const header = parsed(new TextDecoder().decode(bytes.subarray(8, 8 + length)), FILES.model);
  delete header.__metadata__;
  const arrays = {};
  for (const [name, { dtype, shape, data_offsets: at }] of Object.entries(header)) {
    const size = shape.reduce((a, b) => a * b, 1);
    const [from, to] = at.map((place) => 8 + length + place);
    if (!WIDTHS[dtype] || to - from !== size * WIDTHS[dtype] || to > bytes.length) damaged(`${FILES.model} ends too early`);
    arrays[name] = { shape, cols: shape[1] ?? 1, data: numbers(dtype, bytes.slice(from, to).buffer) };
  }
  // Compact matrices come with factors: one per column, and for int8 one per row and planes of further bits.
  for (const [name, target] of Object.entries(arrays)) {
    if (arrays[name + ".fine"]) target.data = finer(target.data, arrays[name + ".fine"]);
    const [rows, columns] = [".rows", ".columns"].map((part) => arrays[name + part]?.data);
    const factor = (i) => (columns?.[i % target.cols] ?? 1) * (rows?.[Math.floor(i / target.cols)] ?? 1);
    if (columns) target.data = Float32Array.from(target.data, (value, i) => value * factor(i));
  }
  for (const [name, { data }] of Object.entries(arrays))
    if (!data.every(Number.isFinite)) damaged(`${FILES.model} holds something in ${name} that is no number`);
  return arrays;
}

function numbers(dtype, buffer) {
  if (dtype === "F64") return new Float64Array(buffer);
  if (dtype === "F32") return new Float32Array(buffer);
  if (dtype === "I32") return new Int32Array(buffer);
  if (dtype === "I8") return new Int8Array(buffer);
  if (dtype === "U8") return new Uint8Array(buffer);
  return Float32Array.from(new Uint16Array(buffer), half); // Float16Array is too new to rely on
}

/** Bytes, with the part of a step that the planes say: a bit of every number in each, the largest first. */
function finer(bytes, { shape: [planes, width], data }) {
  return Float32Array.from(bytes, (value, i) => {
    let part = 0;
    for (let plane = 0; plane < planes; plane++) part = 2 * part + ((data[plane * width + (i >> 3)] >> (7 - (i & 7))) & 1);
    return value + part / 2 ** planes - 0.5;
  });
}

function half(bits) {
  const exponent = (bits >> 10) & 31;
  const fraction = bits & 1023;
  const size = exponent === 0 ? fraction * 2 ** -24 : exponent === 31 ? NaN : (1 + fraction / 1024) * 2 ** (exponent - 15);
  return bits >> 15 ? -size : size;
}

// ---- Small linear algebra ----

/** The dot product of row i of a matrix with a vector. */
function dot({ data, cols }, i, vector) {
  let total = 0;
  for (let k = 0, at = i * cols; k < cols; k++) total += data[at + k] * vector[k];
  return total;
}

/** vector += factor * row i of a matrix. */
function add({ data, cols }, i, factor, vector) {
  for (let k = 0, at = i * cols; k < cols; k++) vector[k] += factor * data[at + k];
}

/** matrix += factor * (row i)^T (row i), lower triangle. */
function addOuter({ data, cols }, i, factor, gram) {
  for (let a = 0, at = i * cols; a < cols; a++)
    for (let b = 0; b <= a; b++) gram[a * cols + b] += factor * data[at + a] * data[at + b];
}

const row = ({ data, cols }, i) => data.subarray(i * cols, (i + 1) * cols);

function diagonal(size, value) {
  const matrix = new Float64Array(size * size);
  for (let a = 0; a < size; a++) matrix[a * size + a] = typeof value === "number" ? value : value[a];
  return matrix;
}

/** x -> gram^-1 x for a positive definite matrix, of which the lower triangle is read (Cholesky, in place). */
function solver(gram, size) {
  for (let a = 0; a < size; a++)
    for (let b = 0; b <= a; b++) {
      let rest = gram[a * size + b];
      for (let c = 0; c < b; c++) rest -= gram[a * size + c] * gram[b * size + c];
      if (a === b && !(rest > 0)) return (x) => x.fill(0); // singular, as in Python
      gram[a * size + b] = a === b ? Math.sqrt(rest) : rest / gram[b * size + b];
    }
  return (x) => {
    for (let a = 0; a < size; a++) {
      for (let b = 0; b < a; b++) x[a] -= gram[a * size + b] * x[b];
      x[a] /= gram[a * size + a];
    }
    for (let a = size - 1; a >= 0; a--) {
      x[a] /= gram[a * size + a];
      for (let b = 0; b < a; b++) x[b] -= gram[a * size + b] * x[a];
    }
    return x;
  };
}

/** 1 - erf(x): a series near zero, a continued fraction in the tail. */
function erfc(x) {
  if (x < 0) return 2 - erfc(-x);
  const weight = Math.exp(-x * x) / Math.sqrt(Math.PI);
  if (x < 2.5) {
    let term = x;
    let total = x;
    for (let n = 1; n < 60; n++) total += term *= (2 * x * x) / (2 * n + 1);
    return 1 - 2 * weight * total;
  }
  let fraction = x;
  for (let n = 60; n > 0; n--) fraction = x + n / 2 / fraction;
  return weight / fraction;
}

// ---- The rules. A history is { at: positions in the catalogue, values }; fold(history) is what the visitor adds. ----

/** score_i = prior_i + offset + F_i . along, with (offset, along) from the history. */
class LinearRule {
  constructor(arrays, settings, n) {
    Object.assign(this, { arrays, settings, n, factors: arrays.item_factors });
    this.rank = this.factors?.cols ?? 0;
  }

  prior() {
    return this.settings.center ?? 0;
  }

  scores(history) {
    const { offset, along } = this.fold(history);
    return Float64Array.from({ length: this.n }, (_, i) => this.prior(i) + offset + dot(this.factors, i, along));
  }
}

const PULL = 20; // as in kernels/user_solve.py

/** A ridge regression on the own row: minimise |t - D x|^2 + (x - b)^T P (x - b), D being F with a constant column for the
 * offset, and b what is expected of who took these items (0 where the release does not say). */
class FactorRule extends LinearRule {
  constructor(arrays, settings, n) {
    super(arrays, settings, n);
    this.hasOffset = settings.offset_reg !== null;
    const cols = this.rank + (this.hasOffset ? 1 : 0);
    this.design = this.factors;
    if (this.hasOffset) {
      this.design = { cols, data: new Float32Array(n * cols).fill(1) };
      for (let i = 0; i < n; i++) this.design.data.set(row(this.factors, i), i * cols + 1);
    }
    this.penalty = diagonal(cols, settings.reg);
    if (this.hasOffset) this.penalty[0] = settings.offset_reg;
    const weight = settings.unobserved_weight;
    if (weight) for (let i = 0; i < n; i++) addOuter(this.design, i, weight, this.penalty);
  }

  prior(i) {
    return this.settings.center + this.arrays.item_bias.data[i];
  }

  solver({ at }) {
    const gram = this.penalty.slice();
    for (const i of at) addOuter(this.design, i, 1, gram);
    return solver(gram, this.design.cols);
  }

  /** What having items says of the user's side before any rating: taken . (sum of F - taken_middle)/(m + PULL). */
  before(items, m) {
    const found = new Float64Array(this.design.cols);
    const { taken, taken_middle: middle } = this.arrays;
    if (!taken) return found;
    const shown = new Float64Array(this.rank);
    for (const i of items) for (let k = 0; k < this.rank; k++) shown[k] += this.factors.data[i * this.rank + k] - middle.data[k];
    for (let k = 0; k < this.rank; k++) found[k + this.design.cols - this.rank] = dot(taken, k, shown) / (m + PULL);
    return found;
  }

  fold(history) {
    const user = new Float64Array(this.design.cols);
    const before = this.before(history.at, history.at.length);
    const left = (i, p) => history.values[p] - this.prior(i) - dot(this.design, i, before);
    history.at.forEach((i, p) => add(this.design, i, left(i, p), user));
    this.solver(history)(user);
    before.forEach((value, k) => (user[k] += value));
    return this.hasOffset ? { offset: user[0], along: user.subarray(1) } : { offset: 0, along: user };
  }

  /** part_p = (0, F_i) (P + D^T D)^-1 (D_p t_p + P b_p), b_p being what having p says */
  explain(history, i) {
    const influence = Float64Array.from(row(this.design, i));
    if (this.hasOffset) influence[0] = 0;
    this.solver(history)(influence);
    const { cols } = this.design;
    const penalty = (a, b) => this.penalty[Math.max(a, b) * cols + Math.min(a, b)]; // its lower triangle is filled
    const pulled = influence.map((_, a) => influence.reduce((sum, value, b) => sum + penalty(a, b) * value, 0));
    const said = (j) => this.before([j], history.at.length).reduce((sum, value, k) => sum + value * pulled[k], 0);
    return Array.from(history.at, (j, p) => dot(this.design, j, influence) * (history.values[p] - this.prior(j)) + said(j));
  }
}

/** Rules that subtract the own mean first: t_p = value_p - center - offset. */
class CenteredRule extends LinearRule {
  centered({ values }) {
    const { center, offset_reg: reg } = this.settings;
    const offset = values.reduce((total, value) => total + value - center, 0) / (values.length + (reg ?? Infinity) || 1);
    return { offset, targets: Float64Array.from(values, (value) => value - center - offset) };
  }

  /** part_p = w_p t_p, w_p being the weight of t_p in the score */
  explain(history, i) {
    const { targets } = this.centered(history);
    return this.weights(history, i).map((weight, p) => weight * targets[p]);
  }
}

/** Private SVD: the own row, scaled up for what is missing, projected on the subspace. w_p = scale F_i . F_p */
class ProjectionRule extends CenteredRule {
  scale({ at }) {
    return this.settings.scaling ?? this.n / Math.max(at.length, 1);
  }

  fold(history) {
    const { offset, targets } = this.centered(history);
    const along = new Float64Array(this.rank);
    history.at.forEach((i, p) => add(this.factors, i, this.scale(history) * targets[p], along));
    return { offset, along };
  }

  weights(history, i) {
    return Array.from(history.at, (j) => this.scale(history) * dot(this.factors, j, row(this.factors, i)));
  }
}

/** Frank-Wolfe: replay every posted round on the own row, kept to norm row_norm; or refit all rounds with a ridge. */
class ReplayRule extends CenteredRule {
  fold(history) {
    const { offset, targets } = this.centered(history);
    const refit = this.refit(history); // linear, so that shrinking the row and scaling back are nothing
    return { offset, along: refit ? refit(targets) : this.shrunken(history, targets).along };
  }

  /** The replay of the row at norm row_norm, scaled back. */
  shrunken(history, targets) {
    const shrink = shrinkTo(this.settings.row_norm, targets);
    const { along, used } = this.replay(history, targets.map((t) => t * shrink));
    return { along: along.map((value) => value / shrink), used };
  }

  /** targets -> coefficients, where a ridge was posted. */
  refit({ at }) {
    if (!this.arrays.ridge) return null;
    const gram = diagonal(this.rank, this.arrays.ridge.data);
    for (const i of at) addOuter(this.factors, i, 1, gram);
    const solve = solver(gram, this.rank);
    return (targets) => {
      const along = new Float64Array(this.rank);
      at.forEach((i, p) => add(this.factors, i, targets[p], along));
      return solve(along);
    };
  }

  /** Y <- decay Y - gain (A . v) v, then Y onto the ball. With given ``shrinks`` it is a linear map of the targets. */
  replay({ at }, targets, shrinks = null) {
    const { factors, rank } = this;
    const [gains, decays] = [this.arrays.gains.data, this.arrays.decays.data];
    const along = new Float64Array(rank);
    const predictions = new Float64Array(at.length);
    const used = [];
    for (let t = 0; t < rank; t++) {
      const direction = Array.from(at, (i) => factors.data[i * rank + t]);
      const stride = -gains[t] * direction.reduce((sum, v, p) => sum + (predictions[p] - targets[p]) * v, 0);
      direction.forEach((v, p) => (predictions[p] = decays[t] * predictions[p] + stride * v));
      used[t] = shrinks ? shrinks[t] : shrinkTo(this.settings.row_norm, predictions);
      for (let p = 0; p < at.length; p++) predictions[p] *= used[t];
      for (let s = 0; s < t; s++) along[s] *= decays[t] * used[t];
      along[t] = stride * used[t];
    }
    return { along, used };
  }

  weights(history, i) {
    const own = row(this.factors, i);
    const { targets } = this.centered(history);
    const refit = this.refit(history);
    const used = refit ? null : this.shrunken(history, targets).used;
    return Array.from(targets, (_, p) => {
      const one = new Float64Array(targets.length);
      one[p] = 1;
      const along = refit?.(one) ?? this.replay(history, one, used).along;
      return along.reduce((sum, value, t) => sum + value * own[t], 0);
    });
  }
}

function shrinkTo(bound, vector) {
  const norm = Math.sqrt(vector.reduce((sum, value) => sum + value * value, 0));
  return norm <= bound ? 1 : bound / norm;
}

/** One-bit completion: score = h(F_i . x), x maximising the likelihood of the own signs with a ridge. */
class SignRule extends LinearRule {
  constructor(arrays, settings, n) {
    super(arrays, settings, n);
    this.probit = settings.link === "probit";
    this.by = this.probit ? "probit score" : "log-odds";
  }

  /** h'/h */
  slope(x) {
    if (!this.probit) return 1 / (1 + Math.exp(x));
    if (x > -25) return (Math.sqrt(2 / Math.PI) * Math.exp((-x * x) / 2)) / erfc(-x / Math.SQRT2);
    return -x / (1 - (1 / (x * x)) * (1 - (3 / (x * x)) * (1 - 5 / (x * x))));
  }

  fold({ at, values }) {
    const { factors, rank, settings } = this;
    const signs = Array.from(values, (value) => (value > settings.threshold ? 1 : -1));
    const gram = diagonal(rank, settings.reg);
    for (const i of at) addOuter(factors, i, this.probit ? 1 : 0.25, gram); // the most curvature of -ln h
    const solve = solver(gram, rank);
    const along = new Float64Array(rank);
    const pull = (i, p) => signs[p] * this.slope(signs[p] * dot(factors, i, along));
    for (let step = 0; step < 80; step++) {
      const descent = along.map((value) => -settings.reg * value);
      Array.from(at, pull).forEach((force, p) => add(factors, at[p], force, descent));
      solve(descent).forEach((value, k) => (along[k] += value));
    }
    return { offset: 0, along, pulls: Array.from(at, pull) };
  }

  scores(history) {
    const { along } = this.fold(history);
    const probability = (x) => (this.probit ? erfc(-x / Math.SQRT2) / 2 : 1 / (1 + Math.exp(-x)));
    return Float64Array.from({ length: this.n }, (_, i) => probability(dot(this.factors, i, along)));
  }

  /** At the maximum reg x = sum of pull_p F_p, so that part_p = pull_p F_i . F_p / reg, before the link. */
  explain(history, i) {
    const { pulls } = this.fold(history);
    return Array.from(history.at, (j, p) => (pulls[p] * dot(this.factors, j, row(this.factors, i))) / this.settings.reg);
  }
}

/** EASE and its kin: on the head score_j = sum over p of W_pj; other items follow by tail_scores. W is whole, or one half
 * of a symmetric matrix, or (left right^T) without its diagonal. */
class ItemWeightsRule {
  constructor(arrays, settings, n) {
    const size = arrays.head.data.length;
    Object.assign(this, { arrays, n, size, slots: new Int32Array(n).fill(-1) });
    arrays.head.data.forEach((i, slot) => (this.slots[i] = slot));
    if (arrays.half) {
      const data = new Float32Array(size * size);
      for (let a = 0, at = 0; a < size; a++)
        for (let b = a + 1; b < size; b++) data[a * size + b] = data[b * size + a] = arrays.half.data[at++];
      arrays.item_weights = { cols: size, data };
    }
  }

  weight(from, to) {
    const { left, right, item_weights: whole, input_weights: input, output_weights: output } = this.arrays;
    if (left) return from === to ? 0 : dot(left, from, row(right, to));
    return input.data[from] * whole.data[from * this.size + to] * output.data[to];
  }

  headScores({ at }) {
    const { left, right, item_weights: whole, input_weights: input, output_weights: output } = this.arrays;
    const seen = Array.from(at, (i) => this.slots[i]).filter((slot) => slot >= 0);
    const scores = new Float64Array(this.size);
    if (!left) {
      for (const slot of seen) add(whole, slot, input.data[slot], scores);
      return scores.map((score, j) => score * output.data[j]);
    }
    const along = new Float64Array(left.cols);
    for (const slot of seen) add(left, slot, 1, along);
    for (let j = 0; j < this.size; j++) scores[j] = dot(right, j, along);
    for (const slot of seen) scores[slot] -= dot(left, slot, row(right, slot));
    return scores;
  }

  /** Nothing is known of somebody new; an item outside the head has only its place behind it. */
  prior(i, history) {
    return this.slots[i] < 0 ? this.scores(history)[i] : 0;
  }

  fold(history) {
    return { offset: 0, along: this.headScores(history) };
  }

  scores(history) {
    const head = this.headScores(history);
    const least = head.reduce((a, b) => Math.min(a, b), 0);
    return Float64Array.from(this.slots, (slot, i) => (slot < 0 ? least + this.arrays.tail_scores.data[i] : head[slot]));
  }

  explain({ at }, i) {
    const to = this.slots[i];
    return Array.from(at, (j) => (to < 0 || this.slots[j] < 0 ? 0 : this.weight(this.slots[j], to)));
  }
}

/** Lists: on the head score_i = popularity_i + usual_i(k) + sum over the k items p of the head of W_pi; (1 + k) popularity_i
 * elsewhere. The columns of usual are for k = 1, sqrt(2), 2, ...; between them it is linear in log k. */
class ListRule extends ItemWeightsRule {
  constructor(arrays, settings, n) {
    super(arrays, settings, n);
    this.liked = settings.liked ?? -Infinity;
  }

  taken({ at, values }) {
    return { at: at.filter((_, p) => values[p] >= this.liked) };
  }

  count(history) {
    return this.taken(history).at.filter((i) => this.slots[i] >= 0).length;
  }

  prior(i) {
    return this.arrays.popularity.data[i];
  }

  fold(history) {
    return { offset: 0, along: this.headScores(this.taken(history)) };
  }

  scores(history) {
    const head = this.fold(history).along;
    const k = this.count(history);
    const usual = this.usual(k);
    return Float64Array.from(this.slots, (slot, i) => (slot < 0 ? (1 + k) * this.prior(i) : this.prior(i) + usual(slot) + head[slot]));
  }

  usual(k) {
    const { cols, data } = this.arrays.usual;
    const at = 2 * Math.log2(Math.max(k, 1));
    const low = Math.min(Math.floor(at), cols - 1);
    const high = Math.min(low + 1, cols - 1);
    return (slot) => (k > 0 ? (1 - at + low) * data[slot * cols + low] + (at - low) * data[slot * cols + high] : 0);
  }

  /** part_p = W_pi + usual_i/k for an item of the head, popularity_i for others, if p is of the head and counts as taken */
  explain(history, i) {
    const { at, values } = history;
    const to = this.slots[i];
    const k = this.count(history);
    const usual = this.usual(k);
    const adds = (from) => (to < 0 ? this.prior(i) : this.weight(from, to) + usual(to) / k);
    return Array.from(at, (j, p) => (values[p] >= this.liked && this.slots[j] >= 0 ? adds(this.slots[j]) : 0));
  }
}

const RULES = {
  factors: FactorRule,
  "item-weights": ItemWeightsRule,
  lists: ListRule,
  signs: SignRule,
  replay: ReplayRule,
  projection: ProjectionRule,
};

// ---- The model ----

/** A loaded release. A history is { id: rating }, or [ids] for a model of likes; it is read and not kept. */
export class Model {
  #rule;
  #positions;
  #ranking;

  constructor(manifest, arrays, { ids, titles }, checked) {
    Object.assign(this, { manifest, ids, titles, checked });
    this.binary = manifest.rating_range === null;
    this.counts = Boolean(manifest.counts); // of plays or clicks: more than the largest one is taken for it
    this.#positions = new Map(ids.map((id, i) => [String(id), i]));
    this.#rule = new RULES[manifest.rule](arrays, manifest.settings, ids.length);
    this.#ranking = arrays.ranking;
  }

  #position(id) {
    const at = this.#positions.get(String(id));
    if (at === undefined) throw new LowkeyError("The list names an item that this catalogue does not have. Remove it.");
    return at;
  }

  #history(given) {
    const pairs = Array.isArray(given) ? given.map((id) => [id, 1]) : Object.entries(given);
    if (Array.isArray(given) && !this.binary && !this.counts && pairs.length) throw new LowkeyError("This model needs ratings: { id: rating }.");
    const [low, high] = this.manifest.rating_range ?? [-Infinity, Infinity];
    const rows = pairs.map(([id, value]) => [this.#position(id), this.binary ? 1 : Math.min(Number(value), this.counts ? high : Infinity)]).sort((a, b) => a[0] - b[0]);
    if (!rows.every(([, value]) => value >= low && value <= high))
      throw new LowkeyError(`A rating is outside the scale of this model, ${low} to ${high}.`);
    return { at: rows.map(([i]) => i), values: rows.map(([, value]) => value) };
  }

  /** Expected ratings are ranked with popularity in mind; all else by the scores themselves. */
  #ranked(scores) {
    const scale = this.manifest.settings.ranking_scale ?? 0;
    return this.#ranking ? scores.map((score, i) => score * scale + this.#ranking.data[i]) : scores;
  }

  #shown(score) {
    const range = this.#ranking ? null : this.manifest.settings.rating_range;
    return range ? Math.min(Math.max(score, range[0]), range[1]) : score;
  }

  /** The visitor's side: { offset, along }, computed from the history alone. */
  foldIn(history) {
    const { offset, along } = this.#rule.fold(this.#history(history));
    return { offset, along: Array.from(along) };
  }

  /** Scores of all items, in the order of `ids`: of ratings, the expected ones. */
  scores(history) {
    return this.#rule.scores(this.#history(history));
  }

  /** The n best items, best first: [{ id, title, score }]. `allow` and `block` are lists of ids. */
  recommend(history, { n = 10, excludeSeen = true, allow = null, block = [] } = {}) {
    const rows = this.#history(history);
    const scores = this.#ranked(this.#rule.scores(rows));
    const allowed = allow && new Set(allow.map((id) => this.#position(id)));
    const barred = new Set([...block.map((id) => this.#position(id)), ...(excludeSeen ? rows.at : [])]);
    const best = []; // positions, best first; ties by position
    for (let i = 0; i < scores.length; i++) {
      if (best.length === n && !(scores[i] > scores[best[n - 1]])) continue;
      if (barred.has(i) || (allowed && !allowed.has(i))) continue;
      let place = Math.min(best.length, n - 1);
      for (; place > 0 && scores[i] > scores[best[place - 1]]; place--) best[place] = best[place - 1];
      best[place] = i;
    }
    if (best.length < n) throw new LowkeyError(`Only ${best.length} items are left to recommend. Ask for fewer than ${n}.`);
    return best.map((i) => ({ id: this.ids[i], title: this.titles[i], score: this.#shown(scores[i]) }));
  }

  /** Why: base (for somebody new) + offset (how this visitor rates at large) + the parts' values is the score, before it
   * is clipped to the scale or goes through a link. Largest part first. */
  explain(history, id) {
    const rows = this.#history(history);
    const i = this.#position(id);
    const parts = this.#rule.explain(rows, i);
    const named = rows.at.map((j, p) => ({ id: this.ids[j], title: this.titles[j], value: parts[p] }));
    return {
      id,
      by: this.#rule.by ?? (this.manifest.settings.rating_range ? "rating" : "score"),
      base: this.#rule.prior(i, rows),
      offset: this.#rule.fold(rows).offset,
      parts: named.sort((a, b) => Math.abs(b.value) - Math.abs(a.value)),
    };
  }
}
