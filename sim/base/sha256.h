// SHA-256 (FIPS 180-4), for the provenance of inputs.
#pragma once

#include <string>
#include <string_view>

namespace meshweave {

// 64 lower-case hexadecimal digits; sha256("abc") begins with ba7816bf.
std::string sha256(std::string_view data);

}  // namespace meshweave
