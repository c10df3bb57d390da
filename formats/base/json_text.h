// JSON values to text and back: Boost.JSON, with what the interfaces of profd need on top.

#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include <boost/json/value.hpp>

#include "formats/base/result.h"

namespace profd {

// One line, members in the order of insertion. Numbers are written as people write them: 5.25 and
// 10, where Boost.JSON itself writes 5.25E0 and 1E1. Bytes that are not UTF-8 become U+FFFD: a
// process can choose any name, and one such name must not make the whole text unreadable.
[[nodiscard]] std::string json_text(const boost::json::value& value);

// kMalformed, with the byte offset: the text is not one JSON value, or is nested deeper than
// `max_depth`.
[[nodiscard]] Result<boost::json::value> parse_json(std::string_view text, std::size_t max_depth);

}  // namespace profd
