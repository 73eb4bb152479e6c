// What the literature's closed forms say about one transformer layer and one micro-batch, per device: shown beside what
// a program executes, and read by nothing else.
//
// h hidden, g query heads per key-value head, F ffn / h, G matrices of the MLP (3 gated, 2 else), B·S tokens of a
// micro-batch, X = B·S·h·β bytes of an activation, P = (2 + 2/g + G·F)·h² weights of a layer, T of tp, Σ of cp, D of
// tsp:
//
//   forward bytes    TP           4X(T−1)/T                    two all-reduces
//                    SP           (2/g)X(Σ−1)/Σ                keys and values; Ulysses (2+2/g)(X/Σ)(Σ−1)/Σ
//                    TP+SP        4(X/Σ)(T−1)/T + (2/g)(X/T)(Σ−1)/Σ
//                    TSP          (P·β + (2/g)X)(D−1)/D
//                    DP           0
//   forward FLOPs    (2·P·B·S + 4·B·S²·h·v) / (T·Σ)            D for T·Σ of TSP; v: 1/2 where the mask is causal, all
//                                                              pairs (1) of unfused attention
//   backward FLOPs   twice the products and 2.5 times fused attention, and what is computed again
//   states           (bytes per parameter)·P·L / T             L layers of a stage; D for T of TSP
//
// Source: TSP paper (Shyam et al., arXiv 2604.26294), whose condition for TSP to send less than TP, B·S > 8h for g = 1,
// F = 4, this counting yields. The bytes of a backward are derived, as the paper's are not at hand: TP twice two
// all-reduces; SP keys and values again and their gradients back; TSP also the weights again and their gradients to the
// owner, D hops round the ring of the MLP. Recompute full adds one forward. Gradients of weights over dp and cp are not
// part of a layer here, nor are norms, biases, embedding and loss. A ring also takes the gradients of keys and values
// home: (2/g)X.
#pragma once

#include "sim/scenario/scenario.h"

namespace meshweave {

// Per device, layer and micro-batch.
struct LayerWork {
  double forward_bytes = 0;   // received
  double backward_bytes = 0;  // with what is computed or sent again
  double forward_flops = 0;
  double backward_flops = 0;
};

// Of the scenario's only module.
LayerWork closed_form_of_layer(const Scenario& scenario);
// Parameters, gradients and optimizer state of the layers of one stage, without embedding, norms and output layer.
double closed_form_of_states(const Scenario& scenario);

}  // namespace meshweave
