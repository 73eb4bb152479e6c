#include "sim/program/verify.h"

#include <catch2/catch.hpp>

#include "tests/program/hand_made.h"

namespace meshweave {
namespace {

using test::HandMade;

constexpr AxisMask tp = mask_of(Axis::tp);
constexpr AxisMask dp = mask_of(Axis::dp);

const TensorSpec x_spec = HandMade::spec("x", {{2}, {1}, {4}});
const TensorSpec y_spec = HandMade::spec("y", {{2}, {1}, {4}});
const TensorSpec partial_spec = HandMade::spec("x", {{2}, {1}, {4}}, tp);

// "fault: text" of each violation, one a line.
std::string found(HandMade& made, std::size_t limit = 20) {
  std::string out;
  for (const Violation& v : verify(made.program(), limit)) {
    if (!out.empty()) out += '\n';
    out += std::string(name_of(v.fault)) + ": " + v.text;
  }
  return out;
}

TEST_CASE("a program that keeps all rules has no violations") {
  HandMade p(2, 2, 2);
  for (const std::size_t stage : {0u, 1u}) {
    p.on_stage(stage);
    const std::uint32_t partial = p.made(partial_spec);
    const std::uint32_t whole = p.view(partial, x_spec);  // in place
    p.collective(OpKind::all_reduce, "sum", p.tp_group, p.tensor_stream, partial, whole);
    const std::uint32_t other = p.transient(y_spec);
    if (stage == 0) {
      p.batch("exchange", {p.send(p.next, 1, whole), p.receive(p.next, 2, other)});
    } else {
      p.batch("exchange", {p.send(p.previous, 2, whole), p.receive(p.previous, 1, other)});
    }
    p.used(other);
  }
  CHECK(found(p) == "");
}

TEST_CASE("the names of the faults") {
  CHECK(name_of(Fault::unwritten_read) == "unwritten-read");
  CHECK(name_of(Fault::serial_deadlock) == "serial-deadlock");
}

TEST_CASE("an operand that nothing wrote before") {
  HandMade p(1, 1, 1);
  SECTION("a transient tensor") {
    p.used(p.transient(x_spec));
    CHECK(found(p) ==
          "unwritten-read: rank 0 op 0 reorder use forward: reads x[2,1,4] bf16, which nothing wrote before");
  }
  SECTION("a main gradient that the step does not fill") {
    p.used(p.persistent(HandMade::spec("grad(w)", {{4}}), Category::main_gradients));
    CHECK(found(p) ==
          "unwritten-read: rank 0 op 0 reorder use forward: reads grad(w)[4] bf16, which nothing wrote before");
  }
  SECTION("parameters hold what the step before left") {
    p.used(p.persistent(HandMade::spec("w", {{4}})));
    CHECK(found(p) == "");
  }
}

TEST_CASE("a read of what the storage no longer holds") {
  SECTION("the partial sum behind its reduction in place") {
    HandMade p(2, 1, 1);
    const std::uint32_t partial = p.made(partial_spec);
    const std::uint32_t whole = p.view(partial, x_spec);
    p.collective(OpKind::all_reduce, "sum", p.tp_group, p.tensor_stream, partial, whole);
    p.used(partial);
    p.used(whole);
    CHECK(
        found(p) ==
        "stale-read: rank 0 op 2 reorder use forward: reads x[2,1,4] bf16 partial tp, but op 1 all-reduce sum forward "
        "wrote x[2,1,4] bf16 there last");
  }
  SECTION("a main gradient that is still partial") {
    HandMade p(1, 2, 1);
    const std::uint32_t partial = p.persistent(HandMade::spec("g", {{4}}, dp, DType::fp32), Category::main_gradients);
    const std::uint32_t whole = p.view(partial, HandMade::spec("g", {{4}}, 0, DType::fp32));
    p.op(OpKind::fill, "zero", {}, {partial});
    OpAttributes adds;
    adds.accumulates = true;
    const std::uint32_t dy = p.made(HandMade::spec("d(y)", {{2}, {1, dp}, {4}}));
    p.op(OpKind::bias_gradient, "bias", {dy, partial}, {partial}, adds);
    p.used(whole);
    CHECK(found(p) ==
          "stale-read: rank 0 op 3 reorder use forward: reads g[4] fp32, but op 2 bias-gradient bias forward wrote "
          "g[4] fp32 partial dp there last");
  }
  SECTION("the same name of another micro-batch") {
    HandMade p(1, 1, 1);
    const std::uint32_t first = p.made(x_spec);
    p.used(first);
    const std::uint32_t second = p.view(first, x_spec);
    p.body().tensors[second].micro_batch = 1;
    p.used(second);
    CHECK(found(p) ==
          "stale-read: rank 0 op 2 reorder use forward: reads x[2,1,4] bf16 mb 1, but op 0 fill make forward wrote "
          "x[2,1,4] bf16 there last");
  }
}

TEST_CASE("a transient storage holds one tensor, or its parts") {
  HandMade p(1, 1, 1);
  SECTION("two tensors") {
    const std::uint32_t x = p.made(x_spec);
    p.used(x);
    const std::uint32_t y = p.view(x, y_spec);
    p.op(OpKind::fill, "make", {}, {y});
    p.used(y);
    CHECK(found(p) ==
          "reused-storage: rank 0 op 2 fill make forward: writes y[2,1,4] bf16 over x[2,1,4] bf16, which op 0 fill "
          "make forward wrote to the same transient storage");
  }
  SECTION("a part written, the whole read") {
    const std::uint32_t whole = p.transient(x_spec);
    const std::uint32_t first = p.view(whole, HandMade::spec("x", {{1}, {1}, {4}}));
    const std::uint32_t second = p.view(whole, HandMade::spec("x", {{1}, {1}, {4}}));
    p.body().tensors[second].offset = 8;
    p.op(OpKind::fill, "make", {}, {first});
    p.op(OpKind::fill, "make", {}, {second});
    p.used(whole);
    CHECK(found(p) == "");
  }
}

TEST_CASE("what is written is read") {
  HandMade p(1, 1, 1);
  const std::uint32_t x = p.made(x_spec);
  const std::uint32_t y = p.transient(y_spec);
  SECTION("a tensor that nothing reads") {
    p.op(OpKind::activation, "gelu", {x}, {y});
    CHECK(found(p) == "dead-write: rank 0 op 1 activation gelu forward: writes y[2,1,4] bf16, which nothing reads");
  }
  SECTION("a re-emitted block may leave results unread") {
    p.op(OpKind::activation, "gelu", {x}, {y}, {}, Phase::recompute);
    CHECK(found(p) == "");
  }
  SECTION("a mask without reader") {
    const std::uint32_t mask = p.transient(HandMade::spec("mask", {{2}, {1}, {4}}, 0, DType::uint8));
    p.op(OpKind::dropout, "dropout", {x}, {y, mask});
    p.used(y);
    CHECK(found(p) ==
          "unread-secondary: rank 0 op 1 dropout forward: writes mask[2,1,4] uint8, which exists only to be read and "
          "is not");
  }
  SECTION("a storage written twice is read in between") {
    p.op(OpKind::fill, "make", {}, {x});
    p.used(x);
    CHECK(found(p) == "dead-write: rank 0 op 0 fill make forward: writes x[2,1,4] bf16, which nothing reads");
  }
}

TEST_CASE("messages meet their other ends") {
  HandMade p(2, 1, 2);
  const std::uint32_t x = p.made(x_spec);
  SECTION("a send without receive") {
    p.batch("send", {p.send(p.next, 7, x)});
    CHECK(found(p) ==
          "unmatched-message: rank 0 op 1 point-to-point send forward: sends x[2,1,4] bf16 with tag 7 to rank 2, "
          "which does not receive it");
  }
  SECTION("a receive without send") {
    const std::uint32_t y = p.transient(y_spec);
    p.used(x);
    p.batch("receive", {p.receive(p.next, 7, y)});
    p.used(y);
    CHECK(found(p) ==
          "unmatched-message: rank 0 op 2 point-to-point receive forward: receives y[2,1,4] bf16 with tag 7 from rank "
          "2, which does not send it");
  }
  SECTION("ends of different sizes") {
    p.batch("send", {p.send(p.next, 7, x)});
    p.on_stage(1);
    const std::uint32_t y = p.transient(HandMade::spec("y", {{2}, {1}, {8}}));
    p.batch("receive", {p.receive(p.previous, 7, y)});
    p.used(y);
    CHECK(found(p) ==
          "message-size: rank 0 op 1 point-to-point send forward: sends x with tag 7, 16 bytes, but rank 2 op 0 "
          "point-to-point receive forward receives 32 bytes");
  }
  SECTION("ends that are partial over different axes") {
    p.batch("send", {p.send(p.next, 7, x)});
    p.on_stage(1);
    const std::uint32_t y = p.transient(HandMade::spec("y", {{2}, {1}, {4}}, tp));
    p.batch("receive", {p.receive(p.previous, 7, y)});
    p.used(y);
    CHECK(found(p) ==
          "operand-mismatch: rank 0 op 1 point-to-point send forward: sends x with tag 7, bf16 partial -, but rank 2 "
          "op 0 point-to-point receive forward receives bf16 partial tp");
  }
  SECTION("ends of different stripes") {
    p.batch("send", {p.send(p.next, 7, x)}, 7);
    p.on_stage(1);
    const std::uint32_t y = p.transient(HandMade::spec("y", {{2}, {1}, {4}}));
    p.batch("receive", {p.receive(p.previous, 7, y)});
    p.used(y);
    CHECK(found(p) ==
          "operand-mismatch: rank 0 op 1 point-to-point send forward: sends x with tag 7, 7 stripes, but rank 2 op 0 "
          "point-to-point receive forward receives 1 stripe");
  }
  SECTION("another order at the other end") {
    p.batch("send", {p.send(p.next, 7, x), p.send(p.next, 8, x)});
    p.on_stage(1);
    const std::uint32_t y = p.transient(y_spec), z = p.transient(y_spec);
    p.batch("receive", {p.receive(p.previous, 8, y), p.receive(p.previous, 7, z)});
    p.used(y);
    p.used(z);
    CHECK(found(p) ==
          "message-order: rank 0 op 1 point-to-point send forward: sends tag 8 behind tag 7 to rank 2, which receives "
          "it before, at op 0 point-to-point receive forward");
  }
  SECTION("operands that are not the messages'") {
    p.batch("send", {p.send(p.next, 7, x)});
    p.body().messages[0].tensor = p.made(x_spec);
    CHECK(verify(p.program())[0].text == "rank 0 op 2 fill make forward: writes x[2,1,4] bf16, which nothing reads");
    CHECK(verify(p.program())[1].text ==
          "rank 0 op 1 point-to-point send forward: reads other tensors than its messages send");
  }
}

TEST_CASE("the members of a communicator call the same collectives") {
  HandMade p(1, 1, 2);
  const TensorSpec partial = HandMade::spec("x", {{2}, {1}, {4}}, mask_of(Axis::pp));
  const auto all_reduce = [&](const TensorSpec& s) {
    const std::uint32_t read = p.made(s);
    TensorSpec summed = s;
    summed.partial = 0;
    const std::uint32_t write = p.view(read, summed);
    p.collective(OpKind::all_reduce, "sum", p.pp_group, p.data_stream, read, write);
    p.used(write);
  };
  all_reduce(partial);
  SECTION("one of them does not") {
    CHECK(found(p) ==
          "collective-mismatch: rank 0 op 1 all-reduce sum forward: is collective 1 over pp on data, which rank 1 does "
          "not call");
  }
  SECTION("one of them calls it with other bytes") {
    p.on_stage(1);
    all_reduce(HandMade::spec("x", {{2}, {1}, {8}}, mask_of(Axis::pp)));
    CHECK(found(p) ==
          "collective-mismatch: rank 0 op 1 all-reduce sum forward: is collective 1 over pp on data (16 -> 16 bytes), "
          "where rank 1 op 1 all-reduce sum forward is called (32 -> 32 bytes)");
  }
  SECTION("one of them calls another kind") {
    p.on_stage(1);
    const std::uint32_t read = p.made(partial), write = p.view(read, x_spec);
    p.collective(OpKind::reduce, "reduce", p.pp_group, p.data_stream, read, write);
    p.used(write);
    CHECK(found(p) ==
          "collective-mismatch: rank 0 op 1 all-reduce sum forward: is collective 1 over pp on data (16 -> 16 bytes), "
          "where rank 1 op 1 reduce forward is called (16 -> 16 bytes)");
  }
}

TEST_CASE("a rank calls no collective of a group that it is not in") {
  HandMade p(1, 1, 3);
  p.program().groups[p.pp_group].patterns = {{Axis::pp, 2, 2}};  // first and last stage
  for (const std::size_t stage : {0u, 1u, 2u}) {
    p.on_stage(stage);
    const std::uint32_t read = p.made(HandMade::spec("x", {{2}, {1}, {4}}, mask_of(Axis::pp)));
    const std::uint32_t write = p.view(read, x_spec);
    p.collective(OpKind::all_reduce, "sum", p.pp_group, p.data_stream, read, write);
    p.used(write);
  }
  CHECK(found(p) == "collective-mismatch: rank 1 op 1 all-reduce sum forward: the rank is in no instance of group pp");
}

// Each of two stages sends to the other and receives from it, in one batch or in two ops.
void exchange(HandMade& p, bool batched) {
  for (const std::size_t stage : {0u, 1u}) {
    p.on_stage(stage);
    const std::uint8_t peer = stage == 0 ? p.next : p.previous;
    const auto tag = static_cast<std::uint32_t>(stage);
    const std::uint32_t x = p.made(x_spec), y = p.transient(y_spec);
    if (batched) {
      p.batch("both", {p.send(peer, tag, x), p.receive(peer, 1 - tag, y)});
    } else {
      p.batch("send", {p.send(peer, tag, x)});
      p.batch("receive", {p.receive(peer, 1 - tag, y)});
    }
    p.used(y);
  }
}

TEST_CASE("a program runs to its end with zero durations") {
  SECTION("batched exchanges do") {
    HandMade p(2, 1, 2);
    exchange(p, true);
    CHECK(found(p) == "");
  }
  SECTION("two sends that face each other do not") {
    HandMade p(2, 1, 2);
    exchange(p, false);
    CHECK(found(p) ==
          "deadlock: these wait for each other: "
          "rank 0 op 1 point-to-point send forward waits for rank 2 op 2 point-to-point receive forward to be posted; "
          "rank 2 op 2 point-to-point receive forward waits for rank 2 op 1 point-to-point send forward to end; "
          "rank 2 op 1 point-to-point send forward waits for rank 0 op 2 point-to-point receive forward to be posted; "
          "rank 0 op 2 point-to-point receive forward waits for rank 0 op 1 point-to-point send forward to end");
    const Violation v = verify(p.program())[0];
    CHECK(v.rank == 0);
    CHECK(v.op == 1);
    CHECK(v.other_rank == 2);
    CHECK(v.other_op == 2);
  }
  SECTION("nor does an op that holds the host before the send that would release it") {
    HandMade p(1, 1, 2);
    const std::uint32_t y = p.transient(y_spec);
    p.batch("receive", {p.receive(p.next, 1, y)});
    p.program().op_specs[p.body().ops[0].spec].sync = true;
    p.collective(OpKind::broadcast, "release", p.pp_group, p.data_stream, p.persistent(x_spec), p.persistent(x_spec));
    p.used(y);
    p.on_stage(1);
    const std::uint32_t z = p.transient(x_spec);
    p.collective(OpKind::broadcast, "release", p.pp_group, p.data_stream, p.persistent(x_spec), z);
    p.batch("send", {p.send(p.previous, 1, z)});
    CHECK(found(p) ==
          "deadlock: these wait for each other: "
          "rank 0 op 0 point-to-point receive forward waits for rank 1 op 1 point-to-point send forward to be posted; "
          "rank 1 op 1 point-to-point send forward waits for rank 1 op 0 broadcast release forward to end; "
          "rank 1 op 0 broadcast release forward waits for rank 0 op 1 broadcast release forward to be posted; "
          "rank 0 op 1 broadcast release forward waits for rank 0 op 0 point-to-point receive forward to end");
  }
}

TEST_CASE("a program also ends when each rank runs one communication at a time") {
  // Two broadcasts on two streams, issued in opposite orders: each stream alone gets on, one device does not.
  HandMade p(1, 1, 2);
  for (const std::size_t stage : {0u, 1u}) {
    p.on_stage(stage);
    const auto broadcast = [&](const std::string& label, std::uint8_t stream) {
      p.collective(OpKind::broadcast, label, p.pp_group, stream, p.persistent(x_spec), p.persistent(x_spec));
    };
    if (stage == 0) broadcast("first", p.data_stream);
    broadcast("second", p.tensor_stream);
    if (stage == 1) broadcast("first", p.data_stream);
  }
  CHECK(found(p) ==
        "serial-deadlock: with one communication at a time these wait for each other: "
        "rank 0 op 0 broadcast first forward waits for rank 1 op 1 broadcast first forward to be posted; "
        "rank 1 op 1 broadcast first forward waits for rank 1 op 0 broadcast second forward to end; "
        "rank 1 op 0 broadcast second forward waits for rank 0 op 1 broadcast second forward to be posted; "
        "rank 0 op 1 broadcast second forward waits for rank 0 op 0 broadcast first forward to end");
}

TEST_CASE("a fault is reported once for all ranks of a body, and no more faults than asked for") {
  HandMade p(4, 4, 1);
  for (int i = 0; i < 5; ++i) p.used(p.transient(x_spec));
  CHECK(verify(p.program()).size() == 5);
  CHECK(verify(p.program(), 2).size() == 2);
}

}  // namespace
}  // namespace meshweave
