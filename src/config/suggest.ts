// "Did you mean": near misses by edit distance, keys that live in another section, and names that other trainers
// use for the same thing.

import { sections } from "./sections/index.js";
import { ROOT_FLAGS } from "./sections/root.js";

/** Damerau-Levenshtein distance (optimal string alignment): inserts, deletes, replacements, swapped neighbours. */
function editDistance(a: string, b: string): number {
  let beforeLast: number[] = [];
  let last = Array.from({ length: b.length + 1 }, (_, j) => j);
  for (let i = 1; i <= a.length; i++) {
    const row = [i];
    for (let j = 1; j <= b.length; j++) {
      const replace = (last[j - 1] as number) + (a[i - 1] === b[j - 1] ? 0 : 1);
      let best = Math.min(replace, (last[j] as number) + 1, (row[j - 1] as number) + 1);
      if (i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]) {
        best = Math.min(best, (beforeLast[j - 2] as number) + 1);
      }
      row.push(best);
    }
    beforeLast = last;
    last = row;
  }
  return last[b.length] as number;
}

function simplify(name: string): string {
  return name.toLowerCase().replace(/[^a-z0-9]/g, "");
}

/** The candidate nearest to `word`, if it is near enough to be a slip of the hand. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  const wanted = simplify(word);
  let best: string | undefined;
  let bestDistance = Math.min(3, Math.max(1, Math.floor(wanted.length / 3))) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(wanted, simplify(candidate));
    if (distance < bestDistance) {
      best = candidate;
      bestDistance = distance;
    }
  }
  return best;
}

// Names from other trainers, simplified, and where the same thing is found here.
const elsewhere: Readonly<Record<string, string>> = {
  learningrate: "optimizer.lr",
  wd: "optimizer.weight_decay",
  beta1: "optimizer.betas",
  beta2: "optimizer.betas",
  momentum: "optimizer.muon_momentum",
  maxgradnorm: "optimizer.grad_clip",
  gradclipnorm: "optimizer.grad_clip",
  clip: "optimizer.grad_clip",
  warmup: "scheduler.warmup_steps",
  lrscheduler: "scheduler.name",
  minlr: "scheduler.min_lr_ratio",
  batchsize: "data.micro_batch_size",
  globalbatchsize: "data.target_batch_size",
  gradientaccumulationsteps: "data.target_batch_size",
  seqlen: "data.block_size",
  contextlength: "model.max_seq_len",
  maxpositionembeddings: "model.max_seq_len",
  blocksize: "data.block_size",
  steps: "run.max_steps",
  maxiters: "run.max_steps",
  iterations: "run.max_steps",
  epochs: "run.max_steps",
  layers: "model.n_layer",
  numlayers: "model.n_layer",
  numhiddenlayers: "model.n_layer",
  heads: "model.n_head",
  numheads: "model.n_head",
  numattentionheads: "model.n_head",
  numkeyvalueheads: "model.n_kv_head",
  embeddim: "model.d_model",
  nembd: "model.d_model",
  hiddensize: "model.d_model",
  intermediatesize: "model.d_ff",
  vocab: "model.vocab_size",
  tieembeddings: "model.tie_weights",
  ropetheta: "model.rope_base",
  path: "data.text_path",
  file: "data.text_path",
  dtype: "precision.mode",
  mixedprecision: "precision.mode",
  saveevery: "checkpoint.every_steps",
  savesteps: "checkpoint.every_steps",
  evalevery: "evaluation.every_steps",
  evalsteps: "evaluation.every_steps",
  threads: "run.threads",
  outdir: "run.output_dir",
};

function pathOf(section: string, key: string): string {
  return section === "" ? key : `${section}.${key}`;
}

/**
 * The key path that was probably meant by the unknown `key` in `section` ("" is the root). A near miss in the same
 * section comes first, then the same key in another section, then another trainer's name, then a near miss anywhere.
 */
export function suggestKey(section: string, key: string, siblings: readonly string[]): string | undefined {
  const near = nearest(key, siblings);
  if (near !== undefined) return pathOf(section, near);
  if (ROOT_FLAGS.has(section)) return undefined;
  const all = sections.flatMap((spec) =>
    Object.keys(spec.shape).map((name) => ({ section: spec.name, name })),
  );
  const same = all.find(({ name }) => simplify(name) === simplify(key));
  if (same !== undefined) return pathOf(same.section, same.name);
  const synonym = nearest(key, Object.keys(elsewhere));
  if (synonym !== undefined) return elsewhere[synonym];
  const anywhere = nearest(key, new Set(all.map(({ name }) => name)));
  const found = all.find(({ name }) => name === anywhere);
  return found === undefined ? undefined : pathOf(found.section, found.name);
}
