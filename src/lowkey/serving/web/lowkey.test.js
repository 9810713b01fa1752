// A model of three films that can be computed in the head: no factors, only what films get, and the visitor's own offset.
import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import test from "node:test";
import { load, LowkeyError } from "./lowkey.js";

const sha256 = (data) => createHash("sha256").update(data).digest("hex");

function tensors(arrays) {
  const header = {};
  let end = 0;
  for (const [name, { dtype, shape, data }] of Object.entries(arrays))
    header[name] = { dtype, shape, data_offsets: [end, (end += data.byteLength)] };
  const text = Buffer.from(JSON.stringify(header));
  const length = Buffer.alloc(8);
  length.writeBigUInt64LE(BigInt(text.length));
  return Buffer.concat([length, text, ...Object.values(arrays).map(({ data }) => Buffer.from(data.buffer))]);
}

function files(changes = {}) {
  const model = tensors({
    item_bias: { dtype: "F32", shape: [3], data: new Float32Array([0.5, 0, 1]) },
    item_factors: { dtype: "F32", shape: [3, 0], data: new Float32Array(0) },
  });
  const items = JSON.stringify({ ids: [10, 20, 30], titles: ["Ant", "Bee", "Cat"] });
  const described = (data) => ({ bytes: Buffer.byteLength(data), sha256: sha256(data) });
  const manifest = {
    files: { "items.json": described(items), "model.safetensors": described(model) },
    format: "lowkey-web/1",
    n_items: 3,
    rating_range: [1, 5],
    rule: "factors",
    settings: { center: 3, offset_reg: 3, rating_range: [1, 5], reg: 1 },
    ...changes,
  };
  const text = JSON.stringify(manifest, null, 1);
  return { manifest: text.replace("{\n", `{\n "id": "${sha256(text)}",\n`), items, model };
}

test("somebody new gets what films get", async () => {
  const model = await load(files());
  assert.equal(model.checked, true);
  const best = model.recommend({}, { n: 3 });
  assert.deepEqual(best, [
    { id: 30, title: "Cat", score: 4 },
    { id: 10, title: "Ant", score: 3.5 },
    { id: 20, title: "Bee", score: 3 },
  ]);
});

test("a generous visitor's offset, shrunk by its ridge, is explained", async () => {
  const model = await load(files());
  // Bee gets 3 from somebody new and 5 here: 2 more, over one rating and a ridge of 3.
  assert.deepEqual(model.recommend({ 20: 5 }, { n: 1 }), [{ id: 30, title: "Cat", score: 4.5 }]);
  const { base, offset, parts } = model.explain({ 20: 5 }, 10);
  assert.deepEqual([base, offset, parts], [3.5, 0.5, [{ id: 20, title: "Bee", value: 0 }]]);
});

test("lists of what may and may not come", async () => {
  const model = await load(files());
  const ids = (options) => model.recommend({ 30: 4 }, options).map(({ id }) => id);
  assert.deepEqual(ids({ n: 2 }), [10, 20]);
  assert.deepEqual(ids({ n: 1, excludeSeen: false }), [30]);
  assert.deepEqual(ids({ n: 1, block: [10] }), [20]);
  assert.deepEqual(ids({ n: 1, allow: ["20"] }), [20]);
  assert.throws(() => ids({ n: 3 }), /Only 2 items are left/);
});

test("what a visitor may not enter", async () => {
  const model = await load(files());
  assert.throws(() => model.recommend({ 40: 3 }), LowkeyError);
  assert.throws(() => model.recommend({ 20: 6 }), /outside the scale/);
  assert.throws(() => model.recommend({ 20: "many" }), /outside the scale/);
  assert.throws(() => model.recommend([20]), /needs ratings/);
});

test("damaged files are refused with a sentence", async () => {
  const refused = (changed, words) => assert.rejects(load({ ...files(), ...changed }), words);
  const { manifest, items, model } = files();
  await refused({ items: items.replace("Bee", "Bug") }, /items.json was changed .* fresh copy/);
  await refused({ items: items.slice(1) }, /bytes instead of/);
  await refused({ model: model.subarray(0, 20) }, /bytes instead of/);
  await refused({ manifest: manifest.slice(0, 200) }, /not what was written/);
  await refused({ manifest: manifest.replace('"reg": 1\n', '"reg": 2\n') }, /manifest.json was changed/);
  await refused(files({ format: "lowkey-web/2" }), /version "lowkey-web\/2".*export the release again/);
  await refused(files({ rule: "magic" }), /lacks a rule/);
  await refused({ manifest: undefined }, /damaged/);
});

test("a header that lies about its numbers is refused though its hash is right", async () => {
  const lying = tensors({ item_bias: { dtype: "F32", shape: [9], data: new Float32Array(3) } });
  const described = { bytes: lying.length, sha256: sha256(lying) };
  const { items } = files();
  const made = files({ files: { "items.json": { bytes: items.length, sha256: sha256(items) }, "model.safetensors": described } });
  await assert.rejects(load({ ...made, model: lying }), /ends too early/);
});

test("without crypto.subtle it says that it did not check", async () => {
  const real = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  Object.defineProperty(globalThis, "crypto", { value: {}, configurable: true });
  try {
    assert.equal((await load(files())).checked, false);
  } finally {
    Object.defineProperty(globalThis, "crypto", real);
  }
});

test("half precision is decoded, small numbers and all", async () => {
  const halves = { dtype: "F16", shape: [3], data: new Uint16Array([0x3800, 0x8001, 0x3c00]) }; // 0.5, -2^-24, 1
  const model = tensors({ item_bias: halves, item_factors: { dtype: "F32", shape: [3, 0], data: new Float32Array(0) } });
  const { items } = files();
  const described = (data) => ({ bytes: data.length, sha256: sha256(data) });
  const made = files({ files: { "items.json": described(items), "model.safetensors": described(model) } });
  const scores = (await load({ ...made, model })).scores({});
  assert.deepEqual([...scores], [3.5, 3 - 2 ** -24, 4]);
});

test("a folder is fetched, and a missing file is named", async () => {
  const { manifest, items, model } = files();
  const served = { "manifest.json": manifest, "items.json": items, "model.safetensors": model };
  const real = globalThis.fetch;
  globalThis.fetch = async (url) => new Response(served[String(url).split("/").pop()] ?? "", { status: String(url).includes("gone") ? 404 : 200 });
  try {
    assert.equal((await load("https://example.org/site")).ids.length, 3);
    await assert.rejects(load("https://example.org/gone/"), /manifest.json could not be loaded \(the server says 404\)/);
  } finally {
    globalThis.fetch = real;
  }
});
