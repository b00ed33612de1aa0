// The sizes that benchmarks use, as configurations of the reference model. S and M are language models with a
// vocabulary of 4096; `demo` is the byte-level model of configs/demo.yaml.

export interface BenchSize {
  readonly vocab: number;
  readonly width: number;
  readonly layers: number;
  readonly heads: number;
  readonly context: number;
  readonly batch: number;
  /** Nominal MLP width; the reference rule makes two thirds of it. */
  readonly dFf: number;
  /** MLP width that follows. */
  readonly inner: number;
}

export const sizes: Readonly<Record<string, BenchSize>> = {
  S: { vocab: 4096, width: 256, layers: 4, heads: 4, context: 256, batch: 8, dFf: 1056, inner: 704 },
  M: { vocab: 4096, width: 512, layers: 6, heads: 8, context: 512, batch: 4, dFf: 2112, inner: 1408 },
  demo: { vocab: 256, width: 192, layers: 4, heads: 6, context: 128, batch: 16, dFf: 768, inner: 512 },
};
