// One list of a struct's members for both directions, to JSON and back.
//
// A struct has it by a function template beside it, which names each member once, in the order in
// which they are written:
//
//     void members(auto& fields, Is<Range> auto& range) {
//       fields.required("first", range.first).optional("last", range.last);
//     }
//
// Reading is JsonFields': an absent member that is `required` is an error. Writing has them all,
// but for those `if_set` that have no value. A value that follows from the others, difference(), is
// written behind them and not read.
//
// A type that more than one source file reads or writes has functions of its own for that in a
// header, made of write_members() and read_members().

#pragma once

#include <concepts>
#include <optional>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "formats/api/session_summary.h"
#include "formats/base/json_fields.h"

namespace profd {

// `T` is `Of`, const where it is written.
template <class T, class Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

template <class T>
concept HasMembers = requires(JsonFields& fields, T& value) {
  members(fields, value);
};

template <HasMembers T>
[[nodiscard]] Result<void> read_members(const boost::json::value& value, T& out) {
  JsonFields fields(value);
  members(fields, out);
  return fields.finish();
}

template <HasMembers T>
[[nodiscard]] Result<void> read_json(const boost::json::value& value, T& out) {
  return read_members(value, out);
}

[[nodiscard]] inline boost::json::value json_of(const CountsByReason& counts) {
  return boost::json::object(counts.begin(), counts.end());
}

template <class T>
[[nodiscard]] boost::json::value json_of(const T& value);

template <class T>
[[nodiscard]] boost::json::value json_of(const std::optional<T>& value) {
  return value ? json_of(*value) : boost::json::value(nullptr);
}

template <class T>
[[nodiscard]] boost::json::value json_of(const std::vector<T>& values) {
  boost::json::array array;
  for (const T& value : values) array.push_back(json_of(value));
  return array;
}

// As JsonFields, to write.
class JsonMembers {
 public:
  template <class T>
  JsonMembers& required(std::string_view key, const T& value) {
    object_.emplace(key, json_of(value));
    return *this;
  }
  template <class T>
  JsonMembers& optional(std::string_view key, const T& value) {
    return required(key, value);
  }
  template <class T>
  JsonMembers& if_set(std::string_view key, const std::optional<T>& value) {
    return value ? required(key, *value) : *this;
  }

  [[nodiscard]] boost::json::object take() { return std::move(object_); }

 private:
  boost::json::object object_;
};

template <HasMembers T>
[[nodiscard]] boost::json::object write_members(const T& value) {
  JsonMembers written;
  members(written, value);
  if constexpr (requires { value.difference(); }) {
    written.required("difference", value.difference());
  }
  return written.take();
}

template <class T>
boost::json::value json_of(const T& value) {
  if constexpr (HasMembers<T>) {
    return write_members(value);
  } else {
    return boost::json::value(value);
  }
}

}  // namespace profd
