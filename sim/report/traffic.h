// Bytes that the ranks of a program receive in a step, counted on the transfers that it executes.
//
// The rule of the TSP paper's comparison, for a group of D and N bytes:
//   all-gather, reduce-scatter, all-to-all   N(D−1)/D     N: the larger side; the rank's own input of an all-to-all
//   all-reduce                               2N(D−1)/D    the ring
//   broadcast, reduce                        N(D−1)/D     mean over the members; a loop over all owners of N bytes
//                                                         each gives each member (D−1)·N
//   point to point                           the messages received
// Whatever algorithm a collective is priced with, its bytes are counted by this rule.
#pragma once

#include <algorithm>
#include <array>
#include <functional>
#include <string_view>

#include "sim/program/program.h"

namespace meshweave {

// Purposes that transfers have.
constexpr std::size_t purpose_count = 5;
constexpr std::array<Purpose, purpose_count> all_purposes{Purpose::tensor, Purpose::context, Purpose::weights,
                                                          Purpose::pipeline, Purpose::data};
// The purpose of what runs on a communication stream.
Purpose purpose_of(const Stream& stream);

constexpr std::size_t transfer_kind_count = 7;
constexpr std::array<OpKind, transfer_kind_count> all_transfer_kinds{
    OpKind::all_reduce, OpKind::all_gather, OpKind::reduce_scatter, OpKind::broadcast,
    OpKind::reduce,     OpKind::all_to_all, OpKind::point_to_point};
static_assert(std::count_if(op_facts.begin(), op_facts.end(),
                            [](const OpFacts& facts) { return is_communication(facts.kind); }) == transfer_kind_count,
              "every communication is counted");

// Bytes per device: the mean over all ranks.
struct Traffic {
  std::array<std::array<double, transfer_kind_count>, purpose_count> bytes{};  // as the two lists above

  double of(OpKind kind) const;
  double of(Purpose purpose) const;
  double total() const;
};

// Of the ops that `counts` accepts; all of them where it is empty.
Traffic count_traffic(const Program& program, const std::function<bool(const Op&, const OpSpec&)>& counts = {});

}  // namespace meshweave
