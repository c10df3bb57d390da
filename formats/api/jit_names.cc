#include "formats/api/jit_names.h"

#include <algorithm>

#include "formats/base/json_members.h"

namespace profd {

void add_later(const JitNames& later, JitNames& sum) {
  if (!later.runtime.empty()) sum.runtime = later.runtime;
  if (!later.file.empty()) sum.file = later.file;
  sum.functions = std::max(sum.functions, later.functions);
  sum.samples += later.samples;
  sum.named_samples += later.named_samples;
}

void members(auto& fields, Is<JitNames> auto& names) {
  fields.required("runtime", names.runtime)
      .required("file", names.file)
      .required("functions", names.functions)
      .required("samples", names.samples)
      .required("named_samples", names.named_samples);
}

boost::json::value json_of(const JitNames& names) { return write_members(names); }

Result<void> read_json(const boost::json::value& value, JitNames& out) {
  return read_members(value, out);
}

}  // namespace profd
