#include "formats/config_info.h"

#include <utility>

#include <boost/json/array.hpp>
#include <boost/json/object.hpp>

#include "formats/json_fields.h"

namespace profd {
namespace {

namespace json = boost::json;

constexpr std::size_t kMaxDepth = 6;

json::array texts_json(const std::vector<std::string>& texts) {
  json::array array;
  for (const std::string& text : texts) array.emplace_back(text);
  return array;
}

}  // namespace

Result<void> read_json(const json::value& value, ConfigInfo::Value& out) {
  return JsonFields(value)
      .required("key", out.key)
      .required("value", out.value)
      .required("origin", out.origin)
      .optional("reloads", out.reloads)
      .optional("after_restart", out.after_restart)
      .finish();
}

Result<void> read_json(const json::value& value, ConfigInfo& out) {
  return JsonFields(value)
      .required("values", out.values)
      .required("files", out.files)
      .required("read", out.read)
      .required("problems", out.problems)
      .finish();
}

std::string to_json(const ConfigInfo& info) {
  json::array values;
  for (const ConfigInfo::Value& value : info.values) {
    json::object object{{"key", value.key},
                        {"value", value.value},
                        {"origin", value.origin},
                        {"reloads", value.reloads}};
    if (value.after_restart) object["after_restart"] = *value.after_restart;
    values.push_back(std::move(object));
  }
  return json_text(json::object{{"values", std::move(values)},
                                {"files", texts_json(info.files)},
                                {"read", info.read},
                                {"problems", texts_json(info.problems)}});
}

Result<ConfigInfo> parse_config_info(std::string_view text) {
  return parse_as<ConfigInfo>(text, kMaxDepth);
}

}  // namespace profd
