// Events of the training loop itself. Names and keys that Python Speedtronic 2.0 has keep their spelling and
// come first in each interface, so that hooks and log parsers written for it work; keys below the blank line
// are additions. Rates are per second; counts are cumulative over resumes.
import { type EventDocs, float, int, object, text } from "./doc.js";

export interface TrainEvents {
  run_info: {
    name: string;
    config: Readonly<Record<string, unknown>>;
    environment: Readonly<Record<string, unknown>>;
    git: {
      readonly commit: string;
      readonly branch: string | null;
      readonly changed_files: number;
    } | null;
  };
  train_start: {
    start_step: number;
    target_step: number;
    device: string;
    precision: string;
    accumulation_steps: number;
    parameters: number;
    shape_alignment: number | null;
    shape_warning_count: number;
    ooo_backprop: Readonly<Record<string, unknown>> | null;

    device_requested?: string;
    device_reason?: string;
    precision_requested?: string;
    precision_reason?: string;
    backend?: string;
    threads?: number;
    model?: string;
    seed?: number;
    micro_batch_size?: number;
    block_size?: number;
    peak_flops?: number;
    output_dir?: string;
  };
  train_step: {
    step: number;
    loss: number;
    lr: number;
    steps_per_sec: number;
    samples_per_sec: number;
    tokens_per_sec: number;
    samples: number;
    tokens: number;
    micro_batches: number;

    next_lr?: number;
    grad_norm?: number;
    tokens_per_sec_train?: number;
    mfu?: number;
    eta_s?: number;
    epoch?: number;
    target_tokens?: number;
    step_s?: number;
    data_s?: number;
    compile_s?: number;
    graph_s?: number;
    optimizer_s?: number;
    sync_s?: number;
    rss_bytes?: number;
  };
  layer_norms: {
    step: number;
    parameter: Readonly<Record<string, number>>;
    gradient: Readonly<Record<string, number>>;
    update: Readonly<Record<string, number>>;
  };
  train_end: {
    steps: number;
    elapsed_s: number;
    loss: number | null;

    samples?: number;
    tokens?: number;
    reason?: string;
    validation_loss?: number;
    times?: Readonly<Record<string, number>>;
  };
  optimizer_step_skipped: {
    step: number;
    reason: string;

    loss?: number;
    grad_norm?: number;
    consecutive?: number;
  };
}

export const trainEventDocs = {
  run_info: {
    doc: "Where the numbers of this run come from. Not shown on the console.",
    keys: {
      name: text("run.name"),
      config: object("the whole configuration, without secrets"),
      environment: object("versions, processor and threads"),
      git: object("commit, branch and number of changed files of the working directory, or null"),
    },
  },
  train_start: {
    doc: "Training is about to begin: what runs, from where to where, and what was really engaged.",
    keys: {
      start_step: int("updates done before this run (0 unless resumed)"),
      target_step: int("absolute step at which the run ends"),
      device: text("device in use"),
      precision: text("precision in use"),
      accumulation_steps: int("micro-batches per optimizer update"),
      parameters: int("number of parameters, tied ones once"),
      shape_alignment: int("alignment that shapes were checked against, or null"),
      shape_warning_count: int("number of shape warnings"),
      ooo_backprop: object("stream scheduling of the backward pass, or null where it is not engaged"),
      device_requested: text("device the configuration asked for"),
      device_reason: text("why the device in use was chosen"),
      precision_requested: text("precision the configuration asked for"),
      precision_reason: text("why the precision in use was chosen"),
      backend: text("tensor backend"),
      threads: int("compute threads"),
      model: text("registered name of the model"),
      seed: int("seed of the run"),
      micro_batch_size: int("samples per micro-batch"),
      block_size: int("tokens per sample"),
      peak_flops: float("measured GEMM peak in FLOP/s, the base of mfu"),
      output_dir: text("folder the run writes to"),
    },
  },
  train_step: {
    doc: "One optimizer update is complete.",
    keys: {
      step: int("number of this update, counted from 1 over the whole run"),
      loss: float("mean training loss of the update, in nats per target token"),
      lr: float("learning rate that produced this update"),
      steps_per_sec: float("updates per second of wall time since this process began to train"),
      samples_per_sec: float("samples per second of wall time since this process began to train"),
      tokens_per_sec: float("tokens per second of wall time since this process began to train"),
      samples: int("samples seen, cumulative"),
      tokens: int("tokens seen, cumulative"),
      micro_batches: int("micro-batches in this update"),
      next_lr: float("learning rate of the next update"),
      grad_norm: float("global L2 norm of the gradients before clipping"),
      tokens_per_sec_train: float("tokens per second of training time in the recent window, pauses excluded"),
      mfu: float("model FLOP/s as a share of the measured peak, 0 to 1"),
      eta_s: float("estimated seconds until the target step"),
      epoch: int("epoch of the data, counted from 0"),
      target_tokens: int("tokens in this update that count towards the loss"),
      step_s: float("seconds this update took, pauses excluded"),
      data_s: float("seconds of this update spent waiting for data"),
      compile_s: float(
        "seconds of this update spent preparing its graphs: nearly all of it compiling new shapes",
      ),
      graph_s: float("seconds of this update in its graphs: forward and backward pass, which are one graph"),
      optimizer_s: float("seconds of this update spent on gradient norm, clipping and the optimizer"),
      sync_s: float("seconds of this update spent on exchange with others"),
      rss_bytes: int("resident memory of the process"),
    },
  },
  layer_norms: {
    doc: "L2 norms of one update, parameter by parameter (logging.layer_norms).",
    keys: {
      step: int("number of the update"),
      parameter: object("norm of each parameter before the update, by name"),
      gradient: object("norm of its gradient, averaged over the update, before clipping"),
      update: object("norm of what the update changed"),
    },
  },
  train_end: {
    doc: "Training ended, as `reason` says.",
    keys: {
      steps: int("absolute step reached"),
      elapsed_s: float("seconds that this fit took"),
      loss: float("loss of the last update of this fit, or null if there was none"),
      samples: int("samples seen, cumulative"),
      tokens: int("tokens seen, cumulative"),
      reason: text("why it ended: target, error, or what stopped it, such as SIGINT"),
      validation_loss: float("last validation loss"),
      times: object(
        "seconds of this fit by what they went to: data, compile, graph, optimizer, sync, evaluation, sample, checkpoint, other",
      ),
    },
  },
  optimizer_step_skipped: {
    doc: "An update was not applied; the same step number is tried again with the next batches.",
    keys: {
      step: int("number of the update that was skipped"),
      reason: text("such as non_finite_loss, non_finite_gradient or grad_scaler_overflow"),
      loss: float("loss of the skipped update"),
      grad_norm: float("gradient norm of the skipped update"),
      consecutive: int("skips in a row, this one included"),
    },
  },
} as const satisfies EventDocs<TrainEvents>;
