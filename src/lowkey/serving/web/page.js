// The page around lowkey.js: a search, a list with ratings, and ten suggestions with their reasons. The exporter puts
// lowkey.js in place of the next line, and both into index.html, so that one file works from a disk and from a server.
import { load, LowkeyError } from "./lowkey.js";

const MOST_FOUND = 8;
const byId = (id) => document.getElementById(id);
const status = byId("status");

/** An element with attributes and children; text is always text, so a title can hold what it likes. */
function element(tag, attributes = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes))
    if (name.startsWith("on")) made.addEventListener(name.slice(2), value);
    else if (value !== false) made.setAttribute(name, value === true ? "" : value);
  made.append(...children);
  return made;
}

const rounded = (value, digits = 2) => value.toFixed(digits).replace(/^-(?=0\.?0*$)/, "");
const signed = (value) => (value < 0 ? "−" : "+") + rounded(Math.abs(value));

class Page {
  picks = new Map(); // id -> rating, in the order of picking; lives as long as the page
  shown = []; // ids of the last suggestions
  options = []; // positions in the open list of the search
  active = -1;

  constructor(model) {
    this.model = model;
    this.range = model.counts ? null : model.manifest.rating_range;
    this.once = model.manifest.settings.liked ?? 1; // what a pick stands for where there are no ratings
    this.signs = model.manifest.rule === "signs";
    this.folded = model.titles.map((title) => String(title).toLowerCase());
    this.search = byId("search");
    this.search.addEventListener("input", () => this.find());
    this.search.addEventListener("keydown", (event) => this.onKey(event));
    this.search.addEventListener("blur", () => this.close());
    byId("clear").addEventListener("click", () => this.change(() => this.picks.clear()));
    this.showSuggestions();
  }

  // ---- Search ----

  find() {
    const words = this.search.value.toLowerCase().split(/\s+/).filter(Boolean);
    this.options = [];
    for (let i = 0; words.length && i < this.folded.length && this.options.length < MOST_FOUND; i++)
      if (words.every((word) => this.folded[i].includes(word)) && !this.picks.has(this.model.ids[i])) this.options.push(i);
    const found = byId("found");
    const none = element("li", { role: "option", "aria-disabled": "true", class: "soft" }, "Nothing of that name");
    found.replaceChildren(...(this.options.length ? this.options.map((i, row) => this.option(i, row)) : [none]));
    found.hidden = !words.length;
    this.search.setAttribute("aria-expanded", String(words.length > 0));
    this.activate(this.options.length ? 0 : -1);
  }

  option(i, row) {
    const choose = (event) => {
      event.preventDefault(); // the search keeps the focus
      this.choose(row);
    };
    return element("li", { role: "option", id: `option-${row}`, onpointerdown: choose }, this.model.titles[i]);
  }

  activate(row) {
    this.active = row;
    byId("found").querySelectorAll("[role=option]").forEach((option, r) => option.setAttribute("aria-selected", String(r === row)));
    if (row < 0) this.search.removeAttribute("aria-activedescendant");
    else this.search.setAttribute("aria-activedescendant", `option-${row}`);
  }

  onKey(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (step && this.options.length) {
      this.activate((this.active + step + this.options.length) % this.options.length);
      event.preventDefault();
    } else if (event.key === "Enter" && this.active >= 0 && !byId("found").hidden) this.choose(this.active);
    else if (event.key === "Escape") this.close();
  }

  choose(row) {
    const i = this.options[row];
    this.search.value = "";
    this.close();
    this.pick(this.model.ids[i]);
  }

  close() {
    byId("found").hidden = true;
    this.search.setAttribute("aria-expanded", "false");
    this.activate(-1);
  }

  // ---- The list ----

  pick(id) {
    this.change(() => this.picks.set(id, this.range ? this.range[1] : this.once));
  }

  change(edit) {
    edit();
    byId("picks").replaceChildren(...[...this.picks.keys()].map((id) => this.pickRow(id)));
    byId("hint").hidden = this.picks.size > 2;
    byId("clear").hidden = this.picks.size === 0;
    this.showSuggestions();
  }

  title(id) {
    return String(this.model.titles[this.model.ids.indexOf(id)]);
  }

  pickRow(id) {
    const title = this.title(id);
    const remove = () => {
      this.change(() => this.picks.delete(id));
      this.search.focus();
    };
    const cross = element("button", { class: "icon", type: "button", "aria-label": `Remove ${title}`, onclick: remove }, "×");
    return element("li", {}, element("span", {}, title), cross, ...(this.range ? [this.rating(id, title)] : []));
  }

  rating(id, title) {
    if (this.signs) return this.thumbs(id, title);
    const [low, high] = this.range;
    const step = Number.isInteger(low * 2) && high - low <= 10 ? (Number.isInteger(low) ? 1 : 0.5) : (high - low) / 100;
    const value = element("output", { "aria-hidden": "true" });
    const input = element("input", { type: "range", min: low, max: high, step, "aria-label": `Your rating of ${title}` });
    input.value = this.picks.get(id);
    const starred = low >= 0 && high <= 5;
    const full = element("span", { class: "full", "aria-hidden": "true" });
    const show = () => {
      value.textContent = rounded(Number(input.value), Number.isInteger(step) ? 0 : 1);
      input.setAttribute("aria-valuetext", `${value.textContent} of ${high}`);
      full.style.setProperty("--share", `${(100 * input.value) / high}%`);
    };
    input.addEventListener("input", () => {
      this.picks.set(id, Number(input.value));
      show();
      this.showSuggestions();
    });
    show();
    if (!starred) input.className = "plain";
    else full.append(stars(high));
    const none = element("span", { class: "none", "aria-hidden": "true" });
    if (starred) none.append(stars(high));
    return element("div", { class: "rate" }, starred ? element("div", { class: "stars" }, none, full, input) : input, value);
  }

  thumbs(id, title) {
    const [low, high] = this.range;
    const choice = (word, value) => {
      const set = (event) => {
        this.picks.set(id, value);
        for (const button of event.currentTarget.parentNode.children)
          button.setAttribute("aria-pressed", String(button === event.currentTarget));
        this.showSuggestions();
      };
      const pressed = String(this.picks.get(id) === value);
      return element("button", { type: "button", "aria-pressed": pressed, "aria-label": `${word}: ${title}`, onclick: set }, word);
    };
    const both = element("div", { class: "choice", role: "group" }, choice("Like", high), choice("Dislike", low));
    return element("div", { class: "rate" }, both);
  }

  // ---- Suggestions ----

  showSuggestions() {
    const history = this.model.binary ? [...this.picks.keys()] : Object.fromEntries(this.picks);
    const n = Math.min(10, this.model.ids.length - this.picks.size);
    const best = n > 0 ? this.model.recommend(history, { n }) : [];
    const open = new Set([...document.querySelectorAll("#recommendations details[open]")].map((d) => d.dataset.id));
    const rows = best.map((item) => this.suggestion(item, history, open.has(String(item.id))));
    byId("recommendations").replaceChildren(...rows);
    byId("suggested").textContent = this.picks.size ? "For you" : "For somebody new";
    byId("live").textContent = this.picks.size ? `Suggestions changed. First: ${best[0]?.title ?? "nothing left"}` : "";
    byId("peek").hidden = !this.picks.size || !best.length;
    byId("first").textContent = best.length ? String(best[0].title) : "";
    this.shown = best.map((item) => item.id);
  }

  suggestion({ id, title, score }, history, open) {
    const know = () => {
      const place = this.shown.indexOf(id);
      this.pick(id);
      byId("recommendations").querySelectorAll(".icon")[place]?.focus(); // the next one has come up to this place
    };
    const add = element("button", { class: "icon", type: "button", "aria-label": `I know ${title}: add it`, onclick: know }, "+");
    const isNew = this.shown.length > 0 && !this.shown.includes(id);
    const row = element("li", { class: isNew && "new", "data-id": id }, element("span", { class: "title" }, String(title)));
    row.append(this.score(score), add);
    if (this.picks.size) row.append(this.why(history, id, open));
    return row;
  }

  score(score) {
    if (this.signs) return element("span", { class: "score" }, element("b", {}, `${Math.round(100 * score)} %`));
    if (!this.model.manifest.settings.rating_range) return element("span"); // a bare score says nothing but its place
    const star = element("span", { class: "star", "aria-hidden": "true" }, "★ ");
    return element("span", { class: "score" }, star, element("b", {}, rounded(score, 1)), element("span", { class: "unseen" }, " expected"));
  }

  why(history, id, open) {
    const reasons = this.model.explain(history, id);
    const total = reasons.parts.reduce((sum, { value }) => sum + Math.abs(value), 0);
    const least = this.range && !this.signs ? (this.range[1] - this.range[0]) / 200 : total / 50; // less is no reason
    const names = reasons.parts.filter(({ value }) => value > least).slice(0, 2);
    const amount = this.amounts(reasons);
    const texts = names.flatMap(({ title, value }, i) => [i ? " and " : "", element("em", {}, String(title)), ` ${amount(value)}`]);
    const lead = names.length ? "Because of " : "Liked by many, rather than because of your list";
    const details = element("details", { open, "data-id": id }, element("summary", {}, lead, ...texts));
    const build = () => details.childElementCount > 1 || details.append(this.table(reasons));
    details.addEventListener("toggle", build);
    if (open) build();
    return details;
  }

  /** Parts of a rating or of log-odds as they are; parts of a bare score as shares of it. */
  amounts({ by, parts }) {
    const total = parts.reduce((sum, { value }) => sum + Math.abs(value), 0) || 1;
    return by === "score" ? (value) => `${Math.round((100 * value) / total)} %` : signed;
  }

  table({ base, offset, parts, by }) {
    const amount = this.amounts({ by, parts });
    const most = Math.max(...parts.map(({ value }) => Math.abs(value)), 1e-12);
    const line = (name, value, bar, kind) =>
      element("tr", { class: kind ?? false }, element("th", { scope: "row" }, name), element("td", {}, bar), element("td", { class: "amount" }, value));
    const rows = parts.map(({ title, value }) => {
      const bar = element("span", { class: value < 0 ? "bar minus" : "bar", "aria-hidden": "true" });
      bar.style.setProperty("--share", `${(100 * Math.abs(value)) / most}%`);
      return line(String(title), amount(value), bar);
    });
    const total = parts.reduce((sum, { value }) => sum + value, base + offset);
    if (by === "score") return element("table", {}, ...rows);
    if (offset) rows.unshift(line("How you rate at large", signed(offset), ""));
    if (base) rows.unshift(line("For somebody new", rounded(base), ""));
    return element("table", {}, ...rows, line(`Sum (${by})`, rounded(total), "", "sum"));
  }
}

/** As many stars as the scale has, in one picture: the same width in every font. */
function stars(count) {
  const space = "http://www.w3.org/2000/svg";
  const picture = document.createElementNS(space, "svg");
  picture.setAttribute("viewBox", `0 0 ${26 * count} 24`);
  picture.setAttribute("preserveAspectRatio", "none");
  for (let i = 0; i < count; i++) {
    const star = document.createElementNS(space, "path");
    star.setAttribute("d", "M13 2l3.2 6.7 7.3.9-5.4 5 1.4 7.3L13 18.3 6.5 21.9l1.4-7.3-5.4-5 7.3-.9z");
    star.setAttribute("transform", `translate(${26 * i} 0)`);
    star.setAttribute("fill", "currentColor");
    picture.append(star);
  }
  return picture;
}

async function start() {
  if (!byId("end")) throw new LowkeyError("This page was not loaded to its end. Reload it, or ask for a fresh copy.");
  const text = (id) => byId(id).textContent;
  const model = await load({
    manifest: text("manifest"),
    items: text("items"),
    model: Uint8Array.from(atob(text("model")), (letter) => letter.charCodeAt(0)),
  });
  for (const id of ["manifest", "items", "model"]) byId(id).remove(); // read, and a megabyte less to hold
  byId("checked").textContent = model.checked
    ? "The model and the catalogue are as they were written: their sha256 match the manifest."
    : "The hashes were not compared: browsers lend a page their sha256 on https and from a disk only.";
  byId("checked").dataset.ok = String(model.checked);
  new Page(model);
  status.remove();
  byId("app").hidden = false;
}

start().catch((error) => {
  status.className = "wrong";
  status.textContent = error instanceof LowkeyError ? error.message : "This page does not work here. Ask for a fresh copy.";
  if (!(error instanceof LowkeyError)) console.error(error);
});
