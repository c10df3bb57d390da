// Reads a JSON object into a struct, field by field, with the first failure kept and named by its
// place ("profiles[3].pid: expected a whole number"), so that a reader is a list of its fields.
//
// A struct becomes readable, also as an element or a member, by a function `Result<void>
// read_json(const boost::json::value&, T&)` beside it.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <boost/json/value.hpp>

#include "formats/base/json_text.h"
#include "formats/base/result.h"

namespace profd {

// An error without a place yet: readers put theirs before it, from the inside out.
[[nodiscard]] Error json_expected(std::string_view what);
[[nodiscard]] Error json_inside(std::string_view place, Error error);

[[nodiscard]] Result<void> read_json(const boost::json::value& value, bool& out);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, std::uint32_t& out);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, std::uint64_t& out);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, double& out);
[[nodiscard]] Result<void> read_json(const boost::json::value& value, std::string& out);
[[nodiscard]] Result<void> read_json(const boost::json::value& value,
                                     std::map<std::string, std::uint64_t>& out);

template <class T>
[[nodiscard]] Result<void> read_json(const boost::json::value& value, std::optional<T>& out) {
  return read_json(value, out.emplace());
}

template <class T>
[[nodiscard]] Result<void> read_json(const boost::json::value& value, std::vector<T>& out) {
  const auto* const array = value.if_array();
  if (array == nullptr) return json_expected("a list");
  out.clear();
  for (const boost::json::value& element : *array) {
    if (auto read = read_json(element, out.emplace_back()); !read) {
      return json_inside("[" + std::to_string(out.size() - 1) + "]", read.error());
    }
  }
  return {};
}

class JsonFields {
 public:
  // Borrows `value` for its life.
  explicit JsonFields(const boost::json::value& value);

  // Absent: an error.
  template <class T>
  JsonFields& required(std::string_view key, T& out) {
    if (!read(key, out)) keep(key, json_expected("a value"));
    return *this;
  }

  // Absent or null: `out` stays as it is.
  template <class T>
  JsonFields& optional(std::string_view key, T& out) {
    (void)read(key, out);
    return *this;
  }

  // As optional(); to write, a member without a value is left out (json_members.h).
  template <class T>
  JsonFields& if_set(std::string_view key, std::optional<T>& out) {
    return optional(key, out);
  }

  // Members that were not asked for are ignored by finish(), and named as an error by
  // finish_strict().
  [[nodiscard]] Result<void> finish() const;
  [[nodiscard]] Result<void> finish_strict() const;

 private:
  const boost::json::value* find(std::string_view key);
  void keep(std::string_view key, Error error);

  // False: there is none.
  template <class T>
  bool read(std::string_view key, T& out) {
    const boost::json::value* const value = find(key);
    if (value == nullptr) return false;
    if (auto result = read_json(*value, out); !result) keep(key, result.error());
    return true;
  }

  const boost::json::object* object_;
  std::vector<std::string> asked_;
  std::optional<Error> error_;
};

// A whole text as one T, by T's read_json.
template <class T>
[[nodiscard]] Result<T> parse_as(std::string_view text, std::size_t max_depth) {
  const auto value = parse_json(text, max_depth);
  if (!value) return value.error();
  T out;
  if (auto read = read_json(*value, out); !read) return read.error();
  return out;
}

}  // namespace profd
