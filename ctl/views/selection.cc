#include "ctl/views/selection.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <set>
#include <utility>

#include <re2/re2.h>

#include "ctl/views/short_names.h"
#include "formats/base/errors.h"
#include "formats/base/utf8_text.h"

namespace profd {
namespace {

constexpr std::int64_t kMaxPatternMemory = std::int64_t{8} << 20;
constexpr std::size_t kMaxSearchedBytes = 4096;  // of one name

constexpr std::uint8_t kFocus = 1;
constexpr std::uint8_t kIgnore = 2;
constexpr std::uint8_t kHide = 4;
constexpr std::uint8_t kWithin = 8;

std::uint8_t marks_needed(const SelectionPatterns& patterns) {
  const bool has_focus = !patterns.focus.empty() || !patterns.focus_names.empty();
  const bool has_within = !patterns.within.empty();
  return static_cast<std::uint8_t>((has_focus ? kFocus : 0) | (has_within ? kWithin : 0));
}

RE2::Options options_of_names() {
  RE2::Options options(RE2::Quiet);
  options.set_max_mem(kMaxPatternMemory);
  return options;
}

std::unique_ptr<RE2> compiled(const std::string& pattern) {
  return std::make_unique<RE2>(pattern, options_of_names());
}

bool is_found(const RE2& expression, std::string_view text) {
  text = text.substr(0, kMaxSearchedBytes);
  return RE2::PartialMatch(re2::StringPiece(text.data(), text.size()), expression);
}

bool is_found_in(const RE2& expression, const Samples& samples, const SampledFunction& function) {
  const std::string_view name = samples.text(function.name);
  return is_found(expression, name) || is_found(expression, short_name(name)) ||
         is_found(expression, samples.text(function.file)) ||
         is_found(expression, samples.text(function.object));
}

// Sets the flag of the functions that match one of the patterns.
void mark(const Samples& samples, const std::vector<std::string>& patterns, std::uint8_t flag,
          std::vector<std::uint8_t>& by_function) {
  for (const std::string& pattern : patterns) {
    const auto expression = compiled(pattern);
    for (std::size_t i = 0; i < by_function.size(); ++i) {
      if (is_found_in(*expression, samples, samples.functions()[i])) by_function[i] |= flag;
    }
  }
}

// The same for names.
void mark_names(const Samples& samples, const std::vector<std::string>& names, std::uint8_t flag,
                std::vector<std::uint8_t>& by_function) {
  const std::vector<bool> found = functions_shown_as(samples, names);
  for (std::size_t i = 0; i < by_function.size(); ++i) {
    if (found[i]) by_function[i] |= flag;
  }
}

}  // namespace

std::vector<bool> functions_shown_as(const Samples& samples,
                                     const std::vector<std::string>& names) {
  const auto functions = samples.functions();
  std::vector<bool> found(functions.size());
  if (names.empty()) return found;
  const auto is_wanted = [&](std::string_view name) {
    return std::ranges::find(names, printable_utf8(name, kMaxPrintableBytes)) != names.end();
  };
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string_view full = samples.text(functions[i].name);
    found[i] = is_wanted(full) || is_wanted(short_name(full));
  }
  return found;
}

SelectionPatterns narrowed(const SelectionPatterns& source, SelectionPatterns request) {
  const auto append = [](const std::vector<std::string>& from, std::vector<std::string>& to) {
    to.insert(to.end(), from.begin(), from.end());
  };
  append(source.focus, request.within);
  append(source.ignore, request.ignore);
  append(source.hide, request.hide);
  return request;
}

std::string describe(const SelectionPatterns& patterns) {
  std::string text;
  for (const auto& [option, list] :
       {std::pair("--focus", &patterns.focus), std::pair("--ignore", &patterns.ignore),
        std::pair("--hide", &patterns.hide)}) {
    for (const std::string& pattern : *list) {
      text += (text.empty() ? "" : " ") + std::string(option) + " " + pattern;
    }
  }
  return text;
}

Result<void> check_pattern_of_names(const std::string& pattern) {
  const auto expression = compiled(pattern);
  if (expression->ok()) return {};
  return invalid_argument(
      "'" + pattern.substr(0, 64) + "' is not a regular expression: " + expression->error(),
      "the syntax is RE2's: ^main$, Cache::.*, memcpy|memmove");
}

std::vector<bool> texts_with(const std::string& pattern, std::span<const std::string> texts) {
  const auto expression = compiled(pattern);
  std::vector<bool> found;
  found.reserve(texts.size());
  for (const std::string& text : texts) found.push_back(is_found(*expression, text));
  return found;
}

Result<std::vector<bool>> find_functions(const Samples& samples, const std::string& name) {
  const auto functions = samples.functions();
  std::vector<bool> found(functions.size());
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string_view full = samples.text(functions[i].name);
    found[i] = full == name || short_name(full) == name;
  }
  if (std::ranges::find(found, true) != found.end()) return found;
  if (auto checked = check_pattern_of_names(name); !checked) return checked.error();
  const auto expression = compiled(name);
  for (std::size_t i = 0; i < functions.size(); ++i) {
    const std::string_view full = samples.text(functions[i].name);
    found[i] = is_found(*expression, full) || is_found(*expression, short_name(full));
  }
  if (std::ranges::find(found, true) != found.end()) return found;
  return fail(ErrorCode::kNotFound, "no function '" + name.substr(0, 64) + "' in these samples",
              "give its name as 'profctl report' shows it, or a regular expression");
}

std::vector<std::string> shown_names_of(const Samples& samples, const std::vector<bool>& functions,
                                        NameForm form) {
  std::set<std::string> names;
  for (std::size_t i = 0; i < functions.size(); ++i) {
    if (!functions[i]) continue;
    const std::string_view full = samples.text(samples.functions()[i].name);
    const std::string name = form == NameForm::kFull ? std::string(full) : short_name(full);
    names.insert(name.empty() ? "[unknown]" : name);
  }
  return {names.begin(), names.end()};
}

Selection::Selection(const Samples& samples, const SelectionPatterns& patterns)
    : samples_(samples), needed_(marks_needed(patterns)) {
  if (patterns.empty()) return;
  std::vector<std::uint8_t> by_function(samples.functions().size());
  mark(samples, patterns.focus, kFocus, by_function);
  mark(samples, patterns.ignore, kIgnore, by_function);
  mark(samples, patterns.hide, kHide, by_function);
  mark(samples, patterns.within, kWithin, by_function);
  mark_names(samples, patterns.focus_names, kFocus, by_function);
  mark_names(samples, patterns.hide_names, kHide, by_function);
  for (const SampledFrame& frame : samples.frames()) marks_.push_back(by_function[frame.function]);
}

bool Selection::shows(std::uint8_t joined) const {
  return (joined & needed_) == needed_ && (joined & kIgnore) == 0;
}

bool Selection::hides(std::uint8_t marks) { return (marks & kHide) != 0; }

}  // namespace profd
