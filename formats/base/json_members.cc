#include "formats/base/json_members.h"

#include <algorithm>

#include <boost/json/string.hpp>

#include "formats/base/errors.h"

namespace profd {
namespace {

namespace json = boost::json;

// An error for a number with a point or an exponent, and for one that T does not hold.
template <class T>
Result<void> read_whole_number(const json::value& value, T& out, std::string_view expected) {
  boost::system::error_code error;
  if (!value.is_number() || value.is_double()) return json_expected(expected);
  out = value.to_number<T>(error);
  return error ? Result<void>(json_expected(expected)) : Result<void>();
}

}  // namespace

Error json_expected(std::string_view what) { return malformed(": expected " + std::string(what)); }

Error json_inside(std::string_view place, Error error) {
  const bool names_a_member =
      std::string_view(":[").find(error.message.front()) == std::string_view::npos;
  error.message.insert(0, std::string(place) + (names_a_member ? "." : ""));
  return error;
}

std::string json_at_top(std::string message) {
  constexpr std::string_view kNoPlace = ": ";
  if (message.starts_with(kNoPlace)) message.erase(0, kNoPlace.size());
  return message;
}

Result<void> read_json(const json::value& value, bool& out) {
  if (!value.is_bool()) return json_expected("true or false");
  out = value.get_bool();
  return {};
}

Result<void> read_json(const json::value& value, std::uint64_t& out) {
  return read_whole_number(value, out, "a whole number, not negative");
}

Result<void> read_json(const json::value& value, std::uint32_t& out) {
  return read_whole_number(value, out, "a whole number from 0 to 4294967295");
}

Result<void> read_json(const json::value& value, double& out) {
  if (!value.is_number()) return json_expected("a number");
  out = value.to_number<double>();
  return {};
}

Result<void> read_json(const json::value& value, std::string& out) {
  const auto* const text = value.if_string();
  if (text == nullptr) return json_expected("a string");
  out.assign(text->data(), text->size());
  return {};
}

Result<void> read_json(const json::value& value, std::map<std::string, std::uint64_t>& out) {
  const auto* const object = value.if_object();
  if (object == nullptr) return json_expected("an object of counts");
  out.clear();
  for (const json::key_value_pair& member : *object) {
    std::uint64_t& count = out[member.key()];
    if (auto read = read_whole_number(member.value(), count, "an object of counts"); !read) {
      return read;
    }
  }
  return {};
}

JsonReader::JsonReader(const json::value& value) : object_(value.if_object()) {
  if (object_ == nullptr) error_ = json_expected("an object");
}

const json::value* JsonReader::find(std::string_view key) {
  if (object_ == nullptr) return nullptr;
  known_.push_back(key);
  const json::value* const value = object_->if_contains(key);
  return value != nullptr && value->is_null() ? nullptr : value;
}

void JsonReader::keep(std::string_view key, Error error) {
  if (!error_) error_ = json_inside(key, std::move(error));
}

Result<void> JsonReader::finish() const {
  if (error_) return *error_;
  if (!is_strict_) return {};
  for (const json::key_value_pair& member : *object_) {
    if (std::ranges::find(known_, std::string_view(member.key())) == known_.end()) {
      return malformed(std::string(member.key()) + ": no such field");
    }
  }
  return {};
}

}  // namespace profd
