#include "formats/jit_names.h"

#include <algorithm>

#include "formats/json_fields.h"

namespace profd {

void add_later(const JitNames& later, JitNames& sum) {
  if (!later.runtime.empty()) sum.runtime = later.runtime;
  if (!later.file.empty()) sum.file = later.file;
  sum.functions = std::max(sum.functions, later.functions);
  sum.samples += later.samples;
  sum.named_samples += later.named_samples;
}

boost::json::object jit_names_json(const JitNames& names) {
  return {{"runtime", names.runtime},
          {"file", names.file},
          {"functions", names.functions},
          {"samples", names.samples},
          {"named_samples", names.named_samples}};
}

Result<void> read_json(const boost::json::value& value, JitNames& out) {
  return JsonFields(value)
      .required("runtime", out.runtime)
      .required("file", out.file)
      .required("functions", out.functions)
      .required("samples", out.samples)
      .required("named_samples", out.named_samples)
      .finish();
}

}  // namespace profd
