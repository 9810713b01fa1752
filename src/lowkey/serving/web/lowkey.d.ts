/** An item's id, as the catalogue has it. Whole numbers too large for JavaScript are text. */
export type Id = string | number;

/** Ratings by id, or for a model of likes a list of ids. It is read and not kept. */
export type History = Record<string, number> | Id[];

export interface Files {
  manifest: string;
  items: string;
  model: ArrayBuffer | Uint8Array;
}

export interface Recommendation {
  id: Id;
  title: string | number;
  /** The expected rating, the probability of a like, or a score that only ranks; see `manifest.settings.rating_range`. */
  score: number;
}

export interface Part {
  id: Id;
  title: string | number;
  value: number;
}

/** base + offset + the parts' values = the score, before it is clipped to the scale or goes through a link. */
export interface Explanation {
  id: Id;
  by: "rating" | "score" | "log-odds" | "probit score";
  /** What somebody new gets. */
  base: number;
  /** How this visitor rates at large; 0 where the model has no such thing. */
  offset: number;
  /** One for each item of the history, the largest first. */
  parts: Part[];
}

export interface Loss {
  histories: number;
  top_ten_kept: number;
  same_ten: number;
  largest_change_of_a_score: number;
}

export interface Manifest {
  format: "lowkey-web/1";
  id: string;
  lowkey: string;
  method: string;
  rule: "factors" | "item-weights" | "signs" | "replay" | "projection";
  settings: Record<string, unknown>;
  n_items: number;
  rating_range: [number, number] | null;
  /** Values are counts: more than the end of the range is taken for it. */
  counts?: true;
  precision: "float32" | "float16" | "int8";
  loss: Loss;
  files: Record<string, { bytes: number; sha256: string }>;
  /** The id of the release that this was made from. */
  release?: string;
  privacy?: { statement: string; epsilon: number; delta: number; unit: string };
}

/** Thrown with a sentence that can be shown to a visitor. */
export class LowkeyError extends Error {}

export class Model {
  readonly manifest: Manifest;
  readonly ids: Id[];
  readonly titles: (string | number)[];
  /** The model needs no ratings, only ids. */
  readonly binary: boolean;
  /** Whether hashes were compared; false where the browser offers no crypto.subtle. */
  readonly checked: boolean;
  /** The visitor's side of the model, from the history alone. */
  foldIn(history: History): { offset: number; along: number[] };
  /** Scores of all items, in the order of `ids`: of ratings, the expected ones. */
  scores(history: History): Float64Array;
  /** The n best items, best first. Throws if fewer are left. */
  recommend(
    history: History,
    options?: { n?: number; excludeSeen?: boolean; allow?: Id[] | null; block?: Id[] },
  ): Recommendation[];
  explain(history: History, id: Id): Explanation;
}

/** Loads from a folder's address, or from files at hand, and checks sizes and hashes first. */
export function load(source: string | URL | Files): Promise<Model>;

export const FORMAT: "lowkey-web/1";
