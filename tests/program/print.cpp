#include "sim/program/print.h"

#include <catch2/catch.hpp>

#include "tests/program/hand_made.h"

namespace meshweave {
namespace {

using test::HandMade;

TEST_CASE("a tensor is named with its shape, dtype, place and what its sum is still over") {
  HandMade p(2, 1, 1);
  const std::uint32_t t = p.transient(HandMade::spec("d(qkv)", {{512}, {1}, {4608}}, mask_of(Axis::tp)));
  CHECK(describe_tensor(p.program(), p.body(), t) == "d(qkv)[512,1,4608] bf16 partial tp");
  p.body().tensors[t].layer = 3;
  p.body().tensors[t].micro_batch = 0;
  CHECK(describe_tensor(p.program(), p.body(), t) == "d(qkv)[512,1,4608] bf16 layer 3 mb 0 partial tp");
}

TEST_CASE("an op is named with its kind, label, phase and place") {
  HandMade p(1, 1, 1);
  p.op(OpKind::fill, "fill", {}, {});
  p.op(OpKind::add, "qkv", {}, {}, {}, Phase::backward_data);
  Op& op = p.body().ops[1];
  op.layer = 3;
  op.micro_batch = 0;
  op.chunk = 1;
  CHECK(describe_op(p.program(), p.body(), 0) == "op 0 fill forward");  // a label that repeats the kind is left out
  CHECK(describe_op(p.program(), p.body(), 1) == "op 1 add qkv backward-data, layer 3, micro-batch 0, chunk 1");
}

TEST_CASE("a program prints its streams, groups and bodies with operands, messages and waits") {
  HandMade p(2, 1, 2);
  const std::uint32_t partial = p.made(HandMade::spec("x", {{2}, {1}, {4}}, mask_of(Axis::tp)));
  const std::uint32_t whole = p.view(partial, HandMade::spec("x", {{2}, {1}, {4}}));
  p.collective(OpKind::all_reduce, "sum", p.tp_group, p.tensor_stream, partial, whole);
  p.batch("send", {HandMade::send(p.next, 1, whole)});
  p.on_stage(1);
  const std::uint32_t w = p.persistent(HandMade::spec("w", {{4}}));
  p.collective(OpKind::broadcast, "send", p.tp_group, p.data_stream, w, w);
  p.program().op_specs.back().sync = true;
  CHECK(print_program(p.program()) == R"(streams
  0 compute
  1 tensor
  2 pipeline
  3 data
groups
  0 tp tp×2
  1 dp dp×1
  2 pp pp×2
body 0 "stage 0", ranks 0-1: 3 ops, 2 tensors, 1 storage, 0 persistent bytes
op 0 fill make forward on compute
    writes x[2,1,4] bf16 partial tp
op 1 all-reduce sum forward on tensor over tp
    reads  x[2,1,4] bf16 partial tp
    writes x[2,1,4] bf16
    waits  op 0
op 2 point-to-point send forward on pipeline
    reads  x[2,1,4] bf16
    sends to pp+1 tag 1: x[2,1,4] bf16
    waits  op 1
body 1 "stage 1", ranks 2-3: 1 op, 1 tensor, 1 storage, 8 persistent bytes
op 0 broadcast send forward on data over tp, holds the host
    reads  w[4] bf16
    writes w[4] bf16
)");
  CHECK(print_program(p.program(), 1).find("body 0") == std::string::npos);
}

}  // namespace
}  // namespace meshweave
