#include "sim/program/work.h"

#include <catch2/catch.hpp>

#include "sim/program/builder.h"

namespace meshweave {
namespace {

// Shapes of the examples: s 8, b 2, hidden 6, two heads of dimension 3, two kv heads, bf16.
class Shapes {
 public:
  std::uint32_t operator()(std::vector<std::int64_t> sizes, DType dtype = DType::bf16) {
    TensorSpec spec;
    spec.name = "t";
    spec.rank = static_cast<std::uint8_t>(sizes.size());
    for (std::size_t i = 0; i < sizes.size(); ++i) spec.dimensions[i].size = sizes[i];
    spec.dtype = dtype;
    return builder_.tensor_spec(spec);
  }
  Work work(OpKind kind, std::vector<std::uint32_t> reads, std::vector<std::uint32_t> writes,
            OpAttributes attributes = {}) {
    OpSpec spec;
    spec.kind = kind;
    spec.attributes = attributes;
    spec.reads = std::move(reads);
    spec.writes = std::move(writes);
    return work_of(builder_.program(), spec);
  }

 private:
  ProgramBuilder builder_;
};

TEST_CASE("a matmul of m tokens costs 2·m·n·k in each of its forms") {
  Shapes shape;
  // x [8, 2, 6] is m 16 by k 6, W [10, 6] has n 10: 2·16·10·6 = 1920. Bytes: x 192, W 120, y 320.
  const std::uint32_t x = shape({8, 2, 6}), w = shape({10, 6}), y = shape({8, 2, 10});
  OpAttributes attributes;
  const Work forward = shape.work(OpKind::matmul, {x, w}, {y}, attributes);
  CHECK(forward.flops == 1920);
  CHECK(forward.bytes == 192 + 120 + 320);
  CHECK((forward.m == 16 && forward.n == 10 && forward.k == 6));

  attributes.matmul = MatmulForm::data_gradient;  // dx [16, 6] = dy [16, 10] · W
  const Work data = shape.work(OpKind::matmul, {y, w}, {x}, attributes);
  CHECK(data.flops == 1920);
  CHECK((data.m == 16 && data.n == 6 && data.k == 10));

  // dW [10, 6] += dyᵀ·x, in fp32: read and written, 240 bytes each.
  const std::uint32_t dw = shape({10, 6}, DType::fp32);
  attributes.matmul = MatmulForm::weight_gradient;
  attributes.accumulates = true;
  const Work weight = shape.work(OpKind::matmul, {y, x, dw}, {dw}, attributes);
  CHECK(weight.flops == 1920);
  CHECK((weight.m == 10 && weight.n == 6 && weight.k == 16));
  CHECK(weight.bytes == 320 + 192 + 240 + 240);
}

TEST_CASE("a matmul may write its product in parts and read its input by heads") {
  Shapes shape;
  // q [8, 2, 2, 3], k and v [8, 2, 1, 3]: together n = 6 + 3 + 3 = 12 outputs of W [12, 6].
  const std::uint32_t q = shape({8, 2, 2, 3}), kv = shape({8, 2, 1, 3});
  const Work qkv = shape.work(OpKind::matmul, {shape({8, 2, 6}), shape({12, 6})}, {q, kv, kv});
  CHECK(qkv.flops == 2 * 16 * 12 * 6);
  // The projection reads the context [8, 2, 2, 3] as 16 tokens of 6 features.
  const Work projection = shape.work(OpKind::matmul, {q, shape({6, 6})}, {shape({8, 2, 6})});
  CHECK(projection.m == 16);
  CHECK(projection.flops == 2 * 16 * 6 * 6);
}

TEST_CASE("causal attention executes half of 4·b·a·d·s² forward and 2.5 times that backward") {
  Shapes shape;
  // b 2, a 2, d 3, s 8: 4·2·2·3·64 = 3072, half of it 1536, backward 3840.
  const std::uint32_t q = shape({8, 2, 2, 3}), lse = shape({8, 2, 2}, DType::fp32);
  OpAttributes attributes;
  const Work forward = shape.work(OpKind::attention, {q, q, q}, {q, lse}, attributes);
  CHECK(forward.flops == 1536);
  CHECK(forward.bytes == 4 * 192 + 128);
  CHECK((forward.q_length == 8 && forward.kv_length == 8 && forward.head_dim == 3 && forward.batch == 4));
  const Work backward = shape.work(OpKind::attention_backward, {q, q, q, q, q, lse}, {q, q, q}, attributes);
  CHECK(backward.flops == 3840);
  attributes.mask = AttentionMask::full;
  CHECK(shape.work(OpKind::attention, {q, q, q}, {q}, attributes).flops == 3072);
}

TEST_CASE("unfused attention computes all pairs in each of its six products") {
  Shapes shape;
  // One product over all pairs: 2·b·a·s²·d = 2·2·2·64·3 = 1536. Two query heads share one key-value head.
  const std::uint32_t q = shape({8, 2, 2, 3}), kv = shape({8, 2, 1, 3}), p = shape({8, 2, 2, 8});
  const auto product = [&](BatchedForm form, std::vector<std::uint32_t> reads, std::uint32_t write) {
    OpAttributes attributes;
    attributes.batched = form;
    const Work work = shape.work(OpKind::batched_matmul, std::move(reads), {write}, attributes);
    CHECK(work.flops == 1536);
    CHECK(work.flops == 2.0 * static_cast<double>(work.batch * work.m * work.n * work.k));
    CHECK(work.batch == 4);
    CHECK((work.q_length == 8 && work.kv_length == 8));
  };
  product(BatchedForm::scores, {q, kv}, p);
  product(BatchedForm::context, {p, kv}, q);
  product(BatchedForm::d_probabilities, {q, kv}, p);
  product(BatchedForm::d_value, {q, p}, kv);
  product(BatchedForm::d_query, {p, kv}, q);
  product(BatchedForm::d_key, {p, q}, kv);
}

TEST_CASE("look-ups touch only their rows") {
  Shapes shape;
  const std::uint32_t ids = shape({8, 2}, DType::int64), table = shape({1000, 6}), y = shape({8, 2, 6});
  // 16 ids of 8 bytes, 16 rows of 12 bytes read and written.
  CHECK(shape.work(OpKind::embedding, {ids, table}, {y}).bytes == 128 + 192 + 192);
  // dy 192, ids 128, 16 rows of 24 bytes read and written.
  const std::uint32_t dtable = shape({1000, 6}, DType::fp32);
  OpAttributes adds;
  adds.accumulates = true;
  CHECK(shape.work(OpKind::embedding_gradient, {y, ids, dtable}, {dtable}, adds).bytes == 192 + 128 + 2 * 384);
  // A fresh table of 1000 × 6 × 4 bytes is zeroed first.
  CHECK(shape.work(OpKind::embedding_gradient, {y, ids}, {dtable}).bytes == 192 + 128 + 2 * 384 + 24'000);
  // 8 positions of 12 bytes, shared by the batch.
  CHECK(shape.work(OpKind::position_add, {y, table}, {y}).bytes == 192 + 96 + 192);
}

TEST_CASE("kernels without a matrix product count no FLOPs and every operand once") {
  Shapes shape;
  const std::uint32_t x = shape({8, 2, 6}), mask = shape({8, 2, 6}, DType::uint8);
  const Work work = shape.work(OpKind::dropout, {x}, {x, mask});
  CHECK(work.flops == 0);
  CHECK(work.bytes == 192 + 192 + 96);
}

TEST_CASE("a communication's input and output are its operands") {
  ProgramBuilder builder;
  TensorSpec part;
  part.dimensions[0].size = 3;
  part.rank = 1;
  TensorSpec whole = part;
  whole.dimensions[0].size = 12;
  OpSpec gather;
  gather.kind = OpKind::all_gather;
  gather.reads = {builder.tensor_spec(part)};
  gather.writes = {builder.tensor_spec(whole)};
  CHECK(input_bytes(builder.program(), gather) == 6);
  CHECK(output_bytes(builder.program(), gather) == 24);
}

}  // namespace
}  // namespace meshweave
