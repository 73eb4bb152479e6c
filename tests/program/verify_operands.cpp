// operand-mismatch: each kind of op with operands that do not fit it.
#include <catch2/catch.hpp>

#include "sim/program/verify.h"
#include "tests/program/hand_made.h"

namespace meshweave {
namespace {

using test::HandMade;

constexpr AxisMask tp = mask_of(Axis::tp);
constexpr AxisMask dp = mask_of(Axis::dp);
constexpr AxisMask pp = mask_of(Axis::pp);

TensorSpec t(std::string name, std::vector<Dimension> dimensions, AxisMask partial = 0, DType dtype = DType::bf16) {
  return HandMade::spec(std::move(name), std::move(dimensions), partial, dtype);
}
TensorSpec fp32(TensorSpec spec) {
  spec.dtype = DType::fp32;
  return spec;
}

// What the verifier says of one op over these operands, without "rank 0 op N KIND probe forward: "; empty when it
// fits. Accumulated operands are named in both lists.
std::string judged(OpKind kind, const std::vector<TensorSpec>& reads, const std::vector<TensorSpec>& writes,
                   OpAttributes attributes = {}, std::uint16_t HandMade::*group = nullptr) {
  HandMade p(2, 2, 2);
  p.program().body_of_rank.assign(8, 0);
  HandMade::Tensors in, out;
  for (const TensorSpec& s : reads) {
    in.push_back(p.persistent(s, Category::main_gradients));
    p.op(OpKind::fill, "make", {}, {in.back()});
  }
  for (const TensorSpec& s : writes) {
    const auto same = std::find(reads.begin(), reads.end(), s);
    out.push_back(same == reads.end() ? p.persistent(s) : in[static_cast<std::size_t>(same - reads.begin())]);
  }
  if (group == nullptr) {
    p.op(kind, "probe", in, out, attributes);
  } else {
    p.collective(kind, "probe", p.*group, p.data_stream, in[0], out[0], attributes);
  }
  const std::vector<Violation> found = verify(p.program());
  if (found.empty()) return "";
  CHECK(found.size() == 1);
  CHECK(found[0].fault == Fault::operand_mismatch);
  return found[0].text.substr(found[0].text.find(": ") + 2);
}

const TensorSpec x = t("x", {{8}, {2, dp}, {6}});
const TensorSpec y = t("y", {{8}, {2, dp}, {10, tp}});
const TensorSpec column = t("w", {{10, tp}, {6}});
const TensorSpec row = t("w", {{6}, {10, tp}});

OpAttributes form(MatmulForm f, bool bias = false) {
  OpAttributes attributes;
  attributes.matmul = f;
  attributes.bias = bias;
  return attributes;
}

OpAttributes adding(OpAttributes attributes = {}) {
  attributes.accumulates = true;
  return attributes;
}

TEST_CASE("a matmul contracts the features of x with the columns of W") {
  const auto forward = form(MatmulForm::forward);
  CHECK(judged(OpKind::matmul, {x, column}, {y}) == "");
  CHECK(judged(OpKind::matmul, {x, column}, {t("q", {{8}, {2, dp}, {2, tp}, {3}}), t("k", {{8}, {2, dp}, {4, tp}})}) ==
        "");
  CHECK(judged(OpKind::matmul, {x, t("w", {{10, tp}, {7}})}, {y}) == "x[8,2/dp,6] does not fit w[10/tp,7]");
  CHECK(judged(OpKind::matmul, {x, t("w", {{11, tp}, {6}})}, {y}) == "y[8,2/dp,10/tp] does not fit w[11/tp,6]");
  CHECK(judged(OpKind::matmul, {x, t("w", {{10}, {6}})}, {y}) == "y[8,2/dp,10/tp] does not fit w[10,6]");
  CHECK(judged(OpKind::matmul, {x}, {y}) == "reads 1 operands");
  // Contracting a sharded dimension leaves a partial sum, to which no bias may be added.
  const TensorSpec out = t("z", {{8}, {2, dp}, {6}});
  const TensorSpec partial = t("z", {{8}, {2, dp}, {6}}, tp);
  CHECK(judged(OpKind::matmul, {y, row}, {partial}) == "");
  CHECK(judged(OpKind::matmul, {y, row}, {out}) == "z is marked partial over - (its sum is over tp)");
  CHECK(judged(OpKind::matmul, {y, row, t("b", {{6}})}, {partial}, form(MatmulForm::forward, true)) ==
        "adds bias b to a partial product");
  CHECK(judged(OpKind::matmul, {x, column, t("b", {{10, tp}})}, {y}, form(MatmulForm::forward, true)) == "");
  CHECK(judged(OpKind::matmul, {x, column, t("b", {{10}})}, {y}, form(MatmulForm::forward, true)) ==
        "b[10] does not fit w[10/tp,6]");
  CHECK(judged(OpKind::matmul, {x, t("w", {{10, tp}, {6}}, dp)}, {y}, forward) == "reads w, still partial over dp");
}

TEST_CASE("the gradients of a matmul are partial over what their sums run over") {
  const TensorSpec dx = t("d(x)", {{8}, {2, dp}, {6}}, tp);
  CHECK(judged(OpKind::matmul, {y, column}, {dx}, form(MatmulForm::data_gradient)) == "");
  CHECK(judged(OpKind::matmul, {y, column}, {t("d(x)", {{8}, {2, dp}, {6}})}, form(MatmulForm::data_gradient)) ==
        "d(x) is marked partial over - (its sum is over tp)");
  const TensorSpec dw = fp32(t("grad(w)", {{10, tp}, {6}}, dp));
  CHECK(judged(OpKind::matmul, {y, x, dw}, {dw}, adding(form(MatmulForm::weight_gradient))) == "");
  // Stages that share a table contribute different parts: pp may be added.
  const TensorSpec tied = fp32(t("grad(w)", {{10, tp}, {6}}, dp | pp));
  CHECK(judged(OpKind::matmul, {y, x, tied}, {tied}, adding(form(MatmulForm::weight_gradient))) == "");
  const TensorSpec whole = fp32(t("grad(w)", {{10, tp}, {6}}));
  CHECK(judged(OpKind::matmul, {y, x, whole}, {whole}, adding(form(MatmulForm::weight_gradient))) ==
        "grad(w) is marked partial over - (its sum is over dp)");
  CHECK(judged(OpKind::matmul, {y, x, dw}, {tied}, adding(form(MatmulForm::weight_gradient))) ==
        "writes grad(w) but accumulates grad(w)");
  const TensorSpec db = fp32(t("grad(b)", {{10, tp}}, dp));
  CHECK(judged(OpKind::bias_gradient, {y, db}, {db}, adding()) == "");
  const TensorSpec short_db = fp32(t("grad(b)", {{9, tp}}, dp));
  CHECK(judged(OpKind::bias_gradient, {y, short_db}, {short_db}, adding()) ==
        "y[8,2/dp,10/tp] does not fit grad(b)[9/tp]");
}

TEST_CASE("attention shares key-value heads among query heads") {
  const TensorSpec q = t("q", {{8}, {2}, {4}, {3}}), k = t("k", {{8}, {2}, {2}, {3}}), v = t("v", {{8}, {2}, {2}, {3}});
  const TensorSpec o = t("o", {{8}, {2}, {4}, {3}}), lse = fp32(t("lse", {{8}, {2}, {4}}));
  CHECK(judged(OpKind::attention, {q, k, v}, {o, lse}) == "");
  CHECK(judged(OpKind::attention, {q, t("k", {{8}, {2}, {3}, {3}}), t("v", {{8}, {2}, {3}, {3}})}, {o}) ==
        "q[8,2,4,3] does not fit k[8,2,3,3]");
  CHECK(judged(OpKind::attention, {q, k, t("v", {{8}, {2}, {2}, {5}})}, {o}) == "k[8,2,2,3] does not fit v[8,2,2,5]");
  CHECK(judged(OpKind::attention, {q, k, v}, {o, fp32(t("lse", {{8}, {2}, {3}}))}) ==
        "lse[8,2,3] does not fit q[8,2,4,3]");
  CHECK(judged(OpKind::attention, {t("q", {{8}, {2}, {4}, {3}}, tp), k, v}, {o}) == "reads q, still partial over tp");
  const TensorSpec dq = t("d(q)", {{8}, {2}, {4}, {3}}), dk = t("d(k)", {{8}, {2}, {2}, {3}}),
                   dv = t("d(v)", {{8}, {2}, {2}, {3}}), d_o = t("d(o)", {{8}, {2}, {4}, {3}});
  CHECK(judged(OpKind::attention_backward, {d_o, q, k, v, o, lse}, {dq, dk, dv}) == "");
  CHECK(judged(OpKind::attention_backward, {d_o, q, k, v, o, lse}, {dq, dq, dv}) ==
        "d(q)[8,2,4,3] does not fit k[8,2,2,3]");
}

TEST_CASE("the six products of unfused attention") {
  const TensorSpec q = t("q", {{8}, {2}, {4}, {3}}), k = t("k", {{6}, {2}, {2}, {3}}), p = t("p", {{8}, {2}, {4}, {6}});
  const auto product = [](BatchedForm f, const TensorSpec& a, const TensorSpec& b, const TensorSpec& c) {
    OpAttributes attributes;
    attributes.batched = f;
    return judged(OpKind::batched_matmul, {a, b}, {c}, attributes);
  };
  CHECK(product(BatchedForm::scores, q, k, p) == "");
  CHECK(product(BatchedForm::context, p, k, q) == "");
  CHECK(product(BatchedForm::d_probabilities, q, k, p) == "");
  CHECK(product(BatchedForm::d_value, q, p, k) == "");
  CHECK(product(BatchedForm::d_query, p, k, q) == "");
  CHECK(product(BatchedForm::d_key, p, q, k) == "");
  CHECK(product(BatchedForm::scores, q, t("k", {{7}, {2}, {2}, {3}}), p) == "k[7,2,2,3] does not fit p[8,2,4,6]");
  CHECK(product(BatchedForm::d_value, p, q, k) != "");
}

TEST_CASE("kernels that work element by element") {
  const TensorSpec z = t("z", {{8}, {2, dp}, {6}});
  const TensorSpec mask = t("mask", {{8}, {2, dp}, {6}}, 0, DType::uint8);
  OpAttributes gated;
  gated.activation = meshweave::Activation::swiglu;
  OpAttributes bias;
  bias.bias = true;
  CHECK(judged(OpKind::activation, {x}, {z}) == "");
  CHECK(judged(OpKind::activation, {t("x", {{8}, {2, dp}, {12}})}, {z}, gated) == "");
  CHECK(judged(OpKind::activation, {x}, {z}, gated) == "x[8,2/dp,6] does not fit z[8,2/dp,6]");
  CHECK(judged(OpKind::activation_backward, {z, x}, {t("d(x)", {{8}, {2, dp}, {6}})}) == "");
  CHECK(judged(OpKind::activation_backward, {z, x}, {t("d(x)", {{8}, {2, dp}, {7}})}) ==
        "d(x)[8,2/dp,7] does not fit x[8,2/dp,6]");
  CHECK(judged(OpKind::softmax, {x}, {t("z", {{8}, {2, dp}, {7}})}) == "x[8,2/dp,6] does not fit z[8,2/dp,7]");
  CHECK(judged(OpKind::dropout, {x}, {z, t("mask", {{8}, {2, dp}, {6}})}) == "mask is bf16 (must be uint8)");
  CHECK(judged(OpKind::dropout_backward, {z, mask}, {x}) == "");
  CHECK(judged(OpKind::residual_add, {x, z, t("b", {{6}})}, {t("r", {{8}, {2, dp}, {6}}), mask}, bias) == "");
  CHECK(judged(OpKind::residual_add, {x, t("z", {{8}, {2, dp}, {6}}, tp)}, {t("r", {{8}, {2, dp}, {6}})}) ==
        "reads z, still partial over tp");
  // A share of the sequence is not the whole of it.
  CHECK(judged(OpKind::residual_add, {t("x", {{4, tp}, {2}, {6}}), t("z", {{4}, {2}, {6}})},
               {t("r", {{4, tp}, {2}, {6}})}) == "z[4,2,6] does not fit r[4/tp,2,6]");
  CHECK(judged(OpKind::rope, {x, y}, {z, t("k", {{8}, {2, dp}, {10, tp}})}) == "");
  CHECK(judged(OpKind::rope_backward, {x, y}, {z, t("k", {{8}, {2, dp}, {10}})}) ==
        "y[8,2/dp,10/tp] does not fit k[8,2/dp,10]");
}

TEST_CASE("norms, their statistics and the gradients of their weights") {
  const TensorSpec z = t("z", {{8}, {2, dp}, {6}}), gain = t("gain", {{6}});
  const TensorSpec statistics = fp32(t("statistics", {{8}, {2, dp}, {2}}));
  const TensorSpec dgain = fp32(t("grad(gain)", {{6}}, dp));
  CHECK(judged(OpKind::norm, {x, gain}, {z, statistics}) == "");
  CHECK(judged(OpKind::norm, {x, t("gain", {{7}})}, {z}) == "gain[7] does not fit x[8,2/dp,6]");
  CHECK(judged(OpKind::norm, {t("x", {{8}, {2, dp}, {6}}, tp), gain}, {z}) == "reads x, still partial over tp");
  CHECK(judged(OpKind::norm_backward, {z, x, statistics, gain}, {t("d(x)", {{8}, {2, dp}, {6}})}) == "");
  CHECK(judged(OpKind::norm_weight_gradient, {z, x, statistics, dgain}, {dgain}, adding()) == "");
  const TensorSpec over_tp = fp32(t("grad(gain)", {{6}}, tp));
  CHECK(judged(OpKind::norm_weight_gradient, {z, x, statistics, over_tp}, {over_tp}, adding()) ==
        "grad(gain) is marked partial over tp (its sum is over dp)");
  const TensorSpec dshift = fp32(t("grad(shift)", {{6}}, dp));
  CHECK(judged(OpKind::norm_weight_gradient, {z, x, statistics, dgain, dshift}, {dgain, dshift}, adding()) == "");
  CHECK(judged(OpKind::norm_weight_gradient, {z, x, statistics, dgain, dshift}, {dgain}, adding()) ==
        "reads 5 operands");
}

TEST_CASE("sums of tensors are of one kind") {
  const TensorSpec a = t("a", {{8}, {2}}, tp), b = t("b", {{8}, {2}}, tp);
  CHECK(judged(OpKind::add, {a, b}, {t("c", {{8}, {2}}, tp)}) == "");
  CHECK(judged(OpKind::add, {a, t("b", {{8}, {2}})}, {t("c", {{8}, {2}}, tp)}) ==
        "b is marked partial over - (its sum is over tp)");
  CHECK(judged(OpKind::add, {a, fp32(b)}, {t("c", {{8}, {2}}, tp)}) == "b is fp32 (must be bf16)");
  CHECK(judged(OpKind::add, {a, t("b", {{8}, {3}}, tp)}, {t("c", {{8}, {2}}, tp)}) == "b[8,3] does not fit c[8,2]");
}

TEST_CASE("embeddings and positions") {
  const TensorSpec ids = t("ids", {{8}, {2, dp}}, 0, DType::int64), table = t("table", {{50, tp}, {6}});
  const TensorSpec looked_up = t("x", {{8}, {2, dp}, {6}}, tp);
  CHECK(judged(OpKind::embedding, {ids, table}, {looked_up}) == "");
  CHECK(judged(OpKind::embedding, {ids, table}, {x}) == "x is marked partial over - (its sum is over tp)");
  CHECK(judged(OpKind::embedding, {fp32(ids), table}, {looked_up}) == "ids is fp32 (must be int64)");
  CHECK(judged(OpKind::embedding, {ids, t("table", {{50, tp}, {7}})}, {looked_up}) ==
        "table[50/tp,7] does not fit x[8,2/dp,6]");
  const TensorSpec dtable = fp32(t("grad(table)", {{50, tp}, {6}}, dp));
  CHECK(judged(OpKind::embedding_gradient, {x, ids, dtable}, {dtable}, adding()) == "");
  const TensorSpec positions = t("positions", {{9}, {6}}), dpositions = fp32(t("grad(positions)", {{9}, {6}}, dp));
  CHECK(judged(OpKind::position_add, {x, positions}, {t("z", {{8}, {2, dp}, {6}})}) == "");
  CHECK(judged(OpKind::position_add, {x, t("positions", {{7}, {6}})}, {t("z", {{8}, {2, dp}, {6}})}) ==
        "positions[7,6] does not fit x[8,2/dp,6]");
  CHECK(judged(OpKind::position_gradient, {x, dpositions}, {dpositions}, adding()) == "");
}

TEST_CASE("the cross entropy over a sharded vocabulary") {
  const TensorSpec logits = t("logits", {{8}, {2, dp}, {50, tp}}), maximum = fp32(t("maximum", {{8}, {2, dp}}));
  const TensorSpec labels = t("labels", {{8}, {2, dp}}, 0, DType::int64);
  const TensorSpec exponentials = fp32(t("exp", {{8}, {2, dp}, {50, tp}}));
  const TensorSpec partial_sums = fp32(t("sums", {{8}, {2, dp}, {2}}, tp)), sums = fp32(t("sums", {{8}, {2, dp}, {2}}));
  const TensorSpec loss = fp32(t("loss", {{1}}, dp));
  CHECK(judged(OpKind::cross_entropy_max, {logits}, {maximum}) == "");
  CHECK(judged(OpKind::cross_entropy_sum, {logits, maximum, labels}, {exponentials, partial_sums}) == "");
  CHECK(judged(OpKind::cross_entropy_sum, {logits, maximum, labels}, {exponentials, sums}) ==
        "sums is marked partial over - (its sum is over tp)");
  CHECK(judged(OpKind::cross_entropy_loss, {sums, maximum, loss}, {loss}, adding()) == "");
  CHECK(judged(OpKind::cross_entropy_loss, {partial_sums, maximum, loss}, {loss}, adding()) ==
        "reads sums, still partial over tp");
  CHECK(judged(OpKind::cross_entropy_backward, {exponentials, sums, labels},
               {t("d(logits)", {{8}, {2, dp}, {50, tp}})}) == "");
}

TEST_CASE("rows in another order carry partial sums over") {
  const TensorSpec a = t("a", {{8}, {2}}, tp);
  CHECK(judged(OpKind::reorder, {a}, {t("b", {{8}, {2}}, tp)}) == "");
  CHECK(judged(OpKind::reorder, {a}, {t("b", {{8}, {3}}, tp)}) == "a[8,2] does not fit b[8,3]");
  CHECK(judged(OpKind::reorder, {a}, {t("b", {{4}, {2}}, tp)}) == "a[8,2] does not fit b[4,2]");
  CHECK(judged(OpKind::reorder, {a}, {t("b", {{8}, {2}})}) == "b is marked partial over - (its sum is over tp)");
  CHECK(judged(OpKind::reorder, {a}, {fp32(t("b", {{8}, {2}}, tp))}) == "b is fp32 (must be bf16)");
}

TEST_CASE("an op accumulates where its kind may, and must where its kind always does") {
  const TensorSpec z = t("z", {{8}, {2, dp}, {6}}), dpositions = fp32(t("grad(positions)", {{9}, {6}}, dp));
  CHECK(judged(OpKind::position_gradient, {x, dpositions}, {dpositions}) == "does not accumulate");
  CHECK(judged(OpKind::activation, {x, z}, {z}, adding()) == "accumulates, which no op of its kind does");
  // Of the operands read the last is what is added to: a product of one factor is left.
  const TensorSpec sum = t("y", {{8}, {2, dp}, {10, tp}});
  CHECK(judged(OpKind::matmul, {x, column, sum}, {sum}, adding()) == "");
  CHECK(judged(OpKind::matmul, {x, sum}, {sum}, adding()) == "reads 2 operands");
  // A copy of the sum is no input of the plain product.
  CHECK(judged(OpKind::matmul, {x, column, sum}, {sum}) == "reads 3 operands");
}

TEST_CASE("norm, clip and Adam take whole gradients") {
  const TensorSpec g = fp32(t("g", {{8}})), main = fp32(t("main", {{8}})), m = fp32(t("m", {{8}})),
                   v = fp32(t("v", {{8}}));
  const TensorSpec square = fp32(t("square", {{1}}));
  CHECK(judged(OpKind::gradient_norm, {g}, {square}) == "");
  CHECK(judged(OpKind::gradient_norm, {fp32(t("g", {{8}}, dp))}, {square}) == "reads g, still partial over dp");
  CHECK(judged(OpKind::clip, {square, g}, {g}) == "");
  CHECK(judged(OpKind::clip, {square, g}, {main}) == "writes other gradients than it reads");
  CHECK(judged(OpKind::adam, {g, main, m, v}, {main, m, v, t("w", {{8}})}) == "");
  CHECK(judged(OpKind::adam, {g, main, m, fp32(t("v", {{9}}))}, {main, m, t("w", {{8}})}) == "v[9] does not fit g[8]");
}

TEST_CASE("a reduction sums over axes that its operand is partial over, and removes them") {
  const TensorSpec partial = t("a", {{8}, {2}}, tp), both = t("a", {{8}, {2}}, tp | dp), whole = t("b", {{8}, {2}});
  CHECK(judged(OpKind::all_reduce, {partial}, {whole}, {}, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::all_reduce, {both}, {t("b", {{8}, {2}}, dp)}, {}, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::all_reduce, {partial}, {t("b", {{8}, {2}}, tp)}, {}, &HandMade::tp_group) ==
        "b is marked partial over tp (what is left of -)");
  CHECK(judged(OpKind::all_reduce, {partial}, {whole}, {}, &HandMade::dp_group) ==
        "sums a over dp, which is partial over tp");
  CHECK(judged(OpKind::reduce, {partial}, {t("b", {{8}, {3}})}, {}, &HandMade::tp_group) ==
        "a[8,2] does not fit b[8,3]");
  OpAttributes maximum;
  maximum.reduce = ReduceOp::max;
  CHECK(judged(OpKind::all_reduce, {t("a", {{8}, {2}})}, {whole}, maximum, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::all_reduce, {partial}, {whole}, maximum, &HandMade::tp_group) ==
        "reads a, still partial over tp");
  CHECK(judged(OpKind::all_reduce, {partial}, {whole}) == "has no group");
}

TEST_CASE("gathers and scatters change one dimension by the group's size") {
  OpAttributes second;
  second.dimension = 1;
  const TensorSpec part = t("a", {{4, tp}, {2}}), whole = t("b", {{8}, {2}}), partial = t("b", {{8}, {2}}, tp);
  CHECK(judged(OpKind::all_gather, {part}, {whole}, {}, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::all_gather, {part}, {whole}, second, &HandMade::tp_group) == "a[4/tp,2] does not fit b[8,2]");
  CHECK(judged(OpKind::all_gather, {part}, {t("b", {{16}, {2}})}, {}, &HandMade::tp_group) ==
        "a[4/tp,2] does not fit b[16,2]");
  CHECK(judged(OpKind::all_gather, {part}, {whole}, {}, &HandMade::dp_group) == "a[4/tp,2] does not fit b[8,2]");
  CHECK(judged(OpKind::all_gather, {t("a", {{4, tp}, {2}}, dp)}, {whole}, {}, &HandMade::tp_group) ==
        "reads a, still partial over dp");
  CHECK(judged(OpKind::reduce_scatter, {partial}, {part}, {}, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::reduce_scatter, {whole}, {part}, {}, &HandMade::tp_group) ==
        "sums b over tp, which is partial over -");
  CHECK(judged(OpKind::reduce_scatter, {partial}, {fp32(part)}, {}, &HandMade::tp_group) == "a is fp32 (must be bf16)");
  CHECK(judged(OpKind::broadcast, {whole}, {t("c", {{8}, {3}})}, {}, &HandMade::tp_group) ==
        "b[8,2] does not fit c[8,3]");
  CHECK(judged(OpKind::all_to_all, {whole}, {t("c", {{4}, {4}})}, {}, &HandMade::tp_group) == "");
  CHECK(judged(OpKind::all_to_all, {whole}, {t("c", {{4}, {5}})}, {}, &HandMade::tp_group) ==
        "b[8,2] does not fit c[4,5]");
}

TEST_CASE("an op has the operands that its spec says") {
  HandMade p(1, 1, 1);
  const std::uint32_t a = p.made(x);
  p.used(a);
  p.body().tensors[a].spec = static_cast<std::uint32_t>(p.program().tensor_specs.size());
  p.program().tensor_specs.push_back(t("other", {{8}, {2, dp}, {6}}));
  const std::vector<Violation> found = verify(p.program());
  REQUIRE(found.size() == 2);
  CHECK(found[0].text == "rank 0 op 0 fill make forward: has other operands than its spec");
  CHECK(found[1].text == "rank 0 op 1 reorder use forward: has other operands than its spec");
}

}  // namespace
}  // namespace meshweave
