// Random bodies for the property tests: a few streams, transient storages of one tensor, persistent storages
// under overlapping views. The operands carry no meaning beyond the bytes that they touch.
#pragma once

#include <random>

#include "sim/program/builder.h"

namespace meshweave::test {

inline int uniform(std::mt19937& random, int first, int last) {
  return std::uniform_int_distribution<int>(first, last)(random);
}

inline std::uint32_t byte_spec(ProgramBuilder& builder, std::int64_t bytes) {
  TensorSpec spec;
  spec.name = "t";
  spec.dimensions[0].size = bytes;
  spec.rank = 1;
  spec.dtype = DType::uint8;
  return builder.tensor_spec(spec);
}

inline std::vector<std::uint32_t> some_of(std::mt19937& random, std::size_t tensors, int most) {
  std::vector<std::uint32_t> chosen;
  for (int n = uniform(random, 0, most); n > 0; --n) {
    chosen.push_back(static_cast<std::uint32_t>(uniform(random, 0, static_cast<int>(tensors) - 1)));
  }
  return chosen;
}

inline Program random_body(unsigned seed) {
  std::mt19937 random(seed);
  ProgramBuilder builder;
  builder.program().grids.emplace_back(Degrees{.dp = 2}, "dp", 0);
  const StreamKind kinds[] = {StreamKind::compute, StreamKind::tensor, StreamKind::pipeline, StreamKind::data};
  const int streams = uniform(random, 1, 4);
  for (int s = 0; s < streams; ++s) builder.stream(kinds[s]);

  Body& body = builder.add_body("random");
  for (int i = uniform(random, 1, 8); i > 0; --i) {
    const std::uint32_t spec = byte_spec(builder, uniform(random, 1, 9));
    builder.transient(body, spec, static_cast<Category>(uniform(random, 3, 6)), {});
  }
  for (int i = uniform(random, 0, 3); i > 0; --i) {
    const bool persistent = uniform(random, 0, 3) != 0;
    const std::uint32_t storage = builder.storage(body, 24, Category::main_gradients, persistent);
    for (int views = uniform(random, 1, 5); views > 0; --views) {
      const int offset = uniform(random, 0, 15);
      const int bytes = uniform(random, 1, 8);
      const bool sharded = offset + 2 * bytes <= 24 && uniform(random, 0, 4) == 0;
      builder.view(body, byte_spec(builder, bytes), storage, offset, {},
                   sharded ? builder.shard({0, {{Axis::dp, 1, 2}}}) : no_shard);
    }
  }
  for (int i = uniform(random, 1, 30); i > 0; --i) {
    OpSpec spec;
    spec.stream = static_cast<std::uint8_t>(uniform(random, 0, streams - 1));
    builder.append(body, spec, some_of(random, body.tensors.size(), 3), some_of(random, body.tensors.size(), 2), {});
  }
  builder.program().body_of_rank.assign(2, 0);
  return builder.take();
}

}  // namespace meshweave::test
