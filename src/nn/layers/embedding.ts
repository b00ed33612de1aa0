// Rows of a table, looked up by id.

import { embedding, type Parameter, type Tensor } from "../../tensor/index.js";
import { createParameter } from "../init/initialize.js";
import { type Initializer, normal } from "../init/initializers.js";
import { Module } from "../module.js";
import { requireSize } from "./sizes.js";

export class Embedding extends Module {
  /** [count, width] */
  weight: Parameter;

  /** The weight starts standard normal unless `weightInit` says otherwise. */
  constructor(count: number, width: number, options: { weightInit?: Initializer } = {}) {
    super();
    requireSize("Embedding", "count", count);
    requireSize("Embedding", "width", width);
    this.weight = createParameter([count, width], options.weightInit ?? normal());
  }

  /** ids: int32 [...], each below `count` (not checked: values are unknown here). Result: [..., width]. */
  forward(ids: Tensor): Tensor {
    return embedding(this.weight, ids);
  }
}
