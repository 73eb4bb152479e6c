#include "sim/program/waits.h"

#include <algorithm>

#include "sim/program/cells.h"

namespace meshweave {
namespace {

// Walks the doubled body in issue order and keeps, per op, a vector clock over the streams. Ops are numbered
// from 1 over both steps, so that 0 means none.
class Deriver {
 public:
  Deriver(const Program& program, const Body& body)
      : program_(program),
        body_(body),
        streams_(program.streams.size()),
        cells_(cut_storages(program, body)),
        clock_(2 * body.ops.size() * streams_, 0),
        issued_(streams_, 0),
        needs_(streams_, 0),
        writer_(cells_.count(), 0),
        reader_(cells_.count() * streams_, 0) {}

  Waits derive() {
    const auto ops = static_cast<std::uint32_t>(body_.ops.size());
    waits_.streams = streams_;
    waits_.first.reserve(ops + 1);
    for (const std::uint32_t ops_before : {0u, ops}) {
      step_begin_ = ops_before;
      waits_.first.clear();
      waits_.waits.clear();
      for (std::uint32_t op = 0; op < ops; ++op) visit(op);
      waits_.first.push_back(static_cast<std::uint32_t>(waits_.waits.size()));
    }
    keep_clock_of_this_step(ops);
    return std::move(waits_);
  }

 private:
  std::uint32_t* clock_of(std::uint32_t number) { return clock_.data() + (number - 1) * streams_; }

  void visit(std::uint32_t op_index) {
    const Op& op = body_.ops[op_index];
    const std::uint8_t stream = program_.spec(op).stream;
    const std::uint32_t number = step_begin_ + op_index + 1;
    std::fill(needs_.begin(), needs_.end(), 0);
    if (stream != 0) needs_[0] = issued_[0];
    collect_conflicts(op);
    waits_.first.push_back(static_cast<std::uint32_t>(waits_.waits.size()));
    advance_clock(number, stream);
    record_accesses(op, number, stream);
    issued_[stream] = number;
  }

  // For each stream the latest op that touched a cell of this one, where one of the two writes. An earlier
  // writer or a reader before the last writer needs no record: the last writer has waited for it.
  void collect_conflicts(const Op& op) {
    for (const std::uint32_t t : program_.reads(body_, op)) {
      const Cells::Range range = cells_.of_tensor[t];
      for (std::uint32_t cell = range.first; cell < range.last; ++cell) need_writer(cell);
    }
    for (const std::uint32_t t : program_.writes(body_, op)) {
      const Cells::Range range = cells_.of_tensor[t];
      for (std::uint32_t cell = range.first; cell < range.last; ++cell) {
        need_writer(cell);
        for (std::size_t s = 0; s < streams_; ++s) need(cell, s, reader_[cell * streams_ + s]);
      }
    }
  }

  void need_writer(std::uint32_t cell) {
    const std::uint32_t number = writer_[cell];
    if (number != 0) need(cell, stream_of(number), number);
  }

  // A transient storage of the step before is another storage.
  void need(std::uint32_t cell, std::size_t stream, std::uint32_t number) {
    if (number > needs_[stream] && (number > step_begin_ || body_.storages[cells_.storage[cell]].persistent))
      needs_[stream] = number;
  }

  // Starts from the clock of the op before on the stream, then takes the needs from the latest to the
  // earliest: what one of them has seen need not be waited for again.
  void advance_clock(std::uint32_t number, std::uint8_t stream) {
    std::uint32_t* clock = clock_of(number);
    if (issued_[stream] != 0) observe(clock, issued_[stream], stream);
    needs_[stream] = 0;
    while (true) {
      const auto latest = std::max_element(needs_.begin(), needs_.end());
      if (*latest == 0) break;
      const auto awaited_stream = static_cast<std::size_t>(latest - needs_.begin());
      if (*latest > clock[awaited_stream]) {
        add_wait(*latest);
        observe(clock, *latest, awaited_stream);
      }
      *latest = 0;
    }
  }

  // `clock` after the end of op `number`, which runs on `stream`.
  void observe(std::uint32_t* clock, std::uint32_t number, std::size_t stream) {
    const std::uint32_t* seen = clock_of(number);
    for (std::size_t s = 0; s < streams_; ++s) clock[s] = std::max(clock[s], seen[s]);
    clock[stream] = std::max(clock[stream], number);
  }

  void add_wait(std::uint32_t number) {
    const auto ops = static_cast<std::uint32_t>(body_.ops.size());
    waits_.waits.push_back({(number - 1) % ops, number <= step_begin_});
  }

  void record_accesses(const Op& op, std::uint32_t number, std::uint8_t stream) {
    for (const std::uint32_t t : program_.reads(body_, op)) {
      const Cells::Range range = cells_.of_tensor[t];
      for (std::uint32_t cell = range.first; cell < range.last; ++cell) reader_[cell * streams_ + stream] = number;
    }
    for (const std::uint32_t t : program_.writes(body_, op)) {
      const Cells::Range range = cells_.of_tensor[t];
      for (std::uint32_t cell = range.first; cell < range.last; ++cell) writer_[cell] = number;
    }
  }

  std::uint8_t stream_of(std::uint32_t number) const {
    return program_.spec(body_.ops[(number - 1) % body_.ops.size()]).stream;
  }

  void keep_clock_of_this_step(std::uint32_t ops) {
    waits_.clock.resize(ops * streams_);
    const std::uint32_t* second = clock_.data() + ops * streams_;
    for (std::size_t i = 0; i < waits_.clock.size(); ++i) waits_.clock[i] = second[i] > ops ? second[i] - ops : 0;
  }

  const Program& program_;
  const Body& body_;
  const std::size_t streams_;
  const Cells cells_;
  std::vector<std::uint32_t> clock_;   // by op number − 1 and stream
  std::vector<std::uint32_t> issued_;  // by stream: the latest op
  std::vector<std::uint32_t> needs_;   // by stream: the latest op that the current one conflicts with
  std::vector<std::uint32_t> writer_;  // by cell: the latest op that wrote it
  std::vector<std::uint32_t> reader_;  // by cell and stream: the latest op that read it
  std::uint32_t step_begin_ = 0;       // ops before the current step
  Waits waits_;
};

}  // namespace

Waits derive_waits(const Program& program, const Body& body) { return Deriver(program, body).derive(); }

}  // namespace meshweave
