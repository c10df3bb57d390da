// The forms of a file with samples that convert writes, by the extension of its name.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "formats/base/result.h"

namespace profd {

enum class SampleForm : std::uint8_t {
  kPprof,       // .pb.gz: profile.proto
  kProf,        // .prof: of gperftools
  kFolded,      // .folded
  kSpeedscope,  // .speedscope.json
  kHtml,        // .html
  kSvg,         // .svg
  kJson,        // .json: the tree of 'report --tree --json'
  kTrace,       // .json of XRay's traces: a timeline
};

[[nodiscard]] std::string_view name_of(SampleForm form);  // "pprof"

[[nodiscard]] std::optional<SampleForm> form_of_extension(std::string_view path);

// kInvalidArgument: no form has this name.
[[nodiscard]] Result<SampleForm> parse_sample_form(const std::string& name);

}  // namespace profd
