// Text for people: what a terminal would obey is made visible, and counts agree with their nouns.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace meshweave {

// Length of the well-formed UTF-8 sequence at the front of `text` (RFC 3629); 0 where there is none.
std::size_t utf8_length(std::string_view text);

// Whether the well-formed UTF-8 sequence is a control character: C0, DEL or C1.
bool is_control(std::string_view sequence);

// `text` on one line and without effect on a terminal: control characters become "\n", "\t", "\x1b" and the like,
// bytes that are not UTF-8 "\xff". Names and messages may hold anything; files and the command line bring it.
std::string escaped(std::string_view text);

std::string count_text(std::int64_t count, std::string_view noun);  // "1 rank", "2 ranks", "2 micro-batches"

}  // namespace meshweave
