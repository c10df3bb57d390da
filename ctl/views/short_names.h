// Names of functions as people read them: without parameters, template arguments and packages.
//
//     std::__cxx11::basic_string<char, ...>::append(char const*)   std::string::append
//     void parse<int>(std::vector<int> const&)                     parse
//     <alloc::vec::Vec<T> as core::ops::Drop>::drop::h0123...      alloc::vec::Vec::drop
//     github.com/x/store.(*Map[go.shape.int]).Get                  store.(*Map).Get
//     int java.util.HashMap.getNode(java.lang.Object)              HashMap.getNode
//
// Functions whose short names are equal count as one in a view: an instance of a template for each
// type is one function to its author.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace profd {

enum class NameForm : std::uint8_t { kShort, kFull };

// Never empty unless `name` is. Takes time in proportion to the length of the name.
[[nodiscard]] std::string short_name(std::string_view name);

}  // namespace profd
