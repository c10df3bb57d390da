#include "ctl/commands/sample_form.h"

#include <algorithm>
#include <array>

#include "formats/base/errors.h"

namespace profd {
namespace {

struct NamedForm {
  std::string_view name;
  std::string_view extension;  // a longer one that ends in it comes first
  SampleForm form;
};
constexpr auto kSampleForms =
    std::to_array<NamedForm>({{"pprof", ".pb.gz", SampleForm::kPprof},
                              {"prof", ".prof", SampleForm::kProf},
                              {"folded", ".folded", SampleForm::kFolded},
                              {"speedscope", ".speedscope.json", SampleForm::kSpeedscope},
                              {"html", ".html", SampleForm::kHtml},
                              {"svg", ".svg", SampleForm::kSvg},
                              {"json", ".json", SampleForm::kJson},
                              {"trace", "", SampleForm::kTrace}});

}  // namespace

std::string_view name_of(SampleForm form) {
  return std::ranges::find(kSampleForms, form, &NamedForm::form)->name;
}

std::optional<SampleForm> form_of_extension(std::string_view path) {
  const auto* const known = std::ranges::find_if(kSampleForms, [path](const NamedForm& form) {
    return !form.extension.empty() && path.ends_with(form.extension);
  });
  if (known == kSampleForms.end()) return std::nullopt;
  return known->form;
}

Result<SampleForm> parse_sample_form(const std::string& name) {
  const auto* const known = std::ranges::find(kSampleForms, name, &NamedForm::name);
  if (known != kSampleForms.end()) return known->form;
  return invalid_argument("invalid --format '" + name.substr(0, 64) +
                              "' (pprof, prof, folded, speedscope, html, svg, json or trace)",
                          "'profctl convert --help' says what each is for");
}

}  // namespace profd
