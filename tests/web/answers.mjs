// node answers.mjs lowkey.js folder: reads {at: [...], values: [...]} a line, answers with the top ten,
// and for the first 50 lines with why the best is.
import { readFileSync } from "node:fs";
import { pathToFileURL } from "node:url";

const [script, folder] = process.argv.slice(2);
const { load } = await import(pathToFileURL(script));
const read = (name, kind) => readFileSync(`${folder}/${name}`, kind);
const model = await load({
  manifest: read("manifest.json", "utf8"),
  items: read("items.json", "utf8"),
  model: read("model.safetensors"),
});
const answers = readFileSync(0, "utf8").trim().split("\n").map((line, number) => {
  const { at, values } = JSON.parse(line);
  const history = model.binary ? at.map((i) => model.ids[i]) : Object.fromEntries(at.map((i, p) => [model.ids[i], values[p]]));
  const best = model.recommend(history, { n: 10 });
  return { ids: best.map(({ id }) => id), scores: best.map(({ score }) => score), why: number < 50 && model.explain(history, best[0].id) };
});
process.stdout.write(JSON.stringify({ checked: model.checked, answers }));
