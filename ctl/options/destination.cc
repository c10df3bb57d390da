#include "ctl/options/destination.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "formats/base/errors.h"

namespace profd {
namespace {

struct KnownForm {
  std::string_view name;
  std::string_view extension;  // empty: none
  ResultForm form;
};
constexpr auto kForms =
    std::to_array<KnownForm>({{"dir", "", ResultForm::kDirectory},
                              {"pprof", ".pb.gz", ResultForm::kPprof},
                              {"folded", ".folded", ResultForm::kFolded},
                              {"speedscope", ".speedscope.json", ResultForm::kSpeedscope}});

// Of a file in a form that profctl does not write, where a directory is hardly what was meant.
constexpr auto kOtherExtensions =
    std::to_array<std::string_view>({".json", ".pb", ".gz", ".pprof", ".svg", ".html"});

constexpr const char* kFormatHint = "give --format pprof, folded, speedscope or dir";
constexpr const char* kStreamHint = "give --format pprof, folded or speedscope";

bool has_other_extension(const std::string& output) {
  return std::ranges::any_of(kOtherExtensions,
                             [&](std::string_view end) { return output.ends_with(end); });
}

std::string hint_of_extension(const std::string& output) {
  const bool is_flame = output.ends_with(".svg") || output.ends_with(".html");
  return std::string(is_flame ? "'profctl flame -o' draws a flame graph of a source; here, " : "") +
         "give .pb.gz, .folded or .speedscope.json, or --format";
}

}  // namespace

Result<Destination> make_destination(const std::string& output, const std::string& format) {
  if (format.empty() && output == "-") {
    return invalid_argument("standard output needs a format", kStreamHint);
  }
  const auto* const known = std::ranges::find_if(kForms, [&](const KnownForm& form) {
    if (!format.empty()) return form.name == format;
    return !form.extension.empty() && output.ends_with(form.extension);
  });
  if (known == kForms.end()) {
    if (format.empty() && has_other_extension(output)) {
      return invalid_argument("the extension of '" + output + "' names no form of a profile",
                              hint_of_extension(output));
    }
    if (format.empty()) return Destination{.path = output};
    return invalid_argument("invalid --format '" + format + "'", kFormatHint);
  }
  if (known->form == ResultForm::kDirectory && output == "-") {
    return invalid_argument("a directory cannot go to standard output", kStreamHint);
  }
  if (known->form != ResultForm::kDirectory && output.empty()) {
    return invalid_argument("--format " + format + " needs a file",
                            "name one: -o FILE" + std::string(known->extension) + ", or -o -");
  }
  return Destination{.path = output, .form = known->form};
}

Result<Destination> split_destination(Destination destination, const std::string& key) {
  const Result<PprofSplitKey> by = parse_split_key(key);
  if (!by) return by.error();
  const bool is_file =
      destination.path == "-" || std::ranges::any_of(kForms, [&](const auto& form) {
        return !form.extension.empty() && destination.path.ends_with(form.extension);
      });
  if (is_file) {
    return invalid_argument("--by writes several files, and '" + destination.path + "' is one",
                            "name a directory: -o DIR");
  }
  destination.by = *by;
  if (destination.form == ResultForm::kDirectory) destination.form = ResultForm::kPprof;
  return destination;
}

std::string extension_of(ResultForm form) {
  const auto* const known = std::ranges::find(kForms, form, &KnownForm::form);
  return known == kForms.end() ? std::string() : std::string(known->extension);
}

}  // namespace profd
