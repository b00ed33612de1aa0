// From a configuration to what the engine's optimiser needs: constants of the run, and for the hybrid one which rule
// updates which parameter of a model.

import type { SpeedtronicConfig } from "../config/schema.js";
import type { TrainableModel } from "../nn/contract.js";
import { Linear } from "../nn/layers/linear.js";
import type { OptimizerHyper } from "../optim/optimizer.js";
import { type Route, type RoutedParameter, routeParameters } from "../optim/routing.js";

export function optimizerHyper({ optimizer, compat }: SpeedtronicConfig): OptimizerHyper {
  const { betas, eps, lr, weight_decay: weightDecay } = optimizer;
  return {
    betas,
    eps,
    weightDecay,
    momentum: optimizer.sgd_momentum,
    nesterov: optimizer.sgd_nesterov,
    muon: {
      momentum: optimizer.muon_momentum,
      steps: optimizer.muon_ns_steps,
      plus: optimizer.muon_plus ? optimizer.muon_plus_mode : "none",
      normEps: optimizer.muon_norm_eps,
      lrScale: (optimizer.muon_lr ?? lr) / lr,
      weightDecay: optimizer.muon_weight_decay ?? weightDecay,
      scale: optimizer.muon_scale,
    },
    ...(optimizer.cautious && {
      cautious: { masksDecay: compat.cautious_decay, rescales: optimizer.cautious_rescale },
    }),
  };
}

/**
 * What the hybrid optimiser does with each parameter of `model`, in the model's order: Muon or AdamW, and why.
 * @throws ConfigError where `optimizer.muon_routes` does not fit the model
 */
export function optimizerRoutes({ optimizer }: SpeedtronicConfig, model: TrainableModel): Route[] {
  const modules = [...model.namedModules().values()];
  const parameters = [...model.namedParameters()].map(([name, parameter]): RoutedParameter => {
    // The first holder: a tied table belongs to the embedding.
    const owner = modules.find((module) => Object.values(module).includes(parameter));
    return {
      name,
      shape: parameter.shape,
      trainable: parameter.trainable,
      owner: owner?.constructor.name ?? "model",
      isLinear: owner instanceof Linear,
    };
  });
  return routeParameters(parameters, optimizer.muon_routes);
}

/** Rules by parameter name; empty where one rule updates everything. */
export function parameterRules(config: SpeedtronicConfig, model: TrainableModel): Map<string, string> {
  if (config.optimizer.name !== "muon") return new Map();
  return new Map(
    optimizerRoutes(config, model)
      .filter(({ rule }) => rule !== "frozen")
      .map(({ name, rule }) => [name, rule]),
  );
}
