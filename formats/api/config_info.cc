#include "formats/api/config_info.h"

#include "formats/base/json_members.h"

namespace profd {

void members(auto& fields, Is<ConfigInfo::Value> auto& value) {
  fields.required("key", value.key)
      .required("value", value.value)
      .required("origin", value.origin)
      .optional("reloads", value.reloads)
      .if_set("after_restart", value.after_restart);
}

void members(auto& fields, Is<ConfigInfo> auto& info) {
  fields.required("values", info.values)
      .required("files", info.files)
      .required("read", info.read)
      .required("problems", info.problems);
}

std::string to_json(const ConfigInfo& info) { return json_text(json_of(info)); }

Result<ConfigInfo> parse_config_info(std::string_view text) { return parse_as<ConfigInfo>(text); }

}  // namespace profd
