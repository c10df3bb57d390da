// Structs to JSON objects and back, by one list of members for both directions.
//
// The list is a function template beside the struct. It names each member once, in the order in
// which members are written:
//
//     void members(auto& fields, Is<Range> auto& range) {
//       fields.required("first", range.first).optional("last", range.last);
//     }
//
// json_of(range) then writes a Range, and read_json(value, range) reads one, as an element of a
// list too. An error of reading names the place: "ranges[3].first: expected a whole number, not
// negative".
//
// A type that several source files read or write declares json_of() and read_json() for itself in
// its header, and defines them with write_members() and read_members().

#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>
#include <boost/json/value.hpp>

#include "formats/base/json_text.h"
#include "formats/base/result.h"

namespace profd {

inline constexpr std::size_t kMaxJsonDepth = 12;

// T is Of, or const Of when the list is used for writing.
template <class T, class Of>
concept Is = std::same_as<std::remove_const_t<T>, Of>;

// kMalformed: "expected WHAT". The readers around it put the place before the message, innermost
// first.
[[nodiscard]] Error json_expected(std::string_view what);
[[nodiscard]] Error json_inside(std::string_view place, Error error);
// The message for a value that is inside of nothing.
[[nodiscard]] std::string json_at_top(std::string message);

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

template <class T>
[[nodiscard]] boost::json::value json_of(const T& value);

[[nodiscard]] inline boost::json::value json_of(
    const std::map<std::string, std::uint64_t>& counts) {
  return boost::json::object(counts.begin(), counts.end());
}

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

// Reads a JSON object. The first failure is kept and ends up in finish().
class JsonReader {
 public:
  // Borrows `value`.
  explicit JsonReader(const boost::json::value& value);

  // Without the member, or with null for it, reading fails.
  template <class T>
  JsonReader& required(std::string_view key, T& out) {
    if (!read(key, out)) keep(key, json_expected("a value"));
    return *this;
  }

  // Without the member, or with null for it, `out` keeps its value.
  template <class T>
  JsonReader& optional(std::string_view key, T& out) {
    (void)read(key, out);
    return *this;
  }
  template <class T>
  JsonReader& if_set(std::string_view key, T& out) {
    return optional(key, out);
  }
  // As optional(), but 0, which stands for an absent member, is an error.
  JsonReader& if_positive(std::string_view key, std::uint64_t& out) {
    if (read(key, out) && out == 0) keep(key, json_expected("a number above 0"));
    return *this;
  }
  template <class T>
  JsonReader& derived(std::string_view, const T&) {
    return *this;
  }
  // Makes members that the list does not name an error; without it they are skipped.
  JsonReader& no_others() {
    is_strict_ = true;
    return *this;
  }

  [[nodiscard]] Result<void> finish() const;

 private:
  const boost::json::value* find(std::string_view key);
  void keep(std::string_view key, Error error);

  // False: the object has no such member.
  template <class T>
  bool read(std::string_view key, T& out) {
    const boost::json::value* const value = find(key);
    if (value == nullptr) return false;
    if (auto result = read_json(*value, out); !result) keep(key, result.error());
    return true;
  }

  const boost::json::object* object_;
  std::vector<std::string_view> known_;
  bool is_strict_ = false;
  std::optional<Error> error_;
};

// Writes a JSON object from the same list.
class JsonWriter {
 public:
  template <class T>
  JsonWriter& required(std::string_view key, const T& value) {
    object_.emplace(key, json_of(value));
    return *this;
  }
  template <class T>
  JsonWriter& optional(std::string_view key, const T& value) {
    return required(key, value);
  }
  // Leaves the member out when it has the value that T() has.
  template <class T>
  JsonWriter& if_set(std::string_view key, const T& value) {
    return value == T() ? *this : required(key, value);
  }
  JsonWriter& if_positive(std::string_view key, std::uint64_t value) { return if_set(key, value); }
  // A value that follows from the others: written, never read.
  template <class T>
  JsonWriter& derived(std::string_view key, const T& value) {
    return required(key, value);
  }
  JsonWriter& no_others() { return *this; }

  [[nodiscard]] boost::json::object take() { return std::move(object_); }

 private:
  boost::json::object object_;
};

template <class T>
concept HasMembers = requires(JsonReader& fields, T& value) {
  members(fields, value);
};

template <HasMembers T>
[[nodiscard]] Result<void> read_members(const boost::json::value& value, T& out) {
  JsonReader fields(value);
  members(fields, out);
  return fields.finish();
}

template <HasMembers T>
[[nodiscard]] Result<void> read_json(const boost::json::value& value, T& out) {
  return read_members(value, out);
}

// Parses a text as one T. kMalformed for a text that is no JSON, `code` for JSON that is no T.
template <class T>
[[nodiscard]] Result<T> parse_as(std::string_view text, std::size_t max_depth = kMaxJsonDepth,
                                 ErrorCode code = ErrorCode::kMalformed) {
  const auto value = parse_json(text, max_depth);
  if (!value) return value.error();
  T out;
  if (auto read = read_json(*value, out); !read)
    return fail(code, json_at_top(read.error().message));
  return out;
}

// A request of a client: kInvalidArgument for JSON that is no T.
template <class T>
[[nodiscard]] Result<T> parse_request(std::string_view text,
                                      std::size_t max_depth = kMaxJsonDepth) {
  return parse_as<T>(text, max_depth, ErrorCode::kInvalidArgument);
}

template <HasMembers T>
[[nodiscard]] boost::json::object write_members(const T& value) {
  JsonWriter fields;
  members(fields, value);
  return fields.take();
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
