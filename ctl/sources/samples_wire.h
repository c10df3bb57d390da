// Samples as bytes, for the way from a sandboxed child: the files that other users wrote are read
// there.

#pragma once

#include <string>
#include <string_view>

#include "ctl/views/samples.h"
#include "formats/base/result.h"

namespace profd {

[[nodiscard]] std::string encode_samples(const Samples& samples);

// kMalformed: an index lies outside its table, or a value is negative.
[[nodiscard]] Result<Samples> decode_samples(std::string_view bytes);

}  // namespace profd
